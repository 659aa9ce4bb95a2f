"""Write cases for run_cases.cpp: hard rows of every term, finished in every way.

The bits expected are those of the oracle.

python tests/native/make_cases.py FILE
"""

from __future__ import annotations

import inspect
import os
import secrets
import struct
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from halfulp.conformance.cases import hard_rows
from halfulp.element_types import element_type
from halfulp.exact import FINISHES, TERMS
from halfulp.reductions import Finish, Term
from oracle import FLOATS, INTEGERS, expected

LENGTHS = (1, 2, 3, 5, 8, 15, 17, 33, 64, 65, 300)
ROWS = 40


def write_case(
    file: BinaryIO,
    x: np.ndarray,
    axis: int,
    dtype: np.dtype,
    term: Term = "square",
    finish: Finish = "none",
) -> None:
    """Write one case, in C or Fortran order as `x` is."""
    transposed = not x.flags.c_contiguous
    codes = (element_type(x.dtype).code, element_type(dtype).code)
    names = (term.encode(), finish.encode())
    file.write(struct.pack("<16s16s4i2q", *names, *codes, axis, transposed, *x.shape))
    file.write(x.tobytes("A"))
    file.write(expected(x, axis, dtype, term=term, finish=finish).tobytes())


def write_squares(file: BinaryIO, rng: np.random.Generator) -> None:
    """Write sums of squares."""
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
        for n in LENGTHS:
            x = any_integers(rng, dtype, n)
            for same in (x, np.asfortranarray(x)):
                write_case(file, same, 1, dtype)


def any_integers(rng: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    """Integers of all sizes, the least and the greatest too, each row of its own."""
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, (ROWS, n), dtype, endpoint=True)
    x >>= rng.integers(0, 8 * dtype.itemsize, (ROWS, 1)).astype(dtype)
    x[::5, 0] = info.min
    x[1::5, -1] = info.max
    return x


def hard(
    family: hard_rows.Family, term: Term, finish: Finish, dtype: np.dtype
) -> Callable[..., np.ndarray]:
    """A family for a term, a finish and results of a dtype, as far as it knows them."""
    options = inspect.signature(family).parameters
    known = {"term": term, "finish": finish, "rounded_to": dtype}
    return partial(family, **{name: known[name] for name in known if name in options})


def write_finished(
    file: BinaryIO, rng: np.random.Generator, term: Term, finish: Finish
) -> None:
    """Write what a term and a finish give: of every type, to every type that it may."""
    for dtype in FLOATS:
        for family in hard_rows.FAMILIES:
            for n in (*LENGTHS[:4], *rng.choice(LENGTHS[4:], 3).tolist()):
                own, other = dtype, FLOATS[rng.integers(len(FLOATS))]
                x = hard(family, term, finish, own)(rng, dtype, ROWS, n)
                write_case(file, x, 1, own, term, finish)
                write_case(file, np.asfortranarray(x), 1, own, term, finish)
                write_case(file, x[:6], 0, own, term, finish)
                x = hard(family, term, finish, other)(rng, dtype, ROWS // 2, n)
                write_case(file, x, 1, other, term, finish)
        for n in (700, 5000):
            x = hard_rows.wide_exponents(rng, dtype, 3, n)
            write_case(file, x, 1, dtype, term, finish)
            write_case(file, np.ascontiguousarray(x.T), 0, dtype, term, finish)
        write_case(file, np.zeros((3, 0), dtype), 1, dtype, term, finish)
        write_case(file, np.zeros((0, 20), dtype), 0, dtype, term, finish)
    for dtype in INTEGERS:
        for n in LENGTHS:
            x = any_integers(rng, dtype, n)
            write_case(file, x, 1, dtype, term, finish)
            for to in (*rng.choice(FLOATS, 2), rng.choice(INTEGERS)):
                write_case(file, np.asfortranarray(x), 1, np.dtype(to), term, finish)
        for to in (dtype, *FLOATS):
            write_case(file, np.zeros((3, 0), dtype), 1, to, term, finish)


def main() -> None:
    """Write all cases."""
    seed = int(os.environ.get("HALFULP_SEED") or secrets.randbits(32))
    print(f"HALFULP_SEED={seed}")
    rng = np.random.default_rng(seed)
    with open(sys.argv[1], "wb") as file:
        write_squares(file, rng)
        for term in TERMS:
            for finish in FINISHES:
                write_finished(file, rng, term, finish)


if __name__ == "__main__":
    main()
