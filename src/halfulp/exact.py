"""Exact values in plain Python, an oracle that shares no arithmetic with the kernels.

May import arrays, element_types, labels, reductions and spec.rules only; NumPy serves to
view bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from halfulp.arrays import as_array
from halfulp.element_types import ElementType, data_type, element_type
from halfulp.labels import has_labels, sum_with_labels
from halfulp.reductions import SUM_SQUARE, Finish, Reduction, Term
from halfulp.spec.rules import axes_of, check_flag, reduced_shape

# What a whole number adds, and the degree of that: where numbers are in units of u, the
# terms are in units of u to this power.
ExactTerm = tuple[Callable[[int], int], int]

TERMS: dict[Term, ExactTerm] = {
    "square": (lambda n: n * n, 2),
    "magnitude": (abs, 1),
    "value": (lambda n: n, 1),
}

# What becomes of the sum of so many terms.
ExactFinish = Callable[[Fraction | int | float, int], Fraction | int | float]

# Places after the binary point: further than those of half the least number of any type.
_ROOT_PLACES = 1200


def _mean(total: Fraction | int | float, terms: int) -> Fraction | float:
    if not terms:
        return math.nan
    return total if isinstance(total, float) else Fraction(total, terms)


def _root(total: Fraction | int | float, _: int) -> Fraction | float:
    # What is irrational is told by a number on its side of all that types round to.
    if isinstance(total, float):
        return total
    numerator, denominator = total.numerator, total.denominator
    scaled, rest = divmod(numerator << 2 * _ROOT_PLACES, denominator)
    root = math.isqrt(scaled)
    between = rest != 0 or root * root != scaled
    return Fraction(2 * root + between, 2 << _ROOT_PLACES)


FINISHES: dict[Finish, ExactFinish] = {
    "none": lambda total, _: total,
    "mean": _mean,
    "root": _root,
}

# Elements that are taken as Python numbers at once.
_PIECE = 2**16


def exact_sum_square(
    x: Any, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> Any:
    """Sum of squares along axes, exactly, without rounding or overflow.

    Slow and simple: it is meant to check faster ways.

    Parameters
    ----------
    x : array_like
        As for `halfulp.sum_square`, but no Dask array and no masked array.
    axis : int or tuple of int, optional
        The axes to sum along; None means all.
    keepdims : bool, optional
        Whether summed axes stay, with length one.

    Returns
    -------
    fractions.Fraction, int, float or numpy.ndarray
        A Fraction for floats, an int for integers; the float ``nan`` where any
        element is NaN, else the float ``inf`` where any is infinite. Where axes
        remain, an array of these objects.

    Raises
    ------
    UnsupportedTypeError, AxesError
        Before any work, if an argument is not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.exact_sum_square(np.float32([0.5, 3]))
    Fraction(37, 4)
    >>> halfulp.exact_sum_square(np.int64([2**62, 1]))
    21267647932558653966460912964485513217
    """
    return exact(SUM_SQUARE, x, axis, keepdims=keepdims)


def exact(
    row: Reduction,
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    keepdims: bool = False,
) -> Any:
    """Reduce along axes exactly, as `exact_sum_square` does for its row of the table."""
    keepdims = check_flag("keepdims", keepdims)
    labelled = has_labels(x)
    array = x if labelled else as_array(x, "x")[0]
    normal = axes_of(axis, array.ndim)
    if labelled:
        return sum_with_labels(x, "x", normal, keepdims, partial(exact, row))
    kind = data_type(array.dtype, "x has dtype")
    kept = [i for i in range(array.ndim) if i not in normal]
    rows = array.transpose(*kept, *normal).reshape(
        *(array.shape[i] for i in kept), math.prod(array.shape[i] for i in normal)
    )
    result = np.empty(rows.shape[:-1], dtype=object)
    for index in np.ndindex(result.shape):
        total = _sum(TERMS[row.term], rows[index], kind)
        result[index] = FINISHES[row.finish](total, rows.shape[-1])
    return result.reshape(reduced_shape(array.shape, normal, keepdims))[()]


def _sum(
    term: ExactTerm, x: np.ndarray[Any, Any], kind: ElementType
) -> Fraction | int | float:
    # Some at a time: long lists take memory, and making them cannot be interrupted.
    pieces = (x[i : i + _PIECE] for i in range(0, len(x), _PIECE))
    native = (piece.astype(x.dtype.newbyteorder("=")) for piece in pieces)
    of, degree = term
    if kind.kind == "integer":
        integers: Iterator[int] = (n for piece in native for n in piece.tolist())
        return sum(map(of, integers))
    hidden, top = 2**kind.significand_bits, 2**kind.exponent_bits
    unsigned = f"u{x.dtype.itemsize}"
    bits = (value for piece in native for value in piece.view(unsigned).tolist())
    # The terms by sign and exponent, in units of the least positive number with that
    # exponent to the power of the degree.
    sums: dict[int, int] = {}
    infinite = set()  # the signs of infinite terms
    for value in bits:
        place, number = divmod(value, hidden)
        exponent = place % top
        if exponent == top - 1:
            if number:
                return math.nan
            infinite.add(of(-1 if place >= top else 1))
            continue
        if exponent:
            number += hidden
        if place >= top:
            number = -number
        sums[place] = sums.get(place, 0) + of(number)
    if infinite:
        return math.nan if len(infinite) > 1 else math.inf * infinite.pop()
    total = 0  # in units of the least positive number to the power of the degree
    for place, of_place in sums.items():
        total += of_place << degree * max(place % top - 1, 0)
    return Fraction(total, 2 ** (degree * (kind.significand_bits - kind.emin)))


def round_exact(value: Fraction | int | float, dtype: Any) -> Any:
    """Round an exact result to a dtype: floats to nearest even, integers modulo 2^N.

    To an integer, a fraction is cut off, and nan is 0: the mean of nothing.

    Parameters
    ----------
    value : Fraction, int, or the floats nan, inf and -inf
    dtype : dtype
        One of the eight.

    Returns
    -------
    numpy scalar

    Examples
    --------
    >>> from fractions import Fraction
    >>> from halfulp.exact import round_exact
    >>> round_exact(Fraction(1, 3), "float16")
    np.float16(0.3333)
    """
    dtype = np.dtype(dtype)
    kind = element_type(dtype)
    width = 8 * dtype.itemsize
    if kind.kind == "integer":
        bits = 0 if isinstance(value, float) else int(value) % 2**width
    else:
        bits = _float_bits(value, kind)
    return np.array(bits, dtype=f"u{dtype.itemsize}").view(dtype)[()]


def _float_bits(value: Fraction | int | float, kind: ElementType) -> int:
    significand_bits, exponent_bits = kind.significand_bits, kind.exponent_bits
    infinity = ((1 << exponent_bits) - 1) << significand_bits
    if value < 0:
        return _float_bits(-value, kind) | 1 << significand_bits + exponent_bits
    if isinstance(value, float):
        return infinity | (value != math.inf) << (significand_bits - 1)
    if value == 0:
        return 0
    numerator, denominator = value.numerator, value.denominator
    exponent = numerator.bit_length() - denominator.bit_length()  # floor(log2) or 1 more
    if numerator << max(-exponent, 0) < denominator << max(exponent, 0):
        exponent -= 1
    # The exponent of the last place of the result: of the binade, or of subnormals.
    least = kind.emin - significand_bits
    place = max(least, exponent - significand_bits)
    divisor = denominator << max(place, 0)
    quotient, rest = divmod(numerator << max(-place, 0), divisor)
    if 2 * rest > divisor or (2 * rest == divisor and quotient % 2):
        quotient += 1
    return min(((place - least) << significand_bits) + quotient, infinity)
