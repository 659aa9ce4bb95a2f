"""Shortcuts of functions of arrays: for small arrays, which are summed sooner than Python
reads arguments.

May import reductions and the native core only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import WRAPPER_ASSIGNMENTS, update_wrapper
from types import FunctionType
from typing import Any, Literal, TypeVar, cast

from halfulp import _core
from halfulp.reductions import Reduction, Spread

_F = TypeVar("_F", bound=Callable[..., Any])

# Which are fewer from Python 3.14 on.
_ASSIGNED = (*WRAPPER_ASSIGNMENTS, "__annotations__")


def with_shortcut(
    face: Literal["numpy", "onnx"], row: Reduction | Spread | None = None
) -> Callable[[_F], _F]:
    """Return a decorator of functions that reduce as a face does, by a row of the table.

    What is decorated does the same: plain arrays with plain arguments go to the native
    core at once, whatever else there is to the function. Without a row it is the norm
    that the argument `ord` names; of a spread the argument `ddof` counts.
    """
    name = None if row is None else row.name

    def decorate(function: _F) -> _F:
        code = cast(FunctionType, function).__code__
        count = code.co_argcount + code.co_kwonlyargcount
        made = _core.shortcut(function, face, name, code.co_varnames[:count])
        return cast(_F, update_wrapper(made, function, _ASSIGNED))

    return decorate
