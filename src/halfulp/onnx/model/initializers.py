"""Initializers: models without the large ones, and which of them callers may override.

What onnx does, it does with copies, which large tensors would make large.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto
from onnx.helper import make_tensor_value_info

from halfulp.files.formats.tensor_proto import read_tensor
from halfulp.onnx.model.bodies import replace
from halfulp.onnx.model.tensors import tensor_type

# Shape inference needs the values of small tensors only, as shapes, axes and the like.
SMALL_TENSOR = 1024


def skeleton(model: ModelProto) -> ModelProto:
    """Return a copy of `model` in which large initializers are inputs.

    Every node is where it is in `model`.
    """
    copy = ModelProto()
    for field, value in model.ListFields():
        if field.name != "graph":
            _set(copy, field.name, value)
    if not model.HasField("graph"):
        return copy
    copy.graph.SetInParent()
    for field, value in model.graph.ListFields():
        if field.name != "initializer":
            _set(copy.graph, field.name, value)
    declared = {value.name for value in copy.graph.input}
    for tensor in model.graph.initializer:
        if not _is_large(tensor):
            copy.graph.initializer.append(tensor)
        elif tensor.name not in declared:
            copy.graph.input.append(
                make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return copy


def take_large_tensors(
    graph: GraphProto, *, external: bool
) -> dict[str, np.ndarray[Any, Any]]:
    """Turn the large initializers of `graph` into inputs; return their values.

    With `external` those whose data is in other files are inputs too, without values.
    """
    arrays = {}
    declared = {value.name for value in graph.input}
    small = []
    for tensor in graph.initializer:
        if not (external and tensor.data_location == TensorProto.EXTERNAL):
            array = read_tensor(tensor, f"initializer {tensor.name!r}")
            if array.size <= SMALL_TENSOR:
                small.append(tensor)
                continue
            arrays[tensor.name] = array
        if tensor.name not in declared:
            kind = tensor_type(tensor.data_type, tensor.dims)
            graph.input.add(name=tensor.name, type=kind)
    if len(small) < len(graph.initializer):
        kept = GraphProto(initializer=small)
        replace(graph.initializer, kept.initializer)
    return arrays


def constants(model: ModelProto) -> set[str]:
    """Return the names of the initializers of the graph that nobody can override.

    From IR version 4 on, an initializer that is also an input is a default. Before,
    each is an input: then all are constants, as runtimes have it.
    """
    names = {tensor.name for tensor in model.graph.initializer}
    if model.ir_version >= 4:
        names -= {value.name for value in model.graph.input}
    return names


def overridable(model: ModelProto) -> set[str]:
    """Return the names of the initializers that a caller may override."""
    return {tensor.name for tensor in model.graph.initializer} - constants(model)


def _is_large(tensor: TensorProto) -> bool:
    external: bool = tensor.data_location == TensorProto.EXTERNAL
    return external or math.prod(tensor.dims) > SMALL_TENSOR


def _set(message: object, field: str, value: object) -> None:
    """Set a field, of whatever kind, to a copy of `value`."""
    held = getattr(message, field)
    if hasattr(held, "extend"):
        held.extend(value)
    elif hasattr(held, "CopyFrom"):
        held.CopyFrom(value)
    else:
        setattr(message, field, value)
