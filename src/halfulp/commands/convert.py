"""``halfulp convert``: a model in another opset.

May import errors, limits, spec.rules, terminal, output and, within the command,
halfulp.onnx.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from halfulp import limits
from halfulp.spec.rules import OPERATOR
from halfulp.terminal import AsJson, open_console, print_line, printable


def convert(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx file.")],
    opset: Annotated[
        int, typer.Option("--opset", metavar="N", help="The opset wanted, from 1 on.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="Write the model there, in one file. It may be MODEL itself.",
        ),
    ],
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="First run both models on made-up inputs. Nothing is written if an "
            "output changes.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Convert a model to another opset, with the same meaning.

    Every ReduceSumSquare takes the form of its new version. Axes that are known
    only when the model runs become Mul and ReduceSum below opset 18.

    Example:  halfulp convert model.onnx --opset 13 -o model13.onnx --verify
    """
    from dataclasses import asdict

    from halfulp.onnx.convert import convert as convert_model
    from halfulp.onnx.data_files import data_files
    from halfulp.onnx.files import MODEL_ENDINGS, load_model, save_model
    from halfulp.output import Output, check_outputs

    limits.look_at(model)
    wanted = Output("--output", output, MODEL_ENDINGS, replaces=model)
    check_outputs([wanted], [model], lambda: data_files(model))
    source = load_model(model)
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
        from halfulp.onnx.verify import verify as verify_models

        limits.run(model)
        exact = all(change.exact for change in done.changes)
        facts["verified"] = verify_models(source, done.model, exact=exact)
        limits.ran()
    save_model(output, done.model)
    if as_json:
        print(json.dumps(facts))
    else:
        _show(facts)


def _show(facts: dict[str, Any]) -> None:
    before = "none" if facts["opset_before"] is None else facts["opset_before"]
    _line(f"opset {before} to {facts['opset']}, IR version {facts['ir_version']}")
    others: Counter[str] = Counter()
    for change in facts["changes"]:
        became = f"{change['old']} is now {change['new']}"
        if change["old"].startswith(f"{OPERATOR}-"):
            _line(change["node"])
            _line(f"  {became}; {change['how']}" if change["how"] else f"  {became}")
        else:
            others[became] += 1
    for became, count in others.items():
        _line(f"{count} other node{'s' * (count > 1)}: {became}")
    for warning in facts["warnings"]:
        _line(f"warning: {warning}")
    rounded = sum(not change["exact"] for change in facts["changes"])
    if rounded:
        _line(f"warning: squares and sums of {rounded} are rounded by the runtime now")
    if "verified" in facts:
        _show_verified(facts["verified"])
    _line(f"wrote {facts['output']}")


def _show_verified(verified: dict[str, Any]) -> None:
    _line(f"ran both {verified['runs']} times on {', '.join(verified['values'])}:")
    for name, noted in verified["inputs"].items():
        shapes = ", ".join(str(shape) for shape in noted["shapes"])
        _line(f"  input {name!r}: {noted['type']} {shapes}")
    for name, noted in verified["outputs"].items():
        agree, of = noted["agree"], noted["of"]
        _line(f"  output {name!r}: {agree} of {of} elements have the same bits")
        if agree != of:
            greatest = float(noted.get("greatest_difference", "inf"))
            _line(f"    greatest difference {greatest:.2g} of the largest magnitude")


def _line(text: str) -> None:
    """Print a line; names in it come from the model."""
    indent = len(text) - len(text.lstrip())
    print_line(open_console(), printable(text.lstrip()), indent)
