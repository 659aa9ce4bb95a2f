"""Errors of halfulp and its peers against exact results for random arrays.

May import halfulp itself, reductions and, of bench, cells, measure, ours, peers, results
and values only. The exact results come from integers here, which share nothing with the
native kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, permutations
from math import isqrt, prod
from typing import Any

import numpy as np

import halfulp
from halfulp.bench.cells import TYPES
from halfulp.bench.measure import reason
from halfulp.bench.ours import expression
from halfulp.bench.peers import Peer, as_array
from halfulp.bench.results import HALFULP, Errors
from halfulp.bench.values import Array
from halfulp.reductions import Reduction

ACCURACY_TYPES = ("float32", "float16", "bfloat16", "float64")

# The factors keep sums of 10^7 terms within float16, whose largest value is 65504, and
# are powers of two, which change no error.
_FACTORS = {"square": 2.0**-5, "magnitude": 2.0**-8, "value": 2.0**-8}
DISTRIBUTIONS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "uniform(0, 1)": lambda rng, n: rng.random(n),
}

_LIMB = 18
_ROOT_BITS = 130
_SEED = 20180618


def errors_of(
    reduction: Reduction, type_name: str, values: str, n: int, peers: Iterable[Peer]
) -> list[Errors]:
    """Return the errors of halfulp and of peers on random arrays.

    Parameters
    ----------
    reduction : Reduction
    type_name, values : str
        Of `ACCURACY_TYPES` and of `DISTRIBUTIONS`.
    n : int
        Elements; of small arrays several are drawn.
    peers : iterable of Peer
    """
    dtype = TYPES[type_name].dtype
    rng = np.random.default_rng([_SEED, n])
    factor = _FACTORS[reduction.term]
    draws = [
        (DISTRIBUTIONS[values](rng, n) * factor).astype(dtype)
        for _ in range(max(1, min(20, 10**6 // n)))
    ]
    exact = [result_of_integers(reduction, x) for x in draws]
    rows = []

    def add(who: str, value_of: Callable[[Array], Any]) -> None:
        row = Errors(type_name, values, who, n, reduction=reduction.name)
        rows.append(row)
        try:
            for x, result in zip(draws, exact, strict=True):
                got = as_array(value_of(x)).astype(dtype)
                row.ulps.append(error_in_ulps(got, result, type_name))
        except Exception as error:  # whatever another library raises
            row.missing = reason(error)

    def ours(x: Array) -> Any:
        names = {"halfulp": halfulp, "x": x, "axes": None}
        return eval(expression(reduction), names)

    with np.errstate(all="ignore"):
        add(HALFULP, ours)
        for peer in peers:
            if peer.applies(draws[0], None):
                add(peer.name, partial(_asked, peer))
    return rows


def _asked(peer: Peer, x: Array) -> Any:
    return eval(peer.expression, dict(peer.prepare(x, None, 1)))


def error_in_ulps(value: Any, exact: Fraction, type_name: str) -> float:
    """Return how far a value is from an exact result, in ulps of a type there.

    Parameters
    ----------
    value : number
    exact : Fraction
        Not 0.
    type_name : str

    Raises
    ------
    OverflowError, ValueError
        If the value is not finite.
    """
    element = TYPES[type_name]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    ulp = Fraction(2) ** (max(exponent, element.emin) - element.precision + 1)
    return float(abs(Fraction(float(value)) - exact) / ulp)


def result_of_integers(reduction: Reduction, x: Array) -> Fraction:
    """Return the exact result for a flat array of finite floats; roots to 2^-130 of it.

    Significands are integers of at most 53 bits, cut into limbs of 18. Products
    of limbs are below 2^36, so sums of up to 2^27 of them fit 63 bits. They are
    summed by exponent and put together as Python integers.

    Parameters
    ----------
    reduction : Reduction
    x : numpy.ndarray
        Of a float type, of 1 to 2^27 elements.

    Examples
    --------
    >>> from halfulp.reductions import MEAN, SUM_SQUARE
    >>> result_of_integers(SUM_SQUARE, np.array([0.5, 3.0]))
    Fraction(37, 4)
    >>> result_of_integers(MEAN, np.array([0.5, -3.0]))
    Fraction(-5, 4)
    """
    assert 0 < x.size <= 2**27
    fractions, exponents = np.frexp(x.astype(np.float64))
    order = np.argsort(exponents.astype(np.int16), kind="stable")
    integers = np.ldexp(fractions, 53).astype(np.int64)[order]
    signs = np.sign(integers) if reduction.term == "value" else np.int64(1)
    significands = np.abs(integers)
    present, starts = np.unique(exponents[order], return_index=True)
    limbs = [significands >> i * _LIMB & (1 << _LIMB) - 1 for i in range(3)]
    degree = 2 if reduction.term == "square" else 1
    least = int(present[0])
    total = 0  # in units of 2^(degree (least - 53))
    for chosen in combinations_with_replacement(range(3), degree):
        sums = np.add.reduceat(signs * prod(limbs[i] for i in chosen), starts)
        times = len({*permutations(chosen)})
        for exponent, value in zip(present.tolist(), sums.tolist(), strict=True):
            total += value * times << sum(chosen) * _LIMB + degree * (exponent - least)
    result = Fraction(total) * Fraction(2) ** (degree * (least - 53))
    if reduction.finish == "mean":
        return result / x.size
    if reduction.finish == "root":
        scaled = result.numerator * result.denominator << 2 * _ROOT_BITS
        return Fraction(isqrt(scaled), result.denominator << _ROOT_BITS)
    return result
