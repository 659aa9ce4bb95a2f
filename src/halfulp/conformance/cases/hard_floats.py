"""Floating-point numbers whose reductions are hard to get right.

May import reductions, bits, hard_rows, hard_sums, preimages and why only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.conformance.bits import EMAX, PRECISION, Array, least_exponent
from halfulp.conformance.cases import hard_rows
from halfulp.conformance.cases.hard_sums import Elements, HardSum
from halfulp.conformance.cases.preimages import INVERSES, preimage, terms_that_sum_to
from halfulp.conformance.cases.why import threshold
from halfulp.reductions import Reduction

DType = np.dtype[Any]
Generator = np.random.Generator

# The precision of the next wider type; of binary64, the x87's extended one.
_WIDER = {"bfloat16": 24, "float16": 24, "float32": 53, "float64": 64}
# Most sums have fewer hard elements; the rest are others.
_HARD = 12
# As often are hard elements drawn, for few enough.
_DRAWS = 50


class _Results:
    """The results that are asked for: of a reduction, in a float type."""

    def __init__(self, reduction: Reduction, dtype: DType) -> None:
        self.reduction, self.dtype = reduction, dtype
        self.p, self.emax = PRECISION[dtype.name], EMAX[dtype.name]
        self.least = least_exponent(dtype.name)
        self.inverse = INVERSES[reduction.term]
        self.degree = self.inverse.degree


def hard_floats(reduction: Reduction, dtype: DType) -> Iterator[HardSum]:
    """Yield each kind of sum that is hard in a type, those of a class in a row."""
    of = _Results(reduction, dtype)
    p, least, wider = of.p, of.least, _WIDER[dtype.name]
    # Of degree 1 no term overflows alone, and none lies between two results.
    products = of.degree > 1

    yield HardSum("ties", "up", _midpoint(of, (1, 5), 0, parity=1))
    yield HardSum("ties", "down", _midpoint(of, (1, 5), 0, parity=0))
    if products:
        note = "The result is subnormal."
        yield HardSum("ties", "subnormal", _subnormal_midpoint(of), note)

    within = (1, wider - p - 1)  # of what the next wider type tells from a tie
    yield HardSum("near ties", "above", _midpoint(of, within, 1))
    yield HardSum("near ties", "below", _midpoint(of, within, -1))

    for bits in sorted({wider, 53 if p < 24 else wider}):
        note = f"Rounded to {bits} bits first, the sum would be a tie."
        word = "" if bits == wider else f"_by_{bits}_bits"
        for offset, side in ((1, "above"), (-1, "below")):
            beyond = (bits - p + 2, bits - p + 6)
            # The even neighbour is the wrong one.
            elements = _midpoint(of, beyond, offset, parity=int(offset < 0))
            yield HardSum("twice rounded", f"{side}{word}", elements, note)

    large = 2 ** ((p + 1) // of.degree)
    note = f"One {large}, and ones whose squares are at most half an ulp of its square."
    yield HardSum("absorption", "few_ones", _large_and_ones(dtype, large, 2), note)
    yield HardSum("absorption", "many_ones", _large_and_ones(dtype, large, 10**6), note)

    yield HardSum("overflow", "below", _around_threshold(of, (-1, -4, -8)))
    yield HardSum("overflow", "at", _around_threshold(of, (0, 1, 4)))
    rows = _family(hard_rows.subnormals, dtype, 2)
    if products:
        note = "One square alone overflows; no element is infinite."
        over = np.array([2.0 ** (of.emax // of.degree + 1)]).astype(dtype)
        yield HardSum("overflow", "one_square", _among_normal_values(over), note)

        note = (
            "Each square is less than half the least positive number; their sum is not."
        )
        tiny = 2.0 ** ((least - 2) // of.degree)
        all_tiny = _all(lambda rng, n: np.full(n, tiny), dtype)
        yield HardSum("subnormals", "squares_vanish", all_tiny, note)
    yield HardSum("subnormals", "elements", rows(0), "The elements are subnormal.")
    if products:
        yield HardSum("subnormals", "squares", rows(1), "The squares are subnormal.")
        half = 1 << 10 * of.degree << (least - 1) % of.degree
        note = "Half the least positive number, or three halves of it."
        yield HardSum("subnormals", "half", _sums(of, (half, 3 * half)), note)
        note = "Just above half the least positive number."
        yield HardSum("subnormals", "above_half", _sums(of, (half + 1,)), note)
    note = "Without those of its elements that are subnormal, the sum would be a tie."
    yield HardSum("subnormals", "above_tie", _tie_and_subnormal(of), note)

    inf, nan = np.inf, np.nan
    for word, specials in (
        ("nan", [nan]),
        ("inf", [inf]),
        ("negative_inf", [-inf]),
        ("nan_and_inf", [inf, nan, -inf]),
    ):
        elements = _among_normal_values(np.array(specials).astype(dtype))
        yield HardSum("inf and nan", word, elements)
    zeros = _all(lambda rng, n: np.full(n, -0.0), dtype)
    yield HardSum("inf and nan", "negative_zero", zeros, "The sum of zeros is +0.")

    for family in (
        hard_rows.normal_values,
        hard_rows.wide_exponents,
        hard_rows.bits_below_two,
        hard_rows.any_bits,
    ):
        yield HardSum("random", family.__name__, _family(family, dtype)(0))

    note = "10,000 values of a normal distribution."
    normal = _family(hard_rows.normal_values, dtype)(0)
    yield HardSum("long", "normal", normal, note, 10**4)


def _all(make: Callable[[Generator, int], Any], dtype: DType) -> Elements:
    """Elements that are all hard."""

    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        return make(rng, length).astype(dtype), np.zeros(0, dtype)

    return elements


def _family(
    family: hard_rows.Family, dtype: DType, rows: int = 1
) -> Callable[[int], Elements]:
    """Elements of a family; which of its rows is asked for."""

    def of_row(row: int) -> Elements:
        return _all(lambda rng, n: family(rng, dtype, rows, n)[row], dtype)

    return of_row


def _among_normal_values(hard: Array) -> Elements:
    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        count = max(length - len(hard), 0)
        return hard, hard_rows.normal_values(rng, hard.dtype, 1, count)[0]

    return elements


def _large_and_ones(dtype: DType, large: int, most: int) -> Elements:
    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        ones = np.zeros(length - 1, dtype)
        ones[rng.permutation(length - 1)[:most]] = 1
        return np.array([large]).astype(dtype), ones

    return elements


def _midpoint(
    of: _Results, shifts: tuple[int, int], offset: int, parity: int | None = None
) -> Elements:
    """Elements whose result is (2m + 1) * 2^shift + offset units, for an m of p bits.

    Parameters
    ----------
    shifts : pair of int
        The least shift, and one above the greatest.
    parity : int, optional
        Of m: 0 where the result below the midpoint is the even one.
    """
    p, emax, degree = of.p, of.emax, of.degree

    def draw(rng: Generator) -> tuple[int, int]:
        shift = int(rng.integers(*shifts))
        m = int(rng.integers(2 ** (p - 1), 2**p))
        if parity is not None:
            m = m & ~1 | parity
        # The result is to be normal: (2m + 1) * 2^shift has p + 1 + shift bits.
        lowest = max(of.least, -30, (2 - emax - p - shift) // degree)
        highest = (emax - p - shift) // degree - 1
        exponent = int(rng.integers(lowest, max(min(highest, 20), lowest + 1)))
        return ((2 * m + 1) << shift) + offset, exponent

    return _exactly(of, draw)


def _subnormal_midpoint(of: _Results) -> Elements:
    """The midpoint of two subnormal results."""

    def draw(rng: Generator) -> tuple[int, int]:
        m = int(rng.integers(1, 2 ** (of.p - 1)))
        exponent = (of.least - 1) // of.degree - int(rng.integers(0, 6))
        return (2 * m + 1) << (of.least - 1 - of.degree * exponent), exponent

    return _exactly(of, draw)


def _tie_and_subnormal(of: _Results) -> Elements:
    """A tie that goes to the number below it, and a subnormal element."""
    tie = _midpoint(of, (1, 5), 0, parity=0)
    least = 2.0**of.least

    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        hard, others = tie(rng, length - 1)
        subnormal = least * int(rng.integers(1, 2 ** (of.p - 1)))
        return np.append(hard, np.array([subnormal]).astype(of.dtype)), others

    return elements


def _around_threshold(of: _Results, offsets: tuple[int, ...]) -> Elements:
    """Results around the least one that rounds to infinity.

    Parameters
    ----------
    offsets : tuple of int
        In ulps / 16; of 1 and -1, the least that terms can make easily.
    """
    exponent = (of.emax - 2 * of.p) // of.degree
    unit = Fraction(2) ** (of.degree * exponent)
    least = int(threshold(of.dtype.name) / unit)
    sixteenth = 1 << of.emax - of.p - 3 - of.degree * exponent

    def draw(rng: Generator) -> tuple[int, int]:
        offset = int(rng.choice(offsets))
        return least + (offset if abs(offset) == 1 else offset * sixteenth), exponent

    return _exactly(of, draw)


def _sums(of: _Results, results: tuple[int, ...]) -> Elements:
    """One of some results, in units of about 2^-21 of the least positive number."""
    exponent = (of.least - 1) // of.degree - 10
    return _exactly(of, lambda rng: (int(rng.choice(results)), exponent))


def _exactly(of: _Results, draw: Callable[[Generator], tuple[int, int]]) -> Elements:
    """Elements whose result is n * 2^(degree * exponent), for n and exponent drawn.

    The others are zeros, or take up to half of the sum where there is room.
    """

    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        count = max(length - _HARD, 0)
        found: Array | None = None
        for _ in range(_DRAWS):
            result, exponent = draw(rng)
            total = preimage(of.reduction.finish, result)
            small = np.zeros(count, np.int64)
            if count and rng.integers(2):
                small = _small_numbers(of, rng, total, exponent, count)
            rest = total - sum(map(of.inverse.of, small.tolist()))
            hard = _hard_elements(of, rest, exponent)
            if found is None or len(hard) < len(found):
                found = hard
                others = hard_rows.scaled(small.tolist(), exponent, of.dtype)
            if len(found) + count <= length:
                break
        assert found is not None
        padding = np.zeros(max(length - count - len(found), 0), of.dtype)
        return found, np.concatenate([others, padding])

    return elements


def _small_numbers(
    of: _Results, rng: Generator, total: int, exponent: int, count: int
) -> Array:
    """Natural numbers whose terms sum to at most half of a total."""
    grain = 2 ** max(of.least - exponent, 0)
    most = min(of.inverse.largest(total // (2 * count)), 2**of.p - 1)
    numbers: Array = rng.integers(0, most // grain, count, endpoint=True) * grain
    return numbers


def _hard_elements(of: _Results, total: int, exponent: int) -> Array:
    numbers = terms_that_sum_to(of.reduction.term, total, of.dtype.name)
    elements = hard_rows.scaled(numbers, exponent, of.dtype)
    assert len(elements) == len(numbers)
    assert sum(map(of.inverse.of, numbers)) == total
    return elements
