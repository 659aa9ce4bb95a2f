"""Measure how far ahead kernels of long rows should fetch memory, on this processor.

Prints a table for docs/benchmarks.md#prefetching: the time of each distance over that of
none, of 64 MiB on one thread, in turns, the best of them. Needs 300 MB of memory and
nothing but halfulp.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import halfulp
from halfulp import _core
from halfulp.bench.machine import describe

DISTANCES = (0, 256, 512, 1024, 4096)
TYPES = (ml_dtypes.bfloat16, np.float16, np.float32, np.float64)
FUNCTIONS = (halfulp.sum, halfulp.sum_square)
TURNS = 9


def main() -> None:
    """Print the table in Markdown."""
    machine = describe([])
    print(f"{machine['cpu']}, {machine['date'].split()[0]}; time over that of none:\n")
    head = ("function", "type", "cell", *(f"{bytes} B" for bytes in DISTANCES[1:]))
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    rng = np.random.default_rng(1)
    for dtype in map(np.dtype, TYPES):
        values = rng.standard_normal(2**26 // dtype.itemsize, np.float32).astype(dtype)
        for function in FUNCTIONS:
            for cell, x in (("flat", values), ("rows", values.reshape(4096, -1))):
                best = dict.fromkeys(DISTANCES, np.inf)
                for _ in range(TURNS):
                    for distance in DISTANCES:
                        _core.set_prefetch_distance(distance)
                        best[distance] = min(best[distance], _seconds(function, x))
                ratios = [f"{best[d] / best[0]:.2f}" for d in DISTANCES[1:]]
                print(f"| {' | '.join((function.__name__, dtype.name, cell, *ratios))} |")


def _seconds(function: Callable[..., Any], x: np.ndarray) -> float:
    start = time.perf_counter()
    function(x, axis=-1)
    return time.perf_counter() - start


if __name__ == "__main__":
    with halfulp.num_threads(1):
        main()
