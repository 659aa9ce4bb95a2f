"""What a run gave: compared, and as facts that can be printed or written as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp.element_types import is_float
from halfulp.files.stored_types import SAVED_BFLOAT16
from halfulp.json_values import plain
from halfulp.onnx.model.tensors import dtype_name

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
    if expected.dtype == SAVED_BFLOAT16 and value.dtype.name == "bfloat16":
        expected = expected.view(value.dtype)
    if value.shape != expected.shape:
        return {"shape": list(expected.shape)}
    if not (is_float(value.dtype) and is_float(expected.dtype)):
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


def compare_bits(value: Any, other: Any) -> dict[str, Any]:
    """Compare two outputs of any kind, bit for bit.

    Returns
    -------
    dict
        ``agree`` and ``of``, numbers of elements, where NaN agrees with NaN; where there
        are floats ``ulps``, the greatest difference in units in the last place: so many
        steps are between the two numbers, "inf" if one is NaN. If the outputs are of
        different types or shapes, nothing.
    """
    if not same_kind(value, other):
        return {}
    both = list(pairs(value, other))
    facts: dict[str, Any] = {
        "agree": sum(int(np.count_nonzero(same_bits(a, b))) for a, b in both),
        "of": sum(a.size for a, _ in both),
    }
    steps = [_ulps(a, b) for a, b in both if is_float(a.dtype)]
    if steps:
        facts["ulps"] = plain(max(steps))
    return facts


def _ulps(a: _Array, b: _Array) -> float | int:
    """Return the greatest number of steps between two arrays of one float type."""
    nan = np.isnan(a), np.isnan(b)
    if np.any(nan[0] != nan[1]):
        return math.inf
    x, y = (_places(each[~nan[0]]) for each in (a, b))
    return int(np.max(np.maximum(x, y) - np.minimum(x, y), initial=0))


def _places(floats: _Array) -> _Array:
    """Number the values of a float type, from 2^63 for both zeros on."""
    kind = np.dtype(f"u{floats.dtype.itemsize}")
    numbers = floats.view(kind).astype(np.uint64)
    sign = np.uint64(1) << np.uint64(8 * kind.itemsize - 1)
    magnitude, middle = numbers & (sign - np.uint64(1)), np.uint64(2**63)
    return np.where(numbers & sign, middle - magnitude, middle + magnitude)


def pairs(a: Any, b: Any) -> Iterable[tuple[_Array, ...]]:
    """Yield the arrays at the same places of two values of one kind."""
    if isinstance(b, list):
        for x, y in zip(a, b, strict=True):
            yield from pairs(x, y)
    elif isinstance(b, dict):
        for key in b:
            yield from pairs(a[key], b[key])
    else:
        yield _arrays(a, b)


def same_kind(a: Any, b: Any) -> bool:
    """Tell whether two values are alike in all but their elements."""
    if isinstance(b, list):
        return isinstance(a, list) and len(a) == len(b) and all(map(same_kind, a, b))
    if isinstance(b, dict):
        return (
            isinstance(a, dict)
            and a.keys() == b.keys()
            and all(same_kind(a[key], b[key]) for key in b)
        )
    x, y = _arrays(a, b)
    return bool(x.dtype == y.dtype and x.shape == y.shape)


def _arrays(a: Any, b: Any) -> tuple[_Array, _Array]:
    """Return two values as arrays.

    A float of Python, as ONNX Runtime has in maps, has the float type of the other.
    """
    x, y = np.asarray(a), np.asarray(b)
    if type(a) is float and is_float(y.dtype):
        x = x.astype(y.dtype)
    elif type(b) is float and is_float(x.dtype):
        y = y.astype(x.dtype)
    return x, y


def same_bits(a: _Array, b: _Array) -> Any:
    """Tell for each element whether its bits agree, NaN with NaN."""
    if is_float(a.dtype):
        both_nan = np.isnan(a) & np.isnan(b)
        return ((a == b) & (np.signbit(a) == np.signbit(b))) | both_nan
    return a == b
