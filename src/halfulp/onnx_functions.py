"""ONNX's face: its operators as functions of arrays, without onnx.

May import arrays, element_types, errors, labels, numpy_face, reductions, shortcuts,
spec.rules and the native core only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp import _core
from halfulp.arrays import as_array, is_dask_array
from halfulp.element_types import data_type, element_type
from halfulp.errors import ArgumentError, AxesError
from halfulp.labels import has_labels, sum_with_labels
from halfulp.numpy_face import NO_DASK, reduce_lazily
from halfulp.reductions import (
    L1,
    L2,
    LOG_SUM,
    LOG_SUM_EXP,
    MAX,
    MEAN,
    MIN,
    PROD,
    SUM,
    SUM_SQUARE,
    Reduction,
)
from halfulp.shortcuts import with_shortcut
from halfulp.spec.rules import (
    axes_error,
    check_flag,
    is_sequence_of_axes,
    reduced_axes,
)

# Small types that maxima and minima take besides the eight.
_SMALL = ("int8", "uint8", "bool")
_AXES = "a sequence of int or a 1-D array of int64"


@with_shortcut("onnx", SUM)
def reduce_sum(
    data: Any,
    axes: Any = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    split_every: int | dict[int, int] | None = None,
) -> Any:
    """ONNX's ReduceSum, version 13, correctly rounded.

    Parameters
    ----------
    data : array_like
        As for `sum`, but of no small dtype and no masked array.
    axes : sequence of int or array of int64, 1-D, optional
        Each in [-r, r-1], r the rank of `data`; the same axis twice counts
        once. None and an empty sequence are the same.
    keepdims : int, optional
        1 keeps the reduced axes with length one, 0 drops them.
    noop_with_empty_axes : int, optional
        With empty `axes`, 0 reduces all axes; 1 reduces none, and every
        element is a reduction of itself.
    split_every : int or dict of int to int, optional
        As for `sum`.

    Returns
    -------
    numpy.ndarray or array of the library of `data`
        Of the element type of `data`, new and C-contiguous.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.

    Notes
    -----
    The exact sum is rounded once. Integers are exact modulo 2^N. A sum that is exactly
    zero is +0; an element that is a reduction of itself keeps its sign.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> data = np.array([[2**24, 1, 1], [1, 2, 3]], dtype=np.float32)
    >>> halfulp.reduce_sum(data, [1])
    array([[1.6777218e+07],
           [6.0000000e+00]], dtype=float32)
    """
    return reduce_as_onnx(SUM, data, axes, keepdims, noop_with_empty_axes, split_every)


@with_shortcut("onnx", MEAN)
def reduce_mean(
    data: Any,
    axes: Any = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    split_every: int | dict[int, int] | None = None,
) -> Any:
    """ONNX's ReduceMean, version 18, correctly rounded.

    Parameters
    ----------
    data, axes, keepdims, noop_with_empty_axes, split_every
        As for `reduce_sum`.

    Returns
    -------
    numpy.ndarray or array of the library of `data`
        Of the element type of `data`, new and C-contiguous.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.

    Notes
    -----
    The exact sum divided by the number of elements, rounded once; of integers cut
    toward zero. The mean of nothing is NaN, or 0 of integers.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.reduce_mean(np.float16([65504, 65504]), keepdims=0)
    array(6.55e+04, dtype=float16)
    >>> halfulp.reduce_mean(np.int32([2**31 - 1, 2**31 - 1, -5]), keepdims=0)
    array(1431655763, dtype=int32)
    """
    return reduce_as_onnx(MEAN, data, axes, keepdims, noop_with_empty_axes, split_every)


@with_shortcut("onnx", L1)
def reduce_l1(
    data: Any,
    axes: Any = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    split_every: int | dict[int, int] | None = None,
) -> Any:
    """ONNX's ReduceL1, version 18, correctly rounded.

    Parameters
    ----------
    data, axes, keepdims, noop_with_empty_axes, split_every
        As for `reduce_sum`.

    Returns
    -------
    numpy.ndarray or array of the library of `data`
        Of the element type of `data`, new and C-contiguous.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.

    Notes
    -----
    The exact sum of the magnitudes, rounded once. Integers are exact modulo 2^N.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.reduce_l1(np.float32([[3, -4], [-5, 12]]), [1])
    array([[ 7.],
           [17.]], dtype=float32)
    """
    return reduce_as_onnx(L1, data, axes, keepdims, noop_with_empty_axes, split_every)


@with_shortcut("onnx", L2)
def reduce_l2(
    data: Any,
    axes: Any = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    split_every: int | dict[int, int] | None = None,
) -> Any:
    """ONNX's ReduceL2, version 18, correctly rounded.

    Parameters
    ----------
    data, axes, keepdims, noop_with_empty_axes, split_every
        As for `reduce_sum`.

    Returns
    -------
    numpy.ndarray or array of the library of `data`
        Of the element type of `data`, new and C-contiguous.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.

    Notes
    -----
    The root of the exact sum of the exact squares, rounded once; of integers rounded
    down, modulo 2^N.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.reduce_l2(np.float32([[3e30, 4e30], [3e-30, 4e-30]]), [1])
    array([[5.e+30],
           [5.e-30]], dtype=float32)
    """
    return reduce_as_onnx(L2, data, axes, keepdims, noop_with_empty_axes, split_every)


@with_shortcut("onnx", PROD)
def reduce_prod(
    data: Any,
    axes: Any = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Any:
    """ONNX's ReduceProd, version 18, correctly rounded.

    Parameters
    ----------
    data : array_like
        As for `reduce_sum`, but no Dask array.
    axes, keepdims, noop_with_empty_axes
        As for `reduce_sum`.

    Returns
    -------
    numpy.ndarray or array of the library of `data`
        Of the element type of `data`, new and C-contiguous.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.

    Notes
    -----
    The exact product, rounded once, whatever leaves the range on the way. Integers are
    exact modulo 2^N.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.reduce_prod(np.float32([1e-30, 1e-30, 1e30, 1e30]), keepdims=0)
    array(1., dtype=float32)
    """
    return reduce_as_onnx(PROD, data, axes, keepdims, noop_with_empty_axes)


@with_shortcut("onnx", SUM_SQUARE)
def reduce_sum_square(
    data: Any,
    axes: Any = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    split_every: int | dict[int, int] | None = None,
) -> Any:
    """ONNX's ReduceSumSquare, version 18, correctly rounded.

    Parameters
    ----------
    data, axes, keepdims, noop_with_empty_axes, split_every
        As for `reduce_sum`.

    Returns
    -------
    numpy.ndarray or array of the library of `data`
        Of the element type of `data`, new and C-contiguous.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.

    Notes
    -----
    The ONNX specification defines the operator by its function body, Mul and
    ReduceSum, which rounds each square and each sum. Here the exact sum is
    rounded once, so the last bits can differ; these are the more accurate.
    Integers are exact modulo 2^N, as in the function body.


    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> data = np.array([[1, 2], [3, 4]], dtype=np.float32)
    >>> halfulp.reduce_sum_square(data, [1])
    array([[ 5.],
           [25.]], dtype=float32)
    >>> halfulp.reduce_sum_square(data, noop_with_empty_axes=1)
    array([[ 1.,  4.],
           [ 9., 16.]], dtype=float32)
    """
    return reduce_as_onnx(
        SUM_SQUARE, data, axes, keepdims, noop_with_empty_axes, split_every
    )


@with_shortcut("onnx", LOG_SUM)
def reduce_log_sum(
    data: Any,
    axes: Any = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Any:
    """ONNX's ReduceLogSum, version 28, correctly rounded; of integers version 18.

    Parameters
    ----------
    data : array_like
        As for `reduce_sum`, but no Dask array.
    axes, keepdims, noop_with_empty_axes
        As for `reduce_sum`.

    Returns
    -------
    numpy.ndarray or array of the library of `data`
        Of the element type of `data`, new and C-contiguous.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.

    Notes
    -----
    The natural logarithm of the exact sum, rounded once. That of 0 is -inf, as of an
    empty sum, that of 1 is +0, and of what is below 0 there is none: NaN. Of integers
    it is cut toward zero, of the whole sum, not modulo 2^N; where there is none, it is
    the least value of the type.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.reduce_log_sum(np.float32([[3e38, 3e38], [2.5, -1.5]]), [1])
    array([[89.28999],
           [ 0.     ]], dtype=float32)
    >>> halfulp.reduce_log_sum(np.int64([2**62, 2**62, 2**62]), keepdims=0)
    array(44)
    """
    return reduce_as_onnx(LOG_SUM, data, axes, keepdims, noop_with_empty_axes)


@with_shortcut("onnx", LOG_SUM_EXP)
def reduce_log_sum_exp(
    data: Any,
    axes: Any = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Any:
    """ONNX's ReduceLogSumExp, version 28, correctly rounded; of integers version 18.

    Parameters
    ----------
    data : array_like
        As for `reduce_sum`, but no Dask array.
    axes, keepdims, noop_with_empty_axes
        As for `reduce_sum`.

    Returns
    -------
    numpy.ndarray or array of the library of `data`
        Of the element type of `data`, new and C-contiguous.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.

    Notes
    -----
    The natural logarithm of the exact sum of the exact exponentials, rounded once,
    whatever the range of the elements; see `logsumexp`. Of integers it is cut toward
    zero, modulo 2^N. Of nothing it is -inf, or the least integer.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.reduce_log_sum_exp(np.float32([[1000, 1000], [-1e30, 0]]), [1])
    array([[1000.6932],
           [   0.    ]], dtype=float32)
    """
    return reduce_as_onnx(LOG_SUM_EXP, data, axes, keepdims, noop_with_empty_axes)


@with_shortcut("onnx", MAX)
def reduce_max(
    data: Any,
    axes: Any = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    split_every: int | dict[int, int] | None = None,
) -> Any:
    """ONNX's ReduceMax, version 20.

    Parameters
    ----------
    data : array_like
        As for `reduce_sum`, and of dtype int8, uint8 or bool.
    axes, keepdims, noop_with_empty_axes, split_every
        As for `reduce_sum`.

    Returns
    -------
    numpy.ndarray or array of the library of `data`
        Of the element type of `data`, new and C-contiguous.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.

    Notes
    -----
    The greatest element. Any NaN, wherever it stands, gives the canonical quiet NaN;
    -0 is below +0. The greatest of nothing is -inf, of integers their least number and
    of bool False.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.reduce_max(np.float32([[1, np.nan, 2], [-0.0, 0.0, -1]]), [1])
    array([[nan],
           [ 0.]], dtype=float32)
    >>> halfulp.reduce_max(np.zeros((0, 2), np.int8), [0], keepdims=0)
    array([-128, -128], dtype=int8)
    """
    return reduce_as_onnx(MAX, data, axes, keepdims, noop_with_empty_axes, split_every)


@with_shortcut("onnx", MIN)
def reduce_min(
    data: Any,
    axes: Any = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    split_every: int | dict[int, int] | None = None,
) -> Any:
    """ONNX's ReduceMin, version 20.

    Parameters
    ----------
    data, axes, keepdims, noop_with_empty_axes, split_every
        As for `reduce_max`.

    Returns
    -------
    numpy.ndarray or array of the library of `data`
        Of the element type of `data`, new and C-contiguous.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.

    Notes
    -----
    The least element, with NaN and zeros as in `reduce_max`. The least of nothing is inf,
    of integers their greatest number and of bool True.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.reduce_min(np.float32([[1, -5, 2], [-0.0, 0.0, 1]]), [1])
    array([[-5.],
           [-0.]], dtype=float32)
    """
    return reduce_as_onnx(MIN, data, axes, keepdims, noop_with_empty_axes, split_every)


def reduce_as_onnx(
    row: Reduction,
    data: Any,
    axes: Any = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    split_every: int | dict[int, int] | None = None,
) -> Any:
    """Reduce as ONNX's operator of a row of the table does, in its newest version.

    Parameters, result and errors are those of `reduce_sum`.
    """
    is_array = type(data) is np.ndarray
    labelled = not is_array and has_labels(data)
    lazy = not is_array and is_dask_array(data)
    taken = is_array or lazy or labelled
    array, restore = (data, None) if taken else as_array(data, "data")
    keep = check_flag("keepdims", keepdims)
    noop = check_flag("noop_with_empty_axes", noop_with_empty_axes)
    given = None if axes is None else _axes_list(axes)
    normal = reduced_axes(given, array.ndim, noop_with_empty_axes=noop)
    if labelled:

        def sum_of(inner: Any, axes: tuple[int, ...]) -> Any:
            return reduce_as_onnx(row, inner, axes, 0, noop, split_every)

        return sum_with_labels(data, "data", normal, keep, sum_of)
    takes_small = row.gives_elements and array.dtype.name in _SMALL
    kind = (data_type if takes_small else element_type)(array.dtype, "data has dtype")
    if lazy:
        result = reduce_lazily(row, data, "data", normal, keep, kind, "wrap", split_every)
    elif split_every is not None:
        raise ArgumentError(NO_DASK.format("data"))
    else:
        result = _core.reduce(
            row.name, array, normal, keep, kind.code, False, None, None, True, False
        )
    # Where each element is a reduction of itself, -0 stays -0.
    if noop and not given and row.of_one == "value" and kind.kind == "float":
        result = np.where(array == 0, array, result)
    return result if restore is None else restore(result)


def _axes_list(axes: Any) -> list[int]:
    """The axes of the ONNX face: a sequence, or a 1-D tensor of int64."""
    if is_sequence_of_axes(axes):
        return list(axes)
    tensor, _ = as_array(axes, "axes")
    if tensor.ndim == 0:
        raise axes_error(axes, _AXES)
    if tensor.ndim != 1:
        raise AxesError(f"axes has rank {tensor.ndim}; allowed: {_AXES}")
    if tensor.dtype != np.int64:
        raise AxesError(f"axes has dtype {tensor.dtype}; allowed: int64")
    values: list[int] = tensor.tolist()
    return values
