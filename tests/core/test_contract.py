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

import numpy as np
import pytest

import halfulp
from halfulp.conformance.cases import hard_rows
from halfulp.spec.rules import normalize_axes
from oracle import (
    FLOATS,
    SMALL,
    TYPES,
    assert_same_bits,
    bits,
    expected,
    from_bits,
    sum_dtype,
)

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("axis", [3, -4, 2**40, -(2**63)])
def test_3_axes_out_of_range_are_errors_for_numpy_too(axis: int) -> None:
    message = rf"axis {axis} is out of range for rank 3; allowed: \[-3, 2\]"
    with pytest.raises(halfulp.AxesError, match=message):
        halfulp.sum_square(X, axis)


def test_3_the_same_axis_twice_is_a_set_for_onnx_and_an_error_for_numpy() -> None:
    assert_same_bits(
        halfulp.reduce_sum_square(X, [1, 1, -2]), expected(X, 1, keepdims=True)
    )
    with pytest.raises(
        halfulp.AxesError, match="axis 1 is given twice; allowed: each axis once"
    ):
        halfulp.sum_square(X, (1, -2))


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
def test_3_other_things_are_no_axes_for_numpy(axis: object) -> None:
    with pytest.raises(halfulp.AxesError, match=r"axis .* is not an integer"):
        halfulp.sum_square(X, axis)


@pytest.mark.parametrize("flag", ["keepdims", "noop_with_empty_axes"])
@pytest.mark.parametrize("value", [0.0, 1.0, None, "1"])
def test_4_flags_are_integers(flag: str, value: object) -> None:
    with pytest.raises(halfulp.ArgumentError, match=f"{flag} is .*; allowed: 0 or 1"):
        halfulp.reduce_sum_square(X, [0], **{flag: value})


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_6_an_empty_sum_is_positive_zero_for_numpy_too(dtype: np.dtype) -> None:
    x = np.zeros((2, 0, 4), dtype)
    sums = sum_dtype(dtype)
    assert_same_bits(halfulp.sum_square(x), sums.type(0))
    assert_same_bits(halfulp.sum_square(x, 1), np.zeros((2, 4), sums))
    assert_same_bits(halfulp.sum_square(x, 2), np.zeros((2, 0), sums))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_7_a_zero_result_is_positive(dtype: np.dtype) -> None:
    zeros = np.array([-0.0, 0.0, -0.0]).astype(dtype)
    assert bits(halfulp.sum_square(zeros)) == 0
    assert not bits(halfulp.sum_square(zeros, ())).any()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_7_any_nan_gives_the_canonical_quiet_nan(dtype: np.dtype) -> None:
    infinity = bits(np.array(np.inf, dtype))
    nans = [infinity + 1, infinity + 3, bits(np.array(-np.nan, dtype)) | 1]
    canonical = infinity | infinity & ~(infinity << 1)
    canonical = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}[dtype.itemsize]
    if dtype.name == "bfloat16":
        canonical = 0x7FC0
    for n in (1, 5, 100):
        for place in {0, n // 2, n - 1}:
            for nan in nans:
                for other in (1.0, np.inf, -np.inf):
                    x = np.full(n, other).astype(dtype)
                    x[place] = from_bits(nan, dtype)
                    assert bits(halfulp.sum_square(x)) == canonical
                    assert bits(halfulp.sum_square(x.reshape(n, 1), 0))[0] == canonical


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_7_any_infinity_gives_positive_infinity(dtype: np.dtype) -> None:
    for infinity in (np.inf, -np.inf):
        for place in range(70):
            x = np.ones(70, dtype)
            x[place] = infinity
            assert_same_bits(halfulp.sum_square(x), dtype.type(np.inf))


def test_7_overflow_is_decided_by_the_exact_sum() -> None:
    largest = np.finfo(np.float64).max
    root = np.sqrt(largest)
    # The partial sums of these overflow in some order of additions, or round up to do so.
    below = np.array([np.nextafter(root, 0), 2.0**485, 2.0**485])
    assert_same_bits(halfulp.sum_square(below), expected(below)[()])
    half = np.array([65504.0**0.5 // 1, 20.0], np.float16)
    assert_same_bits(halfulp.sum_square(half), expected(half)[()])


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
    cases = [family(rng, dtype, 200, 33) for family in hard_rows.FAMILIES]
    want = [expected(x, 1) for x in cases]
    environment = _Environment()
    clean = environment.word()
    with environment.set(MODES[mode]):
        got = [halfulp.sum_square(x, 1) for x in cases]
        states = [halfulp.SumSquare(dtype, 200).update(x, 1) for x in cases]
        columns = [halfulp.SumSquare(dtype, 200).update(x.T, 0) for x in cases]
        after = environment.word()
    assert environment.word() == clean
    assert after & MODES[mode]
    got += [state.result() for state in states + columns]
    for result, right in zip(got, want * 3, strict=True):
        assert_same_bits(result, right)


@pytest.mark.skipif(sys.platform != "linux", reason="reads fenv_t of Linux")
def test_8_status_flags_are_put_back() -> None:
    environment = _Environment()
    status = 0x3F if _X86 else 0
    with environment.set(0):
        before = environment.word() & status
        halfulp.sum_square(np.array([1e300, 0.1, np.nan]))
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
    for face, allowed in (
        (halfulp.sum_square, more),
        (halfulp.reduce_sum_square, eight),
        (halfulp.exact_sum_square, more),
    ):
        with pytest.raises(halfulp.UnsupportedTypeError, match=f"allowed: {allowed}$"):
            face(x)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "uint8", "uint16"])
def test_13_small_types_are_those_of_numpys_face_alone(dtype: str) -> None:
    x = np.ones(3, dtype)
    assert halfulp.sum_square(x) == 3
    with pytest.raises(
        halfulp.UnsupportedTypeError, match=f"^data has dtype {dtype}; allowed: .*uint64$"
    ):
        halfulp.reduce_sum_square(x)
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


@pytest.mark.parametrize("dtype", TYPES + SMALL, ids=str)
def test_13_results_have_the_types_of_numpys(dtype: np.dtype) -> None:
    x = np.ones((2, 3), dtype)
    want = dtype if dtype in FLOATS else np.sum(x).dtype
    assert want in (*FLOATS, np.int64, np.uint64)
    for axis in (None, 0, (), (0, 1)):
        for keepdims in (False, True):
            result = halfulp.sum_square(x, axis, keepdims=keepdims)
            assert result.dtype == want
            assert type(result) is (np.ndarray if np.ndim(result) else want.type)
    for kind in FLOATS if dtype in FLOATS else TYPES:
        assert halfulp.sum_square(x, dtype=kind).dtype == kind
    if dtype in TYPES:
        assert halfulp.reduce_sum_square(x).dtype == dtype
