"""A long exactness run against two independent oracles; `make fuzz` runs it.

    python tests/fuzz/fuzz.py [SECONDS [SEED]]

Random rows of the table, families, types, shapes, layouts, masks, groups, kernels and
threads.
The oracles are `halfulp.exact` (integers and fractions) and GMP and MPFR (through gmpy2).
Prints the seed, what failed, and how many results were compared.
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

import adversarial
from halfulp.conformance.bits import EMAX
from halfulp.reductions import SUMS, Reduction
from oracle import (
    CONFIGURATIONS,
    FLOATS,
    PRECISION,
    SMALL,
    TYPES,
    bits,
    configuration,
    expected_of,
    from_bits,
    function_of,
)

# Enough for every square of binary64 and 2^64 of them, 2048 + 2148 + 64 bits; and to tell
# their roots and quotients from midpoints, of which they are 2^-3300 apart or equal.
_EXACT = gmpy2.context(precision=6000, emin=-9000, emax=9000)
_TERMS = {"value": lambda x: x, "magnitude": abs, "square": lambda x: x * x}


def by_gmp(row: Reduction, line: np.ndarray, dtype: np.dtype) -> Any:
    """What a line is reduced to, by GMP and MPFR, as a scalar of `dtype`."""
    of = _TERMS[row.term]
    numbers = (line.astype(np.float64) if line.dtype in FLOATS else line + 0).tolist()
    with gmpy2.context(_EXACT):
        total = sum((of(gmpy2.mpfr(x)) for x in numbers), gmpy2.mpfr(0))
        if dtype not in FLOATS:
            return _integer(row, gmpy2.mpz(total), len(line), dtype)
        if row.finish == "mean":
            total = total / len(line)
        elif row.finish == "root":
            total = gmpy2.sqrt(total)
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


def _integer(row: Reduction, total: Any, n: int, dtype: np.dtype) -> Any:
    """Finish a sum of n integers, as an integer modulo 2^N."""
    if row.finish == "mean":
        total = gmpy2.t_div(total, n) if n else 0
    elif row.finish == "root":
        total = gmpy2.isqrt(total)
    width = 8 * dtype.itemsize
    return np.array(int(total) % 2**width, f"u{dtype.itemsize}").view(dtype)[()]


def _sign(dtype: np.dtype) -> Any:
    return np.array(1 << (8 * dtype.itemsize - 1), f"u{dtype.itemsize}")


Case = tuple[str, Reduction, np.ndarray, np.dtype]


def random_case(rng: np.random.Generator) -> Case:
    """A family's name, a row of the table, a matrix of the family and a dtype."""
    row = SUMS[rng.integers(len(SUMS))]
    rows, n = int(rng.integers(1, 60)), int(rng.choice([1, 2, 5, 16, 33, 64, 100, 1000]))
    types = [*TYPES, *SMALL] if rng.integers(4) == 0 else FLOATS
    dtype = types[rng.integers(len(types))]
    into = FLOATS if dtype in FLOATS else TYPES
    target = (
        dtype if dtype in TYPES and rng.integers(2) else into[rng.integers(len(into))]
    )
    families = adversarial.families(dtype)
    family = families[rng.integers(len(families))]
    made = adversarial.hard(family, row.term, row.finish, target)
    return adversarial.name_of(family), row, made(rng, dtype, rows, n), target


def by_groups(
    rng: np.random.Generator, row: Reduction, x: np.ndarray, dtype: np.dtype
) -> Any:
    """What the rows of a matrix are reduced to as groups of elements in any order."""
    codes = np.repeat(np.arange(len(x)), x.shape[1])
    order = rng.permutation(x.size) if rng.integers(2) else np.arange(x.size)
    return function_of(row)(x.reshape(-1)[order], by=codes[order], dtype=dtype)


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
            name, row, x, dtype = random_case(rng)
            target, threads = CONFIGURATIONS[rng.integers(len(CONFIGURATIONS))]
            layouts = list(adversarial.layouts(rng, x))
            layout, data, axis, more = layouts[rng.integers(len(layouts))]
            if not more and x.ndim == data.ndim and rng.integers(4) == 0:
                more = {"where": rng.random(data.shape) < 0.8}
            with configuration(target, threads):
                got = function_of(row)(data, axis, dtype=dtype, **more)
            if rng.integers(4) == 0:
                layout, data, axis, more = "groups", x, 1, {}
                got = by_groups(rng, row, x, dtype)
            where = more.get("where", True)
            answers = {"exact": bits(expected_of(row, data, axis, dtype, where=where))}
            counts = np.broadcast_to(where, data.shape)
            axes = axis if isinstance(axis, tuple) else (axis,)
            last = tuple(range(-len(axes), 0))
            lines = np.moveaxis(data, axes, last).reshape(got.size, -1)
            counts = np.moveaxis(counts, axes, last).reshape(got.size, -1)
            found = [
                by_gmp(row, line[count], dtype)
                for line, count in zip(lines, counts, strict=True)
            ]
            answers["GMP"] = bits(np.array(found, dtype)).reshape(got.shape)
            got = bits(got)
            cases += 1
            compared += got.size
            for oracle, want in answers.items():
                if not np.array_equal(got, want):
                    wrong += 1
                    print(
                        f"case {cases}: {row.name}, {name}, {data.dtype} to {dtype}, "
                        f"{layout}, {data.shape} axis {axis}, {target}, {threads} "
                        f"threads, {[*more]}: differs from {oracle}",
                        flush=True,
                    )
    print(f"{compared} results compared in {cases} cases, {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
