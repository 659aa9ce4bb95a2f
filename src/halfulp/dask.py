"""Dask arrays: each chunk becomes exact sums, and these merge in a tree.

What does not merge, as products, is reduced in chunks that are whole along the axes.

May import arrays, element_types, errors, exact_sums, moments, reductions, spec.rules and
the native core only; dask is imported when an array of it is reduced. Nothing here knows
how a sum is computed or rounded.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from halfulp._core import reduce, spread
from halfulp.arrays import as_array, is_dask_array, is_more_than_an_array
from halfulp.element_types import BY_NAME, ElementType, data_type, widened
from halfulp.errors import ArgumentError, SumOverflowError, shown
from halfulp.exact_sums import ExactSum
from halfulp.moments import Moments
from halfulp.reductions import Finish, Reduction, Spread
from halfulp.spec.rules import check_mask

_EXTREMES = ("max", "min")  # operations whose results merge as elements do
_APART = ("product", "exponentials")  # those whose results do not merge
_NATURAL = 0  # the code of a row's result, as NumPy has it


def reduce_dask_array(
    row: Reduction | Spread,
    x: Any,
    what: str,
    axes: tuple[int, ...],
    keepdims: bool,
    result: ElementType,
    overflow: str,
    split_every: Any,
    where: Any = True,
) -> Any:
    """Return the lazy Dask array of what a Dask array is reduced to.

    Parameters
    ----------
    row : Reduction or Spread
        Of the table, or of two of its sums. Products, logarithms, and with `where`
        means, variances and extremes do not merge: a task has all elements of its
        results in memory.
    x : dask.array.Array
        Of a dtype that `halfulp.sum` takes.
    what : str
        The caller's name of `x`, for errors.
    axes : tuple of int
        Normalized.
    keepdims : bool
    result : ElementType
    overflow : {"wrap", "raise"}
        For integer results.
    split_every : int, dict of int to int, or None
        How many exact sums merge in one task, at most, as for Dask's own reductions.
    where : array_like of bool
        Which elements count, as for `halfulp.sum`; a Dask array too.

    Raises
    ------
    ArgumentError, UnsupportedTypeError
        If `split_every` or `where` is not allowed, or chunks are masked arrays.
    """
    array = importlib.import_module("dask.array")
    extreme = row if isinstance(row, Reduction) and row.operation in _EXTREMES else None
    counts = isinstance(row, Spread) or row.finish == "mean"
    _check_chunks(x, what)
    split = _split_every(split_every, max((2, *x.numblocks)), len(axes))
    kept = tuple(i for i in range(x.ndim) if keepdims or i not in axes)
    meta = np.empty((0,) * len(kept), result.dtype)
    source = data_type(x.dtype, f"{what} has dtype")
    if where is not True:
        if is_dask_array(where):
            _check_chunks(where, "where")
        else:
            where, _ = as_array(where, "where")
        check_mask(where.dtype, where.shape, x.shape)
    # How many elements count differs from result to result.
    uneven = where is not True and (counts or extreme is not None)
    if uneven or not _merges(row):
        return _in_whole_chunks(
            array, row, x, what, axes, keepdims, result, overflow, where
        )
    if extreme:
        # Sizes of integers are exact in 64 bits, and the last step makes them the result.
        sizes = source if source.kind == "float" else BY_NAME["uint64"]
        chunk = partial(_extreme, row=extreme, into=sizes, overflow="wrap")
        last = partial(_extreme, row=extreme, into=result, overflow=overflow)
        return array.reduction(
            x,
            chunk=chunk,
            combine=chunk,
            aggregate=last,
            axis=axes,
            keepdims=keepdims,
            dtype=result.dtype,
            split_every=split,
            name=row.name,
            meta=meta,
        )
    makes, finishes = _exactly(row)
    if where is not True:
        x = array.where(where, x, x.dtype.type(0))
    return array.reduction(
        x,
        chunk=partial(_chunk, type_=widened(source).name, makes=makes),
        combine=_combine,
        aggregate=partial(
            _aggregate, into=result.dtype, overflow=overflow, finishes=finishes
        ),
        axis=axes,
        keepdims=keepdims,
        dtype=result.dtype,
        split_every=split,
        concatenate=False,
        name=row.name,
        meta=meta,
    )


def _merges(row: Reduction | Spread) -> bool:
    """Tell whether what is made of chunks merges, before it is finished."""
    return isinstance(row, Spread) or (
        row.operation not in _APART and row.finish != "log"
    )


def _in_whole_chunks(
    array: Any,
    row: Reduction | Spread,
    x: Any,
    what: str,
    axes: tuple[int, ...],
    keepdims: bool,
    result: ElementType,
    overflow: str,
    where: Any,
) -> Any:
    """Reduce chunks that are made whole along the axes; arguments as above.

    Raises
    ------
    ArgumentError
        If chunks of unknown sizes would have to be joined.
    """
    joined = dict.fromkeys(axes, -1)
    try:
        whole = x.rechunk(joined)
        blocks = [whole]
        if where is not True:
            mask = array.broadcast_to(array.asarray(where), x.shape)
            blocks.append(mask.rechunk(whole.chunks))
    except ValueError as error:
        raise ArgumentError(
            f"{what} has chunks of unknown sizes along axes {axes}; allowed for "
            f"{row.name}: known ones, as from compute_chunk_sizes()"
        ) from error
    chunks = tuple((1,) if i in axes else each for i, each in enumerate(whole.chunks))
    reduced = array.map_blocks(
        partial(_whole, row=row, axes=axes, into=result, overflow=overflow),
        *blocks,
        chunks=chunks,
        dtype=result.dtype,
        meta=np.empty((0,) * x.ndim, result.dtype),
        name=None,
    )
    if keepdims:
        return reduced
    return array.squeeze(reduced, axis=axes) if axes else reduced


def _whole(
    block: Any,
    mask: Any = None,
    *,
    row: Reduction | Spread,
    axes: tuple[int, ...],
    into: ElementType,
    overflow: str,
) -> Any:
    block, _ = as_array(block, "a chunk")
    if isinstance(row, Spread):
        return spread(
            row.name, row.ddof, block, axes, True, into.code, None, mask, True, False
        )
    checked = overflow == "raise"
    code = _NATURAL if row.gives_elements else into.code
    return reduce(row.name, block, axes, True, code, checked, None, mask, True, False)


def _exactly(row: Reduction | Spread) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return what makes exact sums, of a type and a shape; and what finishes them, given
    a dtype and what becomes of overflows."""
    if isinstance(row, Spread):
        return Moments, partial(_spread, name=row.name, ddof=row.ddof)
    return partial(ExactSum, term=row.term), partial(_finish, finish=row.finish)


def _finish(total: ExactSum, into: Any, overflow: str, finish: Finish) -> Any:
    return total.result(into, overflow, finish=finish)


def _spread(total: Moments, into: Any, overflow: str, name: str, ddof: int) -> Any:
    return total.var(into, ddof=ddof) if name == "var" else total.std(into, ddof=ddof)


def _check_chunks(x: Any, what: str) -> None:
    if is_more_than_an_array(type(x._meta)):
        name = type(x._meta).__name__
        raise ArgumentError(
            f"{what} is a Dask array with chunks of {name}; allowed: plain arrays, as "
            "from map_blocks(), or dask.array.ma.filled(x, 0) where they are masked"
        )


def _split_every(given: Any, chunks: int, axes: int) -> Any:
    """Return what Dask is told for so many chunks, at most, along each of the axes.

    No more than there are chunks: Dask makes lists as long as the number.
    """
    numbers = given.values() if isinstance(given, dict) else [given]
    if given is not None and not all(isinstance(n, int) and n >= 2 for n in numbers):
        raise ArgumentError(
            f"split_every is {shown(given)}; allowed: an int of at least 2, or a dict of "
            "such by axis"
        )
    if isinstance(given, dict):
        return {axis: min(n, chunks) for axis, n in given.items()}
    # Dask takes a root of it for each axis.
    return given and min(given, chunks ** max(1, axes))


def _chunk(
    block: Any,
    axis: tuple[int, ...],
    keepdims: bool,
    type_: str,
    makes: Callable[..., Any],
    computing_meta: bool = False,
) -> Any:
    if computing_meta:
        return block
    block, _ = as_array(block, "a chunk")
    kept = tuple(n for i, n in enumerate(block.shape) if i not in axis)
    sums = makes(type_, kept)
    if block.dtype.itemsize < sums.dtype.itemsize:  # of small integers wider ones
        block = block.astype(sums.dtype)
    return sums.update(block, axis)


def _extreme(
    block: Any,
    axis: tuple[int, ...],
    keepdims: bool,
    row: Reduction,
    into: ElementType,
    overflow: str,
    computing_meta: bool = False,
) -> Any:
    if computing_meta:
        return block
    block, _ = as_array(block, "a chunk")
    checked = overflow == "raise"
    code = _NATURAL if row.gives_elements else into.code
    return reduce(row.name, block, axis, keepdims, code, checked, None, None, True, False)


def _combine(
    sums: Any, axis: tuple[int, ...], keepdims: bool, computing_meta: bool = False
) -> Any:
    if computing_meta:
        return sums.reshape(-1)[:0]  # for Dask to give it the dimensions
    first, *rest = _flat(sums)
    total = first.copy() if rest else first
    for more in rest:
        total.merge(more)
    return total


def _aggregate(
    sums: Any,
    axis: tuple[int, ...],
    keepdims: bool,
    into: np.dtype[Any],
    overflow: str,
    finishes: Callable[..., Any],
    computing_meta: bool = False,
) -> Any:
    if computing_meta:
        return sums
    total = _combine(sums, axis, keepdims)
    try:
        result = np.asarray(finishes(total, into, overflow))
    except SumOverflowError as error:
        if not total.shape:
            raise
        raise SumOverflowError(f"in a chunk of the result, {error}") from None
    return np.expand_dims(result, axis) if keepdims else result


def _flat(sums: Any) -> list[Any]:
    """Return the exact sums or moments in nested lists of them."""
    if isinstance(sums, ExactSum | Moments):
        return [sums]
    return [each for nested in sums for each in _flat(nested)]
