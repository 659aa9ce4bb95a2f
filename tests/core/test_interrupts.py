"""Ctrl-C ends a call of any length soon, and nothing is half done then."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import halfulp
from halfulp import SumSquare, _core
from halfulp.reductions import SUMS
from interrupting import interrupted
from oracle import BFLOAT16, TYPES, assert_same_bits, configuration, function_of

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="needs a timer of the system"
)

# Seconds from a signal until it is heard, on a machine that is busy with other things.
SOON = 0.5
ENDLESS = 2**31


@contextmanager
def timer(seconds: float, handler: Any = signal.default_int_handler) -> Iterator[None]:
    """Let a signal come, in so many seconds, which is Ctrl-C by default."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def assert_heard(call: Callable[[], object], after: float = 0.2) -> None:
    with timer(after):
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            call()
        assert time.monotonic() - begin < after + SOON


def endless(dtype: Any, *shape: int) -> np.ndarray:
    """An array that repeats one of `shape` along a new first axis, for hours."""
    x = np.arange(np.prod(shape)).reshape(shape) % 13
    x = x.astype(dtype)
    return as_strided(x, (ENDLESS, *shape), (0, *x.strides))


def wide(*shape: int) -> np.ndarray:
    """Numbers of binary64 of all sizes, which only the last resort sums exactly."""
    n = int(np.prod(shape))
    x = np.ldexp(1.0, np.arange(n) * 997 % 1000 - 500).reshape(shape)
    return as_strided(x, (ENDLESS, *shape), (0, *x.strides))


LONG: dict[str, tuple[Callable[[], np.ndarray], Any]] = {
    "one row": (lambda: endless("f4", 2**20), None),
    "one row of float64": (lambda: endless("f8", 2**20), None),
    "one row of float16": (lambda: endless("f2", 2**20), None),
    "one row of bfloat16": (lambda: endless(BFLOAT16, 2**20), None),
    "one row of int32": (lambda: endless("i4", 2**20), None),
    "three rows": (lambda: endless("f4", 3, 2**18), (0, 2)),
    "many short rows": (lambda: endless("f4", 3000, 20), (0, 2)),
    "columns": (lambda: endless("f4", 4096), 0),
    "columns of float16": (lambda: endless("f2", 4096), 0),
    "three columns": (lambda: endless("f4", 2**18, 3), (0, 1)),
    "one number": (lambda: np.broadcast_to(np.float32(1), 2**40), None),
    "other byte order": (lambda: endless(">f8", 2**16), None),
    "numbers far apart": (lambda: endless("f4", 2**18)[:, ::64], None),
    "numbers of all sizes": (lambda: wide(2**16), None),
    "columns of all sizes": (lambda: wide(2**8, 50), (0, 1)),
}
long = pytest.mark.parametrize(("make", "axis"), LONG.values(), ids=LONG)
threads = pytest.mark.parametrize("n", [1, 4])


def any_row(rng: np.random.Generator) -> Callable[..., Any]:
    """A function that reduces by a row of the table, by chance."""
    return function_of(SUMS[rng.integers(len(SUMS))])


@threads
@long
def test_a_reduction_is_interrupted(
    rng: np.random.Generator, make: Callable[[], np.ndarray], axis: Any, n: int
) -> None:
    x, reduce = make(), any_row(rng)
    with configuration(_core.target_names()[0], n):
        assert_heard(lambda: reduce(x, axis))


@threads
@long
def test_an_interrupted_update_changes_nothing(
    make: Callable[[], np.ndarray], axis: Any, n: int
) -> None:
    x = make()
    axes = tuple(range(x.ndim)) if axis is None else np.atleast_1d(axis)
    shape = tuple(k for i, k in enumerate(x.shape) if i not in axes)
    sums = SumSquare(x.dtype.newbyteorder("="), shape)
    some = x[:2]
    sums.update(some, axis)
    before = sums.to_bytes()
    with configuration(_core.target_names()[0], n):
        assert_heard(lambda: sums.update(x, axis))
    assert sums.to_bytes() == before


def test_one_huge_row_is_interrupted() -> None:
    x = np.zeros(2**30)  # without memory, as long as it is only read
    with configuration(_core.target_names()[0], 1):
        assert_heard(lambda: halfulp.sum_square(x), after=0.02)


@pytest.mark.parametrize("target", _core.target_names())
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_kernel_is_interrupted(
    rng: np.random.Generator, dtype: np.dtype, target: str
) -> None:
    for x, axis in ((endless(dtype, 2**18), None), (endless(dtype, 512), 0)):
        reduce = any_row(rng)
        with configuration(target, 2):
            assert_heard(lambda x=x, axis=axis, reduce=reduce: reduce(x, axis))


@pytest.mark.parametrize("axis", [None, 0], ids=["row", "columns"])
def test_sums_that_cancel_and_masks_are_interrupted(axis: Any) -> None:
    x = wide(2**8, 50)
    x = as_strided(
        np.array([x[0], -x[0]]), (ENDLESS, 2, 2**8, 50), (0, *[102400, 400, 8])
    )
    where = np.broadcast_to(np.arange(50) % 3 > 0, x.shape)
    axes = (0, 1, 2) if axis == 0 else None
    for mask in (True, where):
        with configuration(_core.target_names()[0], 2):
            assert_heard(lambda mask=mask: halfulp.mean(x, axes, where=mask))


@pytest.mark.parametrize("overflow", ["wrap", "raise"])
def test_an_interrupted_call_leaves_out_as_it_was(overflow: str) -> None:
    x = as_strided(np.arange(2**18, dtype="i4") % 7, (200, ENDLESS, 2**10), (4096, 0, 4))
    for out in (np.full(200, 5, "i8"), np.full(400, 5, "i8")[::2]):
        assert_heard(
            lambda out=out: halfulp.sum_square(x, (1, 2), out=out, overflow=overflow)
        )
        assert (out == 5).all()
    # A row that is done before the others is written no sooner.
    y = x[:, :100000]
    assert_heard(lambda: halfulp.sum_square(y, (1, 2), out=out, overflow=overflow))
    assert (out == 5).all()


@pytest.mark.parametrize("size", [3, 10000, 3 * 2**20])
def test_interrupted_sums_are_of_whole_arrays(size: int) -> None:
    x = np.arange(size, dtype="f4") % 1000
    zero = SumSquare("float", size) if size > 10**6 else SumSquare("float")
    axis = 0 if size > 10**6 else None
    x = x[None] if size > 10**6 else x
    one = zero.copy().update(x, axis)
    tries = 5 if size > 10**6 else 300
    heard = 0
    for i in range(tries):
        for change in (
            lambda sums: sums.update(x, axis),
            lambda sums: sums.merge(one),
        ):
            sums = zero.copy()
            begin = time.perf_counter()
            change(sums)
            lasts = time.perf_counter() - begin
            sums = zero.copy()
            try:
                with timer(max(1e-6, lasts * i / tries)):
                    change(sums)
            except KeyboardInterrupt:
                heard += 1
            assert sums in (zero, one)
    assert heard > 0


def test_rounding_many_sums_is_interrupted() -> None:
    sums = SumSquare("float16", 2**21).update(np.ones((1, 2**21), "f2"), 0)
    for _ in range(3):
        try:
            with timer(0.01):
                sums.result("f8")
        except KeyboardInterrupt:
            pass
    assert_same_bits(sums.result(), np.ones(2**21, "f2"))
    assert SumSquare.from_bytes(sums.to_bytes()) == sums


def test_a_handler_that_does_not_raise_changes_nothing() -> None:
    """And it runs in the modes of its thread: narrow sums flush subnormal numbers."""
    seen = []

    def handler(*_: object) -> None:
        seen.append(sys.float_info.min * 0.5 > 0)

    x = as_strided(np.ones(2**20, BFLOAT16), (4000, 2**20), (0, 2))
    with timer(0.1, handler):
        result = halfulp.sum_square(x)
    assert result == 4000 * 2.0**20
    assert seen == [True]


@pytest.mark.parametrize("size", [1, 2**23])
@pytest.mark.parametrize("change", ["update", "merge"])
def test_a_handler_cannot_change_sums_that_are_being_changed(
    change: str, size: int
) -> None:
    """Else what it adds would be lost, or counted and lost; and it may read them."""
    two = SumSquare("float").update(np.float32([2]))
    sums = two.copy()
    seen = []

    def handler(*_: object) -> None:
        seen.append((sums.count, sums.result()))
        more = np.broadcast_to(np.float32(1), size)
        with pytest.raises(halfulp.ArgumentError, match="are being changed by another"):
            sums.update(more) if change == "update" else sums.merge(two)
        seen.append(sums.count)

    n = 2**31  # for several times as long as the first look at signals takes to come
    with halfulp.num_threads(1), timer(0.05, handler):
        sums.update(np.broadcast_to(np.float32(1), n))
    assert seen == [(1, 4), 1]
    assert sums.count == n + 1
    assert sums.exact() == n + 4
    assert sums.update(np.float32([1])).exact() == n + 5


def test_ctrl_c_ends_a_program() -> None:
    code = (
        "import numpy as np, halfulp, time\n"
        "x = np.broadcast_to(np.float32(1), 2**44)\n"
        "print('running', flush=True)\n"
        "try:\n"
        "    halfulp.sum_square(x)\n"
        "except KeyboardInterrupt:\n"
        "    print('heard')\n"
    )
    begin = time.monotonic()
    assert interrupted(code) == (0, "heard\n", "")
    assert time.monotonic() - begin < 30
