"""Examples of what is decided where texts are silent, and of what others round away.

May import reductions only. Outputs are computed when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np

from halfulp.reductions import Finish, Reduction, Term

# The type, and rows: each is reduced to one element.
_Rows = tuple[str, list[list[float]]]

_SPECIAL: _Rows = (
    "float32",
    [[-0.0, -0.0], [1, -1], [inf, 1], [-inf, 1], [inf, -inf], [np.nan, inf]],
)

_EXAMPLES: dict[tuple[Term, Finish], dict[str, _Rows]] = {
    ("value", "none"): {
        "cancellation": ("float64", [[1e16, 1, -1e16], [1e308, 1e308, -1e308]]),
        "integers": ("int32", [[2147483647, 1], [-7, 2]]),
    },
    ("value", "mean"): {
        "empty_set": ("float32", [[], []]),
        "empty_set_of_integers": ("int32", [[], []]),
        "integers": ("int32", [[2147483647, 2147483647], [-7, 2]]),
        "large_sum": ("float16", [[65504, 65504, 65504], [60000, 60000, -60000]]),
    },
    ("magnitude", "none"): {
        "integers": ("int32", [[-2147483648, 0], [-7, 2]]),
        "rounded_once": ("float32", [[-16777216, 1, 1], [-0.1, 0.2, -0.3]]),
    },
    ("square", "root"): {
        "integers": ("int32", [[46341, 0], [-7, 2]]),
        "large_and_small": ("float32", [[3e30, 4e30], [3e-30, 4e-30]]),
    },
    ("square", "none"): {
        "integers": ("int32", [[65536, 1], [-7, 2]]),
        "rounded_once": ("float32", [[4096, 1, 1], [2e-23, 2e-23, 2e-23]]),
    },
}


def hard_examples(row: Reduction) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names, and data and axes for a node of the newest version of a row."""
    for name, (dtype, rows) in (
        *_EXAMPLES[row.term, row.finish].items(),
        ("zeros_and_infinities", _SPECIAL),
    ):
        data = np.array(rows, dtype)
        yield f"halfulp_{row.onnx_name}_{name}", {"data": data, "axes": np.array([1])}
