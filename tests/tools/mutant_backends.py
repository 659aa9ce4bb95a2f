"""Backends with a planted fault each, and the conditions under which they show it.

A mutant is a function from what is known of a case to the answer of a backend with the
fault. No process runs: what is right is computed once for each case.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

import halfulp
from halfulp.conformance.bits import EMAX
from halfulp.conformance.cases.case import Case
from halfulp.exact import round_exact
from halfulp.spec.rules import reduced_axes
from oracle import PRECISION, bits, from_bits

Array = np.ndarray[Any, Any]


class Facts:
    """What a valid case is, and its right result in the forms that mutants change."""

    def __init__(self, case: Case) -> None:
        assert case.expected is not None
        self.case = case
        self.data = case.data
        self.dtype = case.data.dtype
        self.expected = case.expected
        noop = bool(case.noop_with_empty_axes)
        self.axes = reduced_axes(case.axes, case.data.ndim, noop_with_empty_axes=noop)
        self.rank = case.data.ndim
        self.outputs = case.expected.size
        self.length = int(np.prod([self.data.shape[i] for i in self.axes], dtype=int))
        wide = [axis for axis, size in enumerate(self.data.shape) if size > 1]
        self.innermost_reduced = bool(wide) and wide[-1] in self.axes
        self.innermost_kept = bool(wide) and wide[-1] not in self.axes

    @cached_property
    def rows(self) -> Array:
        """The terms of each output, as the rows of a matrix."""
        kept = [axis for axis in range(self.rank) if axis not in self.axes]
        return self.data.transpose(*kept, *self.axes).reshape(self.outputs, self.length)

    @cached_property
    def around(self) -> tuple[Array, Array, Array]:
        """The numbers below and above each exact sum, and which sums are ties."""
        low, high = self.expected.copy(), self.expected.copy()
        ties = np.zeros(self.expected.shape, bool)
        beyond = Fraction(2) ** (EMAX[self.dtype.name] + 1)
        for place, exact in np.ndenumerate(self.case.unrounded):
            nearest = self.expected[place]
            if isinstance(exact, float):
                continue
            value = beyond if np.isinf(nearest) else Fraction(float(nearest))
            if exact == value:
                continue
            step = 1 if exact > value and np.isfinite(nearest) else -1
            other = from_bits(bits(nearest).astype("i8") + step, self.dtype)[()]
            (low if step < 0 else high)[place] = other
            far = beyond if np.isinf(other) else Fraction(float(other))
            ties[place] = 2 * exact == value + far
        return low, high, ties

    def of_data(self, data: Array, **changes: Any) -> Array:
        """The right result of other data, or of another node."""
        case = dataclasses.replace(self.case, data=data, **changes)
        return halfulp.reduce_sum_square(data, case.axes, **case.attributes)

    def of_axes(self, axes: Any, **changes: Any) -> Array:
        """The right result of the same data along other axes."""
        return self.of_data(self.data, axes=list(axes), **changes)

    def of_rows(self, sums: Array) -> Array:
        """Sums of the rows in the shape of the result."""
        return sums.astype(self.dtype).reshape(self.expected.shape)

    def of_exact(self, change: Callable[[Any], Any]) -> Array:
        """The exact sums, each through a function to a scalar."""
        result = np.empty_like(self.expected)
        for place, exact in np.ndenumerate(self.case.unrounded):
            result[place] = change(exact)
        return result


def directed(which: int) -> Callable[[Facts], Array]:
    return lambda facts: facts.around[which]


def ties_to(which: int) -> Callable[[Facts], Array]:
    def answer(facts: Facts) -> Array:
        return np.where(facts.around[2], facts.around[which], facts.expected)

    return answer


def to_odd(facts: Facts) -> Array:
    low, high, ties = facts.around
    odd = np.where(bits(low) % 2 == 1, low, high)
    return np.where(ties, odd, facts.expected)


def rounded_to(precision: int, exact: Any) -> Any:
    """An exact sum rounded to as many bits, of any exponent."""
    if isinstance(exact, float) or exact == 0:
        return exact
    size = exact.numerator.bit_length() - exact.denominator.bit_length()
    unit = Fraction(2) ** (size - precision)
    if exact >= unit * 2**precision:
        unit *= 2
    return round(exact / unit) * unit


def through(precisions: dict[str, int]) -> Callable[[Facts], Array]:
    def answer(facts: Facts) -> Array:
        precision = precisions[facts.dtype.name]

        def twice(exact: Any) -> Any:
            return round_exact(rounded_to(precision, exact), facts.dtype)

        return facts.of_exact(twice)

    return answer


def through_double(saturates: bool) -> Callable[[Facts], Array]:
    def answer(facts: Facts) -> Array:
        info = np.iinfo(facts.dtype)

        def change(exact: int) -> Any:
            value = int(float(exact))
            value = min(value, info.max) if saturates else value
            return round_exact(value, facts.dtype)

        return facts.of_exact(change)

    return answer


def saturation(facts: Facts) -> Array:
    most = np.iinfo(facts.dtype).max
    return facts.of_exact(lambda exact: min(exact, most))


def narrow_integers(facts: Facts) -> Array:
    return facts.expected.astype(f"{facts.dtype.kind}4").astype(facts.dtype)


def subnormal(array: Array) -> Array:
    least_normal = 2.0 ** (2 - 1 - EMAX[array.dtype.name])
    return np.abs(array.astype(float)) < least_normal


def zero_where(where: Array, array: Array) -> Array:
    return np.where(where, array.dtype.type(0), array)


def flush_inputs(facts: Facts) -> Array:
    return facts.of_data(zero_where(subnormal(facts.data), facts.data))


def flush_squares(facts: Facts) -> Array:
    with np.errstate(all="ignore"):
        squares = facts.data * facts.data
    return facts.of_data(zero_where(subnormal(squares), facts.data))


def flush_results(facts: Facts) -> Array:
    return zero_where(subnormal(facts.expected), facts.expected)


def squares_rounded(facts: Facts) -> Array:
    """The function body with an exact ReduceSum: each square is rounded."""
    with np.errstate(all="ignore"):
        squares = facts.data * facts.data
    sums = exact_sum(squares.astype(float), facts)
    return facts.of_rows(np.array([round_exact(s, facts.dtype) for s in sums]))


def exact_sum(squares: Array, facts: Facts) -> list[Any]:
    rows = Facts.rows.func(_With(squares, facts))
    result: list[Any] = []
    for row in rows:
        if np.isnan(row).any():
            result.append(np.nan)
        elif np.isinf(row).any():
            result.append(np.inf)
        else:
            result.append(sum(map(Fraction, row.tolist()), Fraction(0)))
    return result


class _With:
    """Other data in the shape of a case."""

    def __init__(self, data: Array, facts: Facts) -> None:
        self.data, self.axes, self.rank = data, facts.axes, facts.rank
        self.outputs, self.length = facts.outputs, facts.length


def in_order(dtype_of: Callable[[np.dtype], Any], step: int) -> Callable[[Facts], Array]:
    """Squares and sums in a type, one after another from one end."""

    def answer(facts: Facts) -> Array:
        if not facts.length:
            return facts.expected
        with np.errstate(all="ignore"):
            values = facts.rows.astype(dtype_of(facts.dtype))[:, ::step]
            squares = values * values
            sums = np.add.accumulate(squares, axis=1, dtype=squares.dtype)[:, -1]
            return facts.of_rows(sums)

    return answer


def as_numpy_sums(facts: Facts) -> Array:
    with np.errstate(all="ignore"):
        rows = np.ascontiguousarray(facts.rows)
        return facts.of_rows(np.sum(rows * rows, axis=1, dtype=rows.dtype))


def wider(dtype: np.dtype) -> Any:
    return {2: np.float32, 4: np.float64, 8: np.longdouble}[dtype.itemsize]


def without(place: int) -> Callable[[Facts], Array]:
    """The term at a place of each sum left out."""

    def answer(facts: Facts) -> Array:
        if not facts.axes or not facts.data.size:
            return facts.expected
        index: list[Any] = [slice(None)] * facts.rank
        for axis in facts.axes:
            index[axis] = place if place < 0 else place % facts.data.shape[axis]
        data = facts.data.copy()
        data[tuple(index)] = 0
        return facts.of_data(data)

    return answer


def without_tail(width: int) -> Callable[[Facts], Array]:
    """What is past the last whole vector of a sum left out, if there is one."""

    def answer(facts: Facts) -> Array:
        whole = facts.length // width * width
        if not whole or whole == facts.length:
            return facts.expected
        rows = np.ascontiguousarray(facts.rows[:, :whole])
        return facts.of_rows(halfulp.reduce_sum_square(rows, axes=[1]))

    return answer


def special(wrong: Callable[[Array], Array], value: Any) -> Callable[[Facts], Array]:
    """Results of a kind replaced."""

    def answer(facts: Facts) -> Array:
        with np.errstate(all="ignore"):
            other = np.asarray(value(facts)).astype(facts.dtype)
        return np.where(wrong(facts.expected), other, facts.expected)

    return answer


def largest(facts: Facts) -> Array:
    inf = np.array(np.inf, facts.dtype)
    return from_bits(bits(inf) - 1, facts.dtype)


def nan_ignored(facts: Facts) -> Array:
    return facts.of_data(zero_where(np.isnan(facts.data), facts.data))


def inf_ignored(facts: Facts) -> Array:
    return facts.of_data(zero_where(np.isinf(facts.data), facts.data))


def nan_becomes_inf(facts: Facts) -> Array:
    infinite = np.isinf(facts.rows).any(axis=1).reshape(facts.expected.shape)
    inf = facts.dtype.type(np.inf)
    return np.where(np.isnan(facts.expected) & infinite, inf, facts.expected)


def wrong_axis(facts: Facts) -> Array:
    """Of two and more axes the last is taken for its neighbour."""
    if len(facts.axes) < 2 or len(facts.axes) == facts.rank:
        return facts.expected
    others = [axis for axis in range(facts.rank) if axis not in facts.axes]
    return facts.of_axes([*facts.axes[:-1], others[-1]])


def first_axis_only(facts: Facts) -> Array:
    return facts.of_axes(facts.axes[:1]) if len(facts.axes) > 1 else facts.expected


def mirrored_axis(facts: Facts) -> Array:
    """An axis is counted from the wrong end."""
    if not facts.axes or facts.case.axes is None or not len(facts.case.axes):
        return facts.expected
    return facts.of_axes([facts.rank - 1 - axis for axis in facts.axes])


def negative_axis(facts: Facts) -> Array:
    """Negative axes are counted from one too far."""
    given = facts.case.axes
    if given is None or not any(axis < 0 for axis in np.ravel(given)):
        return facts.expected
    return facts.of_axes([a if a >= 0 else (a - 1) % facts.rank for a in given])


def noop_ignored(facts: Facts) -> Array:
    if facts.case.noop_with_empty_axes != 1 or facts.axes:
        return facts.expected
    return facts.of_data(facts.data, noop_with_empty_axes=0)


def always_noop(facts: Facts) -> Array:
    given = facts.case.axes
    if given is not None and len(given):
        return facts.expected
    return facts.of_data(facts.data, noop_with_empty_axes=1)


def duplicates_twice(facts: Facts) -> Array:
    given = facts.case.axes
    if given is None or len(np.ravel(given)) == len(facts.axes) or not len(given):
        return facts.expected
    sums = facts.case.unrounded * (len(np.ravel(given)) - len(facts.axes) + 1)
    result = np.empty_like(facts.expected)
    for place, value in np.ndenumerate(sums):
        result[place] = round_exact(value, facts.dtype)
    return result


def keeps(flag: int) -> Callable[[Facts], Array]:
    return lambda facts: facts.of_data(facts.data, keepdims=flag)


def last_repeated(facts: Facts) -> Array:
    result = facts.expected.copy()
    if result.size > 1:
        result.reshape(-1)[-1] = result.reshape(-1)[-2]
    return result


def first_everywhere(facts: Facts) -> Array:
    if not facts.outputs:
        return facts.expected
    return np.full_like(facts.expected, facts.expected.reshape(-1)[0])


@dataclass(frozen=True)
class Mutant:
    """A planted fault.

    Attributes
    ----------
    name : str
    kinds : str
        Of the dtypes that can show it: "f" for floats, "iu" for integers.
    answer : callable
    says : str
        What the explanation of a case that finds it has in it.
    since : int
        The first version that can show it, or that has cases enough.
    types : tuple of str, optional
        That can show it, if not all of the kinds.
    """

    name: str
    kinds: str
    answer: Callable[[Facts], Array]
    says: str
    since: int = 1
    types: tuple[str, ...] = ()

    def shows_in(self, case: Case) -> bool:
        """Whether the fault can show in the type and version of a case."""
        kind = "iu" if case.data.dtype.kind in "iu" else "f"
        return (
            kind in self.kinds
            and case.version >= self.since
            and (not self.types or case.type in self.types)
        )


HALVES = ("bfloat16", "float16")
WIDER = {"bfloat16": 24, "float16": 24, "float32": 53, "float64": 64}
SHAPE = r"the result has shape"
TERMS = r"of each \d+|Each of the \d+ terms"

# Sums of squares are never negative: to round down is to truncate, and ties that go up
# go away from zero.
MUTANTS = (
    Mutant("rounds up", "f", directed(1), "below their midpoint"),
    Mutant("rounds down", "f", directed(0), "above their midpoint"),
    Mutant("ties up", "f", ties_to(1), "a tie"),
    Mutant("ties down", "f", ties_to(0), "a tie"),
    Mutant("ties to odd", "f", to_odd, "a tie"),
    Mutant("rounds twice", "f", through(WIDER), "would be a tie"),
    Mutant(
        "rounds twice through binary64",
        "f",
        through(dict.fromkeys(PRECISION, 53)),
        "53 bits first",
        types=(*HALVES, "float32"),
    ),
    Mutant(
        "flushes subnormal elements", "f", flush_inputs, "elements (that )?are subnormal"
    ),
    Mutant(
        "flushes subnormal squares",
        "f",
        flush_squares,
        "squares? .*subnormal|Each square is less",
    ),
    Mutant("flushes subnormal results", "f", flush_results, "subnormal"),
    Mutant(
        "gives -0",
        "f",
        special(lambda y: y == 0, lambda f: -0.0),
        r"is \+0|which .* holds",
    ),
    Mutant("NaN becomes 0", "f", special(np.isnan, lambda f: 0), "is NaN, and so is"),
    Mutant("NaN is ignored", "f", nan_ignored, "is NaN, and so is"),
    Mutant(
        "NaN with infinity becomes infinity", "f", nan_becomes_inf, "is NaN, and so is"
    ),
    Mutant("infinity becomes the largest", "f", special(np.isinf, largest), r"\+inf"),
    Mutant("infinity becomes NaN", "f", special(np.isinf, lambda f: np.nan), r"\+inf"),
    Mutant("infinity is ignored", "f", inf_ignored, r"the sum is \+inf"),
    Mutant("squares are rounded", "f", squares_rounded, "midpoint|tie"),
    Mutant("sums in order", "f", in_order(lambda t: t, 1), "square|tie|midpoint"),
    Mutant("sums in reverse", "f", in_order(lambda t: t, -1), "square|tie|midpoint"),
    Mutant("sums by pairs", "f", as_numpy_sums, "square|tie|midpoint"),
    Mutant("sums in a wider type", "f", in_order(wider, 1), "would be a tie"),
    Mutant("saturates", "iu", saturation, "modulo 2"),
    Mutant("goes through double", "iu", through_double(False), "floating point|modulo 2"),
    Mutant(
        "goes through double and saturates",
        "iu",
        through_double(True),
        "floating point|modulo 2",
    ),
    Mutant(
        "sums in 32 bits",
        "iu",
        narrow_integers,
        "the sum fits|The sum fits|floating|modulo",
        types=("int64", "uint64"),
    ),
    Mutant("leaves out the last", "fiu", without(-1), "at the end|terms counts"),
    Mutant("leaves out the first", "fiu", without(0), "at the front|terms counts"),
    Mutant("leaves out what is past vectors of 8", "fiu", without_tail(8), TERMS),
    Mutant(
        "leaves out what is past vectors of 64", "fiu", without_tail(64), TERMS, since=18
    ),
    Mutant("takes a wrong axis of two", "fiu", wrong_axis, SHAPE),
    Mutant("reduces one axis of two", "fiu", first_axis_only, SHAPE),
    Mutant("counts axes from the other end", "fiu", mirrored_axis, SHAPE),
    Mutant("counts negative axes from too far", "fiu", negative_axis, SHAPE, since=11),
    Mutant(
        "ignores noop_with_empty_axes",
        "fiu",
        noop_ignored,
        "Each element is squared, and no more",
        since=18,
    ),
    Mutant("takes empty axes for none", "fiu", always_noop, SHAPE),
    Mutant(
        "counts an axis that is given twice twice",
        "fiu",
        duplicates_twice,
        "same axis twice",
        since=11,
    ),
    Mutant("keeps dimensions always", "fiu", keeps(1), SHAPE),
    Mutant("drops dimensions always", "fiu", keeps(0), SHAPE),
    Mutant("repeats an output", "fiu", last_repeated, "The exact sum"),
    Mutant("gives one output to all", "fiu", first_everywhere, "The exact sum"),
)

CONDITIONS: dict[str, Callable[[Facts], bool]] = {
    "everywhere": lambda facts: True,
    "one output": lambda facts: facts.outputs == 1,
    "128 terms": lambda facts: facts.length >= 128,
    "rank 3": lambda facts: facts.rank >= 3,
    "16 outputs": lambda facts: facts.outputs >= 16,
    "innermost kept": lambda facts: facts.innermost_kept,
    "innermost reduced": lambda facts: facts.innermost_reduced,
}
