"""The command ``halfulp sum``: exact sums of the tensors in files.

May import errors, output, terminal and commands.reading and, within functions,
halfulp.files and, of onnx, model.data_files.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
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
from halfulp.errors import ArgumentError, HalfulpError
from halfulp.output import STDIO
from halfulp.terminal import (
    AsCsv,
    AsJson,
    check_forms,
    csv_text,
    first_values,
    new_table,
    open_console,
    print_table,
    printable,
)

# What is summed where --reduction does not say.
_DEFAULT = "sum_square"
# How tables call the facts of a sum, and arrays of sums.
_HEADS = {
    "sum": "sum",
    "mean": "mean",
    "l1": "sum of magnitudes",
    "sum_square": "sum of squares",
    "norm": "norm",
}
_ARRAYS = {
    "sum": "sums",
    "mean": "means",
    "l1": "L1 norms",
    "l2": "norms",
    "sum_square": "sums of squares",
}
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="Of the sums of its kind. Default: double for floats of any type, since "
        "sums of squares overflow smaller ones soon; integers are as large as they "
        "are, and int64 or uint64 with --axis.",
    ),
]
ReductionName = Annotated[
    str | None,
    typer.Option(
        "--reduction",
        metavar="NAME",
        help="Of: sum, mean, l1, l2, sum_square. sum and mean are of the values, l1 of "
        "their magnitudes, l2 and sum_square of their squares; with --axis it is what "
        "the arrays have.",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        metavar="OUT",
        help="Save the exact sums there, for halfulp merge: a .state file; - is stdout.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.npz",
        help="With --axis: write the sums there; .npy for one array; - is stdout.",
    ),
]


def sum_files(
    files: Files,
    per_tensor: Annotated[
        bool,
        typer.Option(
            "--per-tensor",
            help="Show the sum of each tensor too. Tensors of one name, as in several "
            "files, are parts of one.",
        ),
    ] = False,
    axis: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N",
            help="Sum each tensor along this axis only; repeat for more. Without "
            "--per-tensor, the sums of all tensors are added up.",
        ),
    ] = None,
    reduction: ReductionName = None,
    tensor: Patterns = None,
    dtype: Dtype = None,
    bfloat16: AsBfloat16 = False,
    output: Output = None,
    state: State = None,
    strict: Strict = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show exact sums of the tensors in files, means and norms.

    The sums are exact and rounded once, whatever the order of the files. Files of any
    size are read in bounded memory. Floats and integers are summed apart. Of several
    files those that cannot be read are told, and the exit code is 2.

    Example:  halfulp sum model-*.safetensors --per-tensor
    """
    from halfulp.files.formats.by_ending import ENDINGS
    from halfulp.files.paths import named_files
    from halfulp.files.sums.along import arrays_along
    from halfulp.files.sums.facts import (
        array_facts,
        named_reduction,
        result_type,
        total_facts,
    )
    from halfulp.files.sums.state_file import write_totals
    from halfulp.files.sums.summing import FileError, sum_tensors
    from halfulp.files.sums.totals import Totals
    from halfulp.output import whole_file

    check_forms(as_json, as_csv, output, state)
    target = result_type(dtype)
    row = named_reduction(reduction or _DEFAULT)
    paths, none = named_files(files, ENDINGS)
    check_sum_outputs(output, state, axis, paths)
    failures = Failures(strict, paths, none)
    found = tensors_of(paths, tensor, bfloat16, failures)
    began = time.perf_counter()
    facts: dict[str, Any] = {}
    make = per_tensor, tuple(axis) if axis else None, row.term
    totals = Totals(*make)
    nbytes = sum(t.nbytes for tensors, _ in found.values() for t in tensors)
    with progress(nbytes) as advance:
        for path, (tensors, _) in list(found.items()) if not axis else ():
            part = Totals(*make)
            try:
                sum_tensors(tensors, part, advance)
                totals.merge(part)
            except HalfulpError as error:
                failures.add(path, error)
                del found[path]
        while axis and found:
            totals = Totals(*make)
            several = [t for tensors, _ in found.values() for t in tensors]
            keep = state is not None
            groups = arrays_along(several, axis, totals, keep, advance, row)
            try:
                facts = {"results": array_facts(groups, target, output)}
                break
            except FileError as error:
                # Blocks of sums have its elements already: all begins again.
                failures.add(error.path, error)
                del found[error.path]
    seconds = time.perf_counter() - began
    skipped = [s for _, skipped in found.values() for s in skipped]
    totals.files, totals.skipped = len(found), len(skipped)
    totals.tensors = sum(len(tensors) for tensors, _ in found.values())
    if state is not None and found:
        with whole_file(state) as file:
            write_totals(totals, file)
    if not axis:
        # After the state is safe: an integer may not fit its type.
        facts = total_facts(totals, target)
    facts.setdefault("results" if axis else "totals", [])
    nbytes = sum(t.nbytes for tensors, _ in found.values() for t in tensors)
    facts |= {"bytes": nbytes, "seconds": seconds}
    facts["nulls"] = sum(t.nulls for tensors, _ in found.values() for t in tensors)
    facts["skipped_types"] = sorted({s.type for s in skipped})
    facts["reduction"] = row.name
    show(totals, facts, failures, as_json, as_csv, stderr=STDIO in (output, state))


def check_sum_outputs(
    output: Path | None,
    state: Path | None,
    axis: Sequence[int] | None,
    files: Sequence[Path],
) -> None:
    """Raise an ArgumentError if a file to write cannot be written or has no sense."""
    from halfulp.output import Output, check_outputs

    outputs = []
    if output is not None:
        if not axis:
            raise ArgumentError("--output is given; allowed with --axis only")
        outputs.append(Output("--output", output, (".npy", ".npz")))
    if state is not None:
        outputs.append(Output("--state", state, (".state", "")))
    check_outputs(outputs, files, lambda: _beside(files))


def _beside(files: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of external data of those files that are models."""
    from halfulp.onnx.model.data_files import data_files

    for path in files:
        if path.suffix.lower() == ".onnx":
            yield from data_files(path)


def show(
    totals: Any,
    facts: dict[str, Any],
    failures: Failures,
    as_json: bool,
    as_csv: bool,
    *,
    stderr: bool,
) -> None:
    """Print what a run has summed, for people, as JSON or as CSV.

    The command ends with exit code 2 if there were failures.
    """
    facts = facts | {"failed": failures.facts}
    _print(totals, facts, as_json, as_csv, stderr)
    if failures.facts:
        raise typer.Exit(2)


def _print(
    totals: Any, facts: dict[str, Any], as_json: bool, as_csv: bool, stderr: bool
) -> None:
    axis = None if totals.axis is None else list(totals.axis)
    counts = {n: getattr(totals, n) for n in ("files", "tensors", "skipped")}
    facts = counts | {"axis": axis} | facts
    if as_json:
        print(json.dumps(facts))
        return
    if as_csv:
        print(_csv(facts), end="")
        return
    console = open_console(stderr=stderr)
    for each in facts.get("per_tensor", ()), facts.get("totals", ()):
        if each:
            print_table(console, _sums(each))
    if facts.get("results"):
        print_table(console, _arrays(facts["results"], facts["reduction"]))
    types = facts.get("skipped_types", ())
    print_summary(console, "summed", facts, facts["tensors"], types)


def _csv(facts: dict[str, Any]) -> str:
    """Return the sums of tensors, or those of all where there are no others."""
    rows = facts.get("results") or facts.get("per_tensor") or facts.get("totals", ())
    head = list(dict.fromkeys(key for row in rows for key in row))
    return csv_text(head, [[row.get(key) for key in head] for row in rows])


def _sums(facts: Sequence[dict[str, Any]]) -> Table:
    whole = "kind" in facts[0]
    first = ["all of type"] if whole else ["tensor", "type"]
    keys = [key for key in _HEADS if key in facts[0]]
    numbers = ["elements", *(_HEADS[key] for key in keys)]
    table = new_table(*first, *numbers, right=numbers)
    for each in facts:
        # The whole has room for all digits.
        texts = [number(each[key], whole) for key in keys]
        first = [", ".join(each["types"])] if whole else [printable(each["name"])]
        rest = [] if whole else [each["type"]]
        table.add_row(*first, *rest, f"{each['elements']:,}", *texts)
    return table


def _arrays(facts: Sequence[dict[str, Any]], reduction: str) -> Table:
    table = new_table(f"{_ARRAYS[reduction]} of", "type", "shape", "first values")
    for each in facts:
        values = first_values(each["first_values"], math.prod(each["shape"]))
        table.add_row(
            printable(each["name"]), each["dtype"], brackets(each["shape"]), values
        )
    return table
