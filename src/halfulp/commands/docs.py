"""The command ``halfulp docs``.

May import errors and, within the command, output and halfulp.page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from halfulp.errors import ArgumentError

_FORMATS = ("md", "html", "json")


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
        typer.Option("--output", "-o", metavar="FILE", help="Write the page there."),
    ] = None,
    domain: Annotated[
        str, typer.Option(metavar="D", help="The domain of OP. Default: ai.onnx.")
    ] = "",
) -> None:
    """Show the page of an ONNX operator: versions, differences, examples.

    Example:  halfulp docs ReduceSumSquare -o page.html
    """
    from halfulp.output import check_target, write_whole

    if form is None:
        suffix = output.suffix[1:] if output else ""
        form = suffix if suffix in _FORMATS else "md"
    if form not in _FORMATS:
        raise ArgumentError(f"--format is {form!r}; allowed: {', '.join(_FORMATS)}")
    if output is not None:
        check_target(output)
    from halfulp.page import render

    text = render(op, form, domain)
    if output is None:
        print(text, end="")
    else:
        write_whole(output, text.encode())
