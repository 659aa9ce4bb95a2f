"""The command ``halfulp docs``.

May import errors and, within the command, output and halfulp.page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from halfulp.errors import ArgumentError

_FORMATS = {
    "md": (".md", ".markdown", ".txt", ""),
    "html": (".html", ".htm", ""),
    "json": (".json", ""),
}


def docs(
    op: Annotated[str, typer.Argument(metavar="OP", help="Such as ReduceSumSquare.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="md|html|json",
            help="Default: what the name of FILE ends with, else md.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the page there; - is stdout."
        ),
    ] = None,
    domain: Annotated[
        str, typer.Option(metavar="D", help="The domain of OP. Default: ai.onnx.")
    ] = "",
) -> None:
    """Show an ONNX operator's page: versions, differences, examples.

    Example:  halfulp docs ReduceSumSquare -o page.html
    """
    from halfulp.output import Output, check_outputs, write_whole

    ending = output.suffix.lower() if output else ""
    if form is None:
        form = next((f for f, endings in _FORMATS.items() if ending in endings), None)
    if form is not None and form not in _FORMATS:
        raise ArgumentError(f"--format is {form!r}; allowed: {', '.join(_FORMATS)}")
    if output is not None:
        forms = _FORMATS if form is None else [form]
        endings = dict.fromkeys(e for each in forms for e in _FORMATS[each])
        check_outputs([Output("--output", output, tuple(endings), text=True)])
    from halfulp.page import render

    text = render(op, form or "md", domain)
    if output is None:
        print(text, end="")
    else:
        write_whole(output, text.encode())
