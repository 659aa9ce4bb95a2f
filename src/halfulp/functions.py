"""NumPy's face: reductions as functions of arrays, by the names that NumPy uses.

Each is a signature, its documentation and a row of the table. May import arrays,
errors, groups, numpy_face, reductions, shortcuts and spec.rules only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from halfulp.arrays import Array
from halfulp.errors import ArgumentError
from halfulp.groups import reduce_groups
from halfulp.numpy_face import extreme_as_numpy, reduce_as_numpy
from halfulp.reductions import (
    LOG_SUM_EXP,
    MAX,
    MEAN,
    MIN,
    PROD,
    SUM,
    SUM_SQUARE,
    Reduction,
    Spread,
)
from halfulp.shortcuts import with_shortcut
from halfulp.spec.rules import norm_of, spread_of


def _of_all_or_groups(
    row: Reduction,
    x: Any,
    axis: int | Sequence[int] | None,
    by: Any,
    minlength: int,
    *others: Any,
) -> Any:
    """Reduce along axes, or with `by` groups along one."""
    if by is not None:
        return reduce_groups(row, x, axis, by, minlength, *others)
    if minlength != 0:
        raise ArgumentError("minlength is given without by; allowed: with by")
    return reduce_as_numpy(row, x, axis, *others)


@with_shortcut("numpy", SUM)
def sum(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    where: Any = True,
    overflow: str = "wrap",
    split_every: int | dict[int, int] | None = None,
    by: Any = None,
    minlength: int = 0,
) -> Any:
    """Sum along axes, correctly rounded.

    Parameters
    ----------
    x : array_like
        Of dtype bfloat16 (of ml_dtypes), float16, float32, float64, int32,
        int64, uint32, uint64, or of the small ones bool, int8, int16, uint8 and
        uint16; of any shape, strides, alignment and byte order. Objects with
        ``__dlpack__`` on the CPU are read in place. A Dask array of any chunks gives
        a lazy one. What has labels keeps those of the axes
        that are left: an xarray DataArray or Variable, lazy ones too, and a pandas
        Series or DataFrame of one of the dtypes. Of a numpy.ma.MaskedArray what is
        masked does not count, and results of nothing are masked, as in its own sum.
        Objects that mean more than their elements in another way (units, sparsity)
        are refused.
    axis : int or tuple of int, optional
        The axes to reduce; None means all. ``()`` reduces each element alone.
    dtype : dtype, optional
        Of the result, none of the small ones; for floats a float type. Default: that
        of `out`, else as in NumPy that of `x`, and for all integers int64, or uint64
        if they are unsigned.
    out : numpy.ndarray, optional
        Where the result goes: any array of its shape and dtype, `x` included. Not
        with Dask arrays, labels and masked arrays.
    keepdims : bool, optional
        Whether reduced axes stay, with length one. Not with pandas.
    where : array_like of bool, optional
        Which elements count: of a shape that broadcasts to that of `x`, of any strides.
        Others may be whatever they are, NaN too. Not with masked arrays; a Dask array
        with Dask arrays only.
    overflow : {"wrap", "raise"}, optional
        What happens when an integer result does not fit its dtype. Floats
        overflow to infinity, as IEEE 754 has it.
    split_every : int or dict of int to int, optional
        For Dask arrays only: how many partial sums merge at once, in all or for each
        axis, as in Dask's own reductions. The result does not depend on it.
    by : array_like of int, optional
        For sums of groups: the group of each element along `axis`, an int (None where `x`
        has one axis), as ``numpy.unique(..., return_inverse=True)[1]`` and
        ``pandas.factorize`` give them: 0 and up, in any order, or -1 for what counts
        nowhere. The axis then stays, an element for each group. Not with `keepdims`, nor
        with Dask arrays, labels and masked arrays.
    minlength : int, optional
        With `by`: how many groups there are at least, as in numpy.bincount; else one more
        than the greatest code. Groups without elements are those of empty sums.

    Returns
    -------
    numpy.ndarray, numpy scalar or array of the library of `x`
        A scalar where NumPy would return one: all axes are reduced, without
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
    Floats: the exact sum, rounded once, to nearest, ties to even (IEEE 754-2019,
    4.3.1): within half an ulp, the same bits for every layout, order, number of threads
    and processor. No partial sum overflows. Any NaN, or infinities of both signs, give
    the canonical quiet NaN, else infinities themselves. A sum that is exactly zero is
    +0. Integers: exact modulo 2^N, or with a float `dtype` the exact sum rounded once.
    An empty sum is 0.

    Neither `x` nor `where` is copied, whatever its layout; scratch memory is at most
    1 MiB (and 64 KiB for each thread above 16). One more array like the result
    is needed when `out` is not C-contiguous, overlaps an input, or `overflow` is
    "raise", and in the main thread for some 4 million elements and more: such a
    call is interrupted by Ctrl-C within half a second, and leaves `out` as it was. Groups
    take 32 bytes for each result, of which those that are hard to round are summed again
    in up to as many, and 64 MiB more; the bits are those of each group alone.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.sum(np.array([[1, 2], [3, 4]]), axis=1)
    array([3, 7])
    >>> x = np.array([1e16, 1, -1e16])
    >>> halfulp.sum(x), np.sum(x)
    (np.float64(1.0), np.float64(0.0))
    >>> half = np.array([60000, 60000, -60000], dtype=np.float16)
    >>> halfulp.sum(half), halfulp.sum(half[:2]), halfulp.sum(half[:2], dtype=np.float32)
    (np.float16(6e+04), np.float16(inf), np.float32(120000.0))
    >>> halfulp.sum([[1.0, np.nan], [3.0, 4.0]], axis=1, where=[[True, False]])
    array([1., 3.])
    >>> names, codes = np.unique(["a", "b", "a", "a"], return_inverse=True)
    >>> halfulp.sum(np.array([1e16, 5, 1, -1e16]), by=codes)
    array([1., 5.])
    """
    return _of_all_or_groups(
        SUM, x, axis, by, minlength, dtype, out, keepdims, where, overflow, split_every
    )


@with_shortcut("numpy", MEAN)
def mean(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    where: Any = True,
    overflow: str = "wrap",
    split_every: int | dict[int, int] | None = None,
    by: Any = None,
    minlength: int = 0,
) -> Any:
    """Arithmetic mean along axes, correctly rounded.

    Parameters
    ----------
    x : array_like
        As for `sum`.
    axis : int or tuple of int, optional
        The axes to reduce; None means all.
    dtype : dtype, optional
        As for `sum`; of integers the default is float64, as in NumPy.
    out, keepdims, where, overflow, split_every, by, minlength : optional
        As for `sum`. What is divided by is the number of elements that count; so with
        `where`, a task has all elements of its results of a Dask array in memory.

    Returns
    -------
    numpy.ndarray, numpy scalar or array of the library of `x`
        As of `sum`.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError, SumOverflowError
        As `sum` does.

    Notes
    -----
    The exact sum divided by the number of elements, rounded once: no sum overflows or
    is rounded on the way. With an integer `dtype` it is cut toward zero. The mean of
    nothing is NaN, or 0 where it is an integer; NaN and infinities are as in `sum`.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> x = np.full((2**20, 2), 0.1, np.float32)
    >>> halfulp.mean(x, axis=0), np.mean(x, axis=0)
    (array([0.1, 0.1], dtype=float32), array([0.10098633, 0.10098633], dtype=float32))
    >>> halfulp.mean(np.float32([3e38, 3e38]))
    np.float32(3e+38)
    >>> halfulp.mean(np.array([[1, 2], [3, 5]]), axis=1)
    array([1.5, 4. ])
    """
    return _of_all_or_groups(
        MEAN, x, axis, by, minlength, dtype, out, keepdims, where, overflow, split_every
    )


@with_shortcut("numpy", Spread("var", 0))
def var(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = True,
    split_every: int | dict[int, int] | None = None,
) -> Any:
    """Variance along axes, correctly rounded.

    Parameters
    ----------
    x : array_like
        As for `sum`.
    axis : int or tuple of int, optional
        The axes to reduce; None means all.
    dtype : dtype, optional
        Of the result, a float type. Default: that of `out`, else that of `x`, and
        float64 for integers, as in NumPy.
    out, keepdims, where, split_every : optional
        As for `mean`.
    ddof : int, optional
        The sum of squared differences from the mean is divided by ``n - ddof``, for n
        elements that count: 1 gives the unbiased estimate. At most 2**53 in size.

    Returns
    -------
    numpy.ndarray, numpy scalar or array of the library of `x`
        As of `sum`.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        As `sum` does.

    Notes
    -----
    The exact variance, rounded once: neither the mean nor a difference or its square is
    rounded, overflows or underflows on the way, and no array of differences is made. Of
    equal elements it is +0. It is NaN where ``n - ddof`` is not above 0, and where any
    element is NaN or infinite; in a masked array such results are masked, as in NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> x = np.full((100000, 2), 0.1, np.float32)
    >>> halfulp.var(x, axis=0), np.std(x, axis=0).round(6)
    (array([0., 0.], dtype=float32), array([1.4e-05, 1.4e-05], dtype=float32))
    >>> halfulp.var([1, 2, 3, 4], ddof=1)
    np.float64(1.6666666666666667)
    >>> x = np.float64([1e200, -1e200, 1])
    >>> halfulp.var(x), halfulp.std(x)
    (np.float64(inf), np.float64(8.16496580927726e+199))
    """
    row = spread_of("var", ddof)
    return reduce_as_numpy(
        row, x, axis, dtype, out, keepdims, where, split_every=split_every
    )


@with_shortcut("numpy", Spread("std", 0))
def std(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = True,
    split_every: int | dict[int, int] | None = None,
) -> Any:
    """Standard deviation along axes, correctly rounded.

    Parameters
    ----------
    x : array_like
        As for `sum`.
    axis : int or tuple of int, optional
        The axes to reduce; None means all.
    dtype, out, ddof, keepdims, where, split_every : optional
        As for `var`.

    Returns
    -------
    numpy.ndarray, numpy scalar or array of the library of `x`
        As of `sum`.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        As `sum` does.

    Notes
    -----
    The root of the exact variance, rounded once; otherwise as `var`.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.std([[1, 3], [5, 5]], axis=1)
    array([1., 0.])
    >>> x = np.float16([300, 900])
    >>> halfulp.std(x), halfulp.var(x)
    (np.float16(300.0), np.float16(inf))
    """
    row = spread_of("std", ddof)
    return reduce_as_numpy(
        row, x, axis, dtype, out, keepdims, where, split_every=split_every
    )


@with_shortcut("numpy", MAX)
def max(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    out: Array | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
    split_every: int | dict[int, int] | None = None,
) -> Any:
    """Greatest element along axes.

    Parameters
    ----------
    x : array_like
        As for `sum`.
    axis : int or tuple of int, optional
        The axes to reduce; None means all.
    out : numpy.ndarray, optional
        Where the result goes: any array of its shape and the dtype of `x`, `x` included.
        Not with Dask arrays, labels and masked arrays.
    keepdims : bool, optional
        Whether reduced axes stay, with length one. Not with pandas.
    initial : scalar, optional
        One element more of each set, and what is left of an empty one: a number, for
        integers one that their dtype has. Not with Dask arrays, labels and masked arrays.
    where : array_like of bool, optional
        Which elements count: of a shape that broadcasts to that of `x`, of any strides.
        As in NumPy with `initial` only.
    split_every : int or dict of int to int, optional
        As for `sum`.

    Returns
    -------
    numpy.ndarray, numpy scalar or array of the library of `x`
        Of the dtype of `x`, bool and small integers too; otherwise as of `sum`.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed. As in NumPy also if a set is empty
        and there is no `initial`.

    Notes
    -----
    Any NaN, wherever it stands, gives the canonical quiet NaN; -0 is below +0. The same
    bits for every layout, order, number of threads and processor. Neither `x` nor `where`
    is copied; scratch memory and interrupts are as in `sum`.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.max(np.array([[1, 5], [3, 4]]), axis=1)
    array([5, 4])
    >>> halfulp.max(np.float32([1, np.nan, 2])), halfulp.max([-0.0, 0.0, -1.0])
    (np.float32(nan), np.float64(0.0))
    >>> halfulp.max(np.int8([-3, -7]), initial=0)
    np.int8(0)
    """
    return extreme_as_numpy(MAX, x, axis, out, keepdims, initial, where, split_every)


@with_shortcut("numpy", MIN)
def min(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    out: Array | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
    split_every: int | dict[int, int] | None = None,
) -> Any:
    """Least element along axes.

    Parameters
    ----------
    x, axis, out, keepdims, initial, where, split_every
        As for `max`.

    Returns
    -------
    numpy.ndarray, numpy scalar or array of the library of `x`
        As of `max`.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        As `max` does.

    Notes
    -----
    As `max`: any NaN gives the canonical quiet NaN, and -0 is below +0.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.min(np.array([[1, 5], [3, 4]]), axis=1)
    array([1, 3])
    >>> halfulp.min([0.0, -0.0, 1.0])
    np.float64(-0.0)
    >>> halfulp.min(np.array([True, False, True]))
    np.False_
    """
    return extreme_as_numpy(MIN, x, axis, out, keepdims, initial, where, split_every)


@with_shortcut("numpy")
def vector_norm(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    ord: float = 2,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    where: Any = True,
    overflow: str = "wrap",
    split_every: int | dict[int, int] | None = None,
    by: Any = None,
    minlength: int = 0,
) -> Any:
    """Norm of vectors along axes, correctly rounded.

    Parameters
    ----------
    x : array_like
        As for `sum`.
    axis : int or tuple of int, optional
        The axes over which a vector is; None means all. ``()`` gives magnitudes.
    ord : {1, 2, inf, -inf}, optional
        Which norm: 1 is the sum of magnitudes, 2 the root of the sum of squares, inf the
        greatest magnitude and -inf the least.
    dtype : dtype, optional
        As for `sum`; of integers the default is float64, as in NumPy.
    out, keepdims, where, overflow, split_every : optional
        As for `sum`.

    Returns
    -------
    numpy.ndarray, numpy scalar or array of the library of `x`
        As of `sum`.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError, SumOverflowError
        As `sum` does.

    Notes
    -----
    The exact norm, rounded once: no square overflows or underflows on the way. Roots
    with an integer `dtype` are rounded down. Any NaN gives the canonical quiet NaN,
    else the norms 1, 2 and inf give infinity where any element is. The norm of nothing is
    0, that of ord -inf the greatest magnitude that elements can have, inf of floats.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> x = np.float32([3e-30, 4e-30])
    >>> halfulp.vector_norm(x), np.linalg.vector_norm(x)
    (np.float32(5e-30), np.float32(0.0))
    >>> halfulp.vector_norm(np.array([[3, -4], [5, -12]]), axis=1)
    array([ 5., 13.])
    >>> halfulp.vector_norm(np.float16([3, -4]), ord=1)
    np.float16(7.0)
    >>> halfulp.vector_norm(np.int8([3, -128]), ord=np.inf)
    np.float64(128.0)
    """
    return _of_all_or_groups(
        norm_of(ord),
        x,
        axis,
        by,
        minlength,
        dtype,
        out,
        keepdims,
        where,
        overflow,
        split_every,
    )


@with_shortcut("numpy", PROD)
def prod(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    where: Any = True,
    overflow: str = "wrap",
) -> Any:
    """Product along axes, correctly rounded.

    Parameters
    ----------
    x : array_like
        As for `sum`, but no Dask array.
    axis : int or tuple of int, optional
        The axes to reduce; None means all.
    dtype, out, keepdims, where, overflow : optional
        As for `sum`.

    Returns
    -------
    numpy.ndarray, numpy scalar or array of the library of `x`
        As of `sum`.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError, SumOverflowError
        As `sum` does.

    Notes
    -----
    Floats: the exact product, rounded once, to nearest, ties to even: the same bits for
    every layout, order, number of threads and processor. Whatever leaves the range on the
    way comes back. The sign is the parity of the negative signs, of zeros and infinities
    too. Any NaN, or an infinity and a zero, give the canonical quiet NaN. Integers: exact
    modulo 2^N, or with a float `dtype` the exact product rounded once. An empty product
    is 1. There is no `initial`: multiply one more element.

    Memory and interruption are as of `sum`. Products that lie far nearer to the middle of
    two numbers than 2^-100 take longer: they are multiplied in as many digits as tell.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> x = np.float64([2.0**-700, 2.0**-700, 2.0**700, 2.0**700])
    >>> halfulp.prod(x), np.prod(x)
    (np.float64(1.0), np.float64(0.0))
    >>> halfulp.prod(np.array([[1, 2], [3, 4]]), axis=1)
    array([ 2, 12])
    >>> halfulp.prod(np.arange(1, 31), dtype=np.float64)
    np.float64(2.6525285981219107e+32)
    """
    return reduce_as_numpy(PROD, x, axis, dtype, out, keepdims, where, overflow)


@with_shortcut("numpy", SUM_SQUARE)
def sum_square(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    where: Any = True,
    overflow: str = "wrap",
    split_every: int | dict[int, int] | None = None,
    by: Any = None,
    minlength: int = 0,
) -> Any:
    """Sum of squares along axes, correctly rounded.

    Parameters
    ----------
    x : array_like
        As for `sum`.
    axis : int or tuple of int, optional
        The axes to reduce; None means all. ``()`` squares each element.
    dtype, out, keepdims, where, overflow, split_every : optional
        As for `sum`.

    Returns
    -------
    numpy.ndarray, numpy scalar or array of the library of `x`
        As of `sum`.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError, SumOverflowError
        As `sum` does.

    Notes
    -----
    Floats: the exact sum of the exact squares, rounded once, as in `sum`. Any NaN gives
    the canonical quiet NaN, else any infinity gives infinity. Integers: exact modulo
    2^N, or with a float `dtype` the exact sum rounded once. An empty sum is 0.

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
    >>> halfulp.sum_square([[1.0, np.nan], [3.0, 4.0]], axis=1, where=[[True, False]])
    array([1., 9.])
    >>> pixels = np.full((100, 100), 255, np.uint8)
    >>> halfulp.sum_square(pixels), halfulp.sum_square(pixels, dtype=np.float32)
    (np.uint64(650250000), np.float32(6.5025e+08))
    """
    return _of_all_or_groups(
        SUM_SQUARE,
        x,
        axis,
        by,
        minlength,
        dtype,
        out,
        keepdims,
        where,
        overflow,
        split_every,
    )


@with_shortcut("numpy", LOG_SUM_EXP)
def logsumexp(
    a: Any,
    axis: int | Sequence[int] | None = None,
    *,
    keepdims: bool = False,
    dtype: npt.DTypeLike | None = None,
) -> Any:
    """Logarithm of the sum of exponentials along axes, correctly rounded.

    Parameters
    ----------
    a : array_like
        As for `sum`, but no masked array. Of a Dask array, a task has all elements of
        its results in memory.
    axis : int or tuple of int, optional
        The axes to reduce; None means all.
    keepdims : bool, optional
        Whether reduced axes stay, with length one. Not with pandas.
    dtype : dtype, optional
        Of the result, a float type. Default: that of `a`, and float64 for integers.

    Returns
    -------
    numpy.ndarray, numpy scalar or array of the library of `a`
        A scalar where NumPy would return one.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.

    Notes
    -----
    log(exp(a0) + exp(a1) + ...), the exact value rounded once, to nearest, ties to even;
    the same bits for every layout, order, number of threads and processor. No element is
    too large or too small. One element gives itself, but -0 gives +0. Elements that are
    -inf add nothing; of these alone, and of nothing, the result is -inf. +inf gives +inf,
    any NaN the canonical quiet NaN.

    SciPy's function of this name has two arguments more: weights `b`, for which the
    exact value is not computed here, and `return_sign`, which says nothing without them.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.logsumexp([1000.0, 1000.0])
    np.float64(1000.6931471805599)
    >>> halfulp.logsumexp(np.float32([[0, -50], [1e38, -np.inf]]), axis=1)
    array([1.9287499e-22, 9.9999997e+37], dtype=float32)
    """
    return reduce_as_numpy(LOG_SUM_EXP, a, axis, dtype, None, keepdims)
