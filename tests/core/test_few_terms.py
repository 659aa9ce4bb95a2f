"""Results of few terms, most of them exact sums: ties, zeros, and what just is not."""

from __future__ import annotations

import numpy as np
import pytest

import halfulp
from halfulp.conformance.bits import from_bits
from halfulp.reductions import L1, L2, MEAN, SUM, SUM_SQUARE, Reduction
from oracle import (
    FLOATS,
    assert_reduced,
    expected_of,
    some_configurations,
)
from rows import by_row

LENGTHS = (2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 33, 64)

by_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def _check(rng: np.random.Generator, row: Reduction, x: np.ndarray) -> None:
    """Rows, and the same as few rows of many columns."""
    want = expected_of(row, x, 1)
    assert_reduced(row, want, x, 1, some_configurations(rng))
    assert_reduced(row, want, np.ascontiguousarray(x.T), 0, some_configurations(rng))


@by_float
@by_row
def test_integers_are_ties_and_zeros(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> None:
    for n in LENGTHS:
        bits = {2: 6, 4: 23, 8: 50}[dtype.itemsize] // (2 if row.term == "square" else 1)
        x = rng.integers(-(2**bits), 2**bits, (83, n)).astype(float)
        x[::3, 1::2] = -x[::3, 0 : n // 2 * 2 : 2]  # zeros, of an even length
        _check(rng, row, x.astype(dtype))


@pytest.mark.parametrize("n", LENGTHS)
def test_means_of_float64_are_ties_and_next_to_ties(
    rng: np.random.Generator, n: int
) -> None:
    rows = 160
    x = np.empty((rows, n))
    for i in range(rows):
        middle = (2**53 + int(rng.integers(0, 2**52))) * 2 + 1  # of 54 bits
        total = middle * n + (i % 3 - 1) * (i % 2)
        parts = [int(v) for v in rng.integers(-(2**52), 2**52, n - 2)]
        rest = total - sum(parts)
        x[i] = [*parts, rest >> 10 << 10, rest & 1023]
    x *= np.where(rng.integers(0, 2, (rows, 1)) == 0, 1.0, -1.0)
    x *= 2.0 ** rng.integers(-40, 40, (rows, 1))
    _check(rng, MEAN, x)


@pytest.mark.parametrize("spread", [12, 20, 26, 30, 60])
@by_float
@by_row
def test_elements_of_sizes_that_just_fit_and_just_do_not(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype, spread: int
) -> None:
    for n in (2, 5, 8, 16, 33):
        x = rng.standard_normal((67, n)) * 2.0 ** rng.integers(-spread, 1, (67, n))
        _check(rng, row, x.astype(dtype))


@pytest.mark.parametrize(
    "special", [0x7FF0000000000001, 0xFFF0000000000001, 0x7FF0 << 48]
)
@pytest.mark.parametrize("row", [SUM, MEAN, L1, L2, SUM_SQUARE], ids=lambda row: row.name)
def test_a_nan_with_few_bits_set_is_no_infinity(
    rng: np.random.Generator, row: Reduction, special: int
) -> None:
    for n in (2, 3, 8, 19):
        x = rng.standard_normal((40, n))
        for i in range(0, 40, 3):
            x[i, i % n] = from_bits(np.array(special, np.uint64), x.dtype)
        _check(rng, row, x)


@by_float
def test_the_mean_of_no_terms_is_nan_beside_others(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    x = rng.integers(-9, 9, (50, 6)).astype(dtype)
    where = rng.integers(0, 2, x.shape).astype(bool)
    where[::5] = False
    got = halfulp.mean(x, axis=1, where=where)
    counts = where.sum(axis=1)
    assert np.array_equal(np.isnan(got.astype(float)), counts == 0)
    sums = np.where(where, x, 0).astype(float).sum(axis=1)
    want = (sums[counts > 0] / counts[counts > 0]).astype(dtype)
    assert np.array_equal(got[counts > 0].astype(float), want.astype(float))


@by_float
def test_rows_that_end_with_the_memory_are_read_to_their_end_and_no_further(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    for n in (3, 5, 7, 9, 31):
        memory = np.full(67 * n + 64, np.nan).astype(dtype)
        x = memory[16 : 16 + 67 * n].reshape(67, n)
        x[:] = rng.standard_normal(x.shape)
        _check(rng, SUM, x)
        want = expected_of(SUM, x, 1)
        assert_reduced(SUM, want, x, 1, some_configurations(rng))
        spread = memory[: 66 * n].reshape(33, 2 * n)[:, :n]
        spread[:] = rng.standard_normal(spread.shape)
        assert_reduced(
            SUM, expected_of(SUM, spread, 1), spread, 1, some_configurations(rng)
        )
