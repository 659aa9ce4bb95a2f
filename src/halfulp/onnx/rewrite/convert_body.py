"""Converts the nodes of a graph or a function, nested ones too, to another opset."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from halfulp.errors import ModelError
from halfulp.onnx.model.bodies import (
    Body,
    FreshNames,
    bodies,
    leaving,
    name_of,
    reads,
    remove,
    replace,
)
from halfulp.onnx.model.nodes import (
    DOMAIN_NAMES,
    label,
    twin_graphs,
    walk,
    within,
)
from halfulp.onnx.model.reduce_nodes import (
    ReduceNode,
    axes_values,
    describe,
    read_node,
    reduction_of,
    version_at,
)
from halfulp.onnx.model.scopes import Scope
from halfulp.onnx.model.tensors import tensor_facts
from halfulp.onnx.rewrite.convert_other import adapt_node
from halfulp.onnx.rewrite.convert_reduction import (
    Axes,
    FunctionAttribute,
    Known,
    Target,
    convert_reduce,
)
from halfulp.onnx.rewrite.reports import Conversion, ConvertedNode
from halfulp.onnx.rewrite.typed_bodies import TypedBody
from halfulp.reductions import Reduction


class BodyConverter:
    """Converts what the opset imports of a model, or of a function, govern.

    Parameters
    ----------
    body : TypedBody
    model : onnx.ModelProto
        Which it is in.
    conversion : Conversion
        Takes what was done.
    """

    def __init__(
        self, body: TypedBody, model: ModelProto, conversion: Conversion
    ) -> None:
        self._typed_body = body
        self._model = model
        self._conversion = conversion
        self._old, self._new = body.opset, conversion.opsets[1]
        self._body = body.body
        self._fresh = FreshNames(self._body, "_")
        # The inputs that hold axes, by these.
        self._axes: dict[tuple[int, ...] | FunctionAttribute, str] = {}
        self._constants: list[NodeProto] = []
        # Names that converted nodes do not use any more, and those of axes only.
        self._left: set[str] = set()
        self._only_axes = _only_axes(self._body)
        self._from_function = {
            node.output[0]: FunctionAttribute(attribute.ref_attr_name)
            for _, node in walk(self._body.node)
            for attribute in node.attribute
            if _is_constant(node)
            and attribute.name == "value_ints"
            and attribute.ref_attr_name
        }

    def convert(self) -> None:
        """Convert all nodes, and the opset import."""
        if self._old is None or self._old == self._new:
            return
        typed, scope = self._typed_body.typed, Scope()
        scope.add_graph(typed)
        self._convert_nodes(self._body.node, typed.node, scope, self._typed_body.path)
        if self._constants:
            replace(self._body.node, [*self._constants, *self._body.node])
        for entry in self._typed_body.owner.opset_import:
            if entry.domain in DOMAIN_NAMES:
                entry.version = self._new
        self._remove_unused()

    def _convert_nodes(
        self, nodes: Any, typed_nodes: Iterable[NodeProto], scope: Scope, path: str
    ) -> None:
        result: list[NodeProto] = []
        same = True
        for index, (node, typed) in enumerate(zip(nodes, typed_nodes, strict=True)):
            here = path + label(node, index)
            for name, graph, typed_graph in twin_graphs(node, typed):
                inner = Scope(scope)
                inner.add_graph(typed_graph)
                into = within(here, name)
                self._convert_nodes(graph.node, typed_graph.node, inner, into)
            converted = self._convert_node(node, scope, here)
            same = same and len(converted) == 1 and converted[0] is node
            result.extend(converted)
        if not same:
            replace(nodes, result)

    def _convert_node(
        self, node: NodeProto, scope: Scope, here: str
    ) -> Sequence[NodeProto]:
        assert self._old is not None
        if node.domain not in DOMAIN_NAMES or self._is_call(node):
            return [node]
        if _constant_name(node) in self._only_axes:
            return [node]
        row = reduction_of(node)
        if row:
            return self._convert_reduce(node, row, scope, here, self._old)
        opsets = self._old, self._new
        converted = adapt_node(node, opsets, scope, self._fresh.fresh, f"{here}: ")
        if not (len(converted) == 1 and converted[0] is node):
            self._left.update(node.input)
            old, new = _versioned(node, self._old), self._versioned(converted)
            self._conversion.changes.append(ConvertedNode(here, old, new))
        return converted

    def _is_call(self, node: NodeProto) -> bool:
        """Tell whether `node` calls a function that has a domain of ONNX."""
        return not onnx.defs.has(node.op_type, "") and any(
            function.name == node.op_type and function.domain in DOMAIN_NAMES
            for function in self._model.functions
        )

    def _convert_reduce(
        self, node: NodeProto, row: Reduction, scope: Scope, here: str, old: int
    ) -> Sequence[NodeProto]:
        """Return a node of opset `old` that reduces in the form of the new one."""
        if row.version_for(old) is row.version_for(self._new):
            return [node]
        where = f"{describe(here, version_at(node, old))}: "
        said = read_node(node, old, where)
        _, element_type, shape = tensor_facts(scope.types.get(node.input[0]))
        rank = None if shape is None else len(shape)
        axes = self._read_axes(node, said, scope, where)
        target = Target(self._new, partial(self._name_axes, row), self._fresh.derived)
        is_full = all(isinstance(size, int) and size for size in shape or (None,))
        known = Known(axes, element_type, rank, is_full)
        converted = convert_reduce(node, said, known, target, where)
        if said.version.axes == "input":
            self._left.update(node.input[1:])
        change = ConvertedNode(
            here,
            str(said.version),
            self._versioned(converted.nodes),
            converted.how,
            converted.exact,
        )
        self._conversion.changes.append(change)
        if converted.warning:
            self._conversion.warnings.append(f"{here}: {converted.warning}")
        return converted.nodes

    def _read_axes(
        self, node: NodeProto, said: ReduceNode, scope: Scope, where: str
    ) -> Axes:
        """Return the axes of a node, from wherever its version has them."""
        if said.version.axes == "attribute":
            refers = [a.ref_attr_name for a in node.attribute if a.name == "axes"]
            return FunctionAttribute(refers[0]) if any(refers) else said.axes
        name = node.input[1] if len(node.input) > 1 else ""
        if not name:
            return ()
        constant = scope.array(name)
        if constant is not None:
            return axes_values(constant, where)
        return self._from_function.get(name)

    def _name_axes(
        self, row: Reduction, axes: tuple[int, ...] | FunctionAttribute
    ) -> str:
        """Return the name of the one initializer, or Constant node, for `axes`."""
        if axes not in self._axes:
            name = self._axes[axes] = self._fresh.fresh("axes")
            if isinstance(axes, FunctionAttribute):
                self._check_given(row, axes)
                constant = NodeProto(op_type="Constant", output=[name])
                constant.attribute.add(
                    name="value_ints", type="INTS", ref_attr_name=axes.attribute
                )
                self._constants.append(constant)
                return name
            tensor = onnx.numpy_helper.from_array(np.array(axes, np.int64), name)
            if isinstance(self._body, GraphProto):
                self._body.initializer.append(tensor)
            else:
                self._constants.append(
                    onnx.helper.make_node("Constant", [], [name], value=tensor)
                )
        return self._axes[axes]

    def _check_given(self, row: Reduction, axes: FunctionAttribute) -> None:
        """Raise unless the attribute that `axes` are has a value in every call."""
        function = self._body
        assert isinstance(function, FunctionProto)
        name = axes.attribute
        if any(default.name == name for default in function.attribute_proto):
            return
        key = function.domain, function.name, function.overload
        all_nodes = (self._model.graph.node, *(f.node for f in self._model.functions))
        for path, node in itertools.chain.from_iterable(map(walk, all_nodes)):
            if (node.domain, node.op_type, node.overload) == key and not any(
                a.name == name and not a.ref_attr_name for a in node.attribute
            ):
                raise ModelError(
                    f"{path} calls function {function.name!r} without a value for its "
                    f"attribute {name!r}, the axes of a {row.operator}; allowed in "
                    f"opset {self._new}: with one"
                )

    def _versioned(self, nodes: Iterable[NodeProto]) -> str:
        """Name the operators of nodes, with their versions."""
        return ", ".join(_versioned(node, self._new) for node in nodes)

    def _remove_unused(self) -> None:
        """Remove constants that only converted nodes used."""
        gone = self._left.difference(reads(self._body), [""])
        for body in bodies(self._body):
            removed = remove(body.node, gone, _constant_name)
            if isinstance(body, GraphProto):
                inputs = {value.name for value in body.input}
                mine = {tensor.name for tensor in body.initializer}
                removed |= remove(body.initializer, (mine & gone) - inputs, name_of)
            remove(body.value_info, removed, name_of)


def _constant_name(node: NodeProto) -> str | None:
    return str(node.output[0]) if _is_constant(node) else None


def _is_constant(node: NodeProto) -> bool:
    return node.op_type == "Constant" and node.domain in DOMAIN_NAMES


def _versioned(node: NodeProto, opset: int) -> str:
    version = onnx.defs.get_schema(node.op_type, opset, "").since_version
    return f"{node.op_type}-{version}"


def _only_axes(body: Body) -> set[str]:
    """Return the names of values that serve only as axes of nodes that reduce."""
    axes: set[str] = set()
    others: set[str] = set()
    for each in bodies(body):
        others.update(leaving(each))
        for node in each.node:
            mine = 1 if reduction_of(node) else len(node.input)
            others.update(node.input[:mine])
            axes.update(node.input[mine:])
    return axes - others
