"""The process that runs a backend: it answers what child.py asks.

May import errors, children, outcomes and registry only; and onnx.

The first request is a backend's name; its answer {"versions": ...} or {"error": text}.
Then a request is the names of the inputs, and a ModelProto and as many TensorProtos. The
answer is {"refused": text}, or {"outputs": count} where that is not 1, or {"outputs": 1,
"type": name, "shape": [...]}, and a TensorProto where ONNX has the type.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx

from halfulp import children
from halfulp.conformance.backends.outcomes import one_line
from halfulp.conformance.backends.registry import RunModel, prepare
from halfulp.errors import HalfulpError


def main() -> None:
    """Answer requests."""
    warnings.simplefilter("ignore")
    parent = children.parent()
    backend, _ = parent.receive()
    try:
        versions, run = prepare(backend)
    except HalfulpError as error:
        parent.send({"error": str(error)})
        return
    parent.send({"versions": versions})
    for names, contents in parent:
        parent.send(*_answer(run, names, contents))


def _answer(
    run: RunModel, names: list[str], contents: list[bytes]
) -> tuple[dict[str, Any], list[bytes]]:
    # As bytes, because a backend may change the model that it is given.
    content, *tensors = contents
    model = onnx.load_model_from_string(content)
    feeds = {
        name: onnx.numpy_helper.to_array(onnx.TensorProto.FromString(tensor))
        for name, tensor in zip(names, tensors, strict=True)
    }
    try:
        outputs = [np.asarray(output) for output in run(model, feeds)]
    except Exception as error:  # whatever a backend raises
        return {"refused": one_line(f"{type(error).__name__}: {error}")}, []
    if len(outputs) != 1:
        return {"outputs": len(outputs)}, []
    first = outputs[0]
    facts = {"outputs": 1, "type": first.dtype.name, "shape": first.shape}
    try:
        return facts, [onnx.numpy_helper.from_array(first).SerializeToString()]
    except Exception:  # a type that ONNX does not have; its name tells
        return facts, []


if __name__ == "__main__":
    main()
