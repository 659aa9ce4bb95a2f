"""Checks what is fed to a model against what it declares."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TypeProto, ValueInfoProto

from halfulp.arrays import as_array
from halfulp.element_types import in_native_order, is_float
from halfulp.errors import ArgumentError
from halfulp.faults import one_line
from halfulp.files.formats.tensor_proto import tensor_dtype
from halfulp.files.stored_types import SAVED_BFLOAT16
from halfulp.onnx.model.tensors import dtype_code, dtype_name, type_name


def check_inputs(
    declared: Sequence[ValueInfoProto],
    defaults: Collection[str],
    inputs: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what to feed, as arrays where the model declares tensors.

    Parameters
    ----------
    declared : sequence of onnx.ValueInfoProto
        The inputs of the graph.
    defaults : collection of str
        The inputs that may be left out.
    inputs : mapping of str to array_like
        Numbers without a dtype take the declared one. Data of dtype V2 is
        bfloat16 where that is declared: NumPy saves it so.

    Raises
    ------
    ArgumentError
        If an input is missing, unknown, or of another type or shape.
    """
    if not isinstance(inputs, Mapping):
        raise ArgumentError(
            f"inputs is a {type(inputs).__name__}; allowed: a mapping of names to arrays"
        )
    names = dict.fromkeys(value.name for value in declared)
    allowed = ", ".join(repr(name) for name in names) or "none"
    for name in inputs:
        if name not in names:
            raise ArgumentError(f"input {name!r} is unknown; allowed: {allowed}")
    for name in names:
        if name not in inputs and name not in defaults:
            raise ArgumentError(f"input {name!r} is missing; the model needs: {allowed}")
    return {
        value.name: _checked(value.name, value.type, inputs[value.name])
        for value in declared
        if value.name in inputs
    }


def _checked(name: str, declared: TypeProto, value: Any) -> Any:
    if declared.WhichOneof("value") not in ("tensor_type", None):
        return value
    tensor = declared.tensor_type
    what = f"input {name!r}"
    dtype = tensor_dtype(tensor.elem_type, what) if tensor.elem_type else None
    array = _as_array(what, value, dtype)
    given = dtype_name(array.dtype)
    if dtype is not None and given != type_name(tensor.elem_type):
        raise ArgumentError(
            f"{what} has type {given}; allowed: {type_name(tensor.elem_type)}"
        )
    if dtype_code(array.dtype) is None:
        raise ArgumentError(f"{what} has type {given}; allowed: the types of ONNX")
    if tensor.HasField("shape"):
        sizes = [
            d.dim_value if d.HasField("dim_value") else (d.dim_param or None)
            for d in tensor.shape.dim
        ]
        if len(sizes) != array.ndim or any(
            isinstance(size, int) and size != n
            for size, n in zip(sizes, array.shape, strict=True)
        ):
            raise ArgumentError(
                f"{what} has shape {_shape(array.shape)}; allowed: {_shape(sizes)}"
            )
    return array


def _shape(sizes: Sequence[object]) -> str:
    return "[" + ", ".join("?" if n is None else str(n) for n in sizes) + "]"


def _as_array(what: str, value: Any, dtype: np.dtype[Any] | None) -> npt.NDArray[Any]:
    """Return `value` as an array of native byte order, of `dtype` if it has none."""
    array, _ = as_array(value, what)
    if dtype is not None and not hasattr(value, "dtype") and _takes(array, dtype):
        try:
            array = np.asarray(value, dtype)
        except (ValueError, TypeError, OverflowError) as error:
            raise ArgumentError(f"{what} is no array: {one_line(str(error))}") from error
    if dtype is not None and dtype.name == "bfloat16" and array.dtype == SAVED_BFLOAT16:
        return array.view(dtype)
    return array.astype(in_native_order(array.dtype), copy=False)


def _takes(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Tell whether Python's numbers, now in `array`, may be read as `dtype`."""
    if array.dtype.kind == "i":
        return is_float(dtype) or dtype.kind in "iu"
    return array.size == 0 or (array.dtype.kind == "f" and is_float(dtype))
