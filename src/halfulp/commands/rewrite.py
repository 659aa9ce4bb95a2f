"""The commands ``halfulp fuse`` and ``halfulp expand``.

May import limits, terminal and, within functions, output, onnx and rich.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfulp import limits
from halfulp.terminal import AsJson, printable

if TYPE_CHECKING:
    from onnx import ModelProto

    from halfulp.onnx.rewrite import RewriteReport

_Model = Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx file.")]
_Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="OUT", help="Write the model there.")
]


def fuse(model: _Model, output: _Output, as_json: AsJson = False) -> None:
    """Make one ReduceSumSquare of each sum of squares in a model.

    A sum of squares is a ReduceSum of Mul(x, x) or Pow(x, 2). A table says what
    was fused, and what was not and why.

    Example:  halfulp fuse model.onnx -o fused.onnx
    """
    import halfulp.onnx

    limits.look_at(model)
    _check(model, output)
    _write(*halfulp.onnx.fuse(model), output, as_json)


def expand(model: _Model, output: _Output, as_json: AsJson = False) -> None:
    """Make Mul and ReduceSum of each ReduceSumSquare in a model.

    Example:  halfulp expand model.onnx -o expanded.onnx
    """
    import halfulp.onnx

    limits.look_at(model)
    _check(model, output)
    _write(*halfulp.onnx.expand(model), output, as_json)


def _check(model: Path, output: Path) -> None:
    from halfulp.onnx.data_files import data_files
    from halfulp.onnx.files import MODEL_ENDINGS
    from halfulp.output import Output, check_outputs

    wanted = Output("--output", output, MODEL_ENDINGS, replaces=model)
    check_outputs([wanted], [model], lambda: data_files(model))


def _write(model: ModelProto, report: RewriteReport, output: Path, as_json: bool) -> None:
    from halfulp.onnx.files import save_model

    save_model(output, model)
    if as_json:
        print(json.dumps({"output": str(output), **report.as_dict()}))
    else:
        _show(report, output)


def _show(report: RewriteReport, output: Path) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, emoji=False, highlight=False)
    if report.candidates:
        table = Table("node", report.action, "of, or why not", box=box.SIMPLE_HEAD)
        if report.action == "expanded":
            table.columns[2].header = "into, or why not"
        for column in table.columns:
            column.overflow = "fold"
        for candidate in report.candidates:
            done = "yes" if candidate.done else "no"
            table.add_row(printable(candidate.node), done, printable(candidate.reason))
        console.print(table)
    count = f"{report.done} of {len(report.candidates)}"
    console.print(
        f"{report.action} {count}, written to {printable(str(output))}", soft_wrap=True
    )
