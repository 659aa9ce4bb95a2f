"""Make the tables of native/logarithm.h and native/kernels/exponentials.h, from integers.

    python tests/native/make_coefficients.py

prints them; tests/native/test_native.py holds the sources to what is printed.
"""

from __future__ import annotations

import math
from fractions import Fraction

PLACES = 400  # binary ones of all fractions


def log(x: Fraction) -> Fraction:
    """Return the logarithm of x, to within 2^-390."""
    v = (x - 1) / (x + 1)  # log x = 2 artanh v
    power = v_rounded = Fraction(round(v * 2**PLACES), 2**PLACES)
    square = v_rounded**2
    total, i = Fraction(0), 1
    while abs(power) > Fraction(1, 2**PLACES):
        total += power / i
        power = Fraction(round(power * square * 2**PLACES), 2**PLACES)
        i += 2
    return 2 * Fraction(round(total * 2**PLACES), 2**PLACES)


def shortened(x: Fraction, bits: int) -> float:
    """Return x as a number of binary64 that is a multiple of 2^-bits."""
    return float(Fraction(round(x * 2**bits), 2**bits))


def logarithms() -> list[str]:
    """The logarithms of 64 / n in two numbers: of 2, and for n from 45 to 91."""
    two = log(Fraction(2))
    high = shortened(two, 42)
    low = float(two - Fraction(high))
    lines = ["// 2", f"{{{high.hex()}, {low.hex()}}},"]
    for n in range(45, 92):
        value = log(Fraction(64, n))
        high = float(value)
        low = float(value - Fraction(high))
        lines.append(f"{{{high.hex()}, {low.hex()}}},  // {n}")
    return lines


def exponential(degree: int, most: Fraction) -> list[float]:
    """Return a polynomial near to e^x for sizes of x up to `most`, the constant first.

    It is e^x at the zeros of a polynomial of Chebyshev's.
    """
    points = [
        most * Fraction(math.cos(math.pi * (2 * i + 1) / (2 * degree + 2)))
        for i in range(degree + 1)
    ]
    # Newton's divided differences, then the coefficients.
    values = [taylor(x) for x in points]
    for step in range(1, degree + 1):
        for i in range(degree, step - 1, -1):
            values[i] = (values[i] - values[i - 1]) / (points[i] - points[i - step])
    coefficients = [Fraction(0)]
    for value, point in zip(reversed(values), reversed(points), strict=True):
        shifted = [Fraction(0), *coefficients]
        coefficients = [
            a - point * b for a, b in zip(shifted, [*coefficients, 0], strict=True)
        ]
        coefficients[0] += value
    return [float(c) for c in coefficients[: degree + 1]]


def taylor(x: Fraction) -> Fraction:
    """Return e^x for sizes of x up to 1/2, to within 2^-100."""
    return sum((x**i / math.factorial(i) for i in range(25)), Fraction(0))


def bound(coefficients: list[float], most: Fraction, pieces: int = 4096) -> Fraction:
    """Return a bound of how far a polynomial is from e^x: see `exponential`.

    On each piece the difference is at most that in its middle, and half its width times
    a bound of the derivative.
    """
    differences = [
        Fraction(c) - Fraction(1, math.factorial(i)) for i, c in enumerate(coefficients)
    ]
    rest = Fraction(1, 2**20)  # of the derivative: the terms of e^x beyond
    slope = rest * most ** len(coefficients) + sum(
        i * abs(d) * most ** (i - 1) for i, d in enumerate(differences) if i
    )
    half = most / pieces
    worst = Fraction(0)
    for i in range(pieces):
        middle = -most + (2 * i + 1) * half
        rounded = Fraction(round(middle * 2**60), 2**60)
        value = Fraction(0)
        for c in reversed(coefficients):
            value = value * rounded + Fraction(c)
        worst = max(worst, abs(value - taylor(rounded)))
    return worst + slope * (half + Fraction(1, 2**60)) + Fraction(1, 2**100)


# Sizes of what is left of a number, less a multiple of log 2.
MOST = Fraction(3466, 10000)
DEGREE = 8


def exponentials() -> list[str]:
    """The polynomial near e^x, a coefficient a line."""
    coefficients = exponential(DEGREE, MOST)
    return [f"{c.hex()}," for c in coefficients]


def check() -> None:
    """Raise unless the polynomial is as near as docs/exactness.md says."""
    coefficients = [float.fromhex(line.rstrip(",")) for line in exponentials()]
    assert bound(coefficients, MOST, 1024) < Fraction(1, 2**36)


if __name__ == "__main__":
    check()
    print("\n".join([*logarithms(), *exponentials()]))
