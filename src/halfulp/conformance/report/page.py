"""Runs as one page of HTML: what failed first, every case explained, and matrices.

May import html, backends, bits, cases, results, verdicts, elements and
summary only.
Its style and script are the files page.css and page.js beside it.
"""

from __future__ import annotations

import importlib.resources
import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from halfulp.conformance.backends.registry import describe
from halfulp.conformance.bits import Array
from halfulp.conformance.cases.case import CLASSES, Case
from halfulp.conformance.cases.why import enumeration, explain, hardest
from halfulp.conformance.report.elements import first_values, lines_of
from halfulp.conformance.report.summary import (
    LEGEND,
    SHORT_TYPES,
    TOLERANCE,
    Summary,
    classes_in,
    matrix,
    operator_rows,
    operators_in,
    totals,
    types_in,
)
from halfulp.conformance.results import Result, Run
from halfulp.conformance.verdicts import EXACT, REFUSED, ULPS, VERDICTS
from halfulp.report.html import document, element, escape, head, table

_ORDER = {word: place for place, word in enumerate(VERDICTS)}
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
    folder = importlib.resources.files("halfulp.conformance.report")
    # "<" could end the script; in JSON it stands in strings only.
    data = json.dumps(_data(runs)).replace("<", "\\u003c")
    script = (folder / "page.js").read_text("utf-8")
    return document(
        f"Conformance of {enumeration(operators_in(runs))}",
        "\n".join(_body(runs, command)),
        style=(folder / "page.css").read_text("utf-8"),
        script=f"const DATA = {data};\n{script}",
    )


def _body(runs: Sequence[Run], command: str) -> Iterator[str]:
    yield '<main id="main" tabindex="-1">'
    yield f"<h1>Conformance of {escape(enumeration(operators_in(runs)))}</h1>"
    yield "<ul>"
    for run in runs:
        yield f"<li>{_outcome(run)}</li>"
    yield "</ul>"
    parts = {"list": "Cases", "matrix": "Classes and types", "totals": "Verdicts"}
    links = (f'<a class="to" href="#{name}">{text}</a>' for name, text in parts.items())
    yield f"<p>{' · '.join(links)}</p>"
    yield '<h2 id="list">Cases</h2>'
    yield "<noscript><p>The list of cases needs JavaScript.</p></noscript>"
    yield from _filters(runs)
    yield '<p id="count" role="status"></p>'
    yield '<p id="none" hidden>No case matches all of these. '
    yield '<button class="all" type="button">Show all cases</button></p>'
    yield '<ul id="cases"></ul><button id="more" type="button" hidden>Show more</button>'
    yield f'<h2 id="matrix">Classes and types</h2><p>{escape(LEGEND)} '
    yield "A cell shows its cases above.</p>"
    yield '<div class="backends">'
    yield from map(_matrix, runs)
    yield "</div><dl>"
    for name in classes_in(runs):
        yield f"<dt>{escape(name)}</dt><dd>{escape(CLASSES[name])}</dd>"
    yield '</dl><h2 id="totals">Verdicts</h2>'
    yield _totals(runs)
    if len(operators_in(runs)) > 1:
        yield "<h2>Exact cases by operator</h2>"
        yield _by_operator(runs)
    yield "<dl>"
    for name, text in VERDICTS.items():
        yield f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>"
    yield "</dl><h2>Backends</h2><ul>"
    for run in runs:
        what = escape(describe(run.backend)).replace("`", "")
        yield f"<li><strong>{escape(run.title)}</strong>: {what}</li>"
    yield "</ul>"
    yield f"<p>Written by <code>{escape(command)}</code> on {runs[0].date}, "
    yield f"{escape(runs[0].machine)}.</p></main>"


def _outcome(run: Run) -> str:
    """What came of a run, in a sentence."""
    counts = totals(run)
    bad = [
        f'<span class="badge {_COLOURS.get(word, "bad")}">{counts[word]:,} {word}</span>'
        for word in VERDICTS
        if word != EXACT and counts[word]
    ]
    known = sum(result.known is not None for result in run.results)
    failed = len(run.results) - counts[EXACT]
    which = "the others" if known == failed else f"{known:,} of the others"
    reasons = f"; {which} fail for a known reason" if known else ""
    exact = f"{counts[EXACT]:,} of" if bad else "all"
    what = f"{exact} {len(run.results):,} cases are exact{reasons}."
    return f"<strong>{escape(run.backend)}</strong>: {what} {' '.join(bad)}"


def _totals(runs: Sequence[Run]) -> str:
    columns = [totals(run) for run in runs]
    heads = [head("cases"), *(head(escape(run.backend), "number") for run in runs)]
    rows = []
    for word in columns[0]:
        counts = [column[word] for column in columns]
        if any(counts):
            cells = (element("td", str(count), class_="number") for count in counts)
            rows.append((head(escape(word), scope="row"), *cells))
    return table(heads, rows)


def _by_operator(runs: Sequence[Run]) -> str:
    heads = [head("operator"), *(head(escape(run.backend), "number") for run in runs)]
    rows = [
        (
            head(escape(operator), scope="row"),
            *(element("td", text, class_="number") for text in texts),
        )
        for operator, *texts in operator_rows(runs)
    ]
    return table(heads, rows)


def _matrix(run: Run) -> str:
    summaries = matrix(run)
    types = [name for some in types_in(run) for name in some]
    heads = (head(element("abbr", SHORT_TYPES[name], title=name)) for name in types)
    rows = []
    for class_name in classes_in([run]):
        row = [head(escape(class_name), scope="row")]
        for type_name in types:
            summary = summaries.get((class_name, type_name))
            button = _button(run, class_name, type_name, summary) if summary else ""
            row.append(element("td", button))
        rows.append(row)
    shown_table = table(("<td></td>", *heads), rows, kind="matrix")
    return f"<section><h2>{escape(run.backend)}</h2>\n{shown_table}</section>"


def _button(run: Run, class_name: str, type_name: str, summary: Summary) -> str:
    title = (
        f"{class_name}, {type_name}: {summary.exact} of {summary.cases} exact; worst: "
        f"{f'{summary.ulps} ulps' if summary.word == ULPS else summary.word}"
    )
    return element(
        "button",
        escape(summary.text),
        type="button",
        class_=_COLOURS.get(summary.word, "bad"),
        data_backend=run.backend,
        data_class=class_name,
        data_type=type_name,
        title=title,
    )


def _filters(runs: Sequence[Run]) -> Iterator[str]:
    words = {result.verdict.word for run in runs for result in run.results}
    versions = sorted({r.case.version for run in runs for r in run.results})
    verdicts = [word for word in VERDICTS if word in words]
    yield '<form class="filters">'
    yield _select("verdict", ["not exact", *verdicts], "any")
    yield _select("backend", [run.backend for run in runs])
    yield _select("operator", operators_in(runs))
    yield _select("class", classes_in(runs))
    yield _select("type", dict.fromkeys(r.case.type for run in runs for r in run.results))
    yield _select("version", map(str, versions))
    yield '<label>name <input name="name" type="search"></label>'
    yield '<button class="all" type="button">Show all</button></form>'


def _select(name: str, values: Iterable[str], any_value: str = "") -> str:
    options = "".join(f"<option>{escape(value)}</option>" for value in values)
    return (
        f'<label>{name} <select name="{name}"><option value="{any_value}">any</option>'
        f"{options}</select></label>"
    )


def _data(runs: Sequence[Run]) -> dict[str, Any]:
    cases = {result.case.name: result.case for run in runs for result in run.results}
    by_name = [{result.case.name: result for result in run.results} for run in runs]
    found = [
        (case, [results.get(name) for results in by_name]) for name, case in cases.items()
    ]
    # Failures come first: those without a known reason, then the worst verdicts.
    found.sort(key=lambda item: _urgency(item[1]))
    return {
        "backends": [run.backend for run in runs],
        "quoted": {run.backend: shlex.quote(run.backend) for run in runs},
        "colours": _COLOURS,
        "tolerance": TOLERANCE.removeprefix("passes at "),
        "failures": not all(run.exact for run in runs),
        "cases": [_case(case, results) for case, results in found],
    }


def _urgency(results: Sequence[Result | None]) -> tuple[bool, bool, int]:
    bad = [result for result in results if result is not None and not result.exact]
    worst = max((_ORDER[result.verdict.word] for result in bad), default=0)
    return not bad, all(result.known for result in bad), -worst


def _case(case: Case, results: Sequence[Result | None]) -> dict[str, Any]:
    worst = [result.verdict.worst for result in results if result is not None]
    places = [place for place in worst if place is not None]
    first = None
    if case.expected is not None and case.expected.size:
        first = hardest(case.unrounded, case.expected)
        places = places or [first]
    return {
        "name": case.name,
        "operator": case.reduction.operator,
        "class": case.class_name,
        "type": case.type,
        "version": case.version,
        "node": case.node,
        "about": case.about,
        "source": case.source,
        "hardest": None if first is None else _key(first),
        "explained": {_key(place): _explained(case, place) for place in places},
        "expected": None if case.expected is None else _array(case.expected),
        "results": [_result(result) for result in results],
    }


def _key(place: tuple[int, ...]) -> str:
    return str(list(place))


def _explained(case: Case, place: tuple[int, ...]) -> dict[str, Any]:
    """Why an element is what it is, and the terms that it is the sum of."""
    assert case.expected is not None
    return {
        "why": explain(case.reduction, case.unrounded, case.expected, place),
        "of": f" of element {list(place)}" if case.expected.size > 1 else "",
        "count": case.data.size // case.expected.size,
        "terms": lines_of(case, place),
    }


def _array(array: Array) -> dict[str, Any]:
    return {
        "type": array.dtype.name,
        "shape": array.shape,
        "size": array.size,
        "rows": first_values(array),
    }


def _result(result: Result | None) -> dict[str, Any] | None:
    """The verdict; type, shape and values of what is not exact; why that is known."""
    if result is None:
        return None
    verdict, got, expected = result.verdict, result.got, result.case.expected
    if result.exact:
        return {"verdict": verdict.word}
    facts: dict[str, Any] = {
        "verdict": verdict.word,
        "ulps": verdict.ulps,
        "passes": verdict.passes_at_onnx_tolerance,
        "text": verdict.text,
        "known": result.known,
        "place": None if verdict.worst is None else _key(verdict.worst),
        "type": "",
        "rows": [],
    }
    if got is None:
        return facts
    rows = first_values(got, verdict.worst)
    if expected is not None and expected.shape == got.shape:
        right = first_values(expected, verdict.worst)
        rows = [[*r, *g[1:]] for r, g in zip(right, rows, strict=True)]
    shape = {"type": got.dtype.name, "shape": got.shape, "size": got.size}
    return facts | shape | {"rows": rows}
