"""The command ``halfulp sum``: sums of squares of the tensors in files.

May import errors, output and terminal and, within functions, halfulp.files and, of onnx,
model.data_files.
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

from halfulp.errors import ArgumentError, HalfulpError
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
_VOID = "|V2"  # as which NumPy saves bfloat16
_HINT = "; with --bfloat16, |V2 is bfloat16"

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
Strict = Annotated[
    bool, typer.Option("--strict", help="Stop at the first file that cannot be read.")
]


def sum_files(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Of .npy, .npz, .safetensors, .onnx (the initializers), .zarr, .h5 or "
            ".hdf5; folders, for all such files below them; or patterns, as 'a/*.npz'.",
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
    strict: Strict = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show the sum of squares of tensors in files, and its root.

    The sums are exact and rounded once, whatever the order of the files. Files of any
    size are read in bounded memory. Floats and integers are summed apart. Of several
    files those that cannot be read are told, and the exit code is 2.

    Example:  halfulp sum model-*.safetensors --per-tensor
    """
    from halfulp.files.formats.by_ending import ENDINGS, TYPED_ENDINGS, find_tensors
    from halfulp.files.paths import named_files
    from halfulp.files.sums.along import arrays_along
    from halfulp.files.sums.facts import array_facts, result_type, total_facts
    from halfulp.files.sums.state_file import write_totals
    from halfulp.files.sums.summing import FileError, sum_tensors
    from halfulp.files.sums.totals import Totals
    from halfulp.output import whole_file

    check_forms(as_json, as_csv, output, state)
    target = result_type(dtype)
    paths, none = named_files(files, ENDINGS)
    check_sum_outputs(output, state, axis, paths)
    failures = Failures(strict or len(paths) + len(none) == 1)
    for path, error in none:
        failures.add(path, error)
    typed = sorted({p.suffix.lower() for p in paths} & set(TYPED_ENDINGS))
    if bfloat16 and typed:
        kinds = " and ".join(typed)
        tell(f"note: --bfloat16 does nothing in {kinds} files, which tell their types")
    found: dict[Path, Any] = {}
    for path in paths:
        try:
            found[path] = find_tensors(path, tensor or [], bfloat16)
        except HalfulpError as error:
            failures.add(path, error)
    if found and not any(tensors for tensors, _ in found.values()):
        _check_something(tensor, [each for _, s in found.values() for each in s])
    began = time.perf_counter()
    facts: dict[str, Any] = {}
    make = per_tensor, tuple(axis) if axis else None
    totals = Totals(*make)
    nbytes = sum(t.nbytes for tensors, _ in found.values() for t in tensors)
    with _progress(nbytes) as advance:
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
            groups = arrays_along(several, axis, totals, state is not None, advance)
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
    facts["skipped_types"] = sorted({s.type for s in skipped})
    show(totals, facts, failures, as_json, as_csv, stderr=STDIO in (output, state))


class Failures:
    """The files that cannot be read, each of which is told when that turns out.

    Parameters
    ----------
    strict : bool
        Whether the first is raised.
    """

    def __init__(self, strict: bool) -> None:
        self.facts: list[dict[str, str]] = []
        self._strict = strict

    def add(self, path: Path, error: HalfulpError) -> None:
        """Note and tell, or raise, why a file cannot be read."""
        if self._strict:
            raise error
        text = str(error)
        if str(path) not in text:
            text = f"{str(path)!r}: {text}"
        tell(f"error: {text}")
        self.facts.append({"file": str(path), "error": text})


def tell(text: str) -> None:
    """Print a line to stderr."""
    if sys.stderr is not None:
        print(f"halfulp: {printable(' '.join(text.split()))}", file=sys.stderr)


def _check_something(patterns: Sequence[str] | None, skipped: Sequence[Any]) -> None:
    """Raise an ArgumentError if there were tensors to sum, or names of some."""
    why = "; ".join(f"{each.name!r} has type {each.type}" for each in skipped[:3])
    if len(skipped) > 3:
        why += f"; and {len(skipped) - 3} more"
    if any(each.type == _VOID for each in skipped):
        why += _HINT
    if patterns:
        named = f"no tensor that can be summed is named {list(patterns)}"
        raise ArgumentError(named + (f": {why}" if why else ""))
    if why:
        raise ArgumentError(
            f"nothing can be summed: {why}; allowed: real numbers of up to 64 bits"
        )


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
        hint = _HINT if _VOID in facts.get("skipped_types", ()) else ""
        print_line(console, f"not summed: {_many(facts['skipped'], 'tensor')}{of}{hint}")
    if facts["failed"]:
        print_line(console, f"not read: {_many(len(facts['failed']), 'file')}")


def _csv(facts: dict[str, Any]) -> str:
    """Return the sums of tensors, or those of all where there are no others."""
    rows = facts.get("results") or facts.get("per_tensor") or facts.get("totals", ())
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
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} EB"


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
