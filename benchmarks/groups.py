"""Sums of groups beside numpy.bincount and pandas' groupby, in one thread.

    python benchmarks/groups.py [ELEMENTS [ROUNDS]]

Prints a row for each number of groups and order of codes: the time of numpy.bincount with
weights, and those of the others as multiples of it. All are timed in turns, the best of
the rounds counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import pandas as pd

import halfulp


def best_of(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """Return the least seconds of each call, made in turns."""
    least = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            least[i] = min(least[i], time.perf_counter() - start)
    return least


def main() -> None:
    """Measure, and print a table."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10**7
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    rng = np.random.default_rng(0)
    print("| groups | codes | bincount, ms | sum | sum_square | pandas |")
    print("|---|---|---|---|---|---|")
    for groups in (10, 10**3, 10**5, 10**6):
        for order in ("random", "sorted"):
            codes = rng.integers(0, groups, n)
            if order == "sorted":
                codes.sort()
            x = rng.standard_normal(n)
            by_pandas = pd.Series(x).groupby(codes)
            calls: list[Callable[[], object]] = [
                lambda x=x, codes=codes: np.bincount(codes, x),
                lambda x=x, codes=codes: halfulp.sum(x, by=codes),
                lambda x=x, codes=codes: halfulp.sum_square(x, by=codes),
                by_pandas.sum,
            ]
            base, *others = best_of(calls, rounds)
            ratios = " | ".join(f"{other / base:.2f}" for other in others)
            print(f"| {groups} | {order} | {1e3 * base:.0f} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
