"""The cells of the benchmark: which arrays, reduced how and along which axes.

May import element_types, reductions and values only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from halfulp.bench.values import Array, hard_rows, ordinary
from halfulp.element_types import ELEMENT_TYPES, ElementType
from halfulp.reductions import (
    L1,
    L2,
    LOG_SUM_EXP,
    MAX,
    MEAN,
    MIN,
    PROD,
    SUM,
    SUM_SQUARE,
    Reduction,
)

TYPES = {t.numpy_name: t for t in ELEMENT_TYPES}
FLOATS = tuple(name for name, t in TYPES.items() if t.kind == "float")
SUMS = (SUM_SQUARE, SUM, MEAN, L1, L2)
# What is no sum of elements, their sizes or squares.
OTHERS = (MAX, MIN, PROD, LOG_SUM_EXP)
ROWS = {row.name: row for row in (*SUMS, *OTHERS)}

# Reductions that differ in what an element adds, in what becomes of a sum, and all of
# these; and those that are no sums.
_TERMS = ("sum_square", "sum", "l1")
_ALL = tuple(row.name for row in SUMS)
_OTHERS = tuple(row.name for row in OTHERS)
# What the names of their cells begin with.
JOINED = "joined"
_SQUARES = ("sum_square",)
_BY_LENGTH = ("sum", "mean", "l2", "sum_square")

# How an array lies in a buffer of C-contiguous memory.
_LAYOUTS: dict[str, Callable[[Array, tuple[int, ...]], Array]] = {
    "C": lambda flat, shape: flat.reshape(shape),
    "Fortran": lambda flat, shape: flat.reshape(shape[::-1]).T,
    "every second": lambda flat, shape: flat[::2],
    "reversed": lambda flat, shape: flat[::-1],
}


@dataclass(frozen=True, slots=True)
class Cell:
    """Some reductions to measure along some axes, of every type in `types`.

    Attributes
    ----------
    name : str
        As on the command line.
    what : str
        Shape and axes, for people.
    shape : tuple of int
        Of the memory: "every second" takes half of its elements. Where it has -1, as
        many as `nbytes` hold.
    axes : tuple of int, optional
        None means all.
    reductions : tuple of str
        By their names in the table of reductions.
    layout : str
        How the array lies in its memory: a key of the table of layouts.
    nbytes : int, optional
        The size of an array whose `shape` has -1.
    values : {"ordinary", "ties", "zeros", "cancel"}
        What it holds: see values.hard_rows.
    update : bool
        Whether a `halfulp.SumSquare` is updated, and nothing rounded.
    types : tuple of str
    length : int
        Of a family of cells that differ in how many elements a result has: how many.
        Others have 0.
    """

    name: str
    what: str
    shape: tuple[int, ...] = (-1,)
    axes: tuple[int, ...] | None = None
    reductions: tuple[str, ...] = _ALL
    layout: str = "C"
    nbytes: int = 0
    values: str = "ordinary"
    update: bool = False
    types: tuple[str, ...] = tuple(TYPES)
    length: int = 0

    def memory_shape(self, element: ElementType) -> tuple[int, ...]:
        """Return the shape of the memory of an array of a type."""
        known = math.prod(n for n in self.shape if n >= 0) * element.dtype.itemsize
        return tuple(self.nbytes // known if n < 0 else n for n in self.shape)

    def bytes_touched(self, element: ElementType) -> int:
        """Return the bytes of memory that one call passes over."""
        return math.prod(self.memory_shape(element)) * element.dtype.itemsize

    def build(self, element: ElementType, reduction: Reduction) -> Array:
        """Return the array of a type, the same whenever it is built."""
        shape = self.memory_shape(element)
        size = math.prod(shape)
        if self.values == "ordinary":
            flat = ordinary(size, element)
        else:
            length = size if self.axes is None else shape[self.axes[0]]
            rows = (size // length, length)
            made = hard_rows(self.values, rows, element, reduction)
            flat = (made.T if self.axes == (0,) else made).ravel()
        return _LAYOUTS[self.layout](flat, shape)


_MATRIX = (4096, 4096)
_FLAT = (1 << 24,)
_SHORT = (1 << 20, 16)


def _hard(
    values: str, what: str, reductions: tuple[str, ...], *more: str
) -> Iterator[Cell]:
    """The cells of one kind of values, flat, in rows and in columns."""
    shapes = {
        "": ("2^24 elements", _FLAT, None),
        "-rows": ("(4096, 4096) axis 1", _MATRIX, (1,)),
        "-columns": ("(4096, 4096) axis 0", _MATRIX, (0,)),
        "-short": ("(2^20, 16) axis 1", _SHORT, (1,)),
    }
    for end in more:
        text, shape, axes = shapes[end]
        yield Cell(
            f"{values}{end}",
            f"{text}, {what}",
            shape,
            axes,
            reductions,
            values=values,
            types=FLOATS,
        )


def _joined() -> Iterator[Cell]:
    """The cells of what is no sum."""
    for name, what, shape, axes in (
        ("flat", "2^24 elements", _FLAT, None),
        ("rows", "(4096, 4096) axis 1", _MATRIX, (1,)),
        ("columns", "(4096, 4096) axis 0", _MATRIX, (0,)),
        ("middle", "(64, 256, 1024) axis 1", (64, 256, 1024), (1,)),
        ("short-rows", "(2^20, 16) axis 1", _SHORT, (1,)),
        ("few-rows", "(16, 2^20) axis 0", (16, 1 << 20), (0,)),
        ("small", "64 elements", (64,), None),
    ):
        yield Cell(f"{JOINED}-{name}", what, shape, axes, _OTHERS)


# Elements of a result, in rows of so many and in columns of so many rows.
_ROW_LENGTHS = (
    *(2, 3, 4, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 128),
    *(255, 256, 384, 512, 768, 1000),
)
_COLUMN_LENGTHS = (2, 4, 8, 16, 32, 64)


def _by_length() -> Iterator[Cell]:
    """The cells of 64 MiB that differ in the number of elements of a result."""
    for n in _ROW_LENGTHS:
        yield _of_length(f"rows-of-{n}", f"64 MiB, (n, {n}) axis 1", n, (-1, n), (1,))
    for n in _COLUMN_LENGTHS:
        yield _of_length(f"{n}-rows", f"64 MiB, ({n}, n) axis 0", n, (n, -1), (0,))


def _of_length(
    name: str, what: str, length: int, shape: tuple[int, ...], axes: tuple[int, ...]
) -> Cell:
    return Cell(
        *(name, what, shape, axes, _BY_LENGTH),
        nbytes=1 << 26,
        types=("float16", "float32", "float64"),
        length=length,
    )


CELLS = {
    cell.name: cell
    for cell in (
        Cell("flat", "2^24 elements", _FLAT, None, _TERMS),
        Cell("rows", "(4096, 4096) axis 1", _MATRIX, (1,)),
        Cell("columns", "(4096, 4096) axis 0", _MATRIX, (0,)),
        Cell("middle", "(64, 256, 1024) axis 1", (64, 256, 1024), (1,), _TERMS),
        Cell(
            "channels",
            "(16, 64, 128, 128) axes 0, 2, 3",
            (16, 64, 128, 128),
            (0, 2, 3),
            _TERMS,
        ),
        Cell("short-rows", "(2^20, 16) axis 1", _SHORT, (1,)),
        Cell("few-rows", "(16, 2^20) axis 0", (16, 1 << 20), (0,), _TERMS),
        Cell(
            "fortran-0",
            "(4096, 4096) Fortran order, axis 0",
            _MATRIX,
            (0,),
            _SQUARES,
            "Fortran",
        ),
        Cell(
            "fortran-1",
            "(4096, 4096) Fortran order, axis 1",
            _MATRIX,
            (1,),
            _SQUARES,
            "Fortran",
        ),
        Cell(
            "strided",
            "every second of 2^24 elements",
            _FLAT,
            None,
            _TERMS,
            "every second",
        ),
        Cell("reversed", "2^24 elements backwards", _FLAT, None, _TERMS, "reversed"),
        Cell("small", "64 elements", (64,)),
        Cell("4KiB", "4 KiB", reductions=_TERMS, nbytes=1 << 12),
        Cell("64KiB", "64 KiB", reductions=_TERMS, nbytes=1 << 16),
        Cell("1MiB", "1 MiB", reductions=_TERMS, nbytes=1 << 20),
        Cell("64MiB", "64 MiB", reductions=_TERMS, nbytes=1 << 26),
        Cell("1GiB", "1 GiB", reductions=_TERMS, nbytes=1 << 30),
        Cell(
            "1GiB-columns",
            "1 GiB, (n, 4096) axis 0",
            (-1, 4096),
            (0,),
            _TERMS,
            nbytes=1 << 30,
        ),
        *_hard("ties", "all results ties", _ALL, "-rows", "-columns", "-short"),
        *_hard("zeros", "all results 0", _TERMS, "-rows", "-columns"),
        *_hard("cancel", "sums of an ulp", ("sum",), "", "-rows", "-columns"),
        *(
            Cell(
                f"update-{name}",
                f"SumSquare.update: {what}",
                shape,
                axes,
                _SQUARES,
                update=True,
            )
            for name, what, shape, axes in (
                ("flat", "2^24 elements", _FLAT, None),
                ("axis-0", "(4096, 4096) axis 0", _MATRIX, (0,)),
                ("tall", "(2^22, 4) axis 0", (1 << 22, 4), (0,)),
                ("few", "(16, 2^20) axis 0", (16, 1 << 20), (0,)),
            )
        ),
        *_joined(),
        *_by_length(),
    )
}

# Cells that are chosen together.
FAMILIES = {"lengths": tuple(name for name, cell in CELLS.items() if cell.length)}

# Below this, a call is timed in a batch, and its time matters more than its speed.
SMALL_BYTES = 1 << 14

QUICK_TYPES = ("float16", "float32", "float64")
QUICK_CELLS = ("flat", "columns", "small")
