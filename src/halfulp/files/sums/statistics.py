"""What `halfulp stats` tells of a tensor in a file, by one pass over its bytes.

May import errors, functions, moments, files' tensors and, beside it, facts and summing
only.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from halfulp.errors import SumOverflowError
from halfulp.files.sums.facts import plain
from halfulp.files.sums.summing import Advance, accumulate
from halfulp.files.tensors import Array, Box, Tensor
from halfulp.functions import max as greatest_of
from halfulp.functions import min as least_of
from halfulp.moments import Moments


@dataclass
class _Met:
    """How many elements are of a kind, and where the first is in C order."""

    count: int = 0
    first: int = -1

    def add(self, count: int, first: int) -> None:
        if count:
            self.first = first if not self.count else min(first, self.first)
            self.count += count


@dataclass
class Statistics:
    """Moments, extremes, and what is no number: they grow by pieces and merge."""

    moments: Moments
    # Whether what is no number counts in the moments and extremes too.
    whole: bool
    # Of one element, or none.
    least: Array
    greatest: Array
    nan: _Met = field(default_factory=_Met)
    infinity: _Met = field(default_factory=_Met)

    def add(self, array: Array, place: Callable[[npt.NDArray[np.bool_]], int]) -> None:
        """Add a piece; `place` tells where the first of those that a mask marks is."""
        low, high = _extremes(array)
        # One NaN or infinity is the least or the greatest.
        is_float = self.moments.dtype.kind not in "iu"
        if is_float and not np.isfinite(np.concatenate([low, high])).all():
            for met, is_it in (self.nan, np.isnan), (self.infinity, np.isinf):
                mask = is_it(array)
                if mask.any():
                    met.add(int(np.count_nonzero(mask)), place(mask))
            if not self.whole:
                array = array[np.isfinite(array)]
                low, high = _extremes(array)
        self.moments.update(array)
        self._widen(low, high)

    def _widen(self, low: Array, high: Array) -> None:
        """Take the extremes of more elements in."""
        self.least, _ = _extremes(np.concatenate([self.least, low]))
        _, self.greatest = _extremes(np.concatenate([self.greatest, high]))

    def merge(self, other: Self, /) -> Self:
        """Add those of other elements, which stay as they are."""
        self.moments.merge(other.moments)
        self._widen(other.least, other.greatest)
        self.nan.add(other.nan.count, other.nan.first)
        self.infinity.add(other.infinity.count, other.infinity.first)
        return self

    def copy(self) -> Self:
        """Return a copy that shares nothing with these."""
        empty = self.least[:0]
        new = self.__class__(Moments(self.moments.dtype), self.whole, empty, empty)
        return new.merge(self)


def _extremes(array: Array) -> tuple[Array, Array]:
    """Return the least and the greatest element in an array each, empty ones of none."""
    if not array.size:
        return array.ravel(), array.ravel()
    least, greatest = least_of(array, keepdims=True), greatest_of(array, keepdims=True)
    return np.ravel(least), np.ravel(greatest)


def statistics_of(tensor: Tensor, advance: Advance, whole: bool = True) -> Statistics:
    """Read a tensor once, and return its statistics.

    Parameters
    ----------
    tensor : Tensor
    advance : function of int
        As for `sum_tensors`.
    whole : bool
        Whether what is no number counts in the moments and extremes.
    """
    flat = tensor.flat()
    axes = tuple(range(len(flat.shape)))

    def begin(shape: tuple[int, ...]) -> Statistics:
        empty = np.empty(0, tensor.element.dtype)
        return Statistics(Moments(tensor.element.name), whole, empty, empty)

    def add(statistics: Statistics, array: Array, box: Box) -> None:
        statistics.add(array, lambda mask: _first(mask, box, flat, tensor))

    with flat.opened() as read:
        return accumulate(
            flat, read, axes, (), advance, begin, add, lambda one, shape: one
        )


def _first(mask: npt.NDArray[np.bool_], box: Box, flat: Tensor, tensor: Tensor) -> int:
    """Return where the first marked element of a box of `flat` is in `tensor`."""
    if flat.shape == tensor.shape or tensor.order == "C":
        # In C order of the box the places in the tensor grow.
        at = flat.index_read(int(mask.argmax()), mask.shape)
        index = tuple(n + side.start for n, side in zip(at, box, strict=True))
        return int(np.ravel_multi_index(index, flat.shape)) if index else 0
    (side,) = box
    places = np.unravel_index(np.flatnonzero(mask) + side.start, tensor.shape, order="F")
    return int(np.ravel_multi_index(places, tensor.shape).min())


def statistics_facts(tensor: Tensor, statistics: Statistics, ddof: int) -> dict[str, Any]:
    """Return the facts about a tensor, all of which can be JSON.

    Parameters
    ----------
    tensor : Tensor
    statistics : Statistics
    ddof : int
        As for `halfulp.std`.

    Returns
    -------
    dict
        ``name``, ``type`` in the file, ``shape``, ``elements``; ``sum``, an integer of
        integers; ``mean``, ``std``, ``norm``, doubles; ``min`` and ``max``, None of no
        elements; ``nan`` and ``inf``, counts; ``first_nan`` and ``first_inf``, the index
        of the first in C order, or None; ``nulls``, a count. NaN and infinity are text;
        what a sum of squares of integers does not hold is None.
    """
    moments = statistics.moments
    is_float = tensor.element.kind == "float"
    facts: dict[str, Any] = {
        "name": tensor.name,
        "type": tensor.stored.name,
        "shape": list(tensor.shape),
        "elements": tensor.size - tensor.nulls,
        "sum": plain(float(moments.sum("float64")))
        if is_float
        else moments.values.exact(),
        "mean": plain(float(moments.mean("float64"))),
        "std": None,
        "min": None,
        "max": None,
        "norm": None,
    }
    with suppress(SumOverflowError):
        facts["std"] = plain(float(moments.std("float64", ddof=ddof)))
        facts["norm"] = plain(float(moments.norm("float64")))
    if statistics.least.size:
        facts["min"] = plain(statistics.least.item())
        facts["max"] = plain(statistics.greatest.item())
    for what, met in ("nan", statistics.nan), ("inf", statistics.infinity):
        facts[what] = met.count
        facts[f"first_{what}"] = None
        if met.count:
            index = np.unravel_index(met.first, tensor.shape) if tensor.shape else ()
            facts[f"first_{what}"] = [int(n) for n in index]
    return facts | {"nulls": tensor.nulls}
