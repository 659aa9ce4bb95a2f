"""Rows whose sums of elements, with their signs, are hard to round.

As in `halfulp.conformance.cases.hard_rows`: every family is a function of (generator,
dtype, number of rows, row length) that returns an array of that shape.
"""

from __future__ import annotations

import inspect
from functools import partial

import numpy as np

from halfulp.conformance.bits import EMAX, PRECISION, Array, bits, from_bits
from halfulp.conformance.cases import hard_rows
from halfulp.conformance.cases.hard_rows import DType, Family, Generator
from halfulp.reductions import Finish, Term

# About the blocks of kernels.
LENGTHS = (63, 127, 129, 257, 511, 513, 1023, 1026, 2049, 4097, 5000)


def _largest(dtype: DType) -> np.ndarray:
    return from_bits(bits(np.array(np.inf, dtype)) - 1, dtype)


def _finite(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    x = hard_rows.any_bits(rng, dtype, rows, n)
    with np.errstate(invalid="ignore"):
        x[~np.isfinite(x.astype(float))] = 1
    return x


def _shuffled(rng: Generator, x: Array) -> Array:
    raw = bits(x)
    return from_bits(rng.permuted(raw, axis=1), x.dtype)


def with_signs(family: Family) -> Family:
    """The elements of a family, about half of them below 0."""

    def made(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
        x = family(rng, dtype, rows, n)
        flipped: Array = np.where(rng.integers(0, 2, x.shape) == 0, x, -x).astype(dtype)
        return flipped

    return made


def with_cancelled(family: Family) -> Family:
    """Rows of a family that begin with few elements, with others and their opposites.

    Half of the sums are below 0; huge elements cancel, anywhere.
    """

    def made(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
        few = max(1, min(n // 2, 12))
        x = np.zeros((rows, n), dtype)
        x[:, :few] = family(rng, dtype, rows, few)
        x[::2] = -x[::2]
        pairs = (n - few) // 2
        if pairs:
            others = _finite(rng, dtype, rows, pairs)
            kind = rng.integers(0, 4, (rows, 1))
            # Of all sizes; near 1; one that is huge; huge ones.
            normal = hard_rows.normal_values(rng, dtype, rows, pairs)
            one = np.zeros((rows, pairs), dtype)
            one[:, 0] = _largest(dtype)
            huge = np.broadcast_to(_largest(dtype), others.shape)
            chosen = np.select([kind == i for i in range(4)], [others, normal, one, huge])
            chosen = chosen.astype(dtype)
            x[:, few : few + pairs] = chosen
            x[:, few + pairs : few + 2 * pairs] = -chosen
        return _shuffled(rng, x)

    return made


def zero_sums(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Zeros of both signs; or what cancels wholly, or to the least positive number."""
    x = np.zeros((rows, n), dtype)
    half = n // 2
    values = _finite(rng, dtype, rows, half)
    normal = hard_rows.normal_values(rng, dtype, rows, half)
    values = np.where(np.arange(rows)[:, None] % 2 == 0, values, normal).astype(dtype)
    x[:, :half], x[:, half : 2 * half] = values, -values
    if n % 2:
        x[:, -1] = from_bits(rng.integers(0, 2, rows).astype(bits(x).dtype), dtype)
        x[::3, -1] = -x[::3, -1]
    zeros = from_bits(bits(-np.zeros((rows, n), dtype)), dtype)
    x[::5] = zeros[::5]
    x[1::5] = np.where(rng.integers(0, 2, x[1::5].shape) == 0, zeros[1::5], -zeros[1::5])
    return _shuffled(rng, x)


def one_huge_pair(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Ordinary numbers and two huge ones that cancel, anywhere."""
    x = hard_rows.normal_values(rng, dtype, rows, n)
    if n < 2:
        return x
    exponents = rng.integers(PRECISION[dtype.name] // 2, EMAX[dtype.name] + 1, rows)
    for row, exponent in zip(x, exponents.tolist(), strict=True):
        i, j = rng.choice(n, 2, replace=False)
        row[i] = np.ldexp(1.0, exponent) * (1 if rng.integers(2) else -1)
        row[j] = -row[i]
    return x


def overflow_on_the_way(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Numbers near the largest, of which one sign or the other is first or everywhere."""
    x = np.broadcast_to(_largest(dtype), (rows, n)).copy()
    x = from_bits(bits(x) - rng.integers(0, 3, x.shape).astype(bits(x).dtype), dtype)
    signs = rng.integers(0, 2, x.shape)
    signs[1::4] = np.arange(n) % 2
    signs[2::4] = np.arange(n) < n // 2
    signs[3::4] = np.arange(n) >= n // 2 + 1
    return np.where(signs == 0, x, -x).astype(dtype)


def growing(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Numbers that are small at first and then large, and cancel for the most part."""
    scale = np.where(np.arange(n) < n // 3, 1.0, 2.0 ** (PRECISION[dtype.name] // 2 + 3))
    x = rng.standard_normal((rows, n)) * scale
    x[:, n // 2 :] = -x[:, : n - n // 2]
    return x.astype(dtype)


def centred(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """What is left of numbers less their mean."""
    x = rng.standard_normal((rows, n)) + rng.integers(-3, 4, (rows, 1))
    return (x - x.mean(axis=1, keepdims=True)).astype(dtype)


def special_signs(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Infinities of one sign or both, with NaN or without, also among huge numbers."""
    x = hard_rows.normal_values(rng, dtype, rows, n)
    huge = np.broadcast_to(_largest(dtype), x[1::2].shape)
    x[1::2] = np.where(np.arange(n) % 2 == 0, huge, -huge)
    sets = [[np.inf], [-np.inf], [np.inf, -np.inf], [np.nan], [np.nan, np.inf, -np.inf]]
    for i, row in enumerate(x):
        for special in sets[i % 5]:
            row[rng.integers(n)] = special
    return x


def tiny_of_either_sign(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Sums that are subnormal, or round to zero in a narrower type."""
    x = with_signs(hard_rows.subnormals)(rng, dtype, rows, n)
    scale = -rng.integers(0, min(EMAX[dtype.name], 200), (rows, 1))
    with np.errstate(under="ignore"):
        small = np.ldexp(
            hard_rows.normal_values(rng, dtype, rows, n).astype(float), scale
        )
    x[::2] = small[::2].astype(dtype)
    return x


def two_sum_overflows(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Zeros, the largest number and about an ulp of it, of the other sign.

    The sum s of -1.5 ulp and the largest is finite, but s + 1.5 ulp in TwoSum is not.
    """
    x = np.zeros((rows, n), dtype)
    largest = _largest(dtype)
    ulp = np.ldexp(1.0, EMAX[dtype.name] - PRECISION[dtype.name] + 1)
    for row in x:
        places = rng.choice(n, min(n, 2), replace=False)
        row[places[0]] = -rng.choice([0.5, 1, 1.5, 2, 2.5]) * ulp
        row[places[-1]] = largest
        if rng.integers(2):
            row[:] = -row
    return x


def far_below(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Large numbers that cancel, a tie far below, and still farther what decides it.

    All that two numbers hold is about as far below as what decides: a bit more or less.
    """
    precision = PRECISION[dtype.name]
    x = np.zeros((rows, n))
    if n < 3:
        return x.astype(dtype)
    least = 2 - EMAX[dtype.name] - precision
    held = 48 if precision <= 11 else 106
    for row in x:
        top = int(rng.integers(max(0, EMAX[dtype.name] // 2), EMAX[dtype.name]))
        below = top - int(rng.integers(held // 2, held + 3))
        below = max(below, least)
        tie = int(rng.integers(below + 1, max(below + 2, top - precision)))
        row[0] = np.ldexp(
            float(rng.integers(2 ** (precision - 1), 2**precision)), tie + 1
        )
        row[1] = np.ldexp(1.0, tie)
        row[2] = np.ldexp(float(rng.integers(-1, 2)), below)
        if row[0] > np.ldexp(1.0, top):
            row[0] = 0
        pairs = (n - 3) // 2
        large = rng.integers(2 ** (precision - 1), 2**precision, pairs).astype(float)
        large = np.ldexp(large, top - precision + 1) * rng.choice([-1, 1], pairs)
        row[3 : 3 + pairs], row[3 + pairs : 3 + 2 * pairs] = large, -large
        if rng.integers(2):
            row[:] = -row
    return _shuffled(rng, x.astype(dtype))


def huge_pair_in_every_place(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Small numbers; of a huge one and its opposite, one is in place i of row i."""
    x = hard_rows.normal_values(rng, dtype, rows, n)
    if n < 2:
        return x
    low, high = PRECISION[dtype.name] // 2, EMAX[dtype.name]
    for i, row in enumerate(x):
        # To the next, or as far as lanes and blocks are wide.
        apart = int(rng.choice([1, 2, 4, 8, 16, 32, 64, 128, 256, n // 2, n - 1]))
        exponent = int(rng.integers(low, high, endpoint=True))
        row[i % n] = np.ldexp(1.0, exponent) * (1 if rng.integers(2) else -1)
        row[(i + (apart % n or 1)) % n] = -row[i % n]
    return x


def special_in_every_place(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """NaN or an infinity of either sign in place i of row i; beside it other ones."""
    kind = rng.integers(0, 3, (rows, 1))
    normal = hard_rows.normal_values(rng, dtype, rows, n)
    huge = np.broadcast_to(_largest(dtype), (rows, n))
    tiny = np.broadcast_to(from_bits([1], dtype), (rows, n))
    x = np.select([kind == 0, kind == 1], [normal, huge], tiny).astype(dtype)
    nan = bits(np.array(np.inf, dtype)) + 1
    sign = nan.dtype.type(1 << (8 * dtype.itemsize - 1))
    specials = [np.inf, -np.inf, *from_bits([nan, nan | sign], dtype)]
    for i, row in enumerate(x):
        row[i % n] = specials[rng.integers(4)]
        if rng.integers(4) == 0:
            row[rng.integers(n)] = specials[rng.integers(4)]
    return x


def beside_cancelled(family: Family) -> Family:
    """Rows of a family in which its zeros are numbers that cancel each other.

    So n of a mean is that of all elements.
    """
    known = inspect.signature(family).parameters

    def made(
        rng: Generator,
        dtype: DType,
        rows: int,
        n: int,
        rounded_to: DType | None = None,
        *,
        term: Term = "value",
        finish: Finish = "none",
    ) -> Array:
        options = {"rounded_to": rounded_to, "term": term, "finish": finish}
        x = family(rng, dtype, rows, n, **{k: options[k] for k in options if k in known})
        for i, row in enumerate(x):
            (places,) = np.nonzero(row == 0)
            half = len(places) // 2
            others = hard_rows.normal_values(rng, dtype, 1, half)[0]
            if i % 2:
                others = _finite(rng, dtype, 1, half)[0]
            row[places[:half]], row[places[half : 2 * half]] = others, -others
        x[::3] = -x[::3]
        return _shuffled(rng, x)

    return made


def least_of_means(rng: Generator, dtype: DType, rows: int, n: int) -> Array:
    """Sums of a few times the least number, so that means and halves are below it."""
    x = np.zeros((rows, n), dtype)
    few = rng.choice([0, 1, 2, n // 2, n // 2 + 1, n, 3 * n // 2], rows)
    x[:, 0] = from_bits(few.astype(bits(x).dtype), dtype)
    return beside_cancelled(lambda *_: x)(rng, dtype, rows, n)


TIES: Family = partial(hard_rows.ties_and_neighbours, term="value")
THRESHOLD: Family = partial(hard_rows.overflow_threshold, term="value")

FAMILIES: tuple[Family, ...] = (
    hard_rows.any_bits,
    hard_rows.bits_below_two,
    hard_rows.normal_values,
    hard_rows.small_integers,
    with_signs(hard_rows.wide_exponents),
    TIES,
    with_cancelled(TIES),
    with_cancelled(THRESHOLD),
    with_cancelled(hard_rows.subnormals),
    with_cancelled(hard_rows.normal_values),
    with_cancelled(hard_rows.wide_exponents),
    zero_sums,
    one_huge_pair,
    overflow_on_the_way,
    two_sum_overflows,
    far_below,
    centred,
    special_signs,
    tiny_of_either_sign,
    huge_pair_in_every_place,
    special_in_every_place,
    beside_cancelled(hard_rows.ties_and_neighbours),
    beside_cancelled(hard_rows.overflow_threshold),
    least_of_means,
)
