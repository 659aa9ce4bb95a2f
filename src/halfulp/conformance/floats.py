"""Rows of floating-point numbers whose sums of squares are hard to get right.

May import bits, hard_rows and why only.

A function yields (class, name, rows, note) with a row of `rows` for each sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from halfulp.conformance import hard_rows
from halfulp.conformance.bits import EMAX, PRECISION, Array, least_exponent
from halfulp.conformance.why import threshold

DType = np.dtype[Any]
Rows = tuple[str, str, Array, str]
Generator = np.random.Generator

_LENGTH = 33
_LANES = 3
# The precision of the next wider type; of binary64, the x87's extended one.
_WIDER = {"bfloat16": 24, "float16": 24, "float32": 53, "float64": 64}


def ties(dtype: DType, rng: Generator) -> Iterator[Rows]:
    """Exact midpoints of two results."""
    shift = 1 + _up_to(rng, 4)
    for parity, word in ((1, "up"), (0, "down")):
        rows = [_midpoint(dtype, rng, shift, 0, parity) for _ in range(_LANES)]
        yield "ties", word, _stack(rows, dtype), ""
    rows = [_subnormal_midpoint(dtype, rng, 0) for _ in range(_LANES)]
    yield "ties", "subnormal", _stack(rows, dtype), "The result is subnormal."


def near_ties(dtype: DType, rng: Generator) -> Iterator[Rows]:
    """The least bit above or below a midpoint, within reach of the next wider type."""
    reach = _WIDER[dtype.name] - PRECISION[dtype.name] - 3
    for offset, word in ((1, "above"), (-1, "below")):
        rows = [
            _midpoint(dtype, rng, 1 + _up_to(rng, reach), offset) for _ in range(_LANES)
        ]
        yield "near ties", word, _stack(rows, dtype), ""


def twice_rounded(dtype: DType, rng: Generator) -> Iterator[Rows]:
    """Beside a midpoint by so little that the next wider type rounds to it."""
    wider = _WIDER[dtype.name]
    note = f"Rounded to {wider} bits first, the sum would be a tie."
    for offset, word in ((1, "above"), (-1, "below")):
        rows = []
        for _ in range(_LANES):
            shift = wider - PRECISION[dtype.name] + 2 + _up_to(rng, 4)
            # The even neighbour is the wrong one.
            rows.append(_midpoint(dtype, rng, shift, offset, parity=offset < 0))
        yield "twice rounded", word, _stack(rows, dtype), note


def absorption(dtype: DType, rng: Generator) -> Iterator[Rows]:
    """One large square, and ones that each are less than its last place."""
    large = 2 ** ((PRECISION[dtype.name] + 1) // 2)
    rows = np.zeros((_LANES, 65), dtype)
    for row, ones in zip(rows, (64, 33, 2), strict=True):
        row[: ones + 1] = 1
        row[0] = large
    note = f"One {large}, and ones whose squares are at most half an ulp of its square."
    yield "absorption", "large_first", rows, note
    yield "absorption", "large_last", rows[:, ::-1], note


def overflow(dtype: DType, rng: Generator) -> Iterator[Rows]:
    """Sums around the least one that rounds to infinity."""
    p, emax = PRECISION[dtype.name], EMAX[dtype.name]
    least = threshold(dtype.name)
    quarter = 1 << emax - p - 1
    for word, offsets in (
        ("below", (-1, -quarter, -2 * quarter)),
        ("at", (0, 1, quarter)),
    ):
        rows = [_exactly(least + offset, 0, dtype) for offset in offsets]
        yield "overflow", word, _stack(rows, dtype), ""
    note = "One square alone overflows; no element is infinite."
    yield "overflow", "one_square", _full(2.0 ** (emax // 2 + 1), dtype, 1), note


def subnormals(dtype: DType, rng: Generator) -> Iterator[Rows]:
    """Subnormal elements and results, and squares that underflow."""
    least = least_exponent(dtype.name)
    yield (
        "subnormals",
        "squares_vanish",
        _full(2.0 ** ((least - 2) // 2), dtype, 99),
        "Each square is less than half the least positive number; their sum is not.",
    )
    both = hard_rows.subnormals(rng, dtype, 2 * _LANES, _LENGTH)
    yield "subnormals", "elements", both[::2], "The elements are subnormal."
    yield "subnormals", "results", both[1::2], "The squares are subnormal."
    half = 1 << 20 << (least - 1) % 2
    rows = [
        _exactly(total, (least - 1) // 2 - 10, dtype)
        for total in (half, half + 1, 3 * half)
    ]
    note = "Half the least positive number, just above it, and three halves of it."
    yield "subnormals", "least", _stack(rows, dtype), note


def inf_and_nan(dtype: DType, rng: Generator) -> Iterator[Rows]:
    """Infinities, NaNs and negative zeros, among normal values."""
    inf, nan = np.inf, np.nan
    for word, specials in (
        ("nan", [nan]),
        ("inf", [inf]),
        ("negative_inf", [-inf]),
        ("nan_and_inf", [inf, nan, -inf]),
    ):
        rows = hard_rows.normal_values(rng, dtype, _LANES, _LENGTH)
        for row in rows:
            row[rng.permutation(_LENGTH)[: len(specials)]] = specials
        yield "inf and nan", word, rows, ""
    yield "inf and nan", "negative_zero", _full(-0.0, dtype, 5), "The sum of zeros is +0."


def random(dtype: DType, rng: Generator) -> Iterator[Rows]:
    """Ordinary values, and extraordinary ones."""
    for family in (
        hard_rows.normal_values,
        hard_rows.wide_exponents,
        hard_rows.bits_below_two,
        hard_rows.any_bits,
    ):
        yield "random", family.__name__, family(rng, dtype, _LANES, _LENGTH), ""


def long(dtype: DType, rng: Generator) -> Iterator[Rows]:
    """Long sums, in which small errors add up."""
    yield "long", "tenths_1e5", _full(0.1, dtype, 10**5)[:1], "100,000 times 0.1."
    rows = hard_rows.normal_values(rng, dtype, _LANES, 10**4)
    yield "long", "normal_1e4", rows, "10,000 values of a normal distribution."


FLOATS = (
    ties,
    near_ties,
    twice_rounded,
    absorption,
    overflow,
    subnormals,
    inf_and_nan,
    random,
    long,
)


def _up_to(rng: Generator, most: int) -> int:
    return int(rng.integers(0, most, endpoint=True))


def _full(value: float, dtype: DType, length: int) -> Array:
    return np.full((_LANES, length), value).astype(dtype)


def _stack(rows: list[Array], dtype: DType) -> Array:
    """Rows as one array, padded with zeros."""
    result = np.zeros((len(rows), max(map(len, rows))), dtype)
    for row, values in zip(result, rows, strict=True):
        row[: len(values)] = values
    return result


def _midpoint(
    dtype: DType, rng: Generator, shift: int, offset: int, parity: int | None = None
) -> Array:
    """Squares that sum to (2m + 1) * 2^shift + offset units, for an m of p bits.

    Parameters
    ----------
    parity : int, optional
        Of m: 0 where the result below the midpoint is the even one.
    """
    p, emax = PRECISION[dtype.name], EMAX[dtype.name]
    m = int(rng.integers(2 ** (p - 1), 2**p))
    if parity is not None:
        m = m & ~1 | parity
    # The result is to be normal: (2m + 1) * 2^shift has p + 1 + shift bits.
    lowest = max(least_exponent(dtype.name), -30, (2 - emax - p - shift) // 2)
    highest = (emax - p - shift) // 2 - 1
    exponent = int(rng.integers(lowest, max(min(highest, 20), lowest + 1)))
    return _exactly(((2 * m + 1) << shift) + offset, exponent, dtype)


def _subnormal_midpoint(dtype: DType, rng: Generator, offset: int) -> Array:
    """The same, for subnormal results."""
    p, least = PRECISION[dtype.name], least_exponent(dtype.name)
    m = int(rng.integers(1, 2 ** (p - 1)))
    exponent = (least - 1) // 2 - int(rng.integers(0, 6))
    shift = least - 1 - 2 * exponent
    return _exactly(((2 * m + 1) << shift) + offset, exponent, dtype)


def _exactly(total: int, exponent: int, dtype: DType) -> Array:
    """Elements whose squares sum to total * 2^(2 * exponent)."""
    roots = hard_rows.squares_that_sum_to(total, dtype, 10 * _LENGTH)
    row = hard_rows.scaled(roots, exponent, dtype)
    assert len(row) == len(roots)
    assert sum(root * root for root in roots) == total
    return row
