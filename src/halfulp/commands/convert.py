"""``halfulp convert``: a model in another opset.

May import errors, limits, reductions, terminal, output and, within the command,
halfulp.onnx.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from halfulp import limits
from halfulp.commands.arguments import Model
from halfulp.commands.verified import Verify, verified, verified_lines
from halfulp.output import STDIO
from halfulp.reductions import reduction_named
from halfulp.terminal import AsJson, check_forms, open_console, print_line, printable


def convert(
    model: Model,
    opset: Annotated[
        int, typer.Option("--opset", metavar="N", help="The opset wanted, from 1 on.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="Write the model there, in the format of its ending. It "
            "may be MODEL itself; - is stdout.",
        ),
    ],
    verify: Verify = False,
    as_json: AsJson = False,
) -> None:
    """Convert a model to another opset, with the same meaning.

    Every ReduceSumSquare takes the form of its new version. Axes that are known
    only when the model runs become Mul and ReduceSum below opset 18.

    Example:  halfulp convert model.onnx --opset 13 -o model13.onnx --verify
    """
    from dataclasses import asdict

    from halfulp.onnx.model.data_files import (
        data_files,
        open_to_rewrite,
        save_beside_data,
    )
    from halfulp.onnx.model.files import MODEL_ENDINGS
    from halfulp.onnx.rewrite.convert import convert as convert_model
    from halfulp.output import Output, check_outputs

    check_forms(as_json, False, output)
    limits.look_at(model)
    wanted = Output("--output", output, MODEL_ENDINGS, replaces=model)
    check_outputs([wanted], [model], lambda: data_files(model))
    source = open_to_rewrite(model)
    done = convert_model(source, opset)
    facts: dict[str, Any] = {
        "model": str(model),
        "output": str(output),
        "opset": done.opsets[1],
        "opset_before": done.opsets[0],
        "ir_version": done.model.ir_version,
        "changes": [asdict(change) for change in done.changes],
        "warnings": done.warnings,
    }
    if verify:
        exact = all(change.exact for change in done.changes)
        facts["verified"] = verified(model, source, done.model, exact)
    facts["copied"] = [str(f) for f in save_beside_data(output, done.model, model)]
    if as_json:
        print(json.dumps(facts))
    else:
        console = open_console(stderr=output == STDIO)
        for line in _lines(facts):
            print_line(console, printable(line.lstrip()), len(line) - len(line.lstrip()))


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    before = "none" if facts["opset_before"] is None else facts["opset_before"]
    yield f"opset {before} to {facts['opset']}, IR version {facts['ir_version']}"
    others: Counter[str] = Counter()
    for change in facts["changes"]:
        became = f"{change['old']} is now {change['new']}"
        if reduction_named(change["old"].rpartition("-")[0]):
            yield change["node"]
            yield f"  {became}; {change['how']}" if change["how"] else f"  {became}"
        else:
            others[became] += 1
    for became, count in others.items():
        yield f"{count} other node{'s' * (count > 1)}: {became}"
    for warning in facts["warnings"]:
        yield f"warning: {warning}"
    rounded = sum(not change["exact"] for change in facts["changes"])
    if rounded:
        yield f"warning: squares and sums of {rounded} are rounded by the runtime now"
    yield from (f"copied its data to {copy}" for copy in facts["copied"])
    if "verified" in facts:
        yield from verified_lines(facts["verified"])
