"""The oracle itself, against fractions built from floats by Python."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import halfulp
from halfulp.element_types import element_type
from halfulp.exact import FINISHES, TERMS, ExactTerm, _sum, round_exact
from oracle import FLOATS, INTEGERS, bits, from_bits

finite_halves = pytest.mark.parametrize("dtype", FLOATS, ids=str)


@finite_halves
def test_the_exact_sum_is_the_sum_of_fractions(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    x = rng.standard_normal(200).astype(dtype)
    x[:3] = from_bits([1, 2, 3], dtype)
    assert halfulp.exact_sum_square(x) == sum(Fraction(float(v)) ** 2 for v in x)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_exact_sum_of_integers_is_unbounded(dtype: np.dtype) -> None:
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max], dtype)
    assert halfulp.exact_sum_square(x) == int(info.min) ** 2 + int(info.max) ** 2


@finite_halves
def test_specials_are_floats(dtype: np.dtype) -> None:
    x = np.array([1, np.inf, 2]).astype(dtype)
    assert halfulp.exact_sum_square(x) == math.inf
    x[0] = np.nan
    assert math.isnan(halfulp.exact_sum_square(x))


def test_axes_and_shapes() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    result = halfulp.exact_sum_square(x, (0, -1))
    assert result.tolist() == (x * x).sum(axis=(0, 2)).tolist()
    assert halfulp.exact_sum_square(x, ()).shape == x.shape
    assert halfulp.exact_sum_square(np.zeros((0, 2)), 0).tolist() == [Fraction(0)] * 2
    assert halfulp.exact_sum_square(x, [0, 2]).tolist() == result.tolist()
    with pytest.raises(halfulp.AxesError, match="axis 3 is out of range for rank 3"):
        halfulp.exact_sum_square(x, 3)
    with pytest.raises(halfulp.AxesError, match="axis 0 is given twice"):
        halfulp.exact_sum_square(x, (0, 0))


@pytest.mark.parametrize("axis", [None, (), 1, (0, -1)])
def test_keepdims_keeps_axes_of_length_one(axis: object) -> None:
    x = np.arange(24).reshape(2, 3, 4)
    result = halfulp.exact_sum_square(x, axis, keepdims=True)
    want = (x * x).sum(axis=axis, keepdims=True)
    assert result.shape == want.shape
    assert result.tolist() == want.tolist()
    assert type(result.ravel()[0]) is int


@finite_halves
def test_rounding_is_the_identity_on_the_type(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    infinity = int(bits(np.array(np.inf, dtype)))
    for pattern in [0, 1, 2, infinity - 1, *rng.integers(0, infinity, 2000).tolist()]:
        value = from_bits(pattern, dtype)[()]
        assert bits(round_exact(Fraction(float(value)), dtype)) == pattern


@finite_halves
def test_midpoints_go_to_even_and_their_neighbours_to_the_nearest(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    infinity = int(bits(np.array(np.inf, dtype)))
    little = Fraction(1, 2**1200)
    for low in [0, 1, infinity - 2, *rng.integers(0, infinity - 1, 2000).tolist()]:
        a, b = (Fraction(float(from_bits(v, dtype)[()])) for v in (low, low + 1))
        middle = (a + b) / 2
        assert bits(round_exact(middle, dtype)) == low + low % 2
        assert bits(round_exact(middle - little, dtype)) == low
        assert bits(round_exact(middle + little, dtype)) == low + 1


@pytest.mark.parametrize(
    ("dtype", "threshold"),
    [
        ("float64", 2**1024 - 2**970),
        ("float32", 2**128 - 2**103),
        (FLOATS[0], 2**128 - 2**119),
        ("float16", 65520),
    ],
    ids=str,
)
def test_overflow_begins_at_the_threshold(dtype: object, threshold: int) -> None:
    below = round_exact(Fraction(threshold) - Fraction(1, 2), dtype)
    assert np.isfinite(float(below))
    assert float(round_exact(Fraction(threshold), dtype)) == np.inf


def test_integers_wrap() -> None:
    assert round_exact(2**31, "int32") == -(2**31)
    assert round_exact(2**64 + 5, "uint64") == 5


# What sums of squares never are: the terms to come have signs.
VALUE: ExactTerm = (lambda n: n, 1)


@finite_halves
def test_terms_with_signs_are_summed_and_rounded(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    x = rng.standard_normal(200).astype(dtype)
    x[:2] = from_bits([1, 2], dtype)
    total = _sum(VALUE, -x, element_type(dtype))
    assert total == -sum(Fraction(float(v)) for v in x)
    for v in x:
        assert bits(round_exact(-Fraction(float(v)), dtype)) == bits(-v)


@finite_halves
def test_infinities_have_signs(dtype: np.dtype) -> None:
    def total(*values: float) -> float:
        return _sum(VALUE, np.array(values).astype(dtype), element_type(dtype))

    assert total(1, -np.inf) == -np.inf
    assert math.isnan(total(np.inf, -np.inf))
    assert round_exact(-np.inf, dtype) == -np.inf
    assert round_exact(Fraction(-1, 2**2000), dtype) == 0
    assert np.signbit(round_exact(Fraction(-1, 2**2000), dtype))


@finite_halves
def test_magnitudes_are_summed_without_their_signs(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    x = rng.standard_normal(200).astype(dtype)
    x[:2] = from_bits([1, 2], dtype)
    total = _sum(TERMS["magnitude"], x, element_type(dtype))
    assert total == sum(abs(Fraction(float(v))) for v in x)
    assert _sum(TERMS["magnitude"], -x, element_type(dtype)) == total


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_least_integer_has_a_magnitude(dtype: np.dtype) -> None:
    least = np.array([np.iinfo(dtype).min] * 2, dtype)
    total = _sum(TERMS["magnitude"], least, element_type(dtype))
    assert total == -2 * int(least[0])


def test_means_are_fractions_and_there_is_none_of_nothing() -> None:
    mean = FINISHES["mean"]
    assert mean(10, 4) == Fraction(5, 2)
    assert mean(math.inf, 4) == math.inf
    assert math.isnan(mean(0, 0))
    assert round_exact(mean(-7, 2), "int32") == -3
    assert round_exact(mean(0, 0), "int32") == 0


@finite_halves
def test_roots_lie_on_their_side_of_all_midpoints(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    root = FINISHES["root"]
    infinity = int(bits(np.array(np.inf, dtype)))
    little = Fraction(1, 2**2200)
    for low in [0, 1, infinity - 2, *rng.integers(0, infinity - 1, 500).tolist()]:
        a, b = (Fraction(float(from_bits(v, dtype)[()])) for v in (low, low + 1))
        middle = (a + b) / 2
        assert root(middle**2, 1) == middle
        assert bits(round_exact(root(middle**2, 1), dtype)) == low + low % 2
        assert bits(round_exact(root(middle**2 - little, 1), dtype)) == low
        assert bits(round_exact(root(middle**2 + little, 1), dtype)) == low + 1


def test_roots_of_integers_are_rounded_down() -> None:
    for n in (0, 1, 2, 3, 4, 24, 25, 2**127 - 1, 3**80, 3**80 - 1):
        assert round_exact(FINISHES["root"](n, 1), "uint64") == math.isqrt(n) % 2**64
