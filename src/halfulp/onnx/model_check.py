"""Lists the ReduceSumSquare nodes of a model, what they mean, and what is wrong.

May import errors, spec.rules, reading, nodes, shapes, survey, tensors and validate only.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from onnx import ModelProto

from halfulp.errors import ArgumentError, AxesError, HalfulpError, UnsupportedTypeError
from halfulp.onnx.check.nodes import Broken, Reduction
from halfulp.onnx.check.survey import survey
from halfulp.onnx.model.open import read_model
from halfulp.onnx.model.prepare import NO_IMPORT
from halfulp.onnx.model.reduce_nodes import describe
from halfulp.onnx.model.shapes import infer_shape
from halfulp.onnx.model.tensors import Shape
from halfulp.spec.rules import (
    OPERATOR,
    OperatorVersion,
    normalize_axes,
    reduced_axes,
    version_for,
)

# From here on a sum is rounded to infinity in float16: the greatest number is 65504,
# the spacing there 32.
_FLOAT16_OVERFLOW = 65520

# So many elements overflow float16 if their root mean square is 16.
_MANY_FLOAT16 = 256

# Of one kind, that are listed: a node that is wrong may have no more bytes than its error
# has words.
_MOST_ERRORS = 1000

# What ONNX Runtime's CPU provider lacks, and what to cast it to.
_WIDER = {
    "bfloat16": "to float before the node and back after it",
    "uint32": "to int64 before the node and back after it",
    "uint64": "to int64 and back where the sums stay below 2^63",
}

_INTEGERS = {
    "int32": "a sum above 2147483647 wraps here, as in NumPy; ONNX Runtime saturates",
    "int64": "ONNX Runtime computes int64 in double, and loses bits above 2^53",
}

_INTEGER_FIX = (
    "Run it in halfulp (halfulp.onnxruntime.register) to have all bits modulo 2^N; "
    "cast to a wider type before the node if sums may not fit."
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong, or not portable.

    Attributes
    ----------
    node : str
        The node, named as errors name it.
    severity : {"error", "warning"}
    code : str
        One of those that `check_model` lists.
    message : str
    fix : str
        What to do about it.
    """

    node: str
    severity: Literal["error", "warning"]
    code: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a ReduceSumSquare node means.

    Attributes
    ----------
    node : str
        As errors name it, after the calls of functions that lead to it.
    version, opset : int
        The version of the operator, and the opset that decides it.
    element_type : str or None
        ONNX's name. This and what follows is None where it is not known before the
        model runs, or where an error hides it.
    axes : tuple of int or None
        As given.
    axes_meaning : str
        Which axes are reduced, in words.
    keepdims, noop_with_empty_axes : bool or None
    input_shape, output_shape : tuple of int, str or None; or None
        Numbers, symbols, and None for a dimension that is not known.
    """

    node: str
    version: int
    opset: int
    element_type: str | None
    axes: tuple[int, ...] | None
    axes_meaning: str
    keepdims: bool | None
    noop_with_empty_axes: bool | None
    input_shape: Shape | None
    output_shape: Shape | None


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `check_model` found; `str` of it can be read, `as_dict` be JSON.

    Attributes
    ----------
    nodes : tuple of NodeFacts
        In the order of the model.
    findings : tuple of Finding
        Errors first.
    """

    nodes: tuple[NodeFacts, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """The number of warnings."""
        return len(self.findings) - self.errors

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {"errors": self.errors, "warnings": self.warnings, **asdict(self)}

    def __str__(self) -> str:
        lines = [
            f"{len(self.nodes)} {OPERATOR}; errors: {self.errors}, "
            f"warnings: {self.warnings}"
        ]
        for finding in self.findings:
            lines.append(
                f"{finding.severity} {finding.code}: {finding.node}: {finding.message}. "
                f"{finding.fix}"
            )
        return "\n".join(lines)


def check_model(model: str | os.PathLike[str] | bytes | ModelProto) -> CheckReport:
    """Check a model without running it.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        Not changed. Of external data only what types may depend on is read, with a
        path. Operators of other domains than ONNX's are allowed.

    Returns
    -------
    CheckReport
        Every ReduceSumSquare node, nested graphs and functions included; the first
        error of every node, of some 1000 nodes; and what is not portable.

    Raises
    ------
    ModelError
        If the model cannot be read, or is wrong in what concerns no node, as its
        opsets, its initializers or its calls of functions.

    Notes
    -----
    The codes of errors:

    ==================== =======================================================
    element-type         the version does not allow the type of the data
    axes                 axes are out of range, or of another type or rank
    attribute-value      a flag is neither 0 nor 1
    node-form            inputs, outputs or attributes that the version lacks
    invalid-node         the node, or another, breaks a rule of ONNX for any node
    ==================== =======================================================

    The codes of warnings, of what other runtimes do (ONNX Runtime 1.32 measured):

    ====================== =====================================================
    no-onnxruntime-kernel  bfloat16, uint32 or uint64, which its CPU provider lacks
    float16-before-opset-6 ONNX Runtime refuses float16 there
    negative-axes          before opset 11 the specification has none
    duplicate-axes         the reference evaluator and others refuse them
    noop-with-empty-axes   until 2025 the specification could be read as "returned
                           unchanged"; halfulp squares
    unsorted-nodes         ONNX's checker refuses them, ONNX Runtime and halfulp sort
    runtime-axes           many converters and shape inferences need constants
    float16-overflow       256 or more elements are summed in float16, or nobody
                           knows how many: at a root mean square of 16 or less the
                           sum is infinite
    integer-overflow       int32 saturates and int64 loses bits above 2^53 in
                           ONNX Runtime; halfulp is exact modulo 2^N
    ====================== =====================================================

    Examples
    --------
    >>> import onnx.parser
    >>> from halfulp.onnx import check_model
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 10]>
    ...     g (float[N,3] x) => (float[N] y) { y = ReduceSumSquare<axes=[-1]>(x) }
    ... ''')
    >>> report = check_model(model)
    >>> report.nodes[0].axes_meaning
    'reduces axis 1 of rank 2'
    >>> report.findings[0].code
    'negative-axes'
    """
    unsorted: list[str] = []
    proto = read_model(model, unsorted)
    errors: dict[str, HalfulpError] = {}
    graph_errors: dict[str, HalfulpError] = {}

    def note(place: str, error: HalfulpError) -> None:
        _note(errors, place, error)

    def note_of_graph(place: str, error: HalfulpError) -> None:
        if place not in errors:
            _note(graph_errors, place, error)

    found = survey(proto, note, note_of_graph)
    places = found.places
    findings = [_error(*item, places.get(item[0])) for item in errors.items()]
    for place, error in graph_errors.items():
        findings.append(_invalid(place, error, places.get(place)))
    if max(len(errors), len(graph_errors)) >= _MOST_ERRORS:
        findings.append(_more_errors())
    reductions: dict[str, list[Reduction]] = {place: [] for place in places}
    for reduction in found.reductions:
        reductions[reduction.place].append(reduction)
    nodes = []
    for place, opset in places.items():
        for reduction in reductions[place]:
            nodes.append(_facts(reduction, opset))
            for rules in (_type_warnings, _axes_warnings):
                for code, message, fix in rules(reduction, opset):
                    name = nodes[-1].node
                    findings.append(Finding(name, "warning", code, message, fix))
        of_place = [each for each in found.broken if each.place == place]
        for broken in of_place[:1] if not reductions[place] else ():
            name, _ = _split(place, errors[place], opset)
            nodes.append(replace(_broken_facts(broken, opset), node=name))
        if not (reductions[place] or of_place):
            nodes.append(_bare_facts(place, opset))
    findings.extend(map(_unsorted, unsorted))
    return CheckReport(tuple(nodes), tuple(findings))


def _note(errors: dict[str, HalfulpError], place: str, error: HalfulpError) -> None:
    """Keep the first error of a node, without the frames that it was raised in."""
    if len(errors) < _MOST_ERRORS:
        errors.setdefault(place, error.with_traceback(None))


def _unsorted(node: str) -> Finding:
    return Finding(
        node,
        "warning",
        "unsorted-nodes",
        "it reads what only later nodes give, which ONNX's own checker refuses; here and "
        "in ONNX Runtime nodes are sorted",
        "Write the nodes in order: halfulp fuse, expand and convert do.",
    )


def _more_errors() -> Finding:
    return Finding(
        "other nodes",
        "error",
        "invalid-node",
        f"{_MOST_ERRORS} nodes are wrong, and perhaps more that are not listed",
        "Repair the first.",
    )


def _name(place: str, opset: int | None) -> str:
    """Return a place without operator and opset, which facts have apart."""
    return place if opset is None else place.removesuffix(describe("", opset))


def _split(place: str, error: HalfulpError, opset: int | None) -> tuple[str, str]:
    """Return the node that `error` names, and what it says of it."""
    # Calls of functions come before the place.
    calls, _, message = str(error).rpartition(f"{place}: ")
    return calls + _name(place, opset), message


def _invalid(place: str, error: HalfulpError, opset: int | None) -> Finding:
    node, message = _split(place, error, opset)
    fix = "Repair the node, or export the model again: runtimes refuse it too."
    if NO_IMPORT in message:
        fix = "Import the domain: add it to opset_import, with the version that is meant."
    return Finding(node, "error", "invalid-node", message, fix)


def _error(place: str, error: HalfulpError, opset: int | None) -> Finding:
    """Return what is wrong with a ReduceSumSquare of `opset`, or another node."""
    if opset is None:
        return _invalid(place, error, opset)
    node, message = _split(place, error, opset)
    version = version_for(opset)
    if isinstance(error, UnsupportedTypeError):
        code = "element-type"
        fix = "Cast the data to an allowed type before the node."
        if version.since < 13 and "bfloat16" in message.partition(";")[0]:
            fix = "Raise the opset: halfulp convert MODEL --opset 13 -o OUT."
    elif isinstance(error, AxesError):
        code = "axes"
        fix = "Give axes from -rank to rank - 1 of the data"
        fix += ", as a 1-D tensor(int64)." if version.axes == "input" else "."
    elif isinstance(error, ArgumentError):
        code, fix = "attribute-value", "Set the attribute to 0 or 1."
    else:
        code, fix = "node-form", _form(version)
    return Finding(node, "error", code, message, fix)


def _form(version: OperatorVersion) -> str:
    inputs = "data and axes" if version.axes == "input" else "data"
    attributes = " and ".join(version.attributes)
    return (
        f"Write the node as {version} has it: inputs {inputs}, attributes {attributes}."
    )


def _bare_facts(place: str, opset: int) -> NodeFacts:
    version = version_for(opset).since
    return NodeFacts(
        node=_name(place, opset),
        version=version,
        opset=opset,
        element_type=None,
        axes=None,
        axes_meaning="not known",
        keepdims=None,
        noop_with_empty_axes=None,
        input_shape=None,
        output_shape=None,
    )


def _broken_facts(broken: Broken, opset: int) -> NodeFacts:
    """Return what is known of a node with an error."""
    bare = _bare_facts(broken.place, opset)
    bare = replace(bare, element_type=broken.element_type, input_shape=broken.shape)
    if broken.node is None:
        return bare
    known = (broken.node, broken.element_type, broken.shape, broken.axes)
    with suppress(HalfulpError):
        return _facts(Reduction(broken.path, broken.place, *known), opset)
    return replace(
        bare,
        axes=broken.axes,
        keepdims=broken.node.keepdims,
        noop_with_empty_axes=broken.node.noop_with_empty_axes,
    )


def _facts(reduction: Reduction, opset: int) -> NodeFacts:
    node = reduction.node
    return NodeFacts(
        node=reduction.path + _name(reduction.place, opset),
        version=node.version.since,
        opset=opset,
        element_type=reduction.element_type,
        axes=reduction.axes,
        axes_meaning=_axes_meaning(reduction),
        keepdims=node.keepdims,
        noop_with_empty_axes=node.noop_with_empty_axes,
        input_shape=reduction.shape,
        output_shape=infer_shape(
            reduction.shape,
            "unknown" if reduction.axes is None else reduction.axes,
            node.keepdims,
            node.noop_with_empty_axes,
            node.version.since,
        ),
    )


def _reduced(reduction: Reduction) -> tuple[int, ...] | None:
    """Return the axes that are reduced, if that is known."""
    if reduction.axes is None or reduction.shape is None:
        return None
    noop = reduction.node.noop_with_empty_axes
    return reduced_axes(reduction.axes, len(reduction.shape), noop_with_empty_axes=noop)


def _axes_meaning(reduction: Reduction) -> str:
    axes, noop = reduction.axes, reduction.node.noop_with_empty_axes
    if axes is None:
        empty = "none" if noop else "all"
        return f"known at run time only; empty ones reduce {empty}"
    if not axes and noop:
        return "reduces none: every element is squared"
    reduced = _reduced(reduction)
    if reduced is None:
        if not axes:
            return "reduces all"
        ends = ", negative ones from the end" if min(axes) < 0 else ""
        return f"reduces {_list(axes)} of unknown rank{ends}"
    rank = len(reduction.shape or ())
    if not rank:
        return "reduces none: a scalar is squared"
    every = ", all" if len(reduced) == rank else ""
    return f"reduces {_list(reduced)} of rank {rank}{every}"


def _list(axes: tuple[int, ...]) -> str:
    return ("axis " if len(axes) == 1 else "axes ") + ", ".join(map(str, axes))


def _count(reduction: Reduction) -> int | None:
    """Return how many elements are summed to one, if that is known."""
    reduced = _reduced(reduction)
    if reduced is None or reduction.shape is None:
        return None
    sizes = [reduction.shape[axis] for axis in reduced]
    numbers = [size for size in sizes if isinstance(size, int)]
    return math.prod(numbers) if len(numbers) == len(sizes) else None


def _type_warnings(reduction: Reduction, opset: int) -> Iterator[tuple[str, str, str]]:
    """Yield code, message and fix of what follows from the element type."""
    name = reduction.element_type
    if name in _WIDER:
        yield (
            "no-onnxruntime-kernel",
            f"ONNX Runtime's CPU provider has no kernel for {name}",
            f"Run it in halfulp (halfulp.onnxruntime.register), or cast {_WIDER[name]}.",
        )
    if name == "float16" and opset < 6:
        yield (
            "float16-before-opset-6",
            "ONNX Runtime refuses float16 before opset 6",
            "Raise the opset: halfulp convert MODEL --opset 13 -o OUT.",
        )
    count = _count(reduction)
    if name == "float16" and (count is None or count >= _MANY_FLOAT16):
        if count is None:
            many = "an unknown number of elements is"
            limit = f"a root mean square of sqrt({_FLOAT16_OVERFLOW} / their number)"
        else:
            many = f"{count} elements are"
            limit = f"a root mean square of {math.sqrt(_FLOAT16_OVERFLOW / count):.3g}"
        yield (
            "float16-overflow",
            f"{many} summed in float16: from {limit} on the result is infinite",
            "Cast the data to float before the node, and keep the result in float.",
        )
    if name in _INTEGERS:
        yield "integer-overflow", _INTEGERS[name], _INTEGER_FIX


def _axes_warnings(reduction: Reduction, opset: int) -> Iterator[tuple[str, str, str]]:
    """Yield code, message and fix of what follows from the axes."""
    axes, noop = reduction.axes, reduction.node.noop_with_empty_axes
    if axes is None:
        yield (
            "runtime-axes",
            "the axes are known at run time only: converters and shape inference of "
            "many tools need them beforehand, and opsets below 18 cannot say it",
            "Make the axes an initializer, if they are always the same.",
        )
    elif min(axes, default=0) < 0 and opset < 11:
        normal = "counted from 0"
        if reduction.shape is not None:
            normal = str(_normal(axes, len(reduction.shape)))
        yield (
            "negative-axes",
            f"the axes {list(axes)} are negative, which opset {opset} does not define",
            f"Write {normal}, or: halfulp convert MODEL --opset 11 -o OUT.",
        )
    distinct = axes and (axes if reduction.shape is None else _reduced(reduction))
    if axes and distinct and len(set(distinct)) < len(axes):
        yield (
            "duplicate-axes",
            f"the axes {list(axes)} name an axis twice, which some runtimes refuse",
            f"Write {sorted(set(distinct))}.",
        )
    if noop and not axes:
        yield (
            "noop-with-empty-axes",
            "with empty axes every element is squared, but runtimes from before the "
            "clarification of 2025 may return the data unchanged",
            "Say it with Mul(data, data)"
            + (", or make the axes an initializer." if axes is None else "."),
        )


def _normal(axes: tuple[int, ...], rank: int) -> list[int]:
    return list(normalize_axes(axes, rank, repeated="merge"))
