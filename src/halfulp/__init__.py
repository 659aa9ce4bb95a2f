"""Reductions along axes, correctly rounded: sums, means and norms, also as in ONNX.

Public names only. ``halfulp.onnx``, ``halfulp.onnxruntime``, ``halfulp.duckdb`` and
``halfulp.torch`` are loaded when first used, so that ``import halfulp`` costs little more
than importing NumPy. The last is not in ``__all__``, as it needs PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from halfulp import spec
from halfulp.errors import (
    ArgumentError,
    AxesError,
    EngineError,
    HalfulpError,
    ModelError,
    SumOverflowError,
    UnsupportedTypeError,
)
from halfulp.exact import exact_mean, exact_norm, exact_prod, exact_sum, exact_sum_square
from halfulp.exact_sums import ExactSum, SumSquare
from halfulp.functions import (
    logsumexp,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    sum_square,
    var,
    vector_norm,
)
from halfulp.moments import Moments
from halfulp.onnx_functions import (
    reduce_l1,
    reduce_l2,
    reduce_log_sum,
    reduce_log_sum_exp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
    reduce_sum_square,
)
from halfulp.settings import (
    check_environment,
    get_num_threads,
    is_command,
    num_threads,
    set_num_threads,
)

if TYPE_CHECKING:
    from halfulp import duckdb, onnx, onnxruntime
    from halfulp import torch as torch

__version__ = "0.2.0"

if not is_command():
    check_environment()

__all__ = [
    "ArgumentError",
    "AxesError",
    "EngineError",
    "ExactSum",
    "HalfulpError",
    "ModelError",
    "Moments",
    "SumOverflowError",
    "SumSquare",
    "UnsupportedTypeError",
    "build_info",
    "duckdb",
    "exact_mean",
    "exact_norm",
    "exact_prod",
    "exact_sum",
    "exact_sum_square",
    "get_num_threads",
    "logsumexp",
    "max",
    "mean",
    "min",
    "num_threads",
    "onnx",
    "onnxruntime",
    "prod",
    "reduce_l1",
    "reduce_l2",
    "reduce_log_sum",
    "reduce_log_sum_exp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "reduce_sum_square",
    "set_num_threads",
    "spec",
    "std",
    "sum",
    "sum_square",
    "var",
    "vector_norm",
]


def build_info() -> dict[str, Any]:
    """Return what runs here: version, instruction sets, kernels, threads.

    Returns
    -------
    dict
        ``version`` (str), ``target`` (str, the instruction set chosen),
        ``targets`` (list of str, those that this processor can run, best
        first), ``kernels`` (list of str, of the chosen set), ``prefetch_distance`` (int,
        how many bytes ahead memory is fetched, chosen by the processor), ``threads``
        (int, the most that one call may use).
    """
    from halfulp import _core

    return {
        "version": __version__,
        "target": _core.chosen_target(),
        "targets": _core.target_names(),
        "kernels": _core.kernel_names(),
        "prefetch_distance": _core.prefetch_distance(),
        "threads": get_num_threads(),
    }


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in ("duckdb", "onnx", "onnxruntime", "torch"):
        return importlib.import_module(f"halfulp.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
