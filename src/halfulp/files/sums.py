"""Adds up the squares of tensors in files, several threads reading and summing.

May import errors, settings, spec.rules, state and the modules beside it only. A sum is
exact, so each thread has its own, of whatever boxes it took, and they are merged.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from halfulp.errors import ArgumentError, AxesError
from halfulp.files.readers import read_file
from halfulp.files.results import Group
from halfulp.files.tensors import Box, Skipped, Tensor, boxes, file_errors, the_file
from halfulp.files.totals import Totals
from halfulp.settings import get_num_threads
from halfulp.spec.rules import normalize_axes, reduced_shape
from halfulp.state import SumSquare

# What a thread reads at once: it stays in the cache until it is summed.
PIECE = 2**20
# Of the states that a thread has at once.
STATES = 2**22

Advance = Callable[[int], None]
Block = list[SumSquare]


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


def sum_tensor(tensor: Tensor, advance: Advance) -> SumSquare:
    """Return the sum of the squares of all elements of a tensor.

    Parameters
    ----------
    tensor : Tensor
    advance : function of int
        It is told how many bytes more are summed, by any thread.
    """
    flat = tensor.flat()
    return _sum_box(flat, tuple(range(len(flat.shape))), (), advance)


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
        totals.add(tensor.name, _sum_box(flat, axes, (), advance))


def groups_along(
    tensors: Sequence[Tensor],
    axis: Sequence[int],
    totals: Totals,
    keep: bool,
    advance: Advance,
) -> Iterator[Group]:
    """Yield sums along axes, which are computed as they are asked for.

    Parameters
    ----------
    tensors : sequence of Tensor
    axis : sequence of int
    totals : Totals
        It tells whether each tensor is a group, or all of a kind.
    keep : bool
        Whether to add the sums to `totals` too, in memory.
    advance : function of int

    Raises
    ------
    AxesError, ArgumentError
        Before any work, if a tensor lacks an axis, or sums to add differ in shape.
    """
    groups: dict[tuple[str, str], list[Tensor]] = {}
    for tensor in tensors:
        element = tensor.element
        key = (tensor.name, element.name) if totals.per_tensor else (element.kind, "")
        first = groups.setdefault(key, [tensor])[0]
        if tensor is not first:
            groups[key].append(tensor)
        shape, wanted = (_kept_shape(t, axis) for t in (tensor, first))
        if shape != wanted:
            raise ArgumentError(
                f"tensor {tensor.name!r} has sums of shape {shape}; allowed: {wanted}, "
                f"as those of tensor {first.name!r}, to which they are added"
            )

    def blocks(members: Sequence[Tensor], shape: tuple[int, ...]) -> Iterator[Block]:
        kept: dict[str, list[SumSquare]] = {t.element.name: [] for t in members}
        for block in _blocks(members, axis, advance):
            yield block
            if keep:
                for state in block:
                    kept[state.type].append(state)
        if keep:
            for type, parts in kept.items():
                parts = parts or [SumSquare(type, shape)]
                totals.add(members[0].name, SumSquare.concatenate(parts, shape))

    for (name, _), members in groups.items():
        types = sorted({t.element.name for t in members})
        shape = _kept_shape(members[0], axis)
        yield Group(name, types, shape, blocks(members, shape))


def _axes(tensor: Tensor, axis: Sequence[int]) -> tuple[int, ...]:
    try:
        return normalize_axes(axis, len(tensor.shape), repeated="raise")
    except AxesError as error:
        raise AxesError(f"tensor {tensor.name!r}: {error}") from error


def _kept_shape(tensor: Tensor, axis: Sequence[int]) -> tuple[int, ...]:
    return reduced_shape(tensor.shape, _axes(tensor, axis), False)


def _blocks(
    tensors: Sequence[Tensor], axis: Sequence[int], advance: Advance
) -> Iterator[Block]:
    """Yield the sums along axes of tensors, block by block in C order."""
    first = tensors[0]
    axes = _axes(first, axis)
    kept = [i for i in range(len(first.shape)) if i not in axes]
    every = tuple(slice(0, first.shape[i]) for i in kept)
    grain = [first.grain[i] for i in kept]
    for box in boxes(every, _most_sums(first, axes), grain, ordered=True):
        block: dict[str, SumSquare] = {}
        for tensor in tensors:
            state = _sum_box(tensor, _axes(tensor, axis), box, advance)
            known = block.get(state.type)
            block[state.type] = known.merge(state) if known else state
        yield list(block.values())


def _most_sums(tensor: Tensor, axes: tuple[int, ...]) -> int:
    """Return how many sums to compute at once, of which a piece has all."""
    elements = PIECE // tensor.element.dtype.itemsize
    by_states = STATES // SumSquare(tensor.element.name, 1).nbytes
    # Summed axes after the last that is kept: together they are read in one run.
    tail = 1
    for i in reversed(range(len(tensor.shape))):
        if i not in axes:
            break
        tail *= tensor.shape[i]
    return max(1, min(by_states, elements // max(tail, 1)))


def _sum_box(
    tensor: Tensor, axes: tuple[int, ...], kept: Box, advance: Advance
) -> SumSquare:
    """Return the sums along axes of a box of the kept axes."""
    itemsize = tensor.element.dtype.itemsize
    shape = tuple(side.stop - side.start for side in kept)
    summed = tuple(slice(0, tensor.shape[i]) for i in axes)
    elements = max(1, PIECE // itemsize // max(1, math.prod(shape)))
    grain = [tensor.grain[i] for i in axes]
    parts = _Shared(boxes(summed, elements, grain))
    order = [i for i in range(len(tensor.shape)) if i not in axes]

    with tensor.opened() as read:

        def work() -> SumSquare:
            state = SumSquare(tensor.element.name, shape)
            for part in parts:
                sides = dict(zip([*order, *axes], [*kept, *part], strict=True))
                array = read(tuple(sides[i] for i in range(len(sides))))
                state.update(array, axes)
                advance(array.nbytes)
            return state

        pieces = math.prod(shape) * math.prod(s.stop for s in summed) * itemsize // PIECE
        threads = max(1, min(get_num_threads(), tensor.threads, pieces))
        states = _in_threads(work, threads, parts.stop)
    for other in states[1:]:
        states[0].merge(other)
    return states[0]


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

    others = [threading.Thread(target=run) for _ in range(threads - 1)]
    for thread in others:
        thread.start()
    try:
        results.append(work())
    finally:
        stop()
        for thread in others:
            thread.join()
    if errors:
        raise errors[0]
    return results
