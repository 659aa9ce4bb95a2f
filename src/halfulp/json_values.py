"""Values of any kind as JSON has them.

May import element_types only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from halfulp.element_types import is_float


def plain(value: Any) -> Any:
    """Return `value` as JSON has it.

    Numbers that JSON lacks become strings, arrays nested lists, and floats keep
    their shortest text: a float32 0.1 stays 0.1.
    """
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        value = value[()] if value.ndim == 0 else list(value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = float(str(value)) if is_float(value.dtype) else value.item()
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | None) else str(value)
