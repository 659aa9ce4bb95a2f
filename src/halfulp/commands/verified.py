"""The option --verify of the commands that rewrite a model.

May import limits and, within functions, engines, errors and onnx.verify.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfulp import limits

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


def verified(
    path: Path, before: ModelProto, after: ModelProto, exact: bool
) -> dict[str, Any]:
    """Return what `halfulp.onnx.run.equivalence.verify` does, and ``engine``.

    Models that the reference evaluator does not run, ONNX Runtime may.
    """
    from halfulp.engines import RuntimeModel
    from halfulp.errors import EngineError
    from halfulp.onnx.model.data_files import with_data
    from halfulp.onnx.run.equivalence import NotComparableError, verify

    limits.run(path)
    before, after = with_data(before, path), with_data(after, path)
    try:
        facts = verify(before, after, exact=exact) | {"engine": "reference"}
    except NotComparableError as error:
        try:
            facts = verify(before, after, exact=exact, open_model=RuntimeModel)
        except (NotComparableError, EngineError):
            raise error from None
        facts["engine"] = "onnxruntime"
    limits.ran()
    return facts


def verified_lines(verified: dict[str, Any]) -> Iterator[str]:
    """Yield what to print of `halfulp.onnx.run.equivalence.verify`."""
    values = ", ".join(verified["values"])
    yield f"ran both {verified['runs']} times in {verified['engine']} on {values}:"
    for name, noted in verified["inputs"].items():
        shapes = ", ".join(str(shape) for shape in noted["shapes"])
        yield f"  input {name!r}: {noted['type']} {shapes}"
    for name, noted in verified["outputs"].items():
        agree, of = noted["agree"], noted["of"]
        yield f"  output {name!r}: {agree} of {of} elements have the same bits"
        if agree != of:
            greatest = float(noted.get("greatest_difference", "inf"))
            yield f"    greatest difference {greatest:.2g} of the largest magnitude"
