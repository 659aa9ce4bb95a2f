"""Maxima and minima: every bit, from a definition in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import halfulp
from halfulp.errors import ArgumentError, HalfulpError, SumOverflowError
from halfulp.exact import round_exact
from oracle import (
    CONFIGURATIONS,
    FLOATS,
    INTEGERS,
    SMALL,
    assert_same_bits,
    configuration,
    from_bits,
    some_configurations,
)

TYPES = [*FLOATS, *INTEGERS, *SMALL]
FUNCTIONS = [halfulp.max, halfulp.min]
by_type = pytest.mark.parametrize("dtype", TYPES, ids=str)
by_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
by_function = pytest.mark.parametrize("function", FUNCTIONS, ids=["max", "min"])

# Elements of a row: around those of vectors of 16 to 64 bytes, and of four of them.
LENGTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 257, 300)


def quiet_nan(dtype: np.dtype[Any]) -> Any:
    """The NaN that is returned: no sign, the first bit of the significand."""
    bits = {"bfloat16": 0x7FC0, "float16": 0x7E00, "float32": 0x7FC00000}
    return from_bits(np.array([bits.get(dtype.name, 0x7FF8 << 48)]), dtype)[0]


def one(function: Callable[..., Any], elements: Any, dtype: np.dtype[Any]) -> Any:
    """What a set of elements has to give."""
    best = max if function is halfulp.max else min
    if dtype not in FLOATS:
        return best(int(each) for each in elements)
    numbers = [float(each) for each in elements]
    if any(math.isnan(each) for each in numbers):
        return quiet_nan(dtype)
    return best(numbers, key=lambda x: (x, math.copysign(1, x)))


def wanted(function: Callable[..., Any], x: Any, axis: int | None = None) -> Any:
    native = x.dtype.newbyteorder("=")
    rows = x.reshape(1, -1) if axis is None else np.moveaxis(x, axis, -1)
    result = np.empty(rows.shape[:-1], native)
    for index in np.ndindex(result.shape):
        result[index] = one(function, rows[index], native)
    return result.reshape(()) if axis is None else result


def any_bits(
    rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Any:
    """Elements of all kinds, NaN rarely."""
    if dtype.kind == "b":
        return rng.random(shape) < rng.choice([0.02, 0.5, 0.98])
    if dtype not in FLOATS:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    x = (rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 9)).astype(dtype)
    kind = rng.integers(5)
    if kind == 0:
        x = -np.abs(x)
    elif kind == 1:
        x = np.copysign(dtype.type(0), x).astype(dtype)
    elif kind == 2:
        unsigned = np.dtype(f"u{dtype.itemsize}")
        bits = rng.integers(0, np.iinfo(unsigned).max, shape, unsigned, endpoint=True)
        x = from_bits(bits, dtype).reshape(shape)
    elif kind == 3 and x.size:
        x.flat[rng.integers(x.size)] = rng.choice([np.inf, -np.inf, np.nan, -np.nan])
    return x


def layouts_of(rng: np.random.Generator, x: Any) -> Iterator[Any]:
    yield x
    yield x.T
    yield x[::-1, ::2]
    yield x[:, 1:]
    if x.dtype.itemsize > 1 and x.dtype != FLOATS[0]:
        yield x.astype(x.dtype.newbyteorder())
    raw = np.zeros(x.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(x.dtype).reshape(x.shape)
    unaligned[...] = x
    yield unaligned


@by_function
@by_type
def test_bits_are_those_of_the_definition_in_any_layout(
    function: Callable[..., Any], dtype: np.dtype[Any]
) -> None:
    rng = np.random.default_rng([17, dtype.num, dtype.itemsize])
    for _ in range(12):
        shape = tuple(int(n) for n in rng.choice(LENGTHS, 2))
        whole = any_bits(rng, dtype, shape)
        for x in layouts_of(rng, whole):
            if x.size == 0:
                continue
            axis = (None, 0, 1)[rng.integers(3)]
            want = wanted(function, x.astype(dtype), axis)
            for target, threads in some_configurations(rng):
                with configuration(target, threads):
                    got = function(x, axis)
                assert_same_bits(got, want)


@by_function
@by_float
def test_a_nan_of_either_sign_wins_wherever_it_stands(
    function: Callable[..., Any], dtype: np.dtype[Any]
) -> None:
    nan = quiet_nan(dtype)
    quiet_bits = np.asarray(nan).view(f"u{dtype.itemsize}")
    signalling = from_bits(np.array([quiet_bits ^ 3]), dtype)
    for target in {target for target, _ in CONFIGURATIONS}:
        for n in LENGTHS:
            for place in range(n):
                for given in (nan, -nan, -signalling[0]):
                    x = np.full((n, 1), -np.inf, dtype)
                    x[place] = given
                    with configuration(target, 1):
                        assert_same_bits(function(x[:, 0]), nan)
                        assert_same_bits(function(x, 0), np.full(1, nan))


@by_function
@by_float
def test_a_zero_below_0_is_less_wherever_it_stands(
    function: Callable[..., Any], dtype: np.dtype[Any]
) -> None:
    for target in {target for target, _ in CONFIGURATIONS}:
        for n in LENGTHS[1:]:
            for place in range(n):
                for rest in (0.0, -0.0):
                    x = np.full((n, 1), rest, dtype)
                    x[place] = -rest
                    want = dtype.type(0.0 if function is halfulp.max else -0.0)
                    with configuration(target, 1):
                        assert_same_bits(function(x[:, 0]), want)
                        assert_same_bits(function(x, 0), np.full(1, want))


@by_function
@by_type
def test_the_one_that_counts_is_found_wherever_it_stands(
    function: Callable[..., Any], dtype: np.dtype[Any]
) -> None:
    low, high = (0, 1) if dtype.kind in "bu" else (-2, 3)
    rest, best = (low, high) if function is halfulp.max else (high, low)
    for target in {target for target, _ in CONFIGURATIONS}:
        for n in LENGTHS:
            x = np.full((n, n), rest, dtype)
            np.fill_diagonal(x, best)
            with configuration(target, 2):
                for axis in (0, 1):
                    assert_same_bits(function(x, axis), np.full(n, best, dtype))


@by_function
@by_type
def test_where_leaves_the_initial_of_what_does_not_count(
    function: Callable[..., Any], dtype: np.dtype[Any]
) -> None:
    rng = np.random.default_rng(3)
    x = any_bits(rng, dtype, (40, 70))
    where = rng.random((40, 70)) < 0.1
    where[7] = False
    initial = x[3, 3]
    for axis in (0, 1):
        lines = np.moveaxis(x, axis, -1), np.moveaxis(where, axis, -1)
        sets = [[*line[mask], initial] for line, mask in zip(*lines, strict=True)]
        want = np.array([one(function, each, dtype) for each in sets], dtype)
        for target, threads in some_configurations(rng):
            with configuration(target, threads):
                got = function(x, axis, where=where, initial=initial)
            assert_same_bits(got, want)


@by_function
@by_type
def test_what_is_masked_does_not_count(
    function: Callable[..., Any], dtype: np.dtype[Any]
) -> None:
    rng = np.random.default_rng(4)
    x: Any = np.ma.masked_array(any_bits(rng, dtype, (9, 33)), rng.random((9, 33)) < 0.7)
    x.mask[4] = True
    got = function(x, axis=1)
    assert got.mask.tolist() == x.mask.all(axis=1).tolist()
    for i in range(9):
        if i != 4:
            assert_same_bits(
                got.data[i], dtype.type(one(function, x[i].compressed(), dtype))
            )


@by_function
def test_sets_of_nothing_need_an_initial_as_in_numpy(
    function: Callable[..., Any],
) -> None:
    for shape, axis in [((0,), None), ((0, 3), 0), ((0, 0), 0), ((3, 0), (0, 1))]:
        x = np.zeros(shape, np.int16)
        with pytest.raises(ArgumentError, match="no elements is not defined"):
            function(x, axis)
        with pytest.raises(ArgumentError, match="no elements is not defined"):
            function(x.tolist() if x.ndim == 1 else x, axis, out=np.zeros(3, np.int16))
        got = function(x, axis, initial=5)
        assert_same_bits(got, np.full(np.shape(got), 5, np.int16))
    assert function(np.zeros((0, 3)), 1).shape == (0,)
    with pytest.raises(ArgumentError, match="where is given without initial"):
        function([1, 2], where=[True, True])


@pytest.mark.parametrize(
    ("dtype", "initial"),
    [
        ("int8", 300),
        ("int32", 2.5),
        ("uint8", -1),
        ("int64", np.nan),
        ("float32", "x"),
        ("float32", [1.0, 2.0]),
        ("float64", 1j),
    ],
)
def test_initial_is_a_number_of_the_dtype(dtype: str, initial: Any) -> None:
    with pytest.raises(ArgumentError, match=r"initial is .* allowed: a number of"):
        halfulp.max(np.ones(3, dtype), initial=initial)


@by_function
def test_out_has_the_dtype_of_the_elements(function: Callable[..., Any]) -> None:
    x = np.array([[1, 2], [4, 3]], np.int8)
    for out in (np.zeros(2, np.int8), np.zeros(4, np.int8)[::2]):
        assert function(x, 1, out=out) is out
        assert_same_bits(out, wanted(function, x, 1))
    want = wanted(function, x, 1)
    assert_same_bits(function(x, 1, out=x[0]), want)
    with pytest.raises(
        ArgumentError, match="out has dtype int64; allowed: int8, that of x"
    ):
        function(x, 1, out=np.zeros(2, np.int64))
    with pytest.raises(ArgumentError, match="out has shape"):
        function(x, 1, out=np.zeros(3, np.int8), initial=1)


def test_bytes_of_bool_other_than_1_are_true() -> None:
    x = np.array([[2, 255], [0, 64]], np.uint8).view(bool)
    assert halfulp.max(x, 1).view(np.uint8).tolist() == [1, 1]
    assert halfulp.min(x, 1).view(np.uint8).tolist() == [1, 0]
    assert halfulp.vector_norm(x, 1, ord=np.inf).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("ord_", [np.inf, -np.inf])
@by_type
def test_norms_are_sizes_rounded_once(dtype: np.dtype[Any], ord_: float) -> None:
    rng = np.random.default_rng(5)
    function = halfulp.max if ord_ > 0 else halfulp.min
    for shape in [(3, 70), (70, 3), (17, 33)]:
        x = any_bits(rng, dtype, shape)
        for axis in (0, 1):
            want = np.empty(shape[1 - axis], dtype if dtype in FLOATS else np.float64)
            for i, line in enumerate(np.moveaxis(x, axis, -1)):
                sizes = [abs(e) if dtype in FLOATS else abs(int(e)) for e in line]
                want[i] = one(function, sizes, dtype)
            for target, threads in some_configurations(rng):
                with configuration(target, threads):
                    got = halfulp.vector_norm(x, axis, ord=ord_)
                assert_same_bits(got, want)


def test_the_size_of_the_least_integer_is_above_the_greatest() -> None:
    for dtype in ("int8", "int16", "int32", "int64"):
        least = np.iinfo(dtype).min
        x = np.array([least, 1], dtype)
        assert halfulp.vector_norm(x, ord=np.inf) == float(-int(least))
        assert halfulp.vector_norm(x[:1], ord=-np.inf) == float(-int(least))
    x = np.array([np.iinfo(np.int64).min])
    assert halfulp.vector_norm(x, ord=np.inf, dtype=np.uint64) == 2**63
    with pytest.raises(SumOverflowError, match="the exact norm is 9223372036854775808"):
        halfulp.vector_norm(x, ord=np.inf, dtype=np.int64, overflow="raise")
    assert_same_bits(
        halfulp.vector_norm(np.array([2**53 + 1, -(2**53) - 3], np.int64), ord=np.inf),
        np.float64(2**53 + 4),
    )


def test_norms_of_another_dtype_are_rounded_once() -> None:
    x = np.array([1e-45, -65519.996], np.float32)
    assert halfulp.vector_norm(x, ord=np.inf, dtype=np.float16) == 65504
    assert (
        halfulp.vector_norm(np.array([65520], np.float32), ord=np.inf, dtype=np.float16)
        == np.inf
    )
    assert halfulp.vector_norm(x, ord=-np.inf, dtype=np.float64) == 2.0**-149
    # To bfloat16 by way of binary32 this would be rounded to the even neighbour below.
    between = np.array([1 + 2.0**-8 + 2.0**-40], np.float64)
    got = halfulp.vector_norm(between, ord=np.inf, dtype=FLOATS[0])
    assert float(got) == 1 + 2.0**-7


def test_norms_of_nothing() -> None:
    assert halfulp.vector_norm([], ord=np.inf) == 0
    assert halfulp.vector_norm([], ord=-np.inf) == np.inf
    assert halfulp.vector_norm([3.0], ord=-np.inf, where=[False]) == np.inf


@pytest.mark.parametrize("ord_", [np.inf, -np.inf])
def test_exact_norms_are_the_same(ord_: float) -> None:
    rng = np.random.default_rng(8)
    for dtype in TYPES:
        for _ in range(9):
            x = any_bits(rng, dtype, (3, 5))
            exact = halfulp.exact_norm(x, 1, ord=ord_)
            got = halfulp.vector_norm(x, 1, ord=ord_)
            want = [round_exact(each, got.dtype) for each in exact]
            assert_same_bits(got, np.array(want, got.dtype))
    empty = np.zeros(0)
    assert halfulp.exact_norm(empty, ord=ord_) == halfulp.vector_norm(empty, ord=ord_)


@by_function
def test_lazy_arrays_give_the_same(function: Callable[..., Any]) -> None:
    dask = pytest.importorskip("dask.array")
    rng = np.random.default_rng(6)
    for dtype in TYPES:
        x = any_bits(rng, dtype, (30, 50))
        lazy = dask.from_array(x, chunks=(7, 20))
        for axis in (None, 0, 1):
            for keepdims in (False, True):
                got = function(lazy, axis, keepdims=keepdims)
                want = np.asarray(function(x, axis, keepdims=keepdims))
                assert got.dtype == want.dtype
                assert_same_bits(got.compute(), want)
            for ord_ in (np.inf, -np.inf):
                got = halfulp.vector_norm(lazy, axis, ord=ord_).compute()
                assert_same_bits(got, np.asarray(halfulp.vector_norm(x, axis, ord=ord_)))
    for arguments in ({"initial": 1}, {"where": True, "out": np.zeros(())}):
        with pytest.raises(HalfulpError):
            function(lazy, **arguments)


ONNX = {halfulp.max: halfulp.reduce_max, halfulp.min: halfulp.reduce_min}
# What the operators take, from version 20 on.
ONNX_TYPES = [*FLOATS, *INTEGERS, *map(np.dtype, ("int8", "uint8", "bool"))]


@by_function
@pytest.mark.parametrize("dtype", ONNX_TYPES, ids=str)
def test_operators_give_the_same_and_know_empty_sets(
    function: Callable[..., Any], dtype: np.dtype[Any]
) -> None:
    rng = np.random.default_rng(9)
    reduce = ONNX[function]
    x = any_bits(rng, dtype, (4, 9))
    assert_same_bits(reduce(x, [1, -1]), wanted(function, x, 1).reshape(4, 1))
    assert_same_bits(reduce(x, keepdims=0), wanted(function, x))
    alone = wanted(function, x[..., None], 2)
    assert_same_bits(reduce(x, [], noop_with_empty_axes=1), alone)
    is_max = function is halfulp.max
    if dtype.kind == "b":
        none: Any = not is_max
    elif dtype in FLOATS:
        none = -np.inf if is_max else np.inf
    else:
        none = np.iinfo(dtype).min if is_max else np.iinfo(dtype).max
    empty = np.zeros((0, 2), dtype)
    assert_same_bits(reduce(empty, [0]), np.full((1, 2), none, dtype))
    assert_same_bits(reduce(empty, [1]), np.zeros((0, 1), dtype))


@by_function
@pytest.mark.parametrize("dtype", ["int16", "uint16", "complex64"])
def test_operators_take_no_other_types(function: Callable[..., Any], dtype: str) -> None:
    with pytest.raises(HalfulpError, match=f"data has dtype {dtype}; allowed: "):
        ONNX[function](np.ones(3, dtype))
