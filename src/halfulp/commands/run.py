"""The command ``halfulp run``: run a model and show its outputs.

May import arguments, errors, limits, output and terminal and, within the command, engines
and halfulp.onnx.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from halfulp.commands.engines import ReadyModel

# Made-up sizes or indices may not fit what the model does with them.
_TRIALS = 10


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
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Run it in the other engine too, and tell for each output by how many "
            "ulps they differ at most.",
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Of inputs that are made up. Default: 0."),
    ] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Run a model and show its outputs.

    Without --input, inputs are made up: random numbers of the declared types and shapes.

    If MODEL.expected.npz lies beside MODEL.onnx, the outputs are compared with it.

    Example:  halfulp run model.onnx --input x=x.npy --output y.npz
    """
    from halfulp.commands.engines import ReadyModel, check_engine
    from halfulp.onnx.model.data_files import data_files
    from halfulp.onnx.model.files import given_model
    from halfulp.onnx.run.array_files import ExpectedArrays, declared_sizes, save_arrays
    from halfulp.onnx.run.outputs import compare_bits, output_facts
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
    source = given_model(model)
    opened = ReadyModel(source, engine)
    feeds = _load_inputs(files, declared_sizes(opened.inputs))
    if output is not None:
        _check_writable(opened.outputs, output)
    made_up = None
    choices: Sequence[Callable[[], Mapping[str, Any]]] = [lambda: feeds]
    if not inputs and {value.name for value in opened.inputs} - opened.defaults:
        made_up = _MadeUp(source, opened, seed or 0)
        choices = made_up.choices
        to_compare = None
    elif seed is not None:
        raise ArgumentError("--seed is given; allowed only where inputs are made up")
    outcome = opened.run(*choices)
    other = None
    if compare:
        is_reference = outcome.engine == "reference"
        second = ReadyModel(source, "onnxruntime" if is_reference else "reference")
        other = second.run(lambda: outcome.inputs)
    limits.ran()
    expected = to_compare.load(outcome.outputs) if to_compare else {}
    if output is not None:
        save_arrays(output, outcome.outputs)
    facts: dict[str, Any] = {
        "model": str(model),
        "engine": outcome.engine,
        "outputs": [
            output_facts(k, v, expected.get(k)) for k, v in outcome.outputs.items()
        ],
        "seconds": outcome.seconds,
    }
    if to_compare:
        facts["expected"] = beside.name
    if made_up is not None:
        facts["made_up"] = made_up.facts(outcome.inputs)
    if other is not None:
        facts["compared_with"] = other.engine
        for noted in facts["outputs"]:
            name = noted["name"]
            noted["compared"] = compare_bits(outcome.outputs[name], other.outputs[name])
    if as_json:
        print(json.dumps(facts))
    elif as_csv:
        print(_csv(facts), end="")
        for line in _made_up_lines(facts["made_up"]) if made_up else ():
            print_line(open_console(stderr=True), printable(line))
    else:
        _show_run(facts, open_console(stderr=output == STDIO))


class _MadeUp:
    """Inputs that are made up for a model."""

    def __init__(self, source: Path | bytes, opened: ReadyModel, seed: int) -> None:
        from halfulp.onnx.model.files import load_model
        from halfulp.onnx.run.made_up import InputMaker

        if seed < 0:
            raise ArgumentError(f"--seed is {seed}; allowed: 0 or more")
        self._seed = seed
        self._maker = InputMaker(load_model(source), opened)
        self._sizes: dict[str, int] = {}
        self.choices = [partial(self._make, trial) for trial in range(_TRIALS)]

    def _make(self, trial: int) -> dict[str, Any]:
        # An even number at the end: what may be left out is.
        feeds, self._sizes = self._maker.make("random numbers", self._seed, 2 * trial)
        return feeds

    def facts(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the facts of inputs, the last that were made."""
        from halfulp.onnx.model.tensors import dtype_name

        inputs = {
            name: {"type": dtype_name(array.dtype), "shape": list(array.shape)}
            for name, array in feeds.items()
        }
        return {"seed": self._seed, "inputs": inputs, "sizes": self._sizes}


def _made_up_lines(facts: dict[str, Any]) -> Iterator[str]:
    for name, noted in facts["inputs"].items():
        shape = ", ".join(map(str, noted["shape"]))
        yield f"made up, seed {facts['seed']}: {name} {noted['type']} [{shape}]"
    if facts["sizes"]:
        sizes = ", ".join(f"{name} = {size}" for name, size in facts["sizes"].items())
        yield f"sizes chosen: {sizes}"


def _difference(compared: dict[str, Any], engine: str) -> str:
    if not compared:
        return f"of another type or shape in {engine}"
    line = f"{compared['agree']} of {compared['of']} elements have the bits of {engine}"
    if "ulps" in compared:
        ulps = compared["ulps"]
        line += f", greatest difference {ulps} ulp{'s' * (ulps != 1)}"
    return line


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
    from halfulp.onnx.run.array_files import load_array, load_arrays

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
    if "made_up" in facts:
        for line in _made_up_lines(facts["made_up"]):
            print_line(console, printable(line))
    print_line(console, f"ran in {duration(facts['seconds'])}, engine {facts['engine']}")
    for output in facts["outputs"]:
        name = printable(output["name"])
        if "expected" in output:
            line = _agreement(output["expected"], facts["expected"])
            print_line(console, f"{name}: {line}")
        if "compared" in output:
            line = _difference(output["compared"], facts["compared_with"])
            print_line(console, f"{name}: {line}")


def _csv(facts: dict[str, Any]) -> str:
    kinds = {"expected": ("agree", "of", "greatest_difference")}
    kinds["compared"] = ("agree", "of", "ulps")
    columns = [
        (kind, key)
        for kind, keys in kinds.items()
        if any(kind in output for output in facts["outputs"])
        for key in keys
    ]
    rows = [
        [output["name"], output["type"], *_joined(output)]
        + [output.get(kind, {}).get(key) for kind, key in columns]
        for output in facts["outputs"]
    ]
    more = [f"{kind}_{key}" for kind, key in columns]
    return csv_text(("output", "type", "shape", "first_values", *more), rows)


def _joined(output: dict[str, Any]) -> list[str]:
    return [" ".join(map(str, output[key])) for key in ("shape", "first_values")]


def _agreement(comparison: dict[str, Any], file: str) -> str:
    if "shape" in comparison:
        return f"shape {comparison['shape']} is expected in {file}"
    difference = float(comparison.get("greatest_difference", 0))
    if difference:
        return f"greatest difference {difference:.2g} of the largest magnitude in {file}"
    return f"{comparison['agree']} of {comparison['of']} agree with {file}"
