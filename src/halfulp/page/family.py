"""The operators that reduce, beside each other: what each is, its versions and types.

May import element_types and reductions.
"""

from __future__ import annotations

from dataclasses import dataclass

from halfulp.element_types import ELEMENT_TYPES
from halfulp.reductions import REDUCTIONS, Finish, Reduction, Term

_TERMS: dict[Term, str] = {
    "value": "the elements",
    "magnitude": "the magnitudes",
    "square": "the squares",
}
_FINISHES: dict[Finish, str] = {
    "none": "the sum of {}",
    "mean": "the mean of {}",
    "root": "the square root of the sum of {}",
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
        _FINISHES[row.finish].format(_TERMS[row.term]),
        tuple(version.since for version in row.versions),
        row.axes_input_since,
        {
            each.name: row.type_since(each.name)
            for each in ELEMENT_TYPES
            if any(each.name in version.types for version in row.versions)
        },
    )
