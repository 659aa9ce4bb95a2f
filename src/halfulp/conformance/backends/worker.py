"""The process that runs a backend: a request for each case on stdin, an answer on stdout.

May import errors, processes, outcomes and registry only; and onnx. Started by child.py.

A request is a line of JSON, {"model": n, "inputs": [[name, n], ...]}, and then as many
bytes of a ModelProto and of TensorProtos. The answer is a line of JSON: {"refused":
text}, or {"outputs": count} where that is not 1, or {"outputs": 1, "type": name, "shape":
[...], "size": n}, and then n bytes of a TensorProto. The first line tells versions or an
error.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np
import onnx

from halfulp.conformance.backends.outcomes import one_line
from halfulp.conformance.backends.registry import Run, prepare
from halfulp.errors import HalfulpError
from halfulp.processes import take_stdout


def main() -> None:
    """Answer requests for the backend that the first argument names."""
    warnings.simplefilter("ignore")
    answers = take_stdout()

    def send(facts: dict[str, Any], content: bytes = b"") -> None:
        answers.write(json.dumps(facts).encode() + b"\n" + content)
        answers.flush()

    try:
        versions, run = prepare(sys.argv[1])
    except HalfulpError as error:
        send({"error": str(error)})
        return
    send({"versions": versions})
    for line in sys.stdin.buffer:
        send(*_answer(run, json.loads(line)))


def _answer(run: Run, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    # As bytes, because a backend may change the model that it is given.
    model = onnx.load_model_from_string(sys.stdin.buffer.read(request["model"]))
    feeds = {
        name: onnx.numpy_helper.to_array(
            onnx.TensorProto.FromString(sys.stdin.buffer.read(size))
        )
        for name, size in request["inputs"]
    }
    try:
        outputs = [np.asarray(output) for output in run(model, feeds)]
    except Exception as error:  # whatever a backend raises
        return {"refused": one_line(f"{type(error).__name__}: {error}")}, b""
    if len(outputs) != 1:
        return {"outputs": len(outputs)}, b""
    first = outputs[0]
    facts = {
        "outputs": 1,
        "type": first.dtype.name,
        "shape": first.shape,
        "size": 0,
    }
    try:
        content = onnx.numpy_helper.from_array(first).SerializeToString()
    except Exception:  # a type that ONNX does not have; its name tells
        return facts, b""
    return facts | {"size": len(content)}, content


if __name__ == "__main__":
    main()
