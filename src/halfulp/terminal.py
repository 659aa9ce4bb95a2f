"""What the commands share: options, and texts and tables for people and for pipes.

May import errors and output only.

In a pipe every row is one line, however long. In a terminal prose wraps between words,
and a table that is too wide comes as a list of its rows: names and numbers stay whole.
"""

from __future__ import annotations

import csv
import io
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from halfulp.errors import ArgumentError
from halfulp.output import STDIO

# Of a column of values: with a short name, the table has 80 columns then.
_WIDTH = 40

# Of a column of prose, at least.
_PROSE = 24

# Of a pipe, which has no width.
_ENDLESS = 2**20

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print the table as CSV.")]

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


def open_console(*, stderr: bool = False) -> Console:
    """Return a console that takes nothing in a text for markup."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream is not None and stream.isatty() else _ENDLESS
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def new_table(
    *head: str,
    right: Iterable[str] = (),
    prose: Iterable[str] = (),
    edge: bool = True,
) -> Table:
    """Return a table for `print_table`, with these columns on the right and of prose."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=edge, pad_edge=edge)
    for name in head:
        table.add_column(
            name,
            justify="right" if name in right else "left",
            overflow="fold" if name in prose else "ellipsis",
        )
    return table


def print_table(console: Console, table: Table) -> None:
    """Print a table, or a list of its rows where it is too wide.

    Columns whose overflow is "fold" are prose, which wraps between words.
    """
    for column in table.columns:
        cells = [_plain(cell) for cell in (column.header, *column.cells)]
        column.no_wrap = column.overflow != "fold"
        least = max(map(cell_len, cells), default=0)
        if not column.no_wrap:
            words = [cell_len(word) for cell in cells for word in cell.split()]
            least = max(min(least, _PROSE), *words)
        column.min_width = max(least, column.min_width or 0)
    if table.title:
        print_line(console, _plain(table.title), style="italic")
        table.title = None
    endless = console.options.update(max_width=_ENDLESS)
    if Measurement.get(console, endless, table).minimum <= console.width:
        console.print(table)
    else:
        _print_rows(console, table.columns)


def _print_rows(console: Console, columns: Sequence[Column]) -> None:
    """Print each row as lines of heading and cell."""
    width = max(cell_len(_plain(column.header)) for column in columns)
    for row in zip(*(column.cells for column in columns), strict=True):
        for column, cell in zip(columns, row, strict=True):
            if _plain(cell):
                head = Text(f"{_plain(column.header):{width}}  ", "bold")
                text = cell if isinstance(cell, Text) else Text(str(cell))
                console.print(head + text, soft_wrap=True)
        console.print()


def _plain(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def print_line(console: Console, text: str, indent: int = 0, style: str = "") -> None:
    """Print a text, wrapped between words where the console has a width."""
    width = max(console.width - indent, 1)
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    for line in lines or [""]:
        console.print(Text(" " * indent + line, style), soft_wrap=True)


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print lines, wrapped as `print_line` does, each with the indent that it has."""
    for line in lines:
        text = line.lstrip()
        print_line(console, text, len(line) - len(text))


def csv_text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV, None as nothing, lists as their members apart by spaces.

    A newline in a cell is quoted, not cut.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else value


def check_forms(as_json: bool, as_csv: bool, *outputs: Path | None) -> None:
    """Raise an ArgumentError if a command is to print two things on stdout."""
    if as_json and as_csv:
        raise ArgumentError("--json and --csv are given; allowed: one of them")
    if (as_json or as_csv) and STDIO in outputs:
        option = "--json" if as_json else "--csv"
        raise ArgumentError(f"{option} and an output '-' are given; allowed: one of them")
