"""ONNX models, run with halfulp's ReduceSumSquare.

Public names only.
"""

from halfulp.onnx import backend
from halfulp.onnx.evaluate import run_model
from halfulp.onnx.operators import ReduceSumSquare

__all__ = ["ReduceSumSquare", "backend", "run_model"]
