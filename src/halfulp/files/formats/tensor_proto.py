"""A TensorProto, ONNX's message of one tensor, as an array of NumPy.

May import errors and faults only, and imports onnx: whoever can do without it imports
this module when called.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from halfulp.errors import ModelError
from halfulp.faults import model_errors


def tensor_dtype(element_type: int, what: str) -> np.dtype[Any]:
    """Return the NumPy dtype of an element type.

    Raises
    ------
    ModelError
        If ONNX has no such type.
    """
    try:
        return onnx.helper.tensor_dtype_to_np_dtype(element_type)
    except KeyError:
        raise ModelError(
            f"{what} has element type {element_type}; allowed: the types of ONNX"
        ) from None


def read_tensor(tensor: TensorProto, what: str) -> npt.NDArray[Any]:
    """Return the array that a TensorProto holds.

    Raises
    ------
    ModelError
        If its data is elsewhere, or does not fit its type and shape.
    """
    if tensor.data_location == TensorProto.EXTERNAL:
        location = external_entries(tensor).get("location", "")
        raise ModelError(
            f"{what} has its data in the file {location!r}; "
            "allowed: data inside, or the model given as a path"
        )
    for size in tensor.dims:
        if size < 0:
            raise ModelError(f"{what} has dimension {size}; allowed: 0 or more")
    tensor_dtype(tensor.data_type, what)
    with model_errors(f"{what} cannot be read"):
        return onnx.numpy_helper.to_array(tensor)


def external_entries(tensor: TensorProto) -> dict[str, str]:
    """Return what a TensorProto says of where its data is."""
    return {entry.key: entry.value for entry in tensor.external_data}
