"""Arguments that several commands have.

May import errors only.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from halfulp.errors import ArgumentError

Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="An .onnx file, or another of onnx's; - is stdin."
    ),
]


def names_in(given: str, known: Iterable[str], wrong: str) -> list[str]:
    """Return the names in a list with commas, each once.

    Raises
    ------
    ArgumentError
        If one is not known, with the text `wrong`, of places for it and for those known.
    """
    names = list(dict.fromkeys(name.strip() for name in given.split(",")))
    allowed = list(known)
    for name in names:
        if name not in allowed:
            raise ArgumentError(wrong.format(name, ", ".join(allowed)))
    return names
