"""The pages of the site that are made when it is built, and their colours.

May import halfulp only, not Sphinx: tests read these pages too.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from halfulp.page import axes, render
from halfulp.reductions import REDUCTIONS, Reduction
from halfulp.report.html import DARK, LIGHT, variables

HERE = Path(__file__).parent


def operator(row: Reduction) -> str:
    """The page that `halfulp docs` makes, beside those of its family."""
    text = render(row.operator, "md", beside=True)
    # The picture in place of the table that says the same.
    shown = f"## {axes.TITLE}\n\n{axes.figures(row)}\n"
    return re.sub(rf"## {axes.TITLE}\n\n(\|.*\n)+", lambda _: shown, text)


def commands() -> str:
    """Every command, option and argument, from what ``--help`` prints."""
    command = "typer halfulp.cli utils docs --name halfulp --title Command-line"
    made = subprocess.run(
        [sys.executable, "-m", *command.split(" ")],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    title, text = "# Command line\n", made.stdout.partition("\n")[2]
    text = re.sub(r"(?m)^Example:  (.*)$", r"Example: `\1`", text)
    # The lists of commands cut their words short: here is room for the whole sentence.
    summaries = dict(re.findall(r"(?m)^##+ `halfulp ([\w ]+)`\n\n(.*)$", text))

    def listed(found: re.Match[str]) -> str:
        name = found[1]
        whole = next(k for k in summaries if k == name or k.endswith(f" {name}"))
        anchor = f"halfulp-{whole.replace(' ', '-')}"
        return f"* [`{name}`](#{anchor}): {summaries[whole]}"

    return title + re.sub(r"(?m)^\* `(\w+)`: .*$", listed, text)


def changelog() -> str:
    """CHANGELOG.md, whose links into docs/ start here."""
    text = (HERE.parent / "CHANGELOG.md").read_text("utf-8")
    return text.replace("](docs/", "](")


def colours() -> str:
    """The colours of halfulp's own HTML pages, by the theme that the reader chose, and
    the style of the picture that the page of the operator shares with them."""
    return (
        f"body {{{variables(LIGHT)} }}\n"
        "@media (prefers-color-scheme: dark) {\n"
        f'  body:not([data-theme="light"]) {{{variables(DARK)} }}\n}}\n'
        f'body[data-theme="dark"] {{{variables(DARK)} }}\n{axes.STYLE}'
    )


def verdict_classes(text: str) -> list[str]:
    """The CSS classes of a verdict in a matrix of docs/conformance.md."""
    if text in ("", "0", "refused"):
        return {"": [], "0": ["good"], "refused": ["refused"]}[text]
    return ["warn" if text[0].isdigit() else "bad"]


MADE: dict[str, Callable[[], str]] = {
    **{f"operators/{row.operator}.md": partial(operator, row) for row in REDUCTIONS},
    "reference/commands.md": commands,
    "changelog.md": changelog,
    "_static/colours.css": colours,
}


def write() -> None:
    """Write each page of `MADE` that is not there or has changed."""
    for name, make in MADE.items():
        target, text = HERE / name, make()
        target.parent.mkdir(exist_ok=True)
        if not target.is_file() or target.read_text("utf-8") != text:
            target.write_text(text, "utf-8")
