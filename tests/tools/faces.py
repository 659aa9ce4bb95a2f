"""The ways in which a node is asked for: ONNX's face, and engines that run models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import halfulp
from halfulp.reductions import SUM_SQUARE, Reduction
from onnx_models import reduce_model

Run = Callable[[onnx.ModelProto, Mapping[str, Any]], dict[str, Any]]
Reduce = Callable[..., Any]


def in_evaluator(proto: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """In onnx's evaluator, given the operators."""
    evaluator = ReferenceEvaluator(proto, new_ops=halfulp.onnx.new_ops())
    names = [output.name for output in proto.graph.output]
    return dict(zip(names, evaluator.run(None, dict(feeds)), strict=True))


def in_onnxruntime(proto: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """In ONNX Runtime, given the library."""
    session = halfulp.onnxruntime.InferenceSession(proto.SerializeToString())
    return halfulp.onnxruntime.run(session, feeds)


ENGINES: dict[str, Run] = {
    "run_model": halfulp.onnx.run_model,
    "evaluator": in_evaluator,
    "onnxruntime": in_onnxruntime,
}


def by_function(
    data: np.ndarray,
    row: Reduction = SUM_SQUARE,
    *,
    axes: Any = None,
    opset: int = 18,
    axes_form: str = "",
    **flags: Any,
) -> Any:
    """By the function of ONNX's face, which knows neither opsets nor where axes stand."""
    given = {name: flag for name, flag in flags.items() if flag is not None}
    return getattr(halfulp, row.onnx_name)(data, axes, **given)


def _by_model(run: Run) -> Reduce:
    def reduce(data: np.ndarray, row: Reduction = SUM_SQUARE, **node: Any) -> Any:
        return run(*reduce_model(data, operator=row.operator, **node))["reduced"]

    return reduce


FACES: dict[str, Reduce] = {"function": by_function} | {
    name: _by_model(run) for name, run in ENGINES.items()
}


def needs(face: str, type_: str, opset: int = 18) -> None:
    """Skip the types that a face does not take."""
    if type_ != "bfloat16":
        return
    release = tuple(int(n) for n in onnxruntime.__version__.split(".")[:2])
    if face == "onnxruntime" and release < (1, 20):
        pytest.skip("takes no bfloat16 from Python")
    if face in ("run_model", "evaluator") and opset < 13:
        pytest.skip("not a type of this version; ONNX Runtime does not tell versions")
