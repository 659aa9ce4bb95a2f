"""Arrays with labels: they are reduced by their library's means, and so keep them.

May import errors only; xarray and pandas are looked up, never imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from halfulp.errors import ArgumentError, UnsupportedTypeError

# Sums an array along normalized axes, without keeping them.
Sum = Callable[[Any, tuple[int, ...]], Any]


def has_labels(x: Any) -> bool:
    """Tell whether `x` is an array or table of xarray or pandas with labels."""
    return _is_of(x, "xarray", "DataArray", "Variable") or _is_of(
        x, "pandas", "Series", "DataFrame"
    )


def sum_with_labels(
    x: Any, what: str, axes: tuple[int, ...], keepdims: bool, sum_of: Sum
) -> Any:
    """Return sums with the labels of the axes that are left.

    Parameters
    ----------
    x : xarray.DataArray, xarray.Variable, pandas.Series or pandas.DataFrame
    what : str
        The caller's name of `x`, for errors.
    axes : tuple of int
        Normalized.
    keepdims : bool
        Whether summed axes stay. pandas has no label for one.
    sum_of : callable
        What sums the array inside.

    Raises
    ------
    ArgumentError
        If `keepdims` is given with pandas.
    UnsupportedTypeError
        If a table has columns of several dtypes, or of one that is not NumPy's.
    """
    if _is_of(x, "xarray", "DataArray", "Variable"):

        def reduced(array: Any, axis: int | tuple[int, ...]) -> Any:
            return sum_of(array, axis if isinstance(axis, tuple) else (axis,))

        return x.reduce(reduced, axis=axes, keepdims=keepdims)
    if keepdims:
        raise ArgumentError(
            f"keepdims is set, {what} is a pandas.{type(x).__name__}, which has no label "
            "for a summed axis; allowed: not set"
        )
    pandas = sys.modules["pandas"]
    result = sum_of(_values(x, what), axes)
    if len(axes) == x.ndim:
        return result
    labels = [x.axes[i] for i in range(x.ndim) if i not in axes]
    make = pandas.Series if len(labels) == 1 else pandas.DataFrame
    labelled = make(result, *labels)
    if len(axes) == 0 and x.ndim == 1:
        labelled.name = x.name
    labelled.attrs = x.attrs
    return labelled


def _is_of(x: Any, library: str, *names: str) -> bool:
    module = sys.modules.get(library)
    return any(isinstance(x, getattr(module, name, ())) for name in names)


def _values(x: Any, what: str) -> Any:
    """Return the array in a Series or DataFrame, of the one dtype that it has."""
    dtypes = {str(dtype): dtype for dtype in (x.dtypes if x.ndim == 2 else [x.dtype])}
    name = type(x).__name__
    if len(dtypes) > 1:
        raise UnsupportedTypeError(
            f"{what} is a pandas.{name} of dtypes {', '.join(sorted(dtypes))}; allowed: "
            "one dtype, as from its astype()"
        )
    for dtype in dtypes.values():
        if not isinstance(dtype, np.dtype):
            raise UnsupportedTypeError(
                f"{what} is a pandas.{name} of dtype {dtype}; allowed: NumPy's dtypes, "
                "as from its to_numpy()"
            )
    return x.to_numpy()
