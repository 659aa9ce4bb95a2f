"""Sparse initializers, made dense."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, SparseTensorProto, TensorProto

from halfulp.errors import ModelError
from halfulp.faults import model_errors
from halfulp.files.formats.tensor_proto import read_tensor, tensor_dtype
from halfulp.onnx.model.bodies import bodies, replace

# Bytes of a tensor that is stored whole: a message has no more.
MOST_DENSE = 2**31 - 1


def densify(model: ModelProto, most_elements: int | None = None) -> None:
    """Make sparse initializers dense, in nested graphs too, as runtimes do.

    Parameters
    ----------
    model : onnx.ModelProto
        Changed in place.
    most_elements : int, optional
        Those that would have more elements stay sparse.

    Raises
    ------
    ModelError
        If one is none, or would have more than 2 GiB.
    """
    for outermost in (model.graph, *model.functions):
        for body in bodies(outermost):
            if isinstance(body, GraphProto) and body.sparse_initializer:
                _densify(body, most_elements)


def _densify(graph: GraphProto, most_elements: int | None) -> None:
    kept = GraphProto()
    for sparse in graph.sparse_initializer:
        size = math.prod(sparse.dims)
        tensors = (sparse.values, sparse.indices)
        external = any(t.data_location == TensorProto.EXTERNAL for t in tensors)
        if most_elements is not None and (external or size > most_elements):
            kept.sparse_initializer.append(sparse)
        else:
            graph.initializer.append(_dense(sparse))
    replace(graph.sparse_initializer, list(kept.sparse_initializer))


def _dense(sparse: SparseTensorProto) -> TensorProto:
    name, shape = sparse.values.name, tuple(sparse.dims)
    what = f"sparse initializer {name!r}"
    dtype = tensor_dtype(sparse.values.data_type, what)
    if min(shape, default=0) < 0:
        raise ModelError(f"{what} has shape {list(shape)}; allowed: sizes of 0 or more")
    size = math.prod(shape)
    if size * dtype.itemsize > MOST_DENSE:
        raise ModelError(
            f"{what} has shape {list(shape)}; allowed: up to {MOST_DENSE} bytes of it"
        )
    values = read_tensor(sparse.values, what).reshape(-1)
    places = read_tensor(sparse.indices, f"{what}, indices")
    with model_errors(f"{what} cannot be read"):
        if places.ndim == 2 and places.shape[1] == len(shape):
            places = np.ravel_multi_index(tuple(places.T), shape)
        if places.shape != values.shape or places.dtype != np.int64:
            raise ModelError(
                f"{what} has indices of shape {list(places.shape)} and type "
                f"{places.dtype}; allowed: [{values.size}] or [{values.size}, "
                f"{len(shape)}] of int64"
            )
        if places.size and not 0 <= places.min() <= places.max() < size:
            raise ModelError(f"{what} has indices out of range; allowed: 0 to {size - 1}")
        dense = np.zeros(size, dtype)
        dense[places] = values
        return onnx.numpy_helper.from_array(dense.reshape(shape), name)
