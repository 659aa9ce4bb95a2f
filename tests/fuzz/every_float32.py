"""The logarithm of every float32, and log-sum-exp of every one beside 0.

    python tests/fuzz/every_float32.py [STEP [FIRST]]

`make every-float32` runs it: half an hour. With STEP, one of so many blocks of 2^20 is
tried, FIRST the first. What is right comes from NumPy's functions in binary64, rounded to
binary32, where these are further from a middle than they err; else from `halfulp.exact`.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import halfulp
from halfulp.exact import exact, round_exact
from halfulp.reductions import LOG_SUM, LOG_SUM_EXP, Reduction

_BLOCK = 2**20
# NumPy's functions err by less than some units of 2^-53.
_ERROR = 2.0**-48


def different(row: Reduction, x: np.ndarray, got: np.ndarray, near: np.ndarray) -> int:
    """Count results that are not right; `near` is about what they should be."""
    low = (near - np.abs(near) * _ERROR).astype(np.float32)
    high = (near + np.abs(near) * _ERROR).astype(np.float32)
    want = np.array(low)
    known = (low == high) & (near != 0) & np.isfinite(near)
    nan = np.isnan(near)  # of which there is one
    want.view(np.uint32)[nan] = np.array(np.nan, np.float32).view(np.uint32)
    known |= nan
    for i in np.flatnonzero(~known):
        want[i] = round_exact(exact(row, x[i]), np.float32)
    wrong = np.flatnonzero(want.view(np.uint32) != got.view(np.uint32))
    for i in wrong[:3]:
        print(f"{row.name} of {x[i]} is {want[i]!r}, not {got[i]!r}", flush=True)
    return len(wrong)


def main() -> int:
    """Try all, or some; return 1 if any is wrong."""
    step = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    tried = wrong = 0
    begin = time.monotonic()
    for block in range(first, 2**32 // _BLOCK, step):
        bits = np.arange(block * _BLOCK, (block + 1) * _BLOCK, dtype=np.uint32)
        x = bits.view(np.float32)[:, None]
        both = np.concatenate([x, np.zeros_like(x)], 1)
        with np.errstate(all="ignore"):
            wide = x[:, 0].astype(float)
            log = halfulp.reduce_log_sum(x, [1], keepdims=0)
            wrong += different(LOG_SUM, x, log, np.log(wide))
            log = halfulp.logsumexp(both, axis=1)
            # Below -110 it is above 0 and below half the least number.
            near = np.where(wide < -110, 2.0**-170, np.logaddexp(wide, 0))
            wrong += different(LOG_SUM_EXP, both, log, near)
        tried += 2 * _BLOCK
    print(f"{tried} results, {wrong} wrong, {time.monotonic() - begin:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
