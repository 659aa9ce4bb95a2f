"""All functions do what NumPy users expect of `axis`, `dtype`, `out`, `keepdims`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import halfulp
from halfulp.conformance.cases.preimages import INVERSES, preimage
from halfulp.reductions import L1, L2, MEAN, SUM, SUM_SQUARE, SUMS, Reduction
from oracle import (
    FLOATS,
    INTEGERS,
    SMALL,
    TYPES,
    arrays,
    assert_same_bits,
    exact_function_of,
    expected_of,
    function_of,
    numpys,
    result_dtype,
)
from rows import by_row

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)  # of exact sums


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    "axis",
    [None, 0, 1, -1, (), (0,), (0, 2), (2, 0), (0, 1, 2), (-1, 0), np.int64(1), [0, 1]],
    ids=str,
)
@by_row
def test_axis_and_keepdims_are_those_of_numpy(
    row: Reduction, axis: Any, keepdims: bool
) -> None:
    given = tuple(axis) if isinstance(axis, list) else axis
    got = function_of(row)(X, axis, keepdims=keepdims)
    assert_same_bits(got, expected_of(row, X, given, keepdims=keepdims))
    assert_same_bits(got, numpys(row, X, axis=given, keepdims=keepdims))


@by_row
def test_a_result_without_axes_is_a_scalar_as_in_numpy(row: Reduction) -> None:
    reduce = function_of(row)
    assert type(reduce(X)) is np.float32
    assert type(reduce(X.astype(ml_dtypes.bfloat16))) is ml_dtypes.bfloat16
    assert type(reduce(X, keepdims=True)) is np.ndarray
    assert type(reduce(np.float64(3))) is np.float64
    assert type(reduce(np.array(3, np.float16), ())) is np.float16
    for dtype in SMALL + INTEGERS:
        x = np.ones(3, dtype)
        assert type(reduce(x)) is type(numpys(row, x))


@pytest.mark.parametrize(
    "x",
    [3, 3.0, -3, True, np.float16(3), [1, 2, 2], [[1.0], [2.0], [2.0]], (3,), [], [[]]],
    ids=str,
)
@by_row
def test_scalars_and_nested_lists_are_arrays(row: Reduction, x: Any) -> None:
    assert_same_bits(function_of(row)(x), expected_of(row, np.asarray(x))[()])


@pytest.mark.parametrize("yes", [True, 1, np.True_, np.int8(1)])
@by_row
def test_keepdims_is_a_bool_of_python_or_numpy(row: Reduction, yes: object) -> None:
    for reduce in (function_of(row), exact_function_of(row)):
        assert reduce(X, 1, keepdims=yes).shape == (2, 1, 4)
        assert reduce(X, 1, keepdims=np.False_).shape == (2, 4)


def test_an_overflowing_half_sum_is_right_in_float32() -> None:
    x = np.full(1000, 300, np.float16)
    for row, want in ((SUM_SQUARE, 90_000_000), (SUM, 300_000), (L1, 300_000)):
        reduce = function_of(row)
        assert reduce(x) == np.inf
        assert reduce(x, dtype=np.float32) == want
        assert reduce(x, dtype="bfloat16") == ml_dtypes.bfloat16(want)
    assert halfulp.mean(x) == 300
    assert halfulp.vector_norm(x) == np.float16(300 * 1000**0.5)


@pytest.mark.parametrize("dtype", [*SMALL, *INTEGERS], ids=str)
@by_row
def test_integers_go_to_any_type(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> None:
    x = arrays(rng, dtype, (20, 7))
    for target in (None, *TYPES):
        want = expected_of(row, x, 1, target)
        assert_same_bits(function_of(row)(x, 1, dtype=target), want)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@by_row
def test_floats_go_to_any_type_of_floats(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> None:
    x = arrays(rng, dtype, (20, 7))
    for target in (None, *FLOATS):
        want = expected_of(row, x, 1, target)
        assert_same_bits(function_of(row)(x, 1, dtype=target), want)


def _integers_with_result(row: Reduction, result: int, n: int, largest: int) -> list[int]:
    """At most n numbers up to `largest`, in size, with a result up to this one."""
    sign = -1 if result < 0 else 1
    left = preimage(row.finish, abs(result), n)
    found = []
    while left and len(found) < n:
        found.append(min(INVERSES[row.term].largest(left), largest))
        left -= INVERSES[row.term].of(found[-1])
    return [sign * x for x in found] + [0] * (n - len(found))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=lambda t: f"to_{t}")
@by_row
def test_overflow_raises_exactly_when_the_result_does_not_fit(
    row: Reduction, dtype: np.dtype, target: np.dtype
) -> None:
    low, high = int(np.iinfo(target).min), int(np.iinfo(target).max)
    least, largest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    wanted = [high, high + 1]
    if row.term == "value" and np.iinfo(dtype).min < 0:
        wanted += [low, low - 1]
    fitting = 0
    for result in wanted:
        for n in (1, 2, 3, 40):
            *first, last = _integers_with_result(row, result, n, largest)
            for near in range(max(last - 1, least), min(last + 1, largest) + 1):
                x = np.array([*first, near], dtype)
                total = exact_function_of(row)(x)
                whole = int(sum(total) / 2 if isinstance(total, tuple) else total)
                reduce = partial(function_of(row), x, dtype=target, overflow="raise")
                if low <= whole <= high:
                    fitting += 1
                    assert reduce() == whole
                else:
                    with pytest.raises(
                        halfulp.SumOverflowError, match=f" is {whole}; {target} cannot"
                    ):
                        reduce()
                    assert (
                        int(function_of(row)(x, dtype=target))
                        == (whole - low) % 2 ** (8 * target.itemsize) + low
                    )
    assert fitting > 0


def test_overflow_beyond_64_and_128_bits_is_exact() -> None:
    high = np.full(5, 2**64 - 1, np.uint64)
    low = np.full(4, -(2**63), np.int64)
    for x, row, text in (
        (high, SUM_SQUARE, f"exact sum of squares is {5 * (2**64 - 1) ** 2}"),
        (low, SUM_SQUARE, f"exact sum of squares is {4 * 2**126}"),
        (high, SUM, f"exact sum is {5 * (2**64 - 1)}"),
        (low, SUM, f"exact sum is {-(2**65)}"),
        (high, MEAN, f"the whole part of the exact mean is {2**64 - 1}"),
        (low, MEAN, f"the whole part of the exact mean is {-(2**63)}"),
        (high, L1, f"exact norm is {5 * (2**64 - 1)}"),
        (low, L1, f"exact norm is {2**65}"),
        (low, L2, f"the whole part of the exact norm is {2**64}"),
    ):
        for dtype in ("int32", "uint32"):
            with pytest.raises(
                halfulp.SumOverflowError, match=f"^(the )?{text}; {dtype} cannot hold it$"
            ):
                function_of(row)(x, dtype=dtype, overflow="raise")


@by_row
def test_overflow_raise_means_nothing_for_floats(row: Reduction) -> None:
    x = np.float32([3e38, 3e38, 1])
    got = function_of(row)(x, overflow="raise")
    assert_same_bits(got, expected_of(row, x)[()])


@by_row
def test_out_is_filled_and_returned(row: Reduction) -> None:
    out = np.empty((2, 4), np.float32)
    assert function_of(row)(X, 1, out=out) is out
    assert_same_bits(out, expected_of(row, X, 1))
    kept = out.reshape(2, 1, 4) * 0
    assert function_of(row)(X, 1, out=kept, keepdims=True) is kept
    assert_same_bits(kept[:, 0], out)


@pytest.mark.parametrize("target", TYPES, ids=str)
@by_row
def test_the_dtype_of_out_is_that_of_the_result(row: Reduction, target: np.dtype) -> None:
    for x in (X, X.astype(np.int16)):
        if x is X and target in INTEGERS:
            continue
        for dtype in (None, target):
            out = np.empty((2, 4), target)
            function_of(row)(x, 1, dtype=dtype, out=out)
            assert_same_bits(out, expected_of(row, x, 1, target))


@by_row
def test_out_may_be_strided_swapped_or_unaligned(row: Reduction) -> None:
    want = expected_of(row, X, 1)
    for out in (
        np.empty((4, 2), np.float32).T,
        np.empty((2, 8), np.float32)[:, ::2],
        np.empty((2, 4), np.float32)[::-1],
        np.empty((2, 4), ">f4"),
        np.empty(33, np.uint8)[1:].view(np.float32).reshape(2, 4),
    ):
        function_of(row)(X, 1, out=out)
        assert np.array_equal(out, want)


@by_row
def test_out_may_overlap_the_input(row: Reduction) -> None:
    for place in range(3):
        x = np.arange(12, dtype=np.float64).reshape(3, 4) - 5
        want = expected_of(row, x, 0)
        function_of(row)(x, 0, out=x[place])
        assert_same_bits(x[place].copy(), want)
    y = np.arange(-2, 3)
    want = expected_of(row, y, (), "int64")
    function_of(row)(y, (), out=y)
    assert_same_bits(y, want)


@by_row
def test_out_is_untouched_when_a_result_does_not_fit(row: Reduction) -> None:
    x = np.array([[1, 2], [2**32 + 1, 2**32 + 5]])
    for out in (np.full(2, 7, np.int32), np.full(4, 7, np.int32)[::2]):
        with pytest.raises(halfulp.SumOverflowError, match=r"of output \[1\] is"):
            function_of(row)(x, 1, out=out, overflow="raise")
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
            "dtype is int32; allowed for results of float32: bfloat16, float16, float32",
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
@by_row
def test_bad_arguments_get_one_clear_line(
    row: Reduction, arguments: dict[str, object], error: str, message: str
) -> None:
    with pytest.raises(getattr(halfulp, error), match=re.escape(message)) as caught:
        function_of(row)(X, **arguments)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, halfulp.HalfulpError)
    if "out" not in arguments:  # nor is it written before the error
        out = np.full((), 7, np.float32)
        with pytest.raises(halfulp.HalfulpError):
            function_of(row)(X, out=out, **arguments)
        assert out == 7


@pytest.mark.parametrize(
    "ord", [0, 3, -1, 1.5, np.nan, "fro", "nuc", None, True, [2], "2"]
)
def test_other_norms_are_refused(ord: Any) -> None:
    out = np.full((), 7, np.float32)
    for norm in (halfulp.vector_norm, halfulp.exact_norm):
        with pytest.raises(
            halfulp.ArgumentError, match=r"^ord is .*; allowed: 1, 2, inf, -inf$"
        ):
            norm(X, ord=ord)
    with pytest.raises(halfulp.ArgumentError, match=r"^ord is "):
        halfulp.vector_norm(X, out=out, ord=ord)
    assert out == 7


@pytest.mark.parametrize("ord", [1, 2, 1.0, 2.0, np.int8(1), np.float32(2)], ids=repr)
def test_a_norm_is_named_by_any_number_that_is_1_or_2(ord: Any) -> None:
    want = np.linalg.vector_norm(X, ord=float(ord), axis=1)
    assert_same_bits(halfulp.vector_norm(X, 1, ord=ord), want)


@by_row
def test_floats_refuse_an_integer_result(row: Reduction) -> None:
    with pytest.raises(
        halfulp.UnsupportedTypeError,
        match="dtype is int64; allowed for results of float64: bfloat16, float16, float",
    ):
        function_of(row)([1.0, 2.0], dtype=int)
    with pytest.raises(
        halfulp.UnsupportedTypeError, match="out has dtype uint32; allowed for results of"
    ):
        function_of(row)([1.0, 2.0], out=np.empty((), np.uint32))


@pytest.mark.parametrize(
    ("axis", "keepdims", "where"),
    [
        (None, False, ""),
        (None, True, r" of output \[0, 0, 0\]"),
        (0, False, r" of output \[2, 1\]"),
        ((0, 2), True, r" of output \[0, 2, 0\]"),
        ((), False, r" of output \[1, 2, 1\]"),
    ],
)
@by_row
def test_an_overflow_error_tells_the_index_of_the_output(
    row: Reduction, axis: object, keepdims: bool, where: str
) -> None:
    x = np.zeros((2, 3, 4), np.int64)
    x[1, 2, 1] = 2**40
    what = {
        "sum_square": "exact sum of squares",
        "sum": "exact sum",
        "mean": "whole part of the exact mean",
        "l1": "exact norm",
        "l2": "whole part of the exact norm",
    }[row.name]
    reduce = partial(function_of(row), axis=axis, dtype="i4", keepdims=keepdims)
    message = rf"^the {what}{where} is \d+; int32 cannot hold it$"
    for layout in (x, np.asfortranarray(x), x[::-1][::-1].astype(">i8")):
        for out in (None, reduce(x)):
            with pytest.raises(halfulp.SumOverflowError, match=message):
                reduce(
                    layout,
                    overflow="raise",
                    out=None if out is None else np.array(out),
                )
    if row is SUM_SQUARE and not keepdims:
        state = halfulp.SumSquare("int64", np.shape(out)).update(x, axis)
        with pytest.raises(halfulp.SumOverflowError, match=f"squares{where} is"):
            state.result("int32", overflow="raise")


STATE = halfulp.SumSquare("float")


BAD = [
    ("x", (np.ones(3, "c8"),)),
    ("x", ([[1], [1, 2]],)),
    ("where", (X, None, {"where": [1]})),
    ("where", (X, None, {"where": np.ones(3, bool)})),
    ("out", (np.ma.ones(3), None, {"out": np.empty(())})),
    ("dtype", (X, None, {"dtype": "int8"})),
    ("dtype", (X, None, {"dtype": "int32"})),
    ("out", (X, None, {"out": np.empty((), np.int32)})),
    ("split_every", (X, None, {"split_every": 2})),
    ("keepdims", (X, None, {"keepdims": "yes"})),
    ("keepdims", (X, None, {"keepdims": np.ones(2)})),
]
BAD_FOR_EXACT = [
    ("x", (np.ones(3, "c8"),)),
    ("x", ([[1], [1, 2]],)),
    ("keepdims", (X, None, {"keepdims": 2})),
]
CALLS = [
    (parameter, function_of(row), arguments)
    for row in SUMS
    for parameter, arguments in BAD
]
CALLS += [
    (parameter, exact_function_of(row), arguments)
    for row in SUMS
    for parameter, arguments in BAD_FOR_EXACT
]


@pytest.mark.parametrize(
    ("parameter", "call", "arguments"),
    [
        *CALLS,
        ("data", halfulp.reduce_sum_square, (np.ones(3, "i1"),)),
        ("data", halfulp.reduce_sum_square, ([[1], [1, 2]],)),
        ("data", halfulp.reduce_sum_square, (np.ma.masked_array([1.0]),)),
        ("axes", halfulp.reduce_sum_square, (X, 0)),
        ("keepdims", halfulp.reduce_sum_square, (X, None, {"keepdims": 2})),
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


@by_row
def test_subclasses_of_ndarray_are_read_as_arrays(
    row: Reduction, tmp_path: object
) -> None:
    mapped = np.memmap(f"{tmp_path}/x.bin", np.float32, "w+", shape=(3, 4))
    mapped[...] = 2
    result = function_of(row)(mapped, 0)
    assert type(result) is np.ndarray
    assert_same_bits(result, expected_of(row, np.array(mapped), 0))


@by_row
def test_ragged_lists_are_no_array(row: Reduction) -> None:
    with pytest.raises(halfulp.UnsupportedTypeError, match="x is not an array"):
        function_of(row)([[1, 2], [3]])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@by_row
def test_every_type_has_its_name(row: Reduction, dtype: np.dtype) -> None:
    reduce = function_of(row)
    assert reduce([[1, 2]] * 2, dtype="int32").dtype == np.int32
    assert reduce(np.ones(2, dtype), dtype=dtype.name).dtype == dtype


@pytest.mark.parametrize("dtype", [*TYPES, *SMALL], ids=str)
@by_row
def test_results_have_the_types_of_numpys(row: Reduction, dtype: np.dtype) -> None:
    for shape in ((2, 3), (0, 3)):
        x = np.ones(shape, dtype)
        for axis in (None, 0, (), (0, 1)):
            for keepdims in (False, True):
                result = function_of(row)(x, axis, keepdims=keepdims)
                want = result_dtype(row, dtype)
                assert result.dtype == want
                assert type(result) is (np.ndarray if np.ndim(result) else want.type)


@by_row
def test_results_of_nothing_are_those_of_numpy(row: Reduction) -> None:
    for dtype in (*TYPES, *SMALL):
        x = np.ones((2, 0, 4), dtype)
        for axis in (None, 1, 2, (0, 1)):
            want = expected_of(row, x, axis)
            assert_same_bits(function_of(row)(x, axis), want[()])
            nothing = np.nan if row.finish == "mean" else 0
            np.testing.assert_array_equal(want.astype(float), nothing)
