"""Examples of what is decided where texts are silent, and of what others round away.

May import reductions only. Outputs are computed when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nan
from typing import Any

import numpy as np

from halfulp.reductions import Formula, Reduction

# The type, and rows: each is reduced to one element.
_Rows = tuple[str, list[list[float]]]

_SPECIAL: _Rows = (
    "float32",
    [[-0.0, -0.0], [1, -1], [inf, 1], [-inf, 1], [inf, -inf], [nan, inf]],
)

_EXAMPLES: dict[Formula, dict[str, _Rows]] = {
    ("sum", "value", "none"): {
        "cancellation": ("float64", [[1e16, 1, -1e16], [1e308, 1e308, -1e308]]),
        "integers": ("int32", [[2147483647, 1], [-7, 2]]),
    },
    ("sum", "value", "mean"): {
        "empty_set": ("float32", [[], []]),
        "empty_set_of_integers": ("int32", [[], []]),
        "integers": ("int32", [[2147483647, 2147483647], [-7, 2]]),
        "large_sum": ("float16", [[65504, 65504, 65504], [60000, 60000, -60000]]),
    },
    ("sum", "magnitude", "none"): {
        "integers": ("int32", [[-2147483648, 0], [-7, 2]]),
        "rounded_once": ("float32", [[-16777216, 1, 1], [-0.1, 0.2, -0.3]]),
    },
    ("sum", "square", "root"): {
        "integers": ("int32", [[46341, 0], [-7, 2]]),
        "large_and_small": ("float32", [[3e30, 4e30], [3e-30, 4e-30]]),
    },
    ("sum", "square", "none"): {
        "integers": ("int32", [[65536, 1], [-7, 2]]),
        "rounded_once": ("float32", [[4096, 1, 1], [2e-23, 2e-23, 2e-23]]),
    },
    ("max", "value", "none"): {
        "bool": ("bool", [[False, True], [False, False]]),
        "bytes": ("int8", [[-128, 127], [-7, 2]]),
        "empty_set": ("float32", [[], []]),
        "empty_set_of_integers": ("int32", [[], []]),
        "large_integers": ("int64", [[2**53, 2**53 + 1], [-7, 2]]),
        "nans": ("float32", [[nan, 1, 2], [1, nan, 2], [1, 2, nan]]),
        "zeros": ("float32", [[-0.0, 0.0], [0.0, -0.0], [-0.0, -0.0]]),
    },
    ("product", "value", "none"): {
        "empty_set": ("float32", [[], []]),
        "integers": ("int32", [[65536, 65536], [-7, 2]]),
        "leaves_and_comes_back": (
            "float32",
            [[1e-30, 1e-30, 1e30, 1e30], [1e30, 1e30, 1e-30, 1e-30]],
        ),
        "signs": ("float32", [[-1, 0, 1], [-1, 0, -1], [-inf, 2, 1], [-inf, 0, 1]]),
    },
    ("sum", "value", "log"): {
        "empty_set": ("float32", [[], []]),
        "large_sum": ("float32", [[3e38, 3e38], [1e-38, -0.9999999e-38]]),
        "sums_at_or_below_zero": ("float32", [[1, -1], [1, -2]]),
    },
    ("exponentials", "value", "log"): {
        "alone": ("float32", [[0.1, -inf], [-1e30, -inf]]),
        "empty_set": ("float32", [[], []]),
        "infinities": ("float32", [[-inf, -inf], [inf, -inf], [nan, inf]]),
        "any_range": ("float64", [[1000, 1000], [1e300, -1e300], [-1e4, -1e4]]),
    },
}
_EXAMPLES["min", "value", "none"] = _EXAMPLES["max", "value", "none"]


def hard_examples(row: Reduction) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names, and data and axes for a node of the newest version of a row."""
    for name, (dtype, rows) in (
        *_EXAMPLES[row.formula].items(),
        ("zeros_and_infinities", _SPECIAL),
    ):
        data = np.array(rows, dtype)
        yield f"halfulp_{row.onnx_name}_{name}", {"data": data, "axes": np.array([1])}
