"""Any strided array: the same bits as its contiguous copy, and never a copy of it."""

from __future__ import annotations

import sys
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import halfulp
from layouts import INTEGER_TYPES, strided_arrays
from memory import bytes_left
from oracle import (
    FLOATS,
    INTEGERS,
    SMALL,
    TYPES,
    assert_same_bits,
    assert_sum_square,
    bits,
    from_bits,
    sum_dtype,
)
from oracle import expected_sum_square as expected


@given(x=strided_arrays(TYPES + SMALL), data=st.data(), keepdims=st.booleans())
def test_every_layout_and_axes(
    x: np.ndarray, data: st.DataObject, keepdims: bool
) -> None:
    axes = data.draw(
        st.none()
        | st.lists(st.integers(-x.ndim, x.ndim - 1), unique_by=lambda a: a % x.ndim)
        if x.ndim
        else st.just([])
    )
    axis = None if axes is None else tuple(axes)
    before = x.tobytes()
    result = halfulp.sum_square(x, axis, keepdims=keepdims)
    want = expected(x, axis, keepdims=keepdims)
    assert_same_bits(result, want)
    assert_sum_square(want, x, axis, keepdims=keepdims)
    assert x.tobytes() == before
    if isinstance(result, np.ndarray):
        assert result.flags.c_contiguous
        assert not np.shares_memory(result, x)


@pytest.mark.parametrize("dtype", TYPES + SMALL, ids=str)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((300, 200), 1),
        ((300, 200), 0),
        ((7, 130, 70), 1),
        ((5, 6, 40, 30), (0, 2, 3)),
        ((5, 6, 40, 30), (0, 2)),
        ((5000, 3), 1),
        ((3, 5000), 0),
        ((5000, 3), 0),
        ((3, 5000), 1),
        ((40, 1, 50, 2), (0, 3)),
    ],
    ids=str,
)
def test_every_shape_of_loop(
    rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...], axis: int
) -> None:
    values = rng.integers(0, 200, shape)
    x = (values if dtype in INTEGER_TYPES else values / 64).astype(dtype)
    want = expected(x, axis)
    reverse = tuple(slice(None, None, -1) for _ in shape)
    doubled = np.repeat(x, 2, axis=-1)
    for same in (
        x,
        np.asfortranarray(x),
        x.astype(dtype.newbyteorder()) if dtype.name != "bfloat16" else x,
        doubled[..., ::2],
        np.ascontiguousarray(x[reverse])[reverse],
    ):
        assert_sum_square(want, same, axis)


def test_float64_unaligned_by_every_offset(rng: np.random.Generator) -> None:
    x = rng.standard_normal(100)
    memory = np.empty(x.nbytes + 8, np.uint8)
    for offset in range(8):
        view = memory[offset : offset + x.nbytes].view(np.float64)
        view[...] = x
        assert_same_bits(halfulp.sum_square(view), expected(x))


def test_read_only_and_overlapping_views_are_read() -> None:
    x = np.arange(10, dtype=np.float32)
    x.flags.writeable = False
    assert halfulp.sum_square(x) == 285
    windows = np.lib.stride_tricks.sliding_window_view(x, 3)
    assert_same_bits(halfulp.sum_square(windows, 1), expected(np.array(windows), 1))


@pytest.mark.parametrize(
    "axis", [None, (1, 2), (0, 2), (1, 3), (1, 2, 3), (0, 1, 2)], ids=str
)
@pytest.mark.parametrize("dtype", [*TYPES, *SMALL], ids=str)
def test_short_rows_are_joined(dtype: np.dtype, axis: Any) -> None:
    rng = np.random.default_rng(3)
    whole = rng.integers(0, 2 if dtype.kind == "b" else 12, (3, 4000, 4, 5)).astype(dtype)
    x = whole[:, :, 1:3, :3]
    where = rng.random((3, 4000, 2, 1)) < 0.5
    integers = np.square(x.astype(np.int64))
    sums = np.float64 if dtype in FLOATS else sum_dtype(dtype)
    for mask in (True, where):
        want = np.sum(integers, axis=axis, where=mask).astype(sums)
        assert_sum_square(want, x, axis, where=mask, dtype=sums)
        if dtype in INTEGERS:
            checked = halfulp.sum_square(x, axis, where=mask, overflow="raise")
            assert_same_bits(checked, want)
    if dtype in TYPES:
        want = np.sum(integers, axis=axis).astype(sums)
        state = halfulp.SumSquare(dtype, want.shape).update(x, axis)
        assert_same_bits(state.result(sums), want)


@pytest.mark.parametrize("n", [63, 64, 100, 300])
def test_threads_share_rows_that_are_short_then(n: int) -> None:
    # The longest loop is cut into parts: of one of 100, parts of 15 for 7 threads.
    for rows in (30, 90):
        x = np.ones((rows, 400), np.float32)[:, :n]
        assert_sum_square(np.float32(rows * n), x)
        tall = np.ones((n, 2, 40, 5), np.int32)[:, :, ::2]
        assert_sum_square(np.int64(n * 200), tall, overflow="raise")


def test_more_than_2_to_the_31_elements_in_memory() -> None:
    n = 2**31 + 9
    x = np.zeros(n, np.float16)  # pages of zeros, not kept in memory
    x[[0, 2**31 - 1, 2**31, n - 1]] = [1, 2, 4, 8]
    assert halfulp.sum_square(x) == 85


def test_more_than_2_to_the_31_elements_broadcast() -> None:
    n = 2**31 + 9
    ones = np.broadcast_to(np.int32(1), (n,))
    assert halfulp.sum_square(ones) == n
    assert halfulp.sum_square(ones, dtype=np.int32) == n - 2**32


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_no_layout_is_copied() -> None:
    # A copy of the array would not fit the address space that is left.
    x = np.ones((4096, 8192), np.float32)
    bytes_ = np.ones((4096, 8192), np.uint8)
    views = [x, x.T, x[:, ::2], x[::-1], x[1::3, ::-1], x.astype(">f4")]
    views += [bytes_, bytes_.T, bytes_[::3, ::-2], x.astype(">i2"), x.astype(bool)]
    with bytes_left(2**20):
        totals = [halfulp.sum_square(view) for view in views]
        columns = [halfulp.sum_square(view, 0) for view in views]
        rounded = [halfulp.sum_square(v, 1, dtype="f4") for v in views]
    assert totals == [view.size for view in views]
    assert all(np.all(r == v.shape[1]) for r, v in zip(rounded, views, strict=True))
    assert all(np.all(c == v.shape[0]) for c, v in zip(columns, views, strict=True))


def test_one_multiset_has_one_sum_in_every_layout(rng: np.random.Generator) -> None:
    x = from_bits(rng.integers(0, 0x7F80, (64, 64)), "float32") + np.float32(0.1)
    want = bits(halfulp.sum_square(x))
    for same in (x.T, x[::-1, ::-1], x.reshape(4, 16, 64), np.roll(x, 7)):
        assert np.array_equal(bits(halfulp.sum_square(same)), want)
