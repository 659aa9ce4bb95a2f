"""From a result that is hard to round back to elements that have it.

All that generators know of what an operator computes: `preimage` undoes its finish,
`terms_that_sum_to` its term. May import exact, reductions and bits only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from halfulp.conformance.bits import PRECISION
from halfulp.exact import TERMS
from halfulp.reductions import Finish, Term


@dataclass(frozen=True, slots=True)
class Inverse:
    """A term of natural numbers, there and back.

    Attributes
    ----------
    degree : int
        Of x times 2^k the term is 2^(degree k) times as large.
    of : callable
        The term of a number.
    largest : callable
        The largest number whose term is at most the one given.
    """

    degree: int
    of: Callable[[int], int]
    largest: Callable[[int], int]


_LARGEST: dict[Term, Callable[[int], int]] = {
    "square": math.isqrt,
    "magnitude": lambda total: total,
    "value": lambda total: total,
}
INVERSES = {
    term: Inverse(degree, of, _LARGEST[term]) for term, (of, degree) in TERMS.items()
}


def preimage(finish: Finish, result: int, terms: int = 1) -> int:
    """Return the sum, of so many terms, that a finish turns into `result`."""
    return {"none": result, "mean": terms * result, "root": result * result}[finish]


def terms_that_sum_to(
    term: Term, total: int, type_name: str, most: int = 100
) -> list[int]:
    """Return numbers of a type's precision whose terms sum to `total`, or just below.

    Greedy: of degree 2, each takes about half of the precision off what is left.

    Parameters
    ----------
    most : int
        So many numbers at the most; then the sum may be below.
    """
    inverse = INVERSES[term]
    found: list[int] = []
    while total > 0 and len(found) < most:
        number = inverse.largest(total)
        excess = max(number.bit_length() - PRECISION[type_name], 0)
        number = number >> excess << excess
        found.append(number)
        total -= inverse.of(number)
    return found
