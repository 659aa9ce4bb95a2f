"""Elements of which the greatest or the least is easily missed.

May import bits, hard_elements, hard_rows, hard_sums and reductions only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from halfulp.conformance.bits import Array, bits, from_bits
from halfulp.conformance.cases import hard_rows
from halfulp.conformance.cases.hard_elements import (
    SPECIALS,
    all_hard,
    among,
    fixed,
    full,
    of_family,
    random,
    specials,
)
from halfulp.conformance.cases.hard_sums import Elements, HardSum
from halfulp.reductions import Reduction

DType = np.dtype[Any]
Generator = np.random.Generator


def hard_extremes(reduction: Reduction, dtype: DType) -> Iterator[HardSum]:
    """Yield each kind of elements, those of a class in a row.

    All is told of the greatest; for the least, signs are the other ones.
    """
    if dtype.kind == "b":
        kinds = _of_bool(reduction.operation == "max")
    elif dtype.kind in "iu":
        kinds = _of_integers(reduction.operation == "max", dtype)
    else:
        kinds = _of_floats(reduction.operation == "max", dtype)
    yield from kinds


def _of_floats(is_max: bool, dtype: DType) -> Iterator[HardSum]:
    sign = 1 if is_max else -1
    word = "greatest" if is_max else "least"

    def normal(rng: Generator, count: int) -> Array:
        result: Array = hard_rows.normal_values(rng, dtype, 1, count)[0].astype(float)
        return result

    def sized(rng: Generator, count: int) -> Array:
        """Numbers beyond those of `rivals`, away from the extreme."""
        values: Array = -sign * (64 + abs(normal(rng, count)))
        return values

    def rivals(offset: float) -> Elements:
        def pair(rng: Generator) -> Array:
            raw = bits(np.array(16 + 16 * rng.random()).astype(dtype))
            both = from_bits([int(raw), int(raw) + 1], dtype).astype(float)
            return rng.permutation(both) * offset

        return among(pair, sized, dtype)

    def mixed(hard: list[float], others: float) -> Elements:
        return among(
            lambda rng: rng.permutation(np.array(hard) * sign), full(others * sign), dtype
        )

    note = f"The {word} is one unit in the last place beside its rival."
    yield HardSum("rivals", "above_zero", rivals(1.0), note)
    yield HardSum("rivals", "below_zero", rivals(-1.0), note)

    note = "-0 is less than +0."
    yield HardSum("signed zero", "one_zero", mixed([0.0], -0.0), note)
    yield HardSum("signed zero", "both", mixed([0.0, -0.0], -1.0), note)
    zeros = all_hard(full(-0.0), dtype)
    note = "All elements are -0, and so is the result."
    yield HardSum("signed zero", "negative", zeros, note)

    least = from_bits([1], dtype).astype(float)[0]
    note = "One element is subnormal; the others are zeros."
    yield HardSum("subnormals", "among_zeros", mixed([least], 0.0), note)
    rows = of_family(hard_rows.subnormals, dtype, 2)
    yield HardSum("subnormals", "elements", rows(0), "The elements are subnormal.")

    nans = {"nan": [np.nan], "negative_nan": [-np.nan]}
    yield from specials(nans | SPECIALS, dtype)
    all_inf = all_hard(full(-np.inf * sign), dtype)
    note = "All elements are infinite, and so is the result."
    yield HardSum("inf and nan", "all_inf", all_inf, note)

    yield from random(dtype)
    note = "10,000 values of a normal distribution."
    yield HardSum("long", "normal", all_hard(normal, dtype), note, 10**4)


def _of_integers(is_max: bool, dtype: DType) -> Iterator[HardSum]:
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    end, other = (high, low) if is_max else (low, high)
    step = -1 if is_max else 1
    # Beyond what floating point of as many bits tells apart.
    near = end + 4 * step

    def far(rng: Generator, count: int) -> Array:
        return rng.integers(max(low, -100), 100, count, dtype, endpoint=True)

    def between(least: int, greatest: int) -> Elements:
        return all_hard(
            lambda rng, n: rng.integers(least, greatest, n, dtype, endpoint=True), dtype
        )

    def pair(rng: Generator) -> Array:
        return rng.permutation(np.array([near, near + step], dtype))

    note = "Two elements differ by one, next to the end of the type."
    yield HardSum("rivals", "neighbours", among(pair, far, dtype), note)
    note = "Of the ends of the type one is the result."
    both = among(fixed(np.array([end, other], dtype)), far, dtype)
    yield HardSum("wide integers", "both_ends", both, note)
    note = "All elements are at that end of the type which is least likely."
    yield HardSum("wide integers", "one_end", between(other, other), note)
    yield HardSum("random", "small", between(max(low, -100), 100))
    yield HardSum("random", "any", between(low, high))
    yield HardSum("long", "any", between(low, high), "10,000 values.", 10**4)


def _of_bool(is_max: bool) -> Iterator[HardSum]:
    dtype = np.dtype(bool)
    for one in (True, False):
        note = f"One element is {one}, the others are not."
        elements = among(fixed([one]), full(not one), dtype)
        yield HardSum("rivals", f"one_{one}".lower(), elements, note)
        note = f"All elements are {one}."
        yield HardSum("rivals", f"all_{one}".lower(), all_hard(full(one), dtype), note)
    any_ = all_hard(lambda rng, n: rng.random(n) < 0.5, dtype)
    yield HardSum("random", "any", any_)
    yield HardSum("long", "any", any_, "10,000 values.", 10**4)
