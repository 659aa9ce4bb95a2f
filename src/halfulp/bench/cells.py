"""The cells of the benchmark: which arrays, reduced along which axes.

May import element_types and errors only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp.element_types import ELEMENT_TYPES, ElementType

Array = npt.NDArray[Any]

TYPES = {t.numpy_name: t for t in ELEMENT_TYPES}

# Random values of one block again and again. A prime: else rows of a cell would be alike,
# and the sums of their columns ties far more often than those of other data.
_BLOCK = 999_983
_SEED = 20180618
_TYPES_OF_TIES = ("float32", "float64")

# How an array lies in a buffer of C-contiguous memory.
_LAYOUTS: dict[str, Callable[[Array, tuple[int, ...]], Array]] = {
    "C": lambda flat, shape: flat.reshape(shape),
    "Fortran": lambda flat, shape: flat.reshape(shape[::-1]).T,
    "every second": lambda flat, shape: flat[::2],
    "reversed": lambda flat, shape: flat[::-1],
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One reduction to measure, of every type in `types`.

    Attributes
    ----------
    name : str
        As on the command line.
    what : str
        Shape and axes, for people.
    shape : tuple of int
        Of the memory: "every second" takes half of its elements.
    axes : tuple of int, optional
        None means all.
    layout : str
        How the array lies in its memory: a key of the table of layouts.
    nbytes : int, optional
        The size of a flat array, instead of its `shape`.
    ties : bool
        Whether every sum is an exact tie between two values of the type.
    update : bool
        Whether a `halfulp.SumSquare` is updated, and nothing rounded.
    types : tuple of str
    """

    name: str
    what: str
    shape: tuple[int, ...] = ()
    axes: tuple[int, ...] | None = None
    layout: str = "C"
    nbytes: int | None = None
    ties: bool = False
    update: bool = False
    types: tuple[str, ...] = tuple(TYPES)

    def memory_shape(self, element: ElementType) -> tuple[int, ...]:
        """Return the shape of the memory of an array of a type."""
        if self.nbytes is None:
            return self.shape
        return (self.nbytes // element.dtype.itemsize,)

    def bytes_touched(self, element: ElementType) -> int:
        """Return the bytes of memory that one call passes over."""
        return math.prod(self.memory_shape(element)) * element.dtype.itemsize

    def build(self, element: ElementType) -> Array:
        """Return the array of a type, the same whenever it is built."""
        shape = self.memory_shape(element)
        if self.ties:
            assert self.axes is not None
            values = _tied_rows(shape[self.axes[0]], math.prod(shape), element)
            flat = (values if self.axes == (1,) else values.T).ravel()
        else:
            flat = _ordinary(math.prod(shape), element)
        return _LAYOUTS[self.layout](flat, shape)


def _ordinary(size: int, element: ElementType) -> Array:
    """Normal values, or small integers; one random block again and again."""
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


def _tied_rows(length: int, size: int, element: ElementType) -> Array:
    """Rows of integers whose sums of squares are odd, of one bit more than fits.

    The type has p bits; a sum in [2^p, 2^(p+1)) lies between two values of the
    type two apart, and an odd sum in their middle. With magnitudes within an
    eighth of r, r^2 * length = 1.5 * 2^p, the sum is between 1.14 and 1.9 times
    2^p. The last element sets the parity.
    """
    rng = np.random.default_rng(_SEED)
    r = math.isqrt((3 << element.precision) // (2 * length))
    rows = rng.integers(r - r // 8, r + r // 8 + 1, (size // length, length))
    even = np.count_nonzero(rows % 2, axis=1) % 2 == 0
    rows[:, -1] ^= even
    rows *= rng.choice([-1, 1], rows.shape)
    return rows.astype(element.dtype)


_SQUARE = (4096, 4096)
_FLAT = (1 << 24,)

CELLS = {
    cell.name: cell
    for cell in (
        Cell("flat", "2^24 elements", _FLAT),
        Cell("rows", "(4096, 4096) axis 1", _SQUARE, (1,)),
        Cell("columns", "(4096, 4096) axis 0", _SQUARE, (0,)),
        Cell("middle", "(64, 256, 1024) axis 1", (64, 256, 1024), (1,)),
        Cell(
            "channels", "(16, 64, 128, 128) axes 0, 2, 3", (16, 64, 128, 128), (0, 2, 3)
        ),
        Cell("short-rows", "(2^20, 16) axis 1", (1 << 20, 16), (1,)),
        Cell("few-rows", "(16, 2^20) axis 0", (16, 1 << 20), (0,)),
        Cell("fortran-0", "(4096, 4096) Fortran order, axis 0", _SQUARE, (0,), "Fortran"),
        Cell("fortran-1", "(4096, 4096) Fortran order, axis 1", _SQUARE, (1,), "Fortran"),
        Cell("strided", "every second of 2^24 elements", _FLAT, layout="every second"),
        Cell("reversed", "2^24 elements backwards", _FLAT, layout="reversed"),
        Cell("small", "64 elements", (64,)),
        Cell("1MiB", "1 MiB", nbytes=1 << 20),
        Cell("1GiB", "1 GiB", nbytes=1 << 30),
        Cell(
            "ties-rows",
            "(4096, 4096) axis 1, all sums ties",
            _SQUARE,
            (1,),
            ties=True,
            types=_TYPES_OF_TIES,
        ),
        Cell(
            "ties-columns",
            "(4096, 4096) axis 0, all sums ties",
            _SQUARE,
            (0,),
            ties=True,
            types=_TYPES_OF_TIES,
        ),
        Cell("update-flat", "SumSquare.update: 2^24 elements", _FLAT, update=True),
        Cell(
            "update-axis-0",
            "SumSquare.update: (4096, 4096) axis 0",
            _SQUARE,
            (0,),
            update=True,
        ),
        Cell(
            "update-tall",
            "SumSquare.update: (2^22, 4) axis 0",
            (1 << 22, 4),
            (0,),
            update=True,
        ),
        Cell(
            "update-few",
            "SumSquare.update: (16, 2^20) axis 0",
            (16, 1 << 20),
            (0,),
            update=True,
        ),
    )
}

# Below this, a call is timed in a batch, and its time matters more than its speed.
SMALL_BYTES = 1 << 14

QUICK_TYPES = tuple(name for name in TYPES if not name.startswith("u"))
QUICK_CELLS = ("flat", "rows", "columns", "small")
