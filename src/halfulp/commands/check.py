"""The command ``halfulp check``.

May import limits, terminal and, within functions, onnx.model_check and rich.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from halfulp import limits
from halfulp.commands.arguments import Model
from halfulp.terminal import AsJson, open_console, print_line, printable

if TYPE_CHECKING:
    from halfulp.onnx.model_check import CheckReport, Finding, NodeFacts


def check(
    model: Model,
    as_json: AsJson = False,
) -> None:
    """List the ReduceSumSquare nodes of a model, and what is wrong with it.

    Of each node: version, type, shapes, the axes that it reduces, errors, what
    is not portable, and the fix. The exit code is 1 if there are errors, and 2
    if the model cannot be read.

    Example:  halfulp check model.onnx
    """
    from halfulp.onnx.files import given_model
    from halfulp.onnx.model_check import check_model

    limits.look_at(model)
    report = check_model(given_model(model))
    if as_json:
        print(json.dumps({"model": str(model), **report.as_dict()}))
    else:
        _show(report)
    if report.errors:
        raise typer.Exit(1)


def _show(report: CheckReport) -> None:
    console = open_console()

    def line(text: str, indent: int, style: str = "") -> None:
        print_line(console, printable(text), indent, style)

    findings: dict[str, list[Finding]] = {}
    for finding in report.findings:
        findings.setdefault(finding.node, []).append(finding)

    def show(node: str, description: Sequence[str]) -> None:
        line(node, 0, "bold")
        for text in description:
            line(text, 2)
        for finding in findings.pop(node, ()):
            style = "bold red" if finding.severity == "error" else "yellow"
            line(f"{finding.severity} {finding.code}", 2, style)
            line(finding.message, 4)
            line(f"fix: {finding.fix}", 4)
        console.print()

    for facts in report.nodes:
        show(facts.node, _describe(facts))
    for node in list(findings):
        show(node, ())
    line(
        f"{_number(len(report.nodes), 'ReduceSumSquare node')}, "
        f"{_number(report.errors, 'error')}, {_number(report.warnings, 'warning')}",
        0,
    )


def _describe(facts: NodeFacts) -> list[str]:
    head = f"ReduceSumSquare-{facts.version}, opset {facts.opset}"
    if facts.keepdims is None:
        return [head]
    kind = facts.element_type or "type not known"
    shapes = f"{_shape(facts.input_shape)} -> {_shape(facts.output_shape)}"
    given = "" if facts.axes is None else f" {list(facts.axes)}"
    flags = f"keepdims {int(facts.keepdims)}"
    if facts.noop_with_empty_axes:
        flags += ", noop_with_empty_axes 1"
    return [f"{head}; {kind}, {shapes}", f"axes{given}: {facts.axes_meaning}; {flags}"]


def _shape(shape: Sequence[int | str | None] | None) -> str:
    if shape is None:
        return "shape not known"
    return "[" + ", ".join("?" if n is None else str(n) for n in shape) + "]"


def _number(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'s' * (count != 1)}"
