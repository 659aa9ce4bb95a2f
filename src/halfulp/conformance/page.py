"""Runs as one page of HTML: matrices, and every case with what was given and got.

May import backends, bits, cases, html, report, results, summary and verdicts only.
Its style and script are the files page.css and page.js beside it.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from halfulp.conformance.backends import describe
from halfulp.conformance.bits import Array
from halfulp.conformance.cases import CLASSES, Case
from halfulp.conformance.report import LEGEND
from halfulp.conformance.results import Result, Run, first_values
from halfulp.conformance.summary import (
    SHORT_TYPES,
    TOLERANCE,
    TYPES,
    Cell,
    classes_in,
    matrix,
    totals,
)
from halfulp.conformance.verdicts import EXACT, REFUSED, ULPS, VERDICTS
from halfulp.html import document, escape

# Of a badge or a cell; the other verdicts are bad.
_COLOURS = {EXACT: "good", ULPS: "warn", REFUSED: ""}


def page(runs: Sequence[Run], command: str) -> str:
    """Return one self-contained page, for one backend or several side by side.

    Parameters
    ----------
    runs : sequence of Run
        Over the same cases, apart from those that a backend leaves out.
    command : str
        What to type for such a page.
    """
    folder = importlib.resources.files("halfulp.conformance")
    # "<" could end the script; in JSON it stands in strings only.
    data = json.dumps(_data(runs)).replace("<", "\\u003c")
    script = (folder / "page.js").read_text("utf-8")
    return document(
        "Conformance of ReduceSumSquare",
        "\n".join(_body(runs, command)),
        style=(folder / "page.css").read_text("utf-8"),
        script=f"const DATA = {data};\n{script}",
    )


def _body(runs: Sequence[Run], command: str) -> Iterator[str]:
    yield '<main id="main" tabindex="-1">'
    yield "<h1>Conformance of ReduceSumSquare</h1>"
    yield f"<p>Written by <code>{escape(command)}</code> on {runs[0].date}.</p>"
    yield "<ul>"
    for run in runs:
        what = escape(describe(run.backend)).replace("`", "")
        yield f"<li><strong>{escape(run.title)}</strong>: {what}</li>"
    yield "</ul>"
    yield from _totals(runs)
    yield f"<p>{escape(LEGEND)} A cell shows its cases below.</p>"
    yield '<div class="backends">'
    for run in runs:
        yield from _matrix(run)
    yield "</div>"
    yield '<h2 id="list">Cases</h2>'
    yield "<noscript><p>The list of cases needs JavaScript.</p></noscript>"
    yield from _filters(runs)
    yield '<p id="count" role="status"></p><ul id="cases"></ul>'
    yield '<button id="more" type="button" hidden>Show more</button>'
    yield "<h2>Classes</h2><dl>"
    for name in classes_in(runs):
        yield f"<dt>{escape(name)}</dt><dd>{escape(CLASSES[name])}</dd>"
    yield "</dl><h2>Verdicts</h2><dl>"
    for name, text in VERDICTS.items():
        yield f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>"
    yield "</dl></main>"


def _totals(runs: Sequence[Run]) -> Iterator[str]:
    columns = [totals(run) for run in runs]
    yield '<div class="scroll"><table><thead><tr><th scope="col">cases</th>'
    for run in runs:
        yield f'<th scope="col" class="number">{escape(run.backend)}</th>'
    yield "</tr></thead><tbody>"
    for word in columns[0]:
        if any(column[word] for column in columns):
            figures = "".join(f'<td class="number">{c[word]}</td>' for c in columns)
            yield f'<tr><th scope="row">{escape(word)}</th>{figures}</tr>'
    yield "</tbody></table></div>"


def _matrix(run: Run) -> Iterator[str]:
    cells = matrix(run)
    yield f"<section><h2>{escape(run.backend)}</h2>"
    yield '<div class="scroll"><table class="matrix"><thead><tr><td></td>'
    for type_name, short in zip(TYPES, SHORT_TYPES, strict=True):
        yield f'<th scope="col"><abbr title="{type_name}">{short}</abbr></th>'
    yield "</tr></thead><tbody>"
    for class_name in classes_in([run]):
        yield f'<tr><th scope="row">{escape(class_name)}</th>'
        for type_name in TYPES:
            cell = cells.get((class_name, type_name))
            yield _button(run, class_name, type_name, cell) if cell else "<td></td>"
        yield "</tr>"
    yield "</tbody></table></div></section>"


def _button(run: Run, class_name: str, type_name: str, cell: Cell) -> str:
    facts = {"backend": run.backend, "class": class_name, "type": type_name}
    data = " ".join(f'data-{k}="{escape(v)}"' for k, v in facts.items())
    title = (
        f"{class_name}, {type_name}: {cell.exact} of {cell.cases} exact; worst: "
        f"{f'{cell.ulps} ulps' if cell.word == ULPS else cell.word}"
    )
    colour = _COLOURS.get(cell.word, "bad")
    return (
        f'<td><button type="button" class="{colour}" {data} title="{escape(title)}">'
        f"{escape(cell.text)}</button></td>"
    )


def _filters(runs: Sequence[Run]) -> Iterator[str]:
    words = {result.verdict.word for run in runs for result in run.results}
    versions = sorted({r.case.version for run in runs for r in run.results})
    verdicts = [word for word in VERDICTS if word in words]
    yield '<form class="filters">'
    yield _select("verdict", ["not exact", *verdicts])
    yield _select("backend", [run.backend for run in runs])
    yield _select("class", classes_in(runs))
    yield _select("type", dict.fromkeys(r.case.type for run in runs for r in run.results))
    yield _select("version", map(str, versions))
    yield '<label>name <input name="name" type="search"></label>'
    yield '<button id="all" type="button">Show all</button></form>'


def _select(name: str, values: Iterable[str]) -> str:
    options = "".join(f"<option>{escape(value)}</option>" for value in values)
    return (
        f'<label>{name} <select name="{name}"><option value="">any</option>'
        f"{options}</select></label>"
    )


def _data(runs: Sequence[Run]) -> dict[str, Any]:
    cases = {result.case.name: result.case for run in runs for result in run.results}
    by_name = [{result.case.name: result for result in run.results} for run in runs]
    return {
        "backends": [run.backend for run in runs],
        "colours": _COLOURS,
        "tolerance": TOLERANCE.removeprefix("passes at "),
        "cases": [
            _case(case, [results.get(name) for results in by_name])
            for name, case in cases.items()
        ],
    }


def _case(case: Case, results: Sequence[Result | None]) -> dict[str, Any]:
    _, feeds = case.model()
    return {
        "name": case.name,
        "class": case.class_name,
        "type": case.type,
        "version": case.version,
        "node": case.node,
        "why": case.why,
        "source": case.source,
        "inputs": [[name, *_array(array)] for name, array in feeds.items()],
        "expected": None if case.expected is None else _array(case.expected),
        "results": [_result(result) for result in results],
    }


def _array(array: Array) -> list[Any]:
    return [array.dtype.name, array.shape, array.size, first_values(array)]


def _result(result: Result | None) -> list[Any] | None:
    """The verdict; type, shape and values of what is not exact; why that is known."""
    if result is None:
        return None
    verdict, got, expected = result.verdict, result.got, result.case.expected
    facts = [verdict.word, verdict.ulps, verdict.passes_at_onnx_tolerance, verdict.text]
    if got is None or result.exact:
        return [*facts, "", [], [], result.known]
    rows = first_values(got, verdict.worst)
    if expected is not None and expected.shape == got.shape:
        right = first_values(expected, verdict.worst)
        rows = [[*r, *g[1:]] for r, g in zip(right, rows, strict=True)]
    return [*facts, got.dtype.name, got.shape, rows, result.known]
