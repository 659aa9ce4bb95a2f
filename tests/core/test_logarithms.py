"""The logarithm of the exact sum, rounded once, of every type, by two oracles.

One is `halfulp.exact`, in decimal digits; the other MPFR, where gmpy2 is installed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import halfulp
from halfulp.exact import exact, round_exact
from halfulp.reductions import LOG_SUM
from oracle import (
    CONFIGURATIONS,
    FLOATS,
    INTEGERS,
    assert_same_bits,
    configuration,
    from_bits,
)

HALVES = FLOATS[:2]

by_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
by_half = pytest.mark.parametrize("dtype", HALVES, ids=str)
by_integer = pytest.mark.parametrize("dtype", INTEGERS, ids=str)


def expected_log_sum(x: np.ndarray) -> np.ndarray:
    values = exact(LOG_SUM, x, 1)
    return np.array([round_exact(value, x.dtype) for value in values], x.dtype)


def log_sum(x: np.ndarray) -> Any:
    return halfulp.reduce_log_sum(x, [1], keepdims=0)


@by_half
def test_every_half_is_right(dtype: np.dtype) -> None:
    gmpy2 = pytest.importorskip("gmpy2")
    x = from_bits(np.arange(2**16, dtype=np.uint16), dtype)
    got = log_sum(x[:, None])
    with np.errstate(invalid="ignore"):
        number = x.astype(float)
    nearest = np.array([float(gmpy2.log(value)) for value in number.tolist()])
    # A logarithm so near to the middle of two halves that rounding it twice shows would
    # differ from that middle by less than 2^-53 of it.
    with np.errstate(all="ignore"):
        want = nearest.astype(dtype)
    want[np.isnan(nearest)] = np.nan
    bits = want.view(np.uint16)
    bits[np.isnan(nearest)] = np.array(np.nan, dtype).view(np.uint16) & 0x7FFF
    assert_same_bits(got, want)


def hard_rows(dtype: np.dtype) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(19)
    width = 8 * dtype.itemsize
    any_bits = rng.integers(0, 2**width - 1, (300, 1), f"u{dtype.itemsize}", True)
    yield from_bits(any_bits, dtype)
    yield from_bits(any_bits.reshape(-1, 3), dtype)
    yield rng.uniform(0, 2, (200, 7)).astype(dtype)
    yield rng.normal(0, 1, (50, 700)).astype(dtype)
    eps = float(ml_dtypes.finfo(dtype).eps)
    yield (1 + rng.integers(-3, 4, (50, 1)) * eps).astype(dtype)
    # Next to 1, by as little as there is.
    least = {"bfloat16": 133, "float16": 24, "float32": 149, "float64": 1074}[dtype.name]
    near_1 = np.zeros((2 * least, 33), dtype)
    near_1[:, 0] = 1
    near_1[:, 32] = np.outer((1, -1), 2.0 ** -np.arange(1, least + 1)).ravel()
    yield near_1
    yield np.float64(
        [[0.5, 0.25, 0.25], [3, -1, -1], [1, -1, 0], [-0.0, -0.0, 0]]
    ).astype(dtype)
    yield np.float64([[math.inf, 1], [-math.inf, 1], [math.nan, 1], [-1, 0.5]]).astype(
        dtype
    )
    largest = float(ml_dtypes.finfo(dtype).max)
    yield np.array([[largest] * 3, [-largest, largest, 1]]).astype(dtype)
    yield np.empty((2, 0), dtype)


@by_float
def test_logarithms_of_sums_are_right(dtype: np.dtype) -> None:
    for x in hard_rows(dtype):
        assert_same_bits(log_sum(x), expected_log_sum(x))


@by_integer
def test_of_integers_they_are_cut_and_the_least_is_none(dtype: np.dtype) -> None:
    rng = np.random.default_rng(19)
    limits = np.iinfo(dtype)
    low = -3 if limits.min else 0
    powers = [[round(math.exp(k)) + d] for k in range(1, 21) for d in (-1, 0, 1)]
    for x in (
        rng.integers(limits.min, limits.max, (200, 3), dtype, True),
        rng.integers(low, 9, (200, 3)).astype(dtype),
        np.array(powers, dtype),
        np.full((2, 5), limits.max, dtype),
        np.full((2, 5), limits.min, dtype),
        np.empty((2, 0), dtype),
    ):
        assert_same_bits(log_sum(x), expected_log_sum(x))
    assert log_sum(np.zeros((1, 2), dtype)).item() == limits.min


def test_bits_are_the_same_everywhere() -> None:
    rng = np.random.default_rng(19)
    x = rng.uniform(0, 2, (40, 3000)).astype(np.float32)
    want = expected_log_sum(x)
    columns = x.T.copy()
    for target, threads in CONFIGURATIONS:
        with configuration(target, threads):
            assert_same_bits(log_sum(x), want)
            by_columns = halfulp.reduce_log_sum(columns, [0], keepdims=0)
            assert_same_bits(by_columns, want)


def test_an_element_that_is_not_reduced_has_its_logarithm() -> None:
    x = np.array([0, -0.0, 1, 2, -1], np.float32)
    got = halfulp.reduce_log_sum(x, noop_with_empty_axes=1)
    assert_same_bits(got, log_sum(x[:, None]))


def test_sums_made_of_what_a_logarithm_is_next_to_a_middle_end() -> None:
    gmpy2 = pytest.importorskip("gmpy2")
    # e to the power of a middle, in more and more numbers of binary64.
    with gmpy2.context(precision=3000):
        middle = gmpy2.mpfr(1.5) + gmpy2.mpfr(2) ** -53
        rest, row = gmpy2.exp(middle), []
        for _ in range(19):
            row.append(float(rest))
            rest -= gmpy2.mpfr(row[-1])
    for n in range(1, 20):
        x = np.array([row[:n]])
        assert_same_bits(log_sum(x), expected_log_sum(x))
