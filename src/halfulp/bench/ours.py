"""What halfulp is asked to do with a cell.

May import halfulp itself, cells, reductions and values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import halfulp
from halfulp.bench.cells import Cell
from halfulp.bench.values import Array
from halfulp.reductions import LOG_SUM_EXP, Reduction


def ours(cell: Cell, reduction: Reduction, x: Array) -> tuple[str, Mapping[str, Any]]:
    """Return an expression that reduces the array of a cell, and the names in it."""
    if not cell.update:
        return expression(reduction), {"halfulp": halfulp, "x": x, "axes": cell.axes}
    kept = (
        ()
        if cell.axes is None
        else tuple(n for i, n in enumerate(x.shape) if i not in cell.axes)
    )
    state = halfulp.SumSquare(x.dtype, kept).copy()  # whose memory is there
    return "update(x, axes)", {"update": state.update, "x": x, "axes": cell.axes}


def expression(reduction: Reduction) -> str:
    """Return the call of a reduction of x along axes."""
    if reduction is LOG_SUM_EXP:
        return "halfulp.logsumexp(x, axes)"
    if reduction.ord is None:
        return f"halfulp.{reduction.name}(x, axes)"
    return f"halfulp.vector_norm(x, axes, ord={reduction.ord})"
