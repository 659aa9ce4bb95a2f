"""Brings one node that reduces into the form of another version."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from onnx import NodeProto

from halfulp.element_types import ELEMENT_TYPES, SMALL_TYPES
from halfulp.errors import ModelError
from halfulp.onnx.model.nodes import become, drop_attribute
from halfulp.onnx.model.reduce_nodes import NOOP, ReduceNode, version_at
from halfulp.onnx.model.tensors import type_name
from halfulp.onnx.model.terms import TERMS
from halfulp.onnx.rewrite.function_body import (
    has_cast,
    in_wider_type,
    missing,
    spell_out,
)
from halfulp.reductions import BY_OPERATOR, LOG_SUM, SUM
from halfulp.spec.rules import check_type

# Of types that older versions lack, those that hold all their values. Greatest and least
# elements are the same there, of empty sets too, as casts between integers wrap; but not
# for int8, whose least value is no end of int32.
_HELD_IN = {"bool": ("uint8", "uint32"), "uint8": ("uint32",), "int8": ("int32",)}


@dataclass(frozen=True, slots=True)
class FunctionAttribute:
    """Axes that are an attribute of the function around the node."""

    attribute: str


# None stands for axes that are known only when the model runs.
Axes = tuple[int, ...] | FunctionAttribute | None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a node beside what it says.

    Attributes
    ----------
    axes : tuple of int, FunctionAttribute or None
    element_type : int
        Of the data; 0 if unknown.
    rank : int or None
        Of the data, if known.
    is_full : bool
        Whether surely no size of the data is 0.
    """

    axes: Axes
    element_type: int
    rank: int | None
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """What a node is converted to.

    Attributes
    ----------
    opset : int
    axes_input : callable
        Returns the name of a value for an input that holds axes.
    derived : callable
        Returns a new name, from one and what is derived from it.
    """

    opset: int
    axes_input: Callable[[tuple[int, ...] | FunctionAttribute], str]
    derived: Callable[[str, str], str]


@dataclass(frozen=True, slots=True)
class Converted:
    """What a node became.

    Attributes
    ----------
    nodes : sequence of onnx.NodeProto
    how : str
        What is written otherwise than in the node.
    exact : bool
        False if terms and their sum are now rounded by whatever runs the model.
    warning : str
    """

    nodes: Sequence[NodeProto]
    how: str = ""
    exact: bool = True
    warning: str = ""


def convert_reduce(
    node: NodeProto, said: ReduceNode, known: Known, target: Target, where: str
) -> Converted:
    """Return a node that reduces in the form of the version that `target` has.

    Parameters
    ----------
    node : onnx.NodeProto
        Of another version. It is not changed.
    said : ReduceNode
        What the node says.
    known : Known
    target : Target
    where : str
        Names the node in errors.

    Raises
    ------
    ModelError, UnsupportedTypeError
        If the version has no such form, or not of the type.
    """
    version = version_at(node, target.opset).version
    name = type_name(known.element_type) if known.element_type else ""
    if not name or name in version.types:
        return _converted(node, said, known, target, where)
    held_in = [wide for wide in _HELD_IN.get(name, ()) if wide in version.types]
    if name == "int8" and not known.is_full:
        held_in = []
    if not held_in or not has_cast(target.opset):
        check_type(name, version, where)
    converted = _converted(node, said, known, target, where)
    nodes = list(converted.nodes)
    if [each.op_type for each in nodes] != [node.op_type]:
        return converted  # of elements alone, which have any type
    wide = next(t.code for t in (*ELEMENT_TYPES, *SMALL_TYPES) if t.name == held_in[0])
    return replace(
        converted,
        nodes=in_wider_type(nodes[0], wide, known.element_type, target.derived),
        how=f"{converted.how}, in {held_in[0]}".removeprefix(", "),
    )


def _converted(
    node: NodeProto, said: ReduceNode, known: Known, target: Target, where: str
) -> Converted:
    """Return what `convert_reduce` does, of a type that the version has."""
    copy = NodeProto()
    copy.CopyFrom(node)
    version = version_at(node, target.opset).version
    if version.axes == said.version.axes == "input":
        return Converted([copy])
    axes = known.axes
    if version.axes == said.version.axes == "input":
        return Converted([copy])
    if isinstance(axes, tuple):
        negative = not version.negative_axes and min(axes, default=0) < 0
        if negative or version.axes != said.version.axes:
            axes = _written_once(axes, known.rank, non_negative=negative)
    if version.axes == "input":
        return _with_input(copy, axes, target)
    if said.version.axes == "input":
        converted = _with_attribute(copy, said, axes, known, target, where)
    else:
        if isinstance(axes, tuple) and axes != said.axes:
            _set_axes(copy, axes)
        converted = Converted([copy])
    if isinstance(axes, tuple) and not version.negative_axes and min(axes, default=0) < 0:
        return replace(
            converted,
            warning=f"axes {list(axes)} are negative, which opset {target.opset} does "
            "not promise; the rank is not known",
        )
    return converted


def _written_once(
    axes: Sequence[int], rank: int | None, non_negative: bool
) -> tuple[int, ...]:
    """Return `axes` without those that are there already."""
    by_place = {axis % rank if rank else axis: axis for axis in reversed(axes)}
    chosen = by_place if non_negative else by_place.values()
    return tuple(reversed(list(chosen)))


def _with_input(node: NodeProto, axes: Axes, target: Target) -> Converted:
    """Return `node`, with axes as an attribute or none, with an input instead."""
    drop_attribute(node, "axes")
    if not axes:
        return Converted([node], "all axes: no input")
    node.input.append(target.axes_input(axes))
    return Converted([node], f"{_said(axes)} as an input")


def _with_attribute(
    node: NodeProto,
    said: ReduceNode,
    axes: Axes,
    known: Known,
    target: Target,
    where: str,
) -> Converted:
    """Return `node`, which may have axes as an input, with an attribute instead."""
    decided_by_call = any(a.name == NOOP and a.ref_attr_name for a in node.attribute)
    may_be_noop = decided_by_call or said.noop_with_empty_axes
    if axes is None or (may_be_noop and isinstance(axes, FunctionAttribute)):
        return _spelled_out(node, known, target, f"{where}axes are")
    if not axes and decided_by_call:
        return _spelled_out(node, known, target, f"{where}{NOOP} is")
    del node.input[1:]
    drop_attribute(node, NOOP)
    if axes:
        _set_axes(node, axes)
        return Converted([node], f"{_said(axes)} as an attribute")
    if not said.noop_with_empty_axes:
        return Converted([node], "all axes: no attribute")
    row = BY_OPERATOR[said.version.operator]
    if row is LOG_SUM:
        return _of_one_each(node, target)
    term = TERMS[row.of_one]
    become(node, term.node(node.input[0], "", node.domain))
    return Converted([node], f"no axes: {term.noun}s only")


def _of_one_each(node: NodeProto, target: Target) -> Converted:
    """Return `node` over an axis of size 1 that is put before the others."""
    row = NodeProto(op_type="Unsqueeze", domain=node.domain, input=node.input[:1])
    if SUM.version_for(target.opset).axes == "input":  # as of Unsqueeze
        row.input.append(target.axes_input((0,)))
    else:
        row.attribute.add(name="axes", type="INTS", ints=[0])
    row.output.append(target.derived(node.output[0], "row"))
    if node.name:
        row.name = target.derived(node.name, "row")
    drop_attribute(node, "keepdims")
    node.input[0] = row.output[0]
    node.attribute.add(name="axes", type="INTS", ints=[0])
    node.attribute.add(name="keepdims", type="INT", i=0)
    return Converted([row, node], "no axes: logarithms only")


def _spelled_out(node: NodeProto, known: Known, target: Target, what: str) -> Converted:
    """Return the term, the plain sum, whose axes became an input earlier, and the rest.

    Raises
    ------
    ModelError
        If there is no such form.
    """
    row, opset = BY_OPERATOR[node.op_type], target.opset

    def lacking(opset: int) -> str:
        types = row.version_for(opset).types
        return missing(row, known.element_type, types, opset)

    def has_form(opset: int) -> bool:
        by_sum = SUM.version_for(opset).axes == "input" and not lacking(opset)
        return by_sum or row.version_for(opset).axes == "input"

    if not has_form(opset):
        least = next(filter(has_form, itertools.count(opset)))
        by_sum = SUM.version_for(opset).axes == "input"
        because = f" ({lacking(opset)})" if by_sum else ""
        raise ModelError(
            f"{what} known only when the model runs, which has no form in opset {opset}"
            f"{because}; allowed: from opset {least} on, or a constant"
        )
    body = spell_out(node, row, known.element_type, opset, target.derived)
    return Converted(body, "axes of run time", exact=False)


def _set_axes(node: NodeProto, axes: tuple[int, ...] | FunctionAttribute) -> None:
    drop_attribute(node, "axes")
    if isinstance(axes, FunctionAttribute):
        node.attribute.add(name="axes", type="INTS", ref_attr_name=axes.attribute)
    else:
        node.attribute.add(name="axes", type="INTS", ints=axes)


def _said(axes: tuple[int, ...] | FunctionAttribute) -> str:
    if isinstance(axes, FunctionAttribute):
        return f"axes of the function's {axes.attribute!r}"
    return f"axes {list(axes)}"
