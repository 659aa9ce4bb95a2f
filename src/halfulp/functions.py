"""NumPy's face: reductions as functions of arrays, by the names that NumPy uses.

May import arrays, element_types, errors, labels, reductions, spec.rules and the native
core only.
Imports halfulp.dask when called with one of its arrays, so that exact sums, of which
it makes its own, need not stand below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp import _core
from halfulp.arrays import Array, as_array, is_dask_array, is_more_than_an_array
from halfulp.element_types import BY_CODE, data_type, result_type, widened
from halfulp.errors import ArgumentError
from halfulp.labels import has_labels, sum_with_labels
from halfulp.reductions import SUM_SQUARE, Reduction
from halfulp.spec.rules import (
    check_flag,
    normalize_axes,
    raises_on_overflow,
    reduced_shape,
)

# For the code of a result: the element type of the data, of small ones 64 bits.
SAME_TYPE = 0
_WRAP = "wrap"  # the default, as it is in most calls
NO_DASK = "split_every is given, {} is no Dask array; allowed: with Dask arrays only"


def sum_square(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    overflow: str = "wrap",
    split_every: int | dict[int, int] | None = None,
) -> Any:
    """Sum of squares along axes, correctly rounded.

    Parameters
    ----------
    x : array_like
        Of dtype bfloat16 (of ml_dtypes), float16, float32, float64, int32,
        int64, uint32, uint64, or of the small ones bool, int8, int16, uint8 and
        uint16; of any shape, strides, alignment and byte order. Objects with
        ``__dlpack__`` on the CPU are read in place. A Dask array of any chunks gives
        a lazy one. What has labels keeps those of the axes
        that are left: an xarray DataArray or Variable, lazy ones too, and a pandas
        Series or DataFrame of one of the dtypes. Objects that mean more than their
        elements in another way (units, masks, sparsity) are refused.
    axis : int or tuple of int, optional
        The axes to sum along; None means all. ``()`` squares each element.
    dtype : dtype, optional
        Of the result, none of the small ones; for floats a float type. Default: that
        of `out`, else that of `x`; where that is small int64, or uint64 if it is
        unsigned, as in NumPy.
    out : numpy.ndarray, optional
        Where the result goes: any array of its shape and dtype, `x` included. Not
        with Dask arrays and labels.
    keepdims : bool, optional
        Whether summed axes stay, with length one. Not with pandas.
    overflow : {"wrap", "raise"}, optional
        What happens when an integer result does not fit its dtype. Floats
        overflow to infinity, as IEEE 754 has it.
    split_every : int or dict of int to int, optional
        For Dask arrays only: how many partial sums merge at once, in all or for each
        axis, as in Dask's own reductions. The result does not depend on it.

    Returns
    -------
    numpy.ndarray, numpy scalar or array of the library of `x`
        A scalar where NumPy would return one: all axes are summed, without
        `keepdims` and `out`. `out`, if given.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.
    SumOverflowError
        With ``overflow="raise"``; `out` is left as it was. Of a Dask array, when it is
        computed.

    Notes
    -----
    Floats: the exact sum of the exact squares, rounded once, to nearest, ties
    to even (IEEE 754-2019, 4.3.1): within half an ulp, the same bits for every
    layout, order, number of threads and processor. Any NaN gives the canonical
    quiet NaN, else any infinity gives infinity. Integers: exact modulo 2^N, or with
    a float `dtype` the exact sum rounded once. An empty sum is 0.

    The input is never copied, whatever its layout; scratch memory is at most
    1 MiB (and 64 KiB for each thread above 16). One more array like the result
    is needed when `out` is not C-contiguous, overlaps `x`, or `overflow` is
    "raise", and in the main thread for some 4 million elements and more: such a
    call is interrupted by Ctrl-C within half a second, and leaves `out` as it was.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.sum_square(np.array([[1, 2], [3, 4]]), axis=1)
    array([ 5, 25])
    >>> x = np.array([4096, 1, 1], dtype=np.float32)
    >>> halfulp.sum_square(x), np.sum(np.square(x))
    (np.float32(1.6777218e+07), np.float32(1.6777216e+07))
    >>> half = np.array([300, 300], dtype=np.float16)
    >>> halfulp.sum_square(half), halfulp.sum_square(half, dtype=np.float32)
    (np.float16(inf), np.float32(180000.0))
    >>> pixels = np.full((100, 100), 255, np.uint8)
    >>> halfulp.sum_square(pixels), halfulp.sum_square(pixels, dtype=np.float32)
    (np.uint64(650250000), np.float32(6.5025e+08))
    """
    # Written for small arrays: here a look-up costs as much as ten additions.
    if keepdims is not False:
        keepdims = check_flag("keepdims", keepdims)
    lazy, restore, data = False, None, x
    if type(x) is not np.ndarray:
        if has_labels(x):
            return _sum_with_labels(x, axis, dtype, out, keepdims, overflow, split_every)
        lazy = is_dask_array(x)
        if not lazy:
            data, restore = as_array(x, "x")
    axes = None
    if axis is not None:
        given = axis if isinstance(axis, tuple | list) else (axis,)
        axes = normalize_axes(given, data.ndim, repeated="raise")
    code = SAME_TYPE
    if dtype is not None or out is not None:
        code = _result_code(data, dtype, out)
    checked = overflow is not _WRAP and raises_on_overflow(overflow)
    if lazy:
        if out is not None:
            raise ArgumentError("out is given with a Dask array; allowed: without")
        return reduce_lazily(
            SUM_SQUARE, x, "x", axes, keepdims, code, overflow, split_every
        )
    if split_every is not None:
        raise ArgumentError(NO_DASK.format("x"))
    if out is not None:
        _reduce_into(SUM_SQUARE, out, data, axes, keepdims, code, checked)
        return out
    result = reduce_array(SUM_SQUARE, data, "x", axes, keepdims, code, checked)
    if restore is not None:
        return restore(result)
    return result if result.ndim else result[()]


def _sum_with_labels(
    x: Any,
    axis: int | Sequence[int] | None,
    dtype: npt.DTypeLike | None,
    out: Array | None,
    keepdims: bool,
    overflow: str,
    split_every: Any,
) -> Any:
    if out is not None:
        raise ArgumentError("out is given with an x that has labels; allowed: without")
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = range(x.ndim) if axis is None else given
    normal = normalize_axes(axes, x.ndim, repeated="raise")

    def sum_of(inner: Any, axes: tuple[int, ...]) -> Any:
        return sum_square(
            inner, axes, dtype=dtype, overflow=overflow, split_every=split_every
        )

    return sum_with_labels(x, "x", normal, keepdims, sum_of)


def _result_code(data: Any, dtype: npt.DTypeLike | None, out: Any) -> int:
    source = data_type(data.dtype, "x has dtype")
    if out is None:
        return result_type(source, dtype).code
    if not isinstance(out, np.ndarray) or is_more_than_an_array(type(out)):
        raise ArgumentError(f"out is a {type(out).__name__}; allowed: a numpy.ndarray")
    return result_type(source, dtype, out.dtype).code


def reduce_array(
    row: Reduction,
    data: Array,
    what: str,
    axes: tuple[int, ...] | None,
    keepdims: bool,
    code: int = SAME_TYPE,
    checked: bool = False,
    out: Array | None = None,
) -> Array:
    """Reduce an array along normalized axes.

    Parameters
    ----------
    row : Reduction
        Of the table.
    data : numpy.ndarray
    what : str
        The caller's name of `data`, for errors.
    axes : tuple of int or None
        Normalized; None means all.
    keepdims : bool
    code : int
        Of the element type of the result.
    checked : bool
        Whether integer results that do not fit raise.
    out : numpy.ndarray, optional
        Of the shape and type of the result, in native byte order, C-contiguous, apart
        from `data`.

    Raises
    ------
    UnsupportedTypeError, SumOverflowError
    """
    try:
        return _core.reduce(row.name, data, axes, keepdims, code, checked, out)
    except TypeError:
        data_type(data.dtype, f"{what} has dtype")  # tells what is allowed
        raise


def reduce_lazily(
    row: Reduction,
    data: Any,
    what: str,
    axes: tuple[int, ...] | None,
    keepdims: bool,
    code: int,
    overflow: str,
    split_every: Any,
) -> Any:
    """Reduce a Dask array as `reduce_array` does an array, when it is computed."""
    from halfulp.dask import reduce_dask_array

    source = data_type(data.dtype, f"{what} has dtype")
    into = widened(source, 64) if code == SAME_TYPE else BY_CODE[code]
    return reduce_dask_array(row, data, what, axes, keepdims, into, overflow, split_every)


def _reduce_into(
    row: Reduction,
    out: Array,
    data: Array,
    axes: tuple[int, ...] | None,
    keepdims: bool,
    code: int,
    checked: bool,
) -> None:
    all_axes = tuple(range(data.ndim)) if axes is None else axes
    shape = reduced_shape(data.shape, all_axes, keepdims)
    if out.shape != shape:
        raise ArgumentError(f"out has shape {out.shape}; allowed: {shape}")
    if not out.flags.writeable:
        raise ArgumentError("out is read-only; allowed: a writable array")
    direct = (
        type(out) is np.ndarray
        and out.flags.carray
        and out.dtype.isnative
        and not checked
        and not np.may_share_memory(out, data)
    )
    direct_out = out if direct else None
    result = reduce_array(row, data, "x", axes, keepdims, code, checked, direct_out)
    if result is not out:
        out[...] = result
