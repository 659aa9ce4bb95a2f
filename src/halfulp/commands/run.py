"""halfulp run: run a model and show its outputs.

May import errors, limits and terminal and, within the command, engines, output and
halfulp.onnx.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from halfulp import limits
from halfulp.commands.arguments import Model
from halfulp.errors import ArgumentError, ModelError
from halfulp.output import STDIO
from halfulp.terminal import (
    AsCsv,
    AsJson,
    check_forms,
    csv_text,
    duration,
    first_values,
    new_table,
    open_console,
    print_line,
    print_table,
    printable,
)


def run(
    model: Model,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=FILE",
            help="Feed input NAME from a .npy, .npz or TensorProto .pb file; or all "
            "inputs from --input FILE.npz, by name. Repeat for more inputs. - is stdin.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.npz",
            help="Write the outputs there, by name; one output also as .npy or .pb; - is "
            "stdout.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="onnxruntime|reference",
            help="What runs the other operators. Default: onnxruntime if it is "
            "installed and runs the model, else reference.",
        ),
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Give up after that time."),
    ] = limits.RUNNING_TIME,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Run a model and show its outputs.

    If MODEL.expected.npz lies beside MODEL.onnx, the outputs are compared with it.

    Example:  halfulp run model.onnx --input x=x.npy --output y.npz
    """
    from halfulp.engines import OpenModel, check_engine
    from halfulp.onnx.data_files import data_files
    from halfulp.onnx.files import (
        ExpectedArrays,
        declared_sizes,
        given_model,
        save_arrays,
    )
    from halfulp.onnx.report import output_facts
    from halfulp.output import Output, check_outputs

    check_forms(as_json, as_csv, output)
    check_engine(engine)
    if not time_limit > 0:
        raise ArgumentError(f"--time-limit is {time_limit:g}; allowed: more than 0")
    limits.run(model, time_limit, "--time-limit")
    files = _named_files(inputs or [])
    beside = model.parent / f"{model.stem}.expected.npz"
    read = [model, *(path for _, path in files)]
    if read.count(STDIO) > 1:
        raise ArgumentError("'-' is given twice; allowed: once, as stdin is one file")
    if output is not None:
        wanted = Output("--output", output, (".npz", ".npy", ".pb"))
        check_outputs([wanted], [*read, beside], lambda: data_files(model))
    to_compare = ExpectedArrays(beside) if beside.is_file() else None
    opened = OpenModel(given_model(model), engine)
    feeds = _load_inputs(files, declared_sizes(opened.inputs))
    if output is not None:
        _check_writable(opened.outputs, output)
    outcome = opened.run(opened.check_inputs(feeds))
    limits.ran()
    expected = to_compare.load(outcome.outputs) if to_compare else {}
    if output is not None:
        save_arrays(output, outcome.outputs)
    facts = {
        "model": str(model),
        "engine": outcome.engine,
        "outputs": [
            output_facts(k, v, expected.get(k)) for k, v in outcome.outputs.items()
        ],
        "seconds": outcome.seconds,
    }
    if to_compare:
        facts["expected"] = beside.name
    if as_json:
        print(json.dumps(facts))
    elif as_csv:
        print(_csv(facts), end="")
    else:
        _show_run(facts, open_console(stderr=output == STDIO))


def _check_writable(outputs: Sequence[Any], path: Path) -> None:
    """Raise unless a file of that name can hold the outputs that a model declares."""
    for value in outputs:
        kind = value.type.WhichOneof("value")
        if kind not in ("tensor_type", None):
            raise ModelError(
                f"output {value.name!r} is a {kind.removesuffix('_type')}; "
                "allowed with --output: tensors only"
            )
    if path.suffix.lower() in (".npy", ".pb") and len(outputs) != 1:
        raise ArgumentError(
            f"--output is {str(path)!r}, but the model has {len(outputs)} outputs; "
            "allowed: an .npz file"
        )


def _named_files(options: Sequence[str]) -> list[tuple[str | None, Path]]:
    """Split the options --input: NAME=FILE, or FILE for all."""
    parts = [option.partition("=") for option in options]
    return [(a, Path(b)) if separator else (None, Path(a)) for a, separator, b in parts]


def _load_inputs(
    files: Sequence[tuple[str | None, Path]], declared: Mapping[str, int]
) -> dict[str, Any]:
    """Read the inputs in files, of all names where none is given."""
    from halfulp.onnx.files import load_array, load_arrays

    feeds: dict[str, Any] = {}
    for name, path in files:
        if name is None:
            loaded = load_arrays(path, declared)
        else:
            loaded = {name: load_array(path, declared.get(name))}
        for key in loaded:
            if key in feeds:
                raise ArgumentError(f"input {key!r} is given twice; allowed: once")
        feeds.update(loaded)
    return feeds


def _show_run(facts: dict[str, Any], console: Console) -> None:
    table = new_table("output", "type", "shape", "first values")
    for output in facts["outputs"]:
        shape = "[" + ", ".join(map(str, output["shape"])) + "]"
        values = first_values(output["first_values"], math.prod(output["shape"]))
        table.add_row(printable(output["name"]), output["type"], shape, printable(values))
    print_table(console, table)
    print_line(console, f"ran in {duration(facts['seconds'])}, engine {facts['engine']}")
    for output in facts["outputs"]:
        if "expected" in output:
            line = _agreement(output["expected"], facts["expected"])
            print_line(console, f"{printable(output['name'])}: {line}")


def _csv(facts: dict[str, Any]) -> str:
    keys = ("agree", "of", "greatest_difference") if "expected" in facts else ()
    rows = [
        [output["name"], output["type"], *_joined(output)]
        + [output.get("expected", {}).get(key) for key in keys]
        for output in facts["outputs"]
    ]
    return csv_text(("output", "type", "shape", "first_values", *keys), rows)


def _joined(output: dict[str, Any]) -> list[str]:
    return [" ".join(map(str, output[key])) for key in ("shape", "first_values")]


def _agreement(comparison: dict[str, Any], file: str) -> str:
    if "shape" in comparison:
        return f"shape {comparison['shape']} is expected in {file}"
    difference = float(comparison.get("greatest_difference", 0))
    if difference:
        return f"greatest difference {difference:.2g} of the largest magnitude in {file}"
    return f"{comparison['agree']} of {comparison['of']} agree with {file}"
