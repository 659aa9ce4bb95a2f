"""Adds up the squares of tensors in files, several threads reading and summing.

May import errors, settings, state and, beside it, readers, tensors and totals only. A
sum is exact, so each thread has its own, of whatever boxes it took; they are merged.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from halfulp.errors import ArgumentError
from halfulp.files.readers import read_file
from halfulp.files.tensors import Box, Read, Skipped, Tensor, boxes, file_errors, the_file
from halfulp.files.totals import Totals
from halfulp.settings import get_num_threads
from halfulp.state import SumSquare

# Bytes that a thread reads at once: they stay in the cache until they are summed.
PIECE = 2**20

Advance = Callable[[int], None]


def find_tensors(
    files: Sequence[Path], patterns: Sequence[str], bfloat16: bool
) -> tuple[list[Tensor], list[Skipped]]:
    """Find the tensors of files, before any is read.

    Parameters
    ----------
    files : sequence of pathlib.Path
    patterns : sequence of str
        Of names, as a shell has them; none means all.
    bfloat16 : bool
        As for `read_file`.

    Raises
    ------
    ModelError, UnsupportedTypeError
        If a file cannot be read.
    ArgumentError
        If a file is given twice, or no tensor has such a name.
    """
    check_different(files)
    tensors: list[Tensor] = []
    skipped: list[Skipped] = []
    for file in files:
        for found in read_file(file, bfloat16):
            if patterns and not any(fnmatchcase(found.name, p) for p in patterns):
                continue
            if isinstance(found, Skipped):
                skipped.append(found)
            else:
                tensors.append(found)
    if patterns and not tensors:
        raise ArgumentError(f"no tensor that can be summed is named {patterns}")
    return tensors, skipped


def check_different(files: Sequence[Path]) -> None:
    """Raise an ArgumentError if one file is given twice, under any names."""
    known: dict[tuple[int, int], Path] = {}
    for file in files:
        with file_errors(file):
            status = file.stat()
        other = known.setdefault((status.st_dev, status.st_ino), file)
        if other is not file:
            raise ArgumentError(
                f"{the_file(file)} is {str(other)!r} again; allowed: each file once"
            )


def sum_tensors(tensors: Sequence[Tensor], totals: Totals, advance: Advance) -> None:
    """Add the sums of tensors to totals.

    Parameters
    ----------
    tensors : sequence of Tensor
    totals : Totals
    advance : function of int
        It is told how many bytes more are summed, by any thread.
    """
    for tensor in tensors:
        flat = tensor.flat()
        axes = tuple(range(len(flat.shape)))
        with flat.opened() as read:
            totals.add(tensor.name, sum_box(flat, read, axes, (), advance))


def sum_box(
    tensor: Tensor, read: Read, axes: tuple[int, ...], kept: Box, advance: Advance
) -> SumSquare:
    """Return sums along axes of a tensor, for a box of the axes that are kept.

    Parameters
    ----------
    tensor : Tensor
    read : function
        Of the open tensor.
    axes : tuple of int
    kept : Box
        Of the other axes. A piece has all of its sums.
    advance : function of int
    """
    itemsize = tensor.element.dtype.itemsize
    shape = tuple(side.stop - side.start for side in kept)
    summed = tuple(slice(0, tensor.shape[i]) for i in axes)
    if not tensor.size:
        box = whole_box(axes, summed, kept)
        empty = np.empty([side.stop - side.start for side in box], tensor.element.dtype)
        return SumSquare(tensor.element.name, shape).update(empty, axes)
    elements = max(1, PIECE // itemsize // math.prod(shape))
    parts = _Shared(boxes(summed, elements, [tensor.grain[i] for i in axes]))

    def work() -> SumSquare:
        state = SumSquare(tensor.element.name, shape)
        for part in parts:
            array = read(whole_box(axes, part, kept))
            state.update(array, axes)
            advance(array.nbytes)
        return state

    pieces = math.prod(shape) * math.prod(s.stop for s in summed) * itemsize // PIECE
    threads = max(1, min(get_num_threads(), tensor.threads, pieces))
    first, *others = _in_threads(work, threads, parts.stop)
    for other in others:
        first.merge(other)
    return first


def whole_box(axes: tuple[int, ...], summed: Box, kept: Box) -> Box:
    """Return the box of all axes that has one box of `axes` and one of the others."""
    rest = iter(kept)
    by_axis = dict(zip(axes, summed, strict=True))
    return tuple(by_axis.get(i) or next(rest) for i in range(len(summed) + len(kept)))


class _Shared:
    """The parts of a work, each for one of the threads that ask."""

    def __init__(self, parts: Iterable[Box]) -> None:
        self._parts = iter(parts)
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Box]:
        return self

    def __next__(self) -> Box:
        with self._lock:
            return next(self._parts)

    def stop(self) -> None:
        """Leave nothing for threads that ask from now on."""
        with self._lock:
            self._parts = iter(())


def _in_threads(
    work: Callable[[], SumSquare], threads: int, stop: Callable[[], None]
) -> list[SumSquare]:
    """Return the results of `work` in so many threads; raise the first error of any."""
    results: list[SumSquare] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
            stop()

    others: list[threading.Thread] = []
    try:
        for _ in range(threads - 1):
            thread = threading.Thread(target=run)
            try:
                thread.start()
            except RuntimeError:  # there are no more to be had
                break
            others.append(thread)
        results.append(work())
    finally:
        stop()
        for thread in others:
            thread.join()
    if errors:
        raise errors[0]
    return results
