"""What the commands that read tensors in files share: options, failures, progress.

May import errors and terminal and, within functions, halfulp.files.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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

from halfulp.errors import ArgumentError, HalfulpError
from halfulp.terminal import duration, print_line, printable

_REFRESH = 0.1  # seconds between two looks at the progress
VOID = "|V2"  # as which NumPy saves bfloat16
HINT = "; with --bfloat16, |V2 is bfloat16"

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Of .npy, .npz, .safetensors, .onnx (the initializers), .zarr, .h5, .hdf5, "
        ".parquet, .arrow, .arrows or .feather; folders, for all such files below them; "
        "or patterns, as 'a/*.npz'.",
    ),
]
Patterns = Annotated[
    list[str] | None,
    typer.Option(
        "--tensor",
        metavar="PATTERN",
        help="Only tensors of such names, as '*.weight'. Repeat.",
    ),
]
AsBfloat16 = Annotated[
    bool,
    typer.Option(
        "--bfloat16",
        help="Take the elements of two bytes and no type, as which NumPy saves "
        "bfloat16, as bfloat16.",
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Stop at the first file that cannot be read.")
]


class Failures:
    """The files that cannot be read, each of which is told when that turns out.

    Parameters
    ----------
    strict : bool
        Whether the first is raised; it is in any case where one file alone was named.
    paths : sequence of pathlib.Path
        Of the files that are tried.
    none : sequence of (pathlib.Path, HalfulpError)
        Names that mean no file, as `named_files` gives them.
    """

    def __init__(
        self,
        strict: bool,
        paths: Sequence[Path],
        none: Sequence[tuple[Path, HalfulpError]],
    ) -> None:
        self.facts: list[dict[str, str]] = []
        self._strict = strict or len(paths) + len(none) == 1
        for path, error in none:
            self.add(path, error)

    def add(self, path: Path, error: HalfulpError) -> None:
        """Note and tell, or raise, why a file cannot be read."""
        if self._strict:
            raise error
        text = str(error)
        if str(path) not in text:
            text = f"{str(path)!r}: {text}"
        tell(f"error: {text}")
        self.facts.append({"file": str(path), "error": text})


def tensors_of(
    paths: Sequence[Path],
    patterns: Sequence[str] | None,
    bfloat16: bool,
    failures: Failures,
) -> dict[Path, Any]:
    """Return the tensors of each file, and what is skipped in it, before any is read.

    Raises
    ------
    ArgumentError
        If no file has a tensor whose elements can be taken.
    """
    from halfulp.files.formats.by_ending import TYPED_ENDINGS, find_tensors

    typed = sorted({p.suffix.lower() for p in paths} & set(TYPED_ENDINGS))
    if bfloat16 and typed:
        kinds = " and ".join(typed)
        tell(f"note: --bfloat16 does nothing in {kinds} files, which tell their types")
    found: dict[Path, Any] = {}
    for path in paths:
        try:
            found[path] = find_tensors(path, patterns or [], bfloat16)
        except HalfulpError as error:
            failures.add(path, error)
    if found and not any(tensors for tensors, _ in found.values()):
        _check_something(patterns, [each for _, s in found.values() for each in s])
    return found


def tell(text: str) -> None:
    """Print a line to stderr."""
    if sys.stderr is not None:
        print(f"halfulp: {printable(' '.join(text.split()))}", file=sys.stderr)


def _check_something(patterns: Sequence[str] | None, skipped: Sequence[Any]) -> None:
    """Raise an ArgumentError if there were tensors to sum, or names of some."""
    why = "; ".join(f"{each.name!r} has type {each.type}" for each in skipped[:3])
    if len(skipped) > 3:
        why += f"; and {len(skipped) - 3} more"
    if any(each.type == VOID for each in skipped):
        why += HINT
    if patterns:
        named = f"no tensor that can be summed is named {list(patterns)}"
        raise ArgumentError(named + (f": {why}" if why else ""))
    if why:
        raise ArgumentError(
            f"nothing can be summed: {why}; allowed: real numbers of up to 64 bits"
        )


def many(count: int, what: str) -> str:
    """Return a count with what is counted."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def size(nbytes: float) -> str:
    """Return a number of bytes as people write it."""
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} EB"


def number(value: Any, all_digits: bool = False) -> str:
    """Return a number as tables have it; None is one that no exact sum holds."""
    if value is None:
        return "beyond 2**127"
    return f"{value:.9g}" if isinstance(value, float) and not all_digits else str(value)


def print_summary(
    console: Console,
    verb: str,
    facts: Mapping[str, Any],
    tensors: int,
    types: Sequence[str],
) -> None:
    """Print the lines below the tables: how much was read, how fast, and what was not.

    Parameters
    ----------
    verb : str
        What is done with tensors: "read" or "summed".
    facts : mapping
        Of the run: "files", "failed" and, where files of tensors were read, "bytes",
        "seconds" and "nulls"; the number of tensors left out is "skipped", or the length
        of it.
    tensors : int
        How many were read.
    types : sequence of str
        Of those left out; merged sums tell their number alone.
    """
    line = f"{many(tensors, 'tensor')} in {many(facts['files'], 'file')}"
    if "seconds" in facts:
        rate = facts["bytes"] / facts["seconds"] if facts["seconds"] else 0
        line += f", {size(facts['bytes'])} in {duration(facts['seconds'])}"
        line += f" ({size(rate)}/s)"
    print_line(console, line)
    skipped = facts["skipped"]
    count = skipped if isinstance(skipped, int) else len(skipped)
    if count:
        of = f" of type {', '.join(map(printable, types))}" if types else ""
        hint = HINT if VOID in types else ""
        print_line(console, f"not {verb}: {many(count, 'tensor')}{of}{hint}")
    if facts.get("nulls"):
        print_line(console, f"not counted: {many(facts['nulls'], 'null')}")
    if facts["failed"]:
        print_line(console, f"not read: {many(len(facts['failed']), 'file')}")


def brackets(numbers: Sequence[int]) -> str:
    """Return a shape or an index as tables have it."""
    return "[" + ", ".join(map(str, numbers)) + "]"


@contextmanager
def progress(nbytes: int) -> Iterator[Callable[[int], None]]:
    """Show bytes, speed and time left on stderr, if it is a terminal."""
    if not sys.stderr.isatty():
        yield lambda more: None
        return
    console = Console(stderr=True)
    columns = (BarColumn, DownloadColumn, TransferSpeedColumn, TimeRemainingColumn)
    with Progress(*(c() for c in columns), console=console, transient=True) as shown_bar:
        task = shown_bar.add_task("", total=nbytes)
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
            shown_bar.update(task, completed=done)

        yield advance
