"""Sums as they are told: rounded, as facts that can be printed, and as arrays in files.

May import element_types, errors, exact_sums, reductions, files' formats and tensors and,
beside it, totals only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from halfulp.element_types import ELEMENT_TYPES, ElementType
from halfulp.errors import ArgumentError, SumOverflowError
from halfulp.exact_sums import ExactSum
from halfulp.files.formats.npy_output import Order, array_writer
from halfulp.files.sums.totals import KINDS, Totals, joined
from halfulp.files.tensors import Array
from halfulp.reductions import SUM_SQUARE, SUMS, Finish, Reduction

# ONNX's names and NumPy's; "float" is ONNX's.
BY_NAME = {name: t for t in ELEMENT_TYPES for name in (t.numpy_name, t.name)}
# How the facts call the sum of a term.
SUM_KEYS = {"value": "sum", "magnitude": "l1", "square": "sum_square"}
_FIRST = 8  # values of an array that are shown
# One bit more than 53 and one that tells whether there are others would do.
_ROOT_BITS = 64


def result_type(name: str | None) -> ElementType | None:
    """Return the element type of a name that ONNX or NumPy has for it.

    Raises
    ------
    ArgumentError
        If it is none of the eight.
    """
    if name is None or name in BY_NAME:
        return None if name is None else BY_NAME[name]
    raise ArgumentError(f"--dtype is {name!r}; allowed: {', '.join(BY_NAME)}")


def named_reduction(name: str) -> Reduction:
    """Return the row of the table of reductions that an option names.

    Raises
    ------
    ArgumentError
        If it is no sum.
    """
    found = {row.name: row for row in SUMS}
    if name not in found:
        raise ArgumentError(f"--reduction is {name!r}; allowed: {', '.join(found)}")
    return found[name]


def reduction_of(totals: Totals, name: str | None) -> Reduction:
    """Return the row that an option names, or else the one that is the plain sum.

    Raises
    ------
    ArgumentError
        If it is of another term than the totals.
    """
    rows = [row for row in SUMS if row.term == totals.term]
    rows.sort(key=lambda row: row.finish != "none")
    if name is not None and named_reduction(name) not in rows:
        raise ArgumentError(
            f"--reduction is {name!r}; allowed of the sums of {totals.term}s that were "
            f"saved: {', '.join(row.name for row in rows)}"
        )
    return rows[0] if name is None else named_reduction(name)


def total_facts(totals: Totals, dtype: ElementType | None) -> dict[str, Any]:
    """Return the facts about sums along all axes, all of which can be JSON.

    Parameters
    ----------
    totals : Totals
    dtype : ElementType, optional
        Of the sums of its kind. Default: double for floats; integers are as large as
        they are.

    Returns
    -------
    dict
        ``totals``, for each kind ("float" and "integer") and, if they are known,
        ``per_tensor``, for each tensor: ``kind`` and ``types``, or ``name`` and ``type``;
        ``elements``; ``dtype`` of the sum or "exact"; ``sum``, ``l1`` or ``sum_square``,
        by the term; for floats ``hex``, the same as `float.hex` has it; of values
        ``mean``, of squares ``norm``, the square root of the exact sum, both rounded once
        to double. NaN and infinity are text; a sum of integers that is
        2**127 or more, which an exact sum does not hold, is None.

    Raises
    ------
    SumOverflowError
        If an integer does not fit `dtype`.
    """
    facts: dict[str, Any] = {"totals": []}
    for kind, exact_sum in totals.whole().items():
        types = totals.types(key for key in totals.exact_sums if KINDS[key[1]] == kind)
        about = {"kind": kind, "types": types}
        facts["totals"].append(
            about | _sum_facts(f"all of {kind} type", exact_sum, dtype)
        )
    if totals.per_tensor:
        facts["per_tensor"] = [
            {"name": key[0], "type": ", ".join(totals.types([key]))}
            | _sum_facts(f"tensor {key[0]!r}", exact_sum, dtype)
            for key, exact_sum in totals.ordered()
        ]
    return facts


def _sum_facts(
    what: str, exact_sum: ExactSum, dtype: ElementType | None
) -> dict[str, Any]:
    facts: dict[str, Any] = {"elements": exact_sum.count}
    key = SUM_KEYS[exact_sum.term]
    exact = None
    with suppress(SumOverflowError):
        exact = exact_sum.exact()
    if KINDS[exact_sum.type] == "float":
        chosen = dtype if dtype and dtype.kind == "float" else BY_NAME["double"]
        value = float(exact_sum.result(chosen.dtype))
        facts |= {"dtype": chosen.name, key: plain(value), "hex": value.hex()}
    elif dtype and dtype.kind == "integer":
        with _named(what):
            value = int(exact_sum.result(dtype.dtype, overflow="raise"))
        facts |= {"dtype": dtype.name, key: value}
    else:
        facts |= {"dtype": "exact", key: exact}
    if exact_sum.term == "value":
        facts["mean"] = plain(float(exact_sum.mean("float64")))
    elif exact_sum.term == "square":
        facts["norm"] = None if exact is None else plain(root(exact))
    return facts


# Gives the sums of a block, rounded to a dtype.
Rounded = Callable[[np.dtype[Any]], Array]


class ArrayOfSums(NamedTuple):
    """Sums along axes that make one array.

    Attributes
    ----------
    name : str
        Of the tensor, or the kind of all.
    types : list of str
        Of the sums.
    stored : list of str
        In the files.
    shape : tuple of int
    elements : function
        Tells how many each sum is of, once all blocks were taken.
    blocks : iterable of function
        One after another in `order`, they have all sums.
    row : Reduction
        What became of each sum.
    order : {"C", "F"}
    """

    name: str
    types: list[str]
    stored: list[str]
    shape: tuple[int, ...]
    elements: Callable[[], int]
    blocks: Iterable[Rounded]
    row: Reduction
    order: Order = "C"


def rounded_sums(
    exact_sums: Iterable[ExactSum], finish: Finish, dtype: np.dtype[Any]
) -> Array:
    """Return what the sum of exact sums of one kind finishes as, rounded, or raise."""
    (exact_sum,) = joined(exact_sums).values()
    return np.asarray(exact_sum.result(dtype, overflow="raise", finish=finish))


def merged_arrays(totals: Totals, row: Reduction = SUM_SQUARE) -> Iterator[ArrayOfSums]:
    """Yield the sums along axes that totals have, as `arrays_along` does for files."""
    arrays: dict[tuple[str, str], list[ExactSum]] = {}
    for (name, type), exact_sum in totals.ordered():
        key = (name, type) if totals.per_tensor else (KINDS[type], "")
        arrays.setdefault(key, []).append(exact_sum)
    for (name, _), exact_sums in arrays.items():
        types = sorted(s.type for s in exact_sums)
        elements = partial(sum, [s.count for s in exact_sums])
        blocks = [partial(rounded_sums, exact_sums, row.finish)]
        shape = exact_sums[0].shape
        yield ArrayOfSums(name, types, types, shape, elements, blocks, row)


def array_facts(
    arrays: Iterable[ArrayOfSums], dtype: ElementType | None, output: Path | None
) -> list[dict[str, Any]]:
    """Round sums along axes, write them to a file, and return the facts about them.

    Parameters
    ----------
    arrays : iterable of ArrayOfSums
    dtype : ElementType, optional
        Of the arrays of its kind. Default: double for floats, means and roots; int64 for
        integers, or uint64 where a type is unsigned, of values where all are.
    output : pathlib.Path, optional
        An .npy file for one array, or an .npz file.

    Returns
    -------
    list of dict
        ``name``, ``types``, ``shape``, ``elements`` (of each sum), ``dtype`` and
        ``first_values``.

    Raises
    ------
    SumOverflowError
        If an integer does not fit; nothing is written then.
    ArgumentError
        If the file cannot be written.
    """
    facts = []
    with array_writer(output) as begin:
        for array in arrays:
            element = _array_type(array, dtype)
            write = begin(array.name, array.shape, element.dtype, array.order)
            first: dict[int, Any] = dict.fromkeys(_first_places(array))
            done = 0
            for rounded in array.blocks:
                with _named(repr(array.name)):
                    block = rounded(element.dtype)
                write(block)
                for place in first:
                    if done <= place < done + block.size:
                        first[place] = block.flat[place - done].item()
                done += block.size
            facts.append(
                {
                    "name": array.name,
                    "types": array.stored,
                    "shape": list(array.shape),
                    "elements": array.elements(),
                    "dtype": element.name,
                    "first_values": [plain(v) for v in first.values()],
                }
            )
    return facts


def _first_places(array: ArrayOfSums) -> list[int]:
    """Return where in the order of an array the first values of the array are."""
    count = min(_FIRST, math.prod(array.shape))
    if array.order == "C" or len(array.shape) < 2 or not count:
        return list(range(count))
    index = np.unravel_index(np.arange(count), array.shape)
    return [int(i) for i in np.ravel_multi_index(index, array.shape, order="F")]


def _array_type(array: ArrayOfSums, dtype: ElementType | None) -> ElementType:
    kind = KINDS[array.types[0]] if array.row.finish == "none" else "float"
    if dtype and dtype.kind == kind:
        return dtype
    if kind == "float":
        return BY_NAME["double"]
    unsigned = [t[0] == "u" for t in array.types]
    # Of values with signs and without, some sums may be below 0.
    is_unsigned = all(unsigned) if array.row.term == "value" else any(unsigned)
    return BY_NAME["uint64" if is_unsigned else "int64"]


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Let the error of a sum that does not fit tell which it is."""
    try:
        yield
    except SumOverflowError as error:
        raise SumOverflowError(f"{what}: {error}") from error


def plain(value: float | int) -> float | int | str:
    """Return a number as JSON has it: "nan" and "inf" as text."""
    if isinstance(value, int) or math.isfinite(value):
        return value
    return str(value)


def root(value: Fraction | int | float) -> float:
    """Return the square root, correctly rounded.

    Parameters
    ----------
    value : Fraction, int or float
        Not negative; a Fraction has a power of two below. Of floats NaN and infinity.
    """
    if isinstance(value, float):
        return value
    number, exponent = value.numerator, value.denominator.bit_length() - 1
    shift = max(0, 2 * _ROOT_BITS - number.bit_length())
    shift += (exponent + shift) % 2
    scaled = number << shift
    floor = math.isqrt(scaled)
    # An odd last bit stands for all that were cut off: no tie is taken for one.
    sticky = 2 * floor + (floor * floor != scaled)
    try:
        return sticky / (1 << (exponent + shift) // 2 + 1)
    except OverflowError:
        return math.inf
