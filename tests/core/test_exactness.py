"""Every result is correctly rounded: bits, against the oracle."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import halfulp
import signed_rows
from adversarial import hard
from halfulp.conformance.cases import hard_rows
from halfulp.conformance.cases.preimages import terms_that_sum_to
from halfulp.reductions import SUM_SQUARE, SUMS, Reduction
from oracle import (
    BFLOAT16,
    FLOATS,
    INTEGERS,
    PRECISION,
    assert_reduced,
    assert_same_bits,
    assert_sum_square,
    bits,
    expected_of,
    from_bits,
    function_of,
    some_configurations,
)
from oracle import expected_sum_square as expected
from rows import by_row

LENGTHS = (1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 65)
ROWS = 300

by_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
by_integer = pytest.mark.parametrize("dtype", INTEGERS, ids=str)


def test_the_plan_compares_at_least_200_000_reductions() -> None:
    floats = len(FLOATS) * len(hard_rows.FAMILIES) * len(LENGTHS) * ROWS
    integers = len(INTEGERS) * len(LENGTHS) * 10 * ROWS
    assert floats + integers >= 200_000


@pytest.mark.parametrize("family", hard_rows.FAMILIES, ids=lambda f: f.__name__)
@by_float
def test_hard_rows_are_correctly_rounded(
    rng: np.random.Generator, dtype: np.dtype, family: hard_rows.Family
) -> None:
    for n in LENGTHS:
        x = family(rng, dtype, ROWS, n)
        want = expected(x, 1)
        assert_sum_square(want, x, 1)
        assert_sum_square(want, np.asfortranarray(x), 1)


@pytest.mark.parametrize("target", FLOATS, ids=lambda t: f"to_{t}")
@by_float
@by_row
def test_results_are_rounded_once_to_any_float_type(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype, target: np.dtype
) -> None:
    for family in (*hard_rows.FAMILIES, *signed_rows.FAMILIES):
        x = hard(family, row.term, row.finish, target)(rng, dtype, 12, 33)
        want = expected_of(row, x, 1, target)
        assert_reduced(row, want, x, 1, some_configurations(rng), dtype=target)


@pytest.mark.parametrize("target", FLOATS, ids=lambda t: f"to_{t}")
@by_float
@by_row
def test_midpoints_of_another_type_are_not_rounded_twice(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype, target: np.dtype
) -> None:
    ties = hard(hard_rows.ties_and_neighbours, row.term, row.finish, target)
    x = ties(rng, dtype, 200, 33)
    want = expected_of(row, x, 1, target)
    assert_reduced(row, want, x, 1, some_configurations(rng), dtype=target)
    columns = np.ascontiguousarray(x.T)
    assert_reduced(row, want, columns, 0, some_configurations(rng), dtype=target)


def test_the_head_of_the_row_before_may_be_2_to_the_20_too_high(
    rng: np.random.Generator,
) -> None:
    """Rows of float64 that just keep and just miss the guess for their biased head."""
    x = hard_rows.ties_and_neighbours(rng, np.dtype(np.float64), 150, 1024)
    x[np.isinf(x) | (np.abs(x) > 2.0**400)] = 1
    x[0] = 1
    for i in range(1, len(x)):
        # A head is 2 to 4 times a row's sum, and kept for sums above its 2^-20th part.
        below = 2.0 ** rng.uniform(-21, -17)
        norm = np.sqrt(np.square(x[i]).sum())
        scale = np.sqrt(below * np.square(x[i - 1]).sum()) / norm if i % 2 else 1 / norm
        x[i] *= 2.0 ** np.round(np.log2(scale)) if i % 3 else scale
    assert_sum_square(expected(x, 1), x, 1)


@by_integer
def test_integers_are_exact_modulo_2_to_the_n(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    info = np.iinfo(dtype)
    for n in LENGTHS:
        x = rng.integers(info.min, info.max, (10 * ROWS, n), dtype=dtype, endpoint=True)
        x[::3] %= 1000
        want = expected(x, 1)
        assert_sum_square(want, x, 1)
        assert_sum_square(want, np.asfortranarray(x), 1)


def test_a_checked_sum_whose_low_128_bits_are_0_does_not_fit() -> None:
    x = np.full(4, 2**63, np.uint64)
    assert_sum_square(np.uint64(0), x)
    with pytest.raises(halfulp.SumOverflowError, match=str(2**128)):
        halfulp.sum_square(x, overflow="raise")


@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype(np.float16)], ids=str)
def test_all_65536_values_of_a_half_type_are_squared_correctly(dtype: np.dtype) -> None:
    x = from_bits(np.arange(65536), dtype)
    want = expected(x, ())
    assert_sum_square(want, x, ())
    assert_sum_square(want, x.reshape(-1, 1), 1)
    assert_sum_square(want, x.reshape(1, -1), 0)


@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype(np.float16)], ids=str)
def test_all_65536_values_of_a_half_type_are_themselves_or_their_size(
    dtype: np.dtype,
) -> None:
    x = from_bits(np.arange(65536), dtype)
    quiet = bits(np.array(np.inf, dtype))
    quiet |= 1 << PRECISION[dtype.name] - 2
    raw = np.where(np.isnan(x.astype("f4")), quiet, bits(x))
    value = np.where(raw == bits(-np.zeros((), dtype)), 0, raw)
    size = raw & ~bits(-np.zeros((), dtype))
    for row in SUMS:
        if row is SUM_SQUARE:
            continue
        want = from_bits(value if row.term == "value" else size, dtype)
        assert_reduced(row, want, x, ())
        assert_reduced(row, want, x.reshape(-1, 1), 1)
        assert_reduced(row, want, x.reshape(1, -1), 0)


@by_float
@by_row
def test_permutations_give_the_same_bits(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> None:
    for family in (*hard_rows.FAMILIES, *signed_rows.FAMILIES):
        x = hard(family, row.term, row.finish, dtype)(rng, dtype, 20, 100)
        want = function_of(row)(x, 1)
        permuted = rng.permuted(x, axis=1)
        assert_reduced(row, want, permuted, 1, some_configurations(rng))


@by_float
@by_row
def test_long_rows_straddle_every_block(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> None:
    for n in (127, 4095, 4096, 4097, 16383, 16385, 65537):
        x = rng.standard_normal((2, n)).astype(dtype)
        if n % 2:  # what cancels
            x[:, n // 2 : n - 1] = -x[:, : n // 2][:, ::-1]
        want = expected_of(row, x, 1)
        some = some_configurations(rng)
        assert_reduced(row, want, x, 1, some)
        assert_reduced(row, want, np.asfortranarray(x), 1, some)
        assert_reduced(row, expected_of(row, x), x, None, some)


def _around_a_midpoint(odd: int, missing: int, small: int, count: int) -> list[float]:
    """Elements of which the first miss the midpoint 1 + odd * 2^-53 by 2^missing.

    Each of the others has a square just below 2^small, which is lost beside the low
    part of the first; together they pass the midpoint.
    """
    total = (odd << 67) - 2 ** (120 + missing)
    rest = terms_that_sum_to("square", total, "float64", 20)
    first = [1.0, *(root * 2.0**-60 for root in rest)]
    terms = first + [np.sqrt(0.98 * 2.0**small)] * (count - len(first))
    assert expected(np.array(terms)) == expected(np.array(first)) + 2.0**-52
    return terms


@pytest.mark.parametrize("stride", [1, 8, 16, 64])
@pytest.mark.parametrize(
    ("odd", "missing", "small", "count"), [(1, -99, -107, 500), (31, -95, -102, 250)]
)
def test_terms_too_small_for_a_lane_count_together(
    odd: int, missing: int, small: int, count: int, stride: int
) -> None:
    # In the low part of a lane, of the compensated sum or of the biased one.
    terms = _around_a_midpoint(odd, missing, small, count)
    x = np.zeros((1, 512 * stride))
    x[0, : stride * count : stride] = terms
    want = expected(x, 1)
    assert_sum_square(want, x, 1)
    assert_sum_square(np.repeat(want, 3), np.repeat(x.T, 3, axis=1), 0)


def test_terms_too_small_for_a_state_count_together() -> None:
    # Three columns are a row of the kernel, so that each term comes to the state alone.
    x = np.zeros((2000, 2, 3))
    x[:, :, 1] = np.array(_around_a_midpoint(1, -98, -107, 2000))[:, None]
    assert_sum_square(expected(x, (0, 2)), x, (0, 2))


@by_float
@by_row
def test_many_columns_straddle_every_tile(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> None:
    for n in (1023, 1024, 1025, 2049):
        x = rng.standard_normal((5, n)).astype(dtype)
        x[1, ::3] = -x[0, ::3]
        some = some_configurations(rng)
        assert_reduced(row, expected_of(row, x, 0), x, 0, some)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
def test_ties_that_binary32_cannot_tell_are_not_rounded_twice(dtype: type) -> None:
    # 2^-134 is half the least bfloat16; in binary32, 2^-134 + 2^-154 is the same.
    x = np.array([[2.0**-67, 2.0**-77], [2.0**-67, 0]], dtype)
    want = np.array([2.0**-133, 0], BFLOAT16)
    assert_sum_square(want, x, 1, dtype=BFLOAT16)
    assert_sum_square(want, x.T.copy(), 0, dtype=BFLOAT16)


@by_float
@by_row
def test_ties_of_few_columns_side_by_side(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> None:
    ties = hard(hard_rows.ties_and_neighbours, row.term, row.finish, dtype)
    x = np.ascontiguousarray(ties(rng, dtype, 60, 2048).T)
    x = rng.permuted(x, axis=0)
    assert_reduced(row, expected_of(row, x, 0), x, 0, some_configurations(rng))


@by_float
@by_row
def test_many_equal_terms_do_not_drift(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> None:
    x = np.full(300_001, -0.1).astype(dtype)
    some = some_configurations(rng)
    want = expected_of(row, x, None, "f8")
    assert_reduced(row, want, x, None, some, dtype=np.float64)
    assert_reduced(row, expected_of(row, x), x, None, some)
    if row.finish == "mean":
        assert_same_bits(expected_of(row, x), np.asarray(x[0]))


@by_float
@by_row
def test_sums_of_many_equal_ties_go_to_even(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> None:
    # 2^p + 1 is a midpoint; it is reached by many ones.
    p = min(PRECISION[dtype.name], 14)
    big = 2.0 ** (PRECISION[dtype.name] // 2) if dtype.name != "float16" else 32.0
    for more in range(4):
        x = np.array([big] * 2 + [1.0] * (2**p + more)).astype(dtype)
        assert_reduced(row, expected_of(row, x), x, None, some_configurations(rng))


@by_float
def test_bits_of_the_oracle_are_those_of_the_hardware(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    # One square: the multiplication of the type itself, or of a wider one, rounds it.
    x = hard_rows.normal_values(rng, dtype, 1000, 1)[:, 0]
    wide = np.float64 if dtype.itemsize < 8 else dtype
    assert np.array_equal(
        bits((x.astype(wide) ** 2).astype(dtype)), bits(expected(x, ()))
    )


@by_float
def test_hard_rows_hold_exact_ties_and_their_neighbours(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    x = hard_rows.ties_and_neighbours(rng, dtype, 300, 33)
    exact = halfulp.exact_sum_square(x, 1)
    ties = 0
    for value, low in zip(exact, expected(x, 1), strict=True):
        neighbours = [Fraction(float(v)) for v in (low, *np.nextafter(low, _ends(dtype)))]
        ties += any(2 * value == neighbours[0] + other for other in neighbours[1:])
    assert ties >= 50


def _ends(dtype: np.dtype) -> np.ndarray:
    return np.array([0, np.inf]).astype(dtype)
