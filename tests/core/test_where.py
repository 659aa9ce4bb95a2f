"""Elements that do not count: `where`, of any strides, and masked arrays of numpy.ma."""

from __future__ import annotations

import itertools
import re
import sys
from typing import Any

import dask.array as da
import numpy as np
import pandas
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

import halfulp
from halfulp import ArgumentError, AxesError, UnsupportedTypeError
from halfulp.reductions import L1, L2, MEAN, SUM, SUM_SQUARE, SUMS, Reduction
from layouts import strided_arrays
from memory import bytes_left
from oracle import (
    FLOATS,
    INTEGERS,
    SMALL,
    TYPES,
    arrays,
    assert_reduced,
    assert_same_bits,
    configuration,
    expected_of,
    function_of,
    some_configurations,
)
from rows import by_row

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def some(rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Elements of a type, of all magnitudes."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    return arrays(rng, dtype, shape)


@pytest.mark.parametrize("dtype", TYPES + SMALL, ids=str)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((70_000,), None),
        ((300, 70), 0),
        ((300, 70), 1),
        ((2000, 3), 0),
        ((2000, 3), 1),
        ((6, 50, 40), (0, 2)),
        ((6, 50, 40), 1),
        ((9, 8), ()),
    ],
    ids=str,
)
def test_what_does_not_count_is_as_if_it_were_0(
    rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...], axis: Any
) -> None:
    x = some(rng, dtype, shape)
    where = rng.random(shape) < 0.5
    # Two rows of the table, by chance; all of them in test_adversarial.py.
    rows = [SUMS[i] for i in rng.choice(len(SUMS), 2, replace=False)]
    wants = [(row, expected_of(row, x, axis, where=where)) for row in rows]
    swapped = x.astype(x.dtype.newbyteorder()) if dtype not in FLOATS[:1] else x
    for row, want in wants:
        assert_reduced(row, want, x, axis, where=where)
    for values, mask in itertools.product(
        (x, np.asfortranarray(x), swapped),
        (
            np.asfortranarray(where),
            np.repeat(where, 3, axis=-1)[..., ::3],
            np.ascontiguousarray(where[::-1])[::-1],
        ),
    ):
        for row, want in wants:
            configurations = [("portable", 1), *some_configurations(rng)]
            assert_reduced(row, want, values, axis, configurations, where=mask)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.uint8], ids=str)
def test_masks_are_broadcast(rng: np.random.Generator, dtype: Any) -> None:
    x = some(rng, np.dtype(dtype), (10, 14, 3))
    for row in SUMS:
        reduce = function_of(row)
        for shape in ((), (1,), (3,), (1, 3), (14, 1), (14, 3), (10, 1, 1), (10, 14, 1)):
            where = np.asarray(rng.random(shape) < 0.5)
            for axis in (None, 0, 1, 2, (0, 1), (0, 2), (1, 2)):
                want = expected_of(row, x, axis, where=where)
                assert_same_bits(reduce(x, axis, where=where), want)
                kept = reduce(x, axis, keepdims=True, where=where)
                axes = tuple(range(3)) if axis is None else axis
                assert_same_bits(kept, np.expand_dims(want, axes))
        assert_same_bits(reduce(x, where=True), reduce(x))
        assert_same_bits(reduce(x, where=np.True_), reduce(x))
        nothing = expected_of(row, x[:0])
        assert_same_bits(reduce(x, where=False), nothing)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(SUMS), st.data())
def test_any_layout_of_data_and_mask(row: Reduction, data: st.DataObject) -> None:
    x = data.draw(strided_arrays(types=[*TYPES, *SMALL]))
    axis = data.draw(st.sets(st.integers(0, max(0, x.ndim - 1)), max_size=x.ndim))
    axes = tuple(axis) if x.ndim else None
    # Of as many axes as the data or fewer, each of its length or 1, in any order.
    rank = data.draw(st.integers(0, x.ndim))
    alone = data.draw(st.tuples(*[st.booleans()] * rank))
    steps = data.draw(st.tuples(*[st.sampled_from([1, 2, -1, -3])] * rank))
    order = data.draw(st.permutations(range(rank)))
    lengths = x.shape[x.ndim - rank :]
    shape = [1 if one else n for one, n in zip(alone, lengths, strict=True)]
    held = [abs(step) * n for step, n in zip(steps, shape, strict=True)]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    # Of bools any byte but 0 is true.
    bytes_ = rng.choice(np.uint8([0, 0, 1, 2, 255]), [held[i] for i in order])
    mask = bytes_.view(bool).transpose(np.argsort(order)) if rank else bytes_.view(bool)
    mask = mask[tuple(slice(None, None, step) for step in steps)]
    truth = mask.view(np.uint8) != 0
    want = expected_of(row, x, axes, where=truth)
    reduce = function_of(row)
    assert_same_bits(reduce(x, axes, where=mask), want)
    with configuration("portable", 3):
        assert_same_bits(reduce(x, axes, where=mask), want)
    other = "f4" if x.dtype.kind == "f" else "i4" if x.dtype in INTEGERS else "f2"
    want = expected_of(row, x, axes, other, where=truth)
    assert_same_bits(reduce(x, axes, where=mask, dtype=other), want)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@by_row
def test_nan_and_infinity_do_not_count_either(row: Reduction, dtype: np.dtype) -> None:
    reduce = function_of(row)
    for n in (1, 5, 100, 5000):
        x = np.full(n, 3).astype(dtype)
        for place in {0, n // 2, n - 1}:
            for value in (np.nan, np.inf, -np.inf):
                hard = x.copy()
                hard[place] = value
                where = np.arange(n) != place
                for axes in ((n, 1), (1, n)):
                    got = reduce(
                        hard.reshape(axes), dtype="f8", where=where.reshape(axes)
                    )
                    assert_same_bits(got, reduce(x[1:], dtype="f8"))
                assert not np.isfinite(reduce(hard, where=~where))


# --- Means of what counts.


@pytest.mark.parametrize("dtype", TYPES + SMALL, ids=str)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((3000,), (0,)),
        ((70, 33), (0,)),
        ((70, 33), (1,)),
        ((2000, 3), (0,)),  # columns that are reshaped
        ((400, 3), (1,)),
        ((5, 70, 6, 7), (0, 2)),  # rows that are joined
        ((6, 50, 20), (1,)),
        ((9, 8), ()),
        ((5, 0, 3), (1,)),
    ],
    ids=str,
)
def test_a_mean_is_of_as_many_elements_as_count(
    rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...], axis: Any
) -> None:
    small = rng.integers(0 if dtype.kind == "u" else -6, 7, shape).astype(dtype)
    outputs = ["f8", "f4", "f2", *([] if dtype in FLOATS else ["i8"])]
    # Of each output some, hardly any, all or none.
    for x, share in itertools.product((some(rng, dtype, shape), small), (0.5, 0.03)):
        kept = tuple(1 if i in axis else n for i, n in enumerate(shape))
        shares = rng.choice([0, share, share, 1], kept)
        where = rng.random(shape) < shares
        flipped = np.ascontiguousarray(where[::-1])[::-1]
        for output in map(np.dtype, outputs):
            want = expected_of(MEAN, x, axis, output, where=where)
            some_of_all = some_configurations(rng)
            for same, mask in ((x, where), (np.asfortranarray(x), flipped)):
                arguments: Any = {"where": mask, "dtype": output}
                assert_reduced(MEAN, want, same, axis, some_of_all, **arguments)
            masked = halfulp.mean(np.ma.MaskedArray(x, ~where), axis, dtype=output)
            if masked is np.ma.masked:
                assert not where.any()
            else:
                assert_same_bits(np.ma.getdata(masked), want)


def test_a_mean_of_what_counts_is_rounded_once(rng: np.random.Generator) -> None:
    # n * midpoint for each output's own n, and the least bit beside it.
    for n in (1, 2, 3, 5, 31, 100, 1000):
        for rest in (-(2.0**-40), 0, 2.0**-40):
            x = np.full((n + 7, 300), 1 + 2.0**-24, np.float64)
            x[0] += rest
            where = np.zeros(x.shape, bool)
            where[:n, ::3] = True
            where[: n // 2 + 1, 1::3] = True
            want = expected_of(MEAN, x, 0, "f4", where=where)
            ties = np.where(np.isnan(want), 1, want) == 1
            assert ties.all() == (rest <= 0)
            assert_same_bits(halfulp.mean(x, 0, dtype="f4", where=where), want)
            assert_same_bits(halfulp.mean(x.T, 1, dtype="f4", where=where.T), want)
            rows, mask = (np.ascontiguousarray(a.T) for a in (x, where))
            assert_same_bits(halfulp.mean(rows, 1, dtype="f4", where=mask), want)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_counting_copies_no_mask() -> None:
    x = np.ones((4096, 8192), np.float32)
    where = np.zeros((4096, 8192), bool)
    where[::2] = True
    with bytes_left(2**21):
        for mask in (
            where,
            np.asfortranarray(where),
            np.broadcast_to(where[:, :1], x.shape),
        ):
            assert halfulp.mean(x, where=mask) == 1
            assert (halfulp.mean(x, 0, where=mask) == 1).all()
            assert np.isnan(halfulp.mean(x, 1, where=mask)).sum() == 2048


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@by_row
def test_of_nothing_there_is_positive_zero_or_no_mean(
    row: Reduction, dtype: np.dtype
) -> None:
    reduce = function_of(row)
    x = np.full((3, 50), -1 if dtype.kind != "u" else 1).astype(dtype)
    where = np.array([[True], [False], [True]])
    for into in (None, dtype):
        nothing = expected_of(row, np.zeros((1, 0), dtype), 1, into)
        assert_same_bits(reduce(x, 1, where=where, dtype=into)[1:2], nothing)
        assert_same_bits(reduce(x, where=False, dtype=into), nothing[0])
        empty = np.empty((0, 3), dtype)
        got = reduce(empty, 0, where=[True, False, True], dtype=into)
        assert_same_bits(got, np.repeat(nothing, 3))


def test_ties_and_what_decides_them_are_told_apart() -> None:
    # 2^24 + 1, a tie, and a term that is too small for any but the exact sum.
    x = np.array([4096.0, 1.0, 2.0**-60], np.float32)
    assert halfulp.sum_square(x) == 16777218
    for where, want in (
        ([True, True, False], 16777216),
        ([True, False, True], 16777216),
        ([False, True, True], 1),
    ):
        assert halfulp.sum_square(x, where=where) == want
        wide = np.repeat(x[:, None], 400, 1)
        got = halfulp.sum_square(wide, 0, where=np.array(where)[:, None])
        assert (got == want).all()
        y = np.array([2.0**30, 2.0**3.5, 2.0**-500])  # binary64
        for row in SUMS:
            want = expected_of(row, y, where=where)
            assert_same_bits(function_of(row)(y, where=where), want)


def test_overflow_is_of_what_counts() -> None:
    high = 2**31 - 1
    x = np.array([[high, high], [3, 4]])
    only = [[False], [True]]
    for row, second, told in (
        (SUM_SQUARE, 2 * high**2, high**2 + 16),
        (SUM, 2 * high, high + 4),
        (L1, 2 * high, high + 4),
    ):
        reduce = function_of(row)
        kept = reduce(x, 0, dtype="i4", overflow="raise", where=only)
        assert_same_bits(kept, expected_of(row, x[1:], 0, "i4"))
        with pytest.raises(halfulp.SumOverflowError, match=rf" is {second}; int32"):
            reduce(x, dtype="i4", overflow="raise", where=x > 4)
        with pytest.raises(
            halfulp.SumOverflowError, match=rf"output \[1\] is {told}; int32"
        ):
            reduce(
                x,
                0,
                dtype="i4",
                overflow="raise",
                where=[[False, True], [True, True]],
            )
    # What is divided by is what counts.
    y = np.array([high + 1, high + 1, 0])
    assert halfulp.mean(y, dtype="i4", overflow="raise", where=y >= 0) == 1431655765
    with pytest.raises(halfulp.SumOverflowError, match=f"mean is {high + 1}; int32"):
        halfulp.mean(y, dtype="i4", overflow="raise", where=y > 0)


@by_row
def test_out_takes_what_counts_though_it_lies_over_the_mask(row: Reduction) -> None:
    reduce = function_of(row)
    odd = X % 2 == 1
    want = expected_of(row, X, 1, where=odd)
    out = np.empty((2, 4), np.float32)
    assert reduce(X, 1, out=out, where=odd) is out
    assert_same_bits(out, want)
    strided = np.empty((2, 8), np.float32)[:, ::2]
    assert reduce(X, 1, out=strided, where=odd) is strided
    assert_same_bits(strided, want)
    memory = np.zeros(X.size + 8, np.uint8)
    mask = memory[: X.size].view(bool).reshape(X.shape)
    mask[...] = odd
    over = memory[:32].view(np.float32).reshape(2, 4)
    assert_same_bits(reduce(X, 1, out=over, where=mask), want)
    x = X.copy()
    assert_same_bits(reduce(x, 1, out=x[:, 0], where=odd), want)
    scalar = np.empty((), np.float64)
    assert reduce(X, out=scalar, where=X < 2) is scalar
    assert scalar == reduce(X.ravel()[:2], dtype="f8")


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ([1, 0, 1, 1], UnsupportedTypeError, "where has dtype int64; allowed: bool"),
        (1, UnsupportedTypeError, "where has dtype int64; allowed: bool"),
        (X, UnsupportedTypeError, "where has dtype float32; allowed: bool"),
        ([], UnsupportedTypeError, "where has dtype float64; allowed: bool"),
        (None, UnsupportedTypeError, "where is a NoneType; allowed: a NumPy array"),
        ("yes", UnsupportedTypeError, "where has dtype <U3; allowed: bool"),
        ([[True], [1, 2]], UnsupportedTypeError, "where is not an array: "),
        (
            np.ma.masked_array([True], [True]),
            UnsupportedTypeError,
            "where is a numpy.MaskedArray; allowed: a NumPy array",
        ),
        (
            pandas.DataFrame([True]),
            UnsupportedTypeError,
            "where is a pandas.DataFrame; allowed: a NumPy array",
        ),
        (
            np.ones(3, bool),
            ArgumentError,
            "where has shape (3,); allowed: one that broadcasts to (2, 3, 4), the shape",
        ),
        (np.ones((1, 2, 3, 4), bool), ArgumentError, "where has shape (1, 2, 3, 4); all"),
    ],
    ids=str,
)
def test_a_mask_is_an_array_of_bool_that_broadcasts(
    where: Any, error: type[Exception], message: str
) -> None:
    out = np.full((), 7, np.float32)
    for x in (X, da.from_array(X), xarray.DataArray(X), pandas.Series(X[0, 0])):
        if x is not X and "shape" in message and x.ndim < 3:
            continue
        with pytest.raises(error, match=f"^{re.escape(message)}") as caught:
            halfulp.sum_square(x, where=where)
        assert "\n" not in str(caught.value)
    for row in SUMS:
        with pytest.raises(error, match=f"^{re.escape(message)}"):
            function_of(row)(X, out=out, where=where)
    assert out == 7
    with pytest.raises(ArgumentError, match="where has shape"):
        halfulp.sum_square(np.float32(3), where=[True])


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_neither_data_nor_mask_is_copied() -> None:
    x = np.ones((4096, 8192), np.float32)
    where = np.zeros((4096, 8192), bool)
    where[::2] = True
    flipped = np.asfortranarray(where)
    masked = np.ma.MaskedArray(x, where)
    assert masked.mask is where or np.shares_memory(masked.mask, where)
    with bytes_left(2**21):
        for row in (SUM_SQUARE, SUM, L2):
            reduce = function_of(row)
            totals = [
                reduce(x, where=where),
                reduce(x, where=flipped),
                reduce(x, where=where[:, :1]),
                reduce(x.T, where=where.T),
                reduce(x[:, ::-1], where=where[:, ::-1]),
                reduce(masked),
            ]
            assert totals == [2**12 if row is L2 else 2**24] * 6


# --- Lazy arrays, and labels.


def test_dask_arrays_take_masks_of_either_kind(rng: np.random.Generator) -> None:
    for i, dtype in enumerate((*TYPES, *SMALL)):
        x = some(rng, dtype, (30, 7))
        lazy = da.from_array(x, chunks=(7, 3))
        row = (SUM_SQUARE, SUM, L1)[i % 3]
        for where in (rng.random((30, 7)) < 0.5, rng.random(7) < 0.5, np.bool(False)):
            want = expected_of(row, x, 0, where=where)
            for mask in (where, da.from_array(np.asarray(where), chunks=4)):
                got = function_of(row)(lazy, 0, where=mask)
                assert isinstance(got, da.Array)
                assert_same_bits(got.compute(scheduler="sync"), want)
    odd = halfulp.sum_square(lazy, where=lazy % 2 == 1)
    assert odd.compute() == halfulp.sum_square(x, where=x % 2 == 1)
    with pytest.raises(UnsupportedTypeError, match=r"^where is a dask.Array; .*compute"):
        halfulp.sum_square(x, where=lazy % 2 == 1)
    with pytest.raises(ArgumentError, match=r"^where is a Dask array with .* Mask"):
        halfulp.sum_square(lazy, where=da.ma.masked_array(lazy == 1, lazy == 2))


def test_labels_are_kept_with_masks() -> None:
    where = X[0] % 2 == 1
    frame = pandas.DataFrame(X[0], columns=list("abcd"))
    got = halfulp.sum_square(frame, 0, where=where)
    assert got.to_dict() == {"a": 0.0, "b": 107.0, "c": 0.0, "d": 179.0}
    got = halfulp.mean(frame, 1, where=where)
    assert got.to_dict() == {0: 2.0, 1: 6.0, 2: 10.0}
    array = xarray.DataArray(X[0], dims=("x", "y"))
    for labelled in (array, array.chunk(2)):
        got = halfulp.sum_square(labelled, 1, where=where)
        assert got.dims == ("x",)
        assert got.values.tolist() == [10.0, 74.0, 202.0]


# --- numpy.ma.


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), (), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("masked", ["some", "lines", "all", "no", "nomask"])
@by_row
def test_masked_arrays_are_reduced_as_numpy_does(
    row: Reduction, masked: str, axis: Any, keepdims: bool
) -> None:
    mask: Any = {
        "some": X % 3 == 1,
        "lines": (X % 3 == 1) | (X < 12) & (X % 4 == 0) | (X >= 20),
        "all": np.ones(X.shape, bool),
        "no": np.zeros(X.shape, bool),
        "nomask": np.ma.nomask,
    }[masked]
    x = np.ma.masked_array(X.copy(), mask, fill_value=5)
    if masked == "some":
        x.data[x.mask] = np.nan
        x = x.copy(order="F")
    # What is masked, and the kind of result, is as in sums; NumPy's means change types.
    want = np.sum(x, axis=axis, keepdims=keepdims)
    if masked == "all" and axis is None and not keepdims:
        assert want is np.ma.masked
    got = function_of(row)(x, axis, keepdims=keepdims)
    assert type(got) is type(want)
    if want is np.ma.masked:
        assert got is want
        return
    np.testing.assert_array_equal(np.ma.getmaskarray(got), np.ma.getmaskarray(want))
    counts = ~np.ma.getmaskarray(x)
    values = expected_of(row, x.data, axis, None, keepdims, counts)
    values[np.ma.getmaskarray(want)] = 0
    assert_same_bits(np.ma.filled(got, 0), values)
    if row in (SUM, MEAN):
        by_numpy = np.sum if row is SUM else np.mean
        theirs = by_numpy(x, axis=axis, keepdims=keepdims)
        np.testing.assert_array_equal(np.ma.filled(theirs, 0).astype("f4"), values)
    if isinstance(want, np.ma.MaskedArray):
        assert (got.mask is np.ma.nomask) == (want.mask is np.ma.nomask)
        assert got.fill_value == want.fill_value


def test_masked_integers_and_other_arguments() -> None:
    x = np.ma.masked_array(np.int8([[3, 100], [4, 5]]), [[0, 1], [0, 0]])
    assert halfulp.sum_square(x) == 50
    assert halfulp.sum_square(x).dtype == np.int64
    got = halfulp.sum_square(x, 0, dtype=np.float16)
    assert (got.dtype, got.tolist()) == (np.float16, [25.0, 25.0])
    big = np.ma.masked_array(np.int32([50000, 50000]), [True, False])
    with pytest.raises(halfulp.SumOverflowError, match="2500000000; int32 cannot"):
        halfulp.sum_square(big, dtype="i4", overflow="raise")
    for arguments, message in (
        ({"out": np.empty((), np.int64)}, "out is given with a masked array; allowed"),
        ({"where": [True, False]}, "where is given with a masked array, which has its"),
        ({"split_every": 2}, "split_every is given, x is no Dask array"),
    ):
        with pytest.raises(ArgumentError, match=f"^{message}"):
            halfulp.sum_square(x, **arguments)
    with pytest.raises(AxesError, match="axis 2 is out of range"):
        halfulp.sum_square(x, 2)
    with pytest.raises(UnsupportedTypeError, match="x has dtype complex64; allowed"):
        halfulp.sum_square(x.astype("c8"))
