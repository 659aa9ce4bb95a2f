"""Sums of groups: as NumPy's face gives them, and exact ones that grow by batches.

May import arrays, element_types, errors, numpy_face, reductions, spec.rules and the
native core only.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp import _core
from halfulp.arrays import Array, as_array
from halfulp.element_types import (
    ElementType,
    data_type,
    in_native_order,
    widened,
)
from halfulp.errors import ArgumentError, UnsupportedTypeError, shown
from halfulp.numpy_face import check_out, is_plain, mask_of, result_type_of
from halfulp.reductions import Finish, Reduction, Term
from halfulp.spec.rules import axes_of, check_flag, raises_on_overflow

# Elements that are added at once: copies of them stay in the second cache.
_BLOCK = 1 << 16

# Exact sums of groups take so many bytes at a time, or as many as the enclosures did.
_EXACT_BYTES = 1 << 26

# Numbers of 64 bits of an enclosure.
_ENCLOSED = 4


def reduce_groups(
    row: Reduction,
    x: Any,
    axis: int | Sequence[int] | None,
    by: Any,
    minlength: int,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    where: Any = True,
    overflow: str = "wrap",
    split_every: Any = None,
) -> Any:
    """Reduce groups along an axis as NumPy's face does, by a row of sums of the table.

    Parameters, result and errors are those of `halfulp.sum`, with `by`.
    """
    if row.operation != "sum":
        raise ArgumentError(
            f"by is given for the norm of ord {row.ord}; allowed: with 1 and 2"
        )
    if check_flag("keepdims", keepdims):
        raise ArgumentError(
            "keepdims is given with by; allowed: without, as the axis stays"
        )
    if split_every is not None:
        raise ArgumentError("by is given with split_every; allowed: without")
    if not is_plain(x):
        raise UnsupportedTypeError(
            f"by is given with a {type(x).__name__}; allowed: with plain arrays"
        )
    data, restore = as_array(x, "x")
    checked = raises_on_overflow(overflow)
    source = data_type(data.dtype, "x has dtype")
    into = result_type_of(row, data, dtype, out)
    place = _axis(axis, data.ndim)
    codes, groups = _codes(by, data.shape[place], minlength)
    mask = None if where is True else mask_of(where, data.shape)
    shape = (*data.shape[:place], groups, *data.shape[place + 1 :])
    if out is not None:
        check_out(out, shape)
    rows = _Rows(
        np.moveaxis(data, place, 0),
        codes,
        None if mask is None else np.moveaxis(mask, place, 0),
        widened(source).dtype,
    )
    reduce = _reduced_floats if source.kind == "float" else _reduced_integers
    result = reduce(row, rows, groups, place, into, checked)
    if out is not None:
        out[...] = result
        return out
    return result if restore is None else restore(result)


def _axis(axis: int | Sequence[int] | None, rank: int) -> int:
    axes = axes_of(axis, rank)
    if len(axes) != 1:
        raise ArgumentError(
            f"axis is {shown(axis)}, so that by is along {len(axes)} axes of x; "
            "allowed: along one"
        )
    return axes[0]


def _codes(by: Any, length: int, minlength: int) -> tuple[Array, int]:
    """Return codes of groups as int64, and how many groups there are."""
    codes, _ = as_array(by, "by")
    if codes.shape == (0,):
        codes = np.zeros(0, np.int64)  # that of [] is float64
    if codes.dtype.kind not in "iu":
        raise UnsupportedTypeError(f"by has dtype {codes.dtype}; allowed: integers")
    if codes.shape != (length,):
        raise ArgumentError(
            f"by has shape {codes.shape}; allowed: {(length,)}, a code for each element "
            "along the axis"
        )
    try:
        least = operator.index(minlength)
    except TypeError:
        least = -1
    if not 0 <= least < 2**63:
        raise ArgumentError(f"minlength is {shown(minlength)}; allowed: 0 and up")
    if length == 0:
        return codes, least
    if codes.dtype == np.int64 and codes.flags.carray and codes.dtype.isnative:
        lowest, highest = _core.range_of_codes(codes)
    else:
        lowest, highest = int(codes.min()), int(codes.max())
    if lowest < -1 or highest >= 2**62:
        wrong = lowest if lowest < -1 else highest
        at = int(np.argmax(codes == wrong))
        raise ArgumentError(f"by has code {wrong} at [{at}]; allowed: -1 to {2**62 - 1}")
    return codes, max(least, highest + 1)


class _Rows:
    """The rows that codes tell the groups of, block by block.

    Parameters
    ----------
    data, codes : numpy.ndarray
        Codes of any integer type and byte order.
    mask : numpy.ndarray, optional
        Of the shape of the data: which elements count.
    dtype : numpy.dtype
        To read elements as.
    """

    def __init__(
        self, data: Array, codes: Array, mask: Array | None, dtype: np.dtype[Any]
    ) -> None:
        self._data, self._codes, self._mask = data, codes, mask
        self.dtype = in_native_order(dtype)
        self.shape = data.shape[1:]
        self.width = math.prod(self.shape)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Yield elements side by side, and the group of each row of them."""
        height = max(1, _BLOCK // max(1, self.width))
        for begin in range(0, len(self._data), height):
            part = slice(begin, begin + height)
            rows = np.require(self._data[part], self.dtype, ["C", "A"])
            codes = np.require(self._codes[part], np.int64, ["C", "A"])
            if self._mask is not None:
                codes = self._each(codes, self._mask[part])
                rows = rows.reshape(-1)
            yield rows, codes

    def _each(self, codes: Array, mask: Array) -> Array:
        """Return the sum that each element alone counts for."""
        sums = codes[:, None] * self.width + np.arange(self.width)
        counts = mask.reshape(len(codes), -1) & (codes >= 0)[:, None]
        return np.where(counts, sums, -1).reshape(-1)


def _reduced_floats(
    row: Reduction,
    rows: _Rows,
    groups: int,
    place: int,
    into: ElementType,
    checked: bool,
) -> Array:
    """Reduce by enclosures, and exactly where these leave a result open."""
    count = groups * rows.width
    enclosures = _zeros(count, _ENCLOSED)
    source = data_type(rows.dtype, "x has dtype").code
    for block, codes in rows.blocks():
        _core.add_groups(row.term, enclosures, block, codes)
    results = np.zeros(count, into.dtype)
    is_open = _core.round_groups(row.term, row.finish, enclosures, results, source)
    nbytes = max(_EXACT_BYTES, enclosures.nbytes)
    del enclosures
    left = np.flatnonzero(is_open)
    size = _core.exact_group_size(row.term, source)
    at_once = nbytes // (8 * size)
    places = np.full(count if len(left) else 0, -1, np.int64)
    for begin in range(0, len(left), at_once):
        some = left[begin : begin + at_once]
        places[some] = np.arange(len(some))
        sums = np.zeros(len(some) * size, np.uint64)
        for block, codes in rows.blocks():
            _core.add_groups_exactly(row.term, sums, block, codes, places)
        results[some] = _core.round_exact_groups(
            row.term, row.finish, sums, some.shape, source, into.code, False
        )
        places[some] = -1
    return np.moveaxis(results.reshape(groups, *rows.shape), 0, place)


def _zeros(results: int, size: int) -> Array:
    """Return memory for sums of so many results, of so many numbers of 64 bits each."""
    try:
        if results * size < 2**60:
            return np.zeros(results * size, np.uint64)
    except MemoryError:
        pass
    raise ArgumentError(
        f"by makes {results} results; allowed: as many as fit in memory, "
        f"{8 * size} bytes each"
    )


def _reduced_integers(
    row: Reduction,
    rows: _Rows,
    groups: int,
    place: int,
    into: ElementType,
    checked: bool,
) -> Array:
    """Reduce by exact sums."""
    source = data_type(rows.dtype, "x has dtype").code
    size = _core.exact_group_size(row.term, source)
    sums = _zeros(groups * rows.width, size)
    for block, codes in rows.blocks():
        _core.add_groups_exactly(row.term, sums, block, codes, None)
    # In the order of the results, whose places errors name.
    each = np.moveaxis(sums.reshape(groups, *rows.shape, size), 0, place)
    flat = np.ascontiguousarray(each).reshape(-1)
    result: Array = _core.round_exact_groups(
        row.term, row.finish, flat, each.shape[:-1], source, into.code, checked
    )
    return result


class GroupSums:
    """Exact sums of groups, which grow by batches and by groups.

    Parameters
    ----------
    term : {"value", "magnitude", "square"}
        What an element adds.
    type : ElementType
        Of the elements, one of the eight.

    Notes
    -----
    Takes 8 bytes for each digit of an exact sum and for its count: 280 of float64.
    """

    def __init__(self, term: Term, type: ElementType) -> None:
        self._term, self.type = term, type
        self._size = _core.exact_group_size(term, type.code)
        self._sums = np.zeros(0, np.uint64)
        self._groups = 0

    def update(self, values: Array, codes: Array, groups: int) -> None:
        """Add values to the sums of groups; there are so many from now on.

        Parameters
        ----------
        values : numpy.ndarray
            Of one dimension and the type of the sums, or a small one that widens to it.
        codes : numpy.ndarray of int64
            Of each value, below `groups`; below 0 it counts nowhere.
        """
        if groups * self._size > len(self._sums):
            # Twice as many, so that all copies together are no more than the last.
            grown = np.zeros(max(groups, 2 * self._groups) * self._size, np.uint64)
            grown[: len(self._sums)] = self._sums
            self._sums = grown
        self._groups = max(groups, self._groups)
        for block, some in _Rows(values, codes, None, self.type.dtype).blocks():
            _core.add_groups_exactly(self._term, self._sums, block, some, None)

    @property
    def counts(self) -> Array:
        """How many elements each sum is of, as uint64."""
        counts: Array = self._live[:: self._size].copy()
        return counts

    def result(
        self, finish: Finish, into: ElementType, *, checked: bool = False
    ) -> Array:
        """Return the results of the groups, rounded once to a type.

        Raises
        ------
        SumOverflowError
            If `checked` and an integer result does not fit the type.
        """
        result: Array = _core.round_exact_groups(
            self._term,
            finish,
            self._live,
            (self._groups,),
            self.type.code,
            into.code,
            checked,
        )
        return result

    @property
    def _live(self) -> Array:
        return self._sums[: self._groups * self._size]
