"""A model of one node from any bytes: an operator of ONNX with hostile attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper
from onnx.defs import OpSchema

SCHEMAS = [
    schema
    for schema in onnx.defs.get_all_schemas_with_history()
    if not schema.deprecated and schema.domain in ("", "ai.onnx.ml")
]

_INTEGERS = [
    *(0, 1, 2, 3, 7, 100, -1, -2, -3, -(10**6), 10**6),
    *(2**31 - 1, 2**31, 2**32, -(2**31), -(2**31) - 1, 2**62, 2**63 - 1, -(2**63)),
]
_SIZES = [0, 1, 2, 3, 4, "N", None, 2**31, 2**62]
_FLOATS = [0.0, 1.0, -1.0, 2.0, float("nan"), float("inf"), 1e-30]
_STRINGS = ["", "a", "SAME_UPPER", "linear", "TF", "ij,jk->ik", "reverse", "NOTSET"]
_CODES = [code for code in TensorProto.DataType.values() if code]
_MOST = 6


class _Reader:
    """Makes choices by bytes; after their end always the first."""

    def __init__(self, data: bytes) -> None:
        self._bytes = iter(data)

    def number(self, below: int) -> int:
        value = next(self._bytes, 0)
        if below > 256:
            value = value << 8 | next(self._bytes, 0)
        return value % below

    def choose(self, values: Any) -> Any:
        return values[self.number(len(values))]

    def list(self, values: Any) -> list[Any]:
        return [self.choose(values) for _ in range(self.number(_MOST))]


def hostile_node(data: bytes) -> ModelProto:
    """Return a model of one node, and a ReduceSumSquare of its first output."""
    read = _Reader(data)
    schema = read.choose(SCHEMAS)
    graph = GraphProto(name="g")
    node = NodeProto(op_type=schema.name, domain=schema.domain)
    for i in range(read.number(_MOST)):
        node.input.append(_input(read, graph, schema, i))
    node.output.extend(f"o{i}" for i in range(read.number(_MOST)))
    for name, attribute in sorted(schema.attributes.items()):
        if attribute.required or read.number(2):
            _attribute(read, node, name, attribute.type)
    graph.node.append(node)
    if node.output:
        graph.node.add(op_type="ReduceSumSquare", input=[node.output[0]], output=["y"])
        graph.output.add(name="y")
    opset = schema.since_version if not schema.domain else 18
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("c", 1)]
    if schema.domain:
        imports.append(helper.make_opsetid(schema.domain, schema.since_version))
    return ModelProto(ir_version=8, graph=graph, opset_import=imports)


def _input(read: _Reader, graph: GraphProto, schema: OpSchema, index: int) -> str:
    """Add an input of a type that the operator allows, or another; return its name."""
    name = f"i{index}"
    kind = read.number(8)
    if kind == 0:
        return ""
    if kind == 1:  # of no type
        graph.node.add(op_type="Foo", domain="c", output=[name])
        return name
    code = read.choose(_CODES)
    if schema.inputs and kind < 7:
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        types = [each for each in sorted(formal.types) if each.startswith("tensor(")]
        if types:
            text = read.choose(types)[len("tensor(") : -1]
            code = TensorProto.DataType.Value(text.upper())
    if code in (TensorProto.INT64, TensorProto.INT32) and kind < 5:
        values = read.list(_INTEGERS)
        if code == TensorProto.INT32:
            values = [max(-(2**31), min(value, 2**31 - 1)) for value in values]
        tensor = helper.make_tensor(name, code, [len(values)], values)
        graph.initializer.append(tensor)
        return name
    type_ = TypeProto()
    shape = read.list(_SIZES) if read.number(8) else None
    type_.CopyFrom(helper.make_tensor_type_proto(code, shape))
    if kind == 7:
        make = read.choose(
            [helper.make_sequence_type_proto, helper.make_optional_type_proto]
        )
        type_.CopyFrom(make(type_))
    graph.input.add(name=name, type=type_)
    return name


def _attribute(
    read: _Reader, node: NodeProto, name: str, kind: OpSchema.AttrType
) -> None:
    names = OpSchema.AttrType
    simple: dict[Any, Callable[[], Any]] = {
        names.INT: lambda: read.choose(_INTEGERS),
        names.INTS: lambda: read.list(_INTEGERS),
        names.FLOAT: lambda: read.choose(_FLOATS),
        names.FLOATS: lambda: read.list(_FLOATS),
        names.STRING: lambda: read.choose(_STRINGS),
        names.STRINGS: lambda: read.list(_STRINGS),
    }
    attribute = node.attribute.add(name=name, type=int(kind.value))
    if kind in simple:
        value = simple[kind]()
        made = helper.make_attribute(name, value, attr_type=attribute.type)
        attribute.CopyFrom(made)
    elif kind == names.TENSOR:
        values = read.list(_INTEGERS)
        code = TensorProto.INT64
        attribute.t.CopyFrom(helper.make_tensor("", code, [len(values)], values))
    elif kind == names.GRAPH:
        attribute.g.name = "g"
        for i in range(read.number(3)):
            attribute.g.node.add(op_type="Neg", input=[f"a{i}"], output=[f"b{i}"])
            attribute.g.input.add(name=f"a{i}")
        for i in range(read.number(3)):
            attribute.g.output.add(name=f"b{i}")
