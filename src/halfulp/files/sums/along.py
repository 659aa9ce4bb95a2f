"""Sums along axes of tensors in files, block by block, so that memory stays bounded.

May import errors, exact_sums, functions, reductions, spec, files' formats and tensors
and, beside it, facts, summing and totals only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from halfulp import functions
from halfulp.errors import ArgumentError, AxesError
from halfulp.exact_sums import ExactSum
from halfulp.files.formats.npy_output import Order
from halfulp.files.sums.facts import ArrayOfSums, Rounded, rounded_sums
from halfulp.files.sums.summing import PIECE, Advance, failures_of, sum_box, whole_box
from halfulp.files.sums.totals import Totals
from halfulp.files.tensors import Array, Box, FlatTensor, Tensor, boxes
from halfulp.reductions import SUM_SQUARE, Reduction, Term
from halfulp.spec.rules import normalize_axes, reduced_shape

# Bytes of the exact sums that a thread has at once.
_EXACT_SUMS = 2**22
# Sums of a tensor that has fewer elements.
_MOST_FREE = 2**28
# How many times that much the exact sums of a chunk may be.
_MOST_GRAIN = 4


class _Addend(NamedTuple):
    """A tensor, the axes to sum along and the shape of its sums."""

    tensor: Tensor
    axes: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many elements each sum is of, without nulls that are known by now."""
        return math.prod(self.tensor.shape[i] for i in self.axes) - self.tensor.nulls


def arrays_along(
    tensors: Sequence[Tensor],
    axis: Sequence[int],
    totals: Totals,
    keep: bool,
    advance: Advance,
    row: Reduction = SUM_SQUARE,
) -> Iterator[ArrayOfSums]:
    """Yield sums along axes, which are computed as they are asked for.

    Parameters
    ----------
    tensors : sequence of Tensor
    axis : sequence of int
    totals : Totals
        It tells whether each tensor has an array, or all of a kind have one.
    keep : bool
        Whether to add the sums to `totals` too, in memory.
    advance : function of int
    row : Reduction
        What the arrays have: a finish of the term of `totals`.

    Raises
    ------
    AxesError, ArgumentError
        Before any work, if a tensor lacks an axis, or sums to add differ in shape.
    """
    arrays: dict[tuple[str, str], list[_Addend]] = {}
    for tensor in tensors:
        element = tensor.element
        key = (tensor.name, element.name) if totals.per_tensor else (element.kind, "")
        addend = _addend(tensor, axis)
        known = arrays.setdefault(key, [])
        known.append(addend)
        if addend.shape != known[0].shape:
            raise ArgumentError(
                f"tensor {tensor.name!r} has sums of shape {addend.shape}; allowed: "
                f"{known[0].shape}, as those of tensor {known[0].tensor.name!r}, to "
                "which they are added"
            )
    for (name, _), addends in arrays.items():
        yield _array_of_sums(name, addends, totals if keep else None, advance, row)


def _addend(tensor: Tensor, axis: Sequence[int]) -> _Addend:
    try:
        axes = normalize_axes(axis, len(tensor.shape), repeated="raise")
    except AxesError as error:
        raise AxesError(f"tensor {tensor.name!r}: {error}") from error
    shape = reduced_shape(tensor.shape, axes, False)
    with failures_of(tensor):
        written = tensor.written_chunks
    if written is not None:
        # What is there bounds the work; else a few bytes could ask for any.
        most = _MOST_FREE + len(written.places) * math.prod(tensor.grain)
        if math.prod(shape) > most:
            raise ArgumentError(
                f"tensor {tensor.name!r} has {math.prod(shape)} sums; allowed, since "
                f"most of it was never written: {most}"
            )
    return _Addend(tensor, axes, shape)


def _array_of_sums(
    name: str,
    addends: list[_Addend],
    totals: Totals | None,
    advance: Advance,
    row: Reduction,
) -> ArrayOfSums:
    types = sorted({addend.tensor.element.name for addend in addends})
    stored = sorted({addend.tensor.stored.name for addend in addends})
    shape = addends[0].shape
    order: Order = "C"
    if all(addend.tensor.order == "F" for addend in addends):
        # They are read as they lie, and their sums come in that order too.
        order, addends = "F", [_transposed(addend) for addend in addends]

    def blocks() -> Iterator[Rounded]:
        kept: dict[str, list[ExactSum]] = {type: [] for type in types}
        for exact_sums in _exact_sums(addends, advance, row.term):
            if totals:
                for exact_sum in exact_sums:
                    kept[exact_sum.type].append(exact_sum)
            yield partial(rounded_sums, exact_sums, row.finish)
        if totals:
            for type in types:
                totals.add(name, ExactSum.concatenate(kept[type], shape, order))

    def elements() -> int:
        return sum(addend.elements for addend in addends)

    one = len(addends) == 1 and not totals and addends[0].tensor.written_chunks is None
    told = ArrayOfSums(name, types, stored, shape, elements, blocks(), row, order)
    if one and _most_direct(addends[0]) > _most_exact_sums(addends[0], row.term):
        return told._replace(blocks=_direct(addends[0], advance, row))
    return told


def _transposed(addend: _Addend) -> _Addend:
    assert isinstance(addend.tensor, FlatTensor)
    axes = tuple(sorted(len(addend.tensor.shape) - 1 - axis for axis in addend.axes))
    return _Addend(addend.tensor.transposed(), axes, addend.shape[::-1])


def _kept_boxes(addend: _Addend, most: int, term: Term) -> Iterator[Box]:
    grain = [g for i, g in enumerate(addend.tensor.grain) if i not in addend.axes]
    if math.prod(grain) > _MOST_GRAIN * _most_in(_EXACT_SUMS, addend, term):
        # Rather unpack a chunk several times than have the exact sums of all of it.
        grain = [1] * len(grain)
    every = tuple(slice(0, n) for n in addend.shape)
    if 0 in addend.shape:
        return iter([every])
    return boxes(every, most, grain, ordered=True)


def _exact_sums(
    addends: list[_Addend], advance: Advance, term: Term
) -> Iterator[list[ExactSum]]:
    """Yield the sums of all parts, block by block in C order, one for each type."""
    with ExitStack() as stack:
        if len(addends) == 1:
            # Opened once: what is packed can only be read from its start on.
            stack.enter_context(failures_of(addends[0].tensor))
            reads = {0: stack.enter_context(addends[0].tensor.opened())}
        else:
            reads = {}
        most = _most_exact_sums(addends[0], term)
        for box in _kept_boxes(addends[0], most, term):
            by_type: dict[str, ExactSum] = {}
            for i, addend in enumerate(addends):
                with failures_of(addend.tensor), ExitStack() as once:
                    read = reads.get(i) or once.enter_context(addend.tensor.opened())
                    exact_sum = sum_box(
                        addend.tensor, read, addend.axes, box, advance, term
                    )
                known = by_type.get(exact_sum.type)
                by_type[exact_sum.type] = known.merge(exact_sum) if known else exact_sum
            yield list(by_type.values())


def _most_exact_sums(addend: _Addend, term: Term) -> int:
    """Return how many sums to compute at once as exact sums."""
    tensor, axes = addend.tensor, addend.axes
    run = 1
    if tensor.written_chunks is None:
        # Summed axes after the last that is kept are read in one run, and chunks as one.
        last = max((i for i in range(len(tensor.shape)) if i not in axes), default=-1)
        run = math.prod(tensor.shape[last + 1 :])
    chunk = math.prod(tensor.grain[i] for i in axes)
    return max(
        1, min(_most_in(_EXACT_SUMS, addend, term), _piece(addend) // max(1, run, chunk))
    )


def _most_in(nbytes: int, addend: _Addend, term: Term) -> int:
    return nbytes // ExactSum(addend.tensor.element.name, 1, term=term).nbytes


def _most_direct(addend: _Addend) -> int:
    """Return how many sums to compute at once if a piece has all of their elements."""
    return _piece(addend) // max(1, addend.elements)


def _piece(addend: _Addend) -> int:
    return PIECE // addend.tensor.element.dtype.itemsize


def _direct(addend: _Addend, advance: Advance, row: Reduction) -> Iterator[Rounded]:
    """Yield sums of few elements each, without exact sums, which would take more."""
    summed = tuple(slice(0, addend.tensor.shape[i]) for i in addend.axes)
    with failures_of(addend.tensor), addend.tensor.opened() as read:
        for box in _kept_boxes(addend, _most_direct(addend), row.term):
            array = read(whole_box(addend.axes, summed, box))
            yield partial(_reduced, row, array, addend.axes)
            advance(array.nbytes)


def _reduced(
    row: Reduction, array: Array, axes: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    assert row.numpy_name is not None
    options = {} if row.ord is None else {"ord": row.ord}
    function = getattr(functions, row.numpy_name)
    return np.asarray(function(array, axes, dtype=dtype, overflow="raise", **options))
