"""Run the models of tests/stored/models in ONNX Runtime; print what halfulp changes.

    python benchmarks/real_models.py > build/models.json

Each model runs as it is, in a session without halfulp's library and in one with it, and,
where `halfulp.onnx.fuse` makes another model of it, that one with the library. What is
right is what the same model gives when all its numbers are float64, in halfulp's run:
the outputs are then compared, rounded once, with those of float32.
"""

from __future__ import annotations

import datetime
import json
import platform
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, TypeProto

import halfulp
from halfulp.onnx.model.nodes import walk
from halfulp.onnx.run.outputs import compare_bits
from halfulp.onnxruntime import OPERATORS

MODELS = Path(__file__).resolve().parents[1] / "tests/stored/models"
LABELS = "label of "

_Arrays = dict[str, Any]


class Case(NamedTuple):
    """A model and inputs for it, and what scikit-learn's labels of these are."""

    name: str
    opset: int
    inputs_of: str
    path: Path
    inputs: _Arrays
    labels: _Arrays

    def __str__(self) -> str:
        return "-".join(filter(None, (self.name, str(self.opset), self.inputs_of)))


def cases() -> Iterator[Case]:
    """Yield each model with each of its inputs, in order."""
    for path in sorted(MODELS.glob("*.onnx")):
        name, _, opset = path.stem.rpartition("_")
        for stored in sorted(MODELS.glob(f"{name}.*npz"), key=lambda p: (len(p.name), p)):
            with np.load(stored) as file:
                arrays = dict(file)
            labels = {
                k.removeprefix(LABELS): arrays.pop(k) for k in [*arrays] if LABELS in k
            }
            inputs_of = stored.stem.partition(".")[2]
            yield Case(name, int(opset), inputs_of, path, arrays, labels)


def session(model: ModelProto, ours: bool) -> onnxruntime.InferenceSession:
    """A session with one thread, with the library or without."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if ours:
        halfulp.onnxruntime.register(options)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run(model: ModelProto, inputs: _Arrays, ours: bool) -> _Arrays:
    """Return the outputs by name, maps as tables."""
    names = [value.name for value in model.graph.output]
    values = session(model, ours).run(names, inputs)
    return {name: as_array(v) for name, v in zip(names, values, strict=True)}


def as_array(value: Any) -> Any:
    """Return the numbers of maps as rows, and arrays as they are."""
    if isinstance(value, list):
        return np.array([[*row.values()] for row in value], np.float32)
    return value


def in_double(model: ModelProto) -> ModelProto:
    """Return the model with float64 wherever it has float32."""
    result = ModelProto()
    result.CopyFrom(model)
    _widen(result.graph)
    return result


def _widen(graph: GraphProto) -> None:
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        _widen_type(value.type)
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _widen(attribute.g)
            elif attribute.type == AttributeProto.TENSOR:
                _widen_tensor(attribute.t)
            elif node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE


def _widen_type(type_: TypeProto) -> None:
    if type_.tensor_type.elem_type == TensorProto.FLOAT:
        type_.tensor_type.elem_type = TensorProto.DOUBLE


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        wide = onnx.numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(onnx.numpy_helper.from_array(wide, tensor.name))


def right(case: Case, model: ModelProto) -> _Arrays:
    """Return what float64 gives, rounded to float32; nothing if the model has float64."""
    if any(array.dtype == np.float64 for array in case.inputs.values()):
        return {}
    wide = {
        name: array.astype(np.float64) if array.dtype == np.float32 else array
        for name, array in case.inputs.items()
    }
    outputs = halfulp.onnx.run_model(in_double(model), wide)
    arrays = {name: as_array(value) for name, value in outputs.items()}
    return {
        name: array.astype(np.float32) if array.dtype == np.float64 else array
        for name, array in arrays.items()
    }


def measured(case: Case) -> dict[str, Any]:
    """Return what halfulp changes in one model on its inputs."""
    model = onnx.load(case.path)
    nodes = Counter(n.op_type for _, n in walk(model.graph.node))
    wanted = right(case, model)
    ways = {
        "without": run(model, case.inputs, False),
        "with": run(model, case.inputs, True),
    }
    fused, report = halfulp.onnx.fuse(model)
    if report.done:
        ways["fused"] = run(fused, case.inputs, True)
    outputs: dict[str, Any] = {}
    for name, plain in ways["without"].items():
        facts = outputs[name] = {"difference": compare_bits(plain, ways["with"][name])}
        if name in case.labels:
            facts["as_sklearn"] = {
                way: int(np.count_nonzero(np.ravel(values[name]) == case.labels[name]))
                for way, values in ways.items()
            }
        if name in wanted:
            facts["off"] = {
                way: compare_bits(values[name], wanted[name])
                for way, values in ways.items()
            }
        told = ways | ({"right": wanted} if name in wanted else {})
        facts["first"] = {way: str(values[name].flat[0]) for way, values in told.items()}
    return {
        "model": case.name,
        "opset": case.opset,
        "inputs": case.inputs_of,
        "from": model.producer_name,
        "nodes": {name: nodes[name] for name in OPERATORS if nodes[name]},
        "outputs": outputs,
    }


def main() -> None:
    """Measure all, and print it."""
    names = ("onnxruntime", "onnx", "numpy")
    result = {
        "date": str(datetime.datetime.now(datetime.UTC).date()),
        "machine": platform.machine(),
        "versions": {n: version(n) for n in names} | {"halfulp": halfulp.__version__},
        "operators": OPERATORS,
        "rows": [measured(case) for case in cases()],
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
