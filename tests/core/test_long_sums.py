"""Long sums of elements with signs: most are exact at once, others are summed again."""

from __future__ import annotations

import numpy as np
import pytest

from halfulp.reductions import SUM
from oracle import (
    FLOATS,
    assert_reduced,
    bits,
    expected_of,
    from_bits,
    some_configurations,
)

by_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)

# About strides, and the blocks that are looked at.
LENGTHS = (321, 1000, 4096 + 77, 2 * 4096 + 130)


def _integers(
    rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]
) -> np.ndarray:
    """Numbers whose sums are never rounded."""
    return rng.integers(-9, 10, shape).astype(dtype)


def _far_apart(dtype: np.dtype) -> list[np.ndarray]:
    """A large number, its opposite, and the least: only their sum has few bits."""
    large = from_bits(bits(np.array([np.inf], dtype)) - 2, dtype)[0]
    return [large, -large, from_bits([1], dtype)[0]]


@by_float
def test_what_does_not_fit_is_found_in_every_place_of_a_row(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    for n in LENGTHS:
        edges = {0, 1, 63, 64, 319, 4093, 4095, 4096, 8191, n - 77, n - 3, n - 2, n - 1}
        places = sorted(i for i in edges if 0 <= i < n)
        x = _integers(rng, dtype, (len(places), n))
        for row, place in zip(x, places, strict=True):
            for i, value in enumerate(_far_apart(dtype)):
                row[(place + i) % n] = value
        assert_reduced(SUM, expected_of(SUM, x, 1), x, 1, some_configurations(rng))


@by_float
def test_lanes_that_are_exact_are_joined_without_a_loss(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    large, _, least = _far_apart(dtype)
    ulp = float(large) - float(from_bits(bits(large) - 1, dtype))
    for n in LENGTHS:
        x = np.zeros((20, n), dtype)
        for row in x:
            places = rng.choice(n, 4, replace=False)
            # A tie, if the last is not there.
            row[places] = [large, ulp, ulp / 2, rng.choice([-1, 0, 1]) * float(least)]
            row[places[1]] *= rng.integers(2)
        assert_reduced(SUM, expected_of(SUM, x, 1), x, 1, some_configurations(rng))


@by_float
def test_what_does_not_fit_is_found_in_every_place_of_a_column(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    rows, columns = 197, 1100
    x = _integers(rng, dtype, (rows, columns))
    for j in (0, 1, 31, 32, 511, 512, 1023, 1024, columns - 2, columns - 1):
        row = int(rng.choice([0, 6, 7, 8, 63, 64, 65, rows - 5, rows - 3]))
        x[row : row + 3, j] = _far_apart(dtype)
    assert_reduced(SUM, expected_of(SUM, x, 0), x, 0, some_configurations(rng))


@by_float
def test_data_that_never_fit_may_change_to_such_that_do(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    shape = (900, 140)
    x = _integers(rng, dtype, shape)
    wide = slice(100, 500)
    exponents = rng.integers(-14 if dtype == np.float16 else -60, 9, (400, shape[1]))
    x[wide] = (rng.standard_normal((400, shape[1])) * np.exp2(exponents)).astype(dtype)
    some = some_configurations(rng)
    assert_reduced(SUM, expected_of(SUM, x, 0), x, 0, some)
    assert_reduced(SUM, expected_of(SUM, x), x, None, some)


def test_long_sums_that_cancel_to_nothing_or_to_one_unit(
    rng: np.random.Generator,
) -> None:
    half = rng.standard_normal(150_000)
    zero = np.concatenate((half, -half[::-1]))
    units = {0.0: zero}
    for steps in (-1, 1):
        x = zero.copy()
        x[:1] = from_bits(bits(x[:1]) + np.uint64(steps % 2**64), x.dtype)
        units[x[0] + x[-1]] = x
    for total, x in units.items():
        for case, axis in ((x, 0), (np.tile(x[:, None], 9), 0)):
            expected = np.full(case.shape[1:], total)[()]
            assert_reduced(SUM, expected, case, axis, some_configurations(rng))
