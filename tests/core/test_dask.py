"""Dask arrays: lazy, and the same bits for every chunking and scheduler."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray
from distributed import Client, LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st

import halfulp
from halfulp import ArgumentError, AxesError, SumOverflowError, UnsupportedTypeError
from halfulp.element_types import ELEMENT_TYPES
from oracle import arrays, assert_same_bits
from oracle import expected_sum_square as expected

DTYPES = [t.dtype for t in ELEMENT_TYPES]
SHAPE = (7, 9, 5)
COUNTED = np.arange(7 * 9 * 5).reshape(SHAPE) % 3 > 0
AXES = [None, *(a for n in range(4) for a in itertools.combinations(range(3), n))]


@pytest.fixture(params=DTYPES, ids=str)
def data(request: pytest.FixtureRequest, rng: np.random.Generator) -> np.ndarray:
    return arrays(rng, request.param, SHAPE)


@pytest.mark.parametrize("chunks", [(2, 3, 5), (7, 9, 5), (3, 9, 1), (1, 1, 1)], ids=str)
def test_every_type_axis_and_chunking(data: np.ndarray, chunks: tuple[int, ...]) -> None:
    lazy = da.from_array(data, chunks=chunks)
    axes = AXES if chunks != (1, 1, 1) else [None, (0, 2)]
    lazies = {
        (axis, keepdims): halfulp.sum_square(lazy, axis, keepdims=keepdims)
        for axis in axes
        for keepdims in (False, True)
    }
    results = dask.compute(lazies, scheduler="sync")[0]
    for (axis, keepdims), result in results.items():
        assert_same_bits(np.asarray(result), expected(data, axis, keepdims=keepdims))


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("axes", [None, [], [1], [-1, 0, 0]])
def test_the_face_of_onnx(axes: Any, noop: int, keepdims: int) -> None:
    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    lazy = da.from_array(data, chunks=2)
    arguments = {"keepdims": keepdims, "noop_with_empty_axes": noop}
    result = halfulp.reduce_sum_square(lazy, axes, split_every=2, **arguments)
    want = halfulp.reduce_sum_square(data, axes, **arguments)
    assert isinstance(result, da.Array)
    assert (result.shape, result.dtype) == (want.shape, want.dtype)
    assert_same_bits(np.asarray(result.compute(scheduler="sync")), want)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_chunks_and_any_tree_give_the_same_bits(draw: st.DataObject) -> None:
    data = arrays(
        np.random.default_rng(draw.draw(st.integers(0, 9))), np.dtype("f4"), SHAPE
    )
    sizes = []
    for n in SHAPE:
        cuts = sorted(draw.draw(st.sets(st.integers(1, n - 1), max_size=4)))
        sizes.append(tuple(np.diff([0, *cuts, n]).tolist()))
    axis = draw.draw(st.sampled_from(AXES))
    every = draw.draw(
        st.one_of(
            st.none(),
            st.integers(2, 9),
            st.dictionaries(st.integers(0, 2), st.integers(2, 4)),
        )
    )
    lazy = da.from_array(data, chunks=tuple(sizes))
    result = halfulp.sum_square(lazy, axis, split_every=every)
    assert_same_bits(
        np.asarray(result.compute(scheduler="sync")), np.asarray(expected(data, axis))
    )


def test_it_is_lazy_and_tells_type_and_shape_beforehand() -> None:
    def fail(block: np.ndarray) -> np.ndarray:
        raise AssertionError("computed")

    # Dask tries the function on an empty block of no dimension.
    lazy = da.ones((8, 6), chunks=(2, 3), dtype="f4").map_blocks(
        fail, meta=np.empty((0, 0), np.float32)
    )
    for axis, keepdims, shape, chunks in [
        (0, False, (6,), ((3, 3),)),
        (1, True, (8, 1), ((2, 2, 2, 2), (1,))),
        (None, False, (), ()),
        ((), False, (8, 6), ((2, 2, 2, 2), (3, 3))),
    ]:
        result = halfulp.sum_square(lazy, axis, keepdims=keepdims, dtype="f8")
        assert (result.shape, result.chunks) == (shape, chunks)
        assert result.dtype == np.float64
        assert type(result._meta) is np.ndarray
        assert (result._meta.dtype, result._meta.ndim) == (np.float64, len(shape))
    with pytest.raises(AssertionError, match="computed"):
        result.compute(scheduler="sync")


APART = {
    "prod": (halfulp.prod, "f8 u1"),
    "logsumexp": (halfulp.logsumexp, "f4 i4"),
    "mean where": (partial(halfulp.mean, where=COUNTED), "f2 i8"),
    "var where": (partial(halfulp.var, where=COUNTED, ddof=1), "f4 i4"),
    "std where": (partial(halfulp.std, where=COUNTED), "f8 u1"),
    "max norm where": (partial(halfulp.vector_norm, ord=np.inf, where=COUNTED), "f4"),
}


@pytest.mark.parametrize("name", APART)
def test_what_does_not_merge_has_the_same_bits_for_every_chunking(
    name: str, rng: np.random.Generator
) -> None:
    function, dtypes = APART[name]
    for dtype in dtypes.split():
        x = (rng.standard_normal(SHAPE) * 2 + 4).astype(dtype)
        for chunks in (SHAPE, (2, 3, 5), (1, 9, 2)):
            lazy = da.from_array(x, chunks=chunks)
            for axis in (None, 0, (0, 2), ()):
                for keepdims in (False, True):
                    want = np.asarray(function(x, axis, keepdims=keepdims))
                    got = function(lazy, axis, keepdims=keepdims)
                    assert isinstance(got, da.Array)
                    assert (got.dtype, got.shape) == (want.dtype, want.shape)
                    assert_same_bits(np.asarray(got.compute(scheduler="sync")), want)


def test_what_does_not_merge_on_the_face_of_onnx(rng: np.random.Generator) -> None:
    x = rng.lognormal(0, 1, SHAPE).astype(np.float32)
    lazy = da.from_array(x, chunks=(2, 3, 5))
    for name in ("reduce_prod", "reduce_log_sum", "reduce_log_sum_exp"):
        function = getattr(halfulp, name)
        for axes in (None, [0], [1, -1]):
            got = function(lazy, axes).compute(scheduler="sync")
            assert_same_bits(got, function(x, axes))
    labelled = xarray.DataArray(lazy, dims=("a", "b", "c"), coords={"b": range(9)})
    product = halfulp.prod(labelled, axis=(0, 2))
    assert product.dims == ("b",)
    assert product.b.values.tolist() == list(range(9))
    assert_same_bits(product.compute().values, halfulp.prod(x, (0, 2)))


def test_a_product_of_unknown_chunks_is_refused_along_them() -> None:
    lazy = da.from_array(np.arange(1.0, 13), chunks=4)
    unknown = lazy[lazy > 3]
    with pytest.raises(ArgumentError, match=r"unknown sizes .* compute_chunk_sizes"):
        halfulp.prod(unknown)
    want = halfulp.prod(np.arange(4.0, 13))
    assert halfulp.prod(unknown.compute_chunk_sizes()).compute() == want


def test_unknown_chunks() -> None:
    data = np.arange(20, dtype=np.float64).reshape(10, 2)
    lazy = da.from_array(data, chunks=(3, 2))
    lazy = lazy[lazy[:, 0] > 5]
    kept = data[data[:, 0] > 5]
    for axis in (0, 1, None):
        result = halfulp.sum_square(lazy, axis)
        assert_same_bits(
            np.asarray(result.compute(scheduler="sync")), np.asarray(expected(kept, axis))
        )
    assert np.isnan(halfulp.sum_square(lazy, 1).shape[0])


def test_empty_arrays_and_rank_0() -> None:
    empty = da.zeros((3, 0, 2), chunks=2, dtype="f2")
    assert halfulp.sum_square(empty, 1).compute().tolist() == [[0, 0]] * 3
    assert halfulp.sum_square(empty, 0).compute().shape == (0, 2)
    scalar = halfulp.sum_square(da.from_array(np.array(3, np.int32)))
    assert scalar.compute(scheduler="sync") == 9


def test_results_of_another_type_and_overflow() -> None:
    halves = da.from_array(np.full(1000, 300, np.float16), chunks=10)
    assert halfulp.sum_square(halves).compute() == np.inf
    assert halfulp.sum_square(halves, dtype="f4").compute() == 9e7
    integers = da.from_array(np.full(2, 70000, np.int32), chunks=1)
    assert halfulp.reduce_sum_square(integers).compute() == 1210065408
    assert halfulp.sum_square(integers, overflow="raise").compute() == 9800000000
    narrow = halfulp.sum_square(integers, dtype="i4", overflow="raise")
    with pytest.raises(SumOverflowError):
        narrow.compute(scheduler="sync")


@pytest.mark.parametrize("split_every", [2, 7, 10**30, {0: 2, 1: 10**30}, {1: 10**30}])
def test_a_number_of_states_to_merge_takes_no_memory(split_every: Any) -> None:
    """Dask makes a list as long as the number."""
    lazy = da.ones((100, 100), chunks=(30, 40), dtype="f4")
    for axis, total in ((None, 10**4), (0, 100), ((0, 1), 10**4), ((), 1)):
        result = halfulp.sum_square(lazy, axis, split_every=split_every)
        assert (result.compute() == total).all()
    one = halfulp.sum_square(da.asarray(3.0), split_every=10**30)
    assert one.compute() == 9


@pytest.mark.parametrize("chunk", [None, "text", [[1.0]], {1: 2}])
def test_chunks_that_are_no_arrays_are_refused(chunk: Any) -> None:
    meta = np.ones((0, 0), "f4")
    lazy = da.ones((4, 4), chunks=2, dtype="f4").map_blocks(lambda _: chunk, meta=meta)
    with pytest.raises(UnsupportedTypeError):
        halfulp.sum_square(lazy, 0).compute()


def test_wrong_arguments_are_refused_before_anything_is_computed() -> None:
    lazy = da.ones((4, 4), chunks=2)
    for error, arguments in [
        (AxesError, {"axis": 2}),
        (AxesError, {"axis": (0, 0)}),
        (UnsupportedTypeError, {"dtype": "i4"}),
        (ArgumentError, {"overflow": "no"}),
        (ArgumentError, {"split_every": 1}),
        (ArgumentError, {"split_every": {0: 1}}),
        (ArgumentError, {"split_every": "x"}),
        (ArgumentError, {"out": np.empty(())}),
    ]:
        with pytest.raises(error):
            halfulp.sum_square(lazy, **arguments)
    with pytest.raises(UnsupportedTypeError, match="x has dtype complex128; allowed"):
        halfulp.sum_square(lazy * 1j)
    with pytest.raises(
        UnsupportedTypeError, match=r"data has dtype bool; allowed: .*64$"
    ):
        halfulp.reduce_sum_square(lazy > 0)
    with pytest.raises(ArgumentError, match="masked"):
        halfulp.sum_square(da.ma.masked_greater(lazy, 0))
    for face in (halfulp.sum_square, halfulp.reduce_sum_square):
        with pytest.raises(ArgumentError, match="no Dask array"):
            face(np.ones(3), split_every=2)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_schedulers_of_one_machine(scheduler: str, rng: np.random.Generator) -> None:
    data = arrays(rng, np.dtype("f4"), SHAPE)
    lazy = halfulp.sum_square(da.from_array(data, chunks=(2, 4, 5)), 0)
    assert_same_bits(lazy.compute(scheduler=scheduler, num_workers=2), expected(data, 0))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_two_worker_processes(client: Client, rng: np.random.Generator) -> None:
    data = [arrays(rng, dtype, SHAPE) for dtype in DTYPES]
    lazies = [halfulp.sum_square(da.from_array(x, chunks=(2, 4, 5)), 0) for x in data]
    for x, future in zip(data, client.compute(lazies), strict=True):
        assert_same_bits(future.result(60), expected(x, 0))


def _slowly(block: np.ndarray, marks: str) -> np.ndarray:
    """Leave a mark of this worker's process, and take a while."""
    (Path(marks) / str(os.getpid())).touch()
    time.sleep(0.05)
    return block


def test_a_worker_that_is_killed_changes_nothing(
    client: Client, tmp_path: Path, rng: np.random.Generator
) -> None:
    data = rng.standard_normal((40, 50)).astype(np.float32)
    lazy = da.from_array(data, chunks=(1, 50)).map_blocks(
        _slowly, str(tmp_path), dtype=data.dtype, meta=data[:0, :0]
    )
    future = client.compute(halfulp.sum_square(lazy, 0, split_every=4))
    while len(found := list(tmp_path.iterdir())) < 2:
        time.sleep(0.01)
    os.kill(int(found[0].name), signal.SIGKILL)
    assert_same_bits(future.result(60), expected(data, 0))
    # It came back, or another one, for what it had done was lost.
    assert len(list(tmp_path.iterdir())) >= 2


@pytest.mark.parametrize("chunks", [None, {"t": 3, "x": 2}])
def test_xarray_reduces_with_it(chunks: Any, rng: np.random.Generator) -> None:
    values = rng.standard_normal((7, 5)).astype(np.float32)
    array = xarray.DataArray(values, dims=("t", "x"), coords={"x": range(5)})
    if chunks:
        array = array.chunk(chunks)
    result = array.reduce(halfulp.sum_square, "t")
    assert result.dims == ("x",)
    assert_same_bits(result.values, expected(values, 0))
    assert array.reduce(halfulp.sum_square).values == expected(values)
