"""Elements, as tables show them: those that an output reduces, and the first of arrays.

May import bits and cases only.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from halfulp.conformance.bits import Array, bits, bits_text
from halfulp.conformance.cases.case import Case

# So many elements are shown at each end, and so many of the hard ones from each end of
# theirs.
_ENDS = 4
_HARD_ENDS = 8
# As many equal elements in a row are told in one line.
_RUN = 3
# So many elements of an array are shown.
_SHOWN = 8

# Of an element or of equal ones: index, value, bits, and whether they are the hard ones;
# of those that are left out: how many, and two empty texts.
Line = tuple[str, str, str, bool]


def lines_of(case: Case, place: tuple[int, ...]) -> list[Line]:
    """Return the elements of the output at `place`, from the first to the last.

    Long rows are elided between their ends; the hard ones and the greatest are shown.
    """
    index = _index(case, place)
    row = case.data[tuple(index)].reshape(-1)
    if not row.size:
        return []
    sizes = [case.data.shape[axis] for axis in case.reduced]
    hard = case.hard if case.hard != (0, row.size) else None
    shown, starts = _pieces(row, case.hard)

    def at(i: int) -> str:
        inner = iter(np.unravel_index(i, sizes) if sizes else ())
        return str([int(next(inner)) if isinstance(n, slice) else n for n in index])

    lines = []
    for start, stop in zip(starts, [*starts[1:], row.size], strict=True):
        count = stop - start
        if not shown[start]:
            lines.append((f"{count} more", "", "", False))
            continue
        which = at(start) if count == 1 else f"{at(start)} to {at(stop - 1)}"
        times = "" if count == 1 else f", {count} times"
        code = bits_text(row, (start,))
        is_hard = hard is not None and hard[0] <= start < stop <= hard[1]
        lines.append((which, f"{row[start]!s}{times}", code, is_hard))
    return lines


def first_values(array: Array, worst: tuple[int, ...] | None = None) -> list[list[str]]:
    """Return the first elements, and one more: index, value in decimal, bits in hex."""
    places = list(itertools.islice(np.ndindex(array.shape), _SHOWN))
    if worst is not None and worst not in places:
        places[_SHOWN - 1 :] = [worst]
    return [[str(list(i)), str(array[i]), bits_text(array, i)] for i in places]


def _index(case: Case, place: tuple[int, ...]) -> list[int | slice]:
    """Where the elements of an output lie in the data."""
    left = iter(place)
    index: list[int | slice] = []
    for axis in range(case.data.ndim):
        reduced = axis in case.reduced
        here = next(left) if case.keepdims != 0 or not reduced else 0
        index.append(slice(None) if reduced else here)
    return index


def _pieces(row: Array, hard: tuple[int, int] | None) -> tuple[Array, list[int]]:
    """Which elements are to be seen, and the first of the lines."""
    shown = np.zeros(row.size, bool)
    shown[:_ENDS] = shown[-_ENDS:] = True
    if hard is not None:
        start, stop = hard
        shown[start : min(start + _HARD_ENDS, stop)] = True
        shown[max(stop - _HARD_ENDS, start) : stop] = True
    with np.errstate(all="ignore"):
        sizes = np.abs(row.astype(float))
    sizes[np.isnan(sizes)] = math.inf
    shown[int(sizes.argmax())] = True
    # In place of a line that tells of one element, the element.
    shown[1:-1] |= shown[:-2] & shown[2:]

    hexes = bits(row)
    bounds = np.flatnonzero(hexes[1:] != hexes[:-1]) + 1
    firsts = np.concatenate([[0], bounds])
    lengths = np.diff([*firsts, row.size])
    long = lengths >= _RUN
    seen = np.maximum.reduceat(shown, firsts) & long
    shown |= np.repeat(seen, lengths)

    begins = np.ones(row.size, bool)
    begins[1:] = shown[1:] | shown[:-1]
    inside = np.repeat(seen, lengths)
    inside[firsts] = False
    return shown, np.flatnonzero(begins & ~inside).tolist()
