"""The command ``halfulp docs``.

May import errors, reductions and, within the command, output and halfulp.page.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from halfulp.errors import ArgumentError
from halfulp.reductions import REDUCTIONS, reduction_named

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
            "--output",
            "-o",
            metavar="FILE",
            help="Write the page there; - is stdout. In a folder that exists: each page "
            "of OP's family, HTML by default, with links from one to the other.",
        ),
    ] = None,
    domain: Annotated[
        str, typer.Option(metavar="D", help="The domain of OP. Default: ai.onnx.")
    ] = "",
) -> None:
    """Show an ONNX operator's page: versions, differences, examples.

    Example:  halfulp docs ReduceSumSquare -o page.html
    """
    from halfulp.output import write_whole

    folder = output is not None and os.path.isdir(output)
    if form is None and output is not None:
        ending = output.suffix.lower()
        by_ending = (f for f, endings in _FORMATS.items() if ending in endings)
        form = "html" if folder else next(by_ending, None)
    if form is not None and form not in _FORMATS:
        raise ArgumentError(f"--format is {form!r}; allowed: {', '.join(_FORMATS)}")
    targets: dict[str, Path | None] = {op: output}
    if output is not None:
        if folder:
            family = REDUCTIONS if reduction_named(op, domain) else ()
            names = [row.operator for row in family] or [op]
            targets = {name: output / f"{name}.{form}" for name in names}
        _check(filter(None, targets.values()), form)
    from halfulp.page import render

    texts = {name: render(name, form or "md", domain, beside=folder) for name in targets}
    for name, target in targets.items():
        if target is None:
            print(texts[name], end="")
        else:
            write_whole(target, texts[name].encode())


def _check(targets: Iterable[Path], form: str | None) -> None:
    """Raise an ArgumentError unless each target may have a page of a format."""
    from halfulp.output import Output, check_outputs

    forms = _FORMATS if form is None else [form]
    endings = dict.fromkeys(ending for each in forms for ending in _FORMATS[each])
    check_outputs(Output("--output", path, tuple(endings), text=True) for path in targets)
