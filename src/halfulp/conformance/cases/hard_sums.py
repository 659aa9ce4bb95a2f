"""What the generators of cases have in common.

May import bits and reductions only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from halfulp.conformance.bits import Array
from halfulp.reductions import OperatorVersion


@dataclass(frozen=True, slots=True)
class Draft:
    """A case to be: all but version and type, which its name and opset follow from.

    Attributes
    ----------
    class_name : str
    detail : str
        The end of the name.
    data : numpy.ndarray
    form : str, optional
        Default: the plain form of the version.
    axes, keepdims, noop_with_empty_axes, note
        As of a case.
    opset : int, optional
        Default: the one that introduced the version.
    kind : str, optional
        Of the class; `--quick` takes a case of each.
    hard : pair of int, optional
        As of a case.
    """

    class_name: str
    detail: str
    data: Array
    form: str | None = None
    axes: Any = None
    keepdims: int | None = None
    noop_with_empty_axes: int | None = None
    note: str = ""
    opset: int | None = None
    kind: str = ""
    hard: tuple[int, int] | None = None


# From random numbers and a number of terms: the terms that make a sum hard, and the
# others. There are more in all where that many are too few.
Terms = Callable[[np.random.Generator, int], tuple[Array, Array]]


@dataclass(frozen=True, slots=True)
class Hard:
    """A kind of sum that is hard to get right.

    Attributes
    ----------
    class_name : str
    kind : str
        Within the class.
    terms : Terms
    note : str, optional
    length : int, optional
        The number of terms, if it is always the same.
    """

    class_name: str
    kind: str
    terms: Terms
    note: str = ""
    length: int | None = None


def plain_form(version: OperatorVersion) -> str:
    """Return the form in which most nodes of a version have their axes."""
    return "attr" if version.axes == "attribute" else "const"


def small_values(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array of small integers, whose sums of squares all types hold."""
    index = np.arange(np.prod(shape, dtype=int))
    values = (7 * index * index + 3 * index) % 5
    if dtype.kind != "u":
        values -= 2
    result: Array = values.astype(dtype).reshape(shape)
    return result
