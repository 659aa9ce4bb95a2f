"""What a backend did with a case.

May import bits only.
"""

from __future__ import annotations

from dataclasses import dataclass

from halfulp.conformance.bits import Array


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """It gave outputs.

    Attributes
    ----------
    count : int
        Of outputs; the rest tells of the only one.
    type : str
        The name of its dtype.
    shape : tuple of int
    array : numpy.ndarray or None
        None where ONNX has no such type.
    """

    count: int
    type: str
    shape: tuple[int, ...]
    array: Array | None


@dataclass(frozen=True, slots=True)
class Refused:
    """It raised an error, with this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Crashed:
    """Its process ended, in this way."""

    text: str


@dataclass(frozen=True, slots=True)
class Hung:
    """It gave no answer within the time limit."""

    text: str


# Of a text that a backend gave; some give pages.
_LONGEST = 1000


def one_line(text: str) -> str:
    """Return a text of a backend in one line that a terminal can show."""
    line = " ".join(text.split())[:_LONGEST]
    return "".join(c if c.isprintable() else "\ufffd" for c in line)


Outcome = Answer | Refused | Crashed | Hung
