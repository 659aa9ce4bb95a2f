"""What halfulp is asked to do with a cell.

May import halfulp itself and cells only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import halfulp
from halfulp.bench.cells import Array, Cell


def ours(cell: Cell, x: Array) -> tuple[str, Mapping[str, Any]]:
    """Return an expression that reduces the array of a cell, and the names in it."""
    if not cell.update:
        names = {"sum_square": halfulp.sum_square, "x": x, "axes": cell.axes}
        return "sum_square(x, axes)", names
    kept = (
        ()
        if cell.axes is None
        else tuple(n for i, n in enumerate(x.shape) if i not in cell.axes)
    )
    state = halfulp.SumSquare(x.dtype, kept).copy()  # whose memory is there
    return "update(x, axes)", {"update": state.update, "x": x, "axes": cell.axes}
