"""Which axis goes: a small reduction, drawn and in words.

May import onnx_functions, reductions, and report.html, whose colours the CSS takes from
variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from halfulp.onnx_functions import reduce_as_onnx
from halfulp.reductions import Reduction
from halfulp.report.html import element, escape

STYLE = """\
.axes { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; margin: 1rem 0; }
.axes figure { margin: 0; }
.axes svg { display: block; max-width: 100%; height: auto; }
.axes rect { fill: var(--panel); stroke: var(--muted); }
.axes rect.set { fill: var(--warn-ground); stroke: var(--warn); }
.axes text { fill: var(--ink); font-size: 14px; text-anchor: middle; }
.axes path { fill: none; stroke: var(--muted); stroke-width: 1.5; }
.axes figcaption { font-size: .9rem; margin-top: .4rem; }
"""

TITLE = "Which axis goes"
_DATA = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
# Of a cell, and of the way to the result, in pixels.
_WIDE, _HIGH, _WAY = 38, 26, 26


@dataclass(frozen=True, slots=True)
class Reduced:
    """What one array becomes along some axes.

    Attributes
    ----------
    axes : tuple of int or None
        None means absent: all of them.
    goes : str
        What is reduced, in words.
    kept, dropped : tuple of int
        The shape of the result with keepdims 1 and with 0.
    values : numpy.ndarray
        Of the shape `kept`.
    """

    axes: tuple[int, ...] | None
    goes: str
    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    values: Any

    @property
    def name(self) -> str:
        """The axes as a node has them."""
        return "no axes" if self.axes is None else f"axes = {list(self.axes)}"


def reduced(row: Reduction) -> tuple[Reduced, ...]:
    """Return what an array of two rows and three columns becomes."""
    found = []
    for axes, goes in (
        ((0,), "down each column: axis 0, the rows, goes"),
        ((1,), "along each row: axis 1, the columns, goes"),
        (None, "everything: all axes go"),
    ):
        given = None if axes is None else list(axes)
        values = reduce_as_onnx(row, _DATA, given)
        dropped = reduce_as_onnx(row, _DATA, given, keepdims=0)
        found.append(Reduced(axes, goes, values.shape, np.shape(dropped), values))
    return tuple(found)


def table(row: Reduction) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a table of what is `reduced`, its head first."""
    yield "axes", "reduced", f"{_DATA.shape} becomes", "with keepdims 0"
    for one in reduced(row):
        yield one.name, one.goes, str(one.kept), str(one.dropped)


def figures(row: Reduction) -> str:
    """Return what is `reduced` as HTML with inline SVG, without an empty line."""
    return f'<div class="axes">\n{"".join(map(_figure, reduced(row)))}</div>'


def _figure(one: Reduced) -> str:
    rows, columns = _DATA.shape
    wide, high = columns * _WIDE, rows * _HIGH
    # The result stands where the arrows lead: below, beside, or both.
    right = wide + _WAY if one.axes is None or 1 in one.axes else 0
    below = high + _WAY if one.axes == (0,) else 0
    if one.axes is None:
        below = (high - _HIGH) // 2
    drawn = list(_cells(_DATA, 0, 0, one))
    if one.axes == (0,):
        drawn += [_arrow(x * _WIDE + _WIDE / 2, high, 0, 1) for x in range(columns)]
    elif one.axes == (1,):
        drawn += [_arrow(wide, y * _HIGH + _HIGH / 2, 1, 0) for y in range(rows)]
    else:
        drawn.append(_arrow(wide, high / 2, 1, 0))
    drawn += _cells(one.values, right, below, one)
    width = max(wide, right + one.values.shape[1] * _WIDE) + 2
    height = max(high, below + one.values.shape[0] * _HIGH) + 2
    words = f"{one.name}: {one.goes}; {_DATA.shape} becomes {one.kept}"
    caption = (
        f"<code>{escape(one.name)}</code><br>{escape(one.goes)}<br>"
        f"{_DATA.shape} \N{RIGHTWARDS ARROW} {one.kept}, "
        f"or {one.dropped} with <code>keepdims = 0</code>"
    )
    picture = element(
        "svg",
        "\n" + "".join(f"{each}\n" for each in drawn),
        viewBox=f"-1 -1 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=words,
    )
    return element("figure", picture + element("figcaption", caption)) + "\n"


def _cells(values: Any, x: float, y: float, one: Reduced) -> Iterator[str]:
    """The cells of an array; those of the first result, and it, are coloured."""
    for (i, j), value in np.ndenumerate(values):
        first = one.axes is None or (j == 0 if one.axes == (0,) else i == 0)
        left, top = x + j * _WIDE, y + i * _HIGH
        name, x0, y0 = "set" if first else "", left + _WIDE / 2, top + _HIGH / 2 + 5
        box = element("rect", class_=name, x=left, y=top, width=_WIDE, height=_HIGH)
        yield box + element("text", _shown(value), x=x0, y=y0)


def _shown(value: float) -> str:
    """A number as a cell has room for it."""
    text = f"{value:.0f}" if float(value).is_integer() else f"{value:.2g}"
    return text.replace("-", "\N{MINUS SIGN}")


def _arrow(x: float, y: float, across: int, down: int) -> str:
    """An arrow from a cell's edge on the way to the result."""
    x0, y0 = x + 4 * across, y + 4 * down
    x1, y1 = x + (_WAY - 4) * across, y + (_WAY - 4) * down
    back = [(x1 - 5 * across + s * down, y1 - 5 * down + s * across) for s in (-4, 4)]
    (ax, ay), (bx, by) = back
    return element(
        "path",
        d=f"M{x0:g} {y0:g}L{x1:g} {y1:g}M{ax:g} {ay:g}L{x1:g} {y1:g}L{bx:g} {by:g}",
    )
