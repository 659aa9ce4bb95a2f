"""Converts a model to another opset, its ReduceSumSquare nodes with it.

May import errors, spec.rules, adapt, bodies, faults, forms, infer, nodes, reading,
scopes, skeleton, structure, tensors and validate only.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from halfulp.errors import ArgumentError, ModelError
from halfulp.faults import model_errors
from halfulp.onnx.check.nodes import check_reduce
from halfulp.onnx.model.bodies import (
    Body,
    FreshNames,
    bodies,
    leaving,
    name_of,
    reads,
    remove,
    replace,
    value_names,
)
from halfulp.onnx.model.nodes import (
    DOMAIN_NAMES,
    function_label,
    label,
    opset_of,
    place,
    subgraphs,
    walk,
    within,
)
from halfulp.onnx.model.open import read_model
from halfulp.onnx.model.reduce_nodes import (
    ReduceNode,
    axes_values,
    describe,
    is_reduce,
    read_node,
)
from halfulp.onnx.model.scopes import Scope, walk_typed
from halfulp.onnx.model.skeleton import skeleton
from halfulp.onnx.model.structure import check_node, checker_context
from halfulp.onnx.model.tensors import tensor_facts, type_name
from halfulp.onnx.rewrite.convert_other import adapt_node, check_allowed
from halfulp.onnx.rewrite.convert_reduction import Axes, Reference, convert_reduce
from halfulp.onnx.rewrite.infer import check_nodes, inferred, overridable
from halfulp.spec.rules import OPERATOR, check_type, version_for


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one node.

    Attributes
    ----------
    node : str
        How errors name it.
    old, new : str
        Operators with their versions.
    how : str
        What is written otherwise; empty where nothing is.
    exact : bool
        False if squares and their sum are now rounded by whatever runs the model.
    """

    node: str
    old: str
    new: str
    how: str = ""
    exact: bool = True


@dataclass(slots=True)
class Conversion:
    """A converted model, and what was done.

    Attributes
    ----------
    model : onnx.ModelProto
    opsets : tuple of int or None
        Those of ONNX's domain before and after; None where the model imports none.
    changes : list of Change
        A line for each node that has another version now.
    warnings : list of str
    """

    model: ModelProto
    opsets: tuple[int | None, int]
    changes: list[Change] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def convert_opset(
    model: str | os.PathLike[str] | bytes | ModelProto, target: int
) -> ModelProto:
    """Return a model that means in opset `target` what `model` means in its own.

    Every ReduceSumSquare gets the form of its new version, in nested graphs and
    functions too. Other operators go through onnx's version converter, each node by
    itself; one whose version is the same in both opsets, or differs in the types it
    allows only, stays as it is. Names of inputs, outputs and nodes stay.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        Not changed. Of external data only what types may depend on is read, with a
        path; the result refers to the rest as the model does.
    target : int
        From 1 to the newest opset that the installed onnx knows. Functions, which
        import opsets of their own, are brought there too.

    Returns
    -------
    onnx.ModelProto
        Its IR version is that of `model`, or the least that `target` needs.

    Raises
    ------
    ArgumentError
        If `target` is out of range.
    ModelError
        If the model cannot be read or breaks a rule, or if a node cannot be
        converted, or not so that it surely keeps its meaning; the message names
        node, operator and versions.
    UnsupportedTypeError, AxesError, ArgumentError
        If a node has types that its new version does not take, as bfloat16 before
        13, or a ReduceSumSquare breaks the rules of its version.

    Notes
    -----
    Results stay the same bit for bit, with two exceptions.

    Axes that are known only when the model runs have no form before opset 18. From
    13 to 17 the node becomes Mul and ReduceSum, whose roundings are those of
    whatever runs them; below 13 that is an error. An input with an initializer is
    such a case: a caller may override it.

    With ``noop_with_empty_axes`` and no axes the node becomes ``Mul(x, x)``. A
    square rounded once is the same in both, but a NaN may keep its sign and payload.

    Negative axes become non-negative ones below opset 11, which does not promise
    them, where the rank is known. A type that is not known beforehand is not checked.

    Examples
    --------
    >>> import onnx.parser
    >>> from halfulp.onnx import convert_opset
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 7, opset_import: ["" : 13]>
    ...     agraph (float[N,3] x) => (float[N] y) {
    ...         y = ReduceSumSquare<axes = [1], keepdims = 0>(x)
    ...     }
    ... ''')
    >>> graph = convert_opset(model, 18).graph
    >>> graph.node[0].input, graph.initializer[0].name
    (['x', 'axes'], 'axes')
    """
    return convert(model, target).model


def convert(model: Any, target: int) -> Conversion:
    """Convert as `convert_opset` does; return what was done, too."""
    _check_target(target)
    proto = read_model(model)
    with model_errors("the model cannot be converted"):
        prepared = _check_source(proto)
        return _convert(proto, prepared, target)


def _check_target(target: int) -> None:
    newest = onnx.defs.onnx_opset_version()
    if isinstance(target, bool) or not isinstance(target, int):
        raise ArgumentError(f"opset is {target!r}; allowed: an integer")
    if not 1 <= target <= newest:
        raise ArgumentError(
            f"opset is {target}; allowed: 1 to {newest}, the newest of the installed onnx"
        )


def _check_source(model: ModelProto) -> ModelProto:
    """Check a model; return it prepared."""
    prepared = check_nodes(model)
    if model.training_info:
        raise ModelError("the model has training information; allowed: none")
    newest = onnx.defs.onnx_opset_version()
    for scope in (model, *model.functions):
        opset = opset_of(scope)
        if opset is not None and opset > newest:
            raise ModelError(
                f"the model imports opset {opset}, unknown to the installed onnx; "
                f"allowed: 1 to {newest}"
            )
    return prepared


def _convert(model: ModelProto, prepared: ModelProto, target: int) -> Conversion:
    conversion = Conversion(model, (opset_of(model), target))
    sound = _passes_checker(model)
    typed = inferred(prepared, overridable(model))
    scope = Scope()
    scope.add_graph(typed)
    _Part(model, model, conversion).convert(typed.node, scope)
    for function in model.functions:
        body = GraphProto(node=function.node, value_info=function.value_info)
        scope = Scope()
        scope.add_graph(body)
        _Part(function, model, conversion).convert(body.node, scope)
    least = onnx.helper.find_min_ir_version_for(
        list(model.opset_import), ignore_unknown=True
    )
    model.ir_version = max(model.ir_version, least)
    _check_result(model)
    if sound:
        onnx.checker.check_model(skeleton(model))
    return conversion


def _passes_checker(model: ModelProto) -> bool:
    try:
        onnx.checker.check_model(skeleton(model))
    except onnx.checker.ValidationError:
        return False
    return True


def _check_result(model: ModelProto) -> None:
    """Check every node of ONNX with all that is known, calls of functions included."""

    def visit(node: NodeProto, scope: Scope, opset: int, path: str) -> None:
        if node.domain in DOMAIN_NAMES and opset:
            here = f"{path}{place(node)}: "
            if is_reduce(node):
                check_reduce(node, scope, opset, path)
            check_node(node, contexts[opset], here)
            check_allowed(node, scope, opset, here)

    prepared = check_nodes(model)
    contexts = {}
    for part in (prepared, *prepared.functions):
        opset = opset_of(part)
        if opset is not None:
            contexts[opset] = checker_context(part.opset_import)
    walk_typed(prepared, dict.fromkeys(overridable(model)), visit)


class _Part:
    """The graph of a model, or a function: what one opset import governs."""

    def __init__(
        self, part: ModelProto | FunctionProto, model: ModelProto, conversion: Conversion
    ) -> None:
        self._part = part
        self._model = model
        self._conversion = conversion
        self._old, self._new = opset_of(part), conversion.opsets[1]
        self._body = part if isinstance(part, FunctionProto) else part.graph
        self._fresh = FreshNames(value_names(self._body), "_").fresh
        # The inputs that hold axes, by these.
        self._axes: dict[tuple[int, ...] | Reference, str] = {}
        self._constants: list[NodeProto] = []
        # Names that converted nodes do not use any more, and those of axes only.
        self._left: set[str] = set()
        self._only_axes = _only_axes(self._body)
        self._references = {
            node.output[0]: Reference(attribute.ref_attr_name)
            for _, node in walk(self._body.node)
            for attribute in node.attribute
            if _is_constant(node)
            and attribute.name == "value_ints"
            and attribute.ref_attr_name
        }

    def convert(self, typed: Iterable[NodeProto], scope: Scope) -> None:
        """Convert all nodes; `typed` are the same, nested ones with inferred types."""
        if self._old is None or self._old == self._new:
            return
        part = self._part
        path = within(function_label(part)) if isinstance(part, FunctionProto) else ""
        self._convert_nodes(self._body.node, typed, scope, path)
        if self._constants:
            replace(self._body.node, [*self._constants, *self._body.node])
        for entry in self._part.opset_import:
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
            pairs = zip(subgraphs(node), subgraphs(typed), strict=True)
            for (name, graph), (_, typed_graph) in pairs:
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
        if is_reduce(node):
            return self._convert_reduce(node, scope, here, self._old)
        opsets = self._old, self._new
        converted = adapt_node(node, opsets, scope, self._fresh, f"{here}: ")
        if not (len(converted) == 1 and converted[0] is node):
            self._left.update(node.input)
            old, new = _versioned(node, self._old), self._versioned(converted)
            self._conversion.changes.append(Change(here, old, new))
        return converted

    def _is_call(self, node: NodeProto) -> bool:
        """Tell whether `node` calls a function that has a domain of ONNX."""
        return not onnx.defs.has(node.op_type, "") and any(
            function.name == node.op_type and function.domain in DOMAIN_NAMES
            for function in self._model.functions
        )

    def _convert_reduce(
        self, node: NodeProto, scope: Scope, here: str, old: int
    ) -> Sequence[NodeProto]:
        """Return a ReduceSumSquare of opset `old` in the form of the new one."""
        version = version_for(self._new)
        if version_for(old) is version:
            return [node]
        where = f"{describe(here, old)}: "
        said = read_node(node, old, where)
        _, element_type, shape = tensor_facts(scope.types.get(node.input[0]))
        rank = None if shape is None else len(shape)
        if element_type:
            check_type(type_name(element_type), version, where)
        axes = self._read_axes(node, said, scope, where)
        new, name, fresh = self._new, self._name_axes, self._fresh
        form = convert_reduce(node, said, axes, rank, new, name, fresh, where)
        if said.version.axes == "input":
            self._left.update(node.input[1:])
        change = Change(
            here, str(said.version), self._versioned(form.nodes), form.how, form.exact
        )
        self._conversion.changes.append(change)
        if form.warning:
            self._conversion.warnings.append(f"{here}: {form.warning}")
        return form.nodes

    def _read_axes(
        self, node: NodeProto, said: ReduceNode, scope: Scope, where: str
    ) -> Axes:
        """Return the axes of a node, from wherever its version has them."""
        if said.version.axes == "attribute":
            refers = [a.ref_attr_name for a in node.attribute if a.name == "axes"]
            return Reference(refers[0]) if any(refers) else said.axes
        name = node.input[1] if len(node.input) > 1 else ""
        if not name:
            return ()
        constant = scope.array(name)
        if constant is not None:
            return axes_values(constant, where)
        return self._references.get(name)

    def _name_axes(self, axes: tuple[int, ...] | Reference) -> str:
        """Return the name of the one initializer, or Constant node, for `axes`."""
        if axes not in self._axes:
            name = self._axes[axes] = self._fresh("axes")
            if isinstance(axes, Reference):
                self._check_given(axes)
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

    def _check_given(self, axes: Reference) -> None:
        """Raise unless the attribute that `axes` are has a value in every call."""
        function = self._part
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
                    f"attribute {name!r}, the axes of a {OPERATOR}; allowed in opset "
                    f"{self._new}: with one"
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
    """Return the names of values that serve as axes of a ReduceSumSquare only."""
    axes: set[str] = set()
    others: set[str] = set()
    for each in bodies(body):
        others.update(leaving(each))
        for node in each.node:
            mine = 1 if is_reduce(node) else len(node.input)
            others.update(node.input[:mine])
            axes.update(node.input[mine:])
    return axes - others
