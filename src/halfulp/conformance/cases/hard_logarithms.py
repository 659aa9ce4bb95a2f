"""Elements whose sums, or sums of exponentials, have logarithms that are hard to round.

No such logarithm is a tie, but that of 1 and of one exponential alone. May import exact,
bits, hard_elements, hard_rows, hard_sums, preimages and reductions only.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterator
from decimal import Decimal
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
    among,
    fixed,
    full,
    large_and_ones,
    of_family,
    random,
    specials,
)
from halfulp.conformance.cases.hard_sums import Elements, HardSum
from halfulp.conformance.cases.preimages import terms_that_sum_to
from halfulp.exact import round_exact
from halfulp.reductions import Reduction

DType = np.dtype[Any]
Generator = np.random.Generator

# More decimal digits than three significands of binary64 and the exponents looked at.
_DIGITS = decimal.Context(prec=150, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def hard_logarithms(reduction: Reduction, dtype: DType) -> Iterator[HardSum]:
    """Yield each kind of sum or log-sum-exp, those of a class in a row."""
    is_integer = dtype.kind in "iu"
    if reduction.operation == "sum":
        yield from _integer_sums(dtype) if is_integer else _sums(dtype)
    else:
        yield from _integer_powers(dtype) if is_integer else _powers(dtype)


def _sums(dtype: DType) -> Iterator[HardSum]:
    """Yield sums of floats."""
    p, emax, least = PRECISION[dtype.name], EMAX[dtype.name], least_exponent(dtype.name)
    largest = float(from_bits(bits(np.array(np.inf, dtype)) - 1, dtype)[()])

    def normal(rng: Generator, count: int) -> Array:
        result: Array = hard_rows.normal_values(rng, dtype, 1, count)[0].astype(float)
        return result

    def positive(rng: Generator, count: int) -> Array:
        values: Array = abs(normal(rng, count))
        return values

    def pairs(rng: Generator, count: int) -> Array:
        half = normal(rng, count // 2)
        values = np.concatenate([half, -half, np.zeros(count % 2)])
        return rng.permutation(values)

    def near_tie(side: int) -> Elements:
        def hard(rng: Generator) -> Array:
            size = rng.uniform(max(least + 3 * p, -40), min(emax - 1, 40))
            middle = _midpoint(size * math.log(2), dtype)
            with decimal.localcontext(_DIGITS):
                total = _decimal(middle).exp()
                exponent = math.floor(math.log2(float(total))) - 3 * p + 1
                units = int(total / _decimal(Fraction(2) ** exponent))
            numbers = terms_that_sum_to("value", units + (side > 0), dtype.name)
            return hard_rows.scaled(numbers, exponent, dtype)

        return among(hard, pairs, dtype)

    for side, word in ((1, "above"), (-1, "below")):
        note = f"The sum is just {word} one whose logarithm would be a tie."
        yield HardSum("near ties", word, near_tie(side), note)

    large = 2 ** (p + 1)
    if large <= largest:
        note = f"One {large}, and ones that are at most half an ulp of it."
        few, many = large_and_ones(dtype, large, 2), large_and_ones(dtype, large, 10**6)
        yield HardSum("absorption", "few_ones", few, note)
        yield HardSum("absorption", "many_ones", many, note)

    def shuffled(hard: list[float]) -> Elements:
        def values(rng: Generator, n: int) -> Array:
            return rng.permutation([*hard, *pairs(rng, max(n - len(hard), 0))])

        return all_hard(values, dtype)

    tiny = 2.0**least
    for word, values, note in (
        ("to_zero", [], "All terms cancel, and the logarithm of 0 is -inf."),
        ("to_one", [1.0], "All terms cancel but 1, whose logarithm is 0."),
        ("above_one", [1.0, tiny], "The sum is 1 and the least positive number."),
        ("below_one", [1.0, -tiny], "The sum is 1 less the least positive number."),
        ("to_least", [tiny], "All terms cancel but the least positive number."),
        ("to_negative", [-tiny], "The sum is less than 0, where no logarithm is."),
        ("huge_pair", [largest, 3.0, -largest], "A huge pair cancels, and 3 is left."),
    ):
        yield HardSum("cancellation", word, shuffled(values), note)

    def both_ways(rng: Generator, n: int) -> Array:
        third = n // 3
        values = positive(rng, n)
        values[:third], values[third : 2 * third] = largest, -largest
        return rng.permutation(values)

    note = "Partial sums overflow both ways; the sum does not."
    yield HardSum("partial overflow", "both_ways", all_hard(both_ways, dtype), note)
    beyond = all_hard(full(largest), dtype)
    note = "The sum overflows; its logarithm does not."
    yield HardSum("partial overflow", "beyond", beyond, note)

    def subnormal(rng: Generator, n: int) -> Array:
        rows = hard_rows.subnormals(rng, dtype, 2, n, term="value")
        values: Array = abs(rows[0].astype(float))
        return values

    note = "The elements are subnormal."
    yield HardSum("subnormals", "elements", all_hard(subnormal, dtype), note)

    yield from specials(SPECIALS | BOTH_INFINITIES, dtype)
    zeros = all_hard(lambda rng, n: rng.choice([0.0, -0.0], n), dtype)
    yield HardSum("inf and nan", "zeros", zeros, "The logarithm of 0 is -inf.")

    yield HardSum("random", "positive_values", all_hard(positive, dtype))
    families = hard_rows.normal_values, hard_rows.wide_exponents, hard_rows.any_bits
    yield from random(dtype, families)
    note = "10,000 positive values of a normal distribution."
    yield HardSum("long", "positive", all_hard(positive, dtype), note, 10**4)


def _powers(dtype: DType) -> Iterator[HardSum]:
    """Yield exponents that are floats."""
    p, emax = PRECISION[dtype.name], EMAX[dtype.name]
    largest = float(from_bits(bits(np.array(np.inf, dtype)) - 1, dtype)[()])
    # Beyond that no exponential is in the range of the type.
    out = 2.0 ** min(emax.bit_length() + 2, emax - 3)

    def normal(rng: Generator, count: int) -> Array:
        result: Array = hard_rows.normal_values(rng, dtype, 1, count)[0].astype(float)
        return result

    def vanishing(rng: Generator, count: int) -> Array:
        values = np.full(count, -np.inf)
        if rng.integers(2):
            values[::2] = -8192.0 - 64.0 * rng.integers(0, 32, len(values[::2]))
        return values

    def near_tie(side: int) -> Elements:
        def hard(rng: Generator) -> Array:
            middle = _midpoint(float(normal(rng, 1)[0]) * 8, dtype)
            values = []
            with decimal.localcontext(_DIGITS):
                left = _decimal(middle).exp()
                for last in (False, False, True):
                    wanted = Fraction(left.ln())
                    values.append(_below(wanted, dtype, above=last and side > 0))
                    left -= _decimal(Fraction(values[-1])).exp()
                assert (left > 0) == (side < 0)
            return rng.permutation(values)

        return among(hard, vanishing, dtype)

    for side, word in ((1, "above"), (-1, "below")):
        note = f"Three exponentials give a sum just {word} one whose logarithm is a tie."
        yield HardSum("near ties", word, near_tie(side), note)

    def small(rng: Generator, count: int) -> Array:
        return -rng.uniform(0.7 * p, 3 * p, count)

    note = "One element is 0, and the others are far below it."
    beside = among(fixed([0.0]), small, dtype)
    yield HardSum("absorption", "beside_zero", beside, note)
    note = "One element, and others far below it."
    beside = among(lambda rng: 16 * normal(rng, 1) + 64, small, dtype)
    yield HardSum("absorption", "beside_one", beside, note)

    def near_zero(rng: Generator, n: int) -> Array:
        weights = rng.uniform(0.5, 1, n)
        values: Array = np.log(weights / weights.sum())
        return values

    note = "The exponentials sum to about 1, whose logarithm is 0."
    yield HardSum("cancellation", "near_zero", all_hard(near_zero, dtype), note)

    for word, sign in (("large", 1), ("far_below", -1)):
        what = "overflows" if sign > 0 else "vanishes"
        note = f"Each exponential {what}; the result does not."

        def around(rng: Generator, n: int, middle: float = sign * out) -> Array:
            return middle + normal(rng, n) * 4

        yield HardSum("partial overflow", word, all_hard(around, dtype), note)
    note = "Elements at both ends of the range."
    wide = among(
        lambda rng: rng.permutation([largest / 2, -largest / 2]),
        lambda rng, count: rng.choice([1.0, -1.0], count) * largest / 4,
        dtype,
    )
    yield HardSum("partial overflow", "wide_range", wide, note)
    same = all_hard(full(largest), dtype)
    yield HardSum("overflow", "largest", same, "All elements are the largest number.")

    def subnormal(rng: Generator) -> Array:
        raw = int(rng.integers(1, 2 ** (p - 1)))
        return from_bits([raw], dtype).astype(float)

    none = full(-np.inf)
    note = "One element is finite, and is the result: the others are -inf."
    alone = among(lambda rng: 100 * normal(rng, 1), none, dtype)
    yield HardSum("inf and nan", "alone", alone, note)
    yield HardSum("subnormals", "alone", among(subnormal, none, dtype), note)
    rows = of_family(hard_rows.subnormals, dtype, 2)
    yield HardSum("subnormals", "elements", rows(0), "The elements are subnormal.")
    zero = among(fixed([-0.0]), none, dtype)
    note = "The logarithm of 1 is +0."
    yield HardSum("signed zero", "of_one", zero, note)

    yield from specials(SPECIALS | BOTH_INFINITIES, dtype)
    all_inf = all_hard(none, dtype)
    note = "All elements are -inf, and so is the result."
    yield HardSum("inf and nan", "all_inf", all_inf, note)

    yield from random(dtype)
    note = "10,000 values of a normal distribution."
    values = of_family(hard_rows.normal_values, dtype)(0)
    yield HardSum("long", "normal", values, note, 10**4)


def _integer_sums(dtype: DType) -> Iterator[HardSum]:
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    note = "The exact logarithm is cut off toward zero."

    def between(least: int, greatest: int) -> Elements:
        return all_hard(
            lambda rng, n: rng.integers(least, greatest, n, dtype, endpoint=True), dtype
        )

    yield HardSum("integer log", "small", between(0, 100), note)
    most = math.floor(math.log(high))
    for word, more in (("below", 0), ("above", 1)):

        def power(rng: Generator, more: int = more) -> Array:
            with decimal.localcontext(_DIGITS):
                value = int(Decimal(int(rng.integers(1, most + 1))).exp()) + more
            return np.array([value]).astype(dtype)

        note = f"The sum is the whole number just {word} a power of e."
        zeros = among(power, full(0), dtype)
        yield HardSum("integer log", f"{word}_power", zeros, note)
    note = f"The sum leaves {dtype.name}; its logarithm does not."
    yield HardSum("integer log", "largest", between(high - 100, high), note)
    note = "Of 0 and less there is no logarithm: the result is the least of the type."
    if low:
        yield HardSum("integer log", "negative", between(-100, 0), note)
    yield HardSum("integer log", "of_zero", between(0, 0), note)
    yield HardSum("random", "any", between(low, high))
    note = "10,000 values."
    yield HardSum("long", "any", between(low, high), note, 10**4)


def _integer_powers(dtype: DType) -> Iterator[HardSum]:
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)

    def between(least: int, greatest: int) -> Elements:
        return all_hard(
            lambda rng, n: rng.integers(least, greatest, n, dtype, endpoint=True), dtype
        )

    note = "The exact value is cut off toward zero."
    yield HardSum("integer log", "small", between(max(low, -20), 20), note)
    if low:
        beside = among(lambda rng: rng.integers(-60, -2, 1), full(-200), dtype)
        note = "Just above a whole number below 0, it is cut off to the next one."
        yield HardSum("integer log", "beside_negative", beside, note)
    note = "Floating point of as many bits does not hold the greatest."
    equal = all_hard(full(high // 2), dtype)
    yield HardSum("wide integers", "equal", equal, note)
    pair = np.array([high - 1000, high - 1003], dtype)
    yield HardSum("wide integers", "pair", among(fixed(pair), full(0), dtype), note)
    yield HardSum("random", "any", between(low, high))
    note = "10,000 values."
    yield HardSum("long", "small", between(max(low, -20), 20), note, 10**4)


def _decimal(value: Fraction) -> Decimal:
    """Return a fraction of a power of 2 in the digits of the context."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def _midpoint(about: float, dtype: DType) -> Fraction:
    """Return a midpoint of two numbers of a type, next to one."""
    pattern = int(bits(np.array(about).astype(dtype)))
    ends = from_bits([pattern, pattern + 1], dtype).astype(float)
    return (Fraction(float(ends[0])) + Fraction(float(ends[1]))) / 2


def _below(value: Fraction, dtype: DType, *, above: bool) -> float:
    """Return the greatest number of a type below a value, or the least above it."""
    nearest = round_exact(value, dtype)
    if (Fraction(float(nearest)) > value) == above:
        return float(nearest)
    up = 1 if (float(nearest) > 0) == above else -1
    return float(from_bits(int(bits(nearest)) + up, dtype)[()])
