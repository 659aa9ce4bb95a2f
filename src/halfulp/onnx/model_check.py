"""Lists the nodes of a model that reduce, what they mean, and what is wrong.

The function `check_model`, and the classes of the report that it returns.
"""

from __future__ import annotations

import os
from dataclasses import replace

from onnx import ModelProto

from halfulp.errors import HalfulpError
from halfulp.faults import model_errors
from halfulp.onnx.check.facts import bare_facts, broken_facts, node_facts
from halfulp.onnx.check.findings import (
    error_finding,
    invalid_finding,
    more_errors_finding,
    split_error,
    unsorted_finding,
)
from halfulp.onnx.check.nodes import BrokenNode, KnownNode, check_opened
from halfulp.onnx.check.portability import axes_warnings, type_warnings
from halfulp.onnx.check.report import CheckReport, Finding, NodeFacts
from halfulp.onnx.model.open import Purpose, open_model, read_model

__all__ = ["CheckReport", "Finding", "NodeFacts", "check_model"]

# Of one kind, that are listed: a node that is wrong may have no more bytes than its error
# has words.
_MOST_ERRORS = 1000


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
        Every node that reduces, nested graphs and functions included; the first
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
                           unchanged"; halfulp squares, or makes positive
    unsorted-nodes         ONNX's checker refuses them, ONNX Runtime and halfulp sort
    runtime-axes           many converters and shape inferences need constants
    float16-overflow       so many elements are joined in float16, or nobody knows how
                           many, that at a size of 16 or less the result is infinite:
                           256 squares, 4095 values or magnitudes, 4 factors
    float16-intermediate   the same of a mean or a norm, which itself is finite: ONNX's
                           reference evaluator gives infinity
    integer-overflow       int32 saturates and int64 loses bits above 2^53 in
                           ONNX Runtime, sums of means and norms wrap elsewhere; here
                           they are exact, results modulo 2^N
    integer-logarithm      the logarithm of integers is cut toward zero here, ONNX's
                           reference evaluator refuses them, and version 28 lacks them
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

    broken_nodes: list[BrokenNode] = []
    with model_errors("the model cannot be used"):
        opened = open_model(proto, Purpose.CHECK, note, note_of_graph)
        found = check_opened(opened, note, broken_nodes.append)
    places = opened.places
    findings = [error_finding(*item, places.get(item[0])) for item in errors.items()]
    for place, error in graph_errors.items():
        findings.append(invalid_finding(place, error, places.get(place)))
    if max(len(errors), len(graph_errors)) >= _MOST_ERRORS:
        findings.append(more_errors_finding(_MOST_ERRORS))
    sound: dict[str, list[KnownNode]] = {place: [] for place in places}
    for known in found:
        sound[known.place].append(known)
    nodes = []
    for place, at in places.items():
        for known in sound[place]:
            nodes.append(node_facts(known, at))
            for warnings in (type_warnings, axes_warnings):
                for code, message, fix in warnings(known, at.opset):
                    name = nodes[-1].node
                    findings.append(Finding(name, "warning", code, message, fix))
        of_place = [each for each in broken_nodes if each.place == place]
        for broken in of_place[:1] if not sound[place] else ():
            name, _ = split_error(place, errors[place], at)
            nodes.append(replace(broken_facts(broken, at), node=name))
        if not (sound[place] or of_place):
            nodes.append(bare_facts(place, at))
    findings.extend(map(unsorted_finding, unsorted))
    return CheckReport(tuple(nodes), tuple(findings))


def _note(errors: dict[str, HalfulpError], place: str, error: HalfulpError) -> None:
    """Keep the first error of a node, without the frames that it was raised in."""
    if len(errors) < _MOST_ERRORS:
        errors.setdefault(place, error.with_traceback(None))
