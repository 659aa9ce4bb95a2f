"""SumSquare: exact in whatever order terms come; its bytes are checked to the last."""

from __future__ import annotations

import copy
import functools
import json
import math
import pickle
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given

import halfulp
from foreign import Exporter
from halfulp import SumSquare, _core
from halfulp.conformance.bits import EMAX
from halfulp.conformance.cases import hard_rows
from halfulp.exact import exact_sum_square, round_exact
from layouts import strided_arrays
from memory import bytes_left
from oracle import (
    CONFIGURATIONS,
    FLOATS,
    INTEGERS,
    PRECISION,
    TYPES,
    arrays,
    assert_same_bits,
    bits,
    configuration,
    expected,
    from_bits,
)
from serialized import with_crc

NAMES = ("bfloat16", "float16", "float", "double", "int32", "int64", "uint32", "uint64")
NUMPY_NAMES = dict(zip(NAMES, map(str, TYPES), strict=True))
# Bytes that a sum may take, in memory and elsewhere.
MOST_BYTES = dict(zip(NAMES, (96, 96, 96, 600, 16, 16, 16, 16), strict=True))

by_type = pytest.mark.parametrize("dtype", TYPES, ids=str)
by_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
by_name = pytest.mark.parametrize("name", NAMES)

Axis = int | tuple[int, ...] | None


def any_values(rng: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    """Values of every family of hard rows, or integers of every size."""
    if dtype in FLOATS:
        family = hard_rows.FAMILIES[rng.integers(len(hard_rows.FAMILIES))]
        rows = family(rng, dtype, n // 33 + 1, 33)
    else:
        info = np.iinfo(dtype)
        rows = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
        rows >>= rng.integers(0, 8 * dtype.itemsize, n).astype(dtype)
    return rows.ravel()[:n]


def state_of(x: np.ndarray, axis: Axis = None) -> SumSquare:
    shape = np.shape(np.sum(np.empty(x.shape, np.bool_), axis))
    return SumSquare(x.dtype, shape).update(x, axis)


def assert_holds(state: SumSquare, x: np.ndarray, axis: Axis = None) -> None:
    """Compare all that a state says of one array with the oracle."""
    exact = np.asarray(exact_sum_square(x, axis), dtype=object)
    assert state.shape == exact.shape
    assert state.count == (x.size // exact.size if exact.size else state.count)
    if x.dtype in INTEGERS and exact.size and exact.max() >= 2**127:
        with pytest.raises(halfulp.SumOverflowError, match=r"2\*\*127 or more"):
            state.exact()
    else:
        got = np.asarray(state.exact(), dtype=object)
        for one, other in zip(got.ravel(), exact.ravel(), strict=True):
            assert one == other or (one != one and other != other)
            assert type(one) is type(other)
    for target in FLOATS if x.dtype in FLOATS else INTEGERS:
        want = np.empty(exact.shape, target)
        for index in np.ndindex(exact.shape):
            want[index] = round_exact(exact[index], target)
        assert_same_bits(state.result(target), want)


# --- the sums


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((5000,), None),
        ((3, 700), 1),
        ((70, 40), 0),
        ((300, 130), 0),
        ((5000, 3), 0),
        ((3, 20, 5, 7), (0, 2)),
        ((6, 5), ()),
        ((1, 0, 4), 1),
        ((), None),
    ],
    ids=str,
)
@by_type
def test_a_state_is_exact_for_every_kernel_thread_count_and_layout(
    rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...], axis: Axis
) -> None:
    for _ in range(3):
        x = any_values(rng, dtype, math.prod(shape)).reshape(shape)
        first = state_of(x, axis)
        assert_holds(first, x, axis)
        layouts = [x, np.asfortranarray(x), x[..., None].repeat(2, -1)[..., 0]]
        if dtype.name != "bfloat16":
            layouts.append(x.astype(dtype.newbyteorder()))
        for target, threads in CONFIGURATIONS:
            with configuration(target, threads):
                for same in layouts:
                    assert state_of(same, axis) == first, (target, threads)


@given(x=strided_arrays(), data=st.data())
def test_every_layout_and_axes(x: np.ndarray, data: st.DataObject) -> None:
    axes = data.draw(
        st.lists(st.integers(-x.ndim, x.ndim - 1), unique_by=lambda a: a % x.ndim)
        if x.ndim
        else st.just([])
    )
    axis = tuple(axes)
    want = expected(x, axis)
    for target in _core.target_names():
        with configuration(target, 2):
            state = SumSquare(want.dtype, want.shape).update(x, axis)
        assert_same_bits(state.result(want.dtype), want)


@pytest.mark.parametrize("dtype", [np.float32, np.int32], ids=lambda t: t.__name__)
@pytest.mark.parametrize(
    ("order", "axis"),
    [((0, 1, 2), 1), ((2, 1, 0), 1), ((1, 0, 2), 0), ((0, 2, 1), (0, 2)), ((2, 0, 1), 2)],
    ids=str,
)
def test_a_long_update_adds_to_what_the_sums_hold(
    order: tuple[int, ...], axis: int | tuple[int, ...], dtype: type
) -> None:
    x = np.random.default_rng(15).integers(-99, 99, (48, 300, 301)).astype(dtype)
    x = x.transpose(order)[::-1, :, ::-1]
    axes = axis if isinstance(axis, tuple) else (axis,)
    kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    long, short = SumSquare(dtype, kept), SumSquare(dtype, kept)
    for _ in range(2):
        long.update(x, axis)
        for piece in np.array_split(x, 30, axes[0]):
            short.update(piece, axis)
    assert long == short
    want = 2 * halfulp.sum_square(x.astype("f8"), axis)
    assert np.array_equal(long.result("f8"), want)


@pytest.mark.parametrize("target", _core.target_names())
def test_a_sum_just_above_a_power_of_two_is_not_rounded_to_it(target: str) -> None:
    # 2^53 + 1 in one lane of binary64, which rounds it to a number that looks untouched.
    squared = [66584576, 66322432, 13041664, 2211840, 226304, 7584, 356, 167]
    assert sum(n * n for n in squared) == 2**53 + 1
    dtype = np.dtype(ml_dtypes.bfloat16)
    for stride in (8, 16, 32, 64):
        rows = np.zeros(8 * stride, dtype)
        rows[::stride] = squared
        columns = np.zeros((64, 8), dtype)
        columns[:8] = np.array(squared, dtype)[:, np.newaxis]
        with configuration(target, 1):
            assert SumSquare(dtype).update(rows).exact() == 2**53 + 1
            sums = SumSquare(dtype, 8).update(columns, axis=0)
        assert sums.exact().tolist() == [2**53 + 1] * 8


@by_float
def test_values_of_any_range_are_exact(rng: np.random.Generator, dtype: np.dtype) -> None:
    # Whatever exponents a kernel's accumulators have room for: below, at and beyond.
    p, emax = PRECISION[dtype.name], EMAX[dtype.name]
    n = 5000
    for spread in range(0, 60, 2):
        significands = rng.integers(2 ** (p - 1), 2**p, (2, n)) | 1
        top = int(rng.choice([emax, emax // 2, emax // 2 - 20, 1, -emax // 2, -emax]))
        exponents = top + 1 - p - rng.integers(0, spread + 1, (2, n))
        significands[1] = 2**p - 1  # and as large as they can be
        exponents[1, 1::2] = top + 1 - p
        with np.errstate(under="ignore", over="ignore"):
            x = np.ldexp(significands.astype(float), exponents).astype(dtype)
        for array, axis in ((x, 1), (x.reshape(2, 250, 20), 1)):
            exact = np.asarray(exact_sum_square(array, axis), dtype=object)
            for target in _core.target_names():
                with configuration(target, 1):
                    got = state_of(array, axis).exact()
                assert np.array_equal(got, exact), (spread, top, target)


@by_float
def test_values_of_changing_size_are_exact(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    # A kernel may guess from the last few thousand elements how large the next are.
    emax = EMAX[dtype.name]
    for _ in range(12):
        values = rng.standard_normal((7, 4096))
        exponents = rng.integers(-12, 13, (7, 1)) * rng.choice([1, 3, emax // 12])
        values[rng.integers(7)] *= rng.choice([0, 0, 1, np.inf, 1e30])
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            x = np.ldexp(values, exponents).astype(dtype).ravel()
        exact = exact_sum_square(x)
        for target in _core.target_names():
            with configuration(target, 1):
                got = state_of(x)
            assert_same_bits(got.result(), round_exact(exact, dtype))
            if isinstance(exact, Fraction):
                assert got.exact() == exact


@by_type
def test_any_chunks_in_any_order_and_tree_give_the_same_bytes(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    for _ in range(20):
        x = any_values(rng, dtype, 1200).reshape(300, 4)
        want = state_of(x, 0)
        cuts = np.sort(rng.integers(0, 300, rng.integers(1, 40)))
        chunks = np.split(rng.permutation(x), cuts)
        states = []
        for chunk in chunks:
            target, threads = CONFIGURATIONS[rng.integers(len(CONFIGURATIONS))]
            with configuration(target, threads):
                states.append(state_of(chunk, 0))
        while len(states) > 1:
            one = states.pop(rng.integers(len(states)))
            other = states.pop(rng.integers(len(states)))
            if rng.integers(3) == 0:
                one = SumSquare.from_bytes(one.to_bytes())
            if rng.integers(2) == 0:
                states.append(one + other)
            else:
                one += other
                states.append(one)
        assert states[0] == want
        assert states[0].to_bytes() == want.to_bytes()
        serial = SumSquare(dtype, 4)
        for chunk in chunks:
            serial.update(chunk, axis=0)
        assert serial.to_bytes() == want.to_bytes()


@st.composite
def three_states(draw: st.DrawFn) -> tuple[SumSquare, ...]:
    dtype = draw(st.sampled_from(TYPES))
    width = 8 * dtype.itemsize
    elements = st.lists(st.integers(0, 2**width - 1), max_size=6)
    arrays = draw(st.tuples(elements, elements, elements))
    return tuple(state_of(from_bits(a, dtype)) for a in arrays)


@given(three_states())
def test_merge_is_associative_and_commutative_in_bits(s: tuple[SumSquare, ...]) -> None:
    a, b, c = s
    assert ((a + b) + c).to_bytes() == (a + (b + c)).to_bytes()
    assert (a + b).to_bytes() == (b + a).to_bytes()
    assert (a + SumSquare(a.dtype)).to_bytes() == a.to_bytes()


@by_float
def test_nan_counts_before_infinity_and_infinity_before_numbers(dtype: np.dtype) -> None:
    kinds = {v: np.full(70, v).astype(dtype) for v in (1.0, np.inf, -np.inf, -np.nan)}
    for first in kinds.values():
        for second in kinds.values():
            both = np.concatenate([first, second])
            merged = state_of(first) + state_of(second)
            assert_same_bits(merged.result(), expected(both)[()])
            assert merged == state_of(both) == state_of(second).update(first)
    # What else was added leaves no trace.
    some = np.concatenate([kinds[1.0], kinds[np.inf]])
    assert state_of(some) == state_of(np.concatenate([kinds[np.inf]] * 2))


@by_type
def test_more_than_2_to_the_62_terms_carry(dtype: np.dtype) -> None:
    # Of the greatest square: every carry that 2^63 - 1 terms can cause.
    if dtype in FLOATS:
        value = from_bits(bits(np.array(np.inf, dtype)) - 1, dtype)
        one: Fraction | int = Fraction(float(value))
    else:
        value = np.asarray(np.iinfo(dtype).max, dtype)
        one = int(value)
    state = state_of(np.full(7, value))
    for i in range(61):
        total = 7 * one**2 * 2**i
        assert state.count == 7 << i
        if dtype in INTEGERS and total >= 2**127:
            with pytest.raises(halfulp.SumOverflowError):
                state.exact()
        else:
            assert state.exact() == total
        assert_same_bits(state.result(dtype), round_exact(total, dtype))
        assert SumSquare.from_bytes(state.to_bytes()) == state
        if i < 60:
            state.merge(state)
    state.update(value, ())
    before = state.to_bytes()
    with pytest.raises(halfulp.SumOverflowError, match="would be of"):
        state.merge(state)
    with pytest.raises(halfulp.SumOverflowError, match="would be of 9223372036854775808"):
        state.update(np.broadcast_to(value, 2**60 - 1))
    assert state.to_bytes() == before


def test_32_bit_integers_never_pass_the_bound_of_exact() -> None:
    for dtype, value in (("int32", -(2**31)), ("uint32", 2**32 - 1)):
        state = state_of(np.array([value], dtype))
        for _ in range(62):
            state.merge(state)
        assert state.exact() == value**2 << 62


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_raise_where_they_do_not_fit(dtype: np.dtype) -> None:
    most = np.iinfo(dtype).max
    root = math.isqrt(most)
    x = np.array([[1, root], [0, 1]], dtype)
    state = state_of(x, 1)
    assert_same_bits(state.result(dtype, overflow="raise"), expected(x, 1))
    state.update(np.array([[1], [most]], dtype), 1)
    with pytest.raises(
        halfulp.SumOverflowError, match=rf"output \[1\] is .*{dtype} cannot hold"
    ):
        state.result(dtype, overflow="raise")
    assert_same_bits(
        state.result(dtype), expected(np.array([[1, root, 1], [0, 1, most]], dtype), 1)
    )
    huge = state_of(np.array([most], dtype))
    for _ in range(62):
        huge.merge(huge)
    with pytest.raises(halfulp.SumOverflowError, match=f"{dtype} cannot hold it"):
        huge.result(dtype, overflow="raise")


def test_count_is_that_of_one_sum() -> None:
    state = SumSquare("float", (2, 3))
    assert state.count == 0
    assert np.array_equal(state.result(), np.zeros((2, 3)))
    state.update(np.ones((4, 2, 5, 3), np.float32), (0, 2))
    state.update(np.ones((2, 3), np.float32), ())
    state.update(np.ones((0, 2, 3), np.float32), 0)
    assert state.count == 21
    assert np.array_equal(state.result(), np.full((2, 3), 21))
    empty = SumSquare("int64", (0, 3)).update(np.ones((7, 0, 3), np.int64), 0)
    assert (empty.count, empty.result().shape) == (7, (0, 3))


def test_dlpack_producers_and_lists_are_read() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert SumSquare("float", 4).update(Exporter(x), 0) == state_of(x, 0)
    assert SumSquare("double").update([3.0, 4.0]).result() == 25


def test_no_layout_is_copied() -> None:
    x = np.ones((2048, 8192), np.float32)
    views = [x, x.T, x[:, ::2], x[::-1], x.astype(">f4")]
    totals = [SumSquare("float") for _ in views]
    columns = [SumSquare("float", view.shape[1]) for view in views]
    with bytes_left(2**21), halfulp.num_threads(1):
        for view, total, column in zip(views, totals, columns, strict=True):
            total.update(view)
            column.update(view, 0)
    assert [t.result() for t in totals] == [view.size for view in views]
    for view, column in zip(views, columns, strict=True):
        assert np.all(column.result() == view.shape[0])


# --- the object


@by_name
def test_types_go_by_the_names_of_onnx_and_numpy(name: str) -> None:
    dtype = np.dtype(TYPES[NAMES.index(name)])
    for given_ in (name, dtype, dtype.type, dtype.newbyteorder()):
        state = SumSquare(given_, (2, 3))
        assert (state.type, state.dtype, state.shape) == (name, dtype, (2, 3))


@by_name
def test_a_sum_takes_few_bytes(name: str) -> None:
    small, large = SumSquare(name, 1), SumSquare(name, 1001)
    assert large.nbytes == 1001 * small.nbytes
    assert small.nbytes <= MOST_BYTES[name]
    assert len(large.to_bytes()) - len(small.to_bytes()) == 1000 * small.nbytes
    assert len(SumSquare(name).to_bytes()) - small.nbytes <= 32


@by_type
def test_copies_and_pickles_are_equal_and_apart(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    state = state_of(any_values(rng, dtype, 60).reshape(20, 3), 0)
    before = state.to_bytes()
    copies = [state.copy(), copy.copy(state), copy.deepcopy(state)]
    copies += [pickle.loads(pickle.dumps(state, n)) for n in range(6)]
    for other in copies:
        assert other == state
        assert other.to_bytes() == before
        other.update(np.ones((1, 3)).astype(dtype), 0)
        assert other != state
    assert state.to_bytes() == before


class Named(SumSquare):
    """A class of a user's."""


def test_what_becomes_of_an_object_of_a_subclass_is_one_too() -> None:
    state = Named("float").update(np.float32([3, 4]))
    states = [state.copy(), copy.copy(state), copy.deepcopy(state), state + state]
    states += [pickle.loads(pickle.dumps(state, n)) for n in range(6)]
    states += [state.astype("double"), Named.from_bytes(state.to_bytes())]
    assert {type(other) for other in states} == {Named}
    plain = SumSquare("float").update(np.float32([3, 4]))
    assert pickle.loads(pickle.dumps(plain)) == plain


def test_equality_is_of_type_shape_count_and_sums() -> None:
    state = state_of(np.float32([3, 4]))
    assert state == state_of(np.float32([5, 0]))
    assert state != state_of(np.float32([5]))
    assert state != state_of(np.float32([3, 3]))
    assert state != state_of(np.float64([3, 4]))
    assert state != state_of(np.float32([[3, 4]]), 1)
    assert state != 25
    with pytest.raises(TypeError):
        hash(state)


def test_the_representation_is_short() -> None:
    state = SumSquare("bfloat16", (1000, 1000))
    assert repr(state) == "<SumSquare: bfloat16, shape (1000, 1000), count 0>"


X = np.ones((3, 4), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: SumSquare("int8"), halfulp.UnsupportedTypeError, "int8; allowed: bfl"),
        (
            lambda: SumSquare("half?"),
            halfulp.UnsupportedTypeError,
            "'half.'; allowed: bf",
        ),
        (lambda: SumSquare("float", -1), halfulp.ArgumentError, "shape is -1; allowed"),
        (lambda: SumSquare("float", (2, 2.5)), halfulp.ArgumentError, "shape is .*2.5"),
        (lambda: SumSquare("float", (2**62, 4)), halfulp.ArgumentError, "shape is"),
        (
            lambda: SumSquare("float", 3).update(X, 0),
            halfulp.ArgumentError,
            r"array of shape \(3, 4\) .* has shape \(4,\); allowed: \(3,\)",
        ),
        (
            lambda: SumSquare("double", 4).update(X, 0),
            halfulp.UnsupportedTypeError,
            "dtype float32; allowed: float64",
        ),
        (lambda: SumSquare("float", 4).update(X, 2), halfulp.AxesError, "axis|axes"),
        (lambda: SumSquare("float").update("x"), halfulp.UnsupportedTypeError, "array"),
        (
            lambda: SumSquare("float").merge(SumSquare("float", 1)),
            halfulp.ArgumentError,
            r"shape \(1,\); allowed: float and \(\)",
        ),
        (lambda: SumSquare("float").merge(1), halfulp.ArgumentError, "other is a int"),
        (
            lambda: SumSquare("float").result("int32"),
            halfulp.UnsupportedTypeError,
            "dtype is int32; allowed for results of float32: bfloat16",
        ),
        (
            lambda: SumSquare("int32").result(overflow="no"),
            halfulp.ArgumentError,
            "overflow is 'no'; allowed",
        ),
    ],
)
def test_bad_arguments_are_one_line_of_error(
    call: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_addition_with_something_else_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        SumSquare("float") + 1  # type: ignore[operator]


def test_a_refused_update_changes_nothing() -> None:
    state = state_of(X, 0)
    before = state.to_bytes()
    for bad in (X.T, X.astype(float), X[0]):
        with pytest.raises(halfulp.HalfulpError):
            state.update(bad, 0)
    assert state.to_bytes() == before


# --- the bytes

GOLDEN = Path(__file__).parents[1] / "stored" / "states.json"


def golden_array(dtype: np.dtype) -> np.ndarray:
    """Bit patterns spread over the type, in three columns; infinite in the second."""
    width = 8 * dtype.itemsize
    odd = 0x9E3779B97F4A7C15 >> (64 - width) | 1
    x = from_bits([i * odd % 2**width for i in range(60)], dtype).reshape(20, 3)
    if dtype in FLOATS:
        x = np.where(np.isfinite(x), x, 0).astype(dtype)
        x[3, 1] = np.inf
    return x


@by_name
def test_bytes_are_the_same_on_every_platform(name: str) -> None:
    x = golden_array(np.dtype(TYPES[NAMES.index(name)]))
    want = json.loads(GOLDEN.read_text())[name]
    for target, threads in CONFIGURATIONS:
        with configuration(target, threads):
            assert state_of(x, 0).to_bytes().hex() == want
    assert_holds(SumSquare.from_bytes(bytes.fromhex(want)), x, 0)


@by_name
def test_pickles_load_that_were_made_when_sums_were_in_another_module(name: str) -> None:
    content = bytes.fromhex(json.loads(GOLDEN.read_text())[name])
    length = len(content).to_bytes(4, "little")
    old = b"\x80\x03chalfulp.state\n_from_bytes\nB" + length + content + b"\x85R."
    loaded = pickle.loads(old)
    assert type(loaded) is SumSquare
    assert loaded.to_bytes() == content
    # In their place is the class itself, too.
    assert pickle.loads(b"chalfulp.state\nSumSquare\n.") is SumSquare


@by_name
def test_bytes_are_what_their_description_says(name: str) -> None:
    data = bytes.fromhex(json.loads(GOLDEN.read_text())[name])
    x = golden_array(np.dtype(TYPES[NAMES.index(name)]))
    magic, version, _, rank, crc, count = struct.unpack_from("<8sHBBIQ", data)
    assert (magic, version, rank, count) == (b"halfulpS", 1, 1, 20)
    assert struct.unpack_from("<Q", data, 24) == (3,)
    assert zlib.crc32(data[:12] + data[16:]) == crc
    size = (len(data) - 32) // 3
    for i, want in enumerate(exact_sum_square(x, 0)):
        total = int.from_bytes(data[32 + i * size : 32 + (i + 1) * size], "little")
        if want == math.inf:
            assert total == 1 << (8 * size - 2)
        elif x.dtype in INTEGERS:
            assert total == want % 2**127 + (2**127 if want >= 2**127 else 0)
        else:
            least = 2 - EMAX[x.dtype.name] - PRECISION[x.dtype.name]
            assert Fraction(total) * Fraction(2) ** (2 * least) == want


def damaged(rng: np.random.Generator, data: bytes, count: int) -> Iterator[Any]:
    """Yield bytes of which one to three differ from `data`."""
    batch = np.tile(np.frombuffer(data, np.uint8), (count, 1))
    for i in range(3):
        other = rng.integers(1, 256, count, dtype=np.uint8) * (rng.random(count) < 0.5**i)
        # Half of them in the head.
        end = np.where(rng.integers(2, size=count) == 0, 40, len(data))
        batch[np.arange(count), rng.integers(0, end)] ^= other
    yield from batch[np.any(batch != np.frombuffer(data, np.uint8), axis=1)]


def test_a_million_damaged_byte_strings_are_a_million_errors(
    rng: np.random.Generator,
) -> None:
    seen = refused = 0
    for dtype in TYPES:
        state = state_of(any_values(rng, dtype, 60).reshape(20, 3), 0)
        for data in damaged(rng, state.to_bytes(), 125_050):
            seen += 1
            try:
                SumSquare.from_bytes(data)
            except halfulp.ArgumentError:
                refused += 1
    assert seen >= 1_000_000
    assert refused == seen


@by_type
def test_damage_with_a_right_checksum_is_an_error_or_a_state(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    state = state_of(any_values(rng, dtype, 60).reshape(20, 3), 0)
    read = 0
    for data in damaged(rng, state.to_bytes(), 5000):
        try:
            other = SumSquare.from_bytes(with_crc(data.tobytes()))
        except halfulp.ArgumentError:
            continue
        read += 1
        # It is what some elements can have, and so goes on working.
        assert SumSquare.from_bytes(other.to_bytes()) == other
        if other.shape == (3,):
            assert other.to_bytes() == with_crc(data.tobytes())
            for _ in range(70):
                try:
                    other.merge(other)
                except halfulp.SumOverflowError:
                    break
            other.result()
            SumSquare.from_bytes(other.to_bytes())
    assert read > 0


def head(
    *,
    magic: bytes = b"halfulpS",
    version: int = 1,
    code: int = 1,
    count: int = 1,
    shape: tuple[int, ...] = (),
    rank: int | None = None,
    states: bytes = bytes(80),
) -> bytes:
    rank = len(shape) if rank is None else rank
    data = struct.pack("<8sHBBIQ", magic, version, code, rank, 0, count)
    return with_crc(data + struct.pack(f"<{len(shape)}Q", *shape) + states)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes; allowed: 24 or more"),
        (head()[:23], "23 bytes; allowed: 24 or more"),
        (head()[:-1], r"has 103 bytes; allowed: 104 for shape \(\)"),
        (head() + b"\0", r"has 105 bytes; allowed: 104 for shape \(\)"),
        (head(magic=b"halfulp!"), "begin with b'halfulp!'; allowed"),
        (head(version=3), "version 3; allowed: 1, 2"),
        (head(code=2), "type 2 and rank 0; allowed"),
        (head(rank=65), "rank 65; allowed"),
        (head(rank=200), "rank 200; allowed"),
        (head(shape=(2**63,)), "allowed: 737869762948382064672"),
        (head(shape=(2**64 - 1,) * 64), "allowed: "),
        (head(shape=(2**64 - 1, 0), states=b""), "shape is"),
        (head(shape=(2**62, 4, 0), states=b""), "shape is"),
        (head(count=2**63), "9223372036854775808 squares of float cannot"),
        (head(count=0, states=b"\1" + bytes(79)), "0 squares of float cannot"),
        (head(states=bytes(79) + b"\xc0"), "1 squares of float cannot"),
        (head(states=bytes(79) + b"\x20"), "1 squares of float cannot"),
        (head(states=b"\1" + bytes(78) + b"\x80"), "1 squares of float cannot"),
        (head(code=6, states=bytes(8) + b"\1" + bytes(7)), "1 squares of int32 cannot"),
    ],
)
def test_lying_bytes_are_one_line_of_error(data: bytes, message: str) -> None:
    with pytest.raises(halfulp.ArgumentError, match=message) as caught:
        SumSquare.from_bytes(data)
    assert "\n" not in str(caught.value)


def test_what_is_no_bytes_is_an_error() -> None:
    for bad in ("text", 5, None, np.ones((4, 4))[:, ::2]):
        with pytest.raises(halfulp.ArgumentError, match="no C-contiguous bytes"):
            SumSquare.from_bytes(bad)
    state = state_of(X)
    for good in (bytearray(state.to_bytes()), memoryview(state.to_bytes())):
        assert SumSquare.from_bytes(good) == state


def test_lying_sizes_take_no_memory() -> None:
    # Of 1 GiB of states there are 80 bytes; there is memory for 16 MiB.
    data = head(shape=(2**30 // 80,)).hex()
    code = (
        "import resource, halfulp;"
        "page = resource.getpagesize();"
        "used = int(open('/proc/self/statm').read().split()[0]) * page;"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**24,) * 2);\n"
        "try:\n"
        f"    halfulp.SumSquare.from_bytes(bytes.fromhex('{data}'))\n"
        "except halfulp.ArgumentError:\n"
        "    print('refused')\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert output.strip() == "refused"


def test_pythons_sum_adds_states() -> None:
    parts = [SumSquare("float").update(np.float32([v])) for v in (4096, 1, 1)]
    before = [part.copy() for part in parts]
    total = sum(parts)
    assert total.result() == np.float32(16777218)
    assert total == sum(parts, SumSquare("float"))
    assert parts == before
    one = sum(parts[:1])
    assert one == parts[0]
    assert one is not parts[0]
    for other in (1, 0.0, None, False):
        with pytest.raises(TypeError, match="unsupported operand"):
            other + parts[0]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_float_is_the_exact_sum_rounded_once(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    x = arrays(rng, dtype, (50,)) // (1 if dtype in FLOATS else 8)
    got = float(state_of(x))
    assert type(got) is float
    assert got == round_exact(Fraction(halfulp.exact_sum_square(x)), "float64")


def test_float_of_special_sums_and_of_several() -> None:
    assert float(SumSquare("float", ())) == 0
    assert float(state_of(np.float16([np.inf]))) == math.inf
    assert math.isnan(float(state_of(np.float16([np.nan]))))
    with pytest.raises(TypeError, match=r"shape \(1,\) is no float; allowed: of shape"):
        float(SumSquare("float", 1))
    huge = state_of(np.uint64([2**64 - 1]))
    with pytest.raises(halfulp.SumOverflowError, match="2\\*\\*127"):
        float(huge)


def test_functools_reduce_merges_a_list() -> None:
    states = [state_of(np.float64([i])) for i in range(10)]
    total = functools.reduce(SumSquare.merge, states, SumSquare("double"))
    assert total.result() == 285
    assert [s.count for s in states] == [1] * 10
