"""The example models, each with the file of its input."""

from __future__ import annotations

from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


INPUTS = {
    "gaussian_mixture_opset18": "gaussian_mixture_input.npy",
    "gaussian_process_opset18": "gaussian_process_input.npy",
    "kmeans_digits_opset11": "digits.npy",
    "kmeans_digits_opset13": "digits.npy",
    "kmeans_digits_opset18": "digits.npy",
    "normalizer_double_opset18": "normalizer_input.npy",
}
