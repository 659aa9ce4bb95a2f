"""What the arrays of cells hold: ordinary values, or such as are hard to sum.

May import element_types and reductions only. The same arguments give the same values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp.element_types import ElementType
from halfulp.reductions import Reduction

Array = npt.NDArray[Any]

# Random values of one block again and again. A prime: else rows of a cell would be alike,
# and the sums of their columns ties far more often than those of other data.
_BLOCK = 999_983
# Rows that are hard to make are few, again and again.
_ROWS = 256
_SEED = 20180618


def ordinary(size: int, element: ElementType) -> Array:
    """Return normal values, or small integers."""
    rng = np.random.default_rng(_SEED)
    if element.kind == "float":
        block = rng.standard_normal(min(size, _BLOCK)).astype(element.dtype)
    else:
        least = 0 if element.name.startswith("u") else -100
        block = rng.integers(least, 101, min(size, _BLOCK)).astype(element.dtype)
    flat = np.empty(size, element.dtype)
    for start in range(0, size, _BLOCK):
        flat[start : start + _BLOCK] = block[: size - start]
    return flat


def hard_rows(
    kind: str, shape: tuple[int, int], element: ElementType, reduction: Reduction
) -> Array:
    """Return rows of floats, of which each has a result that is hard to round.

    Parameters
    ----------
    kind : {"ties", "zeros", "cancel"}
        Results in the middle between two values of the type; results that are zero;
        sums of values that cancel, all but a unit in the last place of one.
    shape : tuple of int
        Rows, and elements of a row: for ties of means a power of two.
    element : ElementType
    reduction : Reduction
    """
    count, length = shape
    distinct = (min(count, _ROWS), length)
    rows = _KINDS[kind](distinct, element, reduction).astype(element.dtype, copy=False)
    return np.resize(rows, shape)


def _ties(shape: tuple[int, int], element: ElementType, reduction: Reduction) -> Array:
    rng = np.random.default_rng(_SEED)
    if reduction.term != "square":
        rows = _tied_sums(rng, shape, element.precision)
    elif reduction.finish == "root":
        return _tied_roots(rng, shape, element.precision)
    else:
        rows = _tied_squares(rng, shape, element.precision)
    return rows if reduction.term == "value" else rows * rng.choice([-1, 1], shape)


def _tied_sums(rng: np.random.Generator, shape: tuple[int, int], p: int) -> Array:
    """Rows of integers that are not negative, whose sums are odd in [2^p, 2^(p+1)).

    Between values of p bits, two apart there, an odd integer is in the middle; so is its
    mean over 2^k elements.
    """
    count, length = shape
    sums = rng.integers(5 << p - 3, 7 << p - 3, count) * 2 + 1
    return rng.multinomial(sums, np.full(length, 1 / length))


def _tied_squares(rng: np.random.Generator, shape: tuple[int, int], p: int) -> Array:
    """Rows of integers whose sums of squares are odd in [2^p, 2^(p+1)).

    With magnitudes within an eighth of r, r^2 * length = 1.5 * 2^p, the sum is between
    1.14 and 1.9 times 2^p. The last element sets the parity. Where r is 0, an odd number
    of elements is 1.
    """
    _, length = shape
    r = math.isqrt((3 << p) // (2 * length))
    if r == 0:
        return (rng.random(shape).argsort(axis=1) <= 3 << p - 1).astype(np.int64)
    rows = rng.integers(r - r // 8, r + r // 8 + 1, shape)
    even = np.count_nonzero(rows % 2, axis=1) % 2 == 0
    rows[:, -1] ^= even
    return rows


def _tied_roots(rng: np.random.Generator, shape: tuple[int, int], p: int) -> Array:
    """Rows of integers whose sums of squares are those of odd integers of p + 1 bits.

    For integers v the vector |v|^2 e - 2 (v e) v is the unit vector e reflected, times
    |v|^2: its norm is |v|^2. An odd factor brings that near 1.5 * 2^p. With v e near half
    of |v| the elements are of a size, and below 2^p.
    """
    _, length = shape
    squares = min(2 * length, 3 << p >> 2)
    present = rng.random(shape) < squares / (2 * length)
    v = rng.integers(-2, 3, shape) * present
    v[:, 0] = 0
    rest = np.sum(v * v, axis=1)
    first = np.round(np.sqrt(rest)).astype(np.int64)
    first += (rest + first) % 2 == 0
    v[:, 0] = first
    norms = rest + first * first
    factors = (3 << p - 1) // norms // 2 * 2 + 1
    rows = -2 * first[:, None] * v
    rows[:, 0] += norms
    made: Array = rows * factors[:, None]
    return made


def _zeros(shape: tuple[int, int], element: ElementType, reduction: Reduction) -> Array:
    """Rows of values and of their negatives, mirrored; or zeros of both signs."""
    count, length = shape
    if reduction.term != "value":
        return np.where(np.arange(length) % 3, 0.0, -0.0) * np.ones(shape)
    half = ordinary(count * (length // 2), element).reshape(count, -1)
    middle = np.zeros((count, length % 2), element.dtype)
    return np.concatenate((half, middle, -half[:, ::-1]), axis=1)


def _cancels(shape: tuple[int, int], element: ElementType, reduction: Reduction) -> Array:
    rows: Array = _zeros(shape, element, reduction)
    bits = rows.view(f"u{rows.itemsize}")
    bits[:, 0] += 1
    return rows


_KINDS: dict[str, Callable[[tuple[int, int], ElementType, Reduction], Array]] = {
    "ties": _ties,
    "zeros": _zeros,
    "cancel": _cancels,
}
