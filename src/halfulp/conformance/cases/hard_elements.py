"""What the elements of hard cases of floats are made of, whatever reduces them.

May import bits, hard_rows and hard_sums only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from halfulp.conformance.bits import Array
from halfulp.conformance.cases import hard_rows
from halfulp.conformance.cases.hard_sums import Elements, HardSum

DType = np.dtype[Any]
Generator = np.random.Generator

_INF, _NAN = np.inf, np.nan

#: Elements that are no numbers, by the kinds of their cases.
SPECIALS: dict[str, list[float]] = {
    "nan": [_NAN],
    "inf": [_INF],
    "negative_inf": [-_INF],
    "nan_and_inf": [_INF, _NAN, -_INF],
}
#: Both, where their signs are told apart.
BOTH_INFINITIES: dict[str, list[float]] = {"both_infs": [_INF, -_INF]}

#: Families that elements of random cases are drawn from.
FAMILIES: Sequence[hard_rows.Family] = (
    hard_rows.normal_values,
    hard_rows.wide_exponents,
    hard_rows.bits_below_two,
    hard_rows.any_bits,
)


def all_hard(make: Callable[[Generator, int], Any], dtype: DType) -> Elements:
    """Elements that are all hard."""

    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        return np.asarray(make(rng, length)).astype(dtype), np.zeros(0, dtype)

    return elements


def fixed(values: Sequence[Any] | Array) -> Callable[[Generator], Array]:
    """The same hard elements each time."""
    return lambda rng: np.asarray(values)


def full(value: Any) -> Callable[[Generator, int], Array]:
    """As many equal elements as are asked for."""
    return lambda rng, count: np.full(count, value)


def of_family(
    family: hard_rows.Family, dtype: DType, rows: int = 1
) -> Callable[[int], Elements]:
    """Elements of a family; which of its rows is asked for."""

    def of_row(row: int) -> Elements:
        return all_hard(lambda rng, n: family(rng, dtype, rows, n)[row], dtype)

    return of_row


def among(
    hard: Callable[[Generator], Sequence[Any] | Array],
    others: Callable[[Generator, int], Any],
    dtype: DType,
) -> Elements:
    """Some elements in the place of the hard ones, and others for the rest."""

    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        values = np.asarray(hard(rng)).astype(dtype)
        count = max(length - len(values), 0)
        return values, np.asarray(others(rng, count)).astype(dtype)

    return elements


def among_normal_values(hard: Array) -> Elements:
    """Elements among those of a normal distribution."""
    dtype = hard.dtype

    def others(rng: Generator, count: int) -> Array:
        result: Array = hard_rows.normal_values(rng, dtype, 1, count)[0]
        return result

    return among(fixed(hard), others, dtype)


def large_and_ones(dtype: DType, large: int, most: int) -> Elements:
    """A large number, and at most so many ones."""

    def elements(rng: Generator, length: int) -> tuple[Array, Array]:
        ones = np.zeros(length - 1, dtype)
        ones[rng.permutation(length - 1)[:most]] = 1
        return np.array([large]).astype(dtype), ones

    return elements


def specials(kinds: dict[str, list[float]], dtype: DType) -> Iterator[HardSum]:
    """Yield each kind of elements that are no numbers, among normal values."""
    for kind, values in kinds.items():
        elements = among_normal_values(np.array(values).astype(dtype))
        yield HardSum("inf and nan", kind, elements)


def random(
    dtype: DType, families: Sequence[hard_rows.Family] = FAMILIES
) -> Iterator[HardSum]:
    """Yield elements of each family."""
    for family in families:
        yield HardSum("random", family.__name__, of_family(family, dtype)(0))
