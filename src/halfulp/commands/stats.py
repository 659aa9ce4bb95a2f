"""The command ``halfulp stats``: what is in the tensors of files, number by number.

May import errors, terminal and commands.reading and, within functions, halfulp.files and
spec.rules.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table

from halfulp.commands.reading import (
    AsBfloat16,
    Failures,
    Files,
    Patterns,
    Strict,
    brackets,
    number,
    print_summary,
    progress,
    tensors_of,
)
from halfulp.errors import HalfulpError
from halfulp.terminal import (
    AsCsv,
    AsJson,
    check_forms,
    csv_text,
    new_table,
    open_console,
    print_table,
    printable,
)

_NUMBERS = ("sum", "mean", "std", "min", "max", "norm")


def stats(
    files: Files,
    tensor: Patterns = None,
    ddof: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="std divides by the number of elements less this, as 1 for samples.",
        ),
    ] = 0,
    finite: Annotated[
        bool,
        typer.Option(
            "--finite", help="Of numbers only: NaN and infinities are but counted."
        ),
    ] = False,
    bfloat16: AsBfloat16 = False,
    strict: Strict = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show sum, mean, deviation, extremes and norm of tensors in files.

    And how many elements are NaN or infinite, with the index of the first. Each number
    is the exact one, rounded once to double, whatever the type. Files of any size are
    read once, in bounded memory. Of several files those that cannot be read are told,
    and the exit code is 2.

    Example:  halfulp stats model-*.safetensors --csv
    """
    from halfulp.files.formats.by_ending import ENDINGS
    from halfulp.files.paths import named_files
    from halfulp.files.sums.statistics import statistics_facts, statistics_of
    from halfulp.spec.rules import spread_of

    check_forms(as_json, as_csv)
    spread_of("std", ddof)
    paths, none = named_files(files, ENDINGS)
    failures = Failures(strict, paths, none)
    found = tensors_of(paths, tensor, bfloat16, failures)
    began = time.perf_counter()
    rows: list[dict[str, Any]] = []
    skipped: list[Any] = []
    nbytes = sum(t.nbytes for tensors, _ in found.values() for t in tensors)
    read = 0
    with progress(nbytes) as advance:
        for path, (tensors, others) in found.items():
            of_file = []
            try:
                for each in tensors:
                    statistics = statistics_of(each, advance, not finite)
                    facts = statistics_facts(each, statistics, ddof)
                    of_file.append({"file": str(path)} | facts)
            except HalfulpError as error:
                failures.add(path, error)
                continue
            rows += of_file
            skipped += others
            read += sum(t.nbytes for t in tensors)
    facts = {
        "files": len(found) - sum(f["file"] in map(str, found) for f in failures.facts),
        "skipped": [{"name": s.name, "type": s.type} for s in skipped],
        "bytes": read,
        "seconds": time.perf_counter() - began,
        "nulls": sum(row["nulls"] for row in rows),
        "ddof": ddof,
        "finite": finite,
        "tensors": rows,
        "failed": failures.facts,
    }
    if as_json:
        print(json.dumps(facts))
    elif as_csv:
        print(_csv(rows), end="")
    else:
        _print(facts, len(paths) > 1)
    if failures.facts:
        raise typer.Exit(2)


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return a line for each tensor; lengths of axes and indices are apart by spaces."""
    head = ["file", "name", "type", "shape", "elements", *_NUMBERS]
    head += ["nan", "first_nan", "inf", "first_inf", "nulls"]
    return csv_text(head, [[row[key] for key in head] for row in rows])


def _print(facts: dict[str, Any], several: bool) -> None:
    console = open_console()
    if facts["tensors"]:
        print_table(console, _table(facts["tensors"], several))
    types = sorted({each["type"] for each in facts["skipped"]})
    print_summary(console, "read", facts, len(facts["tensors"]), types)


def _table(rows: Sequence[dict[str, Any]], several: bool) -> Table:
    first = [*(["file"] if several else []), "tensor", "type", "shape"]
    numbers = ["elements", *_NUMBERS]
    nulls = ["nulls"] if any(row["nulls"] for row in rows) else []
    table = new_table(*first, *numbers, "NaN", "inf", *nulls, right=[*numbers, *nulls])
    for row in rows:
        names = [printable(row["file"])] if several else []
        table.add_row(
            *names,
            printable(row["name"]),
            row["type"],
            brackets(row["shape"]),
            f"{row['elements']:,}",
            *(_text(row, key) for key in _NUMBERS),
            _odd(row, "nan"),
            _odd(row, "inf"),
            *(f"{row[key]:,}" for key in nulls),
        )
    return table


def _text(row: dict[str, Any], key: str) -> str:
    if key in ("min", "max") and row[key] is None:
        return ""
    return number(row[key])


def _odd(row: dict[str, Any], what: str) -> str:
    """Return how many elements are no numbers, and where the first is."""
    first = row[f"first_{what}"]
    return f"{row[what]:,}, first at {brackets(first)}" if row[what] else "0"
