"""Runs as tables and lines for the terminal.

May import terminal, bits, cases, results, verdicts, elements and summary only; and rich.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from halfulp.conformance.bits import Array, bits_text
from halfulp.conformance.cases.why import explain, hardest
from halfulp.conformance.report.elements import lines_of
from halfulp.conformance.report.summary import (
    SHORT_TYPES,
    Summary,
    classes_in,
    matrix,
    told,
    totals_rows,
    types_in,
)
from halfulp.conformance.results import Result, Run
from halfulp.conformance.verdicts import EXACT, REFUSED, ULPS, VERDICTS
from halfulp.terminal import new_table

# Of an error, in the terminal: two lines.
_LONGEST = 150
_COLOURS = {EXACT: "green", ULPS: "yellow", REFUSED: "cyan"}


def matrix_tables(run: Run) -> Iterator[Table]:
    """Yield the matrix of classes and types, in 80 columns: a table for as many types."""
    summaries = matrix(run)
    for types in types_in(run):
        heads = [SHORT_TYPES[name] for name in types]
        table = new_table("class", *heads, right=heads, edge=False)
        table.title = run.title
        table.padding = 0
        for column in table.columns[1:]:
            column.min_width = 7
        for class_name in classes_in([run]):
            cells = [summaries.get((class_name, name)) for name in types]
            if any(cells):
                table.add_row(Text(class_name), *map(_cell, cells))
        yield table


def _cell(summary: Summary | None) -> Text:
    if summary is None:
        return Text("")
    return Text(summary.text, style=_COLOURS.get(summary.word, "bold red"))


def totals_table(runs: Sequence[Run]) -> Table:
    """Return how many cases have each verdict, a column for each run."""
    backends = [run.backend for run in runs]
    table = new_table("cases", *backends, right=backends, prose=backends, edge=False)
    for row in totals_rows(runs):
        table.add_row(*row)
    return table


def examples(run: Run) -> Iterator[str]:
    """Yield lines: one case of each verdict that is not exact, and what is wrong."""
    for word in list(VERDICTS)[1:]:
        of_word = [result for result in run.results if result.verdict.word == word]
        if of_word:
            text = told(of_word[0])
            yield of_word[0].case.name
            yield f"  {text[:_LONGEST]}{'...' * (len(text) > _LONGEST)}"


def details(result: Result) -> Iterator[str]:
    """Yield lines: all about a case, and about the element of it that is worst."""
    case, verdict = result.case, result.verdict
    yield f"  {told(result)}"
    if result.known:
        yield f"  Known: {result.known}"
    yield f"  {case.node}"
    yield f"  {case.about}"
    if case.expected is None or not case.expected.size:
        return
    place = verdict.worst
    if place is None:
        place = hardest(case.unrounded, case.expected)
    yield f"  {explain(case.reduction, case.unrounded, case.expected, place)}"
    yield f"  expected {_value(case.expected, place)}"
    if result.got is not None and result.got.shape == case.expected.shape:
        yield f"  got {_value(result.got, place)}"
    of = f" of element {list(place)}" if case.expected.size > 1 else ""
    yield f"  The terms{of}:"
    for index, value, code, is_hard in lines_of(case, place):
        hard = " (hard)" if is_hard else ""
        yield "    " + "  ".join(filter(None, (index, value, code))) + hard


def _value(array: Array, place: tuple[int, ...]) -> str:
    """An element in decimal and its bits."""
    return f"{array[place]!s} ({bits_text(array, place)})"
