"""Rows whose sums of terms are hard to round, by family and float type.

Every family is a function of (generator, dtype, number of rows, row length)
that returns an array of that shape; a row shorter than it is padded with zeros. Those
that depend on the term or the finish take squares and none by default.

May import reductions, bits and preimages only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
from halfulp.conformance.cases.preimages import INVERSES, preimage, terms_that_sum_to
from halfulp.reductions import Finish, Term

DType = np.dtype[Any]
Generator = np.random.Generator
Family = Callable[[Generator, DType, int, int], Array]


def scaled(numbers: list[int], exponent: int, dtype: DType) -> Array:
    """numbers * 2**exponent; the type holds each exactly or it is dropped."""
    grain = 2 ** max(least_exponent(dtype.name) - exponent, 0)
    most = EMAX[dtype.name] + 1 - exponent
    kept = [n for n in numbers if n % grain == 0 and n.bit_length() <= most]
    return np.array([math.ldexp(n, exponent) for n in kept]).astype(dtype)


def any_bits(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Uniform bit patterns: the widest exponents, infinities and NaNs."""
    width = 8 * dtype.itemsize
    raw = rng.integers(0, 2**width - 1, (rows, n), dtype=np.uint64, endpoint=True)
    return from_bits(raw.astype(f"u{dtype.itemsize}"), dtype)


def bits_below_two(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Uniform bit patterns of |x| < 2, each row times its own power of two."""
    raw = bits(any_bits(rng, dtype, rows, n))
    top_exponent_bit = raw.dtype.type(1 << (8 * dtype.itemsize - 2))
    small = from_bits(raw & ~top_exponent_bit, dtype)
    powers = rng.integers(-40, 3, (rows, 1))
    with np.errstate(under="ignore"):
        result: Array = np.ldexp(small.astype(float), powers).astype(dtype)
    return result


def normal_values(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """What people have: a normal distribution."""
    return rng.standard_normal((rows, n)).astype(dtype)


def small_integers(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Integers whose sums often are exact ties."""
    limit = 2 ** min(PRECISION[dtype.name] // 2 + 2, 27)
    return rng.integers(-limit, limit, (rows, n), endpoint=True).astype(dtype)


def wide_exponents(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Powers of two and their neighbours, over a precision's worth of exponents."""
    p = PRECISION[dtype.name]
    powers = np.ldexp(1.0, rng.integers(-p // 2 - 3, 5, (rows, n))).astype(dtype)
    return from_bits(bits(powers) + rng.integers(-1, 2, powers.shape), dtype)


def ties_and_neighbours(
    rng: Generator,
    dtype: DType,
    rows: int,
    n: int,
    rounded_to: DType | None = None,
    *,
    term: Term = "square",
    finish: Finish = "none",
) -> Array:
    """Results equal to a midpoint of two, and sums the least bit above or below it.

    The results are of `rounded_to`, by default of `dtype`.
    """
    to = rounded_to or dtype
    p, least, degree = PRECISION[to.name], least_exponent(to.name), INVERSES[term].degree
    power = 2 if finish == "root" else 1  # results are in units of those of elements to
    most_shift = 50 // power
    result = np.zeros((rows, n), dtype)
    for row in result:
        # (2m + 1) * 2^shift is a midpoint of the type in units of
        # 2^(degree * exponent / power)
        if rng.integers(4) == 0:  # of subnormal results
            m = int(rng.integers(0, 2 ** (p - 1)))
            exponent = (least - 1) * power // degree - int(rng.integers(0, 6))
            exponent -= degree * exponent % power
            shift = least - 1 - degree * exponent // power
        else:
            m = int(rng.integers(2 ** (p - 1), 2**p))
            shift = int(rng.integers(1, most_shift))
            lowest = max((least - shift) * power // degree, least_exponent(dtype.name))
            top = min(EMAX[dtype.name], EMAX[to.name])
            highest = (top - p - shift) * power // degree
            exponent = int(rng.integers(lowest, max(highest, lowest + 1)))
            exponent += degree * exponent % power
        total = preimage(finish, (2 * m + 1) << shift, n) + int(rng.integers(-1, 2))
        values = scaled(terms_that_sum_to(term, total, dtype.name, n), exponent, dtype)
        row[: len(values)] = values
    return result


def ties_and_specks(
    rng: Generator,
    dtype: DType,
    rows: int,
    n: int,
    rounded_to: DType | None = None,
    *,
    term: Term = "square",
    finish: Finish = "none",
) -> Array:
    """Midpoints with the least number of the type beside them, far below."""
    if n < 2:
        return ties_and_neighbours(rng, dtype, rows, n, rounded_to, term=term)
    result = ties_and_neighbours(
        rng, dtype, rows, n, rounded_to, term=term, finish=finish
    )
    result[result[:, -1] == 0, -1] = from_bits([1], dtype)[0]
    return result


def overflow_threshold(
    rng: Generator,
    dtype: DType,
    rows: int,
    n: int,
    *,
    term: Term = "square",
    finish: Finish = "none",
) -> Array:
    """Results within a few units of the least that rounds to infinity."""
    p, emax = PRECISION[dtype.name], EMAX[dtype.name]
    threshold = 2 ** (emax + 1) - 2 ** (emax - p)
    result = np.zeros((rows, n), dtype)
    for row in result:
        steps = int(rng.integers(-2, 3))
        wanted = threshold + steps * 2 ** int(rng.integers(0, emax - p))
        total = preimage(finish, wanted, n) + int(rng.integers(-1, 2))
        values = scaled(terms_that_sum_to(term, total, dtype.name, n), 0, dtype)
        row[: len(values)] = values
    return result


def subnormals(
    rng: Generator, dtype: DType, rows: int, n: int, *, term: Term = "square"
) -> Array:
    """Rows of subnormal elements, and rows of elements whose terms are subnormal."""
    p, emax = PRECISION[dtype.name], EMAX[dtype.name]
    fraction = rng.integers(0, 2 ** (p - 1), (rows, n))
    middle = emax + least_exponent(dtype.name) // INVERSES[term].degree
    field = middle + rng.integers(-2, 3, (rows, n))
    field[::2] = 0
    raw = field << (p - 1) | fraction
    return from_bits(raw.astype(f"u{dtype.itemsize}"), dtype)


def near_underflow(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """|x| where the low parts of products of binary64 begin to underflow."""
    if dtype.name != "float64":
        return subnormals(rng, dtype, rows, n)
    edge = rng.choice([-485, -511, -537], (rows, 1)) + rng.integers(-3, 4, (rows, n))
    short = rng.integers(1, 2**8, (rows, n)) / 2**8
    full = rng.random((rows, n)) + 1
    return np.ldexp(np.where(rng.integers(0, 2, (rows, 1)) == 0, short, full), edge)


def any_scale(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Rows whose terms leave the range of the type while their norms do not."""
    low, high = least_exponent(dtype.name), EMAX[dtype.name]
    scales = np.ldexp(1.0, rng.integers(low + 3, high - 3, (rows, 1), endpoint=True))
    with np.errstate(over="ignore", under="ignore"):
        result: Array = (rng.standard_normal((rows, n)) * scales).astype(dtype)
    return result


def pythagorean(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Multiples of 3, 4 and of 5, 12: norms are numbers or midpoints of the type."""
    p = PRECISION[dtype.name]
    result = np.zeros((rows, n), dtype)
    for row in result:
        legs = ((3, 4), (5, 12), (8, 15))[rng.integers(3)]
        factor = int(rng.integers(1, 2 ** (p - 4), endpoint=True))
        exponent = int(rng.integers(least_exponent(dtype.name), EMAX[dtype.name] - p + 1))
        for i, leg in zip(rng.permutation(n)[:2], legs, strict=False):
            row[i] = math.ldexp(leg * factor, exponent)
    return result


def special_values(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """One infinity, one NaN, or both, anywhere; and overflow without either."""
    result = normal_values(rng, dtype, rows, n)
    largest = from_bits(bits(np.array(np.inf, dtype)) - 1, dtype)
    choices = np.array([np.inf, -np.inf, np.nan, -np.nan, largest]).astype(dtype)
    for _ in range(2):
        where = rng.integers(0, n, rows)
        result[np.arange(rows), where] = rng.choice(choices, rows)
    return result


FAMILIES: tuple[Family, ...] = (
    any_bits,
    bits_below_two,
    normal_values,
    small_integers,
    wide_exponents,
    ties_and_neighbours,
    ties_and_specks,
    overflow_threshold,
    subnormals,
    near_underflow,
    any_scale,
    pythagorean,
    special_values,
)
