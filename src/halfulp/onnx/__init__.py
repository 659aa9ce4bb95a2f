"""ONNX models, run with halfulp's ReduceSumSquare.

Public names only.
"""

from halfulp.onnx import backend
from halfulp.onnx.evaluate import run_model
from halfulp.onnx.expanding import expand
from halfulp.onnx.fusing import fuse
from halfulp.onnx.operators import ReduceSumSquare

__all__ = ["ReduceSumSquare", "backend", "expand", "fuse", "run_model"]
