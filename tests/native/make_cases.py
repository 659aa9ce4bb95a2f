"""Write cases for run_cases.cpp: hard rows with the bits that the oracle expects.

python tests/native/make_cases.py FILE
"""

from __future__ import annotations

import os
import secrets
import struct
import sys
from pathlib import Path
from typing import BinaryIO

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from halfulp.conformance.cases import hard_rows
from halfulp.element_types import element_type
from oracle import FLOATS, INTEGERS, expected

LENGTHS = (1, 2, 3, 5, 8, 15, 17, 33, 64, 65, 300)
ROWS = 40


def write_case(file: BinaryIO, x: np.ndarray, axis: int, dtype: np.dtype) -> None:
    """Write one case, in C or Fortran order as `x` is."""
    transposed = not x.flags.c_contiguous
    codes = (element_type(x.dtype).code, element_type(dtype).code)
    file.write(struct.pack("<4i2q", *codes, axis, transposed, *x.shape))
    file.write(x.tobytes("A"))
    file.write(expected(x, axis, dtype).tobytes())


def main() -> None:
    """Write all cases."""
    seed = int(os.environ.get("HALFULP_SEED") or secrets.randbits(32))
    print(f"HALFULP_SEED={seed}")
    rng = np.random.default_rng(seed)
    with open(sys.argv[1], "wb") as file:
        for dtype in FLOATS:
            for family in hard_rows.FAMILIES:
                for n in LENGTHS:
                    x = family(rng, dtype, ROWS, n)
                    for same in (x, np.asfortranarray(x)):
                        write_case(file, same, 1, dtype)
                    write_case(file, x, 1, FLOATS[rng.integers(len(FLOATS))])
                    write_case(file, x[:6], 0, dtype)
            for n in (700, 5000):  # blocks of terms, and a bit
                x = hard_rows.wide_exponents(rng, dtype, 3, n)
                write_case(file, x, 1, dtype)
                write_case(file, np.ascontiguousarray(x.T), 0, dtype)
        for dtype in INTEGERS:
            info = np.iinfo(dtype)
            for n in LENGTHS:
                x = rng.integers(info.min, info.max, (ROWS, n), dtype, endpoint=True)
                for same in (x, np.asfortranarray(x)):
                    write_case(file, same, 1, dtype)


if __name__ == "__main__":
    main()
