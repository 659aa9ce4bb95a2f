"""Exact sums of every term: they merge, finish and travel as those of squares do.

What `test_state.py` holds of sums of squares, of the same class, is not repeated. The
oracle is halfulp.exact, which shares no arithmetic with them.
"""

from __future__ import annotations

import dataclasses
import math
import pickle
from fractions import Fraction
from typing import Any

import dask.array as da
import numpy as np
import pytest

import halfulp
from halfulp import ArgumentError, ExactSum, SumOverflowError, SumSquare
from halfulp.exact import FINISHES, TERMS, exact, round_exact
from halfulp.reductions import SUM_SQUARE, SUMS, Finish, Reduction, Term
from oracle import INTEGERS, TYPES, arrays, assert_same_bits
from serialized import with_crc

by_term = pytest.mark.parametrize("term", TERMS)
by_type = pytest.mark.parametrize("dtype", TYPES, ids=str)


def exactly(term: Term, x: np.ndarray, axis: Any = None) -> Any:
    return exact(dataclasses.replace(SUM_SQUARE, term=term), x, axis)


def data(
    rng: np.random.Generator, term: Term, dtype: np.dtype, shape: tuple[int, ...]
) -> np.ndarray:
    """Elements of any kind, of which sums of squares of integers are below 2^127."""
    x = arrays(rng, dtype, shape)
    return x >> 8 if term == "square" and dtype in INTEGERS and dtype.itemsize == 8 else x


def finishes(term: Term) -> list[Finish]:
    return [f for f in FINISHES if f != "log" and (term, f) != ("value", "root")]


@by_type
@by_term
def test_parts_in_any_order_finish_as_the_whole_does(
    rng: np.random.Generator, term: Term, dtype: np.dtype
) -> None:
    x = data(rng, term, dtype, (60, 7))
    parts = [
        ExactSum(dtype, 7, term=term).update(piece, 0)
        for piece in np.array_split(x, [1, 30, 31])
    ]
    rng.shuffle(parts)
    total = ExactSum.from_bytes(sum(parts).to_bytes())
    want = exactly(term, x, 0)
    assert (total.term, total.count) == (term, 60)
    assert [repr(v) for v in total.exact()] == [repr(v) for v in want]
    assert total == ExactSum(dtype, 7, term=term).update(x[::-1], 0)
    for finish in finishes(term):
        for result in TYPES if dtype in INTEGERS else TYPES[:4]:
            got = total.result(result, finish=finish)
            rounded = [round_exact(FINISHES[finish](v, 60), result) for v in want]
            assert_same_bits(got, np.array(rounded, result))


@pytest.mark.parametrize("row", SUMS, ids=lambda row: row.name)
@by_type
def test_results_are_those_of_the_functions(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> None:
    x = data(rng, row.term, dtype, (9, 4))
    total = ExactSum(dtype, 4, term=row.term).update(x, 0)
    got = total.norm() if row.ord else total.result(finish=row.finish)
    function = getattr(halfulp, row.name) if row.ord is None else halfulp.vector_norm
    options = {} if row.ord is None else {"ord": row.ord}
    assert_same_bits(got, function(x, 0, **options))
    if row.finish == "mean":
        assert_same_bits(total.mean(), got)


@by_type
@by_term
def test_a_wider_type_has_the_same_sums(
    rng: np.random.Generator, term: Term, dtype: np.dtype
) -> None:
    x = data(rng, term, dtype, (20, 3))
    total = ExactSum(dtype, 3, term=term).update(x, 0)
    wider = []
    for other in TYPES:
        try:
            wide = total.astype(other)
        except halfulp.UnsupportedTypeError:
            continue
        wider.append(other)
        assert [repr(v) for v in wide.exact()] == [repr(v) for v in total.exact()]
        assert ExactSum.from_bytes(wide.to_bytes()) == wide
        elements = x.astype(other)
        as_exact = object if dtype in INTEGERS else np.float64
        if np.array_equal(
            elements.astype(as_exact),
            x.astype(as_exact),
            equal_nan=dtype not in INTEGERS,
        ):
            assert wide == ExactSum(other, 3, term=term).update(elements, 0)
    assert dtype in wider
    if term == "value" and dtype.kind == "i":
        assert all(other.kind == "i" for other in wider)


@pytest.mark.parametrize("dtype", TYPES[:4], ids=str)
def test_infinities_of_both_signs_are_nan_and_of_one_sign_that(dtype: np.dtype) -> None:
    for values, want in (
        ([math.inf, -math.inf, 1], math.nan),
        ([-math.inf, 1], -math.inf),
        ([math.inf, -1], math.inf),
        ([math.inf, math.nan], math.nan),
        ([-0.0, -0.0], 0.0),
    ):
        x = np.array(values, dtype)
        parts = [ExactSum(dtype).update(part) for part in x]
        total = sum(parts)
        assert_same_bits(np.asarray(total.result()), np.asarray(halfulp.sum(x)))
        assert repr(float(total.exact())) == repr(want)
        assert repr(float(total.astype("double").exact())) == repr(want)
        assert pickle.loads(pickle.dumps(total)) == total


def test_sums_of_values_cancel_however_often_they_merged() -> None:
    for dtype, value in (("double", 1.7976931348623157e308), ("int64", -(2**63))):
        large = ExactSum(dtype).update(np.array(value, halfulp.ExactSum(dtype).dtype))
        for _ in range(62):
            large.merge(large)
        assert large.exact() == Fraction(value) * 2**62
        assert ExactSum.from_bytes(large.to_bytes()) == large
    most = ExactSum("uint64").update(np.uint64([2**64 - 1]))
    for _ in range(62):
        most.merge(most)
    assert most.exact() == (2**64 - 1) << 62
    assert most.mean("uint64") == 2**64 - 1


def test_integers_that_do_not_fit_say_what_they_are() -> None:
    total = ExactSum("int64").update(np.int64([-(2**63), -1]))
    for finish, text in (
        ("none", "the exact sum is -9223372036854775809; int32 cannot"),
        (
            "mean",
            "the whole part of the exact mean is -4611686018427387904; int32",
        ),
    ):
        with pytest.raises(SumOverflowError, match=text):
            total.result("int32", "raise", finish=finish)
    assert total.result() == 2**63 - 1
    assert total.result("int64", "raise", finish="mean") == -(2**62)
    with pytest.raises(SumOverflowError, match="exact mean is -46116"):
        total.result("uint64", "raise", finish="mean")
    squares = ExactSum("int64", term="square").update(np.int64([2**40]))
    text = "the whole part of the exact norm is 1099511627776; int32 cannot"
    with pytest.raises(SumOverflowError, match=text):
        squares.norm("int32", "raise")
    # What is known modulo 2^127 only has no mean and no root, wrapped or not.
    huge = SumSquare("uint64").update(np.full(3, 2**64 - 1, np.uint64))
    for finish in ("mean", "root"):
        with pytest.raises(SumOverflowError, match=r"2\*\*127 or more; uint64 cannot"):
            huge.result("uint64", finish=finish)
    assert huge.result("uint64") == 3


def test_wrong_arguments_are_one_line_of_error() -> None:
    values = ExactSum("float")
    for call, text in (
        (lambda: ExactSum("float", term="cube"), "term is 'cube'; allowed: 'square', "),
        (lambda: ExactSum("float", term=None), "term is None; allowed: "),
        (lambda: values.result(finish="root"), "of values: 'none', 'mean'$"),
        (lambda: values.result(finish=[]), r"finish is \[\]; allowed of values: "),
        (lambda: values.norm(), "a sum of values; allowed: of magnitudes and of squares"),
        (
            lambda: values.merge(ExactSum("float", term="magnitude")),
            "other has term magnitude; allowed: value",
        ),
        (lambda: values.merge(SumSquare("float")), "term square; allowed: value"),
        (lambda: SumSquare("float").merge(values), "term value; allowed: square"),
        (lambda: values.merge(3), "other is a int; allowed: an exact sum"),
        (
            lambda: SumSquare.from_bytes(values.to_bytes()),
            "the bytes are of a sum of values; allowed: of squares",
        ),
        (
            lambda: SumSquare.concatenate([values], ()),
            "parts has a ExactSum; allowed: sums of square only",
        ),
        (
            lambda: ExactSum.concatenate([values, SumSquare("float")], (2,)),
            "parts of terms, types and counts .*; allowed: one of each",
        ),
    ):
        with pytest.raises(ArgumentError, match=text) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert values != SumSquare("float")
    assert ExactSum("float", term="square") == SumSquare("float")


def test_bytes_name_the_term_and_damaged_ones_are_refused(
    rng: np.random.Generator,
) -> None:
    total = ExactSum("float16", term="value").update(np.float16([1.5, -2, 3]))
    data = total.to_bytes()
    for i, bit in enumerate(rng.integers(0, 8, len(data))):
        bad = bytearray(data)
        bad[i] ^= 1 << bit
        with pytest.raises(ArgumentError):
            ExactSum.from_bytes(bytes(bad))
    for place, value, text in (
        (24, 0, "has term 0; allowed: 1, 2"),
        (24, 3, "has term 3; allowed: 1, 2"),
        (31, 1, "zeros after it"),
        (8, 3, "version 3; allowed: 1, 2"),
    ):
        bad = bytearray(data)
        bad[place] = value
        with pytest.raises(ArgumentError, match=text):
            ExactSum.from_bytes(with_crc(bytes(bad)))
    for size in range(len(data)):
        with pytest.raises(ArgumentError):
            ExactSum.from_bytes(data[:size])
    # Three values of float16 are below 3 * 2^16 in size.
    large = bytearray(data)
    large[32:56] = (1 - (3 << 40)).to_bytes(24, "little", signed=True)
    assert ExactSum.from_bytes(with_crc(bytes(large))).exact() > -3 * 2**16
    large[32:56] = (-(3 << 40)).to_bytes(24, "little", signed=True)
    with pytest.raises(ArgumentError, match="what 3 values of float16 cannot sum up to"):
        ExactSum.from_bytes(with_crc(bytes(large)))


@pytest.mark.parametrize("row", SUMS, ids=lambda row: row.name)
@by_type
def test_dask_arrays_give_the_bits_of_arrays(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> None:
    from halfulp.numpy_face import reduce_as_numpy

    x = data(rng, row.term, dtype, (7, 9, 5))
    lazy = da.from_array(x, chunks=(2, 4, 5))
    for axis in (None, 1, (0, 2), ()):
        for keepdims in (False, True):
            want = reduce_as_numpy(row, x, axis, keepdims=keepdims)
            got = reduce_as_numpy(row, lazy, axis, keepdims=keepdims)
            assert got.dtype == np.asarray(want).dtype
            assert_same_bits(np.asarray(got.compute(scheduler="sync")), want)
    mask = da.from_array(rng.random(x.shape) < 0.5, chunks=3)
    want = reduce_as_numpy(row, x, 1, where=mask.compute())
    got = reduce_as_numpy(row, lazy, 1, where=mask).compute(scheduler="sync")
    assert_same_bits(got, want)
