"""ONNX models: run, inferred and converted with halfulp's reductions.

Public names only. The rooms, of which each imports what is before it: model reads any
model; check tells of nodes what is known before a model runs; run and rewrite, which
know nothing of each other. The modules beside them, ops, backend and model_check, are
what users see.
"""

from halfulp.onnx import backend
from halfulp.onnx.model.shapes import infer_shape
from halfulp.onnx.model_check import check_model
from halfulp.onnx.ops import (
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    new_ops,
)
from halfulp.onnx.rewrite.convert import convert_opset
from halfulp.onnx.rewrite.expand import expand
from halfulp.onnx.rewrite.fuse import fuse
from halfulp.onnx.rewrite.infer import infer_shapes
from halfulp.onnx.run.evaluate import run_model

__all__ = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "backend",
    "check_model",
    "convert_opset",
    "expand",
    "fuse",
    "infer_shape",
    "infer_shapes",
    "new_ops",
    "run_model",
]


def __dir__() -> list[str]:
    return sorted(__all__)
