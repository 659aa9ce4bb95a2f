"""The command line.

May import errors, bench.command, commands and, within a command, engines and
halfulp.onnx. Only this module, the commands and reports import typer and rich; onnx is
loaded when a model is run.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import math
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

import halfulp
from halfulp.bench.command import app as bench
from halfulp.commands.verify import verify
from halfulp.errors import ArgumentError, HalfulpError, ModelError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.add_typer(bench, name="bench")
app.command(no_args_is_help=False)(verify)

# Of the column of values: with a short name, the table has 80 columns then.
_WIDTH = 40

_AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.

    Returns
    -------
    int
        The exit code: 0; 2 after bad input, told in one line on stderr; 130
        after an interrupt; 1 if nobody reads the output any more.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app(args=arguments, prog_name="halfulp", standalone_mode=False)
        sys.stdout.flush()
    except HalfulpError as error:
        return _fail(str(error))
    except typer.TyperException as error:
        return _fail(error.format_message())
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _drop_output()
        return 1
    except OSError as error:
        _drop_output()
        return _fail(str(error))
    return code or 0


def _drop_output() -> None:
    """Let the interpreter flush stdout in vain when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> int:
    print(f"halfulp: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"halfulp {halfulp.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """ONNX's ReduceSumSquare, correctly rounded.

    Example:  halfulp run model.onnx --input x=x.npy
    """


@app.command(no_args_is_help=False)
def run(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx file.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=FILE",
            help="Feed input NAME from a .npy, .npz or TensorProto .pb file; or all "
            "inputs from --input FILE.npz, by name. Repeat for more inputs.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Write the outputs there, by name."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="onnxruntime|reference",
            help="What runs the other operators. Default: onnxruntime if it is "
            "installed and runs the model, else reference.",
        ),
    ] = None,
    as_json: _AsJson = False,
) -> None:
    """Run a model and show its outputs.

    If MODEL.expected.npz lies beside MODEL.onnx, the outputs are compared with it.

    Example:  halfulp run model.onnx --input x=x.npy --output y.npz
    """
    from halfulp.engines import check_engine, run_in_engine
    from halfulp.onnx.evaluate import PreparedModel
    from halfulp.onnx.files import load_arrays, save_arrays
    from halfulp.onnx.report import output_facts
    from halfulp.output import check_target

    check_engine(engine)
    feeds = _load_inputs(inputs or [])
    beside = model.parent / f"{model.stem}.expected.npz"
    expected = load_arrays(beside) if beside.is_file() else {}
    prepared = PreparedModel(model)
    if output is not None:
        check_target(output)
        for value in prepared.outputs:
            kind = value.type.WhichOneof("value")
            if kind not in ("tensor_type", None):
                raise ModelError(
                    f"output {value.name!r} is a {kind.removesuffix('_type')}; "
                    "allowed with --output: tensors only"
                )
    feeds = prepared.check_inputs(feeds)
    outcome = run_in_engine(model, prepared, feeds, engine)
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
    if expected:
        facts["expected"] = beside.name
    if as_json:
        print(json.dumps(facts))
    else:
        _show_run(facts)


@app.command()
def info(as_json: _AsJson = False) -> None:
    """Show versions, instruction sets and threads."""
    build = halfulp.build_info()
    facts = {
        "halfulp": build["version"],
        "kernels_chosen": build["target"],
        "kernels_available": build["targets"],
        "threads": build["threads"],
        "onnx": importlib.metadata.version("onnx"),
        "onnxruntime": _version("onnxruntime"),
        "numpy": importlib.metadata.version("numpy"),
        "python": platform.python_version(),
    }
    if as_json:
        print(json.dumps(facts))
        return
    for key, value in facts.items():
        text = ", ".join(value) if isinstance(value, list) else value
        print(f"{key.replace('_', ' '):18} {text}")


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _load_inputs(options: Sequence[str]) -> dict[str, Any]:
    """Read what the options --input name: NAME=FILE, or an .npz for all."""
    from halfulp.onnx.files import load_array, load_arrays

    feeds: dict[str, Any] = {}
    for option in options:
        name, separator, file = option.partition("=")
        if separator:
            loaded = {name: load_array(Path(file))}
        else:
            loaded = load_arrays(Path(option))
        for key in loaded:
            if key in feeds:
                raise ArgumentError(f"input {key!r} is given twice; allowed: once")
        feeds.update(loaded)
    return feeds


def _show_run(facts: dict[str, Any]) -> None:
    # Names come from the model: nothing in them is to be read as markup.
    console = Console(markup=False, emoji=False, highlight=False)
    table = Table("output", "type", "shape", "first values", box=box.SIMPLE_HEAD)
    for column in table.columns:
        column.overflow = "fold"
    table.columns[0].max_width = 30
    for output in facts["outputs"]:
        shape = "[" + ", ".join(map(str, output["shape"])) + "]"
        values = _values(output["first_values"], math.prod(output["shape"]))
        table.add_row(_printable(output["name"]), output["type"], shape, values)
    console.print(table)
    console.print(
        f"ran in {_duration(facts['seconds'])}, engine {facts['engine']}", soft_wrap=True
    )
    for output in facts["outputs"]:
        if "expected" in output:
            line = _agreement(output["expected"], facts["expected"])
            console.print(f"{_printable(output['name'])}: {line}", soft_wrap=True)


def _values(first: Sequence[Any], count: int) -> str:
    """Return as many of the first values as fit one line, out of `count`."""
    texts = [f"{v:.9g}" if isinstance(v, float) else str(v) for v in first]
    shown = [text[:_WIDTH] + "..." * (len(text) > _WIDTH) for text in texts[:1]]
    for text in texts[1:]:
        if len("  ".join([*shown, text])) > _WIDTH:
            break
        shown.append(text)
    return "  ".join(shown) + "  ..." * (len(shown) < count)


def _agreement(comparison: dict[str, Any], file: str) -> str:
    if "shape" in comparison:
        return f"shape {comparison['shape']} is expected in {file}"
    difference = float(comparison.get("greatest_difference", 0))
    if difference:
        return f"greatest difference {difference:.2g} of the largest magnitude in {file}"
    return f"{comparison['agree']} of {comparison['of']} agree with {file}"


def _printable(text: str) -> str:
    return text if text.isprintable() else repr(text)


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
