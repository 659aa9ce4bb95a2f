"""Tensors of models, and the names and facts of their types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, SparseTensorProto, TensorProto, TypeProto

from halfulp.element_types import in_native_order
from halfulp.errors import ModelError
from halfulp.files.formats.tensor_proto import tensor_dtype
from halfulp.files.stored_types import BY_NAME
from halfulp.files.tensors import element_bytes

Array = npt.NDArray[Any]

# Numbers, names, and None for what is not known.
Shape = tuple[int | str | None, ...]


def type_name(element_type: int) -> str:
    """Return ONNX's name of an element type, as in ``tensor(float)``."""
    try:
        return str(TensorProto.DataType.Name(element_type)).lower()
    except ValueError:
        return f"number {element_type}"


def dtype_code(dtype: np.dtype[Any]) -> int | None:
    """Return ONNX's number of a NumPy dtype of any byte order, if it has one."""
    try:
        return int(onnx.helper.np_dtype_to_tensor_dtype(in_native_order(dtype)))
    except ValueError:
        return None


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return ONNX's name of a NumPy dtype, or NumPy's where ONNX has none."""
    code = dtype_code(dtype)
    return str(dtype) if code is None else type_name(code)


def tensor_type(element_type: int, shape: Iterable[int]) -> TypeProto:
    """Return the type of a tensor."""
    return onnx.helper.make_tensor_type_proto(element_type, list(shape))


def tensor_nbytes(tensor: TensorProto, what: str) -> int:
    """Return the bytes that the elements of a TensorProto have as raw data.

    Raises
    ------
    ModelError
        If its type has none, or its shape is none of an array.
    """
    name = type_name(tensor.data_type)
    stored = BY_NAME.get(name)
    itemsize = tensor_dtype(tensor.data_type, what).itemsize
    if name == "string":
        raise ModelError(f"{what} is of strings; allowed with external data: numbers")
    nbytes = element_bytes(tensor.dims, itemsize, what)
    return stored.nbytes(math.prod(tensor.dims)) if stored else nbytes


def all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield the tensors of a model, of nested graphs and functions too."""
    graphs = [model.graph]
    bodies = [function.node for function in model.functions]
    while graphs or bodies:
        if graphs:
            graph = graphs.pop()
            bodies.append(graph.node)
            yield from graph.initializer
            yield from _values_and_indices(graph.sparse_initializer)
        for node in bodies.pop():
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors
                if attribute.HasField("sparse_tensor"):
                    yield from _values_and_indices([attribute.sparse_tensor])
                yield from _values_and_indices(attribute.sparse_tensors)
                if attribute.HasField("g"):
                    graphs.append(attribute.g)
                graphs += attribute.graphs


def _values_and_indices(sparse: Iterable[SparseTensorProto]) -> Iterator[TensorProto]:
    for tensor in sparse:
        yield tensor.values
        yield tensor.indices


def tensor_facts(type_: TypeProto | None) -> tuple[str | None, int, Shape | None]:
    """Return kind, element type and shape; None, 0 and None where not known."""
    kind = type_.WhichOneof("value") if type_ is not None else None
    if type_ is None or kind is None:
        return None, 0, None
    if kind != "tensor_type":
        return kind.removesuffix("_type"), 0, None
    tensor = type_.tensor_type
    if not tensor.HasField("shape"):
        return "tensor", tensor.elem_type, None
    shape = tuple(
        dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
        for dim in tensor.shape.dim
    )
    return "tensor", tensor.elem_type, shape


def known_rank(type_: TypeProto | None) -> int | None:
    """Return the rank of a tensor, if it is known."""
    shape = tensor_facts(type_)[2]
    return None if shape is None else len(shape)
