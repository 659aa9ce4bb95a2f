"""The commands ``halfulp bench``, ``bench accuracy`` and ``bench onnxruntime``.

May import arguments, errors, output, reports and terminal at once and, in a command,
halfulp.bench.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfulp.commands.arguments import names_in
from halfulp.commands.reports import Reports
from halfulp.errors import ArgumentError
from halfulp.output import STDIO
from halfulp.terminal import csv_text, open_console, print_table

if TYPE_CHECKING:
    from halfulp.bench.peers import Peer
    from halfulp.bench.results import Benchmark

app = typer.Typer()

_Quick = Annotated[
    bool, typer.Option("--quick", help="Less of it, in less than a minute.")
]
_Types = Annotated[
    str | None, typer.Option(metavar="A,B", help="The types, by their names in NumPy.")
]
_Reductions = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="The reductions; a wrong name lists all."),
]
_Cells = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="The cells; a wrong name lists all."),
]
_Threads = Annotated[
    str | None,
    typer.Option(metavar="1,all", help="The numbers of threads; all: every core."),
]
_Peers = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="The peers; a wrong name lists all."),
]
_NoPeers = Annotated[bool, typer.Option("--no-peers", help="Measure no peers.")]
_From = Annotated[
    Path | None,
    typer.Option("--from", metavar="FILE", help="Measure nothing: show such a --json."),
]
_FromSeveral = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Measure nothing: show such a --json; of several, rows and turns of all.",
    ),
]
_Json = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write all that was measured."),
]
_Csv = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write the tables as one.")
]
_Plot = Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw a picture.")]
_Markdown = Annotated[
    Path | None, typer.Option(metavar="FILE.md", help="Write the tables.")
]


@app.callback(invoke_without_command=True)
def speed(
    context: typer.Context,
    quick: _Quick = False,
    reductions: _Reductions = None,
    types: _Types = None,
    cells: _Cells = None,
    threads: _Threads = None,
    repeats: Annotated[
        int | None,
        typer.Option(metavar="N", help="Turns of each, of which the best counts."),
    ] = None,
    peers: _Peers = None,
    no_peers: _NoPeers = False,
    memory: Annotated[
        bool, typer.Option("--memory", help="Measure extra memory too.")
    ] = False,
    saved: _FromSeveral = None,
    as_json: _Json = None,
    as_csv: _Csv = None,
    plot: _Plot = None,
    markdown: _Markdown = None,
) -> None:
    """Measure speed, beside that of memory and of other libraries.

    Example:  halfulp bench --quick
    """
    if context.invoked_subcommand is not None:
        return
    from halfulp.bench import measure
    from halfulp.bench.cells import (
        CELLS,
        FAMILIES,
        QUICK_CELLS,
        QUICK_TYPES,
        ROWS,
        TYPES,
    )
    from halfulp.bench.machine import core_count

    reports = Reports(json=as_json, csv=as_csv, plot=plot, markdown=markdown)
    if _shown("speed", saved, reports):
        return
    chosen_rows = _choose("reduction", reductions, ROWS, ROWS)
    single = [name for name, cell in CELLS.items() if not cell.length]
    known = [*single, *FAMILIES]
    chosen = _choose("cell", cells, known, QUICK_CELLS if quick else known)
    chosen_cells = [cell for name in chosen for cell in FAMILIES.get(name, (name,))]
    chosen_types = _choose("type", types, TYPES, QUICK_TYPES if quick else TYPES)
    chosen_peers = _choose_peers(peers, no_peers)
    counts = _thread_counts(threads or ("1" if quick else "1,all"), core_count())
    effort = measure.QUICK if quick else measure.FULL
    if repeats is not None:
        if repeats < 1:
            raise ArgumentError(f"--repeats is {repeats}; allowed: 1 or more")
        effort = dataclasses.replace(effort, repeats=repeats)
    jobs = [
        {"reduction": row, "cell": cell, "type": name, "threads": count}
        for row in chosen_rows
        for name in chosen_types
        for cell in chosen_cells
        for count in counts
        if name in CELLS[cell].types and row in CELLS[cell].reductions
        if count == counts[0] or not CELLS[cell].length
    ]
    if not jobs:
        cell = CELLS[chosen_cells[0]]
        raise ArgumentError(
            f"cell {cell.name!r} has no {chosen_rows[0]} of {chosen_types[0]}; allowed: "
            f"{', '.join(cell.reductions)} of {', '.join(cell.types)}"
        )
    options = {
        "peers": [peer.name for peer in chosen_peers],
        "effort": dataclasses.asdict(effort),
    }
    command = _command(
        "halfulp bench",
        {"quick": quick, "reductions": reductions, "types": types, "cells": cells}
        | {"threads": threads, "repeats": repeats, "peers": peers}
        | {"no-peers": no_peers, "memory": memory},
    )
    benchmark = _start("speed", command, chosen_peers, effort=options["effort"])
    benchmark.rows = _rows("speed", jobs, options)
    if memory:
        _add_memory(benchmark, max(counts))
    _show(benchmark, reports)


@app.command()
def accuracy(
    quick: _Quick = False,
    reductions: _Reductions = None,
    types: _Types = None,
    peers: _Peers = None,
    no_peers: _NoPeers = False,
    saved: _From = None,
    as_json: _Json = None,
    as_csv: _Csv = None,
    plot: _Plot = None,
    markdown: _Markdown = None,
) -> None:
    """Measure errors in ulps on random arrays of growing length.

    Example:  halfulp bench accuracy --quick
    """
    from halfulp.bench.accuracy import ACCURACY_TYPES, DISTRIBUTIONS
    from halfulp.bench.cells import SUMS

    reports = Reports(json=as_json, csv=as_csv, plot=plot, markdown=markdown)
    if _shown("accuracy", [saved] if saved else None, reports):
        return
    sums = [row.name for row in SUMS]
    jobs = [
        {"reduction": row, "type": name, "values": values, "n": 10**digits}
        for row in _choose("reduction", reductions, sums, sums)
        for name in _choose("type", types, ACCURACY_TYPES, ACCURACY_TYPES)
        for values in DISTRIBUTIONS
        for digits in range(1, 7 if quick else 8)
    ]
    chosen_peers = _choose_peers(peers, no_peers)
    options = {"peers": [peer.name for peer in chosen_peers]}
    command = _command(
        "halfulp bench accuracy",
        {"quick": quick, "reductions": reductions, "types": types, "peers": peers}
        | {"no-peers": no_peers},
    )
    benchmark = _start("accuracy", command, chosen_peers)
    benchmark.rows = _rows("accuracy", jobs, options)
    _show(benchmark, reports)


@app.command()
def onnxruntime(
    quick: _Quick = False,
    reductions: _Reductions = None,
    types: _Types = None,
    cells: _Cells = None,
    threads: _Threads = None,
    saved: _FromSeveral = None,
    as_json: _Json = None,
    as_csv: _Csv = None,
    plot: _Plot = None,
    markdown: _Markdown = None,
) -> None:
    """Measure ONNX Runtime with halfulp's library and without.

    Example:  halfulp bench onnxruntime --quick
    """
    from halfulp.bench import measure
    from halfulp.bench.cells import CELLS, QUICK_CELLS, QUICK_TYPES
    from halfulp.bench.machine import core_count
    from halfulp.bench.peers import PEERS
    from halfulp.bench.results import RUNTIME
    from halfulp.bench.sessions import SESSION_CELLS, SESSION_TYPES
    from halfulp.reductions import BY_OPERATOR

    reports = Reports(json=as_json, csv=as_csv, plot=plot, markdown=markdown)
    if _shown("onnxruntime", saved, reports):
        return
    quick_types = [name for name in QUICK_TYPES if name in SESSION_TYPES]
    counts = _thread_counts(threads or ("1" if quick else "1,all"), core_count())
    rows = [row.name for row in BY_OPERATOR.values()]
    jobs = [
        {"reduction": row, "cell": cell, "type": name, "threads": count}
        for row in _choose("reduction", reductions, rows, rows)
        for name in _choose(
            "type", types, SESSION_TYPES, quick_types if quick else SESSION_TYPES
        )
        for cell in _choose(
            "cell", cells, SESSION_CELLS, QUICK_CELLS if quick else SESSION_CELLS
        )
        for count in counts
        if row in CELLS[cell].reductions
    ]
    effort = dataclasses.asdict(measure.QUICK if quick else measure.FULL)
    command = _command(
        "halfulp bench onnxruntime",
        {"quick": quick, "reductions": reductions, "types": types, "cells": cells}
        | {"threads": threads},
    )
    peers = [peer for peer in PEERS if peer.name == RUNTIME]
    benchmark = _start("onnxruntime", command, peers, effort=effort)
    benchmark.rows = _rows("onnxruntime", jobs, {"effort": effort})
    _show(benchmark, reports)


def _choose(
    what: str,
    given: str | None,
    known: Sequence[str] | Mapping[str, Any],
    default: Sequence[str] | Mapping[str, Any],
) -> list[str]:
    """The names in a list with commas, each once."""
    if given is None:
        return list(default)
    return names_in(given, known, f"no {what} {{!r}}; allowed: {{}}")


def _choose_peers(given: str | None, none: bool) -> list[Peer]:
    """The peers whose name or library is in a list with commas."""
    from halfulp.bench.peers import LIBRARIES, PEERS

    if none:
        if given is not None:
            raise ArgumentError("--peers and --no-peers are given; allowed: one of them")
        return []
    known = [*dict.fromkeys((*LIBRARIES, *(peer.name for peer in PEERS)))]
    names = _choose("peer", given, known, LIBRARIES)
    return [peer for peer in PEERS if peer.name in names or peer.library in names]


def _thread_counts(given: str, cores: int) -> list[int]:
    counts = []
    for text in given.split(","):
        word = text.strip()
        if word != "all" and not (word.isdecimal() and 1 <= int(word) <= 1024):
            raise ArgumentError(f"--threads has {word!r}; allowed: 1 to 1024, or all")
        counts.append(cores if word == "all" else int(word))
    return sorted(set(counts))


def _command(start: str, options: Mapping[str, Any]) -> str:
    """What to type for the options that were given."""
    words = [start]
    for name, value in options.items():
        if value is True:
            words.append(f"--{name}")
        elif value is not False and value is not None:
            words.append(f"--{name} {value}")
    return " ".join(words)


def _shown(kind: str, saved: Sequence[Path] | None, reports: Reports) -> bool:
    """Show what was saved, if so; before minutes of measuring, check what is written."""
    from halfulp.bench.results import joined, load

    reports.check(saved or ())
    if not saved:
        return False
    runs = [load(path) for path in saved]
    for path, benchmark in zip(saved, runs, strict=True):
        if benchmark.kind != kind:
            raise ArgumentError(
                f"{str(path)!r} holds a run of {benchmark.kind}; allowed: {kind}"
            )
    _show(joined(runs) if len(runs) > 1 else runs[0], reports)
    return True


def _start(kind: str, command: str, peers: Sequence[Peer], **settings: Any) -> Benchmark:
    from halfulp.bench.machine import describe
    from halfulp.bench.peers import LIBRARIES
    from halfulp.bench.results import Benchmark

    ways: dict[str, dict[str, str]] = {}
    for peer in peers:
        ways.setdefault(peer.reduction.name, {})[peer.name] = peer.expression
    settings["peers"] = ways
    return Benchmark(kind, command, describe(LIBRARIES), settings, [])


def _rows(
    kind: str, jobs: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
) -> list[Any]:
    from halfulp.bench.child import answers
    from halfulp.bench.results import row_from

    answered = _watched(jobs, answers(kind, jobs, options))
    return [row_from(kind, row) for rows in answered for row in rows]


def _add_memory(benchmark: Benchmark, threads: int) -> None:
    """Measure the extra memory of the cells, each in a process of its own."""
    from halfulp.bench.child import answers

    rows = [row for row in benchmark.rows if row.threads == threads and not row.skipped]
    jobs = [
        {"reduction": r.reduction, "cell": r.cell, "type": r.type, "threads": threads}
        for r in rows
    ]
    one_each = (answer for job in jobs for answer in answers("memory", [job], {}))
    for row, nbytes in zip(rows, _watched(jobs, one_each), strict=True):
        row.extra_memory = nbytes


def _watched(jobs: Sequence[Mapping[str, Any]], answered: Iterable[Any]) -> Iterator[Any]:
    """The answers to jobs, with a bar on stderr that shows how far they are."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        texts = [" ".join(str(value) for value in job.values()) for job in jobs]
        task = progress.add_task("", total=len(jobs))
        answers = iter(answered)
        for text in texts:
            progress.update(task, description=text)
            yield next(answers)
            progress.advance(task)


def _show(benchmark: Benchmark, reports: Reports) -> None:
    """Show a benchmark and write the files that were asked for."""
    from halfulp.bench import report
    from halfulp.bench.plot import draw
    from halfulp.bench.results import to_json

    tables = report.tables(benchmark)
    rows = [(table.title, *row) for table in tables for row in table.rows]
    plot, markdown = (reports.paths.get(name, STDIO) for name in ("plot", "markdown"))
    picture = "" if STDIO in (plot, markdown) else os.path.relpath(plot, markdown.parent)
    reports.write(
        json=lambda: to_json(benchmark),
        csv=lambda: csv_text(("table", *tables[0].head), rows),
        markdown=lambda: report.markdown(benchmark, picture),
        plot=lambda: draw(benchmark),
    )
    console = open_console(stderr=reports.on_stdout)
    if benchmark.kind == "speed":
        tables.append(report.summary_table(benchmark.rows))
    if benchmark.kind != "accuracy":
        tables.append(report.goal_table(benchmark))
    tables = [table for table in tables if table.rows]
    for table in tables:
        print_table(console, report.for_terminal(table))
        console.print()
