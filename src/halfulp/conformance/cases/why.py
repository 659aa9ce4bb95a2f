"""Says why a result is the right one: its shape, the exact value, the numbers around it.

May import exact, reductions and bits only.
"""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.conformance.bits import EMAX, PRECISION, Array, bits, from_bits
from halfulp.exact import Exact
from halfulp.reductions import Reduction

# Longer integers are told by their leading digits.
_LONGEST = 40
_LEADING = decimal.Context(
    prec=17,
    rounding=decimal.ROUND_DOWN,
    Emax=decimal.MAX_EMAX,
    Emin=decimal.MIN_EMIN,
    traps=[],
)
_LONG = decimal.Context(prec=1300, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[])
# As many elements are looked at for the one that is hardest to round.
_MOST = 64


def reduction(rank: int, axes: Sequence[int], keepdims: bool, expected: Array) -> str:
    """Return a sentence about the axes that are reduced, and the shape of the result."""
    if not axes:
        which = "No axis is"
    elif len(axes) == rank:
        which = "The only axis is" if rank == 1 else f"All {rank} axes are"
    elif len(axes) == 1:
        which = f"Axis {axes[0]} of {rank} is"
    else:
        which = f"Axes {enumeration([str(axis) for axis in axes])} of {rank} are"
    kept = " and kept with size 1" if axes and keepdims else ""
    shape = list(expected.shape)
    return f"{which} reduced{kept}: the result has shape {shape}."


def enumeration(words: Sequence[str]) -> str:
    """Return words as a sentence has them."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def explain(
    row: Reduction,
    unrounded: Array,
    expected: Array,
    place: tuple[int, ...] | None = None,
) -> str:
    """Return a sentence about an element, by default the one hardest to round.

    Parameters
    ----------
    row : Reduction
    unrounded : numpy.ndarray
        The exact values, as of `exact`.
    expected : numpy.ndarray
        Of the same shape, the same rounded.
    place : tuple of int, optional
        The index of the element.
    """
    if not expected.size:
        return "The result has no elements."
    if place is None:
        place = hardest(unrounded, expected)
    where = f" of element {list(place)}" if expected.size > 1 else ""
    return _sentence(row, unrounded[place], expected[place], where)


def hardest(unrounded: Array, expected: Array) -> tuple[int, ...]:
    """Return the index of the element that is hardest to round, among the first."""
    places = itertools.islice(np.ndindex(expected.shape), _MOST)
    return min(places, key=lambda i: _distance(unrounded[i], expected[i]))


def number(value: Fraction | int) -> str:
    """Return an exact number in text: an integer, m·2^e, or its leading digits."""
    if value < 0:
        return f"-{number(-value)}"
    numerator, denominator = value.numerator, value.denominator
    if denominator == 1 and numerator < 10 ** (_LONGEST // 2):
        return str(numerator)
    power = (numerator & -numerator).bit_length() - denominator.bit_length()
    odd = numerator >> max(power, 0)
    if odd < 10**_LONGEST:
        return f"{odd}·2^{power}" if odd > 1 else f"2^{power}"
    return f"{_leading(value)} (and more digits)"


def value_of(scalar: Any) -> Fraction:
    """Return a finite number of a float type exactly."""
    return Fraction(float(scalar))


def _leading(value: Fraction | int) -> str:
    """Seventeen digits of a positive number, in Python alone: no double holds it."""
    quotient = _LEADING.divide(
        _as_decimal(value.numerator), _as_decimal(value.denominator)
    )
    digits = "".join(map(str, quotient.as_tuple().digits)).ljust(_LEADING.prec, "0")
    return f"{digits[0]}.{digits[1:]}e{quotient.adjusted()}"


def _as_decimal(number: int) -> decimal.Decimal:
    """A whole number; if it is very long, its leading digits, far more than are told."""
    beyond = max(number.bit_length() - 4096, 0)
    high = decimal.Decimal(number >> beyond)
    return _LONG.multiply(high, _LONG.power(2, beyond)) if beyond else high


def _single(value: Exact) -> Fraction | int | float:
    """An exact value; of an irrational one a number beside it that rounds alike."""
    return (value[0] + value[1]) / 2 if isinstance(value, tuple) else value


def _distance(exact: Any, expected: Any) -> float:
    """Of the exact value from the nearest midpoint, in ulps; specials come last."""
    value = _single(exact)
    if isinstance(value, float) or value == 0 or expected.dtype.kind in "iub":
        return 1.0
    if np.isinf(expected):
        return 0.75
    if value == value_of(expected):
        return 0.5
    size = abs(Fraction(value))
    low, high = _around(size, abs(expected))
    return abs(float((size - (low + high) / 2) / (high - low)))


def _around(value: Fraction, expected: Any) -> tuple[Fraction, Fraction]:
    """The numbers of the type around one that is not below 0.

    Above the largest, the next power of two.
    """
    nearest = value_of(expected)
    step = 1 if value > nearest else -1
    other = from_bits(int(bits(expected)) + step, expected.dtype)[()]
    beyond = Fraction(2) ** (EMAX[expected.dtype.name] + 1)
    neighbour = beyond if np.isinf(other) else value_of(other)
    return min(nearest, neighbour), max(nearest, neighbour)


def _what(row: Reduction) -> str:
    """What the exact value is, in a word."""
    if row.ord is not None:
        return "norm"
    if row.operation == "exponentials":
        return "log-sum-exp"
    if row.finish != "none":
        return {"mean": "mean", "log": "logarithm of the sum"}[row.finish]
    others = {"max": "greatest element", "min": "least element"}
    return others.get(row.operation, row.operation)


def _sentence(row: Reduction, exact: Exact, expected: Any, where: str) -> str:
    name = expected.dtype.name
    what = _what(row)
    value = _single(exact)
    if isinstance(value, float):
        return _of_special(row, value, expected, where)
    about = f"The exact {what}{where} is "
    total = f"{about}{'about ' if isinstance(exact, tuple) else ''}{number(value)}"
    if expected.dtype.kind in "iub":
        whole = int(value)
        cut = "" if whole == value else f", cut off {whole}"
        if int(expected) == whole:
            return f"{total}{cut}, which {name} holds."
        width = 8 * expected.dtype.itemsize
        return f"{total}{cut}; modulo 2^{width} that is {int(expected)} in {name}."
    if value < 0:
        # Numbers below 0 round as their sizes do.
        total, expected = f"{total}; of the size {number(-value)}", -expected
        value = -value
    sign = "-" if total.startswith(f"{about}-") else ""
    if np.isinf(expected):
        least = f"at or above {number(threshold(name))}"
        return f"{total}, {least}, from where {name} is {sign or '+'}inf."
    if 0 < value < Fraction(2) ** (1 - EMAX[name]):
        total = f"{total}, subnormal in {name}"
    if value == value_of(expected):
        return f"{total}, which {name} holds."
    low, high = _around(Fraction(value), expected)
    ulp = high - low
    between = f"{total}, between {_in_units(low, ulp)} and {_in_units(high, ulp)}"
    right = _in_units(value_of(expected), ulp)
    offset = (value - (low + high) / 2) / ulp
    if offset == 0:
        return f"{between} of {name}: a tie, and {right} is the even one."
    side = "above" if offset > 0 else "below"
    return (
        f"{between} of {name}; it lies {_ulps(abs(offset))} {side} their midpoint, so "
        f"{right} is nearer."
    )


def _of_special(row: Reduction, value: float, expected: Any, where: str) -> str:
    what = _what(row)
    if math.isnan(value):
        if expected.dtype.kind in "iub":
            return f"There is no element, and the {what}{where} is 0."
        if row.operation == "product":
            return (
                f"The product{where} is NaN: an element is NaN, or an infinity and a "
                "zero meet."
            )
        none = ", or there is no term" if row.finish == "mean" else ""
        if row.finish == "log" and row.operation == "sum":
            none = ", or the sum is less than 0"
        if row.term == "value" and row.operation == "sum":
            return (
                f"The {what}{where} is NaN: a term is NaN, or infinities have both "
                f"signs{none}."
            )
        return f"A term{where} is NaN, and so is the {what}."
    if value == 0:
        return f"The {what}{where} is -0."
    sign = "-" if value < 0 else "+"
    if expected.dtype.kind in "iub":
        end = "least" if value < 0 else "greatest"
        return f"There is no {what}{where}: the {end} value of the type is right."
    if row.operation in ("max", "min"):
        return f"The {what}{where} is {sign}inf, or there is none."
    if row.operation == "exponentials":
        which = "An element" if value > 0 else "Each element"
        return f"{which}{where} is {sign}inf: the {what} is {sign}inf."
    if row.finish == "log" and value < 0:
        return f"The sum{where} is 0: its logarithm is -inf."
    if row.operation == "product":
        return (
            f"An element{where} is infinite, none is 0 and none is NaN: the {what} is "
            f"{sign}inf."
        )
    return f"A term{where} is infinite and none is NaN: the {what} is {sign}inf."


def _in_units(value: Fraction, ulp: Fraction) -> str:
    """A number of a float type: an integer, or its multiple of the last place."""
    if value.denominator == 1 and value < 10 ** (_LONGEST // 2):
        return str(value.numerator)
    power = ulp.numerator.bit_length() - ulp.denominator.bit_length()
    return f"{value / ulp}·2^{power}"


def threshold(name: str) -> int:
    """Return the least sum that rounds to infinity, in a float type."""
    return (1 << EMAX[name] + 1) - (1 << EMAX[name] - PRECISION[name])


def _ulps(offset: Fraction) -> str:
    if offset >= Fraction(1, 1000):
        return f"{float(offset):.3f} ulp"
    exponent = offset.numerator.bit_length() - offset.denominator.bit_length()
    return f"about 2^{exponent} ulp"
