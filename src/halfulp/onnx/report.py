"""What a run gave, as facts that can be printed or written as JSON.

May import json_values and tensors only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp.json_values import is_float, plain
from halfulp.onnx.tensors import dtype_name

_Array = npt.NDArray[Any]

_FIRST = 8


def output_facts(name: str, value: Any, expected: _Array | None) -> dict[str, Any]:
    """Return the facts about an output.

    Parameters
    ----------
    name : str
    value : numpy.ndarray, list, dict or None
    expected : numpy.ndarray, optional
        What it is compared with.

    Returns
    -------
    dict
        ``name``, ``type`` (ONNX's), ``shape``, ``first_values`` and, where values
        are expected, ``expected``: see `compare`. All of it can be JSON.
    """
    if isinstance(value, np.ndarray):
        kind, shape = dtype_name(value.dtype), list(value.shape)
        first = list(value.flat[:_FIRST])
    elif isinstance(value, list):
        kind, shape, first = "sequence", [len(value)], value[:_FIRST]
    else:
        kind = "map" if isinstance(value, dict) else "optional"
        shape, first = [], [value]
    facts: dict[str, Any] = {
        "name": name,
        "type": kind,
        "shape": shape,
        "first_values": [plain(v) for v in first],
    }
    if expected is not None and isinstance(value, np.ndarray):
        facts["expected"] = compare(value, expected)
    return facts


def compare(value: _Array, expected: _Array) -> dict[str, Any]:
    """Compare an output with the values expected.

    Returns
    -------
    dict
        ``agree`` and ``of``, numbers of elements; NaN agrees with NaN. For floats
        also ``greatest_difference``, relative to the largest finite magnitude
        expected. If the shapes differ, ``shape`` expected only.
    """
    if expected.dtype == np.dtype("V2") and value.dtype.name == "bfloat16":
        expected = expected.view(value.dtype)
    if value.shape != expected.shape:
        return {"shape": list(expected.shape)}
    if not (is_float(value) and is_float(expected)):
        if value.dtype.kind in "OU" or expected.dtype.kind in "OU":
            value, expected = value.astype(object), expected.astype(object)
        return {"agree": int(np.count_nonzero(value == expected)), "of": value.size}
    given, wanted = value.astype(np.float64), expected.astype(np.float64)
    same = (given == wanted) | (np.isnan(given) & np.isnan(wanted))
    with np.errstate(invalid="ignore", over="ignore"):
        differences = np.abs(given - wanted)[~same]
    # NaN or infinity where the other has none is as far off as can be.
    differences[np.isnan(differences)] = math.inf
    greatest = float(np.max(differences, initial=0.0))
    largest = float(np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0.0))
    if greatest:
        greatest = greatest / largest if largest else math.inf
    return {
        "agree": int(np.count_nonzero(same)),
        "of": value.size,
        "greatest_difference": plain(greatest),
    }
