"""Rows that are hard to reduce right, of every type and for every row of the table.

For floats those of `halfulp.conformance.cases.hard_rows`, `signed_rows` and `known_rows`,
for integers those at the borders of types. And the layouts in which one matrix may lie.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import known_rows
import signed_rows
from halfulp.conformance.bits import PRECISION
from halfulp.conformance.cases import hard_rows
from halfulp.conformance.cases.hard_rows import Family, Generator
from halfulp.conformance.cases.preimages import INVERSES, preimage
from halfulp.reductions import Finish, Reduction, Term
from oracle import FLOATS, arrays


def hard(family: Family, term: Term, finish: Finish, dtype: np.dtype) -> Family:
    """A family for a term, a finish and results of a dtype, as far as it knows them."""
    options = inspect.signature(family).parameters
    known = {"term": term, "finish": finish, "rounded_to": dtype}
    return partial(family, **{name: known[name] for name in known if name in options})


def borders(dtype: np.dtype) -> list[int]:
    """The numbers of an integer type, or bool, that are next to those of others."""
    if dtype.kind == "b":
        return [0, 1]
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    near = {n + i for n in (low, -(2**31), -1, 0, 2**31, high) for i in (-1, 0, 1)}
    return sorted(n for n in near if low <= n <= high)


def border_integers(rng: Generator, dtype: np.dtype, rows: int, n: int) -> np.ndarray:
    """Numbers at the borders; rows of one number alone, or of it and its opposite."""
    values = np.array(borders(dtype), dtype)
    x = rng.choice(values, (rows, n))
    x[1::3] = rng.choice(values, (len(x[1::3]), 1))
    if dtype.kind == "i":
        x[1::3, ::2] = -x[1::3, ::2]
    x[2::3] = rng.choice(values[[0, -1]], (len(x[2::3]), 1))
    return x


def any_integers(rng: Generator, dtype: np.dtype, rows: int, n: int) -> np.ndarray:
    """Numbers of any size, each row of its own."""
    if dtype.kind == "b":
        return rng.integers(0, 2, (rows, n)).astype(bool)
    x = arrays(rng, dtype, (rows, n))
    return x >> rng.integers(0, 8 * dtype.itemsize, (rows, 1)).astype(dtype)


def integer_results(
    rng: Generator,
    dtype: np.dtype,
    rows: int,
    n: int,
    rounded_to: np.dtype,
    *,
    term: Term,
    finish: Finish,
) -> np.ndarray:
    """Results next to midpoints of a float type, or to the borders of an integer one."""
    high = 1 if dtype.kind == "b" else int(np.iinfo(dtype).max)
    x = np.zeros((rows, n), dtype)
    for row in x:
        if rounded_to in FLOATS:
            p = PRECISION[rounded_to.name]
            result = (2 * int(rng.integers(2 ** (p - 1), 2**p)) + 1) << int(
                rng.integers(0, 40)
            )
        else:
            result = int(rng.choice([abs(b) for b in borders(rounded_to)]))
        left = preimage(finish, result, n) + int(rng.integers(-2, 3))
        if finish == "root" and rng.integers(2):  # up to the next root
            left = (result + 1) ** 2 - int(rng.integers(0, 3))
        left = max(left, 0)
        for i in rng.permutation(n):
            row[i] = min(INVERSES[term].largest(left), high)
            left -= INVERSES[term].of(int(row[i]))
    if dtype.kind == "i" and term == "value":
        x[::2] = -x[::2]
    return x


def known_sums(
    rng: Generator,
    dtype: np.dtype,
    rows: int,
    n: int,
    rounded_to: np.dtype,
    *,
    term: Term,
    finish: Finish,
) -> np.ndarray:
    """Sums of few bits beside ties, of 16 elements or more; of fewer, zeros."""
    if n < 16:
        return np.zeros((rows, n), dtype)
    return known_rows.known_sums(rng, dtype, rounded_to, term, finish, (rows, n))


def name_of(family: Family | partial[Any]) -> str:
    """The name of a family, of those made from others too."""
    if isinstance(family, partial):
        return name_of(family.func)
    return family.__qualname__


def families(dtype: np.dtype) -> list[Callable[..., np.ndarray]]:
    """What rows of a type are made by."""
    if dtype in FLOATS:
        return [*hard_rows.FAMILIES, *signed_rows.FAMILIES, known_sums]
    return [border_integers, any_integers, integer_results]


def rows_for(
    rng: Generator, row: Reduction, dtype: np.dtype, into: np.dtype, rows: int, n: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield rows of each family, made for results of a dtype, and the family's name."""
    for family in families(dtype):
        yield (
            name_of(family),
            hard(family, row.term, row.finish, into)(rng, dtype, rows, n),
        )


def layouts(
    rng: Generator, x: np.ndarray
) -> Iterator[tuple[str, np.ndarray, Any, dict[str, Any]]]:
    """Yield arrays, axes and other arguments with which each row of x is reduced.

    Of a matrix; the results are one array in any case, of any shape.
    """
    rows, n = x.shape
    yield "rows", x, 1, {}
    yield "columns", np.ascontiguousarray(x.T), 0, {}
    yield "columns of Fortran", np.asfortranarray(x), 1, {}
    apart = np.repeat(x, 3, axis=1)
    yield "apart", apart[:, ::3], 1, {}
    yield "backwards", np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1], 1, {}
    if x.dtype.name != "bfloat16":
        yield "swapped", x.astype(x.dtype.newbyteorder()), 1, {}
    memory = np.empty(x.nbytes + 1, np.uint8)
    unaligned = memory[1:].view(x.dtype).reshape(x.shape)
    unaligned[...] = x
    yield "unaligned", unaligned, 1, {}
    inner = next((k for k in (4, 3, 2) if rows % k == 0), 1)
    middle = np.ascontiguousarray(x.reshape(-1, inner, n).swapaxes(1, 2))
    yield "middle", middle, 1, {}
    parts = next((k for k in (5, 4, 3, 2) if n % k == 0), 1)
    around = np.ascontiguousarray(x.reshape(rows, parts, -1).swapaxes(0, 1))
    yield "around", around, (0, 2), {}
    # Among others that do not count, which may be anything.
    wide = rng.permuted(np.repeat([[True], [False]], n, axis=0).T.ravel()[None], axis=1)
    where = np.repeat(wide, rows, axis=0)
    bits = rng.integers(0, 256, (rows, 2 * n * x.dtype.itemsize)).astype(np.uint8)
    among = bits.view(x.dtype)
    among[:, wide[0]] = x
    yield "masked", among, 1, {"where": where}
    yield "masked columns", np.ascontiguousarray(among.T), 0, {"where": where.T}
    yield "one mask", among, 1, {"where": wide}
