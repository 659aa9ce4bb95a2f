"""The command ``halfulp verify``.

May import arguments, errors, output, reports, terminal and, within the command,
halfulp.conformance.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfulp.commands.arguments import names_in
from halfulp.commands.reports import Reports
from halfulp.errors import ArgumentError
from halfulp.output import Output, written
from halfulp.terminal import open_console, print_line, print_lines, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from halfulp.conformance.cases.case import Case
    from halfulp.conformance.results import Run
    from halfulp.reductions import Reduction

# More processes than that gain little, and some backends are large.
_MOST_JOBS = 4


def verify(
    backends: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BACKEND]...",
            help="halfulp, reference, onnxruntime, onnxruntime+halfulp, openvino, torch, "
            "or module:attribute of an onnx.backend.base.Backend.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="The first case of each kind, type and version, and all reports.",
        ),
    ] = False,
    pattern: Annotated[
        str,
        typer.Option(
            "--filter",
            "-k",
            metavar="PATTERN",
            help="Only cases with this in their name; * stands for any text.",
        ),
    ] = "",
    operators: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Only cases of these operators. Default: all that halfulp knows.",
        ),
    ] = "",
    named: Annotated[
        list[str] | None,
        typer.Option(
            "--case",
            metavar="NAME",
            help="Only the case of this name, and all about it; may be repeated.",
        ),
    ] = None,
    as_list: Annotated[
        bool, typer.Option("--list", help="Print the names of the cases; run nothing.")
    ] = False,
    as_json: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the verdict on each case."),
    ] = None,
    as_csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write a row for each verdict."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page that shows each case."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write XML for a CI service.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the tables.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the cases in the layout of ONNX's backend tests, without those "
            "that must be refused.",
        ),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="For one case; then it hung.")
    ] = 20.0,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Processes at a time. Default: the cores, up to 4."
        ),
    ] = None,
) -> None:
    """Run hard cases over backends; tell which bits are right.

    The exit code is 0 if all cases are exact, 1 if one is not, 2 after bad input.

    Example:  halfulp verify onnxruntime reference --html report.html
    """
    from halfulp.conformance.backends.registry import check_backend
    from halfulp.conformance.cases.export import check_folder
    from halfulp.conformance.cases.export import export as write_cases
    from halfulp.conformance.cases.suite import choose, find
    from halfulp.conformance.cases.suite import quick as first_of_each

    names = list(dict.fromkeys(backends or ()))
    for name in names:
        check_backend(name)
    reports = Reports(json=as_json, csv=as_csv, html=html, junit=junit, markdown=markdown)
    if not names and (reports.paths or not (as_list or export)):
        raise ArgumentError("BACKEND is missing; halfulp verify --help lists them")
    if not time_limit > 0:
        raise ArgumentError(f"--time-limit is {time_limit:g}; allowed: more than 0")
    if jobs is not None and not 1 <= jobs <= 256:
        raise ArgumentError(f"--jobs is {jobs}; allowed: 1 to 256")
    if export is not None:
        check_folder(export)
    reports.check(others=[Output("--export", export, folder=True)] if export else [])
    if named and (quick or pattern or operators):
        raise ArgumentError(
            "--case names all cases; allowed: without --quick, --operators and -k"
        )
    rows = _rows(operators)
    cases = find(dict.fromkeys(named)) if named else choose(pattern, rows)
    if quick:
        cases = first_of_each(cases)

    if as_list:
        print("\n".join(case.name for case in cases))
        return
    if export is not None:
        count = write_cases(cases, export)
        # A page or the like may go to stdout.
        print(f"{count} cases", file=sys.stderr)
        written(export)
    if not names:
        return
    jobs = jobs or min(len(os.sched_getaffinity(0)), _MOST_JOBS)
    runs = _run(names, cases, time_limit, jobs)
    console = open_console(stderr=reports.on_stdout)
    if named:
        _show_details(runs, console)
    else:
        _show(runs, console)
    command = _command(names, quick, operators, pattern, named or ())
    _write(runs, command, reports)
    if not all(run.exact for run in runs):
        raise typer.Exit(1)


def _run(
    names: Sequence[str], cases: Sequence[Case], time_limit: float, jobs: int
) -> list[Run]:
    """Run the cases over each backend, with a bar on stderr that shows how far it is."""
    from rich.console import Console
    from rich.progress import Progress

    from halfulp.conformance.runner import cases_for, run_cases

    console = Console(stderr=True)
    runs = []
    with Progress(
        console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        for name in names:
            task = progress.add_task(name, total=len(cases_for(name, cases)))
            run = run_cases(
                name,
                cases,
                time_limit=time_limit,
                jobs=jobs,
                done=lambda task=task: progress.advance(task),  # type: ignore[misc]
            )
            runs.append(run)
    return runs


def _write(runs: list[Run], command: str, reports: Reports) -> None:
    """Write the files that were asked for."""
    from halfulp.conformance.report.data import to_csv, to_json
    from halfulp.conformance.report.junit import junit
    from halfulp.conformance.report.markdown import markdown
    from halfulp.conformance.report.page import page

    reports.write(
        json=lambda: to_json(runs),
        csv=lambda: to_csv(runs),
        html=lambda: page(runs, command),
        junit=lambda: junit(runs),
        markdown=lambda: markdown(runs, command),
    )


def _show(runs: Sequence[Run], console: Console) -> None:
    from halfulp.conformance.report import terminal as report
    from halfulp.conformance.report.summary import LEGEND

    for run in runs:
        for table in report.matrix_tables(run):
            print_table(console, table)
            console.print()
    print_line(console, LEGEND)
    console.print()
    print_table(console, report.totals_table(runs))
    for run in runs:
        lines = list(report.examples(run))
        if lines:
            console.print(f"\n{run.backend}, the first case of each verdict:")
        print_lines(console, lines)
    if not all(run.exact for run in runs):
        console.print()
        print_line(console, "--case NAME runs a case again, and tells all about it.")


def _show_details(runs: Sequence[Run], console: Console) -> None:
    """Show all about each case, for each backend."""
    from halfulp.conformance.report import terminal as report

    for run in runs:
        for result in run.results:
            console.print(f"{run.backend}: {result.case.name}")
            print_lines(console, report.details(result))


def _rows(operators: str) -> Sequence[Reduction]:
    """The rows of the operators that are asked for, in the table's order."""
    from halfulp.reductions import BY_OPERATOR, REDUCTIONS

    if not operators:
        return REDUCTIONS
    wrong = "--operators has {!r}; allowed: {}, with commas between"
    names = names_in(operators, BY_OPERATOR, wrong)
    return [row for row in REDUCTIONS if row.operator in names]


def _command(
    names: Sequence[str], quick: bool, operators: str, pattern: str, named: Sequence[str]
) -> str:
    """What to type for these cases."""
    words = ["halfulp verify", *names, *(f"--case {name}" for name in named)]
    if quick:
        words.append("--quick")
    if operators:
        words.append(f"--operators {operators}")
    if pattern:
        words.append(f"-k '{pattern}'")
    return " ".join(words)
