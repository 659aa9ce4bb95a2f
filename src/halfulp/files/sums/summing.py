"""Adds up the tensors in files, several threads reading and summing.

May import errors, exact_sums, reductions, settings, files' tensors and, beside it,
totals only. A sum is exact, so each thread has its own, of whatever boxes it took; they
are merged.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, Self, TypeVar

import numpy as np

from halfulp.errors import HalfulpError, ModelError
from halfulp.exact_sums import ExactSum
from halfulp.files.sums.totals import Totals
from halfulp.files.tensors import Array, Box, Read, Tensor, WrittenChunks, boxes
from halfulp.reductions import Term
from halfulp.settings import get_num_threads

# Bytes that a thread reads at once: they stay in the cache until they are summed.
PIECE = 2**20

Advance = Callable[[int], None]


class Mergeable(Protocol):
    """What grows by pieces of a tensor, and merges."""

    def copy(self) -> Self:
        """Return a copy."""

    def merge(self, other: Self, /) -> Self:
        """Add another, which stays as it is; return this one."""


M = TypeVar("M", bound=Mergeable)


class FileError(ModelError):
    """An error that concerns one file: without it the others may be summed.

    Attributes
    ----------
    path : pathlib.Path
        Of the file.
    """

    def __init__(self, path: Path, error: HalfulpError) -> None:
        super().__init__(str(error))
        self.path = path


@contextmanager
def failures_of(tensor: Tensor) -> Iterator[None]:
    """Raise a FileError for any error of halfulp in a ``with`` block."""
    try:
        yield
    except HalfulpError as error:
        raise FileError(tensor.file, error) from error


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
            exact_sum = sum_box(flat, read, axes, (), advance, totals.term)
        totals.add(tensor.name, exact_sum, tensor.stored.name)


def sum_box(
    tensor: Tensor,
    read: Read,
    axes: tuple[int, ...],
    kept: Box,
    advance: Advance,
    term: Term,
) -> ExactSum:
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
    term : {"square", "magnitude", "value"}
    """

    def begin(shape: tuple[int, ...]) -> ExactSum:
        return ExactSum(tensor.element.name, shape, term=term)

    def add(exact_sum: ExactSum, array: Array, box: Box) -> object:
        return exact_sum.update(array, axes)

    def spread(exact_sum: ExactSum, shape: tuple[int, ...]) -> ExactSum:
        return ExactSum.concatenate([exact_sum] * math.prod(shape), shape)

    return accumulate(tensor, read, axes, kept, advance, begin, add, spread)


def accumulate(
    tensor: Tensor,
    read: Read,
    axes: tuple[int, ...],
    kept: Box,
    advance: Advance,
    begin: Callable[[tuple[int, ...]], M],
    add: Callable[[M, Array, Box], object],
    spread: Callable[[M, tuple[int, ...]], M],
) -> M:
    """Return what pieces of a tensor are added to, by several threads.

    Parameters
    ----------
    tensor, read, axes, kept, advance
        As for `sum_box`.
    begin : function of a shape
        Makes what is added to, for a result of that shape.
    add : function of what was made, an array and its box
        Adds a piece. Of elements that were never written one is added, as an array of a
        side of 1 on each axis, at the first place of them, and counted as often as it
        takes.
    spread : function of what was made and a shape
        Makes of one of shape (1, 1, ...) one of equal results of a shape.
    """
    itemsize = tensor.element.dtype.itemsize
    shape = tuple(side.stop - side.start for side in kept)
    summed = tuple(slice(0, tensor.shape[i]) for i in axes)
    if not tensor.size:
        box = whole_box(axes, summed, kept)
        empty = np.empty([side.stop - side.start for side in box], tensor.element.dtype)
        total = begin(shape)
        add(total, empty, box)
        return total
    elements = max(1, PIECE // itemsize // math.prod(shape))
    written, missing = tensor.written_chunks, 0
    if written is None:
        shared = _SharedBoxes(boxes(summed, elements, [tensor.grain[i] for i in axes]))
    else:
        there = _written_boxes(tensor, written, axes, kept, elements)
        missing = math.prod(side.stop for side in summed) - sum(map(_size, there))
        shared = _SharedBoxes(there)

    def work() -> M:
        total = begin(shape)
        for box in shared:
            whole = whole_box(axes, box, kept)
            array = read(whole)
            add(total, array, whole)
            advance(tensor.stored.nbytes(array.size))
        return total

    pieces = math.prod(shape) * math.prod(s.stop for s in summed) * itemsize // PIECE
    threads = max(1, min(get_num_threads(), tensor.threads, pieces))
    first, *others = _in_threads(work, threads, shared.stop)
    for other in others:
        first.merge(other)
    if written is not None and missing:
        one = begin((1,) * len(kept))
        box = tuple(slice(place, place + 1) for place in written.missing)
        add(one, written.fill.reshape((1,) * len(tensor.shape)), box)
        first.merge(spread(_repeated(one, missing), shape))
        advance(tensor.stored.nbytes(missing * math.prod(shape)))
    return first


def _size(box: Box) -> int:
    return math.prod(side.stop - side.start for side in box)


def _written_boxes(
    tensor: Tensor, written: WrittenChunks, axes: tuple[int, ...], kept: Box, most: int
) -> list[Box]:
    """Return boxes of the summed axes, outside of which no element of `kept` is written.

    They consist of chunks, and have `most` elements at most, or one chunk.
    """
    places = written.places
    others = [i for i in range(len(tensor.shape)) if i not in axes]
    for i, side in zip(others, kept, strict=True):
        grain = tensor.grain[i]
        last = (side.stop - 1) // grain
        column = places[:, i]
        places = places[(column >= side.start // grain) & (column <= last)]
    places = places[:, axes]
    if others:
        places = np.unique(places, axis=0) if len(places) else places
    sizes = [(tensor.shape[i], tensor.grain[i]) for i in axes]
    result: list[Box] = []
    for place in places.tolist():
        box = tuple(
            slice(p * grain, min((p + 1) * grain, n))
            for p, (n, grain) in zip(place, sizes, strict=True)
        )
        if (
            result
            and result[-1][:-1] == box[:-1]
            and result[-1][-1].stop == box[-1].start
        ):
            joined = (*box[:-1], slice(result[-1][-1].start, box[-1].stop))
            if _size(joined) <= most:
                result[-1] = joined
                continue
        result.append(box)
    return result


def _repeated(one: M, count: int) -> M:
    """Return what so many of one add up to, in few additions."""
    total = one.copy()
    for bit in f"{count:b}"[1:]:
        total.merge(total.copy())
        if bit == "1":
            total.merge(one)
    return total


def whole_box(axes: tuple[int, ...], summed: Box, kept: Box) -> Box:
    """Return the box of all axes that has one box of `axes` and one of the others."""
    rest = iter(kept)
    by_axis = dict(zip(axes, summed, strict=True))
    return tuple(by_axis.get(i) or next(rest) for i in range(len(summed) + len(kept)))


class _SharedBoxes:
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


def _in_threads(work: Callable[[], M], threads: int, stop: Callable[[], None]) -> list[M]:
    """Return the results of `work` in so many threads; raise the first error of any."""
    results: list[M] = []
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
