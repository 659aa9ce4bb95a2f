"""A model without its large tensors, for what onnx does with a serialized copy.

Imports nothing of halfulp.
"""

from __future__ import annotations

import math

from onnx import ModelProto, TensorProto
from onnx.helper import make_tensor_value_info

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


def constants(model: ModelProto) -> set[str]:
    """Return the names of the initializers of the graph that nobody can override.

    From IR version 4 on, an initializer that is also an input is a default. Before,
    each is an input: then all are constants, as runtimes have it.
    """
    names = {tensor.name for tensor in model.graph.initializer}
    if model.ir_version >= 4:
        names -= {value.name for value in model.graph.input}
    return names


def _is_large(tensor: TensorProto) -> bool:
    external: bool = tensor.data_location == TensorProto.EXTERNAL
    return external or math.prod(tensor.dims) > SMALL_TENSOR


def _set(message: object, field: str, value: object) -> None:
    """Set a field, of whatever kind, to a copy of `value`."""
    target = getattr(message, field)
    if hasattr(target, "extend"):
        target.extend(value)
    elif hasattr(target, "CopyFrom"):
        target.CopyFrom(value)
    else:
        setattr(message, field, value)
