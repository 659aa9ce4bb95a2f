"""Make the tables of native/logarithm.h and native/kernels/exponentials.h, from integers.

    python tests/native/make_coefficients.py

prints them; tests/native/test_native.py holds the sources to what is printed.
"""

from __future__ import annotations

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


if __name__ == "__main__":
    print("\n".join(logarithms()))
