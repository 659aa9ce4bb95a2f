"""Markdown: tables, code, and prose whose lines are folded.

Imports nothing of halfulp.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

# What makes a line more than the next one of its paragraph.
_SPECIAL = re.compile(r" *([-+*]( |$)|-{2,}|=+$|#|>|```|~~~|\d+[.)])")

# The rules below a head, for figures and for signs; words have "---".
RIGHT, CENTRED = "---:", ":---:"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], rules: Sequence[str] | str = "---"
) -> list[str]:
    """Return the lines of a table.

    Parameters
    ----------
    head : sequence of str
    rows : sequence of sequence of str
    rules : sequence of str or str, optional
        Of each column; or of all but the first, which has words.
    """
    if isinstance(rules, str):
        rules = ["---", *[rules] * (len(head) - 1)]
    lines = [" | ".join(text.replace("|", "\\|") for text in row) for row in rows]
    return [
        f"| {' | '.join(head)} |",
        f"|{'|'.join(rules)}|",
        *(f"| {line} |" for line in lines),
    ]


def fence(text: str, language: str = "text") -> str:
    """Return code, between as many ticks as it needs."""
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks}{language}\n{text}\n{ticks}\n"


def folded(text: str) -> str:
    """Return Markdown whose lines of prose have at most 80 columns, if that is safe.

    Code and tables stay as they are, and so do lines that would be another thing if
    they were folded, as when a line would start with a minus.
    """
    lines = []
    code = False
    for line in text.split("\n"):
        code ^= line.lstrip().startswith("```")
        lead = re.match(r" *([-*] +)?", line)[0]  # type: ignore[index]
        parts = textwrap.wrap(
            line,
            80,
            subsequent_indent=" " * len(lead),
            break_long_words=False,
            break_on_hyphens=False,
        )
        safe = not code and not line.startswith("    ") and "|" not in line
        safe &= not any(_SPECIAL.match(part) for part in parts[1:])
        lines += parts if safe and len(line) > 80 else [line]
    return "\n".join(lines)
