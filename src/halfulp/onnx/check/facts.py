"""What a node that reduces means, in a report's words."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from halfulp.errors import HalfulpError
from halfulp.onnx.check.nodes import BrokenNode, KnownNode
from halfulp.onnx.check.report import NodeFacts
from halfulp.onnx.model.reduce_nodes import VersionAt, describe
from halfulp.onnx.model.shapes import result_shape
from halfulp.onnx.model.terms import TERMS, TermInOnnx
from halfulp.reductions import BY_OPERATOR
from halfulp.spec.rules import reduced_axes


def node_name(place: str, at: VersionAt | None) -> str:
    """Return a place without operator and opset, which facts have apart."""
    return place if at is None else place.removesuffix(describe("", at))


def bare_facts(place: str, at: VersionAt) -> NodeFacts:
    """Return what is known of a node of which only version, opset and place are."""
    return NodeFacts(
        node=node_name(place, at),
        operator=at.version.operator,
        version=at.version.since,
        opset=at.opset,
        element_type=None,
        axes=None,
        axes_meaning="not known",
        keepdims=None,
        noop_with_empty_axes=None,
        input_shape=None,
        output_shape=None,
    )


def broken_facts(broken: BrokenNode, at: VersionAt) -> NodeFacts:
    """Return what is known of a node with an error."""
    bare = bare_facts(broken.place, at)
    bare = replace(bare, element_type=broken.element_type, input_shape=broken.shape)
    if broken.node is None:
        return bare
    known = (broken.node, broken.element_type, broken.shape, broken.axes)
    with suppress(HalfulpError):
        return node_facts(KnownNode(broken.path, broken.place, *known), at)
    return replace(
        bare,
        axes=broken.axes,
        keepdims=broken.node.keepdims,
        noop_with_empty_axes=broken.node.noop_with_empty_axes,
    )


def node_facts(known: KnownNode, at: VersionAt) -> NodeFacts:
    """Return what a node without errors means."""
    node = known.node
    return NodeFacts(
        node=known.path + node_name(known.place, at),
        operator=at.version.operator,
        version=at.version.since,
        opset=at.opset,
        element_type=known.element_type,
        axes=known.axes,
        axes_meaning=_axes_meaning(known),
        keepdims=node.keepdims,
        noop_with_empty_axes=node.noop_with_empty_axes,
        input_shape=known.shape,
        output_shape=result_shape(
            known.shape,
            "unknown" if known.axes is None else known.axes,
            node.keepdims,
            node.noop_with_empty_axes,
        ),
    )


def known_axes(known: KnownNode) -> tuple[int, ...] | None:
    """Return the axes that are reduced, if that is known."""
    if known.axes is None or known.shape is None:
        return None
    noop = known.node.noop_with_empty_axes
    return reduced_axes(known.axes, len(known.shape), noop_with_empty_axes=noop)


def of_one(known: KnownNode) -> TermInOnnx:
    """Return what becomes of an element where no axis is reduced."""
    return TERMS[BY_OPERATOR[known.node.version.operator].of_one]


def _axes_meaning(known: KnownNode) -> str:
    axes, noop = known.axes, known.node.noop_with_empty_axes
    if axes is None:
        empty = "none" if noop else "all"
        return f"known at run time only; empty ones reduce {empty}"
    if not axes and noop:
        return f"reduces none: every element is {of_one(known).participle}"
    reduced = known_axes(known)
    if reduced is None:
        if not axes:
            return "reduces all"
        ends = ", negative ones from the end" if min(axes) < 0 else ""
        return f"reduces {_list(axes)} of unknown rank{ends}"
    rank = len(known.shape or ())
    if not rank:
        return f"reduces none: a scalar is {of_one(known).participle}"
    every = ", all" if len(reduced) == rank else ""
    return f"reduces {_list(reduced)} of rank {rank}{every}"


def _list(axes: tuple[int, ...]) -> str:
    return ("axis " if len(axes) == 1 else "axes ") + ", ".join(map(str, axes))
