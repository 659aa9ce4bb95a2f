"""Floating-point numbers whose reductions are hard to get right.

May import reductions, bits, hard_elements, hard_rows, hard_sums, preimages and why only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.conformance.bits import (
    EMAX,
    PRECISION,
    Array,
    bits,
    from_bits,
    least_exponent,
)
from halfulp.conformance.cases import hard_rows
from halfulp.conformance.cases.hard_elements import (
    BOTH_INFINITIES,
    SPECIALS,
    all_hard,
    among_normal_values,
    large_and_ones,
    of_family,
    random,
    specials,
)
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
# Hard elements that make any result of a mean, whatever is drawn.
_ENOUGH = 24
# Sums that are made to a result are of no more elements.
_MOST_TERMS = 1024
# As often are hard elements drawn, for few enough.
_DRAWS = 50


class _Results:
    """The results that are asked for: of a reduction, in a float type.

    Of elements in units of u, terms are in units of u to the power of `term_degree`, and
    results in units of u to the power of `degree`.
    """

    def __init__(self, reduction: Reduction, dtype: DType) -> None:
        self.reduction, self.dtype = reduction, dtype
        self.p, self.emax = PRECISION[dtype.name], EMAX[dtype.name]
        self.least = least_exponent(dtype.name)
        self.inverse = INVERSES[reduction.term]
        self.term_degree = self.inverse.degree
        self.degree = self.term_degree // (2 if reduction.finish == "root" else 1)
        self.is_signed = self.inverse.of(-1) < 0
        self.is_mean = reduction.finish == "mean"
        # Of the sum of a mean more bits are above those of the result.
        self.room = _MOST_TERMS.bit_length() if self.is_mean else 0
        # Sums of p + 1 + shift bits, in units of the least term, do not overflow.
        self.most_shift = self.emax - self.degree * self.least - self.p - 2 - self.room
        self.largest = from_bits(bits(np.array(np.inf, dtype)) - 1, dtype)[()]

    def length(self, asked: int) -> int:
        """Return how many elements there are, of means always enough for all kinds."""
        return max(asked, _ENOUGH) if self.is_mean else asked


def hard_floats(reduction: Reduction, dtype: DType) -> Iterator[HardSum]:
    """Yield each kind of sum that is hard in a type, those of a class in a row."""
    of = _Results(reduction, dtype)
    p, least, wider = of.p, of.least, _WIDER[dtype.name]
    term, terms = reduction.term, f"{reduction.term}s"
    # Of degree 1 no term overflows alone, and no result lies between two others.
    products, between = of.term_degree > 1, of.degree > 1

    yield HardSum("ties", "up", _midpoint(of, (1, 5), 0, parity=1))
    yield HardSum("ties", "down", _midpoint(of, (1, 5), 0, parity=0))
    if between:
        note = "The result is subnormal."
        yield HardSum("ties", "subnormal", _subnormal_midpoint(of), note)

    within = (1, wider - p - 1)  # of what the next wider type tells from a tie
    yield HardSum("near ties", "above", _midpoint(of, within, 1))
    yield HardSum("near ties", "below", _midpoint(of, within, -1))
    if reduction.finish != "none":
        for beside, side in ((1, "above"), (-1, "below")):
            note = f"The sum is one unit {side} one whose {reduction.finish} is a tie."
            elements = _midpoint(of, (1, 5), 0, parity=int(beside < 0), beside=beside)
            yield HardSum("near ties", f"sum_{side}", elements, note)

    for places in sorted({wider, 53 if p < 24 else wider}):
        note = f"Rounded to {places} bits first, the sum would be a tie."
        word = "" if places == wider else f"_by_{places}_bits"
        for offset, side in ((1, "above"), (-1, "below")):
            beyond = (places - p + 2, places - p + 6)
            if beyond[1] > of.most_shift:
                continue
            # The even neighbour is the wrong one.
            elements = _midpoint(of, beyond, offset, parity=int(offset < 0))
            yield HardSum("twice rounded", f"{side}{word}", elements, note)

    large = 2 ** ((p + 1) // of.term_degree)
    note = f"One {large}, and ones whose {terms} are at most half an ulp of its {term}."
    yield HardSum("absorption", "few_ones", large_and_ones(dtype, large, 2), note)
    yield HardSum("absorption", "many_ones", large_and_ones(dtype, large, 10**6), note)

    if not of.is_mean:  # which is no larger than the largest element
        yield HardSum("overflow", "below", _around_threshold(of, (-1, -4, -8)))
        yield HardSum("overflow", "at", _around_threshold(of, (0, 1, 4)))
    rows = of_family(hard_rows.subnormals, dtype, 2)
    if products:
        note = "One square alone overflows; no element is infinite."
        over = np.array([2.0 ** (of.emax // of.term_degree + 1)]).astype(dtype)
        yield HardSum("overflow", "one_square", among_normal_values(over), note)

        note = (
            "Each square is less than half the least positive number; their sum is not."
        )
        tiny = 2.0 ** ((least - 2) // of.term_degree)
        all_tiny = all_hard(lambda rng, n: np.full(n, tiny), dtype)
        yield HardSum("subnormals", "squares_vanish", all_tiny, note)
    yield HardSum("subnormals", "elements", rows(0), "The elements are subnormal.")
    if products:
        yield HardSum("subnormals", "squares", rows(1), "The squares are subnormal.")
    if between:
        half = 1 << 10 * of.degree << (least - 1) % of.degree
        note = "Half the least positive number, or three halves of it."
        yield HardSum("subnormals", "half", _sums(of, (half, 3 * half)), note)
        note = "Just above half the least positive number."
        yield HardSum("subnormals", "above_half", _sums(of, (half + 1,)), note)
    note = "Without those of its elements that are subnormal, the sum would be a tie."
    yield HardSum("subnormals", "above_tie", _tie_and_subnormal(of), note)
    yield from _signed(of)

    yield from specials(SPECIALS | (BOTH_INFINITIES if of.is_signed else {}), dtype)
    zeros = all_hard(lambda rng, n: np.full(n, -0.0), dtype)
    yield HardSum("inf and nan", "negative_zero", zeros, "The sum of zeros is +0.")

    yield from random(dtype)

    note = "10,000 values of a normal distribution."
    normal = of_family(hard_rows.normal_values, dtype)(0)
    yield HardSum("long", "normal", normal, note, 10**4)


def _signed(of: _Results) -> Iterator[HardSum]:
    """Yield what only terms with signs have: they cancel, and overflow on the way."""
    if not of.is_signed:
        return
    dtype, largest = of.dtype, float(of.largest)
    least = 2.0**of.least

    def pairs(rng: Generator, count: int) -> Array:
        half = hard_rows.normal_values(rng, dtype, 1, count // 2)[0]
        values = np.concatenate([half, -half, np.zeros(count % 2, dtype)])
        return rng.permutation(values)

    def among(hard: list[float]) -> Elements:
        """Some values anywhere among pairs that cancel."""

        def elements(rng: Generator, length: int) -> tuple[Array, Array]:
            values = np.array(hard).astype(dtype) * dtype.type(rng.choice([-1, 1]))
            others = pairs(rng, max(length - len(hard), 0))
            return rng.permutation(np.append(values, others)), np.zeros(0, dtype)

        return elements

    def tie(rng: Generator, length: int) -> tuple[Array, Array]:
        values = np.append(*_midpoint(of, (1, 5), 0)(rng, length))
        spare = np.flatnonzero(values == 0)
        values[spare] = pairs(rng, len(spare))
        return rng.permutation(values), np.zeros(0, dtype)

    def huge(rng: Generator, length: int) -> tuple[Array, Array]:
        values = hard_rows.normal_values(rng, dtype, 1, length)[0]
        first, second = rng.choice(length, 2, replace=False)
        values[first], values[second] = largest, -largest
        return values, np.zeros(0, dtype)

    def both_ways(rng: Generator, length: int) -> tuple[Array, Array]:
        third = length // 3
        values = hard_rows.normal_values(rng, dtype, 1, length)[0]
        values[:third], values[third : 2 * third] = largest, -largest
        return rng.permutation(values), np.zeros(0, dtype)

    def beyond(rng: Generator, length: int) -> tuple[Array, Array]:
        values = np.full(length, largest).astype(dtype)
        values[: length // 4] = -largest
        sign = dtype.type(rng.choice([-1, 1]))
        return rng.permutation(values) * sign, np.zeros(0, dtype)

    note = "All terms cancel: the sum is +0."
    yield HardSum("cancellation", "to_zero", among([]), note)
    note = "All terms cancel but the least positive number, or its negative."
    yield HardSum("cancellation", "to_least", among([least]), note)
    note = "Pairs cancel; what is left is a tie."
    yield HardSum("cancellation", "to_tie", tie, note)
    note = "The largest number and its negative stand anywhere among small ones."
    yield HardSum("cancellation", "huge_pair", huge, note)
    note = "Partial sums overflow both ways; the sum does not."
    yield HardSum("partial overflow", "both_ways", both_ways, note)
    note = "The sum overflows; a mean does not."
    yield HardSum("partial overflow", "beyond", beyond, note)
    zeros = all_hard(lambda rng, n: rng.choice([0.0, -0.0], n), dtype)
    note = "A sum that is exactly zero is +0."
    yield HardSum("signed zero", "of_zeros", zeros, note)
    if of.is_mean:
        note = "The mean is not 0, and rounds to 0 with its sign."
        for word, value in (("below", -least), ("above", least)):
            yield HardSum("signed zero", word, _one_among_zeros(value, dtype), note)


def _one_among_zeros(value: float, dtype: DType) -> Elements:
    return all_hard(lambda rng, n: rng.permutation([value] + [0.0] * (n - 1)), dtype)


def _midpoint(
    of: _Results,
    shifts: tuple[int, int],
    offset: int,
    parity: int | None = None,
    beside: int = 0,
    more: int = 0,
) -> Elements:
    """Elements whose result is (2m + 1) * 2^shift + offset units, for an m of p bits.

    Parameters
    ----------
    shifts : pair of int
        The least shift, and one above the greatest.
    parity : int, optional
        Of m: 0 where the result below the midpoint is the even one.
    beside, more : int, optional
        As for `_exactly`.
    """
    p, emax, degree = of.p, of.emax, of.degree

    def draw(rng: Generator) -> tuple[int, int]:
        shift = int(rng.integers(*shifts))
        m = int(rng.integers(2 ** (p - 1), 2**p))
        if parity is not None:
            m = m & ~1 | parity
        # The result is to be normal: (2m + 1) * 2^shift has p + 1 + shift bits.
        lowest = max(of.least, -30, (2 - emax - p - shift) // degree)
        highest = (emax - p - shift - of.room) // degree - 1
        exponent = int(rng.integers(lowest, max(min(highest, 20), lowest + 1)))
        return ((2 * m + 1) << shift) + offset, exponent

    return _exactly(of, draw, beside, more)


def _subnormal_midpoint(of: _Results) -> Elements:
    """The midpoint of two subnormal results."""

    def draw(rng: Generator) -> tuple[int, int]:
        m = int(rng.integers(1, 2 ** (of.p - 1)))
        exponent = (of.least - 1) // of.degree - int(rng.integers(0, 6))
        return (2 * m + 1) << (of.least - 1 - of.degree * exponent), exponent

    return _exactly(of, draw)


def _tie_and_subnormal(of: _Results) -> Elements:
    """A tie that goes to the number below it, and a subnormal element."""
    tie = _midpoint(of, (1, 5), 0, parity=0, more=1)
    least = 2.0**of.least

    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        hard, others = tie(rng, of.length(length) - 1)
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


def _exactly(
    of: _Results,
    draw: Callable[[Generator], tuple[int, int]],
    beside: int = 0,
    more: int = 0,
) -> Elements:
    """Elements whose result is n * 2^(degree * exponent), for n and exponent drawn.

    The others are zeros, or take up to half of the sum where there is room. Where terms
    have signs, all elements may be negative.

    Parameters
    ----------
    beside : int, optional
        What is added to the sum, in units of it.
    more : int, optional
        So many elements more will be there.
    """

    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        length = of.length(length + more) - more
        count = max(length - _HARD, 0)
        found: Array | None = None
        for _ in range(_DRAWS):
            result, exponent = draw(rng)
            total = preimage(of.reduction.finish, result, length + more) + beside
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
        assert not of.is_mean or len(found) + count <= length
        padding = np.zeros(max(length - count - len(found), 0), of.dtype)
        if of.is_signed and rng.integers(2):
            found, others = -found, -others
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
