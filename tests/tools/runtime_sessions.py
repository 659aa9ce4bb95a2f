"""What the tests of sessions of ONNX Runtime share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime
import pytest

import halfulp
from halfulp.reductions import REDUCTIONS, Reduction

HOST = Path(__file__).parents[1] / "native/onnxruntime_host.c"

RELEASE = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
LEVELS = [
    getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{name}")
    for name in ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL")
]

each_reduction = pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)


def quiet(**settings: Any) -> onnxruntime.SessionOptions:
    """Options whose session logs nothing: errors are raised too."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for name, value in settings.items():
        setattr(options, name, value)
    return options


def reduced(row: Reduction, x: Any, *args: Any, **kwargs: Any) -> Any:
    """What the function of a row with ONNX's face gives."""
    return getattr(halfulp, row.onnx_name)(x, *args, **kwargs)
