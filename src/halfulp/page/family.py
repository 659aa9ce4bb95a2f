"""The operators that reduce, beside each other: what each is, its versions and types.

May import element_types and reductions.
"""

from __future__ import annotations

from dataclasses import dataclass

from halfulp.element_types import ELEMENT_TYPES, SMALL_TYPES
from halfulp.reductions import REDUCTIONS, Formula, Reduction

_COMPUTED: dict[Formula, str] = {
    ("sum", "square", "none"): "the sum of the squares",
    ("sum", "value", "none"): "the sum of the elements",
    ("sum", "value", "mean"): "the mean of the elements",
    ("sum", "magnitude", "none"): "the sum of the magnitudes",
    ("sum", "square", "root"): "the square root of the sum of the squares",
    ("max", "value", "none"): "the greatest element",
    ("min", "value", "none"): "the least element",
    ("product", "value", "none"): "the product of the elements",
    ("sum", "value", "log"): "the logarithm of the sum of the elements",
    ("exponentials", "value", "log"): "the logarithm of the sum of e to their powers",
}


@dataclass(frozen=True, slots=True)
class Relative:
    """An operator of the family.

    Attributes
    ----------
    name : str
    computes : str
        What it gives, in words.
    versions : tuple of int
        The oldest first.
    axes_input_since : int
        The first version whose axes are an input.
    types : dict of str to int
        The first version that allows a type, by its name.
    """

    name: str
    computes: str
    versions: tuple[int, ...]
    axes_input_since: int
    types: dict[str, int]


def family() -> tuple[Relative, ...]:
    """Return all operators of the table."""
    return tuple(map(_relative, REDUCTIONS))


def _relative(row: Reduction) -> Relative:
    return Relative(
        row.operator,
        _COMPUTED[row.formula],
        tuple(version.since for version in row.versions),
        row.axes_input_since,
        {
            each.name: row.type_since(each.name)
            for each in (*ELEMENT_TYPES, *SMALL_TYPES)
            if any(each.name in version.types for version in row.versions)
        },
    )
