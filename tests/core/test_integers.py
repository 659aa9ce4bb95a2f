"""Small integers are taken as they are; sums of integers are rounded once to floats."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import halfulp
from halfulp.exact import round_exact
from oracle import FLOATS, INTEGERS, SMALL, assert_same_bits, assert_sum_square
from oracle import expected_sum_square as expected

ALL = SMALL + INTEGERS
by_small = pytest.mark.parametrize("dtype", SMALL, ids=str)
by_float = pytest.mark.parametrize("target", FLOATS, ids=str)


def values(
    rng: np.random.Generator, dtype: np.dtype, shape: int | tuple[int, ...]
) -> np.ndarray:
    """Values of all of the type."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


@by_small
def test_sums_have_the_types_of_numpys(dtype: np.dtype) -> None:
    x = np.ones((2, 3), dtype)
    for axis in (None, 0, ()):
        result = halfulp.sum_square(x, axis)
        assert result.dtype == np.sum(x, axis=axis).dtype
    assert type(halfulp.sum_square(x)) is np.sum(x).dtype.type
    assert halfulp.sum_square(x[:0]) == 0
    assert halfulp.sum_square([True, True, False]).dtype == np.int64


@by_small
def test_every_value_is_squared_exactly(dtype: np.dtype) -> None:
    every = np.arange(2 ** (8 * dtype.itemsize if dtype.kind != "b" else 1))
    x = every.astype(f"u{dtype.itemsize}").view(dtype)
    squares = np.square(x.astype(np.int64))
    assert_sum_square(squares.astype(halfulp.sum_square(x).dtype), x, ())
    assert halfulp.sum_square(x) == squares.sum()
    assert halfulp.exact_sum_square(x) == squares.sum()


@by_small
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((70_000,), None),
        ((3, 4097), 1),
        ((4097, 3), 0),
        ((5000, 7), 1),
        ((40, 300), 0),
        ((7, 5000), 0),
        ((6, 5, 300), (0, 2)),
    ],
    ids=str,
)
def test_small_integers_of_every_layout_and_byte_order(
    rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...], axis: Any
) -> None:
    x = values(rng, dtype, shape)
    want = np.square(x.astype(np.int64)).sum(axis).astype(np.sum(x).dtype)
    memory = np.empty(x.nbytes + 1, np.uint8)
    unaligned = memory[1:].view(dtype).reshape(shape)
    unaligned[...] = x
    for same in (
        x,
        np.asfortranarray(x),
        x.astype(dtype.newbyteorder()),
        np.repeat(x, 4, axis=-1)[..., ::4],
        np.ascontiguousarray(x[::-1])[::-1],
        unaligned,
    ):
        assert_sum_square(want, same, axis)


def test_any_byte_but_0_of_a_bool_is_true() -> None:
    x = np.array([0, 1, 2, 128, 255], np.uint8).view(bool)
    assert halfulp.sum_square(x) == 4
    assert halfulp.sum_square(x, ()).tolist() == [0, 1, 1, 1, 1]


@by_small
@pytest.mark.parametrize("target", INTEGERS, ids=lambda t: f"to_{t}")
def test_small_integers_go_to_any_integer_type(
    rng: np.random.Generator, dtype: np.dtype, target: np.dtype
) -> None:
    x = values(rng, dtype, (9, 3000))
    want = expected(x, 1, target)
    assert_sum_square(want, x, 1, dtype=target)
    out = np.empty(9, target)
    assert_same_bits(halfulp.sum_square(x, 1, out=out), want)
    limit = np.iinfo(target).max
    fits = bool(np.all(halfulp.exact_sum_square(x, 1) <= limit))
    if fits:
        assert_same_bits(halfulp.sum_square(x, 1, dtype=target, overflow="raise"), want)
    else:
        with pytest.raises(
            halfulp.SumOverflowError, match=rf"\[0\] is .*; {target} cann"
        ):
            halfulp.sum_square(x, 1, dtype=target, overflow="raise")


@by_float
@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((33,), None), ((5, 300), 1), ((300, 5), 0), ((7, 3), ())],
    ids=str,
)
def test_sums_of_integers_are_rounded_once_to_floats(
    rng: np.random.Generator,
    dtype: np.dtype,
    shape: tuple[int, ...],
    axis: Any,
    target: np.dtype,
) -> None:
    x = values(rng, dtype, shape)
    want = expected(x, axis, target)
    assert_sum_square(want, x, axis, dtype=target)
    assert_same_bits(halfulp.sum_square(np.asfortranarray(x), axis, dtype=target), want)
    swapped = x.astype(dtype.newbyteorder())
    assert_same_bits(halfulp.sum_square(swapped, axis, dtype=target), want)
    out = np.empty(want.shape, target)
    assert_same_bits(halfulp.sum_square(x, axis, out=out, overflow="raise"), want)
    if dtype in INTEGERS and dtype.itemsize == 4:
        state = halfulp.SumSquare(dtype, want.shape).update(x, axis)
        assert_same_bits(state.result(target), want)


def squares_that_sum_to(total: int, largest: int) -> list[int]:
    """Numbers up to `largest` whose squares have this sum."""
    roots = []
    while total:
        root = min(int(total**0.5) + 1, largest)
        while root**2 > total:
            root -= 1
        roots.append(root)
        total -= root**2
    return roots


@by_float
@pytest.mark.parametrize(
    "dtype", ["int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_ties_and_their_neighbours(dtype: str, target: np.dtype) -> None:
    precision = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}[target.name]
    for low in (2 ** (precision - 1), 2**precision - 1, 2 ** (precision - 1) + 5):
        middle = 2 * low + 1  # between two numbers of the type
        for scale in {1, 2**6, 2**40} if dtype[-2:] == "64" else {1}:
            for near in (-1, 0, 1):
                total = middle * scale**2 + near
                largest = int(np.iinfo(dtype).max)
                if total > 10**4 * largest**2:
                    continue
                roots = squares_that_sum_to(total, largest)
                got = halfulp.sum_square(np.array(roots, dtype), dtype=target)
                assert_same_bits(got, round_exact(Fraction(total), target))


@by_float
def test_sums_above_every_integer_type_are_rounded_too(target: np.dtype) -> None:
    for dtype, value, counts in (
        ("int32", -(2**31), (3, 4, 5)),  # around 2^64
        ("uint32", 2**32 - 1, (1, 2, 3)),
        ("int64", -(2**63), (1, 2, 3, 5)),  # around 2^127 and 2^128
        ("uint64", 2**64 - 1, (1, 2, 3, 70)),
    ):
        for count in counts:
            x = np.full(count, value, dtype)
            total = count * value**2
            assert halfulp.exact_sum_square(x) == total
            want = round_exact(total, target)
            assert_sum_square(want, x, dtype=target)
            wide = np.broadcast_to(x[:, None], (count, 5))
            assert_sum_square(np.full(5, want), wide, 0, dtype=target)


def test_overflow_to_infinity_begins_at_the_threshold() -> None:
    for total, want in ((65519, 65504), (65520, np.inf), (65536, np.inf)):
        for dtype in ("uint8", "int16", "int32", "uint64"):
            largest = int(np.iinfo(dtype).max)
            x = np.array(squares_that_sum_to(total, largest), dtype)
            result = halfulp.sum_square(x, dtype=np.float16, overflow="raise")
            assert_same_bits(result, np.float16(want))


def test_a_state_beyond_2_to_the_127_has_no_float() -> None:
    state = halfulp.SumSquare("int64", 2).update(np.int64([[3], [-(2**63)]]), 1)
    assert state.result("float32").tolist() == [9.0, 2.0**126]
    state.update(np.int64([[4], [-(2**63)]]), 1)
    with pytest.raises(
        halfulp.SumOverflowError,
        match=r"of output \[1\] is 2\*\*127 or more; allowed for float32: bel",
    ):
        state.result("float32")
    assert state.result().tolist() == [25, 0]


def test_dask_arrays_of_small_integers(rng: np.random.Generator) -> None:
    da = pytest.importorskip("dask.array")
    for dtype in SMALL:
        x = values(rng, dtype, (30, 7))
        for chunks in ((7, 3), (30, 7)):
            for target in (None, "uint32", "float16", "float64"):
                lazy = halfulp.sum_square(
                    da.from_array(x, chunks=chunks), 0, dtype=target
                )
                want = expected(x, 0, target)
                assert lazy.dtype == want.dtype
                assert_same_bits(lazy.compute(scheduler="sync"), want)


def test_labels_of_small_integers() -> None:
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame({"a": [True, False], "b": [True, True]})
    assert halfulp.sum_square(x, 0).to_dict() == {"a": 1, "b": 2}
