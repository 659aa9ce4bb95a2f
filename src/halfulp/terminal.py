"""What the commands share: the option --json, and texts that a terminal takes.

May import nothing of halfulp.
"""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

# Names and shapes in a model may be as long as it is.
_LONGEST = 1000


def printable(text: str) -> str:
    """Return `text` with escapes for what would not print, cut where it is long."""
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "…"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def duration(seconds: float) -> str:
    """Return a time as people write it."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
