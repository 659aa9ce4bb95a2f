"""Compares some 10^7 results with the oracle; `make compare` runs it.

    python tests/fuzz/compare.py [SEED]

Rows made to be rounded wrong, for every row of the table, type of elements and results,
layout, instruction set, and 1, 2, 4 and 7 threads. Prints the seed, what differs, and how
many results were compared.
"""

from __future__ import annotations

import secrets
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import adversarial
import signed_rows
from halfulp.reductions import SUMS, Reduction
from oracle import (
    CONFIGURATIONS,
    FLOATS,
    SMALL,
    TYPES,
    bits,
    configuration,
    expected_of,
    function_of,
    result_dtype,
)

# Elements of a row, and rows: in short ones, what is in every place in turn is in each.
SIZES = (
    (1, 8),
    (2, 8),
    (3, 12),
    (8, 12),
    (17, 17),
    (33, 33),
    (65, 65),
    (130, 8),
    (300, 8),
)
# About the blocks of kernels: rows alone and columns, of floats.
LONG = ((513, 513), (1026, 64), (4097, 16))

Case = tuple[str, np.ndarray, np.dtype]


def cases(rng: np.random.Generator, row: Reduction, dtype: np.dtype) -> Iterator[Case]:
    """Yield rows of each family, for results of the usual type and of another."""
    others = FLOATS if dtype in FLOATS else TYPES
    for n, rows in SIZES:
        for into in (result_dtype(row, dtype), others[rng.integers(len(others))]):
            for name, x in adversarial.rows_for(rng, row, dtype, into, rows, n):
                yield name, x, into


def long_cases(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> Iterator[Case]:
    """Yield long rows of floats."""
    own = result_dtype(row, dtype)
    for n, rows in LONG if dtype in FLOATS else ():
        for family in signed_rows.FAMILIES:
            name = adversarial.name_of(family)
            few = rows if "every_place" in name else 4
            made = adversarial.hard(family, row.term, row.finish, own)
            yield name, made(rng, dtype, few, n), own


def main() -> int:
    """Compare all; return 1 if anything differed."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else secrets.randbits(32)
    print(f"seed {seed}", flush=True)
    rng = np.random.default_rng(seed)
    compared: Counter[str] = Counter()
    wrong = 0
    for row in SUMS:
        for dtype in (*TYPES, *SMALL):
            for name, x, into in cases(rng, row, dtype):
                want = expected_of(row, x, 1, into)
                for layout in adversarial.layouts(rng, x):
                    wrong += _compare(row, name, want, layout)
                    compared[row.name] += want.size * len(CONFIGURATIONS)
            for name, x, into in long_cases(rng, row, dtype):
                want = expected_of(row, x, 1, into)
                columns = np.ascontiguousarray(x.T)
                for layout in (("rows", x, 1, {}), ("columns", columns, 0, {})):
                    wrong += _compare(row, name, want, layout)
                    compared[row.name] += want.size * len(CONFIGURATIONS)
        print(f"{row.name}: {compared[row.name]} results compared", flush=True)
    print(f"{compared.total()} results compared in all, {wrong} calls differ")
    return int(wrong > 0)


def _compare(
    row: Reduction,
    name: str,
    want: np.ndarray,
    layout: tuple[str, np.ndarray, Any, dict[str, Any]],
) -> int:
    """Reduce in every configuration; return how many calls differ from `want`."""
    where, x, axis, more = layout
    wrong = 0
    for target, threads in CONFIGURATIONS:
        with configuration(target, threads):
            got = function_of(row)(x, axis, dtype=want.dtype, **more)
        if not np.array_equal(bits(got).ravel(), bits(want)):
            wrong += 1
            print(
                f"{row.name}: {name}, {x.dtype} to {want.dtype}, {x.shape} axis {axis}, "
                f"{where}, {target}, {threads} threads: differs",
                flush=True,
            )
    return wrong


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        sys.exit(main())
