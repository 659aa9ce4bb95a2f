"""Each decision of the operator's contract, by its number.

Which version an opset means, 1, is tested with the table in test_reductions.py; what is
about a node, 1 to 6, on every face at once in tests/onnx/test_decisions.py; and 11 (bad
input) with the models too.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections import UserList, deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

import halfulp
import signed_rows
from adversarial import hard
from halfulp.conformance.cases import hard_rows
from halfulp.reductions import SUMS, Reduction
from halfulp.spec.rules import normalize_axes
from oracle import (
    FLOATS,
    TYPES,
    assert_same_bits,
    bits,
    exact_function_of,
    expected,
    expected_of,
    from_bits,
    function_of,
    result_dtype,
)
from rows import by_row

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("axis", [3, -4, 2**40, -(2**63)])
@by_row
def test_3_axes_out_of_range_are_errors_for_numpy_too(row: Reduction, axis: int) -> None:
    message = rf"axis {axis} is out of range for rank 3; allowed: \[-3, 2\]"
    for reduce in (function_of(row), exact_function_of(row)):
        with pytest.raises(halfulp.AxesError, match=message):
            reduce(X, axis)


@by_row
def test_3_the_same_axis_twice_is_a_set_for_onnx_and_an_error_for_numpy(
    row: Reduction,
) -> None:
    by_onnx = getattr(halfulp, row.onnx_name)
    assert_same_bits(by_onnx(X, [1, 1, -2]), expected_of(row, X, 1, keepdims=True))
    with pytest.raises(
        halfulp.AxesError, match="axis 1 is given twice; allowed: each axis once"
    ):
        function_of(row)(X, (1, -2))


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (np.int64(1), r"axes is np.int64\(1\); .* 1-D array of int64; write \[1\]"),
        (1, r"axes is 1; allowed: a sequence of int or .*; write \[1\]"),
        (np.array(-1), r"axes is array\(-1\); .*; write \[-1\]"),
        ("1", "axes is '1'; allowed: a sequence of int or a 1-D array of int64$"),
        (True, "axes is True; allowed: a sequence of int or a 1-D array of int64$"),
        (np.array([[1]]), "axes has rank 2; allowed: a sequence of int or a 1-D array"),
        (np.array([1], np.int32), "axes has dtype int32; allowed: int64"),
        (np.array([1.0]), "axes has dtype float64; allowed: int64"),
        ([1.0], "axis 1.0 is not an integer"),
        ([True], "axis True is not an integer"),
        (["1"], "axis '1' is not an integer"),
    ],
)
def test_3_axes_of_another_rank_or_type_are_errors(axes: object, message: str) -> None:
    with pytest.raises(halfulp.AxesError, match=message):
        halfulp.reduce_sum_square(X, axes)


@pytest.mark.parametrize("kind", [list, tuple, deque, UserList], ids=lambda t: t.__name__)
def test_3_axes_are_any_sequence_the_empty_one_too(kind: type) -> None:
    for axes in ([], [1], [0, -1]):
        given = kind(axes)
        want = expected(X, tuple(axes) or None, keepdims=True)
        assert_same_bits(halfulp.reduce_sum_square(X, given), want)
        same = tuple(axes)
        assert_same_bits(halfulp.sum_square(X, given), expected(X, same))
        assert (halfulp.exact_sum_square(X, given) == expected(X, same)).all()
        state = halfulp.SumSquare("float", expected(X, same).shape).update(X, given)
        assert_same_bits(state.result(), expected(X, same)[()])
        assert halfulp.onnx.infer_shape(X.shape, given) == want.shape


@pytest.mark.parametrize("axes", [range(0), range(2), range(2, -1, -2)], ids=str)
def test_3_axes_may_be_a_range(axes: range) -> None:
    want = expected(X, tuple(axes) or None, keepdims=True)
    assert_same_bits(halfulp.reduce_sum_square(X, axes), want)
    assert_same_bits(halfulp.sum_square(X, axes), expected(X, tuple(axes)))


@pytest.mark.parametrize(
    "axis", ["01", b"01", "", b"", 1.0, {0}, np.array([0, 1])], ids=repr
)
@by_row
def test_3_other_things_are_no_axes_for_numpy(row: Reduction, axis: object) -> None:
    with pytest.raises(halfulp.AxesError, match=r"axis .* is not an integer"):
        function_of(row)(X, axis)


@pytest.mark.parametrize("flag", ["keepdims", "noop_with_empty_axes"])
@pytest.mark.parametrize("value", [0.0, 1.0, None, "1"])
def test_4_flags_are_integers(flag: str, value: object) -> None:
    with pytest.raises(halfulp.ArgumentError, match=f"{flag} is .*; allowed: 0 or 1"):
        halfulp.reduce_sum_square(X, [0], **{flag: value})


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@by_row
def test_6_of_nothing_there_is_positive_zero_or_no_mean(
    row: Reduction, dtype: np.dtype
) -> None:
    x = np.zeros((2, 0, 4), dtype)
    for into in (result_dtype(row, dtype), dtype):
        of_floats = into in FLOATS
        nothing = np.array(np.nan if row.finish == "mean" and of_floats else 0)
        reduce = partial(function_of(row), dtype=into)
        assert_same_bits(reduce(x), nothing.astype(into))
        assert_same_bits(reduce(x, 1), np.full((2, 4), nothing).astype(into))
        assert_same_bits(reduce(x, 2), np.zeros((2, 0), into))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@by_row
def test_7_a_zero_result_is_positive(row: Reduction, dtype: np.dtype) -> None:
    least = from_bits([1], dtype)[0]
    for values in ([-0.0], [-0.0, 0.0, -0.0], [-0.0] * 70, [-least, -0.0, least]):
        zeros = np.array(values).astype(dtype)
        if row.term != "value" and zeros.any():
            continue
        assert bits(function_of(row)(zeros)) == 0
        assert not bits(function_of(row)(np.repeat(zeros[:, None], 3, 1), 0)).any()
    assert not bits(function_of(row)(np.array([-0.0, 0.0]).astype(dtype), ())).any()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_7_what_rounds_to_zero_keeps_its_sign(dtype: np.dtype) -> None:
    least = from_bits([1], dtype)[0]
    for n in (2, 3, 70):
        x = np.zeros(n, dtype)
        for value in (least, -least):
            x[n // 2] = value
            assert_same_bits(halfulp.mean(x), np.copysign(dtype.type(0), value))
    tiny = np.array([-(2.0**-1000), 2.0**-1001])
    for target in FLOATS[:3]:
        assert_same_bits(halfulp.sum(tiny, dtype=target), target.type(-0.0))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@by_row
def test_7_any_nan_gives_the_canonical_quiet_nan(row: Reduction, dtype: np.dtype) -> None:
    reduce = function_of(row)
    infinity = bits(np.array(np.inf, dtype))
    nans = [infinity + 1, infinity + 3, bits(np.array(-np.nan, dtype)) | 1]
    canonical = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}[dtype.itemsize]
    if dtype.name == "bfloat16":
        canonical = 0x7FC0
    for n in (1, 5, 100):
        for place in {0, n // 2, n - 1}:
            for nan in nans:
                for other in (1.0, np.inf, -np.inf):
                    x = np.full(n, other).astype(dtype)
                    x[place] = from_bits(nan, dtype)
                    assert bits(reduce(x)) == canonical
                    assert bits(reduce(x.reshape(n, 1), 0))[0] == canonical
    if row.term == "value":
        for n in (2, 5, 100):
            x = np.ones(n, dtype)
            x[n // 2], x[0] = np.inf, -np.inf
            assert bits(reduce(x)) == canonical
            assert bits(reduce(x.reshape(n, 1), 0))[0] == canonical


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@by_row
def test_7_infinities_of_one_sign_are_theirs(row: Reduction, dtype: np.dtype) -> None:
    reduce = function_of(row)
    for infinity in (np.inf, -np.inf):
        want = dtype.type(infinity if row.term == "value" else np.inf)
        for place in range(70):
            x = np.ones(70, dtype)
            x[place] = infinity
            assert_same_bits(reduce(x), want)
            x[(place + 3) % 70] = infinity
            assert_same_bits(reduce(x), want)
            x[(place + 9) % 70] = -np.finfo(np.float16).max * (1 if infinity > 0 else -1)
            assert_same_bits(reduce(x), want)


def test_7_overflow_is_decided_by_the_exact_sum() -> None:
    largest = np.finfo(np.float64).max
    root = np.sqrt(largest)
    # The partial sums of these overflow in some order of additions, or round up to do so.
    below = np.array([np.nextafter(root, 0), 2.0**485, 2.0**485])
    assert_same_bits(halfulp.sum_square(below), expected(below)[()])
    half = np.array([65504.0**0.5 // 1, 20.0], np.float16)
    assert_same_bits(halfulp.sum_square(half), expected(half)[()])
    for dtype in FLOATS:
        high = from_bits(bits(np.array(np.inf, dtype)) - 1, dtype)[()]
        step = high - np.nextafter(high, dtype.type(0))
        for x, want in (
            ([high, high, -high], high),
            ([-high, -high, high], -high),
            ([high] * 40 + [-high] * 40, 0),
            ([high, step / 2], np.inf),
            ([-high, -step / 2], -np.inf),
            ([high, step / 2, -step / 64], high),
            ([high, step / 2, high, step / 2, -high], np.inf),
        ):
            assert_same_bits(halfulp.sum(np.array(x, dtype)), dtype.type(want))
        assert_same_bits(halfulp.mean(np.array([high] * 99, dtype)), high)
        assert_same_bits(halfulp.mean(np.array([high, -high] * 99, dtype)), dtype.type(0))
        assert_same_bits(halfulp.vector_norm(np.array([-high, 0], dtype)), high)
        root = halfulp.vector_norm(np.array([high, high], dtype))
        assert_same_bits(root, dtype.type(np.inf))


# Sticky bits of MXCSR or FPCR: flush-to-zero, denormals-are-zero, rounding direction.
_X86 = platform.machine() in ("x86_64", "AMD64")
MODES = (
    {"ftz": 0x8000, "daz": 0x0040, "ftz_daz": 0x8040, "up": 0x4000, "down": 0x2000}
    if _X86
    else {"flush": 1 << 24, "up": 1 << 22, "down": 1 << 23}
)


class _Environment:
    """The C library's fenv_t of this thread; the word that holds the modes."""

    def __init__(self) -> None:
        self.libm = ctypes.CDLL(None)
        self.words = (ctypes.c_uint32 * 8)()
        self.index = 7 if _X86 else 0

    def word(self) -> int:
        self.libm.fegetenv(self.words)
        return self.words[self.index]

    @contextmanager
    def set(self, mode: int) -> Iterator[None]:
        saved = self.word()
        self.words[self.index] = saved | mode
        self.libm.fesetenv(self.words)
        try:
            yield
        finally:
            self.words[self.index] = saved
            self.libm.fesetenv(self.words)


@pytest.mark.skipif(sys.platform != "linux", reason="reads fenv_t of Linux")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_8_modes_left_in_the_thread_change_no_bit_and_are_put_back(
    rng: np.random.Generator, dtype: np.dtype, mode: str
) -> None:
    cases = [family(rng, dtype, 100, 33) for family in hard_rows.FAMILIES]
    want = [expected(x, 1) for x in cases]
    more = [
        (row, hard(family, row.term, row.finish, dtype)(rng, dtype, 12, 33))
        for family in (*hard_rows.FAMILIES, *signed_rows.FAMILIES)
        for row in SUMS
    ]
    wanted = [expected_of(row, x, 1) for row, x in more]
    environment = _Environment()
    clean = environment.word()
    with environment.set(MODES[mode]):
        found = [function_of(row)(x, 1) for row, x in more]
        found += [function_of(row)(np.ascontiguousarray(x.T), 0) for row, x in more]
        got = [halfulp.sum_square(x, 1) for x in cases]
        states = [halfulp.SumSquare(dtype, 100).update(x, 1) for x in cases]
        columns = [halfulp.SumSquare(dtype, 100).update(x.T, 0) for x in cases]
        after = environment.word()
    assert environment.word() == clean
    assert after & MODES[mode]
    for result, right in zip(found, wanted * 2, strict=True):
        assert_same_bits(result, right)
    got += [state.result() for state in states + columns]
    for result, right in zip(got, want * 3, strict=True):
        assert_same_bits(result, right)


@pytest.mark.skipif(sys.platform != "linux", reason="reads fenv_t of Linux")
def test_8_status_flags_are_put_back() -> None:
    environment = _Environment()
    status = 0x3F if _X86 else 0
    for row in SUMS:
        with environment.set(0):
            before = environment.word() & status
            function_of(row)(np.array([1e300, 0.1, np.nan]))
            function_of(row)(np.array([1e308, 0.1, 1e308]))
            assert environment.word() & status == before


def test_9_integers_are_exact_modulo_2_to_the_n() -> None:
    two = np.array([70000, 70000], np.int32)
    assert halfulp.reduce_sum_square(two) == 9_800_000_000 % 2**32
    assert halfulp.sum_square(two, dtype=np.int32) == 9_800_000_000 % 2**32
    assert halfulp.sum_square(two) == 9_800_000_000
    assert halfulp.sum_square(np.array([94906267, 3], np.int64)) == 9007199515875298
    low = halfulp.sum_square(np.array([46341, 2], np.int32), dtype=np.int32)
    assert low == -2147479011
    assert halfulp.sum_square(np.array([2**32 - 1, 1], np.uint64)) == (2**32 - 1) ** 2 + 1


def test_9_the_opt_in_raises_instead_of_wrapping() -> None:
    x = np.array([46341, 2], np.int32)
    with pytest.raises(
        OverflowError, match="exact sum of squares is 2147488285; int32 cannot hold it"
    ):
        halfulp.sum_square(x, dtype=np.int32, overflow="raise")
    assert halfulp.sum_square(x, overflow="raise") == 2147488285


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_10_the_result_is_new_contiguous_and_of_the_same_type(dtype: np.dtype) -> None:
    x = np.asfortranarray(np.ones((3, 4, 5)).astype(dtype))
    for axes in ([0], [1], [2], [0, 2], []):
        result = halfulp.reduce_sum_square(x, axes, noop_with_empty_axes=1)
        assert result.dtype == dtype
        assert result.flags.c_contiguous
        assert result.flags.owndata
        assert not np.shares_memory(result, x)
    assert (x == 1).all()


@pytest.mark.parametrize(
    "x",
    [
        np.ones(3, np.complex64),
        np.ones(3, object),
        np.ones(3, np.longdouble),
        np.array(["1"]),
        np.zeros(3, "M8[s]"),
        np.zeros(3, "f4,f4"),
        np.zeros(3, "V2"),
        "text",
    ],
    ids=lambda x: str(getattr(x, "dtype", x)),
)
def test_11_other_types_are_refused_with_those_that_are_allowed(x: object) -> None:
    eight = "bfloat16, float16, float32, float64, int32, int64, uint32, uint64"
    more = f"{eight}, bool, int8, int16, uint8, uint16"
    for row in SUMS:
        for face, allowed in (
            (function_of(row), more),
            (getattr(halfulp, row.onnx_name), eight),
            (exact_function_of(row), more),
        ):
            with pytest.raises(
                halfulp.UnsupportedTypeError, match=f"allowed: {allowed}$"
            ):
                face(x)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "uint8", "uint16"])
def test_13_small_types_are_those_of_numpys_face_alone(dtype: str) -> None:
    x = np.ones(3, dtype)
    assert halfulp.sum_square(x) == 3
    for row in SUMS:
        with pytest.raises(
            halfulp.UnsupportedTypeError,
            match=f"^data has dtype {dtype}; allowed: .*uint64$",
        ):
            getattr(halfulp, row.onnx_name)(x)
    for wide in ("int32", "int64", "uint64"):
        with pytest.raises(
            halfulp.UnsupportedTypeError,
            match=f"^array has dtype {dtype}; allowed: {wide}, the type of the sums",
        ):
            halfulp.SumSquare(wide).update(x)
    with pytest.raises(halfulp.UnsupportedTypeError, match=f"type is {dtype}; allowed"):
        halfulp.SumSquare(dtype)


def test_normalized_axes_are_sorted_and_distinct() -> None:
    assert normalize_axes([2, -3, 2], 3, repeated="merge") == (0, 2)
