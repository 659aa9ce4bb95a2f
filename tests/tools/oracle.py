"""Expected bits, from the exact value, and comparison by bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

import halfulp
from halfulp import _core
from halfulp.conformance.bits import bits
from halfulp.conformance.bits import from_bits as from_bits
from halfulp.exact import FINISHES, exact, round_exact
from halfulp.reductions import SUM_SQUARE, SUMS, Finish, Reduction, Term

# Bits of the significand, written down again: what tests expect of the facts of formats
# should not come from where the code has them.
PRECISION = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [BFLOAT16, *map(np.dtype, ("float16", "float32", "float64"))]
INTEGERS = [*map(np.dtype, ("int32", "int64", "uint32", "uint64"))]
TYPES = FLOATS + INTEGERS
# What NumPy's face takes besides.
SMALL = [*map(np.dtype, ("bool", "int8", "int16", "uint8", "uint16"))]


def function_of(row: Reduction) -> Callable[..., Any]:
    """The function with NumPy's face that reduces by a row."""
    if row.ord is None:
        function: Callable[..., Any] = getattr(halfulp, row.name)
        return function
    return partial(halfulp.vector_norm, ord=row.ord)


def exact_function_of(row: Reduction) -> Callable[..., Any]:
    """The function that reduces exactly by a row."""
    if row.ord is None:
        function: Callable[..., Any] = getattr(halfulp, f"exact_{row.name}")
        return function
    return partial(halfulp.exact_norm, ord=row.ord)


def numpys(row: Reduction, x: np.ndarray, **arguments: Any) -> Any:
    """What NumPy gives, of elements whose terms and sums it rounds nowhere."""
    if row.finish == "mean":
        return np.mean(x, **arguments)
    if row.ord is not None:
        return np.linalg.vector_norm(x, ord=row.ord, **arguments)
    terms = np.square(x, dtype=sum_dtype(x.dtype)) if row.term == "square" else x
    return np.sum(terms, **arguments)


def result_dtype(row: Reduction, dtype: np.dtype) -> np.dtype:
    """The dtype of a row's results, if no other is asked for: that of NumPy's."""
    native = dtype.newbyteorder("=")
    return native if native in FLOATS else numpys(row, np.ones(1, native)).dtype


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of sums: that of NumPy's."""
    native = dtype.newbyteorder("=")
    return native if native in FLOATS else np.sum(np.empty(0, native)).dtype


def expected(
    x: np.ndarray,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    keepdims: bool = False,
    term: Term = "square",
    finish: Finish = "none",
    where: Any = True,
) -> np.ndarray:
    """The right result by the oracle, of `dtype` (default: that of the elements)."""
    dtype = np.dtype(dtype or x.dtype.newbyteorder("="))
    axes = tuple(range(x.ndim)) if axis is None else axis
    axes = np.lib.array_utils.normalize_axis_tuple(axes, x.ndim)
    counts: Any = math.prod(x.shape[i] for i in axes)
    if where is not True:  # a zero more changes no sum
        where = np.broadcast_to(np.asarray(where), x.shape)
        counts = np.asarray(np.sum(where, axes, dtype=int))
        x = np.where(where, x, x.dtype.type(0))
    totals = np.asarray(exact(replace(SUM_SQUARE, term=term), x, axes), object)
    result = np.empty(totals.shape, dtype)
    for index in np.ndindex(result.shape):
        n = counts if where is True else int(counts[index])
        value = FINISHES[finish](totals[index], n)
        result[index] = round_exact(value, dtype)
    if keepdims:
        shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
        result = result.reshape(shape)
    return result


def expected_of(
    row: Reduction,
    x: np.ndarray,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    keepdims: bool = False,
    where: Any = True,
) -> np.ndarray:
    """What a row's function should give; by default of the dtype that NumPy gives."""
    dtype = dtype or result_dtype(row, x.dtype)
    if row in SUMS:
        return expected(x, axis, dtype, keepdims, row.term, row.finish, where)
    if row.gives_elements:
        return extreme(x, axis, keepdims, row.operation == "max")
    axes = tuple(range(x.ndim)) if axis is None else axis
    values = exact(row, x, axes, keepdims=keepdims)
    if not isinstance(values, np.ndarray):
        return np.array(round_exact(values, dtype))
    rounded = [round_exact(value, dtype) for value in values.flat]
    return np.array(rounded, dtype).reshape(values.shape)


def extreme(
    x: np.ndarray,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    greatest: bool = True,
) -> np.ndarray:
    """The greatest or least element: NaN from any place, -0 below +0, of nothing the
    neutral one."""
    native = x.dtype.newbyteorder("=")
    x = x.astype(native)
    axes = tuple(range(x.ndim)) if axis is None else axis
    axes = np.lib.array_utils.normalize_axis_tuple(axes, x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    shape = [x.shape[i] for i in kept]
    rows = x.transpose(*kept, *axes).reshape(*shape, math.prod(x.shape[i] for i in axes))
    result = np.empty(shape, native)
    for index in np.ndindex(*shape):
        result[index] = _extreme_of(rows[index], greatest)
    if keepdims:
        result = result.reshape([1 if i in axes else n for i, n in enumerate(x.shape)])
    return result


def _extreme_of(x: np.ndarray, greatest: bool) -> Any:
    values = [(float(v), v) for v in x] if x.dtype in FLOATS else [(int(v), v) for v in x]
    if any(number != number for number, _ in values):
        return np.nan
    if not values and x.dtype in FLOATS:
        return -np.inf if greatest else np.inf
    if not values and x.dtype == bool:
        return not greatest
    if not values:
        return np.iinfo(x.dtype).min if greatest else np.iinfo(x.dtype).max
    ordered = sorted(values, key=lambda each: (each[0], math.copysign(1, each[0])))
    return ordered[-1 if greatest else 0][1]


def expected_sum_square(
    x: np.ndarray,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    keepdims: bool = False,
) -> np.ndarray:
    """What sum_square should give: as `expected`, by default of the dtype of sums."""
    return expected(x, axis, dtype or sum_dtype(x.dtype), keepdims)


def assert_same_bits(got: Any, want: Any) -> None:
    """Compare dtype, shape and every bit."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    different = np.argwhere(bits(got) != bits(want))
    assert len(different) == 0, (
        f"{len(different)} of {got.size} differ, first at {tuple(different[0])}: "
        f"got {got[tuple(different[0])]!r}, want {want[tuple(different[0])]!r}"
    )


# Every instruction set that this processor can run, and every number of threads.
CONFIGURATIONS = [(t, n) for t in _core.target_names() for n in (1, 2, 4, 7)]


@contextmanager
def configuration(target: str, threads: int) -> Iterator[None]:
    """Run kernels of `target` on `threads` threads, however small the work."""
    _core.choose_target(target)
    _core.set_bytes_per_thread(1)
    try:
        with halfulp.num_threads(threads):
            yield
    finally:
        _core.choose_target(None)
        _core.set_bytes_per_thread(0)


def some_configurations(rng: np.random.Generator) -> list[tuple[str, int]]:
    """Every instruction set, each with a number of threads by chance."""
    return [(t, int(rng.choice((1, 2, 4, 7)))) for t in _core.target_names()]


def assert_reduced(
    row: Reduction,
    want: Any,
    x: Any,
    axis: Any = None,
    configurations: Iterable[tuple[str, int]] = CONFIGURATIONS,
    **arguments: Any,
) -> None:
    """Compare what a row's function gives with `want`, in every configuration."""
    function = function_of(row)
    for target, threads in configurations:
        with configuration(target, threads):
            got = function(x, axis, **arguments)
        try:
            assert_same_bits(got, want)
        except AssertionError as error:
            error.add_note(f"{row.name}, kernels: {target}, threads: {threads}")
            raise


def assert_sum_square(want: Any, x: Any, axis: Any = None, **arguments: Any) -> None:
    """Compare sum_square with `want`, for every kernel and number of threads."""
    assert_reduced(SUM_SQUARE, want, x, axis, **arguments)


def arrays(
    rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> np.ndarray:
    """An array of all magnitudes that do not overflow at once."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    scale = np.exp2(rng.integers(-8, 7, shape))
    return (rng.standard_normal(shape) * scale).astype(dtype)
