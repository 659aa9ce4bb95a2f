"""Rows of integers whose sums of squares floating point cannot hold, or that wrap.

May import bits and floats only.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from halfulp.conformance.floats import DType, Generator, Rows

_LENGTH = 33
_LANES = 3


def wide(dtype: DType, rng: Generator) -> Iterator[Rows]:
    """Sums that fit, and that floats of as many bits do not hold."""
    # Eight squares below 2^(2 * half) fit.
    half = (8 * dtype.itemsize - (dtype.kind == "i") - 3) // 2
    rows = rng.integers(2 ** (half - 1), 2**half, (_LANES, 8), dtype) | 1
    rows[:, 1] &= ~dtype.type(1)
    note = "The sum fits; floating point of as many bits does not hold it."
    yield "wide integers", "eight", rows, note
    pair = [2**half - 1, 2]
    yield "wide integers", "pair", np.array([pair] * _LANES, dtype), note


def wrap(dtype: DType, rng: Generator) -> Iterator[Rows]:
    """Squares and sums that do not fit: they are taken modulo 2^N."""
    info = np.iinfo(dtype)
    width = 8 * dtype.itemsize
    root = 2 ** (width // 2)
    # The least integer whose square the type does not hold.
    over = root if dtype.kind == "u" else int(root / 2**0.5) + 1
    note = f"{dtype.name} wraps modulo 2^{width}, as the function body in ONNX does."
    for word, rows in (
        ("one_square", [[over, 0], [over + 1, 0], [root + 1, 0]]),
        ("sum", [[over - 1] * 2, [over - 1, root // 2], [root // 2] * 2]),
        ("to_zero", [[root], [root * 2], [info.max // 2 + 1]]),
        ("extremes", [[info.min, info.max], [info.max, 1], [info.max, info.max]]),
    ):
        wrapped = [[value & (2**width - 1) for value in row] for row in rows]
        array = np.array(wrapped, f"u{dtype.itemsize}").view(dtype)
        yield "wrap", word, array, note
    shape = (_LANES, _LENGTH)
    any_values = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    yield "wrap", "any", any_values, note


def random(dtype: DType, rng: Generator) -> Iterator[Rows]:
    """Small values."""
    low = -100 if dtype.kind == "i" else 0
    yield "random", "small", rng.integers(low, 101, (_LANES, _LENGTH), dtype), ""


def long(dtype: DType, rng: Generator) -> Iterator[Rows]:
    """Long sums."""
    yield "long", "threes_1e5", np.full((1, 10**5), 3, dtype), "100,000 times 3."
    info = np.iinfo(dtype)
    rows = rng.integers(info.min, info.max, (_LANES, 10**4), dtype, endpoint=True)
    yield "long", "any_1e4", rows, "10,000 values, modulo 2^N."


INTEGERS = (wide, wrap, random, long)
