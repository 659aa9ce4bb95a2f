"""A long exactness run against two independent oracles; `make fuzz` runs it.

    python tests/fuzz/fuzz.py [SECONDS [SEED]]

Random families, types, shapes, layouts, kernels and threads. The oracles are
`halfulp.exact` (integers and fractions) and MPFR (through gmpy2). Prints the seed,
what failed, and how many reductions were compared.
"""

from __future__ import annotations

import secrets
import sys
import time
from pathlib import Path
from typing import Any

import gmpy2
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import halfulp
from halfulp.conformance.bits import EMAX
from halfulp.conformance.cases import hard_rows
from oracle import (
    CONFIGURATIONS,
    FLOATS,
    INTEGERS,
    PRECISION,
    bits,
    configuration,
    expected,
    from_bits,
)

# Enough for every square of binary64 and 2^64 of them: 2048 + 2148 + 64 bits.
_EXACT = gmpy2.context(precision=4300, emin=-5000, emax=5000)


def mpfr_sum_square(row: np.ndarray, dtype: np.dtype) -> Any:
    """The rounded sum of squares of floats by MPFR, as a scalar of `dtype`."""
    with gmpy2.context(_EXACT):
        total = gmpy2.mpfr(0)
        for value in row.astype(np.float64).tolist():
            total += gmpy2.mpfr(value) * gmpy2.mpfr(value)
    p, emax = PRECISION[dtype.name], EMAX[dtype.name]
    # MPFR's exponents are of significands in [1/2, 1).
    target = gmpy2.context(
        precision=p, emax=emax + 1, emin=1 - emax - p + 2, subnormalize=True
    )
    with target:
        rounded = gmpy2.mpfr(total)
    if gmpy2.is_nan(rounded):
        return from_bits(bits(np.array(np.nan, dtype)) & ~_sign(dtype), dtype)[()]
    return np.array(float(rounded)).astype(dtype)[()]


def _sign(dtype: np.dtype) -> Any:
    return np.array(1 << (8 * dtype.itemsize - 1), f"u{dtype.itemsize}")


def random_case(rng: np.random.Generator) -> tuple[str, np.ndarray, int, np.dtype]:
    """A family's name, a matrix of it in some layout, an axis and a dtype."""
    rows, n = int(rng.integers(1, 60)), int(rng.choice([1, 2, 5, 16, 33, 64, 100, 1000]))
    if rng.integers(4) == 0:
        dtype = INTEGERS[rng.integers(len(INTEGERS))]
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, (rows, n), dtype, endpoint=True)
        name, targets = "integers", INTEGERS
    else:
        dtype = FLOATS[rng.integers(len(FLOATS))]
        family = hard_rows.FAMILIES[rng.integers(len(hard_rows.FAMILIES))]
        x = family(rng, dtype, rows, n)
        name, targets = family.__name__, FLOATS
    target = dtype if rng.integers(2) else targets[rng.integers(len(targets))]
    layout = rng.integers(4)
    if layout == 1:
        x = np.asfortranarray(x)
    elif layout == 2:
        x = np.repeat(x, 2, axis=1)[:, ::2]
    elif layout == 3:
        x = np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    return name, x, int(rng.integers(2)), target


def main() -> int:
    """Run until the time is over; return 1 if anything differed."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else secrets.randbits(32)
    print(f"seed {seed}", flush=True)
    rng = np.random.default_rng(seed)
    compared = wrong = cases = 0
    end = time.monotonic() + seconds
    with np.errstate(all="ignore"):
        while time.monotonic() < end:
            name, x, axis, dtype = random_case(rng)
            target, threads = CONFIGURATIONS[rng.integers(len(CONFIGURATIONS))]
            where = rng.random(x.shape) < 0.8 if rng.integers(4) == 0 else np.True_
            with configuration(target, threads):
                got = bits(halfulp.sum_square(x, axis, dtype=dtype, where=where))
            x = np.where(where, x, x.dtype.type(0))
            answers = {"exact": bits(expected(x, axis, dtype))}
            if x.dtype in FLOATS:
                lines = np.moveaxis(x, axis, -1)
                answers["MPFR"] = bits([mpfr_sum_square(line, dtype) for line in lines])
            cases += 1
            compared += got.size
            for oracle, want in answers.items():
                if not np.array_equal(got, want):
                    wrong += 1
                    print(
                        f"case {cases}: {name}, {x.dtype} to {dtype}, {x.shape} "
                        f"axis {axis}, {target}, {threads} threads: "
                        f"differs from {oracle}",
                        flush=True,
                    )
    print(f"{compared} reductions compared in {cases} cases, {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
