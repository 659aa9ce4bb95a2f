"""Functions with a shortcut are what they are without: the same results and errors, and
functions to whoever looks at them. The oracle is the function of Python.
"""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import pydoc
import sys
import typing
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from inspect import getdoc, isroutine, signature
from types import FunctionType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import halfulp
from halfulp import _core
from halfulp.reductions import REDUCTIONS

NUMPY = [
    halfulp.sum, halfulp.mean, halfulp.vector_norm, halfulp.sum_square, halfulp.var,
    halfulp.std, halfulp.max, halfulp.min, halfulp.prod, halfulp.logsumexp,
]  # fmt: skip
ONNX = [getattr(halfulp, row.onnx_name) for row in REDUCTIONS]
BOTH = NUMPY + ONNX


def has(function: Any, *names: str) -> bool:
    """Whether it has such parameters."""
    return set(names) <= signature(function).parameters.keys()


def name_of(function: Callable[..., Any]) -> str:
    return str(function.__name__)


numpys = pytest.mark.parametrize("function", NUMPY, ids=name_of)
onnxs = pytest.mark.parametrize("function", ONNX, ids=name_of)
both = pytest.mark.parametrize("function", BOTH, ids=name_of)


class Child(np.ndarray):
    pass


def arrays() -> Iterator[Any]:
    x = (np.arange(24) % 7 - 2.25).reshape(2, 3, 4)
    for dtype in (*"?bhilqBHILQefdgFOSM", ml_dtypes.bfloat16, ">f4", ">i8", ">u2"):
        yield (x.astype("i8") if dtype == "M" else x).astype(
            "M8[s]" if dtype == "M" else dtype
        )
    single = x.astype("f")
    yield from (single[0, 0, 0], single[0, 0, 0, ...], single[:0], single[:, :0, 1:])
    yield from (single.T, single[::-1, ::2, ::-2], np.asfortranarray(single))
    yield np.broadcast_to(single[0], (2, 3, 4))
    yield np.frombuffer(bytes(97), np.int8)[1:].view("f").reshape(2, 3, 4)
    readonly = single.copy()
    readonly.flags.writeable = False
    yield from (readonly, single.view(Child), np.ma.masked_array(single, single > 2))
    yield from (np.zeros((1,) * 32, "f"), single.tolist(), 3, 2.5, "text", None)


def outcome(call: Callable[[], Any], out: Any = None) -> Any:
    """What a call gives, as far as anybody sees it, and what it leaves in `out`."""
    try:
        result = call()
    except Exception as error:
        return type(error), str(error), None if out is None else out.tobytes()
    array = np.asarray(result)
    is_out = result is out
    flags = array.flags if isinstance(result, np.ndarray) and not is_out else None
    owns = flags and (flags.owndata, flags.c_contiguous, flags.writeable)
    return type(result), array.dtype, array.shape, array.tobytes(), is_out, owns


AXES: list[Any] = [
    None, 0, 2, -1, 3, -4, 2**70, True, 1.0, "0", np.int64(1), (), (0,), (-1, 0), (0, 0),
    (1, 5), [1], [1, 1], [], np.array([1]), np.array(1), (True,), ("0",), ((0,),),
    [2**70],
]  # fmt: skip
FLAGS: list[Any] = [True, False, 1, 0, 2, -1, 2**70, None, "1", np.True_, np.int8(1), 1.0]


@numpys
def test_arrays_and_axes_mean_the_same(function: Any) -> None:
    plain = function.__wrapped__
    for x, axis in itertools.product(arrays(), AXES):
        want = outcome(partial(plain, x, axis))
        assert outcome(partial(function, x, axis)) == want
        first = next(iter(signature(function).parameters))
        assert outcome(partial(function, **{first: x, "axis": axis})) == want


@onnxs
def test_arrays_and_axes_mean_the_same_for_onnx(function: Any) -> None:
    plain = function.__wrapped__
    for x, axes in itertools.product(arrays(), AXES):
        want = outcome(partial(plain, x, axes))
        assert outcome(partial(function, x, axes)) == want
        assert outcome(partial(function, axes=axes, data=x)) == want


@both
def test_flags_mean_the_same(function: Any) -> None:
    plain = function.__wrapped__
    x = np.arange(1, 7, dtype="f").reshape(2, 3)
    names = ["keepdims", "noop_with_empty_axes"] if function in ONNX else ["keepdims"]
    for name, flag, axes in itertools.product(names, FLAGS, (None, (), (1,))):
        given = {name: flag}
        want = outcome(partial(plain, x, axes, **given))
        assert outcome(partial(function, x, axes, **given)) == want


@pytest.mark.parametrize("function", [halfulp.var, halfulp.std], ids=name_of)
def test_ddofs_mean_the_same(function: Any) -> None:
    x = np.arange(1, 7, dtype="f").reshape(2, 3)
    for ddof in (*FLAGS, 3, 2**53, -(2**53), 2**53 + 1, 2**63, 1.5, np.int64(1)):
        want = outcome(partial(function.__wrapped__, x, 1, ddof=ddof))
        assert outcome(partial(function, x, 1, ddof=ddof)) == want


@numpys
def test_types_of_results_and_outs_mean_the_same(function: Any) -> None:
    plain = function.__wrapped__
    dtypes: list[Any] = [
        None, np.float32, "float64", np.dtype(">f4"), float, int, bool, "e", "q", "Q",
        "i4", ml_dtypes.bfloat16, np.longlong, np.int8, "g", "S3", "no such", object,
        "f4,f4", np.generic, (np.float32, 2), 7,
    ]  # fmt: skip
    outs: list[Any] = [None, *"efdiqQ?b", ">f4", ml_dtypes.bfloat16]
    for x, dtype, of in itertools.product(
        [np.arange(6, dtype=t).reshape(2, 3) for t in ("f", "d", "i", "B")], dtypes, outs
    ):
        if dtype is not None and not has(function, "dtype"):
            continue
        if of is not None and not has(function, "out"):
            continue
        ours, theirs = (None if of is None else np.full(2, 9, of) for _ in range(2))
        given = {} if dtype is None else {"dtype": dtype}
        with_theirs = given if theirs is None else {**given, "out": theirs}
        with_ours = given if ours is None else {**given, "out": ours}
        want = outcome(partial(plain, x, 1, **with_theirs), theirs)
        got = outcome(partial(function, x, 1, **with_ours), ours)
        assert got == want, (x.dtype, dtype, of)


def outs_beside(memory: Any) -> Iterator[Any]:
    """Results of rows of memory[:12].reshape(3, 4), or what cannot be."""
    yield from (
        memory[12:15],
        memory[11:14],
        memory[:3],
        memory[12:18:2],
        memory[14:11:-1],
    )
    yield from (memory[12:15].reshape(3, 1), memory[12:16], memory[12:15].view(Child))
    yield from (memory[12:15].view(">f4"), memory[12:15].tolist(), np.ma.zeros(3, "f"))
    readonly = memory[12:15].view()
    readonly.flags.writeable = False
    yield readonly
    yield memory.view("b")[49:61].view("f")


with_out = pytest.mark.parametrize(
    "function", [each for each in NUMPY if has(each, "out")], ids=name_of
)


@with_out
def test_outs_that_overlap_or_do_not_fit_mean_the_same(function: Any) -> None:
    def attempt(function: Any, i: int, keepdims: bool, reverse: bool) -> Any:
        memory = np.arange(1, 25, dtype="f")
        x = memory[:12].reshape(3, 4)
        out = list(outs_beside(memory))[i]
        x = x[::-1, ::-1] if reverse else x
        got = outcome(lambda: function(x, 1, out=out, keepdims=keepdims), memory)
        return got, memory.tobytes()

    for i, keepdims, reverse in itertools.product(
        range(len(list(outs_beside(np.zeros(24, "f"))))), (False, True), (False, True)
    ):
        want = attempt(function.__wrapped__, i, keepdims, reverse)
        assert attempt(function, i, keepdims, reverse) == want, i


@pytest.mark.parametrize(
    "ord", [1, 2, 1.0, 2.0, True, 0, 3, -1, 2**70, None, "2", [], np.inf]
)
def test_norms_mean_the_same(ord: Any) -> None:
    x = np.array([3.0, -4.0])
    function: Any = halfulp.vector_norm
    want = outcome(lambda: function.__wrapped__(x, ord=ord))
    assert outcome(lambda: function(x, ord=ord)) == want


@both
def test_arguments_that_are_not_its_own_are_the_same_errors(function: Any) -> None:
    x = np.ones(3)
    ways: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}), ((x, 0, None), {}), ((x,), {"x": x}), ((x,), {"data": x}),
        ((x,), {"ord": 2}), ((x,), {"ddof": 1}), ((x,), {"no_such": 1}), ((x,), {"": 1}),
        ((x,), {"dtype": "d"}), ((x,), {"out": np.zeros(())}), ((x,), {"initial": 5}),
        ((x, 0), {"axis": 0}),
        ((x, 0), {"axes": 0}), ((), {"axis": 0}), ((x,), {"overflow": "raise"}),
        ((x,), {"where": [True, False, True]}), ((x,), {"split_every": 2}),
        ((x,), {"overflow": "wrap", "where": True, "split_every": None}),
    ]  # fmt: skip
    for positional, named in ways:
        want = outcome(partial(function.__wrapped__, *positional, **named))
        assert outcome(partial(function, *positional, **named)) == want


@with_out
def test_a_call_that_may_be_interrupted_writes_out_in_the_end(function: Any) -> None:
    x = np.broadcast_to(np.float32(0.5), (2, 2**22))
    out = np.zeros(2, "f")
    assert function(x, 1, out=out) is out
    assert out.tobytes() == function.__wrapped__(x, 1).tobytes()


def refuse(*given: Any, **named: Any) -> Any:
    raise AssertionError("Python's function was called")


def refusing(function: Any, face: str, name: str | None) -> Any:
    """A shortcut that cannot call Python's function, with the parameters of one."""
    return _core.shortcut(refuse, face, name, tuple(signature(function).parameters))


def test_most_calls_take_the_shortcut() -> None:
    x = np.ones((8, 8), "f")
    for function in NUMPY:
        name = {"vector_norm": None, "logsumexp": "log_sum_exp"}.get(
            name_of(function), name_of(function)
        )
        quick = refusing(function, "numpy", name)
        for of in (*"?bhilqBHILQefd", ml_dtypes.bfloat16, ">f8"):
            quick(x.astype(of))
        quick(x, 1)
        quick(x, axis=(0, -1), keepdims=True)
        if has(function, "out"):
            quick(x, out=None)
            quick(x[::2].T, -1, out=np.zeros(8, "f"), keepdims=False)
        if has(function, "dtype"):
            quick(x, axis=(0, -1), keepdims=True, dtype="float64")
        if has(function, "dtype", "out"):
            quick(x[::2].T, -1, dtype=np.float16, out=np.zeros(8, "e"), keepdims=False)
        with pytest.raises(AssertionError, match=r"Python's function"):
            quick(x, where=x > 0)
    refusing(halfulp.vector_norm, "numpy", None)(x, ord=1)
    refusing(halfulp.var, "numpy", "var")(x, ddof=1)
    for row, function in zip(REDUCTIONS, ONNX, strict=True):
        quick = refusing(function, "onnx", row.name)
        for of in (*"ilqILQefd", ml_dtypes.bfloat16):
            quick(x.astype(of), [-1, 0, 0], keepdims=0)
        quick(x, noop_with_empty_axes=0)
        quick(data=x, axes=(1,), keepdims=1)


@both
def test_it_is_a_function_to_whoever_looks(function: Any) -> None:
    plain = function.__wrapped__
    assert type(plain) is FunctionType
    assert isroutine(function)
    assert signature(function) == signature(plain)
    assert typing.get_type_hints(function) == typing.get_type_hints(plain)
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        assert getattr(function, name) == getattr(plain, name)
    assert getdoc(function) == getdoc(plain)
    assert plain.__name__ in pydoc.render_doc(function)
    assert repr(function) == repr(plain)
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function
    assert weakref.ref(function)() is function
    assert not hasattr(function, "no_such")


def test_as_a_method_it_is_given_the_object() -> None:
    class Holds:
        reduce = _core.shortcut(lambda *given: given, "numpy", "sum", ("x", "axis"))

    held = Holds()
    assert held.reduce(1) == (held, 1)
    assert Holds.reduce(np.ones(3)) == 3


def test_calls_and_shortcuts_leave_nothing_behind() -> None:
    x, out, dtype = np.ones((8, 8), "f"), np.zeros(8, "f"), np.dtype("d")
    watched = (None, True, False, x, out, dtype, 0, (0,), halfulp.sum)

    def calls() -> None:
        for _ in range(1000):
            halfulp.sum(x)
            halfulp.mean(x, axis=(0,), keepdims=True)
            halfulp.vector_norm(x, 0, ord=1, out=out)
            halfulp.sum_square(x, dtype=dtype, keepdims=False)
            halfulp.reduce_sum(x, [0], keepdims=0)
            with pytest.raises(halfulp.AxesError):
                halfulp.sum(x, 5)

    calls()
    before = [sys.getrefcount(each) for each in watched]
    calls()
    after = [sys.getrefcount(each) for each in watched]
    assert all(abs(b - a) < 500 for a, b in zip(before, after, strict=True))

    made = weakref.ref(cyclic := _core.shortcut(lambda: None, "numpy", "sum", ("x",)))
    cyclic.__dict__["itself"] = cyclic
    del cyclic
    gc.collect()
    assert made() is None
