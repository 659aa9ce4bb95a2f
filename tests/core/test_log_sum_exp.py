"""Logarithms of sums of exponentials, rounded once, by two oracles.

One is `halfulp.exact`, in decimal digits; the other MPFR, where gmpy2 is installed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import halfulp
from halfulp.errors import UnsupportedTypeError
from halfulp.exact import exact, round_exact
from halfulp.reductions import LOG_SUM_EXP
from oracle import (
    CONFIGURATIONS,
    FLOATS,
    INTEGERS,
    SMALL,
    assert_same_bits,
    configuration,
    from_bits,
)

HALVES = FLOATS[:2]

by_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
by_half = pytest.mark.parametrize("dtype", HALVES, ids=str)
by_integer = pytest.mark.parametrize("dtype", INTEGERS, ids=str)


def expected(x: np.ndarray, dtype: Any = None) -> np.ndarray:
    dtype = np.dtype(dtype or x.dtype)
    return np.array([round_exact(v, dtype) for v in exact(LOG_SUM_EXP, x, 1)], dtype)


def by_mpfr(row: list[float], dtype: np.dtype) -> Any:
    """The right result of finite elements, two or more."""
    gmpy2 = pytest.importorskip("gmpy2")
    greatest = max(row)
    precision = 200
    while True:
        with gmpy2.context(
            precision=precision, emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max()
        ):
            m = gmpy2.mpfr(greatest)
            value = m + gmpy2.log(gmpy2.fsum([gmpy2.exp(gmpy2.mpfr(x) - m) for x in row]))
            size = max(1, abs(m)) * len(row)
            error = gmpy2.mpfr(2) ** (8 - precision) * size
            low, high = (
                Fraction(*map(int, end.as_integer_ratio()))
                for end in (value - error, value + error)
            )
        # It is above the greatest element.
        low = max(low, Fraction(greatest) + Fraction(1, 2**1200))
        ends = round_exact(low, dtype), round_exact(max(low, high), dtype)
        if ends[0].tobytes() == ends[1].tobytes():
            return ends[0]
        precision *= 2


def hard_rows(dtype: np.dtype) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(19)
    width = 8 * dtype.itemsize
    for n in (1, 2, 3, 9, 33):
        any_bits = rng.integers(0, 2**width - 1, (40, n), f"u{dtype.itemsize}", True)
        yield from_bits(any_bits, dtype)
    for n in (2, 3, 17, 100):
        yield rng.normal(0, 3, (40, n)).astype(dtype)
    # The exponentials sum to 1 nearly, so that the logarithm is about 0, of either sign.
    yield (rng.normal(0, 1e-3, (40, 2)) - math.log(2)).astype(dtype)
    yield np.log(1 / rng.integers(2, 50, (40, 5))).astype(dtype)
    # One dominates: 0, or something tiny, and what is less.
    for greatest in (0.0, -0.0, 2.0**-24, -(2.0**-24), 1e-30, 1.0, -3.0):
        less = greatest - np.array([1, 20, 39, 80, 103, 104, 120, 600, 745, 746, 1e4])
        yield np.stack([np.full(11, greatest), less], 1).astype(dtype)
    for greatest in (0.0, 2.0**-24, -1e-30):
        less = np.repeat([5, 14, 30, 60, 104, 480, 484, 486, 600, 700, 745, 790, 801], 2)
        many = greatest - less[:, None] + rng.uniform(-3, 0, (26, 9))
        many[:, 4] = greatest
        many[1::2, 5:] = -np.inf
        yield many.astype(dtype)
    yield rng.uniform(-800, 800, (20, 40)).astype(dtype)
    # Every one is greater than those before, by more than sums are shifted for.
    yield np.sort(rng.uniform(-60000, 60000, (4, 6000)), axis=1).astype(dtype)
    yield (np.arange(5000) * 0.25 - 900).astype(dtype)[None]
    huge = float(np.finfo(dtype).max) if dtype in FLOATS[1:] else 3e38
    yield np.array([[huge, -huge], [-huge, huge], [huge, huge], [-huge, -huge]], dtype)


@by_float
def test_hard_rows_are_right(dtype: np.dtype) -> None:
    for x in hard_rows(dtype):
        assert_same_bits(halfulp.logsumexp(x, axis=1), expected(x))


@by_float
def test_a_second_oracle_says_the_same(dtype: np.dtype) -> None:
    rng = np.random.default_rng(20)
    for scale in (1e-3, 1, 30):
        x = rng.normal(0, scale, (60, 7)).astype(dtype)
        want = np.array([by_mpfr([float(v) for v in row], dtype) for row in x], dtype)
        assert_same_bits(halfulp.logsumexp(x, axis=1), want)
        assert_same_bits(expected(x), want)


def test_float32_is_what_float64_says() -> None:
    # Whose results are next to no middle of two numbers of binary32, here.
    rng = np.random.default_rng(19)
    x = rng.normal(0, 1, (2**18, 3)).astype(np.float32)
    want = halfulp.logsumexp(x.astype(np.float64), axis=1).astype(np.float32)
    assert_same_bits(halfulp.logsumexp(x, axis=1), want)


@by_half
def test_one_element_gives_itself(dtype: np.dtype) -> None:
    x = from_bits(np.arange(2**16, dtype=np.uint16), dtype)
    want = x.copy()
    size = x.view(np.uint16) & 0x7FFF
    is_nan = size > np.array(np.inf, dtype).view(np.uint16)
    want[is_nan] = np.nan
    bits = want.view(np.uint16)
    bits[is_nan] = bits[is_nan] & 0x7FFF
    bits[size == 0] = 0
    assert_same_bits(halfulp.logsumexp(x[:, None], axis=1), want)
    # Alone, or with what adds nothing.
    two = np.stack([np.full(x.shape, -np.inf, dtype), x], 1)
    assert_same_bits(halfulp.logsumexp(two, axis=1), want)


@by_half
def test_every_half_with_itself_is_right(dtype: np.dtype) -> None:
    x = from_bits(np.arange(2**16, dtype=np.uint16), dtype)
    x = x[x.view(np.uint16) & 0x7FFF < np.array(np.inf, dtype).view(np.uint16)]
    got = halfulp.logsumexp(np.stack([x, x], 1), axis=1)
    # x + log 2, of which binary64 has more digits than rounding twice could show: no
    # half is as near to a middle of two, less log 2.
    want = (x.astype(float) + math.log(2)).astype(dtype)
    assert_same_bits(got, want)


@by_float
def test_infinities_nan_and_nothing(dtype: np.dtype) -> None:
    inf, nan = math.inf, math.nan
    rows = np.array(
        [[-inf, -inf], [inf, -inf], [inf, inf], [nan, inf], [-inf, nan], [1, -inf]]
    ).astype(dtype)
    want = np.array([-inf, inf, inf, nan, nan, 1]).astype(dtype)
    assert_same_bits(halfulp.logsumexp(rows, axis=1), want)
    far = np.zeros((4, 9001), dtype)
    far[0, 9000], far[1, 0], far[1, 9000], far[2, 17] = nan, inf, nan, inf
    far[3] = -inf
    want = np.array([nan, nan, inf, -inf]).astype(dtype)
    assert_same_bits(halfulp.logsumexp(far, axis=1), want)
    empty = halfulp.logsumexp(np.empty((2, 0), dtype), axis=1)
    assert_same_bits(empty, np.array([-inf, -inf]).astype(dtype))


@by_float
def test_short_rows_and_columns_are_right_on_every_processor(dtype: np.dtype) -> None:
    rng = np.random.default_rng(21)
    inf, nan = math.inf, math.nan
    for n in (1, 2, 7, 9, 33, 64, 65, 70):
        x = rng.normal(0, 4, (41, n))
        x[3] = -inf
        x[4, n // 2] = inf
        x[5, n - 1] = nan
        x[6, : n // 2] = -inf
        # Blocks of which later ones are far greater.
        x[7] = np.arange(n) * 20 - 400
        x[8] = x[7, ::-1]
        x[9] -= math.log(n) + 8
        x[10, : n - 1] -= 100
        x = x.astype(dtype)
        want = expected(x)
        middle = np.ascontiguousarray(x[:40].reshape(2, 20, n).transpose(0, 2, 1))
        for target, threads in CONFIGURATIONS[:: 1 if n in (7, 70) else 3]:
            with configuration(target, threads):
                assert_same_bits(halfulp.logsumexp(x, axis=1), want)
                assert_same_bits(halfulp.logsumexp(x.T.copy(), axis=0), want)
                assert_same_bits(halfulp.logsumexp(x[::-1, :].T, axis=0), want[::-1])
                got = halfulp.logsumexp(middle, axis=1)
                assert_same_bits(got, want[:40].reshape(2, 20))


def test_two_that_are_as_great_are_both_counted_where_others_hardly_are() -> None:
    # M + log 2 is next to a middle of two numbers, where only M tells on which side.
    gmpy2 = pytest.importorskip("gmpy2")
    with gmpy2.context(precision=400):
        log2 = gmpy2.log(gmpy2.mpfr(2))
        places = int(log2 * 2**53)
        rows = []
        for i in range(1, 40):
            middle = (gmpy2.mpfr(places + i) + 0.5) / 2**53
            m = float(middle - log2)
            rows.append([m, m, m - 90])
    x = np.array(rows)
    assert_same_bits(halfulp.logsumexp(x, axis=1), expected(x))


def test_what_is_next_to_0_takes_no_longer_than_other_rows() -> None:
    # Of 300 places it took milliseconds each.
    x = np.full((400, 9), -744.5)
    x[:, 3] = 0
    start = time.perf_counter()
    halfulp.logsumexp(x, axis=1)
    assert time.perf_counter() - start < 0.4


@by_integer
def test_of_integers_they_are_cut_in_onnx_and_doubles_in_numpy(dtype: np.dtype) -> None:
    rng = np.random.default_rng(19)
    limits = np.iinfo(dtype)
    for x in (
        rng.integers(limits.min, limits.max, (60, 3), dtype, True),
        rng.integers(max(limits.min, -9), 9, (200, 5)).astype(dtype),
        np.repeat(np.arange(0, 9).astype(dtype)[:, None], 7, axis=1),
        np.full((1, 9), limits.min + 2, dtype),
        np.full((1, 9), limits.max - 9, dtype),
    ):
        got = halfulp.reduce_log_sum_exp(x, [1], keepdims=0)
        assert_same_bits(got, expected(x))
        assert_same_bits(halfulp.logsumexp(x, axis=1), expected(x, np.float64))
    none = halfulp.reduce_log_sum_exp(np.empty((1, 0), dtype), [1], keepdims=0)
    assert none.item() == limits.min


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_small_integers_are_doubles(dtype: np.dtype) -> None:
    x = np.array([[0, 1, 1], [1, 1, 1]]).astype(dtype)
    want = expected(x.astype(np.int64), np.float64)
    assert_same_bits(halfulp.logsumexp(x, axis=1), want)


def test_another_type_is_rounded_to_once() -> None:
    # Next to the middle of two numbers of the result's type.
    x = np.array([[1 + 2.0**-24, -1e4], [1 + 3 * 2.0**-24, -1e4], [2.0**-150, -1e4]])
    want = expected(x, np.float32)
    assert want[0] == np.float32(1 + 2.0**-23)
    assert_same_bits(halfulp.logsumexp(x, axis=1, dtype=np.float32), want)
    assert_same_bits(
        halfulp.logsumexp(x.astype(np.float32), axis=1, dtype=np.float64),
        expected(x.astype(np.float32), np.float64),
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bits_are_the_same_in_any_layout_on_any_processor(dtype: np.dtype) -> None:
    rng = np.random.default_rng(19)
    x = (rng.normal(0, 1, (12, 1500)) * 10).astype(dtype)
    x[3] = np.sort(x[3]) * np.array(40, dtype)
    want = expected(x)
    swapped = x.astype(x.dtype.newbyteorder())
    middle = np.ascontiguousarray(x.reshape(2, 6, 1500).transpose(0, 2, 1))
    layouts = [
        (x, 1),
        (np.ascontiguousarray(x.T), 0),
        (np.repeat(x, 2, axis=1)[:, ::-2], 1),
        (swapped, 1),
        (x.reshape(12, 5, 300).transpose(1, 0, 2), (0, 2)),
    ]
    for target, threads in CONFIGURATIONS:
        with configuration(target, threads):
            for each, axis in layouts:
                got = halfulp.logsumexp(each, axis=axis)
                assert_same_bits(got.astype(dtype), want)
            got = halfulp.logsumexp(middle, axis=1)
            assert_same_bits(got, want.reshape(2, 6))
            flat = halfulp.logsumexp(x[3])
            assert_same_bits(flat, want[3])


def test_sums_made_to_be_next_to_a_middle_end() -> None:
    gmpy2 = pytest.importorskip("gmpy2")
    # e to the power of a middle, as more and more exponentials: each takes 50 bits off.
    with gmpy2.context(precision=2000):
        middle = gmpy2.mpfr(1.5) + gmpy2.mpfr(2) ** -53
        rest, row = gmpy2.exp(middle), []
        for _ in range(25):
            row.append(math.nextafter(float(gmpy2.log(rest)), -math.inf))
            rest -= gmpy2.exp(gmpy2.mpfr(row[-1]))
    assert rest > 0
    for n in range(2, len(row)):
        x = np.array([row[:n]])
        assert_same_bits(halfulp.logsumexp(x, axis=1), expected(x))


def test_what_is_not_reduced_is_itself() -> None:
    x = np.array([0, -0.0, 1, -np.inf, 3e38], np.float32)
    assert_same_bits(halfulp.reduce_log_sum_exp(x, noop_with_empty_axes=1), x)


def test_what_is_refused() -> None:
    with pytest.raises(UnsupportedTypeError, match="complex"):
        halfulp.logsumexp(np.zeros(3, complex))
    with pytest.raises(UnsupportedTypeError, match="masked"):
        halfulp.logsumexp(np.ma.masked_array([1.0, 2], [True, False]))
