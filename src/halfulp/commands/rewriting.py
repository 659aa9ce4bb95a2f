"""What the commands that rewrite a model share: OUT, --verify, and the way between.

May import limits and output and, within functions, engines, errors and halfulp.onnx.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfulp import limits
from halfulp.output import Output, check_outputs

if TYPE_CHECKING:
    from onnx import ModelProto

Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="First run both models on made-up inputs. Nothing is written if an "
        "output changes: bits where all that was rewritten keeps them, else types and "
        "shapes.",
    ),
]


Rewritten = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="OUT",
        help="Write the model there, in the format of its ending. It may be MODEL "
        "itself; - is stdout.",
    ),
]


def open_source(path: Path, output: Path) -> ModelProto:
    """Open a model to be rewritten, after all that can be said against its output."""
    from halfulp.onnx.model.data_files import data_files, load_to_rewrite
    from halfulp.onnx.model.files import MODEL_ENDINGS

    limits.look_at(path)
    wanted = Output("--output", output, MODEL_ENDINGS, replaces=path)
    check_outputs([wanted], [path], lambda: data_files(path))
    return load_to_rewrite(path)


def save(
    facts: dict[str, Any],
    path: Path,
    output: Path,
    models: tuple[ModelProto, ModelProto],
    exact: bool | None,
) -> None:
    """Save a model that was rewritten; note in `facts` what else was done.

    Parameters
    ----------
    facts : dict
        Gets ``verified``, as of `verified`, and ``copied``, the paths of data.
    path, output : pathlib.Path
    models : tuple of onnx.ModelProto
        Before and after.
    exact : bool or None
        As `verified` takes it; None for no verifying.
    """
    from halfulp.onnx.model.data_files import save_beside_data

    if exact is not None:
        facts["verified"] = verified(path, *models, exact)
    facts["copied"] = [str(file) for file in save_beside_data(output, models[1], path)]


def saved_lines(facts: dict[str, Any]) -> Iterator[str]:
    """Yield what to print of what `save` noted."""
    yield from (f"copied its data to {copy}" for copy in facts["copied"])
    if "verified" in facts:
        yield from _verified_lines(facts["verified"])


def verified(
    path: Path, before: ModelProto, after: ModelProto, exact: bool
) -> dict[str, Any]:
    """Return what `halfulp.onnx.run.equivalence.compare_models` does, and ``engine``.

    Models that the reference evaluator does not run, ONNX Runtime may.
    """
    from halfulp.commands.engines import RuntimeModel
    from halfulp.errors import EngineError
    from halfulp.onnx.model.data_files import with_data
    from halfulp.onnx.run.equivalence import NotComparableError, compare_models

    limits.run(path)
    before, after = with_data(before, path), with_data(after, path)
    try:
        facts = compare_models(before, after, exact=exact) | {"engine": "reference"}
    except NotComparableError as error:
        try:
            facts = compare_models(before, after, exact=exact, engine=RuntimeModel)
        except (NotComparableError, EngineError):
            raise error from None
        facts["engine"] = "onnxruntime"
    limits.ran()
    return facts


def _verified_lines(verified: dict[str, Any]) -> Iterator[str]:
    """Yield what to print of `halfulp.onnx.run.equivalence.compare_models`."""
    values = ", ".join(verified["values"])
    yield f"ran both {verified['runs']} times in {verified['engine']} on {values}:"
    for name, noted in verified["inputs"].items():
        shapes = ", ".join(str(shape) for shape in noted["shapes"])
        yield f"  input {name!r}: {noted['type']} {shapes}"
    for name, noted in verified["outputs"].items():
        agree, of = noted["agree"], noted["of"]
        yield f"  output {name!r}: {agree} of {of} elements have the same bits"
        # Of integers and texts there is none.
        if agree != of and "greatest_difference" in noted:
            greatest = float(noted["greatest_difference"])
            yield f"    greatest difference {greatest:.2g} of the largest magnitude"
