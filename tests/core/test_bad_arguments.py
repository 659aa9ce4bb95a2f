"""Whatever an argument is, the error is one of halfulp's, of one line, not long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import halfulp
from halfulp import SumSquare

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
    "x": lambda v: halfulp.sum_square(v),
    "axis": lambda v: halfulp.sum_square(X, v),
    "axis in a tuple": lambda v: halfulp.sum_square(X, (v,)),
    "dtype": lambda v: halfulp.sum_square(X, dtype=v),
    "dtype of integers": lambda v: halfulp.sum_square(X.astype("i8"), dtype=v),
    "out": lambda v: halfulp.sum_square(X, out=v),
    "keepdims": lambda v: halfulp.sum_square(X, keepdims=v),
    "where": lambda v: halfulp.sum_square(X, where=v),
    "overflow": lambda v: halfulp.sum_square(X, overflow=v),
    "split_every": lambda v: halfulp.sum_square(X, split_every=v),
    "data": lambda v: halfulp.reduce_sum_square(v),
    "axes": lambda v: halfulp.reduce_sum_square(X, v),
    "axes in a list": lambda v: halfulp.reduce_sum_square(X, [v]),
    "keepdims of ONNX": lambda v: halfulp.reduce_sum_square(X, keepdims=v),
    "noop": lambda v: halfulp.reduce_sum_square(X, noop_with_empty_axes=v),
    "exact x": lambda v: halfulp.exact_sum_square(v),
    "exact axis": lambda v: halfulp.exact_sum_square(X, v),
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
    for name, call in CALLS.items():
        try:
            call(VALUES[value])
        except halfulp.HalfulpError as error:
            text = str(error)
            assert "\n" not in text, name
            assert len(text) < 600, name
    halfulp.set_num_threads(before)
