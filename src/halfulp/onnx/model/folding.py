"""Small integers that nodes compute from constants alone, as exporters write axes."""

from __future__ import annotations

import math
from collections import ChainMap
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto

from halfulp.errors import HalfulpError
from halfulp.files.formats.tensor_proto import read_tensor
from halfulp.onnx.model.nodes import DOMAIN_NAMES, constant, subgraphs
from halfulp.onnx.model.tensors import Array
from halfulp.reductions import REDUCTIONS

# No array has more axes.
_MOST = 64

# Where no operator has axes as an input, nobody asks for values.
_FIRST_OPSET = min(row.axes_input_since for row in REDUCTIONS)

#: Operators by which exporters compute axes.
FOLDED = frozenset({"Cast", "Concat", "Identity", "Reshape", "Squeeze", "Unsqueeze"})

_INTEGERS: dict[int, type[np.integer[Any]]] = {
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
}

_Known = ChainMap[str, Array | None]


def fold(graph: GraphProto, opset: int) -> None:
    """Put a Constant in the place of each node whose value is known beforehand.

    Parameters
    ----------
    graph : onnx.GraphProto
        Its nodes are changed, those of nested graphs too. Initializers are taken for
        constants.
    opset : int
    """
    if opset >= _FIRST_OPSET:
        _fold(graph, ChainMap())


def _fold(graph: GraphProto, known: _Known) -> None:
    known.update(dict.fromkeys(value.name for value in graph.input))
    known.update((tensor.name, _small(tensor)) for tensor in graph.initializer)
    for node in graph.node:
        for _, inner in subgraphs(node):
            _fold(inner, known.new_child())
        known.update(dict.fromkeys(filter(None, node.output)))
        if node.domain not in DOMAIN_NAMES or len(node.output) != 1:
            continue
        value = constant(node)
        if isinstance(value, TensorProto):
            value = _small(value)
        if node.op_type in FOLDED:
            value = _computed(node, [known.get(name) for name in node.input])
            if value is not None:
                node.op_type = "Constant"
                del node.input[:], node.attribute[:]
                tensor = onnx.numpy_helper.from_array(value)
                node.attribute.append(onnx.helper.make_attribute("value", tensor))
        if value is not None and _is_small(value):
            known[node.output[0]] = value


def _is_small(value: Array) -> bool:
    return value.dtype in _INTEGERS.values() and value.size <= _MOST


def _small(tensor: TensorProto) -> Array | None:
    """Return the value of a tensor of few integers."""
    here = tensor.data_location != TensorProto.EXTERNAL
    if here and tensor.data_type in _INTEGERS and math.prod(tensor.dims) <= _MOST:
        with suppress(HalfulpError):
            return read_tensor(tensor, tensor.name)
    return None


def _computed(node: NodeProto, inputs: list[Array | None]) -> Array | None:
    """Return what a node of `FOLDED` gives, if that is known and small."""
    values = [value for value in inputs if value is not None]
    if not values or len(values) < len(inputs):
        return None
    if any(attribute.ref_attr_name for attribute in node.attribute):
        return None
    given = {a.name: a.i for a in node.attribute}
    # What does not fit each other is an error of the model, which others tell.
    with suppress(ValueError, IndexError, TypeError):
        result = _result(node.op_type, values, given)
        return result if result is not None and _is_small(result) else None
    return None


def _result(
    operator: str, values: list[Array], attributes: dict[str, int]
) -> Array | None:
    first, *others = values
    match operator, others:
        case "Identity", []:
            return first
        case "Cast", [] if attributes.get("to") in _INTEGERS:
            return first.astype(_INTEGERS[attributes["to"]])
        case "Reshape", [shape] if np.all(shape):
            return first.reshape(shape)
        case "Squeeze", []:
            return first.squeeze()
        case "Squeeze", [axes]:
            return first.squeeze(tuple(axes))
        case "Unsqueeze", [axes]:
            return np.expand_dims(first, tuple(axes))
        case "Concat", _ if "axis" in attributes:
            return np.concatenate(values, attributes["axis"])
    return None
