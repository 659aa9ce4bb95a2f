"""Floating-point numbers whose sums of squares are hard to get right.

May import bits, drafts, hard_rows and why only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.conformance.bits import EMAX, PRECISION, Array, least_exponent
from halfulp.conformance.cases import hard_rows
from halfulp.conformance.cases.drafts import Hard, Terms
from halfulp.conformance.cases.why import threshold

DType = np.dtype[Any]
Generator = np.random.Generator

# The precision of the next wider type; of binary64, the x87's extended one.
_WIDER = {"bfloat16": 24, "float16": 24, "float32": 53, "float64": 64}
# Most sums have fewer hard terms; the rest are others.
_HARD = 12
# As often are hard terms drawn, for few enough.
_DRAWS = 50


def hard_floats(dtype: DType) -> Iterator[Hard]:
    """Yield each kind of sum that is hard in a type, those of a class in a row."""
    name = dtype.name
    p, least, wider = PRECISION[name], least_exponent(name), _WIDER[name]

    yield Hard("ties", "up", _midpoint(dtype, (1, 5), 0, parity=1))
    yield Hard("ties", "down", _midpoint(dtype, (1, 5), 0, parity=0))
    note = "The result is subnormal."
    yield Hard("ties", "subnormal", _subnormal_midpoint(dtype), note)

    within = (1, wider - p - 1)  # of what the next wider type tells from a tie
    yield Hard("near ties", "above", _midpoint(dtype, within, 1))
    yield Hard("near ties", "below", _midpoint(dtype, within, -1))

    for bits in sorted({wider, 53 if p < 24 else wider}):
        note = f"Rounded to {bits} bits first, the sum would be a tie."
        word = "" if bits == wider else f"_by_{bits}_bits"
        for offset, side in ((1, "above"), (-1, "below")):
            beyond = (bits - p + 2, bits - p + 6)
            # The even neighbour is the wrong one.
            terms = _midpoint(dtype, beyond, offset, parity=int(offset < 0))
            yield Hard("twice rounded", f"{side}{word}", terms, note)

    large = 2 ** ((p + 1) // 2)
    note = f"One {large}, and ones whose squares are at most half an ulp of its square."
    yield Hard("absorption", "few_ones", _large_and_ones(dtype, large, 2), note)
    yield Hard("absorption", "many_ones", _large_and_ones(dtype, large, 10**6), note)

    yield Hard("overflow", "below", _around_threshold(dtype, (-1, -4, -8)))
    yield Hard("overflow", "at", _around_threshold(dtype, (0, 1, 4)))
    note = "One square alone overflows; no element is infinite."
    over = np.array([2.0 ** (EMAX[name] // 2 + 1)]).astype(dtype)
    yield Hard("overflow", "one_square", _among_normal_values(over), note)

    note = "Each square is less than half the least positive number; their sum is not."
    tiny = 2.0 ** ((least - 2) // 2)
    yield Hard(
        "subnormals", "squares_vanish", _all(lambda rng, n: np.full(n, tiny), dtype), note
    )
    rows = _family(hard_rows.subnormals, dtype, 2)
    yield Hard("subnormals", "elements", rows(0), "The elements are subnormal.")
    yield Hard("subnormals", "squares", rows(1), "The squares are subnormal.")
    half = 1 << 20 << (least - 1) % 2
    note = "Half the least positive number, or three halves of it."
    yield Hard("subnormals", "half", _sums(dtype, (half, 3 * half)), note)
    note = "Just above half the least positive number."
    yield Hard("subnormals", "above_half", _sums(dtype, (half + 1,)), note)
    note = "Without those of its elements that are subnormal, the sum would be a tie."
    yield Hard("subnormals", "above_tie", _tie_and_subnormal(dtype), note)

    inf, nan = np.inf, np.nan
    for word, specials in (
        ("nan", [nan]),
        ("inf", [inf]),
        ("negative_inf", [-inf]),
        ("nan_and_inf", [inf, nan, -inf]),
    ):
        terms = _among_normal_values(np.array(specials).astype(dtype))
        yield Hard("inf and nan", word, terms)
    zeros = _all(lambda rng, n: np.full(n, -0.0), dtype)
    yield Hard("inf and nan", "negative_zero", zeros, "The sum of zeros is +0.")

    for family in (
        hard_rows.normal_values,
        hard_rows.wide_exponents,
        hard_rows.bits_below_two,
        hard_rows.any_bits,
    ):
        yield Hard("random", family.__name__, _family(family, dtype)(0))

    note = "10,000 values of a normal distribution."
    normal = _family(hard_rows.normal_values, dtype)(0)
    yield Hard("long", "normal", normal, note, 10**4)


def _all(make: Callable[[Generator, int], Any], dtype: DType) -> Terms:
    """Terms that are all hard."""

    def terms(rng: Generator, length: int) -> tuple[Array, Array]:
        return make(rng, length).astype(dtype), np.zeros(0, dtype)

    return terms


def _family(
    family: hard_rows.Family, dtype: DType, rows: int = 1
) -> Callable[[int], Terms]:
    """Terms of a family; which of its rows is asked for."""

    def of_row(row: int) -> Terms:
        return _all(lambda rng, n: family(rng, dtype, rows, n)[row], dtype)

    return of_row


def _among_normal_values(hard: Array) -> Terms:
    def terms(rng: Generator, length: int) -> tuple[Array, Array]:
        count = max(length - len(hard), 0)
        return hard, hard_rows.normal_values(rng, hard.dtype, 1, count)[0]

    return terms


def _large_and_ones(dtype: DType, large: int, most: int) -> Terms:
    def terms(rng: Generator, length: int) -> tuple[Array, Array]:
        ones = np.zeros(length - 1, dtype)
        ones[rng.permutation(length - 1)[:most]] = 1
        return np.array([large]).astype(dtype), ones

    return terms


def _midpoint(
    dtype: DType, shifts: tuple[int, int], offset: int, parity: int | None = None
) -> Terms:
    """Squares that sum to (2m + 1) * 2^shift + offset units, for an m of p bits.

    Parameters
    ----------
    shifts : pair of int
        The least shift, and one above the greatest.
    parity : int, optional
        Of m: 0 where the result below the midpoint is the even one.
    """
    p, emax = PRECISION[dtype.name], EMAX[dtype.name]

    def draw(rng: Generator) -> tuple[int, int]:
        shift = int(rng.integers(*shifts))
        m = int(rng.integers(2 ** (p - 1), 2**p))
        if parity is not None:
            m = m & ~1 | parity
        # The result is to be normal: (2m + 1) * 2^shift has p + 1 + shift bits.
        lowest = max(least_exponent(dtype.name), -30, (2 - emax - p - shift) // 2)
        highest = (emax - p - shift) // 2 - 1
        exponent = int(rng.integers(lowest, max(min(highest, 20), lowest + 1)))
        return ((2 * m + 1) << shift) + offset, exponent

    return _exactly(dtype, draw)


def _subnormal_midpoint(dtype: DType) -> Terms:
    """The midpoint of two subnormal results."""
    p, least = PRECISION[dtype.name], least_exponent(dtype.name)

    def draw(rng: Generator) -> tuple[int, int]:
        m = int(rng.integers(1, 2 ** (p - 1)))
        exponent = (least - 1) // 2 - int(rng.integers(0, 6))
        return (2 * m + 1) << (least - 1 - 2 * exponent), exponent

    return _exactly(dtype, draw)


def _tie_and_subnormal(dtype: DType) -> Terms:
    """A tie that goes to the number below it, and a subnormal element."""
    tie = _midpoint(dtype, (1, 5), 0, parity=0)
    least = 2.0 ** least_exponent(dtype.name)

    def terms(rng: Generator, length: int) -> tuple[Array, Array]:
        hard, others = tie(rng, length - 1)
        subnormal = least * int(rng.integers(1, 2 ** (PRECISION[dtype.name] - 1)))
        return np.append(hard, np.array([subnormal]).astype(dtype)), others

    return terms


def _around_threshold(dtype: DType, offsets: tuple[int, ...]) -> Terms:
    """Sums around the least one that rounds to infinity.

    Parameters
    ----------
    offsets : tuple of int
        In ulps / 16; of 1 and -1, the least that squares can make easily.
    """
    p, emax = PRECISION[dtype.name], EMAX[dtype.name]
    exponent = (emax - 2 * p) // 2
    least = int(threshold(dtype.name) / Fraction(4) ** exponent)
    sixteenth = 1 << emax - p - 3 - 2 * exponent

    def draw(rng: Generator) -> tuple[int, int]:
        offset = int(rng.choice(offsets))
        return least + (offset if abs(offset) == 1 else offset * sixteenth), exponent

    return _exactly(dtype, draw)


def _sums(dtype: DType, totals: tuple[int, ...]) -> Terms:
    """One of some totals, in units of about 2^-21 of the least positive number."""
    exponent = (least_exponent(dtype.name) - 1) // 2 - 10
    return _exactly(dtype, lambda rng: (int(rng.choice(totals)), exponent))


def _exactly(dtype: DType, draw: Callable[[Generator], tuple[int, int]]) -> Terms:
    """Terms whose squares sum to total * 2^(2 * exponent), as they are drawn.

    The others are zeros, or take up to half of the total where there is room.
    """

    def terms(rng: Generator, length: int) -> tuple[Array, Array]:
        count = max(length - _HARD, 0)
        found: Array | None = None
        for _ in range(_DRAWS):
            total, exponent = draw(rng)
            roots = np.zeros(count, np.int64)
            if count and rng.integers(2):
                roots = _small_roots(rng, total, exponent, count, dtype)
            rest = total - sum(root * root for root in roots.tolist())
            hard = _hard_terms(rest, exponent, dtype)
            if found is None or len(hard) < len(found):
                found, others = hard, hard_rows.scaled(roots.tolist(), exponent, dtype)
            if len(found) + count <= length:
                break
        assert found is not None
        padding = np.zeros(max(length - count - len(found), 0), dtype)
        return found, np.concatenate([others, padding])

    return terms


def _small_roots(
    rng: Generator, total: int, exponent: int, count: int, dtype: DType
) -> Array:
    """Integers whose squares sum to at most half of a total."""
    grain = 2 ** max(least_exponent(dtype.name) - exponent, 0)
    most = min(math.isqrt(total // (2 * count)), 2 ** PRECISION[dtype.name] - 1)
    roots: Array = rng.integers(0, most // grain, count, endpoint=True) * grain
    return roots


def _hard_terms(total: int, exponent: int, dtype: DType) -> Array:
    roots = hard_rows.squares_that_sum_to(total, dtype, 100)
    terms = hard_rows.scaled(roots, exponent, dtype)
    assert len(terms) == len(roots)
    assert sum(root * root for root in roots) == total
    return terms
