"""Integers whose sums of squares floating point cannot hold, or that wrap.

May import reductions, bits, hard_sums and preimages only.
"""

from __future__ import annotations

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
    width = 8 * dtype.itemsize
    inverse = INVERSES[reduction.term]

    # Eight terms of numbers below 2^half fit.
    half = (width - (dtype.kind == "i") - 3) // inverse.degree
    note = "The sum fits; floating point of as many bits does not hold it."
    yield HardSum("wide integers", "eight", _odd_sum(dtype, half), note)
    pair = [[2**half - 1, 2]]
    yield HardSum("wide integers", "pair", _among_small(dtype, pair, 0), note)

    root = 2 ** (width // inverse.degree)
    # The least integer whose term the type does not hold.
    over = inverse.largest(int(info.max)) + 1
    note = f"{dtype.name} wraps modulo 2^{width}, as the function body in ONNX does."
    for word, choices in (
        ("one_square", [[over, 0], [over + 1, 0], [root + 1, 0]]),
        ("sum", [[over - 1] * 2, [over - 1, root // 2 + 1]]),
        ("to_zero", [[root], [root * 2], [info.max // 2 + 1]]),
        ("extremes", [[info.min, info.max], [info.max, 1], [info.max, info.max]]),
    ):
        others = 0 if word == "to_zero" else 100
        yield HardSum("wrap", word, _among_small(dtype, choices, others), note)
    yield HardSum("wrap", "any", _between(dtype, info.min, info.max), note)

    low = -100 if dtype.kind == "i" else 0
    yield HardSum("random", "small", _between(dtype, low, 100))

    note = "10,000 values, modulo 2^N."
    yield HardSum("long", "any", _between(dtype, info.min, info.max), note, 10**4)


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
