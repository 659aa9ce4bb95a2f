"""How well a colour is told from another, as WCAG 2 defines it."""

from __future__ import annotations


def contrast(one: str, other: str) -> float:
    """The ratio of the luminances of two colours such as ``#116329``: 1 to 21."""
    low, high = sorted([_luminance(one), _luminance(other)])
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    weights = (0.2126, 0.7152, 0.0722)
    return sum(weight * c for weight, c in zip(weights, linear, strict=True))
