"""Expected bits, from the exact value, and comparison by bits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np

import halfulp
from halfulp import _core
from halfulp.conformance.bits import bits
from halfulp.conformance.bits import from_bits as from_bits
from halfulp.exact import exact, round_exact
from halfulp.reductions import SUM_SQUARE, Finish, Term

# Bits of the significand, written down again: what tests expect of the facts of formats
# should not come from where the code has them.
PRECISION = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [BFLOAT16, *map(np.dtype, ("float16", "float32", "float64"))]
INTEGERS = [*map(np.dtype, ("int32", "int64", "uint32", "uint64"))]
TYPES = FLOATS + INTEGERS
# What sum_square takes besides.
SMALL = [*map(np.dtype, ("bool", "int8", "int16", "uint8", "uint16"))]


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of sum_square's results: that of NumPy's sums."""
    native = dtype.newbyteorder("=")
    return native if native in FLOATS else np.sum(np.empty(0, native)).dtype


def expected(
    x: np.ndarray,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    keepdims: bool = False,
    term: Term = "square",
    finish: Finish = "none",
) -> np.ndarray:
    """The right result by the oracle, of `dtype` (default: that of the elements)."""
    dtype = np.dtype(dtype or x.dtype.newbyteorder("="))
    row = dataclasses.replace(SUM_SQUARE, term=term, finish=finish)
    values = exact(row, x, axis)
    result = np.empty(np.shape(values), dtype=dtype)
    for index in np.ndindex(result.shape):
        result[index] = round_exact(values[index] if result.ndim else values, dtype)
    if keepdims:
        axes = range(x.ndim) if axis is None else axis
        normal = np.lib.array_utils.normalize_axis_tuple(axes, x.ndim)
        shape = [1 if i in normal else n for i, n in enumerate(x.shape)]
        result = result.reshape(shape)
    return result


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


def assert_sum_square(want: Any, x: Any, axis: Any = None, **arguments: Any) -> None:
    """Compare sum_square with `want`, for every kernel and number of threads."""
    for target, threads in CONFIGURATIONS:
        with configuration(target, threads):
            got = halfulp.sum_square(x, axis, **arguments)
        try:
            assert_same_bits(got, want)
        except AssertionError as error:
            error.add_note(f"kernels: {target}, threads: {threads}")
            raise


def arrays(
    rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> np.ndarray:
    """An array of all magnitudes that do not overflow at once."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    scale = np.exp2(rng.integers(-8, 7, shape))
    return (rng.standard_normal(shape) * scale).astype(dtype)
