"""Sums along axes of tensors in files, block by block, so that memory stays bounded.

May import errors, exact_sum, functions, spec, files' formats and tensors and, beside it,
results, summing and totals only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from halfulp.errors import ArgumentError, AxesError
from halfulp.exact_sum import SumSquare
from halfulp.files.formats.npy_output import Order
from halfulp.files.sums.results import Group, Rounded, rounded_states
from halfulp.files.sums.summing import PIECE, Advance, failures_of, sum_box, whole_box
from halfulp.files.sums.totals import Totals
from halfulp.files.tensors import Array, Box, FlatTensor, Tensor, boxes
from halfulp.functions import sum_square
from halfulp.spec.rules import normalize_axes, reduced_shape

# Bytes of the states that a thread has at once.
_STATES = 2**22
# Sums of a tensor that has fewer elements.
_MOST_FREE = 2**28
# How many times that much the states of a chunk may be.
_MOST_GRAIN = 4


class _Part(NamedTuple):
    """A tensor, the axes to sum along and the shape of its sums."""

    tensor: Tensor
    axes: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many squares each sum is of."""
        return math.prod(self.tensor.shape[i] for i in self.axes)


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
    groups: dict[tuple[str, str], list[_Part]] = {}
    for tensor in tensors:
        element = tensor.element
        key = (tensor.name, element.name) if totals.per_tensor else (element.kind, "")
        part = _part(tensor, axis)
        group = groups.setdefault(key, [])
        group.append(part)
        if part.shape != group[0].shape:
            raise ArgumentError(
                f"tensor {tensor.name!r} has sums of shape {part.shape}; allowed: "
                f"{group[0].shape}, as those of tensor {group[0].tensor.name!r}, to "
                "which they are added"
            )
    for (name, _), parts in groups.items():
        yield _group(name, parts, totals if keep else None, advance)


def _part(tensor: Tensor, axis: Sequence[int]) -> _Part:
    try:
        axes = normalize_axes(axis, len(tensor.shape), repeated="raise")
    except AxesError as error:
        raise AxesError(f"tensor {tensor.name!r}: {error}") from error
    shape = reduced_shape(tensor.shape, axes, False)
    with failures_of(tensor):
        written = tensor.written
    if written is not None:
        # What is there bounds the work; else a few bytes could ask for any.
        most = _MOST_FREE + len(written.places) * math.prod(tensor.grain)
        if math.prod(shape) > most:
            raise ArgumentError(
                f"tensor {tensor.name!r} has {math.prod(shape)} sums; allowed, since "
                f"most of it was never written: {most}"
            )
    return _Part(tensor, axes, shape)


def _group(
    name: str, parts: list[_Part], totals: Totals | None, advance: Advance
) -> Group:
    types = sorted({part.tensor.element.name for part in parts})
    stored = sorted({part.tensor.stored.name for part in parts})
    elements = sum(part.elements for part in parts)
    shape = parts[0].shape
    order: Order = "C"
    if all(part.tensor.order == "F" for part in parts):
        # They are read as they lie, and their sums come in that order too.
        order, parts = "F", [_transposed(part) for part in parts]

    def blocks() -> Iterator[Rounded]:
        kept: dict[str, list[SumSquare]] = {type: [] for type in types}
        for states in _states(parts, advance):
            if totals:
                for state in states:
                    kept[state.type].append(state)
            yield partial(rounded_states, states)
        if totals:
            for type in types:
                totals.add(name, SumSquare.concatenate(kept[type], shape, order))

    one = len(parts) == 1 and not totals and parts[0].tensor.written is None
    if one and _most_direct(parts[0]) > _most_states(parts[0]):
        return Group(
            name, types, stored, shape, elements, _direct(parts[0], advance), order
        )
    return Group(name, types, stored, shape, elements, blocks(), order)


def _transposed(part: _Part) -> _Part:
    assert isinstance(part.tensor, FlatTensor)
    axes = tuple(sorted(len(part.tensor.shape) - 1 - axis for axis in part.axes))
    return _Part(part.tensor.transposed(), axes, part.shape[::-1])


def _kept_boxes(part: _Part, most: int) -> Iterator[Box]:
    grain = [g for i, g in enumerate(part.tensor.grain) if i not in part.axes]
    if math.prod(grain) > _MOST_GRAIN * _most_in(_STATES, part):
        # Rather unpack a chunk several times than have the states of all of it.
        grain = [1] * len(grain)
    every = tuple(slice(0, n) for n in part.shape)
    if 0 in part.shape:
        return iter([every])
    return boxes(every, most, grain, ordered=True)


def _states(parts: list[_Part], advance: Advance) -> Iterator[list[SumSquare]]:
    """Yield the sums of all parts, block by block in C order, one for each type."""
    with ExitStack() as stack:
        if len(parts) == 1:
            # Opened once: what is packed can only be read from its start on.
            stack.enter_context(failures_of(parts[0].tensor))
            reads = {0: stack.enter_context(parts[0].tensor.opened())}
        else:
            reads = {}
        for box in _kept_boxes(parts[0], _most_states(parts[0])):
            by_type: dict[str, SumSquare] = {}
            for i, part in enumerate(parts):
                with failures_of(part.tensor), ExitStack() as once:
                    read = reads.get(i) or once.enter_context(part.tensor.opened())
                    state = sum_box(part.tensor, read, part.axes, box, advance)
                known = by_type.get(state.type)
                by_type[state.type] = known.merge(state) if known else state
            yield list(by_type.values())


def _most_states(part: _Part) -> int:
    """Return how many sums to compute at once by states."""
    tensor, axes = part.tensor, part.axes
    run = 1
    if tensor.written is None:
        # Summed axes after the last that is kept are read in one run, and chunks as one.
        last = max((i for i in range(len(tensor.shape)) if i not in axes), default=-1)
        run = math.prod(tensor.shape[last + 1 :])
    chunk = math.prod(tensor.grain[i] for i in axes)
    return max(1, min(_most_in(_STATES, part), _piece(part) // max(1, run, chunk)))


def _most_in(nbytes: int, part: _Part) -> int:
    return nbytes // SumSquare(part.tensor.element.name, 1).nbytes


def _most_direct(part: _Part) -> int:
    """Return how many sums to compute at once if a piece has all of their elements."""
    return _piece(part) // max(1, part.elements)


def _piece(part: _Part) -> int:
    return PIECE // part.tensor.element.dtype.itemsize


def _direct(part: _Part, advance: Advance) -> Iterator[Rounded]:
    """Yield sums of few elements each, without the states, which would take more."""
    summed = tuple(slice(0, part.tensor.shape[i]) for i in part.axes)
    with failures_of(part.tensor), part.tensor.opened() as read:
        for box in _kept_boxes(part, _most_direct(part)):
            array = read(whole_box(part.axes, summed, box))
            yield partial(_sum_square, array, part.axes)
            advance(array.nbytes)


def _sum_square(array: Array, axes: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    result = sum_square(array, axes, dtype=dtype, overflow="raise")
    return np.asarray(result)
