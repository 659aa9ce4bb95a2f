"""Runs as a page of Markdown.

May import report, backends, cases, results, verdicts and summary only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from halfulp.conformance.backends.registry import describe
from halfulp.conformance.cases.case import CLASSES
from halfulp.conformance.cases.why import enumeration
from halfulp.conformance.report.summary import (
    LEGEND,
    classes_in,
    matrix,
    operator_rows,
    operators_in,
    totals_rows,
    types_in,
)
from halfulp.conformance.results import Run
from halfulp.conformance.verdicts import VERDICTS
from halfulp.report.markdown import RIGHT
from halfulp.report.markdown import table as markdown_table

_INTRODUCTION = (
    "What backends give on the cases of `halfulp verify`: inputs of {} that are hard to "
    "get right, in every version and type, each with its one right result."
)
_TOLERANCE_NOTE = (
    "ONNX's own runner of backend tests passes what differs by at most 1e-3 relatively "
    "plus 1e-7, and for bfloat16 by 2^-6 relatively."
)


def markdown(runs: Sequence[Run], command: str) -> str:
    """Return runs as a page of Markdown."""
    operators = operators_in(runs)
    said = enumeration(operators)
    lines = ["# Conformance", "", _INTRODUCTION.format(said), ""]
    lines += [f"Printed by `{command}` on {runs[0].date}, {runs[0].machine}.", ""]
    for run in runs:
        some = operators_in([run])
        only = "" if some == operators else f" (run: {enumeration(some)})"
        lines.append(f"- **{run.title}**: {describe(run.backend)}{only}")
    lines += ["", "## Cases by verdict", ""]
    head = ["cases", *(run.backend for run in runs)]
    lines += markdown_table(head, totals_rows(runs), RIGHT)
    if len(operators) > 1:
        lines += ["", "## Exact cases by operator", ""]
        head = ["operator", *(run.backend for run in runs)]
        lines += markdown_table(head, operator_rows(runs), RIGHT)
    lines += ["", LEGEND]
    for run in runs:
        lines += ["", f"## {run.backend}", ""]
        types = [name for some in types_in(run) for name in some]
        lines += markdown_table(["class", *types], _matrix_rows(run, types), RIGHT)
        reasons = Counter(result.known for result in run.results if result.known)
        if reasons:
            lines += ["", "Known, with its reason:", ""]
            lines += [f"- {count} cases: {text}" for text, count in reasons.items()]
        new = [r for r in run.results if not r.exact and not r.known]
        if new:
            lines += ["", f"Not exact, and no reason is known: {len(new)} cases."]
    lines += ["", "## Classes", ""]
    rows = [[name, CLASSES[name]] for name in classes_in(runs)]
    lines += markdown_table(["class", "what it holds"], rows)
    lines += ["", "## Verdicts", ""]
    rows = [list(item) for item in VERDICTS.items()]
    lines += markdown_table(["verdict", "what it means"], rows)
    lines += ["", _TOLERANCE_NOTE]
    return "\n".join(lines) + "\n"


def _matrix_rows(run: Run, types: list[str]) -> list[list[str]]:
    summaries = matrix(run)
    rows = []
    for class_name in classes_in([run]):
        row = [summaries.get((class_name, type_name)) for type_name in types]
        rows.append([class_name, *(summary.text if summary else "" for summary in row)])
    return rows
