"""The commands ``halfulp fuse`` and ``halfulp expand``.

May import arguments, output, rewriting, terminal and rich and, within functions,
halfulp.onnx.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from halfulp.commands.arguments import Model
from halfulp.commands.rewriting import Rewritten, Verify, open_source, save, saved_lines
from halfulp.output import STDIO
from halfulp.terminal import (
    AsCsv,
    AsJson,
    check_forms,
    csv_text,
    new_table,
    open_console,
    print_line,
    print_lines,
    print_table,
    printable,
)

if TYPE_CHECKING:
    from onnx import ModelProto

    from halfulp.onnx.rewrite import RewriteReport


def fuse(
    model: Model,
    output: Rewritten,
    verify: Verify = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Make one node of each norm, sum of squares and log-sum-exp.

    ReduceSum of Mul(x, x) or Pow(x, 2) becomes ReduceSumSquare, ReduceSum of
    Abs(x) ReduceL1, Sqrt of a sum of squares ReduceL2, Log of a ReduceSum
    ReduceLogSum, and that of Exp(x), shifted by a maximum or not, ReduceLogSumExp.
    A table says what was fused, and what was not and why.

    Example:  halfulp fuse model.onnx -o fused.onnx
    """
    from halfulp.onnx import fuse

    _rewrite(fuse, model, output, verify, as_json, as_csv)


def expand(
    model: Model,
    output: Rewritten,
    verify: Verify = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Spell out each norm, sum of squares and log-sum-exp of a model.

    ReduceSumSquare becomes Mul and ReduceSum, ReduceL1 Abs and ReduceSum, ReduceL2
    Mul, ReduceSum and Sqrt, ReduceLogSum ReduceSum and Log, ReduceLogSumExp these
    of Exp, shifted by the maximum. A table says what was expanded, and what was not
    and why.

    Example:  halfulp expand model.onnx -o expanded.onnx
    """
    from halfulp.onnx import expand

    _rewrite(expand, model, output, verify, as_json, as_csv)


def _rewrite(
    rewritten: Callable[[ModelProto], tuple[ModelProto, RewriteReport]],
    path: Path,
    output: Path,
    verify: bool,
    as_json: bool,
    as_csv: bool,
) -> None:
    check_forms(as_json, as_csv, output)
    source = open_source(path, output)
    model, report = rewritten(source)
    facts = {"output": str(output), **report.as_dict()}
    # Terms and sums are rounded otherwise where they are nodes of their own.
    save(facts, path, output, (source, model), not report.done if verify else None)
    if as_json:
        print(json.dumps(facts))
    elif as_csv:
        rows = [(c.node, c.done, c.reason) for c in report.candidates]
        print(csv_text(("node", report.action, "reason"), rows), end="")
    else:
        console = open_console(stderr=output == STDIO)
        _show(report, console)
        print_lines(console, map(printable, saved_lines(facts)))


def _show(report: RewriteReport, console: Console) -> None:
    if report.candidates:
        last = "into" if report.action == "expanded" else "of"
        last += ", or why not"
        table = new_table("node", report.action, last, prose=[last])
        for candidate in report.candidates:
            done = "yes" if candidate.done else "no"
            table.add_row(printable(candidate.node), done, printable(candidate.reason))
        print_table(console, table)
    print_line(console, f"{report.action} {report.done} of {len(report.candidates)}")
