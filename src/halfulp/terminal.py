"""What the commands share: the option --json, and texts that a terminal takes.

May import nothing of halfulp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

# Of a column of values: with a short name, the table has 80 columns then.
_WIDTH = 40

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


def first_values(first: Sequence[Any], count: int) -> str:
    """Return as many of the first values as fit one line, out of `count`."""
    texts = [f"{v:.9g}" if isinstance(v, float) else str(v) for v in first]
    shown = [text[:_WIDTH] + "..." * (len(text) > _WIDTH) for text in texts[:1]]
    for text in texts[1:]:
        if len("  ".join([*shown, text])) > _WIDTH:
            break
        shown.append(text)
    return "  ".join(shown) + "  ..." * (len(shown) < count)
