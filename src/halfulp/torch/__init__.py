"""Reductions of PyTorch's tensors, correctly rounded, with gradients.

Public names only. Loaded when first used, and PyTorch with it. May import
torch.drop_in, torch.export, torch.functions, torch.library and torch.norms only.
"""

from __future__ import annotations

from halfulp.torch.drop_in import exact
from halfulp.torch.export import onnx_translation_table
from halfulp.torch.functions import (
    amax,
    amin,
    logsumexp,
    mean,
    prod,
    std,
    sum,
    sum_square,
    var,
    vector_norm,
)
from halfulp.torch.library import library_path
from halfulp.torch.norms import clip_grad_norm_, get_total_norm, total_norm

__all__ = [
    "amax",
    "amin",
    "clip_grad_norm_",
    "exact",
    "get_total_norm",
    "library_path",
    "logsumexp",
    "mean",
    "onnx_translation_table",
    "prod",
    "std",
    "sum",
    "sum_square",
    "total_norm",
    "var",
    "vector_norm",
]


def __dir__() -> list[str]:
    return sorted(__all__)
