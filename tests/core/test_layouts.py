"""Any strided array: the same bits as its contiguous copy, and never a copy of it."""

from __future__ import annotations

import sys
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import halfulp
from halfulp.reductions import L1, L2, MEAN, SUM, SUM_SQUARE, SUMS, Reduction
from layouts import INTEGER_TYPES, strided_arrays
from memory import bytes_left
from oracle import (
    FLOATS,
    INTEGERS,
    SMALL,
    TYPES,
    assert_reduced,
    assert_same_bits,
    bits,
    expected_of,
    from_bits,
    function_of,
    result_dtype,
    some_configurations,
)
from rows import by_row


@settings(max_examples=150)
@given(
    row=st.sampled_from(SUMS),
    x=strided_arrays(TYPES + SMALL),
    data=st.data(),
    keepdims=st.booleans(),
)
def test_every_layout_and_axes(
    row: Reduction, x: np.ndarray, data: st.DataObject, keepdims: bool
) -> None:
    axes = data.draw(
        st.none()
        | st.lists(st.integers(-x.ndim, x.ndim - 1), unique_by=lambda a: a % x.ndim)
        if x.ndim
        else st.just([])
    )
    axis = None if axes is None else tuple(axes)
    before = x.tobytes()
    result = function_of(row)(x, axis, keepdims=keepdims)
    want = expected_of(row, x, axis, keepdims=keepdims)
    assert_same_bits(result, want)
    assert_reduced(row, want, x, axis, keepdims=keepdims)
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
    if dtype.kind != "u" and dtype.kind != "b":
        x[x > 1] -= x.dtype.type(1)
        x[..., ::3] = -x[..., ::3]
    # Two rows of the table, by chance; all of them in test_adversarial.py.
    rows = [SUMS[i] for i in rng.choice(len(SUMS), 2, replace=False)]
    wants = [(row, expected_of(row, x, axis)) for row in rows]
    reverse = tuple(slice(None, None, -1) for _ in shape)
    doubled = np.repeat(x, 2, axis=-1)
    for same in (
        x,
        np.asfortranarray(x),
        x.astype(dtype.newbyteorder()) if dtype.name != "bfloat16" else x,
        doubled[..., ::2],
        np.ascontiguousarray(x[reverse])[reverse],
    ):
        for row, want in wants:
            assert_reduced(row, want, same, axis, some_configurations(rng))


@by_row
def test_float64_unaligned_by_every_offset(
    rng: np.random.Generator, row: Reduction
) -> None:
    x = rng.standard_normal(100)
    memory = np.empty(x.nbytes + 8, np.uint8)
    for offset in range(8):
        view = memory[offset : offset + x.nbytes].view(np.float64)
        view[...] = x
        assert_same_bits(function_of(row)(view), expected_of(row, x))


@by_row
def test_read_only_and_overlapping_views_are_read(row: Reduction) -> None:
    x = np.arange(10, dtype=np.float32)
    x.flags.writeable = False
    assert_same_bits(function_of(row)(x), expected_of(row, x))
    windows = np.lib.stride_tricks.sliding_window_view(x, 3)
    want = expected_of(row, np.array(windows), 1)
    assert_same_bits(function_of(row)(windows, 1), want)


def by_numpy(row: Reduction, x: np.ndarray, axis: Any, where: Any) -> np.ndarray:
    """What a row gives of integers, all of whose sums binary64 has exactly."""
    terms = {"square": np.square, "magnitude": np.abs, "value": np.positive}
    total = np.sum(terms[row.term](x), axis=axis, where=where)
    if row.finish == "mean":
        count = np.sum(np.broadcast_to(where, x.shape), axis=axis)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return np.sqrt(total) if row.finish == "root" else total


@pytest.mark.parametrize(
    "axis", [None, (1, 2), (0, 2), (1, 3), (1, 2, 3), (0, 1, 2)], ids=str
)
@pytest.mark.parametrize("dtype", [*TYPES, *SMALL], ids=str)
def test_short_rows_are_joined(dtype: np.dtype, axis: Any) -> None:
    rng = np.random.default_rng(3)
    low = -5 if dtype.kind not in "ub" else 0
    whole = rng.integers(low, 2 if dtype.kind == "b" else 12, (3, 4000, 4, 5))
    x = whole.astype(dtype)[:, :, 1:3, :3]
    where = rng.random((3, 4000, 2, 1)) < 0.5
    integers = x.astype(np.int64)
    for row in SUMS:
        sums = np.dtype("f8") if dtype in FLOATS else result_dtype(row, dtype)
        for mask in (True, where):
            want = by_numpy(row, integers, axis, mask).astype(sums)
            configurations = some_configurations(rng)
            assert_reduced(row, want, x, axis, configurations, where=mask, dtype=sums)
            if dtype in INTEGERS:
                checked = function_of(row)(x, axis, where=mask, overflow="raise")
                assert_same_bits(checked, want)
    if dtype in TYPES:
        sums = np.dtype("f8") if dtype in FLOATS else result_dtype(SUM_SQUARE, dtype)
        want = by_numpy(SUM_SQUARE, integers, axis, True).astype(sums)
        state = halfulp.SumSquare(dtype, want.shape).update(x, axis)
        assert_same_bits(state.result(sums), want)


@pytest.mark.parametrize("n", [63, 64, 100, 300])
def test_threads_share_rows_that_are_short_then(n: int) -> None:
    # The longest loop is cut into parts: of one of 100, parts of 15 for 7 threads.
    for rows in (30, 90):
        x = np.ones((rows, 400), np.float32)[:, :n]
        tall = np.ones((n, 2, 40, 5), np.int32)[:, :, ::2]
        for row in (SUM_SQUARE, SUM, L1):
            assert_reduced(row, np.float32(rows * n), x)
            count = result_dtype(row, tall.dtype).type(n * 200)
            assert_reduced(row, count, tall, overflow="raise")
        assert_reduced(MEAN, np.float32(1), x)
        assert_reduced(L2, np.float32((rows * n) ** 0.5), x)


def test_more_than_2_to_the_31_elements_in_memory() -> None:
    n = 2**31 + 9
    x = np.zeros(n, np.float16)  # pages of zeros, not kept in memory
    x[[0, 2**31 - 1, 2**31, n - 1]] = [1, 2, 4, 8]
    assert halfulp.sum_square(x) == 85


def test_more_than_2_to_the_31_elements_broadcast() -> None:
    n = 2**31 + 9
    ones = np.broadcast_to(np.int32(1), (n,))
    assert halfulp.sum_square(ones, dtype=np.int32) == n - 2**32
    assert halfulp.mean(np.broadcast_to(np.int8(-1), n)) == -1


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_no_layout_is_copied() -> None:
    # A copy of the array would not fit the address space that is left.
    x = np.ones((4096, 8192), np.float32)
    bytes_ = np.ones((4096, 8192), np.uint8)
    views = [x, x.T, x[:, ::2], x[::-1], x[1::3, ::-1], x.astype(">f4")]
    views += [bytes_, bytes_.T, bytes_[::3, ::-2], x.astype(">i2"), x.astype(bool)]
    rows = [SUMS[i % len(SUMS)] for i in range(len(views))]
    cases = [(v, row) for v, row in zip(views, rows, strict=True) if row is not MEAN]
    with bytes_left(2**20):
        means = [halfulp.mean(view, axis) for view in views for axis in (None, 0)]
        totals = [function_of(row)(v) for v, row in cases]
        columns = [function_of(row)(v, 0) for v, row in cases]
        rounded = [function_of(row)(v, 1, dtype="f4") for v, row in cases]
    assert all(np.all(mean == 1) for mean in means)
    for i, (view, row) in enumerate(cases):
        power = 0.5 if row is L2 else 1
        assert totals[i] == totals[i].dtype.type(view.size**power)
        assert np.all(columns[i] == columns[i].dtype.type(view.shape[0] ** power))
        assert np.all(rounded[i] == np.float32(view.shape[1] ** power))


@by_row
def test_one_multiset_has_one_result_in_every_layout(
    rng: np.random.Generator, row: Reduction
) -> None:
    x = from_bits(rng.integers(0, 0x7F80, (64, 64)), "float32") + np.float32(0.1)
    x *= rng.choice(np.float32([1, -1]), x.shape)
    want = bits(function_of(row)(x))
    for same in (x.T, x[::-1, ::-1], x.reshape(4, 16, 64), np.roll(x, 7)):
        assert np.array_equal(bits(function_of(row)(same)), want)
