"""Arrays as the bits of their elements, and what the float types are made of.

May import element_types only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp.element_types import FLOAT_TYPES

Array = npt.NDArray[Any]

# Of each float type: bits of the significand, and the exponent of the largest number.
PRECISION = {t.numpy_name: t.precision for t in FLOAT_TYPES}
EMAX = {t.numpy_name: t.emax for t in FLOAT_TYPES}


def bits(array: Any) -> Array:
    """Return the bits of an array in native byte order, as unsigned integers."""
    array = np.asarray(array)
    native = array.astype(array.dtype.newbyteorder("="))
    result: Array = native.view(f"u{native.dtype.itemsize}")
    return result


def bits_text(array: Array, place: tuple[int, ...]) -> str:
    """Return the bits of an element of any type in hex; none of a Python object."""
    if array.dtype.hasobject:
        return ""
    little = array[place].astype(array.dtype.newbyteorder("<"))
    return f"0x{little.tobytes()[::-1].hex()}"


def from_bits(values: Any, dtype: Any) -> Array:
    """Return an array of `dtype` from the bits of its elements."""
    dtype = np.dtype(dtype)
    return np.asarray(values, dtype=f"u{dtype.itemsize}").view(dtype)


def least_exponent(name: str) -> int:
    """Return the exponent of the least positive number of a float type, a subnormal."""
    return 2 - EMAX[name] - PRECISION[name]
