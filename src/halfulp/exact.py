"""Exact values in plain Python, an oracle that shares no arithmetic with the kernels.

May import arrays, element_types, labels, reductions and spec.rules only; NumPy serves to
view bits.
"""

from __future__ import annotations

import decimal
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from halfulp.arrays import as_array
from halfulp.element_types import (
    ELEMENT_TYPES,
    ElementType,
    data_type,
)
from halfulp.labels import has_labels, sum_with_labels
from halfulp.reductions import MEAN, PROD, SUM, SUM_SQUARE, Finish, Reduction, Term
from halfulp.spec.rules import axes_of, check_flag, norm_of, reduced_shape

# What a whole number adds, and the degree of that: where numbers are in units of u, the
# terms are in units of u to this power.
ExactTerm = tuple[Callable[[int], int], int]

TERMS: dict[Term, ExactTerm] = {
    "square": (lambda n: n * n, 2),
    "magnitude": (abs, 1),
    "value": (lambda n: n, 1),
}

# What is irrational is told by two fractions on both sides of it, between which no value
# of any type lies, nor the middle of two neighbours.
Exact = Fraction | int | float | tuple[Fraction, Fraction]

# What becomes of the sum of so many terms.
ExactFinish = Callable[[Fraction | int | float, int], Exact]

# Places after the binary point: further than those of half the least number of any type.
_ROOT_PLACES = 1200

# Logarithms are computed in decimal digits, of numbers of any exponent.
_DECIMAL = decimal.Context(
    prec=10_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[]
)
_FLOATS = tuple(kind for kind in ELEMENT_TYPES if kind.kind == "float")


def _mean(total: Fraction | int | float, terms: int) -> Exact:
    if not terms:
        return math.nan
    return total if isinstance(total, float) else Fraction(total, terms)


def _root(total: Fraction | int | float, _: int) -> Exact:
    if isinstance(total, float):
        return total
    scaled, rest = divmod(total.numerator << 2 * _ROOT_PLACES, total.denominator)
    root = math.isqrt(scaled)
    below = Fraction(root, 1 << _ROOT_PLACES)
    if rest == 0 and root * root == scaled:
        return below
    return below, Fraction(root + 1, 1 << _ROOT_PLACES)


def _log(total: Fraction | int | float, _: int) -> Exact:
    if isinstance(total, float):
        return math.nan if total == -math.inf else total
    if total <= 0:
        # Below 0 there is none; of whole numbers that is the least, too.
        return -math.inf if total == 0 or isinstance(total, int) else math.nan
    if total == 1:
        return Fraction(0)
    with decimal.localcontext(_DECIMAL) as context:
        # In decimal digits the denominator, a power of 2, leaves nothing over.
        places = total.denominator.bit_length() - 1
        number = decimal.Decimal(total.numerator * 5**places).scaleb(-places)
        return _decided(context, number.ln)


def _decided(
    context: decimal.Context, compute: Callable[[], decimal.Decimal]
) -> tuple[Fraction, Fraction]:
    """Return two fractions around a value that any precision gives to one place."""
    context.prec = 40
    while True:
        value = compute()
        near = Fraction(value)
        width = 2 * Fraction(10) ** (value.adjusted() - context.prec + 1)
        ends = near - width, near + width
        if _are_decided(ends):
            return ends
        context.prec *= 2


def _are_decided(ends: tuple[Fraction, Fraction]) -> bool:
    """Tell whether two fractions round alike, to each type."""
    low, high = ends
    whole = int(low) == int(high) and (low < 0) == (high < 0)
    return whole and all(_float_bits(low, t) == _float_bits(high, t) for t in _FLOATS)


# Less than any difference between numbers of all types, and middles of these.
_TINY = Fraction(1, 2**1200)


def _log_sum_exp(x: np.ndarray[Any, Any], kind: ElementType) -> Exact:
    """Return the logarithm of the sum of e to the power of each element."""
    is_integer = kind.kind == "integer"
    all_ = x.tolist() if is_integer else [float(value) for value in x]
    if any(value != value for value in all_):
        return math.nan
    counts = Counter(value for value in all_ if abs(value) != math.inf)
    if math.inf in all_ or not counts:
        return math.inf if math.inf in all_ else -math.inf
    greatest = Fraction(max(counts))
    terms = counts.total()
    if terms == 1:
        return greatest
    with decimal.localcontext(_DECIMAL) as context:
        # In decimal digits the denominators, powers of 2, leave nothing over.
        differences = []
        for value, count in counts.items():
            less = Fraction(value) - greatest
            number = decimal.Decimal(less.numerator) / decimal.Decimal(less.denominator)
            differences.append((number, count))
        context.prec = 40
        while True:
            parts = (less.exp() * count for less, count in differences)
            above = Fraction(sum(parts, decimal.Decimal(0)).ln())
            width = Fraction(10 * terms, 10**context.prec)
            # It is above the greatest element, by however little.
            ends = (
                greatest + max(_TINY, above - width),
                greatest + max(_TINY, above + width),
            )
            if _are_decided(ends):
                return ends
            context.prec *= 2


FINISHES: dict[Finish, ExactFinish] = {
    "none": lambda total, _: total,
    "mean": _mean,
    "root": _root,
    "log": _log,
}

# Elements that are taken as Python numbers at once.
_PIECE = 2**16


def exact_sum(
    x: Any, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> Any:
    """Sum along axes, exactly, without rounding or overflow.

    Slow and simple: it is meant to check faster ways.

    Parameters
    ----------
    x : array_like
        As for `halfulp.sum`, but no Dask array and no masked array.
    axis : int or tuple of int, optional
        The axes to reduce; None means all.
    keepdims : bool, optional
        Whether reduced axes stay, with length one.

    Returns
    -------
    fractions.Fraction, int, float or numpy.ndarray
        A Fraction for floats, an int for integers; the float ``nan`` where any
        element is NaN or infinities of both signs are, else the float ``inf`` or
        ``-inf`` where any is infinite. Where axes remain, an array of these objects.

    Raises
    ------
    UnsupportedTypeError, AxesError
        Before any work, if an argument is not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> halfulp.exact_sum(np.float64([1e308, 0.25, -1e308]))
    Fraction(1, 4)
    """
    return exact(SUM, x, axis, keepdims=keepdims)


def exact_mean(
    x: Any, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> Any:
    """Arithmetic mean along axes, exactly; see `exact_sum`.

    Parameters
    ----------
    x, axis, keepdims
        As for `exact_sum`.

    Returns
    -------
    fractions.Fraction, float or numpy.ndarray
        A Fraction, of integers too, or a float as of `exact_sum`; ``nan`` is the mean of
        nothing. Where axes remain, an array of these objects.

    Raises
    ------
    UnsupportedTypeError, AxesError
        Before any work, if an argument is not allowed.

    Examples
    --------
    >>> import halfulp
    >>> halfulp.exact_mean([1, 2, 2])
    Fraction(5, 3)
    """
    return exact(MEAN, x, axis, keepdims=keepdims)


def exact_norm(
    x: Any,
    axis: int | Sequence[int] | None = None,
    *,
    ord: float = 2,
    keepdims: bool = False,
) -> Any:
    """Norm of vectors along axes, exactly; see `exact_sum`.

    Parameters
    ----------
    x, axis, keepdims
        As for `exact_sum`.
    ord : {1, 2, inf, -inf}, optional
        As for `halfulp.vector_norm`.

    Returns
    -------
    fractions.Fraction, int, tuple of two Fraction, float or numpy.ndarray
        As of `exact_sum`; where a root is irrational, the greatest fraction below it and
        the least above of those with 1200 binary places. No value of any type lies
        between the two, nor the middle of two neighbours: all results round alike. Where
        axes remain, an array of these objects.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.

    Examples
    --------
    >>> import halfulp
    >>> halfulp.exact_norm([3.0, 4.0])
    Fraction(5, 1)
    >>> below, above = halfulp.exact_norm([1.0, 1.0])
    >>> below**2 < 2 < above**2, float(below)
    (True, 1.4142135623730951)
    """
    return exact(norm_of(ord), x, axis, keepdims=keepdims)


def exact_prod(
    x: Any, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> Any:
    """Product along axes, exactly; see `exact_sum`.

    Parameters
    ----------
    x, axis, keepdims
        As for `exact_sum`.

    Returns
    -------
    fractions.Fraction, int, float or numpy.ndarray
        As of `exact_sum`; ``nan`` also where an infinity and a zero meet, and of floats
        the float ``-0.0`` where the product is zero and an odd number of signs are
        negative.

    Raises
    ------
    UnsupportedTypeError, AxesError
        Before any work, if an argument is not allowed.

    Examples
    --------
    >>> import halfulp
    >>> halfulp.exact_prod([0.5, -3.0, 1.0])
    Fraction(-3, 2)
    >>> halfulp.exact_prod([10**18, 10**18])
    1000000000000000000000000000000000000
    """
    return exact(PROD, x, axis, keepdims=keepdims)


def exact_sum_square(
    x: Any, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> Any:
    """Sum of squares along axes, exactly; see `exact_sum`.

    Parameters
    ----------
    x, axis, keepdims
        As for `exact_sum`.

    Returns
    -------
    fractions.Fraction, int, float or numpy.ndarray
        As of `exact_sum`.

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
    """Reduce along axes exactly, by a row of the table; see `exact_sum`."""
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
    result = np.empty(math.prod(rows.shape[:-1]), dtype=object)
    for i, index in enumerate(np.ndindex(rows.shape[:-1])):
        if row.operation == "exponentials":
            result[i] = _log_sum_exp(rows[index], kind)
            continue
        if row.operation == "product":
            result[i] = _product(rows[index], kind)
            continue
        total = _joined(row, rows[index], kind)
        result[i] = FINISHES[row.finish](total, rows.shape[-1])
    return result.reshape(reduced_shape(array.shape, normal, keepdims))[()]


def _joined(
    row: Reduction, x: np.ndarray[Any, Any], kind: ElementType
) -> Fraction | int | float:
    if row.operation == "sum":
        return _sum(TERMS[row.term], x, kind)
    is_integer = kind.kind == "integer"
    values = x.tolist() if is_integer else [float(value) for value in x]
    if any(value != value for value in values):
        return math.nan
    terms = map(abs, values) if row.term == "magnitude" else values
    if row.operation == "min":
        found = min(terms, default=math.inf, key=_in_order)
    else:
        least = 0 if row.term == "magnitude" else -math.inf
        found = max(terms, default=least, key=_in_order)
    if isinstance(found, float) and math.isinf(found):
        return found
    # No fraction is -0.
    return found if is_integer or str(found) == "-0.0" else Fraction(found)


def _in_order(value: Fraction | int | float) -> tuple[Fraction | int | float, float]:
    """What orders numbers, -0 before +0."""
    return value, math.copysign(1, value) if value == 0 else 0


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


def _product(x: np.ndarray[Any, Any], kind: ElementType) -> Fraction | int | float:
    native = x.astype(x.dtype.newbyteorder("="))
    if kind.kind == "integer":
        integers: list[int] = native.tolist()
        return _multiplied(integers)
    hidden, top = 2**kind.significand_bits, 2**kind.exponent_bits
    negative, power, numbers, infinite = False, 0, [], False
    for value in native.view(f"u{x.dtype.itemsize}").tolist():
        place, number = divmod(value, hidden)
        negative ^= place >= top
        exponent = place % top
        if exponent == top - 1:
            if number:
                return math.nan
            infinite = True
            continue
        number += hidden if exponent else 0
        zeros = max((number & -number).bit_length() - 1, 0)
        numbers.append(number >> zeros)
        power += max(exponent, 1) - 1 - (kind.significand_bits - kind.emin) + zeros
    sign = -1 if negative else 1
    size = _multiplied(numbers)
    if infinite:
        return sign * math.inf if size else math.nan
    if not size:
        return sign * 0.0 if negative else Fraction(0)
    return sign * Fraction(size << max(power, 0), 1 << max(-power, 0))


def _multiplied(numbers: list[int]) -> int:
    """Return the product of whole numbers; by halves, as long factors are slow."""
    if len(numbers) <= 8:
        return math.prod(numbers)
    half = len(numbers) // 2
    return _multiplied(numbers[:half]) * _multiplied(numbers[half:])


def round_exact(value: Exact, dtype: Any) -> Any:
    """Round an exact result to a dtype: floats to nearest even, integers modulo 2^N.

    To an integer, a fraction is cut off, nan is 0, the mean of nothing, and -inf and inf
    are the least and the greatest one.

    Parameters
    ----------
    value : Fraction, int, two Fraction, or the floats nan, inf, -inf and -0.0
        As `exact_sum`, `exact_mean` and `exact_norm` return it.
    dtype : dtype
        One of the eight; or a smaller one, for elements.

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
    kind = data_type(dtype, "dtype is")
    width = 8 * dtype.itemsize
    if isinstance(value, tuple):  # what is between them rounds as their middle does
        value = (value[0] + value[1]) / 2
    if kind.kind == "integer":
        least, greatest = _ends(kind, width)
        specials = {-math.inf: least, math.inf: greatest}
        cut = specials.get(value, 0) if isinstance(value, float) else value
        bits = int(cut) % 2**width
    else:
        bits = _float_bits(value, kind)
    return np.array(bits, dtype=f"u{dtype.itemsize}").view(dtype)[()]


def _ends(kind: ElementType, width: int) -> tuple[int, int]:
    """Return the least and the greatest number of an integer type of so many bits."""
    if kind.name == "bool":
        return 0, 1
    least = -(2 ** (width - 1)) if kind.is_signed else 0
    return least, least + 2**width - 1


def _float_bits(value: Fraction | int | float, kind: ElementType) -> int:
    significand_bits, exponent_bits = kind.significand_bits, kind.exponent_bits
    infinity = ((1 << exponent_bits) - 1) << significand_bits
    if value < 0 or (value == 0 and math.copysign(1, value) < 0):
        return _float_bits(-value, kind) | 1 << significand_bits + exponent_bits
    if value == 0:
        return 0
    if isinstance(value, float):
        return infinity | (value != math.inf) << (significand_bits - 1)
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
