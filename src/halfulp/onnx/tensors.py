"""Tensors of ONNX as arrays of NumPy, and the names of their types.

May import errors and faults only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, TypeProto

from halfulp.errors import ModelError
from halfulp.faults import model_errors


def type_name(element_type: int) -> str:
    """Return ONNX's name of an element type, as in ``tensor(float)``."""
    try:
        return str(TensorProto.DataType.Name(element_type)).lower()
    except ValueError:
        return f"number {element_type}"


def dtype_code(dtype: np.dtype[Any]) -> int | None:
    """Return ONNX's number of a NumPy dtype of any byte order, if it has one."""
    try:
        return int(onnx.helper.np_dtype_to_tensor_dtype(dtype.newbyteorder("=")))
    except ValueError:
        return None


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return ONNX's name of a NumPy dtype, or NumPy's where ONNX has none."""
    code = dtype_code(dtype)
    return str(dtype) if code is None else type_name(code)


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


def tensor_type(element_type: int, shape: Iterable[int]) -> TypeProto:
    """Return the type of a tensor."""
    return onnx.helper.make_tensor_type_proto(element_type, list(shape))


def read_tensor(tensor: TensorProto, what: str) -> npt.NDArray[Any]:
    """Return the array that a TensorProto holds.

    Raises
    ------
    ModelError
        If its data is elsewhere, or does not fit its type and shape.
    """
    if tensor.data_location == TensorProto.EXTERNAL:
        location = {entry.key: entry.value for entry in tensor.external_data}
        raise ModelError(
            f"{what} has its data in the file {location.get('location', '')!r}; "
            "allowed: data inside, or the model given as a path"
        )
    for size in tensor.dims:
        if size < 0:
            raise ModelError(f"{what} has dimension {size}; allowed: 0 or more")
    tensor_dtype(tensor.data_type, what)
    with model_errors(f"{what} cannot be read"):
        return onnx.numpy_helper.to_array(tensor)
