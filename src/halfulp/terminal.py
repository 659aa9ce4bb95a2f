"""What the commands share: the option --json, and texts that a terminal takes.

May import nothing of halfulp.
"""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def printable(text: str) -> str:
    """Return `text`, quoted if it holds what would not show as it is."""
    return text if text.isprintable() else repr(text)


def duration(seconds: float) -> str:
    """Return a time as people write it."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
