"""How NumPy's face reduces: what its functions share, whatever the row of the table.

May import arrays, element_types, errors, labels, reductions, spec.rules and the native
core only. Imports halfulp.dask when called with one of its arrays, so that exact sums, of
which it makes its own, need not stand below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from halfulp._core import reduce, spread
from halfulp.arrays import (
    Array,
    as_array,
    is_dask_array,
    is_masked_array,
    is_more_than_an_array,
)
from halfulp.element_types import (
    ElementType,
    data_type,
    in_native_order,
    is_float,
    result_type,
)
from halfulp.errors import ArgumentError, UnsupportedTypeError, shown
from halfulp.labels import has_labels, sum_with_labels
from halfulp.reductions import LOG_SUM_EXP, Reduction, Spread
from halfulp.spec.rules import (
    axes_of,
    check_flag,
    check_mask,
    raises_on_overflow,
    reduced_shape,
)

_DEFAULT_TYPE = 0  # the code of a row's result, as Reduction.result_of has it
_WRAP = "wrap"  # the default, as it is in most calls
NO_DASK = "split_every is given, {} is no Dask array; allowed: with Dask arrays only"


def reduce_as_numpy(
    row: Reduction | Spread,
    x: Any,
    axis: int | Sequence[int] | None = None,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    where: Any = True,
    overflow: str = "wrap",
    split_every: int | dict[int, int] | None = None,
    counted: bool = True,
    of_nothing: bool = True,
) -> Any:
    """Reduce as NumPy's functions do, by a row of the table.

    Parameters, result and errors are those of `halfulp.sum`; `counted` is what an array
    `where` has for elements that count, `of_nothing` whether reductions of no elements
    are allowed.
    """
    # Written for small arrays: here a look-up costs as much as ten additions.
    if keepdims is not False:
        keepdims = check_flag("keepdims", keepdims)
    restore, data, mask = None, x, None
    if type(x) is not ndarray:
        special = _special(x)
        if special is not None:
            given = _Given(dtype, out, keepdims, where, overflow, split_every)
            return special(row, x, axis, given._replace(of_nothing=of_nothing))
        data, restore = as_array(x, "x")
    axes = None if axis is None else axes_of(axis, data.ndim)
    if not of_nothing:
        _check_something(row, data.shape, axes)
    code = _DEFAULT_TYPE
    if dtype is not None or out is not None:
        code = result_type_of(row, data, dtype, out).code
    checked = overflow is not _WRAP and raises_on_overflow(overflow)
    if split_every is not None:
        raise ArgumentError(NO_DASK.format("x"))
    if where is not True:
        mask = mask_of(where, data.shape)
    direct = None
    if out is not None:
        direct = _direct(out, data, mask, axes, keepdims, checked)
    try:
        if type(row) is Spread:
            result = spread(
                row.name,
                row.ddof,
                data,
                axes,
                keepdims,
                code,
                direct,
                mask,
                counted,
                restore is None,
            )
        else:
            result = reduce(
                row.name,
                data,
                axes,
                keepdims,
                code,
                checked,
                direct,
                mask,
                counted,
                restore is None,
            )
    except TypeError:
        data_type(data.dtype, "x has dtype")  # tells what is allowed
        raise
    if out is not None:
        if result is not out:
            out[...] = result
        return out
    return result if restore is None else restore(result)


class _Given(NamedTuple):
    """Arguments of `reduce_as_numpy`, for what is no plain array."""

    dtype: npt.DTypeLike | None
    out: Array | None
    keepdims: bool
    where: Any
    overflow: str
    split_every: int | dict[int, int] | None
    counted: bool = True
    of_nothing: bool = True


def extreme_as_numpy(
    row: Reduction,
    x: Any,
    axis: int | Sequence[int] | None,
    out: Array | None,
    keepdims: bool,
    initial: Any,
    where: Any,
    split_every: int | dict[int, int] | None,
) -> Any:
    """Reduce as NumPy's max and min do, by the row of one of them.

    Parameters, result and errors are those of `halfulp.max`.
    """
    if initial is None:
        if where is not True:
            raise ArgumentError(
                f"where is given without initial, of which the {row.name} of nothing is; "
                "allowed: with initial"
            )
        return reduce_as_numpy(
            row,
            x,
            axis,
            None,
            out,
            keepdims,
            True,
            _WRAP,
            split_every,
            True,
            False,
        )
    if _special(x) is not None:
        raise ArgumentError(
            f"initial is given with a {type(x).__name__}; allowed: with plain arrays"
        )
    data, restore = as_array(x, "x")
    first = _initial(initial, data.dtype)
    if out is not None:
        axes = axes_of(axis, data.ndim)
        result_type_of(row, data, None, out)
        _direct(out, data, None, axes, check_flag("keepdims", keepdims), False)
    result = reduce_as_numpy(
        row, data, axis, None, None, keepdims, where, _WRAP, split_every
    )
    # One element more of each.
    both = np.stack([result, np.full_like(result, first)])
    result = reduce_as_numpy(row, both, 0, None, out)
    return result if out is not None or restore is None else restore(np.asarray(result))


def _initial(initial: Any, dtype: np.dtype[Any]) -> Any:
    """Return `initial` as an element of a dtype, which integers have to be numbers of."""
    native = in_native_order(dtype)
    try:
        given = np.asarray(initial)
        with np.errstate(invalid="ignore", over="ignore"):
            element = given.astype(native) if given.dtype.kind != "c" else given[None]
        if element.ndim == 0 and (is_float(native) or element == initial):
            return element[()]
    except (TypeError, ValueError, OverflowError):
        pass
    raise ArgumentError(f"initial is {shown(initial)}; allowed: a number of {native}")


def _check_something(
    row: Reduction | Spread, shape: tuple[int, ...], axes: tuple[int, ...] | None
) -> None:
    """Raise if there are reductions of nothing."""
    if 0 in (shape if axes is None else [shape[i] for i in axes]):
        raise ArgumentError(
            f"x has shape {shape}, and the {row.name} of no elements is not defined; "
            "allowed: at least one, or with initial"
        )


def is_plain(x: Any) -> bool:
    """Tell whether `x` is neither lazy nor has labels or a mask."""
    return _special(x) is None


def _special(x: Any) -> Callable[..., Any] | None:
    """Return what reduces `x` instead, if it is lazy or has labels or a mask."""
    if has_labels(x):
        return _reduce_with_labels
    if is_dask_array(x):
        return _reduce_dask_array
    if is_masked_array(x):
        return _reduce_masked
    return None


def _reduce_with_labels(
    row: Reduction | Spread, x: Any, axis: int | Sequence[int] | None, given: _Given
) -> Any:
    if given.out is not None:
        raise ArgumentError("out is given with an x that has labels; allowed: without")

    def sum_of(inner: Any, axes: tuple[int, ...]) -> Any:
        return reduce_as_numpy(row, inner, axes, *given._replace(keepdims=False))

    return sum_with_labels(x, "x", axes_of(axis, x.ndim), given.keepdims, sum_of)


def _reduce_masked(
    row: Reduction | Spread, x: Any, axis: int | Sequence[int] | None, given: _Given
) -> Any:
    if row is LOG_SUM_EXP:
        raise UnsupportedTypeError("x is a masked array; allowed: without a mask")
    if given.out is not None:
        raise ArgumentError("out is given with a masked array; allowed: without")
    if given.where is not True:
        raise ArgumentError(
            "where is given with a masked array, which has its mask; allowed: without"
        )
    data, mask = np.ma.getdata(x, subok=False), np.ma.getmask(x)
    has_mask = mask is not np.ma.nomask
    masked = given._replace(where=mask if has_mask else True)
    result = reduce_as_numpy(row, data, axis, *masked._replace(counted=False))
    axes = axes_of(axis, x.ndim)
    nothing = mask
    if has_mask:
        counted = np.sum(~mask, axis=axes, keepdims=given.keepdims)
        nothing = counted <= max(0, row.ddof if isinstance(row, Spread) else 0)
    if np.ndim(result) == 0:
        return np.ma.masked if nothing else result
    return np.ma.MaskedArray(result, nothing)


def _reduce_dask_array(
    row: Reduction | Spread, x: Any, axis: int | Sequence[int] | None, given: _Given
) -> Any:
    axes = axes_of(axis, x.ndim)
    if not given.of_nothing:
        _check_something(row, x.shape, axes)
    into = result_type_of(row, x, given.dtype, given.out)
    raises_on_overflow(given.overflow)
    if given.out is not None:
        raise ArgumentError("out is given with a Dask array; allowed: without")
    return reduce_lazily(
        row,
        x,
        "x",
        axes,
        given.keepdims,
        into,
        given.overflow,
        given.split_every,
        given.where,
    )


def reduce_lazily(
    row: Reduction | Spread,
    data: Any,
    what: str,
    axes: tuple[int, ...],
    keepdims: bool,
    into: ElementType,
    overflow: str,
    split_every: Any,
    where: Any = True,
) -> Any:
    """Reduce a Dask array along normalized axes, when it is computed.

    To results of the type `into`; `what` is the caller's name of `data`, for errors.
    """
    from halfulp.dask import reduce_dask_array

    return reduce_dask_array(
        row, data, what, axes, keepdims, into, overflow, split_every, where
    )


def result_type_of(
    row: Reduction | Spread, data: Any, dtype: npt.DTypeLike | None, out: Any
) -> ElementType:
    """Return the type of results, from what a function of NumPy's face is given."""
    source = data_type(data.dtype, "x has dtype")
    if out is None and dtype is None:
        return row.result_of(source)
    if out is None:
        result = result_type(source, dtype)
    elif not isinstance(out, np.ndarray) or is_more_than_an_array(type(out)):
        raise ArgumentError(f"out is a {type(out).__name__}; allowed: a numpy.ndarray")
    elif isinstance(row, Reduction) and row.gives_elements:
        if data_type(out.dtype, "out has dtype") is not source:
            raise ArgumentError(
                f"out has dtype {out.dtype}; allowed: {source.numpy_name}, that of x"
            )
        return source
    else:
        result = result_type(source, dtype, out.dtype)
    if isinstance(row, Spread) and result.kind != "float":
        what = "out has dtype" if dtype is None else "dtype is"
        raise UnsupportedTypeError(
            f"{what} {result.numpy_name}, of {row.name}; allowed: float types"
        )
    return result


def mask_of(where: Any, shape: tuple[int, ...]) -> Array | None:
    """Return the mask that `where` is, of the shape of the data; None for all of it."""
    mask, _ = as_array(where, "where")
    check_mask(mask.dtype, mask.shape, shape)
    if mask.ndim == 0 and mask:
        return None
    return mask if mask.shape == shape else np.broadcast_to(mask, shape)


def check_out(out: Array, shape: tuple[int, ...]) -> None:
    """Raise an ArgumentError if results of a shape cannot be written to `out`."""
    if out.shape != shape:
        raise ArgumentError(f"out has shape {out.shape}; allowed: {shape}")
    if not out.flags.writeable:
        raise ArgumentError("out is read-only; allowed: a writable array")


def _direct(
    out: Array,
    data: Array,
    mask: Array | None,
    axes: tuple[int, ...] | None,
    keepdims: bool,
    checked: bool,
) -> Array | None:
    """Check `out`; return it if the core can write there, else None."""
    all_axes = tuple(range(data.ndim)) if axes is None else axes
    check_out(out, reduced_shape(data.shape, all_axes, keepdims))
    direct = (
        type(out) is np.ndarray
        and out.flags.carray
        and out.dtype.isnative
        and not checked
        and not np.may_share_memory(out, data)
        and (mask is None or not np.may_share_memory(out, mask))
    )
    return out if direct else None
