"""Write cases for run_cases.cpp: hard rows of every term, finished in every way, and of
reductions that are no sums.

The bits expected are those of the oracle.

python tests/native/make_cases.py FILE
"""

from __future__ import annotations

import math
import os
import secrets
import struct
import sys
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import known_rows
import signed_rows
from adversarial import hard
from halfulp.conformance.bits import bits, from_bits
from halfulp.conformance.cases import hard_rows
from halfulp.element_types import element_type
from halfulp.exact import FINISHES, TERMS, exact, round_exact
from halfulp.reductions import (
    LOG_SUM_EXP,
    MAX,
    MIN,
    PROD,
    SUM_SQUARE,
    Finish,
    Reduction,
    Term,
)
from oracle import FLOATS, INTEGERS, expected

LENGTHS = (1, 2, 3, 5, 8, 15, 17, 33, 64, 79, 83, 159, 165, 300, 325)
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
    results = expected(x, axis, dtype, term=term, finish=finish)
    checked = 0
    if x.dtype.kind in "iu" and dtype.kind in "iu" and finish == "none":
        info = np.iinfo(dtype)
        sums = exact(replace(SUM_SQUARE, term=term), x, axis).tolist()
        checked = 1 if all(info.min <= s <= info.max for s in sums) else 2
    header = (*codes, axis, transposed, checked, 0)
    write(file, ("sum", term, finish), header, x, results)


def write(
    file: BinaryIO,
    names: tuple[str, str, str],
    header: tuple[int, ...],
    x: np.ndarray,
    results: np.ndarray,
) -> None:
    """Write what run_cases.cpp reads."""
    encoded = (name.encode() for name in names)
    file.write(struct.pack("<16s16s16s6i2q", *encoded, *header, *x.shape))
    file.write(x.tobytes("A"))
    file.write(results.tobytes())


def write_row(file: BinaryIO, row: Reduction, x: np.ndarray, dtype: np.dtype) -> None:
    """Write what a row of the table gives that is no sum: rows, then columns."""
    values = exact(row, x, 1)
    results = np.array([round_exact(value, dtype) for value in values], dtype)
    if row.gives_elements and dtype in FLOATS:
        # Zeros of either sign are the same number.
        with np.errstate(invalid="ignore"):
            signed = np.signbit(x.astype(float))
        signs = signed.all(1) if row is MAX else signed.any(1)
        zeros = results == 0
        results[zeros] = np.copysign(np.zeros(len(x)), 0.5 - signs).astype(dtype)[zeros]
    names = (row.operation, row.term, row.finish)
    codes = (element_type(x.dtype).code, element_type(dtype).code)
    write(file, names, (*codes, 1, 0, 0, 0), x, results)
    write(file, names, (*codes, 1, 1, 0, 0), np.asfortranarray(x), results)


def write_others(file: BinaryIO, rng: np.random.Generator) -> None:
    """Write maxima, minima, products and log-sum-exp."""
    lengths = (1, 2, 3, 8, 17, 64, 65, 130)
    for dtype in (*FLOATS, *INTEGERS):
        for n in lengths:
            if dtype in FLOATS:
                raw = rng.integers(0, 2 ** (8 * dtype.itemsize), (ROWS, n), np.uint64)
                any_kind = from_bits(raw.astype(f"u{dtype.itemsize}"), dtype)
                zeros = np.copysign(0, rng.normal(size=(ROWS, n))).astype(dtype)
                near_1 = (rng.normal(0, 1, (ROWS, n)) * 1.5).astype(dtype)
                small = (near_1 - math.log(n)).astype(dtype)
                far = (near_1 * 200 - 300).astype(dtype)
                far[:, n // 2] = np.array([0, -0.0, 1e-30, 3])[np.arange(ROWS) % 4]
                rare = near_1.copy()
                places = np.arange(ROWS), rng.integers(n, size=ROWS)
                rare[places] = np.resize([math.inf, -math.inf, math.nan, 0, -0.0], ROWS)
                kinds = [any_kind, zeros, near_1, small, far, rare]
            else:
                whole = any_integers(rng, dtype, n)
                kinds = [whole, whole >> dtype.type(8 * dtype.itemsize - 5)]
            for x in kinds:
                for row in (MAX, MIN, PROD, LOG_SUM_EXP):
                    write_row(file, row, x, dtype)
                write_row(file, LOG_SUM_EXP, x, FLOATS[rng.integers(len(FLOATS))])
                write_row(file, PROD, x, FLOATS[rng.integers(len(FLOATS))])
        # Few columns, which are read as more; what is greatest at either end.
        for n in (1100, 2101):
            whole = dtype not in FLOATS
            x = any_integers(rng, dtype, n)[:3] if whole else rng.normal(1, 0.1, (3, n))
            x = np.sort(x.astype(dtype), axis=1)
            for each in (x, x[:, ::-1].copy()):
                for row in (MAX, MIN, PROD):
                    write_row(file, row, each, dtype)


def write_signed(file: BinaryIO, rng: np.random.Generator) -> None:
    """Write what is hard of sums whose terms have signs."""
    for dtype in FLOATS:
        for family in signed_rows.FAMILIES:
            for n in LENGTHS + signed_rows.LENGTHS:
                x = family(rng, dtype, ROWS if n < 400 else 4, n)
                write_case(file, x, 1, dtype, "value")
                write_case(file, np.asfortranarray(x), 1, dtype, "value")
                write_case(file, x, 1, FLOATS[rng.integers(len(FLOATS))], "value")
                write_case(file, x[:6], 0, dtype, "value")
                write_case(file, x, 1, dtype, "value", "mean")
        # Means of sums that are nearly nothing, of either sign.
        for n in (2, 4, 65):
            x = np.zeros((4, n), dtype)
            raw = bits(x)
            raw[:, 0] = [1, 2, n // 2, n]
            for few in (from_bits(raw, dtype), -from_bits(raw, dtype)):
                write_case(file, few, 1, dtype, "value", "mean")
        # More columns than are summed exactly at once; more terms than of any block.
        for shape, axis in (((40, 700), 0), ((2, 33000), 1)):
            x = signed_rows.zero_sums(rng, dtype, shape[1 - axis], shape[axis])
            x = np.ascontiguousarray(x.T) if axis == 0 else x
            write_case(file, x, axis, dtype, "value")
        # One that overflows in TwoSum where blocks are joined.
        for n in (40000, 70000):
            x = signed_rows.two_sum_overflows(rng, dtype, 6, n)
            write_case(file, x, 1, dtype, "value")
            write_case(file, np.ascontiguousarray(x.T), 0, dtype, "value")
        # Blocks whose elements grow.
        x = signed_rows.growing(rng, dtype, 3, 20000)
        write_case(file, x, 1, dtype, "value")
        write_case(file, np.ascontiguousarray(x.T), 0, dtype, "value")


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
            write_case(file, x // (4 * n), 1, dtype, term, finish)
            for to in (*rng.choice(FLOATS, 2), rng.choice(INTEGERS)):
                write_case(file, np.asfortranarray(x), 1, np.dtype(to), term, finish)
        for to in (dtype, *FLOATS):
            write_case(file, np.zeros((3, 0), dtype), 1, to, term, finish)


def write_known(
    file: BinaryIO, rng: np.random.Generator, term: Term, finish: Finish
) -> None:
    """Write what may be known exactly: ties, and what is next to them."""
    for dtype in FLOATS:
        for to in FLOATS:
            if dtype == np.float16 and to == np.float64:
                continue  # whose midpoints are no sums of these
            for n in (16, 70):
                x = known_rows.known_sums(rng, dtype, to, term, finish, (12, n))
                write_case(file, x, 1, to, term, finish)
                write_case(file, np.asfortranarray(x), 1, to, term, finish)
        # Rows of several blocks.
        x = known_rows.known_sums(rng, dtype, dtype, term, finish, (3, 5000))
        write_case(file, x, 1, dtype, term, finish)
        write_case(file, np.asfortranarray(x), 1, dtype, term, finish)


def main() -> None:
    """Write all cases."""
    seed = int(os.environ.get("HALFULP_SEED") or secrets.randbits(32))
    print(f"HALFULP_SEED={seed}")
    rng = np.random.default_rng(seed)
    with open(sys.argv[1], "wb") as file:
        write_squares(file, rng)
        for term in TERMS:
            for finish in FINISHES:
                # Of what may be below 0 there is no root; a logarithm is no midpoint's.
                if finish != "log" and (term, finish) != ("value", "root"):
                    write_finished(file, rng, term, finish)
                    write_known(file, rng, term, finish)
        write_signed(file, rng)
        write_others(file, rng)


if __name__ == "__main__":
    main()
