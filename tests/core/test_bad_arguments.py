"""Whatever an argument is, the error is one of halfulp's, of one line, not long."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import halfulp
from halfulp import SumSquare
from halfulp.reductions import SUMS, Reduction
from oracle import exact_function_of, function_of

X = np.ones((2, 3), "f4")


class Unwritable:
    """It cannot be written, nor compared."""

    def __repr__(self) -> str:
        raise ZeroDivisionError

    def __eq__(self, other: object) -> Any:
        return np.array([True, False])

    __hash__ = None  # type: ignore[assignment]


class NoDtype:
    @property
    def dtype(self) -> Any:
        raise ZeroDivisionError


CALLS: dict[str, Callable[[Any], object]] = {
    "norm's ord": lambda v: halfulp.vector_norm(X, ord=v),
    "exact norm's ord": lambda v: halfulp.exact_norm(X, ord=v),
    "type": lambda v: SumSquare(v),
    "shape": lambda v: SumSquare("float", v),
    "array": lambda v: SumSquare("float").update(v),
    "update axis": lambda v: SumSquare("float").update(X, v),
    "other": lambda v: SumSquare("float").merge(v),
    "result": lambda v: SumSquare("float").result(v),
    "result overflow": lambda v: SumSquare("float").result(overflow=v),
    "bytes": lambda v: SumSquare.from_bytes(v),
    "astype": lambda v: SumSquare("float").astype(v),
    "parts": lambda v: SumSquare.concatenate(v, 1),
    "part": lambda v: SumSquare.concatenate([v], 1),
    "shape of parts": lambda v: SumSquare.concatenate([SumSquare("float")], v),
    "order": lambda v: SumSquare.concatenate([SumSquare("float")], 1, order=v),
    "threads": lambda v: halfulp.set_num_threads(v),
}


OF_ROWS: dict[str, Callable[[Reduction, Any], object]] = {
    "x": lambda row, v: function_of(row)(v),
    "axis": lambda row, v: function_of(row)(X, v),
    "axis in a tuple": lambda row, v: function_of(row)(X, (v,)),
    "dtype": lambda row, v: function_of(row)(X, dtype=v),
    "dtype of integers": lambda row, v: function_of(row)(X.astype("i8"), dtype=v),
    "out": lambda row, v: function_of(row)(X, out=v),
    "keepdims": lambda row, v: function_of(row)(X, keepdims=v),
    "where": lambda row, v: function_of(row)(X, where=v),
    "overflow": lambda row, v: function_of(row)(X, overflow=v),
    "split_every": lambda row, v: function_of(row)(X, split_every=v),
    "data": lambda row, v: by_onnx(row)(v),
    "axes": lambda row, v: by_onnx(row)(X, v),
    "axes in a list": lambda row, v: by_onnx(row)(X, [v]),
    "keepdims of ONNX": lambda row, v: by_onnx(row)(X, keepdims=v),
    "noop": lambda row, v: by_onnx(row)(X, noop_with_empty_axes=v),
    "exact x": lambda row, v: exact_function_of(row)(v),
    "exact axis": lambda row, v: exact_function_of(row)(X, v),
}


def by_onnx(row: Reduction) -> Callable[..., Any]:
    """The function with ONNX's face."""
    function: Callable[..., Any] = getattr(halfulp, row.onnx_name)
    return function


class NoArray:
    """As a tensor that cannot become an array in the state in which it is."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("not now")


VALUES = {
    "what cannot become an array": NoArray(),
    "an array": X,
    "an integer of 5001 digits": 10**5000,
    "minus an integer of 401 digits": -(10**400),
    "many integers": tuple(range(10**5)),
    "a long text": "a" * 10**6,
    "a text of several lines": "a\nb",
    "half a character": "\ud800",
    "what cannot be written": Unwritable(),
    "a dtype that fails": NoDtype(),
    "an open parenthesis": "(2,",
    "commas": "f4,,",
    "a wrong structure": {"names": ["a"], "formats": ["f4"], "offsets": [-1]},
    "a new kind of dtype": np.dtypes.StringDType(),
    "its class": np.dtypes.StringDType,
    "an array of it": np.zeros(3, np.dtypes.StringDType()),
    "NaN": float("nan"),
    "nothing": None,
    "an object": object(),
}


@pytest.mark.parametrize("value", VALUES)
def test_errors_are_halfulp_s_and_of_one_short_line(value: str) -> None:
    before = halfulp.get_num_threads()
    calls = {
        f"{name} of {row.name}": partial(call, row)
        for name, call in OF_ROWS.items()
        for row in SUMS
    }
    for name, call in (calls | CALLS).items():
        try:
            call(VALUES[value])
        except halfulp.HalfulpError as error:
            text = str(error)
            assert "\n" not in text, name
            assert len(text) < 600, name
    halfulp.set_num_threads(before)
