"""What several commands share.

May import errors and typer.
"""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def printable(text: str) -> str:
    """Return `text`, or what Python writes for it where it would not print as it is."""
    return text if text.isprintable() else repr(text)
