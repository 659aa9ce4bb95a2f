"""Rows whose sums need few bits, and are beside or at what a result ties at.

Sums are known exactly where their bits fit in those of binary64 or binary32: here they
are midpoints of the results, finished, or next to one, of about as many bits.
"""

from __future__ import annotations

import math

import numpy as np

from halfulp.reductions import Finish, Term
from oracle import PRECISION

# The least exponent of a format's numbers, and that above its greatest.
EXPONENTS = {
    "bfloat16": (-133, 128),
    "float16": (-24, 16),
    "float32": (-149, 128),
    "float64": (-1074, 1024),
}


def known_sums(
    rng: np.random.Generator,
    dtype: np.dtype,
    to: np.dtype,
    term: Term,
    finish: Finish,
    shape: tuple[int, int],
) -> np.ndarray:
    """Rows of a type for results of another, of at least 16 elements."""
    x = np.zeros(shape, np.float64)
    for row in x:
        row[:] = _row(rng, dtype, to, term, finish, len(row))
    return x.astype(dtype)


def _row(
    rng: np.random.Generator,
    dtype: np.dtype,
    to: np.dtype,
    term: Term,
    finish: Finish,
    n: int,
) -> np.ndarray:
    precision, least, above = PRECISION[dtype.name], *EXPONENTS[dtype.name]
    for _ in range(50):
        middle = int(rng.integers(2 ** PRECISION[to.name])) | 1 << PRECISION[to.name] | 1
        # So many bits in all, about those of binary32 or binary64.
        bits = int(rng.choice([24, 53])) + int(rng.integers(-2, 4))
        if finish == "root":
            total = middle**2 << 2 * int(rng.integers(3))
        else:
            total = middle << max(0, bits - middle.bit_length())
        if finish == "mean":
            total = n * (total >> n.bit_length() if rng.random() < 0.5 else total)
        total += int(rng.integers(-1, 2))
        parts = _parts(total, precision, 2 if term == "square" else 1)
        if term == "value" and rng.random() < 0.5:
            # What cancels may have more bits than the sum.
            pair = int(rng.integers(2 ** min(precision, 30))) << int(
                rng.choice([0, 40, 80])
            )
            parts += [pair, -pair]
        elif term != "value":
            parts = [int(rng.choice([-1, 1])) * part for part in parts]
        room = above - max(part.bit_length() for part in parts)
        if len(parts) > n or room < least:
            continue
        # Squares of elements of about 2^-63 may be flushed to zero in binary32.
        exponents = [
            least,
            room,
            -63 + int(rng.integers(-3, 4)),
            rng.integers(least, room + 1),
        ]
        exponent = min(max(int(rng.choice(exponents)), least), room)
        row = np.ldexp([*map(float, parts), *[0.0] * (n - len(parts))], exponent)
        return rng.permutation(row)
    return np.zeros(n)  # of a type whose range has no such sums, or none found


def _parts(total: int, precision: int, degree: int) -> list[int]:
    """Numbers of so many bits whose powers add up to a total, the greatest first."""
    parts = []
    while total:
        part = math.isqrt(total) if degree == 2 else total
        more = max(0, part.bit_length() - precision)
        parts.append(part >> more << more)
        total -= parts[-1] ** degree
    return parts
