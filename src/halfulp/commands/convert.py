"""The command ``halfulp convert``: a model in another opset.

May import arguments, output, reductions, rewriting, terminal and, within the command,
halfulp.onnx.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from halfulp.commands.arguments import Model
from halfulp.commands.rewriting import Rewritten, Verify, open_source, save, saved_lines
from halfulp.output import STDIO
from halfulp.reductions import reduction_named
from halfulp.terminal import AsJson, check_forms, open_console, print_lines, printable


def convert(
    model: Model,
    opset: Annotated[
        int, typer.Option("--opset", metavar="N", help="The opset wanted, from 1 on.")
    ],
    output: Rewritten,
    verify: Verify = False,
    as_json: AsJson = False,
) -> None:
    """Convert a model to another opset, with the same meaning.

    Every node that reduces takes the form of its new version. Where axes that are
    known only when the model runs have none, norms and sums of squares become
    ReduceSum and what they add.

    Example:  halfulp convert model.onnx --opset 13 -o model13.onnx --verify
    """
    from dataclasses import asdict

    from halfulp.onnx.rewrite.convert import convert as convert_model

    check_forms(as_json, False, output)
    source = open_source(model, output)
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
    exact = all(change.exact for change in done.changes) if verify else None
    save(facts, model, output, (source, done.model), exact)
    if as_json:
        print(json.dumps(facts))
    else:
        print_lines(open_console(stderr=output == STDIO), map(printable, _lines(facts)))


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
        yield f"warning: terms and sums of {rounded} are rounded by the runtime now"
    yield from saved_lines(facts)
