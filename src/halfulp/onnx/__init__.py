"""ONNX models: run, inferred and converted with halfulp's ReduceSumSquare.

Public names only.
"""

from halfulp.onnx import backend
from halfulp.onnx.convert import convert_opset
from halfulp.onnx.evaluate import run_model
from halfulp.onnx.expanding import expand
from halfulp.onnx.fusing import fuse
from halfulp.onnx.infer import infer_shapes
from halfulp.onnx.model_check import check_model
from halfulp.onnx.operators import ReduceSumSquare
from halfulp.onnx.shapes import infer_shape

__all__ = [
    "ReduceSumSquare",
    "backend",
    "check_model",
    "convert_opset",
    "expand",
    "fuse",
    "infer_shape",
    "infer_shapes",
    "run_model",
]


def __dir__() -> list[str]:
    return sorted(__all__)
