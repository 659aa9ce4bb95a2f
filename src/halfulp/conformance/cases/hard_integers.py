"""Integers whose reductions floating point cannot hold, or that wrap.

May import reductions, bits, hard_sums and preimages only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from halfulp.conformance.bits import Array
from halfulp.conformance.cases.hard_sums import Elements, HardSum
from halfulp.conformance.cases.preimages import INVERSES
from halfulp.reductions import Reduction

DType = np.dtype[Any]
Generator = np.random.Generator


def hard_integers(reduction: Reduction, dtype: DType) -> Iterator[HardSum]:
    """Yield each kind of sum that is hard in a type, those of a class in a row."""
    info = np.iinfo(dtype)
    inverse = INVERSES[reduction.term]

    # Eight terms of numbers below 2^half fit.
    half = (8 * dtype.itemsize - (dtype.kind == "i") - 3) // inverse.degree
    note = "The sum fits; floating point of as many bits does not hold it."
    yield HardSum("wide integers", "eight", _odd_sum(dtype, half), note)
    pair = [[2**half - 1, 2]]
    yield HardSum("wide integers", "pair", _among_small(dtype, pair, 0), note)

    yield from {"none": _wrapping, "mean": _means, "root": _roots}[reduction.finish](
        reduction, dtype
    )

    low = -100 if dtype.kind == "i" else 0
    yield HardSum("random", "small", _between(dtype, low, 100))

    note = "10,000 values, modulo 2^N."
    yield HardSum("long", "any", _between(dtype, info.min, info.max), note, 10**4)


def _wrapping(reduction: Reduction, dtype: DType) -> Iterator[HardSum]:
    """Sums that the type does not hold."""
    info = np.iinfo(dtype)
    width = 8 * dtype.itemsize
    inverse = INVERSES[reduction.term]
    root = 2 ** (width // inverse.degree)
    # The least integer whose term the type does not hold.
    over = inverse.largest(int(info.max)) + 1
    note = f"{dtype.name} wraps modulo 2^{width}, as the function body in ONNX does."
    extremes = [[info.min, info.max], [info.max, 1], [info.max, info.max]]
    kinds = {
        "one_square": [[over, 0], [over + 1, 0], [root + 1, 0]],
        "sum": [[over - 1] * 2, [over - 1, root // 2 + 1]],
        "to_zero": [[root], [root * 2], [info.max // 2 + 1]],
        "extremes": extremes,
    }
    if inverse.degree == 1:
        least = [[info.min, info.min], [info.min, -1]] if dtype.kind == "i" else []
        kinds = {
            "sum": [[info.max // 2 + 1] * 2, [info.max // 2 + 2] * 3],
            "to_zero": [[info.max // 2 + 1] * (2 if dtype.kind == "u" else 4)],
            "extremes": extremes + least,
        }
    for word, choices in kinds.items():
        others = 0 if word == "to_zero" else 100
        yield HardSum("wrap", word, _among_small(dtype, choices, others), note)
    yield HardSum("wrap", "any", _between(dtype, info.min, info.max), note)


def _means(reduction: Reduction, dtype: DType) -> Iterator[HardSum]:
    """Means whose sums the type does not hold, and what is cut off them."""
    info = np.iinfo(dtype)
    low = -100 if dtype.kind == "i" else 0
    note = "The exact mean is cut off toward zero."
    yield HardSum("integer mean", "positive", _between(dtype, 0, 100), note)
    if dtype.kind == "i":
        yield HardSum("integer mean", "negative", _between(dtype, -100, 0), note)
        yield HardSum("integer mean", "both_signs", _between(dtype, -2, 2), note)
    near = _between(dtype, info.max - 100, info.max)
    note = f"The sum leaves {dtype.name}; the mean does not."
    yield HardSum("integer mean", "largest", near, note)
    least = _between(dtype, info.min, info.min - low)
    yield HardSum("integer mean", "least", least, note)
    yield HardSum("integer mean", "any", _between(dtype, info.min, info.max), note)


def _roots(reduction: Reduction, dtype: DType) -> Iterator[HardSum]:
    """Roots of sums that the type does not hold, and of squares and their neighbours."""
    info = np.iinfo(dtype)
    note = "The exact root is rounded down, whatever holds the sum."
    yield HardSum("integer root", "any", _between(dtype, info.min, info.max), note)
    near = _between(dtype, info.max - 100, info.max)
    yield HardSum("integer root", "largest", near, note)
    for offset, word in ((-1, "below"), (0, "at"), (1, "above")):
        note = "The sum is a square" if offset == 0 else f"The sum is one {word} a square"
        elements = _beside_square(dtype, offset)
        yield HardSum("integer root", f"{word}_square", elements, f"{note}.")


def _beside_square(dtype: DType, offset: int) -> Elements:
    """Integers whose squares sum to a square and an offset."""
    most = 2 ** (8 * dtype.itemsize - 2)

    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        root = int(rng.integers(2, most))
        left = root * root + offset
        hard = []
        while left:
            hard.append(math.isqrt(left))
            left -= hard[-1] ** 2
        count = max(length - len(hard), 0)
        return np.array(hard).astype(dtype), np.zeros(count, dtype)

    return elements


def _between(dtype: DType, low: int, high: int) -> Elements:
    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        return rng.integers(low, high, length, dtype, endpoint=True), np.zeros(0, dtype)

    return elements


def _odd_sum(dtype: DType, half: int) -> Elements:
    """Seven or eight integers of as many bits, whose terms sum to an odd number."""

    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        count = min(length, 8)
        hard = rng.integers(2 ** (half - 1), 2**half, count, dtype) | 1
        if count % 2 == 0:
            hard[0] -= 1
        return hard, np.zeros(length - count, dtype)

    return elements


def _among_small(dtype: DType, choices: Sequence[Sequence[int]], most: int) -> Elements:
    """One of some lists of integers, taken modulo 2^N, among others of 0 to `most`."""

    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        values = choices[int(rng.integers(len(choices)))]
        wrapped = [value % 2 ** (8 * dtype.itemsize) for value in values]
        hard = np.array(wrapped, f"u{dtype.itemsize}").view(dtype)
        count = length - len(hard)
        return hard, rng.integers(0, most, count, dtype, endpoint=True)

    return elements
