"""sum_square does what NumPy users expect of `axis`, `dtype`, `out`, `keepdims`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import halfulp
from oracle import FLOATS, INTEGERS, TYPES, assert_same_bits
from oracle import expected_sum_square as expected

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    "axis",
    [None, 0, 1, -1, (), (0,), (0, 2), (2, 0), (0, 1, 2), (-1, 0), np.int64(1), [0, 1]],
    ids=str,
)
def test_axis_and_keepdims_are_those_of_numpy(axis: object, keepdims: bool) -> None:
    if isinstance(axis, list):
        want = np.sum(X * X, axis=tuple(axis), keepdims=keepdims)
    else:
        want = np.sum(X * X, axis=axis, keepdims=keepdims)  # exact: small integers
    assert_same_bits(halfulp.sum_square(X, axis, keepdims=keepdims), want)


def test_a_full_sum_is_a_scalar_as_in_numpy() -> None:
    assert type(halfulp.sum_square(X)) is np.float32
    assert type(halfulp.sum_square(X.astype(ml_dtypes.bfloat16))) is ml_dtypes.bfloat16
    assert type(halfulp.sum_square(X, keepdims=True)) is np.ndarray
    assert type(halfulp.sum_square(np.float64(3))) is np.float64


@pytest.mark.parametrize(
    "x", [3, 3.0, np.float16(3), [1, 2, 2], [[1.0], [2.0], [2.0]], (3,)], ids=str
)
def test_scalars_and_nested_lists_are_arrays(x: object) -> None:
    result = halfulp.sum_square(x)
    assert result == 9
    assert result.dtype == np.asarray(x).dtype


@pytest.mark.parametrize("yes", [True, 1, np.True_, np.int8(1)])
def test_keepdims_is_a_bool_of_python_or_numpy(yes: object) -> None:
    for face in (halfulp.sum_square, halfulp.exact_sum_square):
        assert face(X, 1, keepdims=yes).shape == (2, 1, 4)
    assert halfulp.sum_square(X, 1, keepdims=np.False_).shape == (2, 4)


def test_an_overflowing_half_sum_is_right_in_float32() -> None:
    x = np.full(1000, 300, np.float16)
    assert halfulp.sum_square(x) == np.inf
    assert halfulp.sum_square(x, dtype=np.float32) == 90_000_000
    assert halfulp.sum_square(x, dtype="bfloat16") == ml_dtypes.bfloat16(90_000_000)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=lambda t: f"to_{t}")
def test_integers_go_to_any_integer_type(
    rng: np.random.Generator, dtype: np.dtype, target: np.dtype
) -> None:
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, (20, 7), dtype=dtype, endpoint=True)
    assert_same_bits(halfulp.sum_square(x, 1, dtype=target), expected(x, 1, target))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=lambda t: f"to_{t}")
def test_overflow_raises_exactly_when_the_sum_does_not_fit(
    dtype: np.dtype, target: np.dtype
) -> None:
    limit = int(np.iinfo(target).max)
    largest = int(np.iinfo(dtype).max)
    rows = []
    for wanted in (limit, limit + 1):
        roots, left = [], wanted
        while left and len(roots) < 40:
            roots.append(min(int(left**0.5), largest))
            while roots[-1] ** 2 > left:
                roots[-1] -= 1
            left -= roots[-1] ** 2
        rows.append((roots, wanted - left))
    for roots, total in rows:
        x = np.array(roots).astype(dtype)
        assert halfulp.exact_sum_square(x) == total
        if total <= limit:
            assert halfulp.sum_square(x, dtype=target, overflow="raise") == total
        else:
            with pytest.raises(
                halfulp.SumOverflowError, match=f"is {total}; {target} cannot"
            ):
                halfulp.sum_square(x, dtype=target, overflow="raise")


def test_overflow_beyond_64_and_128_bits_is_exact() -> None:
    x = np.full(5, 2**64 - 1, np.uint64)
    with pytest.raises(halfulp.SumOverflowError, match=str(5 * (2**64 - 1) ** 2)):
        halfulp.sum_square(x, overflow="raise")
    low = np.full(4, -(2**63), np.int64)
    with pytest.raises(halfulp.SumOverflowError, match=str(4 * 2**126)):
        halfulp.sum_square(low, overflow="raise")


def test_overflow_raise_means_nothing_for_floats() -> None:
    assert halfulp.sum_square(np.float32([1e30]), overflow="raise") == np.inf


def test_out_is_filled_and_returned() -> None:
    out = np.empty((2, 4), np.float32)
    assert halfulp.sum_square(X, 1, out=out) is out
    assert_same_bits(out, expected(X, 1))
    kept = out.reshape(2, 1, 4) * 0
    assert halfulp.sum_square(X, 1, out=kept, keepdims=True) is kept
    assert_same_bits(kept[:, 0], out)


@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_the_dtype_of_out_is_that_of_the_result(target: np.dtype) -> None:
    out = np.empty((2, 4), target)
    halfulp.sum_square(X, 1, out=out)
    assert_same_bits(out, expected(X, 1, target))


def test_out_may_be_strided_swapped_or_unaligned() -> None:
    want = expected(X, 1)
    for out in (
        np.empty((4, 2), np.float32).T,
        np.empty((2, 8), np.float32)[:, ::2],
        np.empty((2, 4), np.float32)[::-1],
        np.empty((2, 4), ">f4"),
        np.empty(33, np.uint8)[1:].view(np.float32).reshape(2, 4),
    ):
        halfulp.sum_square(X, 1, out=out)
        assert np.array_equal(out, want)


def test_out_may_overlap_the_input() -> None:
    x = np.arange(12, dtype=np.float64).reshape(3, 4)
    want = expected(x, 0)
    halfulp.sum_square(x, 0, out=x[1])
    assert_same_bits(x[1].copy(), want)
    y = np.arange(5, dtype=np.int64)
    halfulp.sum_square(y, (), out=y)
    assert y.tolist() == [0, 1, 4, 9, 16]


def test_out_is_untouched_when_the_sum_overflows() -> None:
    x = np.array([[1, 2], [2**31 - 1, 1]], np.int32)
    out = np.full(2, 7, np.int32)
    with pytest.raises(halfulp.SumOverflowError):
        halfulp.sum_square(x, 1, out=out, overflow="raise")
    assert out.tolist() == [7, 7]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"axis": 1.5}, "AxesError", "axis 1.5 is not an integer"),
        ({"axis": True}, "AxesError", "axis True is not an integer"),
        ({"axis": (0, "1")}, "AxesError", "axis '1' is not an integer"),
        (
            {"dtype": np.int32},
            "UnsupportedTypeError",
            "dtype is int32; allowed for a sum of float32: bfloat16, float16, float32",
        ),
        (
            {"dtype": "int8"},
            "UnsupportedTypeError",
            "dtype is int8; allowed: bfloat16",
        ),
        ({"dtype": "nonsense"}, "ArgumentError", "dtype is 'nonsense', not a dtype"),
        (
            {"overflow": "saturate"},
            "ArgumentError",
            "overflow is 'saturate'; allowed: 'wrap' or 'raise'",
        ),
        ({"out": [1.0]}, "ArgumentError", "out is a list; allowed: a numpy.ndarray"),
        (
            {"out": np.empty((), np.int8)},
            "UnsupportedTypeError",
            "out has dtype int8; allowed: bfloat16",
        ),
        (
            {"out": np.empty(3, np.float32)},
            "ArgumentError",
            "out has shape (3,); allowed: ()",
        ),
        (
            {"out": np.empty((), np.float64), "dtype": "float32"},
            "ArgumentError",
            "out has dtype float64; allowed: float32",
        ),
        (
            {"out": np.broadcast_to(np.float32(0), ())},
            "ArgumentError",
            "out is read-only; allowed: a writable array",
        ),
    ],
    ids=str,
)
def test_bad_arguments_get_one_clear_line(
    arguments: dict[str, object], error: str, message: str
) -> None:
    with pytest.raises(getattr(halfulp, error), match=re.escape(message)) as caught:
        halfulp.sum_square(X, **arguments)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, halfulp.HalfulpError)


def test_floats_refuse_an_integer_result() -> None:
    with pytest.raises(
        halfulp.UnsupportedTypeError,
        match="dtype is int64; allowed for a sum of float64: bfloat16, float16, float32,",
    ):
        halfulp.sum_square([1.0, 2.0], dtype=int)
    with pytest.raises(
        halfulp.UnsupportedTypeError, match="out has dtype uint32; allowed for a sum of"
    ):
        halfulp.sum_square([1.0, 2.0], out=np.empty((), np.uint32))


@pytest.mark.parametrize(
    ("axis", "keepdims", "where"),
    [
        (None, False, "squares is"),
        (None, True, r"squares of output \[0, 0, 0\] is"),
        (0, False, r"squares of output \[2, 1\] is"),
        ((0, 2), True, r"squares of output \[0, 2, 0\] is"),
        ((), False, r"squares of output \[1, 2, 1\] is"),
    ],
)
def test_an_overflow_error_tells_the_index_of_the_output(
    axis: object, keepdims: bool, where: str
) -> None:
    x = np.ones((2, 3, 4), np.int32)
    x[1, 2, 1] = 70000
    state = halfulp.SumSquare("int32", halfulp.sum_square(x, axis, keepdims=False).shape)
    state.update(x, axis)
    for layout in (x, np.asfortranarray(x), x[::-1][::-1].astype(">i4")):
        for out in (None, halfulp.sum_square(x, axis, dtype="i4", keepdims=keepdims)):
            with pytest.raises(halfulp.SumOverflowError, match=where):
                halfulp.sum_square(
                    layout,
                    axis,
                    dtype="i4",
                    keepdims=keepdims,
                    overflow="raise",
                    out=None if out is None else np.array(out),
                )
    if not keepdims:
        with pytest.raises(halfulp.SumOverflowError, match=where):
            state.result("int32", overflow="raise")


STATE = halfulp.SumSquare("float")


@pytest.mark.parametrize(
    ("parameter", "call", "arguments"),
    [
        ("x", halfulp.sum_square, (np.ones(3, "c8"),)),
        ("x", halfulp.sum_square, ([[1], [1, 2]],)),
        ("where", halfulp.sum_square, (X, None, {"where": [1]})),
        ("where", halfulp.sum_square, (X, None, {"where": np.ones(3, bool)})),
        ("out", halfulp.sum_square, (np.ma.ones(3), None, {"out": np.empty(())})),
        ("dtype", halfulp.sum_square, (X, None, {"dtype": "int8"})),
        ("dtype", halfulp.sum_square, (X, None, {"dtype": "int32"})),
        ("out", halfulp.sum_square, (X, None, {"out": np.empty((), np.int32)})),
        ("split_every", halfulp.sum_square, (X, None, {"split_every": 2})),
        ("data", halfulp.reduce_sum_square, (np.ones(3, "i1"),)),
        ("data", halfulp.reduce_sum_square, ([[1], [1, 2]],)),
        ("data", halfulp.reduce_sum_square, (np.ma.masked_array([1.0]),)),
        ("axes", halfulp.reduce_sum_square, (X, 0)),
        ("keepdims", halfulp.reduce_sum_square, (X, None, {"keepdims": 2})),
        ("x", halfulp.exact_sum_square, (np.ones(3, "c8"),)),
        ("x", halfulp.exact_sum_square, ([[1], [1, 2]],)),
        ("array", STATE.update, (np.ones(3, "i1"),)),
        ("array", STATE.update, (np.ones(3),)),
        ("array", STATE.update, ([[1], [1, 2]],)),
        ("array", STATE.update, (X, 0)),
        ("dtype", STATE.result, ("int8",)),
        ("dtype", STATE.result, ("int32",)),
        ("other", STATE.merge, (1,)),
        ("type", halfulp.SumSquare, ("int8",)),
        ("type", halfulp.SumSquare, ("nonsense",)),
        ("type", STATE.astype, ("int8",)),
        ("shape", halfulp.SumSquare, ("float", -1)),
        ("parts", halfulp.SumSquare.concatenate, ([STATE, 1], 2)),
        ("parts", halfulp.SumSquare.concatenate, (STATE, 2)),
        ("keepdims", halfulp.sum_square, (X, None, {"keepdims": "yes"})),
        ("keepdims", halfulp.sum_square, (X, None, {"keepdims": np.ones(2)})),
        ("keepdims", halfulp.exact_sum_square, (X, None, {"keepdims": 2})),
        ("order", halfulp.SumSquare.concatenate, ([STATE], 1, "A")),
        ("n", halfulp.set_num_threads, (0,)),
        ("axes", halfulp.onnx.infer_shape, ((2, 3), 0)),
        ("shape", halfulp.onnx.infer_shape, (2,)),
    ],
)
def test_errors_name_the_parameter_as_the_signature_does(
    parameter: str, call: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    assert parameter in inspect.signature(call).parameters
    *positional, last = arguments
    named = last if isinstance(last, dict) else {}
    if not named:
        positional.append(last)
    with pytest.raises(halfulp.HalfulpError, match=rf"^{parameter} ") as caught:
        call(*positional, **named)
    assert "\n" not in str(caught.value)


def test_subclasses_of_ndarray_are_read_as_arrays(tmp_path: object) -> None:
    mapped = np.memmap(f"{tmp_path}/x.bin", np.float32, "w+", shape=(3, 4))
    mapped[...] = 2
    result = halfulp.sum_square(mapped, 0)
    assert type(result) is np.ndarray
    assert result.tolist() == [12.0] * 4


def test_ragged_lists_are_no_array() -> None:
    with pytest.raises(halfulp.UnsupportedTypeError, match="x is not an array"):
        halfulp.sum_square([[1, 2], [3]])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_type_has_its_name(dtype: np.dtype) -> None:
    assert halfulp.sum_square([[1, 2]] * 2, dtype="int32").dtype == np.int32
    assert halfulp.sum_square(np.ones(2, dtype), dtype=dtype).dtype == dtype
