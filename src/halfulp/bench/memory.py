"""Measures the memory that one call takes beyond its result, in a fresh process.

May import halfulp itself, reductions and, of bench, cells, machine and ours only.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import halfulp
from halfulp.bench.cells import TYPES, Cell
from halfulp.bench.machine import memory_bytes
from halfulp.bench.ours import ours
from halfulp.reductions import Reduction

_STATUS = "/proc/self/status"


def extra_memory(
    cell: Cell, reduction: Reduction, type_name: str, threads: int
) -> int | None:
    """Return the bytes that one call takes beyond its result, at its peak.

    The growth of the resident set, read from /proc: in steps of pages, and to
    within some tens of KiB because the system counts pages in batches.

    Parameters
    ----------
    cell : Cell
    reduction : Reduction
    type_name : str
    threads : int

    Returns
    -------
    int or None
        None where the system does not tell.
    """
    element = TYPES[type_name]
    x = cell.build(element, reduction)
    tiny = dataclasses.replace(cell, shape=(2,) * x.ndim, values="ordinary")
    with halfulp.num_threads(threads):
        # Loads what is loaded when first used, and starts the threads.
        for first in (tiny.build(element, reduction), x[:1]):
            expression, names = ours(cell, reduction, first)
            eval(expression, dict(names))
        expression, names = ours(cell, reduction, x)
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak is now the present
        except OSError:
            return None
        before = memory_bytes("VmHWM", _STATUS)
        result = eval(expression, dict(names))
        after = memory_bytes("VmHWM", _STATUS)
    if before is None or after is None:
        return None
    return max(0, after - before - (0 if cell.update else int(result.nbytes)))
