"""The command ``halfulp check``.

May import errors, limits, terminal and, within functions, files.paths, rich and, of
onnx, model.files and model_check.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfulp import limits
from halfulp.errors import HalfulpError
from halfulp.terminal import open_console, print_line, printable

if TYPE_CHECKING:
    from halfulp.onnx.model_check import CheckReport, Finding, NodeFacts


def check(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL",
            help="Files; folders, for all .onnx files below them; or patterns. - is "
            "stdin.",
        ),
    ],
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object; a list, if there are more."),
    ] = False,
) -> None:
    """List the nodes of models that reduce, and what is wrong.

    Of each node: version, type, shapes, the axes that it reduces, errors, what
    is not portable, and the fix. The exit code is 1 if there are errors, and 2
    if a model cannot be read.

    Example:  halfulp check model.onnx
    """
    from halfulp.files.paths import named_files
    from halfulp.onnx.model.files import given_model
    from halfulp.onnx.model_check import check_model

    paths, none = named_files(models, (".onnx",), once=False)
    several = len(models) > 1 or paths != models
    facts: list[dict[str, Any]] = []

    def fail(path: Path, error: HalfulpError) -> None:
        if not several or not paths:
            raise error
        facts.append({"model": str(path), "error": str(error)})
        print(f"halfulp: error: {printable(str(error))}", file=sys.stderr)

    for path, error in none:
        fail(path, error)
    limits.look_at(*paths)
    code = 2 if none else 0
    for path in paths:
        limits.at(path)
        try:
            report = check_model(given_model(path))
        except HalfulpError as error:
            fail(path, error)
            code = 2
            continue
        code = max(code, 1 if report.errors else 0)
        facts.append({"model": str(path), **report.as_dict()})
        if not as_json:
            _show(report, path if several else None)
    if as_json:
        print(json.dumps(facts if several else facts[0]))
    elif several:
        print(_summary(facts))
    if code:
        raise typer.Exit(code)


def _summary(facts: Sequence[dict[str, Any]]) -> str:
    unread = sum("error" in each for each in facts)
    wrong = sum(each.get("errors", 0) > 0 for each in facts)
    return (
        f"{_number(len(facts), 'model')}: {wrong} with errors, {unread} that cannot be "
        "checked"
    )


def _show(report: CheckReport, path: Path | None) -> None:
    """Print a report, after the path of the model where there are several."""
    console = open_console()
    if path is not None:
        print_line(console, f"# {printable(str(path))}", style="bold")

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
    counts = [_number(n, f"{name} node") for name, n in report.operators.items()]
    counts = counts or ["no node that reduces"]
    counts += [_number(report.errors, "error"), _number(report.warnings, "warning")]
    line(", ".join(counts), 0)
    if path is not None:
        console.print()


def _describe(facts: NodeFacts) -> list[str]:
    head = f"{facts.operator}-{facts.version}, opset {facts.opset}"
    known = facts.element_type, facts.input_shape, facts.keepdims
    if known == (None, None, None):
        return [head]
    kind = facts.element_type or "type not known"
    shapes = f"{_shape(facts.input_shape)} -> {_shape(facts.output_shape)}"
    lines = [f"{head}; {kind}, {shapes}"]
    # Of a node whose attributes break a rule they are not known.
    if facts.keepdims is not None:
        given = "" if facts.axes is None else f" {list(facts.axes)}"
        flags = f"keepdims {int(facts.keepdims)}"
        if facts.noop_with_empty_axes:
            flags += ", noop_with_empty_axes 1"
        lines.append(f"axes{given}: {facts.axes_meaning}; {flags}")
    return lines


def _shape(shape: Sequence[int | str | None] | None) -> str:
    if shape is None:
        return "shape not known"
    return "[" + ", ".join("?" if n is None else str(n) for n in shape) + "]"


def _number(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'s' * (count != 1)}"
