"""A benchmark as tables: for the terminal and in Markdown.

May import cells, goals and results of this package, report and terminal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table as TerminalTable

from halfulp.bench.cells import CELLS, JOINED, SMALL_BYTES
from halfulp.bench.goals import (
    LONG_ROWS,
    OTHER_AXES,
    SHORT_SUMS,
    GoalCheck,
    beside_peers,
    check_goals,
    is_settled,
    length_of,
    ns_a_result,
)
from halfulp.bench.results import (
    EXACT,
    HALFULP,
    ORDINARY,
    RUNTIME,
    Benchmark,
    Errors,
    Measured,
)
from halfulp.report.markdown import RIGHT
from halfulp.report.markdown import table as markdown_table
from halfulp.terminal import new_table

_LIMIT_NOTE = (
    "The limit is `numpy.vdot` of as many bytes of float64 with itself, on one thread, "
    "measured in turns with the rest. Each time is the best of all calls. A ratio "
    "above 1 means that halfulp is faster than the fastest peer or, of data that is hard "
    "to round, than it is itself on ordinary values. By reduction: the least and the "
    "greatest fraction of the limit on one thread; of ties and zeros, ratio to ordinary "
    "values; the least ratio to the fastest peer, of 8 MiB or more."
)
_ULPS_NOTE = (
    "The greatest error of results over n elements of random arrays, in units in the "
    "last place of the exact result; wider results are rounded to the type first."
)

_SESSIONS_NOTE = (
    "`session.run` of one node, in two sessions of ONNX Runtime that differ in halfulp's "
    "library only, measured in turns. Each time is the best of all calls. A ratio above "
    "1 means that the session with the library is faster."
)
_NOTES = {"speed": _LIMIT_NOTE, "accuracy": _ULPS_NOTE, "onnxruntime": _SESSIONS_NOTE}
_TITLES = {
    "speed": "Speed",
    "accuracy": "Accuracy",
    "onnxruntime": "Speed inside ONNX Runtime",
}
_PICTURES = {
    "speed": "The speed of each cell and of the fastest peer, as a multiple of the limit",
    "accuracy": "The greatest error by the number of elements, of halfulp and of peers",
    "onnxruntime": "The speed of a session with halfulp's library, as a multiple of one "
    "without",
}

# The columns of words, besides the first of each table.
_PROSE = ("what it must show", "where", "what", "why")
_WORDS = ("fastest peer", "verdict", "where", "what", "types", "why")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text, whose first column is words and whose others are figures."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    @property
    def figures(self) -> list[str]:
        """The columns of figures."""
        return [name for name in self.head[1:] if name not in _WORDS]


def tables(benchmark: Benchmark) -> list[Table]:
    """Return the figures of a benchmark, a table for each reduction and type."""
    if benchmark.kind == "accuracy":
        return list(_accuracy_tables(benchmark.rows))
    if benchmark.kind == "onnxruntime":
        return list(_session_tables(benchmark.rows))
    return list(_speed_tables(benchmark.rows))


def goal_table(benchmark: Benchmark, *, every: bool = False) -> Table:
    """Return what a benchmark of speed must show, and whether it does.

    Parameters
    ----------
    benchmark : Benchmark
    every : bool, optional
        Whether to list what was not measured too.
    """
    head = ("what it must show", "worst", "verdict", "where")
    checks = [c for c in check_goals(benchmark.rows, benchmark.kind) if every or c.rows]
    return Table("Targets", head, [_goal_row(c) for c in checks])


def for_terminal(table: Table) -> TerminalTable:
    """Return a table that fits 80 columns."""
    shown = new_table(*table.head, right=table.figures, prose=_PROSE, edge=False)
    shown.title = table.title
    for row in table.rows:
        shown.add_row(*row)
    return shown


def summary_table(rows: Sequence[Measured]) -> Table:
    """Return the figures of each reduction in a line; none of one reduction alone."""
    names = dict.fromkeys(row.reduction for row in rows)
    head = ("reduction", "long rows", "other axes", "16 terms", "ties, zeros", "to peer")
    texts = [
        (name, *_summary([r for r in rows if r.reduction == name and r.times]))
        for name in (names if len(names) > 1 else ())
    ]
    return Table("By reduction", head, texts)


def _summary(rows: Sequence[Measured]) -> Iterator[str]:
    one = [row for row in rows if row.threads == 1]
    for cells in (LONG_ROWS, OTHER_AXES, SHORT_SUMS):
        yield span(
            row.of_limit for row in one if row.cell.removeprefix(f"{JOINED}-") in cells
        )
    yield span(row.ratio_to(ORDINARY) for row in one if is_settled(row))
    ratios = [row.ratio_to(row.peers[0]) for row in beside_peers(rows)]
    yield f"{min(ratios):.2f}" if ratios else ""


def span(figures: Iterable[float]) -> str:
    """Return the least and the greatest of some figures, in words."""
    found = sorted(figures)
    return f"{found[0]:.2f} to {found[-1]:.2f}" if found else ""


def markdown(
    benchmark: Benchmark,
    picture: str = "",
    *,
    title: str = "",
    pages: Mapping[str, str] | None = None,
) -> str:
    """Return a page of Markdown: picture, command, machine, goals, figures.

    Parameters
    ----------
    benchmark : Benchmark
    picture : str, optional
        The address of its picture.
    title : str, optional
    pages : dict, optional
        From reductions to the addresses of pages with their figures, which are then
        left out here.
    """
    lines = [f"Printed by `{benchmark.command}` on {benchmark.machine['date']}.", ""]
    lines += [f"- {line}" for line in _machine_lines(benchmark.machine)]
    speed = benchmark.kind != "accuracy"
    parts = [*tables(benchmark), _peer_table(benchmark)]
    if speed:
        first = [goal_table(benchmark, every=True), _cell_table(benchmark.rows)]
        parts = [*first, *parts, _missing(benchmark.rows)]
    if benchmark.kind == "speed":
        parts = [summary_table(benchmark.rows), *parts]
    if pages is not None:
        parts = [_linked(parts[0], pages), *first]
    lines += ["", _NOTES[benchmark.kind]]
    for table in parts:
        if table.rows:
            rules = [RIGHT if name in table.figures else "---" for name in table.head]
            lines += ["", f"## {table.title}", ""]
            lines += markdown_table(table.head, table.rows, rules)
    shown = [f"![{_PICTURES[benchmark.kind]}]({picture})", ""] if picture else []
    heading = title or _TITLES[benchmark.kind]
    return "\n".join([f"# {heading}", "", *shown, *lines]) + "\n"


def _linked(table: Table, pages: Mapping[str, str]) -> Table:
    rows = [(f"[{name}]({pages[name]})", *rest) for name, *rest in table.rows]
    return dataclasses.replace(table, rows=rows)


def _machine_lines(machine: dict[str, Any]) -> Iterator[str]:
    caches = ", ".join(f"{k} {v}" for k, v in machine.get("caches", {}).items())
    memory = machine.get("memory_bytes", 0) / 2**30
    yield (
        f"{machine.get('cpu', 'processor unknown')}, {machine['cores']} cores; "
        f"{caches or 'caches unknown'}; {memory:.0f} GiB of memory"
    )
    yield f"{machine.get('system', 'system unknown')}; Python {machine['python']}"
    core = machine["halfulp"]
    yield f"halfulp {core['version']}, instruction set {core['target']}"
    if (ahead := core.get("prefetch_distance")) is not None:
        yield f"prefetch distance {ahead} bytes"
    yield ", ".join(f"{k} {v}" for k, v in machine["versions"].items())
    for name, value in machine.get("environment", {}).items():
        yield f"{name}={value} was set"


def _speed_tables(rows: list[Measured]) -> Iterator[Table]:
    with_memory = any(row.extra_memory is not None for row in rows)
    head = ("cell", "threads", "GB/s", "of limit", "fastest peer", "ratio")
    extra = ("extra",) * with_memory
    for title, group in by_title([r for r in rows if not length_of(r)]).items():
        texts = [
            (*_speed_row(row), *(_kib(row.extra_memory),) * with_memory) for row in group
        ]
        yield Table(title, head + extra, texts)
    yield from _length_tables([row for row in rows if length_of(row)])
    yield from _exact_tables(rows)


def _length_tables(rows: Sequence[Measured]) -> Iterator[Table]:
    """Nanoseconds a result, and the ratio to the fastest peer, by length."""
    for name in dict.fromkeys(row.reduction for row in rows):
        here = {(r.cell, r.type): r for r in rows if r.reduction == name and r.times}
        types = [*dict.fromkeys(type_name for _, type_name in here)]
        texts = [
            (cell, *(_by_result(here.get((cell, type_name))) for type_name in types))
            for cell in dict.fromkeys(cell for cell, _ in here)
        ]
        yield Table(f"{name}, ns a result (ratio)", ("cell", *types), texts)


def _by_result(row: Measured | None) -> str:
    if row is None:
        return ""
    ratio = f" ({row.ratio_to(row.peers[0]):.2f})" if row.peers else ""
    return f"{ns_a_result(row):.2f}{ratio}"


def by_title(rows: Sequence[Measured]) -> dict[str, list[Measured]]:
    """Return the rows of each reduction of a type, under a title for them."""
    groups: dict[str, list[Measured]] = {}
    for row in rows:
        groups.setdefault(f"{row.reduction} of {row.type}", []).append(row)
    return groups


def _exact_tables(rows: list[Measured]) -> Iterator[Table]:
    """Nanoseconds an element of what rounds exact sums once."""
    compared = [row for row in rows if row.threads == 1 and EXACT & row.times.keys()]
    names = [name for name in sorted(EXACT) if any(name in r.times for r in compared)]
    texts = [
        (row.cell, *(_each(row, name) for name in (HALFULP, *names))) for row in compared
    ]
    if texts:
        head = ("cell", HALFULP, *names)
        yield Table("Exact sums of float64, ns an element", head, texts)


def _each(row: Measured, name: str) -> str:
    return f"{row.best(name) / (row.nbytes / 8):.2f}" if name in row.times else ""


def _speed_row(row: Measured) -> tuple[str, ...]:
    start = (row.cell, str(row.threads))
    if not row.times:
        return (*start, "skipped", *[""] * 3)
    if row.nbytes < SMALL_BYTES:
        texts = (*start, f"{row.best() / 1000:.2f} µs", "")
    else:
        texts = (*start, f"{row.speed:.1f}", f"{row.of_limit:.2f}")
    if ORDINARY in row.times:
        return (*texts, "ordinary", f"{row.ratio_to(ORDINARY):.2f}")
    if not row.peers:
        return (*texts, *[""] * 2)
    return (*texts, row.peers[0], f"{row.ratio_to(row.peers[0]):.2f}")


def _session_tables(rows: list[Measured]) -> Iterator[Table]:
    head = ("cell", "threads", "with halfulp", "without", "ratio")
    for title, group in by_title(rows).items():
        yield Table(title, head, [_session_row(row) for row in group])


def _session_row(row: Measured) -> tuple[str, ...]:
    start = (row.cell, str(row.threads), _time(row.best()))
    if not row.peers:
        return (*start, "no kernel", "")
    return (*start, _time(row.best(RUNTIME)), f"{row.ratio_to(RUNTIME):.2f}")


def _time(nanoseconds: float) -> str:
    if nanoseconds < 1e6:
        return f"{nanoseconds / 1e3:.2f} µs"
    return f"{nanoseconds / 1e6:.2f} ms"


def _kib(nbytes: int | None) -> str:
    return "" if nbytes is None else f"{nbytes // 1024} KiB"


def _goal_row(check: GoalCheck) -> tuple[str, ...]:
    text = check.goal.text
    if check.worst is None:
        return (text, "", "not measured", "")
    met = f"{check.misses} of {check.rows} miss" if check.misses else "met"
    return (text, f"{check.worst:.2f}", met, check.at)


def _cell_table(rows: list[Measured]) -> Table:
    present = {row.cell for row in rows}
    named = [(c.name, c.what) for c in CELLS.values() if c.name in present]
    return Table("Cells", ("cell", "what"), named)


def _peer_table(benchmark: Benchmark) -> Table:
    present = dict.fromkeys(row.reduction for row in benchmark.rows)
    peers = [
        (f"{name} ({reduction})" if len(present) > 1 else name, f"`{text}`")
        for reduction in present
        for name, text in benchmark.settings["peers"].get(reduction, {}).items()
    ]
    return Table("Peers", ("peer", "what"), peers)


def _missing(rows: list[Measured]) -> Table:
    """What was not measured: each reason once, with the types that it holds for."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for peer, text in row.missing.items():
            reasons.setdefault((peer, text), []).append(row.type)
        if row.skipped:
            reasons.setdefault((f"cell {row.cell}", row.skipped), []).append(row.type)
    texts = [
        (what, ", ".join(dict.fromkeys(types)), text)
        for (what, text), types in reasons.items()
    ]
    return Table("Not measured", ("not measured", "types", "why"), texts)


def _accuracy_tables(rows: list[Errors]) -> Iterator[Table]:
    for key in dict.fromkeys((row.reduction, row.type, row.values) for row in rows):
        here = [r for r in rows if (r.reduction, r.type, r.values) == key]
        sizes = sorted({row.n for row in here})
        worst = {(row.who, row.n): max(row.ulps) for row in here if row.ulps}
        texts = [
            (who, *(_ulps(worst.get((who, n))) for n in sizes))
            for who in dict.fromkeys(who for who, _ in worst)
        ]
        head = ("ulps for n =", *(f"{n:.0e}".replace("e+0", "e") for n in sizes))
        yield Table("{} of {}, {}".format(*key), head, texts)


def _ulps(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value < 100 else f"{value:.1e}".replace("e+0", "e")
