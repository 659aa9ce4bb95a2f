"""Brings one node that reduces into the form of another version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onnx import NodeProto

from halfulp.errors import ModelError
from halfulp.onnx.model.nodes import drop_attribute
from halfulp.onnx.model.reduce_nodes import NOOP, ReduceNode, version_at
from halfulp.onnx.model.terms import TERMS, TermInOnnx
from halfulp.reductions import BY_OPERATOR, SUM


@dataclass(frozen=True, slots=True)
class FunctionAttribute:
    """Axes that are an attribute of the function around the node."""

    attribute: str


# None stands for axes that are known only when the model runs.
Axes = tuple[int, ...] | FunctionAttribute | None


@dataclass(frozen=True, slots=True)
class Converted:
    """What a node became.

    Attributes
    ----------
    nodes : sequence of onnx.NodeProto
    how : str
        What is written otherwise than in the node.
    exact : bool
        False if squares and their sum are now rounded by whatever runs the model.
    warning : str
    """

    nodes: Sequence[NodeProto]
    how: str = ""
    exact: bool = True
    warning: str = ""


def convert_reduce(
    node: NodeProto,
    said: ReduceNode,
    axes: Axes,
    rank: int | None,
    opset: int,
    axes_input: Callable[[tuple[int, ...] | FunctionAttribute], str],
    fresh: Callable[[str], str],
    where: str,
) -> Converted:
    """Return a node that reduces in the form of the version of `opset`.

    Parameters
    ----------
    node : onnx.NodeProto
        Of another version. It is not changed.
    said : ReduceNode
        What the node says.
    axes : tuple of int, FunctionAttribute or None
    rank : int or None
        That of the data, if known.
    opset : int
    axes_input : callable
        Returns the name of a value for an input that holds axes.
    fresh : callable
        Returns a name like the one given that no value has yet.
    where : str
        Names the node in errors.

    Raises
    ------
    ModelError
        If the version has no such form.
    """
    copy = NodeProto()
    copy.CopyFrom(node)
    version = version_at(node, opset).version
    if isinstance(axes, tuple):
        negative = not version.negative_axes and min(axes, default=0) < 0
        if negative or version.axes != said.version.axes:
            axes = _written_once(axes, rank, non_negative=negative)
    if version.axes == "input":
        return _with_input(copy, axes, axes_input)
    if said.version.axes == "input":
        converted = _with_attribute(copy, said, axes, opset, fresh, where)
    else:
        if isinstance(axes, tuple) and axes != said.axes:
            _set_axes(copy, axes)
        converted = Converted([copy])
    if isinstance(axes, tuple) and not version.negative_axes and min(axes, default=0) < 0:
        return Converted(
            converted.nodes,
            converted.how,
            converted.exact,
            f"axes {list(axes)} are negative, which opset {opset} does not promise; "
            "the rank is not known",
        )
    return converted


def _written_once(
    axes: Sequence[int], rank: int | None, non_negative: bool
) -> tuple[int, ...]:
    """Return `axes` without those that are there already."""
    by_place = {axis % rank if rank else axis: axis for axis in reversed(axes)}
    chosen = by_place if non_negative else by_place.values()
    return tuple(reversed(list(chosen)))


def _with_input(
    node: NodeProto,
    axes: Axes,
    axes_input: Callable[[tuple[int, ...] | FunctionAttribute], str],
) -> Converted:
    """Return `node`, which has axes as an attribute, with an input instead."""
    drop_attribute(node, "axes")
    if not axes:
        return Converted([node], "all axes: no input")
    node.input.append(axes_input(axes))
    return Converted([node], f"{_said(axes)} as an input")


def _with_attribute(
    node: NodeProto,
    said: ReduceNode,
    axes: Axes,
    opset: int,
    fresh: Callable[[str], str],
    where: str,
) -> Converted:
    """Return `node`, which may have axes as an input, with an attribute instead."""
    row = BY_OPERATOR[said.version.operator]
    assert row.finish == "none"
    term = TERMS[row.term]
    decided_by_call = any(a.name == NOOP and a.ref_attr_name for a in node.attribute)
    may_be_noop = decided_by_call or said.noop_with_empty_axes
    if axes is None or (may_be_noop and isinstance(axes, FunctionAttribute)):
        return _term_and_sum(node, term, opset, fresh, f"{where}axes are")
    if not axes and decided_by_call:
        return _term_and_sum(node, term, opset, fresh, f"{where}{NOOP} is")
    del node.input[1:]
    drop_attribute(node, NOOP)
    if axes:
        _set_axes(node, axes)
        return Converted([node], f"{_said(axes)} as an attribute")
    if not said.noop_with_empty_axes:
        return Converted([node], "all axes: no attribute")
    node.op_type = term.operator
    inputs = term.inputs(node.input[0])
    del node.input[:]
    node.input.extend(inputs)
    del node.attribute[:]
    return Converted([node], f"no axes: {term.noun}s only")


def _term_and_sum(
    node: NodeProto,
    term: TermInOnnx,
    opset: int,
    fresh: Callable[[str], str],
    what: str,
) -> Converted:
    """Return a term and a plain sum, whose axes became an input earlier."""
    if SUM.version_for(opset).axes == "attribute":
        raise ModelError(
            f"{what} known only when the model runs, which has no form in opset {opset}; "
            f"allowed: from opset {SUM.axes_input_since} on, or a constant"
        )
    name = f"{node.name}_{term.noun}" if node.name else ""
    output = fresh(f"{node.output[0]}_{term.noun}")
    before = term.node(node.input[0], output, node.domain, name)
    node.op_type = SUM.operator
    node.input[0] = output
    return Converted([before, node], "axes of run time", exact=False)


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
