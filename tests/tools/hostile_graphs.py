"""Models of nested graphs, and of functions with attributes, made of any bytes.

Most are models, some are nearly: a name may be unknown, a function may call itself, an
attribute may have another type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnx.helper import (
    make_attribute,
    make_function,
    make_graph,
    make_model,
    make_node,
    make_opsetid,
    make_tensor_value_info,
)

from onnx_models import DATA

# So few that names of outer graphs are used again.
_NAMES = ["x", "c", *(f"v{i}" for i in range(5))]
_DEEPEST = 4
_PARAMETERS = ["a", "b"]
_ATTRIBUTES = ["k", "m"]

# Integers, whose sums have the same bits whatever computes them.
FEEDS = {"x": DATA.astype(np.int64), "c": np.array(True)}
_INPUTS = [
    make_tensor_value_info("x", TensorProto.INT64, [2, 3]),
    make_tensor_value_info("c", TensorProto.BOOL, []),
]


class _Choices:
    """Bytes as choices; when they are used up, always the first."""

    def __init__(self, data: bytes) -> None:
        self._data: Iterator[int] = iter(data)

    def below(self, count: int) -> int:
        return next(self._data, 0) % count

    def of(self, values: Any) -> Any:
        return values[self.below(len(values))]


def nested_graphs(data: bytes) -> ModelProto:
    """Ifs and Loops in each other, whose graphs take values from those around."""
    choices = _Choices(data)
    graph = _graph(choices, "x", 0)
    graph.input.extend(_INPUTS)
    imports = [make_opsetid("", choices.of((18, 13, 21, 12)))]
    return make_model(graph, opset_imports=imports, ir_version=choices.of((8, 10, 3)))


def _graph(choices: _Choices, last: str, depth: int) -> GraphProto:
    nodes = []
    graph = GraphProto(name=f"g{depth}")
    for _ in range(1 + choices.below(4)):
        last = _append(choices, nodes, last, depth)
    if choices.below(4) == 1:
        value = np.array(choices.of((0, 1, -1, 2)), np.int64)
        graph.initializer.append(onnx.numpy_helper.from_array(value, choices.of(_NAMES)))
    graph.node.extend(nodes)
    graph.output.append(onnx.ValueInfoProto(name=last))
    return graph


def _append(choices: _Choices, nodes: list[NodeProto], last: str, depth: int) -> str:
    """Append a node, most often of a value that is there; return its output."""
    output = f"d{depth}n{len(nodes)}" if choices.below(3) else choices.of(_NAMES)
    value = last if choices.below(4) else choices.of(_NAMES)
    match choices.below(7 if depth < _DEEPEST else 5):
        case 0:
            flags = {"keepdims": choices.of((1, 0, 1, 3))} if choices.below(2) else {}
            nodes.append(make_node("ReduceSumSquare", [value], [output], **flags))
        case 1:
            nodes.append(make_node("Mul", [value, value], [f"{output}s"]))
            nodes.append(make_node("ReduceSum", [f"{output}s"], [output]))
        case 2:
            nodes.append(make_node("Abs", [value], [output]))
        case 3:
            nodes.append(make_node("Add", [value, choices.of(_NAMES)], [output]))
        case 4:
            number = make_attribute("value_int", choices.below(4))
            nodes.append(NodeProto(op_type="Constant", output=[output]))
            nodes[-1].attribute.append(number)
        case 5:
            branches = {
                "then_branch": _graph(choices, value, depth + 1),
                "else_branch": _graph(choices, value, depth + 1),
            }
            nodes.append(make_node("If", ["c"], [output], **branches))
        case _:
            body = _graph(choices, "carried", depth + 1)
            body.input.extend(
                onnx.ValueInfoProto(name=name) for name in ("i", "go", "carried")
            )
            body.node.append(make_node("Identity", ["go"], ["going"]))
            body.output.insert(0, onnx.ValueInfoProto(name="going"))
            count = make_node("Constant", [], [f"{output}c"], value_int=choices.below(3))
            nodes.append(count)
            inputs = [f"{output}c", "", value]
            nodes.append(make_node("Loop", inputs, [output], body=body))
    return output


def functions(data: bytes) -> ModelProto:
    """Functions that call each other, their attributes passed on, given or left out."""
    choices = _Choices(data)
    count = 1 + choices.below(3)
    bodies = [_function(choices, i, count) for i in range(count)]
    nodes: list[NodeProto] = []
    value = "x"
    for i in range(1 + choices.below(3)):
        nodes.append(_call(choices, count, [value, "x"], f"y{i}", False))
        value = f"y{i}"
    graph = make_graph(nodes, "g", _INPUTS[:1], [onnx.ValueInfoProto(name=value)])
    imports = [make_opsetid("", 18), make_opsetid("f", 1)]
    return make_model(graph, opset_imports=imports, ir_version=10, functions=bodies)


def _function(choices: _Choices, index: int, count: int) -> FunctionProto:
    value, nodes = "a", []
    for i in range(1 + choices.below(3)):
        output = f"n{i}"
        inputs = [value, choices.of(["a", "b"])]
        match choices.below(5):
            case 0:
                node = make_node("ReduceSumSquare", [value], [output])
                _set(choices, node, choices.of(("keepdims", "noop_with_empty_axes")))
            case 1:
                nodes.append(NodeProto(op_type="Constant", output=[f"{output}k"]))
                _set(choices, nodes[-1], choices.of(("value_int", "value_ints")))
                node = make_node("Add", [value, f"{output}k"], [output])
            case 2:
                # Calls of those behind: sometimes of itself, or of those before.
                node = _call(choices, count, inputs, output, True, index + 1)
            case 3:
                node = make_node("Mul", inputs, [output])
            case _:
                inner = make_node("ReduceSumSquare", [value], ["t"])
                _set(choices, inner, "keepdims")
                then = make_graph([inner], "t", [], [onnx.ValueInfoProto(name="t")])
                same = make_node("Identity", [value], ["e"])
                other = make_graph([same], "e", [], [onnx.ValueInfoProto(name="e")])
                nodes.append(make_node("Constant", [], [f"{output}i"], value_int=1))
                nodes.append(make_node("Cast", [f"{output}i"], [f"{output}c"], to=9))
                branches = {"then_branch": then, "else_branch": other}
                node = make_node("If", [f"{output}c"], [output], **branches)
        nodes.append(node)
        value = output
    defaults = []
    declared = list(_ATTRIBUTES)
    if choices.below(2):
        defaults.append(make_attribute(declared.pop(), _value(choices)))
    nodes.append(make_node("Identity", [value], ["y"]))
    imports = [make_opsetid("", choices.of((18, 13, 21))), make_opsetid("f", 1)]
    name = f"f{index}"
    return make_function(
        "f", name, _PARAMETERS, ["y"], nodes, imports, declared, defaults
    )


def _call(
    choices: _Choices,
    count: int,
    inputs: list[str],
    output: str,
    inside: bool,
    first: int = 0,
) -> NodeProto:
    called = (first + choices.below(count)) % count
    node = make_node(f"f{called}", inputs[: choices.of((2, 1, 0))], [output], domain="f")
    for name in _ATTRIBUTES:
        if choices.below(3) == 0:
            continue
        if inside:
            _set(choices, node, name)
        else:
            node.attribute.append(make_attribute(name, _value(choices)))
    return node


def _set(choices: _Choices, node: NodeProto, name: str) -> None:
    """Give a node of a function an attribute: its own, or one of the function."""
    if choices.below(2):
        kind = choices.of(("INT", "INT", "INTS", "TENSOR"))
        node.attribute.add(name=name, ref_attr_name=choices.of(_ATTRIBUTES), type=kind)
    else:
        node.attribute.append(make_attribute(name, _value(choices)))


def _value(choices: _Choices) -> Any:
    tensor = onnx.numpy_helper.from_array(np.arange(2))
    return choices.of((1, 0, 1, 2, [1], [0, -1], 2**31, -(2**63), 0.5, b"s", tensor))
