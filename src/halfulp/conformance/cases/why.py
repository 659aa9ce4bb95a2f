"""Says why a result is the right one: its shape, the exact sum, the numbers around it.

May import bits only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.conformance.bits import EMAX, PRECISION, Array, bits, from_bits

# Longer integers are told by their leading digits.
_LONGEST = 40
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
        first = ", ".join(map(str, axes[:-1]))
        which = f"Axes {first} and {axes[-1]} of {rank} are"
    kept = " and kept with size 1" if axes and keepdims else ""
    shape = list(expected.shape)
    return f"{which} reduced{kept}: the result has shape {shape}."


def explain(
    unrounded: Array, expected: Array, place: tuple[int, ...] | None = None
) -> str:
    """Return a sentence about an element, by default the one hardest to round.

    Parameters
    ----------
    unrounded : numpy.ndarray
        The exact values, of Fraction, int, or the floats nan and inf.
    expected : numpy.ndarray
        Of the same shape, the sums rounded.
    place : tuple of int, optional
        The index of the element.
    """
    if not expected.size:
        return "The result has no elements."
    if place is None:
        place = hardest(unrounded, expected)
    where = f" of element {list(place)}" if expected.size > 1 else ""
    return _sentence(unrounded[place], expected[place], where)


def hardest(unrounded: Array, expected: Array) -> tuple[int, ...]:
    """Return the index of the element that is hardest to round, among the first."""
    places = itertools.islice(np.ndindex(expected.shape), _MOST)
    return min(places, key=lambda i: _distance(unrounded[i], expected[i]))


def number(value: Fraction | int) -> str:
    """Return an exact number in text: an integer, m·2^e, or its leading digits."""
    numerator, denominator = value.numerator, value.denominator
    if denominator == 1 and len(str(numerator)) <= _LONGEST // 2:
        return str(numerator)
    power = (numerator & -numerator).bit_length() - denominator.bit_length()
    odd = numerator >> max(power, 0)
    if len(str(odd)) <= _LONGEST:
        return f"{odd}·2^{power}" if odd > 1 else f"2^{power}"
    return f"{_leading(value)} (and more digits)"


def value_of(scalar: Any) -> Fraction:
    """Return a finite number of a float type exactly."""
    return Fraction(float(scalar))


def _leading(value: Fraction | int) -> str:
    """Seventeen digits of a positive number, in Python alone: no double holds it."""
    numerator, denominator = value.numerator, value.denominator
    exponent = len(str(numerator)) - len(str(denominator))
    if Fraction(value) < Fraction(10) ** exponent:
        exponent -= 1
    digits = str(int(Fraction(value) / Fraction(10) ** (exponent - 16)))
    return f"{digits[0]}.{digits[1:]}e{exponent}"


def _distance(value: Any, expected: Any) -> float:
    """Of the exact sum from the nearest midpoint, in ulps; specials come last."""
    if isinstance(value, float) or value == 0 or expected.dtype.kind in "iu":
        return 1.0
    if np.isinf(expected):
        return 0.75
    if value == value_of(expected):
        return 0.5
    low, high = _around(value, expected)
    return abs(float((value - (low + high) / 2) / (high - low)))


def _around(value: Fraction, expected: Any) -> tuple[Fraction, Fraction]:
    """The numbers of the type around a sum; above the largest, the next power of two."""
    nearest = value_of(expected)
    step = 1 if value > nearest else -1
    other = from_bits(int(bits(expected)) + step, expected.dtype)[()]
    beyond = Fraction(2) ** (EMAX[expected.dtype.name] + 1)
    neighbour = beyond if np.isinf(other) else value_of(other)
    return min(nearest, neighbour), max(nearest, neighbour)


def _sentence(value: Any, expected: Any, where: str) -> str:
    name = expected.dtype.name
    if isinstance(value, float):
        if math.isnan(value):
            return f"A term{where} is NaN, and so is the sum."
        return f"A term{where} is infinite and none is NaN: the sum is +inf."
    total = f"The exact sum{where} is {number(value)}"
    if expected.dtype.kind in "iu":
        if int(expected) == value:
            return f"{total}, which {name} holds."
        width = 8 * expected.dtype.itemsize
        return f"{total}; modulo 2^{width} that is {int(expected)} in {name}."
    if np.isinf(expected):
        return (
            f"{total}, at or above {number(threshold(name))}, from where {name} is +inf."
        )
    if 0 < value < Fraction(2) ** (1 - EMAX[name]):
        total = f"{total}, subnormal in {name}"
    if value == value_of(expected):
        return f"{total}, which {name} holds."
    low, high = _around(value, expected)
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
