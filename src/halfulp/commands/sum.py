"""halfulp sum: sums of squares of the tensors in files.

May import errors and terminal and, within the command, output and halfulp.files.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from halfulp.errors import ArgumentError
from halfulp.output import STDIO
from halfulp.terminal import (
    AsCsv,
    AsJson,
    check_forms,
    csv_text,
    duration,
    first_values,
    new_table,
    open_console,
    print_line,
    print_table,
    printable,
)

_REFRESH = 0.1  # seconds between two looks at the progress

Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="Of the sums of its kind. Default: double for floats of any type, since "
        "sums of squares overflow smaller ones soon; integers are as large as they "
        "are, and int64 or uint64 with --axis.",
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
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Of .npy, .npz, .safetensors, .onnx (the initializers), .zarr, .h5 or "
            ".hdf5.",
        ),
    ],
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
    tensor: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="Only tensors of such names, as '*.weight'. Repeat."
        ),
    ] = None,
    dtype: Dtype = None,
    bfloat16: Annotated[
        bool,
        typer.Option(
            "--bfloat16",
            help="Take the elements of two bytes and no type, as which NumPy saves "
            "bfloat16, as bfloat16.",
        ),
    ] = False,
    output: Output = None,
    state: State = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show the sum of the squares of all tensors in files, and its root, the norm.

    The sums are exact and rounded once, whatever the order of the files. Files of any
    size are read in bounded memory. Floats and integers are summed apart.

    Example:  halfulp sum model-*.safetensors --per-tensor
    """
    from halfulp.files.along import groups_along
    from halfulp.files.results import array_facts, result_type, total_facts
    from halfulp.files.sums import find_tensors, sum_tensors
    from halfulp.files.totals import Totals
    from halfulp.output import whole_file

    check_forms(as_json, as_csv, output, state)
    target = result_type(dtype)
    check_sum_outputs(output, state, axis, files)
    tensors, skipped = find_tensors(files, tensor or [], bfloat16)
    totals = Totals(per_tensor, tuple(axis) if axis else None)
    totals.files, totals.tensors, totals.skipped = len(files), len(tensors), len(skipped)
    nbytes = sum(t.nbytes for t in tensors)
    began = time.perf_counter()
    facts: dict[str, Any]
    with _progress(nbytes) as advance:
        if axis:
            groups = groups_along(tensors, axis, totals, state is not None, advance)
            facts = {"results": array_facts(groups, target, output)}
        else:
            sum_tensors(tensors, totals, advance)
            facts = {}
    seconds = time.perf_counter() - began
    if state is not None:
        with whole_file(state) as file:
            totals.write(file)
    if not axis:
        # After the state is safe: an integer may not fit its type.
        facts = total_facts(totals, target)
    facts |= {"bytes": nbytes, "seconds": seconds}
    facts["skipped_types"] = sorted({s.type for s in skipped})
    show(totals, facts, as_json, as_csv, stderr=STDIO in (output, state))


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
    from halfulp.onnx.data_files import data_files

    for path in files:
        if path.suffix.lower() == ".onnx":
            yield from data_files(path)


def show(
    totals: Any,
    facts: dict[str, Any],
    as_json: bool,
    as_csv: bool,
    *,
    stderr: bool,
) -> None:
    """Print what a run has summed, for people, as JSON or as CSV."""
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
    if "results" in facts:
        print_table(console, _arrays(facts["results"]))
    line = f"{_many(facts['tensors'], 'tensor')} in {_many(facts['files'], 'file')}"
    if "seconds" in facts:
        rate = facts["bytes"] / facts["seconds"] if facts["seconds"] else 0
        line += f", {_size(facts['bytes'])} in {duration(facts['seconds'])}"
        line += f" ({_size(rate)}/s)"
    print_line(console, line)
    if facts["skipped"]:
        types = ", ".join(map(printable, facts.get("skipped_types", ())))
        of = f" of type {types}" if types else ""
        print_line(console, f"not summed: {_many(facts['skipped'], 'tensor')}{of}")


def _csv(facts: dict[str, Any]) -> str:
    """Return the sums of tensors, or those of all where there are no others."""
    rows = facts.get("results") or facts.get("per_tensor") or facts["totals"]
    texts = [
        {
            key: " ".join(map(str, value)) if isinstance(value, list) else value
            for key, value in row.items()
        }
        for row in rows
    ]
    head = list(dict.fromkeys(key for text in texts for key in text))
    return csv_text(head, [[text.get(key) for key in head] for text in texts])


def _sums(facts: Sequence[dict[str, Any]]) -> Table:
    whole = "kind" in facts[0]
    first = ["all of type"] if whole else ["tensor", "type"]
    numbers = ["elements", "sum of squares", "norm"]
    table = new_table(*first, *numbers, right=numbers)
    for each in facts:
        # The whole has room for all digits.
        texts = [_number(each[key], whole) for key in ("sum_square", "norm")]
        first = [", ".join(each["types"])] if whole else [printable(each["name"])]
        rest = [] if whole else [each["type"]]
        table.add_row(*first, *rest, f"{each['elements']:,}", *texts)
    return table


def _arrays(facts: Sequence[dict[str, Any]]) -> Table:
    table = new_table("sums of", "type", "shape", "first values")
    for each in facts:
        shape = "[" + ", ".join(map(str, each["shape"])) + "]"
        values = first_values(each["first_values"], math.prod(each["shape"]))
        table.add_row(printable(each["name"]), each["dtype"], shape, values)
    return table


def _number(value: Any, all_digits: bool) -> str:
    if value is None:
        return "beyond 2**127"
    return f"{value:.9g}" if isinstance(value, float) and not all_digits else str(value)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _size(nbytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} TB"


@contextmanager
def _progress(nbytes: int) -> Iterator[Callable[[int], None]]:
    """Show bytes, speed and time left on stderr, if it is a terminal."""
    if not sys.stderr.isatty():
        yield lambda more: None
        return
    console = Console(stderr=True)
    columns = (BarColumn, DownloadColumn, TransferSpeedColumn, TimeRemainingColumn)
    with Progress(*(c() for c in columns), console=console, transient=True) as progress:
        task = progress.add_task("", total=nbytes)
        lock = threading.Lock()
        done, shown = 0, 0.0

        def advance(more: int) -> None:
            nonlocal done, shown
            with lock:
                done += more
                now = time.monotonic()
                if now < shown + _REFRESH:
                    return
                shown = now
            progress.update(task, completed=done)

        yield advance
