"""Elements whose products are hard to get right.

May import bits, hard_elements, hard_rows, hard_sums, reductions and why only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from halfulp.conformance.bits import (
    EMAX,
    PRECISION,
    Array,
    least_exponent,
)
from halfulp.conformance.cases import hard_rows
from halfulp.conformance.cases.hard_elements import (
    SPECIALS,
    all_hard,
    among,
    among_normal_values,
    random,
    specials,
)
from halfulp.conformance.cases.hard_sums import Elements, HardSum
from halfulp.reductions import Reduction

DType = np.dtype[Any]
Generator = np.random.Generator

# Whole numbers and an exponent: their product times that power of two is a result.
Draw = Callable[[Generator], tuple[list[int], int]]

# 2^(p + 1) - 1, in units of half the last place the least that overflows, as factors.
_OVERFLOW = {
    "bfloat16": (7, 73),
    "float16": (63, 65),
    "float32": (31, 1082401),
    "float64": (2**27 - 1, 2**27 + 1),
}


def hard_products(reduction: Reduction, dtype: DType) -> Iterator[HardSum]:
    """Yield each kind of products, those of a class in a row."""
    yield from _of_integers(dtype) if dtype.kind in "iu" else _of_floats(dtype)


def _of_floats(dtype: DType) -> Iterator[HardSum]:
    p, emax, least = PRECISION[dtype.name], EMAX[dtype.name], least_exponent(dtype.name)

    def anywhere(rng: Generator) -> int:
        """An exponent of which products of p + 1 bits and a few are normal."""
        return int(rng.integers(max(2 - emax, -30), min(emax - 2 * p, 20) + 1))

    def tie(parity: int) -> Draw:
        return lambda rng: ([*_odd_pair(rng, p, parity)], anywhere(rng))

    def beside(factors: list[int], exponent: int) -> Draw:
        """A tie, times a number that is nearly 1, of any significand's parity."""

        def draw(rng: Generator) -> tuple[list[int], int]:
            pair = _odd_pair(rng, p, int(rng.integers(2)))
            return [*pair, *factors], anywhere(rng) + exponent

        return draw

    note = "The product of the odd parts has one bit more than a number of the type."
    yield HardSum("ties", "up", _product(dtype, tie(1)), note)
    yield HardSum("ties", "down", _product(dtype, tie(0)), note)

    def subnormal(rng: Generator) -> tuple[list[int], int]:
        a = int(rng.integers(1, 2 ** (p // 2 - 1))) * 2 + 1
        b = int(rng.integers(0, 2 ** (p // 2 - 1))) * 2 + 1
        return [a, b], least - 1

    note = "The result is subnormal."
    yield HardSum("ties", "subnormal", _product(dtype, subnormal), note)

    k, third = p - 1, p // 2
    below = [2**k + 1, 2**k - 1], -2 * k
    above = [2**third + 1, 4**third - 2**third + 1], -3 * third
    note = "A tie times 1 - 2^-{} or 1 + 2^-{}, which is a product too."
    note = note.format(2 * k, 3 * third)
    yield HardSum("near ties", "above", _product(dtype, beside(*above)), note)
    yield HardSum("near ties", "below", _product(dtype, beside(*below)), note)

    if p < 24:
        note = "Rounded to 24 bits first, the product would be a tie."
        for side in (1, -1):

            def twice(rng: Generator, side: int = side) -> tuple[list[int], int]:
                found = _twice_rounded(p, side)
                factors = list(found[int(rng.integers(len(found)))])
                return factors, anywhere(rng) - math.prod(factors).bit_length() + p

            word = "above" if side > 0 else "below"
            yield HardSum("twice rounded", word, _product(dtype, twice), note)

    yield from _out_of_range(dtype)
    yield from _specials(dtype)

    def near_one(rng: Generator, n: int) -> Array:
        """Numbers of few bits, as the exact product has those of all."""
        size = rng.choice([0.75, 0.875, 0.9375, 1, 1.0625, 1.125, 1.25], n)
        result: Array = size * rng.choice([-1, 1], n)
        return result

    yield HardSum("random", "near_one", all_hard(near_one, dtype))
    yield from random(dtype, (hard_rows.normal_values, hard_rows.any_bits))
    note = "10,000 values about 1."
    yield HardSum("long", "near_one", all_hard(near_one, dtype), note, 10**4)


def _out_of_range(dtype: DType) -> Iterator[HardSum]:
    """Yield products at the ends of the range, and those that leave it on the way."""
    p, emax, least = PRECISION[dtype.name], EMAX[dtype.name], least_exponent(dtype.name)
    at = [*_OVERFLOW[dtype.name]]
    k = p - 1

    note = "The least product that overflows: a tie between the largest and infinity."
    threshold = _product(dtype, lambda rng: (at, emax - p))
    yield HardSum("overflow", "at", threshold, note)
    note = "Just below the least product that overflows."
    below = _product(dtype, lambda rng: ([*at, 2**k + 1, 2**k - 1], emax - p - 2 * k))
    yield HardSum("overflow", "below", below, note)
    note = "The product of all elements is out of range."
    far = _product(dtype, lambda rng: ([3, 5], 2 * emax))
    yield HardSum("overflow", "beyond", far, note)

    note = "Half the least positive number, which rounds to 0 with its sign."
    half = _product(dtype, lambda rng: ([1], least - 1))
    yield HardSum("signed zero", "half_the_least", half, note)
    note = "The product vanishes, and keeps its sign."
    tiny = _product(dtype, lambda rng: ([3, 5], 2 * least))
    yield HardSum("signed zero", "vanishes", tiny, note)
    note = "Just above half the least positive number."
    above = _product(dtype, lambda rng: ([2**k + 1], least - 1 - k))
    yield HardSum("subnormals", "above_half", above, note)

    def from_subnormal(rng: Generator) -> Array:
        number = int(rng.integers(1, 2 ** (p - 1)))
        return np.array([math.ldexp(number, least), math.ldexp(3, p)])

    def ones(rng: Generator, count: int) -> Array:
        return rng.choice([-1.0, 1.0], count)

    note = "One element is subnormal; the product need not be."
    yield HardSum("subnormals", "element", among(from_subnormal, ones, dtype), note)

    def comes_back(order: str) -> Elements:
        def values(rng: Generator, n: int) -> Array:
            half = n // 2
            powers = rng.integers(emax // 2, emax - 1, half)
            parts = [np.ldexp(1.0, powers), np.ldexp(1.0, -powers), np.ones(n % 2)]
            if order == "small_first":
                parts.reverse()
            all_ = np.concatenate(parts)
            some = rng.choice(n, min(n, 6), replace=False)
            all_[some] *= 1 + rng.integers(0, 2**3, len(some)) / 2**4
            all_ *= rng.choice([-1, 1], n)
            return rng.permutation(all_) if order == "shuffled" else all_

        return all_hard(values, dtype)

    for order in ("large_first", "small_first", "shuffled"):
        note = "Partial products leave the range, and come back."
        yield HardSum("partial overflow", order, comes_back(order), note)

    def zero_and_large(rng: Generator, n: int) -> Array:
        all_ = np.full(n, math.ldexp(1.5, emax - 1)) * rng.choice([-1, 1], n)
        all_[rng.integers(n)] = 0
        result: Array = all_
        return result

    note = "One element is 0; partial products of the others overflow."
    zeros = all_hard(zero_and_large, dtype)
    yield HardSum("partial overflow", "and_zero", zeros, note)


def _specials(dtype: DType) -> Iterator[HardSum]:
    with_zero = {"inf_and_zero": [np.inf, 0.0], "zero_and_inf": [-0.0, -np.inf]}
    yield from specials(SPECIALS | with_zero, dtype)
    zero = among_normal_values(np.array([0.0]).astype(dtype))
    note = "The sign of a zero is that of all elements together."
    yield HardSum("signed zero", "of_zero", zero, note)
    zeros = all_hard(lambda rng, n: rng.choice([0.0, -0.0], n), dtype)
    yield HardSum("signed zero", "of_zeros", zeros, note)


def _odd_pair(rng: Generator, p: int, parity: int) -> tuple[int, int]:
    """Two odd numbers of at most p bits whose product is 2m + 1 of p + 1 bits.

    m is odd if `parity` is 1: then the even neighbour is the one above.
    """
    half = p // 2
    while True:
        a = int(rng.integers(2 ** (half - 1), 2**half)) | 1
        b = int(rng.integers(2 ** (p - half), 2 ** (p - half + 1))) | 1
        product = a * b
        if product.bit_length() == p + 1 and product >> 1 & 1 == parity:
            return a, b


@cache
def _twice_rounded(p: int, side: int) -> tuple[tuple[int, ...], ...]:
    """Factors of p bits whose product rounds to a tie of p bits if to 24 bits first.

    It is above the tie if `side` is 1, and the even neighbour is the wrong one.
    """
    rng = np.random.default_rng(p)
    factors = [rng.integers(2 ** (p - 1), 2**p, 2**21) for _ in range(3 if p > 8 else 4)]
    product = math.prod(factors)  # of less than 2^34
    bits = np.floor(np.log2(product)).astype(int) + 1
    unit = 1 << bits - (p + 1)  # half an ulp
    middle = (product + unit // 2) // unit
    offset = product - middle * unit
    near = (2 * abs(offset) < 1 << bits - 24) & (np.sign(offset) == side)
    wrong = (middle & 1 == 1) & ((middle >> 1 & 1) == (side < 0))
    found = np.stack(factors, axis=1)[near & wrong & (middle < 2 ** (p + 1))]
    assert len(found)
    return tuple(map(tuple, found[:32].tolist()))


def _product(dtype: DType, draw: Draw) -> Elements:
    """Elements whose product is that of some numbers times a power of two.

    The others are powers of two of which the product is 1. Any sign is possible.
    """
    p, emax = PRECISION[dtype.name], EMAX[dtype.name]
    least = 1 - emax

    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        numbers, exponent = draw(rng)
        hard = []
        for number in numbers:
            assert number.bit_length() <= p
            hard.append(math.ldexp(number, 1 - number.bit_length()))
            exponent += number.bit_length() - 1
        while exponent:
            part = max(min(exponent, emax - 1), least)
            # To what is there already, where that stays normal.
            if hard and least <= part < emax and abs(hard[0]) < 2 and abs(part) < emax:
                hard[0] = math.ldexp(hard[0], part)
            else:
                hard.append(math.ldexp(1.0, part))
            exponent -= part
        count = max(length - len(hard), 0)
        powers = rng.integers(-emax // 2, emax // 2, count // 2)
        parts = [powers, -powers, np.zeros(count % 2, int)]
        others = np.ldexp(1.0, rng.permutation(np.concatenate(parts)))
        signs = rng.choice([-1.0, 1.0], len(hard) + count)
        values = rng.permutation(hard) * signs[: len(hard)]
        return values.astype(dtype), (others * signs[len(hard) :]).astype(dtype)

    return elements


def _of_integers(dtype: DType) -> Iterator[HardSum]:
    info = np.iinfo(dtype)
    width = 8 * dtype.itemsize
    low, high = int(info.min), int(info.max)
    half = (width - (dtype.kind == "i")) // 2

    def ones(rng: Generator, count: int) -> Array:
        return np.ones(count, dtype)

    def wrapped(values: list[int]) -> Array:
        unsigned = np.array([value % 2**width for value in values], f"u{dtype.itemsize}")
        return unsigned.view(dtype)

    def pair(rng: Generator) -> Array:
        return rng.integers(2 ** (half - 1), 2**half, 2, dtype) | 1

    note = "The product fits; floating point of as many bits does not hold it."
    yield HardSum("wide integers", "pair", among(pair, ones, dtype), note)

    note = f"{dtype.name} wraps modulo 2^{width}."

    def odd(rng: Generator, count: int) -> Array:
        return rng.integers(low, high, count, dtype, endpoint=True) | 1

    yield HardSum("wrap", "odd", all_hard(odd, dtype), note)
    root = 1 << width // 2
    zero = among(lambda rng: wrapped([root, root]), odd, dtype)
    yield HardSum("wrap", "to_zero", zero, note)
    ends = among(lambda rng: wrapped([low or high, high, 2**width - 1]), odd, dtype)
    yield HardSum("wrap", "extremes", ends, note)

    def small(rng: Generator, count: int) -> Array:
        return rng.choice(wrapped([1, 1, 2, 3, -1 if low else 1]), count)

    yield HardSum("random", "small", all_hard(small, dtype))
    note = "10,000 odd values, modulo 2^N."
    yield HardSum("long", "odd", all_hard(odd, dtype), note, 10**4)
