"""Logarithms of sums and of sums of exponentials against MPFR; `make fuzz` runs it.

    python tests/fuzz/fuzz_logarithms.py [SECONDS [SEED]]

Random float types, ranges, lengths of rows, layouts, kernels and threads. Prints the
seed, what is wrong, and how many results were compared.
"""

from __future__ import annotations

import secrets
import sys
import time
from pathlib import Path

import gmpy2
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import halfulp
from halfulp.conformance.bits import EMAX
from oracle import CONFIGURATIONS, FLOATS, PRECISION, bits, configuration

# Of rows as they are made here no value is as near to a middle as this tells.
_WIDE = gmpy2.context(precision=400, emin=-(10**9), emax=10**9)


def by_mpfr(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logarithms of the sums of sizes, and of the sums of exponentials."""
    dtype = rows.dtype
    p, emax = PRECISION[dtype.name], EMAX[dtype.name]
    # MPFR's exponents are of significands in [1/2, 1).
    target = gmpy2.context(
        precision=p, emax=emax + 1, emin=1 - emax - p + 2, subnormalize=True
    )
    results = []
    for row in rows.astype(float).tolist():
        with gmpy2.context(_WIDE):
            numbers = [gmpy2.mpfr(x) for x in row]
            greatest = max(numbers)
            total = sum((gmpy2.exp(x - greatest) for x in numbers), gmpy2.mpfr(0))
            size = sum((abs(x) for x in numbers), gmpy2.mpfr(0))
            both = gmpy2.log(size), greatest + gmpy2.log(total)
        with target:
            results.append([float(gmpy2.mpfr(value)) for value in both])
    log_sum, log_sum_exp = np.array(results).astype(dtype).T
    return log_sum, log_sum_exp


def main() -> int:
    """Run until the time is over; return 1 if anything differed."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else secrets.randbits(32)
    print(f"seed {seed}", flush=True)
    rng = np.random.default_rng(seed)
    compared = wrong = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        dtype = FLOATS[rng.integers(len(FLOATS))]
        shape = int(rng.integers(1, 200)), int(rng.choice([2, 3, 5, 17, 64, 300]))
        scale = 10.0 ** rng.uniform(-4, 2.5)
        near = rng.choice([0, -np.log(shape[1]), rng.normal(0, scale)])
        x = (rng.normal(0, scale, shape) + near).astype(dtype)
        target, threads = CONFIGURATIONS[rng.integers(len(CONFIGURATIONS))]
        by_columns = bool(rng.integers(2))
        data, axis = (np.ascontiguousarray(x.T), 0) if by_columns else (x, 1)
        with configuration(target, threads):
            got = (
                halfulp.reduce_log_sum(np.abs(data), [axis], keepdims=0),
                halfulp.logsumexp(data, axis=axis),
            )
        for name, ours, want in zip(("sum", "exp"), got, by_mpfr(x), strict=True):
            different = np.flatnonzero(bits(ours) != bits(want))
            compared += len(want)
            wrong += len(different)
            for i in different[:3]:
                where = f"{dtype} {shape} {target} {threads} {data.shape} row {i}"
                print(f"{name}: {where}: {ours[i]!r}, not {want[i]!r}", flush=True)
    print(f"{compared} results, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
