"""Rows whose sums of terms are hard to round, by family and float type.

Every family is a function of (generator, dtype, number of rows, row length)
that returns an array of that shape; a row shorter than it is padded with zeros. Those
that depend on the term take that of squares by default.

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
from halfulp.conformance.cases.preimages import INVERSES, terms_that_sum_to
from halfulp.reductions import Term

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
) -> Array:
    """Sums equal to a midpoint of two results, and the least bit above or below it.

    The results are of `rounded_to`, by default of `dtype`.
    """
    to = rounded_to or dtype
    p, least, degree = PRECISION[to.name], least_exponent(to.name), INVERSES[term].degree
    result = np.zeros((rows, n), dtype)
    for row in result:
        # (2m + 1) * 2^shift is a midpoint of the type in units of 2^(degree * exponent)
        if rng.integers(4) == 0:  # of subnormal results
            m = int(rng.integers(0, 2 ** (p - 1)))
            exponent = (least - 1) // degree - int(rng.integers(0, 6))
            shift = least - 1 - degree * exponent
        else:
            m = int(rng.integers(2 ** (p - 1), 2**p))
            shift = int(rng.integers(1, 50))
            lowest = max((least - shift) // degree, least_exponent(dtype.name))
            highest = (min(EMAX[dtype.name], EMAX[to.name]) - p - shift) // degree
            exponent = int(rng.integers(lowest, max(highest, lowest + 1)))
        total = ((2 * m + 1) << shift) + int(rng.integers(-1, 2))
        values = scaled(terms_that_sum_to(term, total, dtype.name, n), exponent, dtype)
        row[: len(values)] = values
    return result


def overflow_threshold(
    rng: Generator, dtype: DType, rows: int, n: int, *, term: Term = "square"
) -> Array:
    """Sums within a few units of the least sum that rounds to infinity."""
    p, emax = PRECISION[dtype.name], EMAX[dtype.name]
    threshold = 2 ** (emax + 1) - 2 ** (emax - p)
    result = np.zeros((rows, n), dtype)
    for row in result:
        steps = int(rng.integers(-2, 3))
        total = threshold + steps * 2 ** int(rng.integers(0, emax - p))
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
    overflow_threshold,
    subnormals,
    near_underflow,
    special_values,
)
