"""ONNX models, run with halfulp's ReduceSumSquare.

Public names only.
"""

from halfulp.onnx import backend
from halfulp.onnx.evaluate import run_model
from halfulp.onnx.expanding import expand
from halfulp.onnx.fusing import fuse
from halfulp.onnx.model_check import check_model
from halfulp.onnx.operators import ReduceSumSquare

__all__ = ["ReduceSumSquare", "backend", "check_model", "expand", "fuse", "run_model"]
