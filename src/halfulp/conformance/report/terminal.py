"""Runs as tables for the terminal, as Markdown and as JUnit's XML.

May import the rest of halfulp.conformance, report and terminal.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from rich.table import Table
from rich.text import Text

from halfulp.conformance.backends.registry import describe
from halfulp.conformance.bits import Array, bits_text
from halfulp.conformance.cases.case import CLASSES
from halfulp.conformance.cases.why import explain, hardest
from halfulp.conformance.report.elements import lines_of
from halfulp.conformance.report.summary import (
    SHORT_TYPES,
    TYPES,
    classes_in,
    matrix,
    totals,
)
from halfulp.conformance.results import Result, Run
from halfulp.conformance.verdicts import CRASHED, EXACT, HUNG, REFUSED, ULPS, VERDICTS
from halfulp.report.markdown import RIGHT
from halfulp.report.markdown import table as markdown_table
from halfulp.terminal import new_table

_INTRODUCTION = (
    "What backends give on the cases of `halfulp verify`: inputs of ReduceSumSquare that "
    "are hard to get right, in every version and type, each with its one right result."
)
_TOLERANCE_NOTE = (
    "ONNX's own runner of backend tests passes what differs by at most 1e-3 relatively "
    "plus 1e-7, and for bfloat16 by 2^-6 relatively."
)
LEGEND = (
    "A figure is the worst error in ulps, 0 where every bit is right; a word the worst "
    "verdict: refused with an error, accepts what is invalid, or a wrong value, shape "
    "or type."
)
# Of an error, in the terminal: two lines.
_LONGEST = 150
_COLOURS = {EXACT: "green", ULPS: "yellow", REFUSED: "cyan"}


def matrix_table(run: Run) -> Table:
    """Return the matrix of classes and types, in 80 columns."""
    table = new_table("class", *SHORT_TYPES, right=SHORT_TYPES, edge=False)
    table.title = run.title
    table.padding = 0
    for column in table.columns[1:]:
        column.min_width = 7
    cells = matrix(run)
    for class_name in classes_in([run]):
        row = [Text(class_name)]
        for type_name in TYPES:
            cell = cells.get((class_name, type_name))
            colour = _COLOURS.get(cell.word, "bold red") if cell else ""
            row.append(Text(cell.text if cell else "", style=colour))
        table.add_row(*row)
    return table


def totals_table(runs: Sequence[Run]) -> Table:
    """Return how many cases have each verdict, a column for each run."""
    backends = [run.backend for run in runs]
    table = new_table("cases", *backends, right=backends, prose=backends, edge=False)
    for row in _totals_rows(runs):
        table.add_row(*row)
    return table


def examples(run: Run) -> Iterator[str]:
    """Yield lines: one case of each verdict that is not exact, and what is wrong."""
    for word in list(VERDICTS)[1:]:
        of_word = [result for result in run.results if result.verdict.word == word]
        if of_word:
            text = _words(of_word[0])
            yield of_word[0].case.name
            yield f"  {text[:_LONGEST]}{'...' * (len(text) > _LONGEST)}"


def details(result: Result) -> Iterator[str]:
    """Yield lines: all about a case, and about the element of it that is worst."""
    case, verdict = result.case, result.verdict
    yield f"  {_words(result)}"
    if result.known:
        yield f"  Known: {result.known}"
    yield f"  {case.node}"
    yield f"  {case.about}"
    if case.expected is None or not case.expected.size:
        return
    place = verdict.worst
    if place is None:
        place = hardest(case.unrounded, case.expected)
    yield f"  {explain(case.unrounded, case.expected, place)}"
    yield f"  expected {_value(case.expected, place)}"
    if result.got is not None and result.got.shape == case.expected.shape:
        yield f"  got {_value(result.got, place)}"
    of = f" of element {list(place)}" if case.expected.size > 1 else ""
    yield f"  The terms{of}:"
    for index, value, code, is_hard in lines_of(case, place):
        hard = " (hard)" if is_hard else ""
        yield "    " + "  ".join(filter(None, (index, value, code))) + hard


def markdown(runs: Sequence[Run], command: str) -> str:
    """Return runs as a page of Markdown."""
    lines = ["# Conformance", "", _INTRODUCTION, ""]
    lines += [f"Printed by `{command}` on {runs[0].date}, {runs[0].machine}.", ""]
    for run in runs:
        lines.append(f"- **{run.title}**: {describe(run.backend)}")
    lines += ["", "## Cases by verdict", ""]
    head = ["cases", *(run.backend for run in runs)]
    lines += markdown_table(head, _totals_rows(runs), RIGHT)
    lines += ["", LEGEND]
    for run in runs:
        lines += ["", f"## {run.backend}", ""]
        lines += markdown_table(["class", *TYPES], _matrix_rows(run), RIGHT)
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


def junit(runs: Sequence[Run]) -> bytes:
    """Return runs as XML in JUnit's form: a suite for each backend."""
    root = ElementTree.Element("testsuites")
    for run in runs:
        words = Counter(result.verdict.word for result in run.results)
        ended = words[CRASHED] + words[HUNG]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"halfulp verify {run.backend}",
            tests=str(len(run.results)),
            failures=str(len(run.results) - words[EXACT] - ended),
            errors=str(ended),
            skipped="0",
        )
        properties = ElementTree.SubElement(suite, "properties")
        for name, value in run.versions.items():
            ElementTree.SubElement(properties, "property", name=name, value=value)
        for result in run.results:
            _add_junit_case(suite, run.backend, result)
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return b"<?xml version='1.0' encoding='utf-8'?>\n" + text.encode() + b"\n"


def _add_junit_case(suite: ElementTree.Element, backend: str, result: Result) -> None:
    case = result.case
    class_name = f"{case.type}.{case.class_name.replace(' ', '_')}"
    element = ElementTree.SubElement(
        suite, "testcase", classname=class_name, name=case.name
    )
    word = result.verdict.word
    if word == EXACT:
        return
    tag = "error" if word in (CRASHED, HUNG) else "failure"
    failure = ElementTree.SubElement(element, tag, type=word, message=_words(result))
    again = f"halfulp verify {shlex.quote(backend)} --case {case.name}"
    failure.text = "\n".join([case.node, case.why, result.known or "", again])


def _words(result: Result) -> str:
    """The verdict with its figure and its text."""
    verdict = result.verdict
    plural = "" if verdict.ulps == 1 else "s"
    word = f"off by {verdict.ulps} ulp{plural}" if verdict.word == ULPS else verdict.word
    return f"{word}: {verdict.text}" if verdict.text else word


def _value(array: Array, place: tuple[int, ...]) -> str:
    """An element in decimal and its bits."""
    return f"{array[place]!s} ({bits_text(array, place)})"


def _totals_rows(runs: Sequence[Run]) -> list[list[str]]:
    columns = [totals(run) for run in runs]
    rows = [[word, *(str(column[word]) for column in columns)] for word in columns[0]]
    rows = [row for row in rows if set(row[1:]) != {"0"}]
    if any(run.left_out for run in runs):
        rows.append(["left out", *(str(run.left_out) for run in runs)])
    return rows


def _matrix_rows(run: Run) -> list[list[str]]:
    cells = matrix(run)
    rows = []
    for class_name in classes_in([run]):
        row = [cells.get((class_name, type_name)) for type_name in TYPES]
        rows.append([class_name, *(cell.text if cell else "" for cell in row)])
    return rows
