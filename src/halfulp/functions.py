"""The operator as a function: NumPy's face and ONNX's face.

May import arrays, element_types, errors, labels, spec.rules and the native core only,
and halfulp.dask for its arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp import _core
from halfulp.arrays import Array, as_array, is_dask_array, is_more_than_an_array
from halfulp.element_types import (
    BY_CODE,
    ElementType,
    data_type,
    element_type,
    widened,
)
from halfulp.errors import ArgumentError, AxesError, UnsupportedTypeError, shown
from halfulp.labels import has_labels, sum_with_labels
from halfulp.spec.rules import (
    axes_error,
    check_flag,
    normalize_axes,
    reduced_axes,
    reduced_shape,
)

_AXES = "a sequence of int or a 1-D array of int64"
_SAME = 0  # for a code: the element type of the data, of small ones 64 bits
_NO_DASK = "split_every is given, {} is no Dask array; allowed: with Dask arrays only"


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
    target = _SAME
    if dtype is not None or out is not None:
        target = target_type(data_type(data.dtype, "x has dtype"), dtype, out).code
    checked = raises_on_overflow(overflow)
    if lazy:
        if out is not None:
            raise ArgumentError("out is given with a Dask array; allowed: without")
        return _reduce_lazily(x, "x", axes, keepdims, target, overflow, split_every)
    if split_every is not None:
        raise ArgumentError(_NO_DASK.format("x"))
    if out is not None:
        _reduce_into(out, data, axes, keepdims, target, checked)
        return out
    result = _reduce(data, "x", axes, keepdims, target, checked)
    if restore is not None:
        return restore(result)
    return result if result.ndim else result[()]


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
    data : array_like
        As for `sum_square`, but of no small dtype.
    axes : sequence of int or array of int64, 1-D, optional
        Each in [-r, r-1], r the rank of `data`; the same axis twice counts
        once. None and an empty sequence are the same.
    keepdims : int, optional
        1 keeps the reduced axes with length one, 0 drops them.
    noop_with_empty_axes : int, optional
        With empty `axes`, 0 reduces all axes; 1 reduces none, and every
        element is squared.
    split_every : int or dict of int to int, optional
        As for `sum_square`.

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
    is_array = type(data) is np.ndarray
    labelled = not is_array and has_labels(data)
    lazy = not is_array and is_dask_array(data)
    array, restore = (data, None) if lazy or labelled else as_array(data, "data")
    keep = check_flag("keepdims", keepdims)
    noop = check_flag("noop_with_empty_axes", noop_with_empty_axes)
    given = None if axes is None else _axes_list(axes)
    normal = reduced_axes(given, array.ndim, noop_with_empty_axes=noop)
    if labelled:

        def sum_of(inner: Any, axes: tuple[int, ...]) -> Any:
            return reduce_sum_square(
                inner,
                axes,
                keepdims=0,
                noop_with_empty_axes=1,
                split_every=split_every,
            )

        return sum_with_labels(data, "data", normal, keep, sum_of)
    element_type(array.dtype, "data has dtype")
    if lazy:
        return _reduce_lazily(data, "data", normal, keep, _SAME, "wrap", split_every)
    if split_every is not None:
        raise ArgumentError(_NO_DASK.format("data"))
    result = _reduce(array, "data", normal, keep)
    return result if restore is None else restore(result)


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


def _reduce(
    data: Array,
    what: str,
    axes: tuple[int, ...] | None,
    keepdims: bool,
    target: int = _SAME,
    checked: bool = False,
    out: Array | None = None,
) -> Array:
    try:
        return _core.reduce(data, axes, keepdims, target, checked, out)
    except TypeError:
        data_type(data.dtype, f"{what} has dtype")  # tells what is allowed
        raise


def _reduce_lazily(
    data: Any,
    what: str,
    axes: tuple[int, ...] | None,
    keepdims: bool,
    target: int,
    overflow: str,
    split_every: Any,
) -> Any:
    from halfulp.dask import reduce_dask_array

    source = data_type(data.dtype, f"{what} has dtype")
    into = widened(source, 64) if target == _SAME else BY_CODE[target]
    return reduce_dask_array(data, what, axes, keepdims, into, overflow, split_every)


def _axes_list(axes: Any) -> list[int]:
    """The axes of the ONNX face: a sequence, or a 1-D tensor of int64."""
    if isinstance(axes, list | tuple):
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


def raises_on_overflow(overflow: Any) -> bool:
    """Return what the argument `overflow` says.

    Raises
    ------
    ArgumentError
        If it is neither "wrap" nor "raise".
    """
    if not isinstance(overflow, str) or overflow not in ("wrap", "raise"):
        raise ArgumentError(f"overflow is {shown(overflow)}; allowed: 'wrap' or 'raise'")
    return overflow == "raise"


def target_type(
    source: ElementType, dtype: npt.DTypeLike | None, out: Any
) -> ElementType:
    """Return the element type of a result for the arguments `dtype` and `out`.

    Raises
    ------
    ArgumentError, UnsupportedTypeError
        If one of them is not allowed for data of the type `source`.
    """
    if out is not None and (
        not isinstance(out, np.ndarray) or is_more_than_an_array(type(out))
    ):
        raise ArgumentError(f"out is a {type(out).__name__}; allowed: a numpy.ndarray")
    if dtype is None:
        assert out is not None
        target = element_type(out.dtype, "out has dtype")
    else:
        try:
            target = element_type(np.dtype(dtype), "dtype is")
        except UnsupportedTypeError:
            raise
        except Exception as error:  # of several kinds, by what NumPy makes of it
            raise ArgumentError(
                f"dtype is {shown(dtype)}, not a dtype: {shown(error, str)}"
            ) from error
        if out is not None and element_type(out.dtype, "out has dtype") is not target:
            raise ArgumentError(
                f"out has dtype {out.dtype}; allowed: {target.numpy_name}"
            )
    if source.kind == "float" and target.kind != "float":
        allowed = ", ".join(
            t.numpy_name for t in BY_CODE.values() if t.kind == source.kind
        )
        which = "out has dtype" if dtype is None else "dtype is"
        raise UnsupportedTypeError(
            f"{which} {target.numpy_name}; allowed for a sum of {source.numpy_name}: "
            f"{allowed}"
        )
    return target


def _reduce_into(
    out: Array,
    data: Array,
    axes: tuple[int, ...] | None,
    keepdims: bool,
    target: int,
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
    result = _reduce(data, "x", axes, keepdims, target, checked, direct_out)
    if result is not out:
        out[...] = result
