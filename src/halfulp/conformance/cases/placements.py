"""Where the hard sums of a case lie: layout, outputs, elements, places among them.

May import bits, case, hard_sums, maker and reductions only.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from halfulp.conformance.bits import Array
from halfulp.conformance.cases.case import Case
from halfulp.conformance.cases.hard_sums import HardSum
from halfulp.conformance.cases.maker import Maker
from halfulp.reductions import Reduction

DType = np.dtype[Any]

# The k-th case of a class takes the k-th of each column, all of which start anew at
# their ends. The lengths of the first four are coprime, so that within as many cases as
# the product of two lengths any two entries of these columns meet, by the Chinese
# remainder theorem. Each kind of sum has 13 cases in a row at the newest version: they
# meet each entry, and outputs with places. An earlier version takes four of them, and
# the next kind begins elsewhere. The order within the columns was searched for: any four
# in a row have one output, 16 and more, 128 elements and more, rank 3 and more, an
# innermost axis that is kept and one that is reduced; any 13 have every two of these
# that can be.
#
# Layouts: k is an axis that is kept, r one that is reduced. All reduced: by default.
_LAYOUTS = (
    ("all", "rrr"),
    ("all", "rrrrr"),
    ("first", "rkk"),
    ("last", "kkr"),
    ("last", "kr"),
    ("all", "r"),
    ("first", "rk"),
    ("middle", "kkrrk"),
    ("mixed", "krkr"),
    ("middle", "krrk"),
    ("mixed", "rkrkr"),
    ("mixed", "rkr"),
    ("middle", "krk"),
)
_OUTPUTS = (1, 200, 3, 33)
# Around the widths of vectors and blocks, and one past them.
_LENGTHS = (128, 9, 1001, 64, 65, 17, 1000, 8, 129, 16, 7)
# Of the other elements, the share that stands before the hard ones.
_PLACES = (("at the end", 1.0), ("at the front", 0.0), ("in the middle", 0.5))
_KEEPDIMS = (0, 1, None, 1, 0, 0, 1)
_NEGATIVE_AXES = (False, True, False, False, True)

# As many cases has each kind of sum at the newest version, and at an earlier one.
_MOST = len(_LAYOUTS)
_SOME = 4
# So many cases after a kind of sum the next one of its class begins.
_NEXT = 17

# Of more elements than these a case has fewer outputs.
_LARGEST = 7_000
# As many sums of a case differ; then they come again.
_DISTINCT = 5


def placed(new: Maker, hard: HardSum, index: int) -> Iterator[Case]:
    """Yield the cases of a kind of hard sum, the `index`-th of its class."""
    newest = new.is_newest
    first = 0 if newest else _SOME * new.reduction.versions.index(new.version)
    words = (hard.class_name, hard.kind, new.dtype.name, new.version.since)
    rng = np.random.default_rng(zlib.crc32(" ".join(map(str, words)).encode()))
    for k in range(first, first + (_MOST if newest else _SOME)):
        yield _placed(new, hard, _NEXT * index + k, rng)


def _placed(new: Maker, hard: HardSum, k: int, rng: np.random.Generator) -> Case:
    word, layout = _LAYOUTS[k % len(_LAYOUTS)]
    length = hard.length or _LENGTHS[k % len(_LENGTHS)]
    outputs = _OUTPUTS[k % len(_OUTPUTS)] if "k" in layout else 1
    if outputs * length > _LARGEST:
        outputs = max((n for n in _OUTPUTS if n * length <= _LARGEST), default=1)
    where, share = _PLACES[k % len(_PLACES)]
    parts = [hard.elements(rng, length) for _ in range(min(outputs, _DISTINCT))]
    rows, span = _rows(parts, share, _neutral(new.reduction))
    data = _shaped(rows[np.arange(outputs) % len(rows)], layout)
    axes: Any = [axis for axis, letter in enumerate(layout) if letter == "r"]
    axes_form = None
    if "k" not in layout:
        axes, axes_form = None, "absent"
    elif _NEGATIVE_AXES[k % len(_NEGATIVE_AXES)] and new.version.negative_axes:
        axes = [axis - len(layout) for axis in axes]
    count = rows.shape[1]
    detail = f"{hard.kind}_{word}{len(layout)}_{outputs}x{count}"
    notes = [hard.note]
    if span != (0, count):
        detail += f"_{where.split()[-1]}"
        notes.append(f"The hard terms are {where} of each {count}.")
    else:
        notes.append(f"Each of the {count} terms counts.")
    return new(
        hard.class_name,
        detail,
        data,
        axes_form,
        axes,
        _KEEPDIMS[k % len(_KEEPDIMS)],
        None,
        " ".join(filter(None, notes)),
        kind=hard.kind,
        hard=span,
    )


def _neutral(reduction: Reduction) -> float:
    """Return a float that changes no reduction of others."""
    neutral = {"sum": 0.0, "product": 1.0, "min": math.inf}
    return neutral.get(reduction.operation, -math.inf)


def _rows(
    parts: list[tuple[Array, Array]], share: float, neutral: float
) -> tuple[Array, tuple[int, int]]:
    """A row for each sum, its hard elements together; and from where to where.

    Integers are as many in each of the parts, so that none but zeros are added there.
    """
    length = max(len(hard) + len(others) for hard, others in parts)
    dtype = parts[0][0].dtype
    fill = 0 if dtype.kind in "iub" else neutral
    rows = np.full((len(parts), length), fill).astype(dtype)
    starts, stops = [], []
    for row, (hard, others) in zip(rows, parts, strict=True):
        start = int(share * (length - len(hard)))
        stop = start + len(hard)
        rest = np.full(length - len(hard), fill).astype(dtype)
        rest[: len(others)] = others
        row[:] = np.concatenate([rest[:start], hard, rest[start:]])
        starts.append(start)
        stops.append(stop)
    return rows, (min(starts), max(stops))


def _shaped(rows: Array, layout: str) -> Array:
    """Rows of elements as an array whose reduced axes hold the rows."""
    outputs, length = rows.shape
    kept = [axis for axis, letter in enumerate(layout) if letter == "k"]
    reduced = [axis for axis, letter in enumerate(layout) if letter == "r"]
    sizes = [*_split(outputs, len(kept)), *_split(length, len(reduced))]
    places = np.argsort([*kept, *reduced])
    return np.ascontiguousarray(rows.reshape(sizes).transpose(places))


def _split(number: int, parts: int) -> list[int]:
    """Factors of a number, small ones first."""
    if parts == 0:
        return []
    sizes = []
    for _ in range(parts - 1):
        least = (n for n in range(2, math.isqrt(number) + 1) if number % n == 0)
        sizes.append(next(least, 1))
        number //= sizes[-1]
    return [*sizes, number]
