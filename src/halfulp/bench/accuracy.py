"""Errors of halfulp and its peers against exact sums of random arrays.

May import halfulp itself, cells, measure, peers and results only. The exact sums
come from integers here, which share nothing with the native kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

import halfulp
from halfulp.bench.cells import TYPES, Array
from halfulp.bench.measure import reason
from halfulp.bench.peers import Peer, as_array
from halfulp.bench.results import HALFULP, Errors

ACCURACY_TYPES = ("float32", "float16", "bfloat16", "float64")

# The factor keeps sums of 10^7 squares within float16, whose largest value is
# 65504, and is a power of two, which changes no error.
_FACTOR = 2.0**-5
DISTRIBUTIONS = {
    "normal": lambda rng, n: rng.standard_normal(n) * _FACTOR,
    "uniform(0, 1)": lambda rng, n: rng.random(n) * _FACTOR,
}

_LIMB = 18
_SEED = 20180618


def errors_of(type_name: str, values: str, n: int, peers: Iterable[Peer]) -> list[Errors]:
    """Return the errors of halfulp and of peers on random arrays.

    Parameters
    ----------
    type_name, values : str
        Of `ACCURACY_TYPES` and of `DISTRIBUTIONS`.
    n : int
        Elements; of small arrays several are drawn.
    peers : iterable of Peer
    """
    dtype = TYPES[type_name].dtype
    rng = np.random.default_rng([_SEED, n])
    draws = [
        DISTRIBUTIONS[values](rng, n).astype(dtype)
        for _ in range(max(1, min(20, 10**6 // n)))
    ]
    exact = [sum_square_of_integers(x) for x in draws]
    rows = []
    with np.errstate(all="ignore"):
        ours = Errors(type_name, values, HALFULP, n)
        ours.ulps = [
            error_in_ulps(halfulp.sum_square(x), s, type_name)
            for x, s in zip(draws, exact, strict=True)
        ]
        rows.append(ours)
        for peer in peers:
            if not peer.applies(draws[0], None):
                continue
            row = Errors(type_name, values, peer.name, n)
            try:
                for x, s in zip(draws, exact, strict=True):
                    value = eval(peer.expression, dict(peer.prepare(x, None, 1)))
                    got = as_array(value).astype(dtype)
                    row.ulps.append(error_in_ulps(got, s, type_name))
            except Exception as error:  # whatever another library raises
                row.missing = reason(error)
            rows.append(row)
    return rows


def error_in_ulps(value: Any, exact: Fraction, type_name: str) -> float:
    """Return how far a value is from an exact sum, in ulps of a type there.

    Parameters
    ----------
    value : number
    exact : Fraction
        Positive.
    type_name : str

    Raises
    ------
    OverflowError, ValueError
        If the value is not finite.
    """
    element = TYPES[type_name]
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    if Fraction(2) ** exponent > exact:
        exponent -= 1
    ulp = Fraction(2) ** (max(exponent, element.emin) - element.precision + 1)
    return float(abs(Fraction(float(value)) - exact) / ulp)


def sum_square_of_integers(x: Array) -> Fraction:
    """Return the exact sum of squares of a flat array of finite floats.

    Significands are integers of at most 53 bits, cut into limbs of 18. Products
    of limbs are below 2^36, so sums of up to 2^27 of them fit 63 bits. They are
    summed by exponent and put together as Python integers.

    Parameters
    ----------
    x : numpy.ndarray
        Of a float type, of 1 to 2^27 elements.

    Examples
    --------
    >>> sum_square_of_integers(np.array([0.5, 3.0]))
    Fraction(37, 4)
    """
    assert 0 < x.size <= 2**27
    fractions, exponents = np.frexp(np.abs(x).astype(np.float64))
    order = np.argsort(exponents.astype(np.int16), kind="stable")
    significands = np.ldexp(fractions, 53).astype(np.int64)[order]
    present, starts = np.unique(exponents[order], return_index=True)
    limbs = [significands >> i * _LIMB & (1 << _LIMB) - 1 for i in range(3)]
    least = int(present[0])
    total = 0  # in units of 2^(2 (least - 53))
    for i, j in combinations_with_replacement(range(3), 2):
        sums = np.add.reduceat(limbs[i] * limbs[j], starts)
        for exponent, value in zip(present.tolist(), sums.tolist(), strict=True):
            twice = i != j
            total += value << (i + j) * _LIMB + 2 * (exponent - least) + twice
    return Fraction(total) * Fraction(4) ** (least - 53)
