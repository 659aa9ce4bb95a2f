"""The types that elements have in files, and the type in which each is summed.

May import element_types only. Smaller types than those of the operator are summed in the
one below that holds all their values: the conversion is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp.element_types import ELEMENT_TYPES, ElementType

_ELEMENTS = {t.name: t for t in ELEMENT_TYPES}


@dataclass(frozen=True, slots=True)
class StoredType:
    """A type of elements in files.

    Attributes
    ----------
    name : str
        ONNX's.
    numpy_name : str
        Of the dtype of NumPy or ml_dtypes, which has a byte for less than one.
    bits : int
        Of an element; below 8, a byte has several, the first in its lowest bits.
    element : ElementType
        In which it is summed.
    """

    name: str
    numpy_name: str
    bits: int
    element: ElementType

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype, in native byte order."""
        if not hasattr(np, self.numpy_name):
            import ml_dtypes

            dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.numpy_name))
            return dtype
        return np.dtype(self.numpy_name)

    def nbytes(self, count: int) -> int:
        """Return the bytes of so many elements, packed."""
        return -(-count * self.bits // 8)

    def unpacked(self, content: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """Return a byte for each element of packed bytes."""
        shifts = np.arange(0, 8, self.bits, dtype=np.uint8)
        return (content[:, None] >> shifts & (1 << self.bits) - 1).ravel()

    def converted(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return elements, of the dtype in any byte order, as those that are summed.

        Of less than a byte, only the lowest bits of each count.
        """
        if self.name in _ELEMENTS:
            return array
        if self.name == "bool":
            array = array.view(np.uint8) != 0
        elif self.bits < 8 and self.element.kind == "integer":
            low = array.view(np.uint8).astype(np.int32) & (1 << self.bits) - 1
            sign = 0 if self.name.startswith("u") else 1 << self.bits - 1
            array = (low ^ sign) - sign
        return array.astype(self.element.dtype)


def _small(name: str, numpy_name: str, bits: int, element: str) -> StoredType:
    return StoredType(name, numpy_name, bits, _ELEMENTS[element])


STORED_TYPES = (
    *(_small(t.name, t.numpy_name, 8 * t.dtype.itemsize, t.name) for t in ELEMENT_TYPES),
    _small("bool", "bool", 8, "int32"),
    _small("int8", "int8", 8, "int32"),
    _small("int16", "int16", 16, "int32"),
    _small("uint8", "uint8", 8, "uint32"),
    _small("uint16", "uint16", 16, "uint32"),
    _small("int4", "int4", 4, "int32"),
    _small("int2", "int2", 2, "int32"),
    _small("uint4", "uint4", 4, "uint32"),
    _small("uint2", "uint2", 2, "uint32"),
    _small("float8e4m3fn", "float8_e4m3fn", 8, "float"),
    _small("float8e4m3fnuz", "float8_e4m3fnuz", 8, "float"),
    _small("float8e5m2", "float8_e5m2", 8, "float"),
    _small("float8e5m2fnuz", "float8_e5m2fnuz", 8, "float"),
    _small("float8e8m0", "float8_e8m0fnu", 8, "float"),
    _small("float4e2m1", "float4_e2m1fn", 4, "float"),
)
BY_NAME = {t.name: t for t in STORED_TYPES}
_BY_NUMPY_NAME = {t.numpy_name: t for t in STORED_TYPES}


def stored_type(dtype: np.dtype[Any]) -> StoredType | None:
    """Return the type of a dtype of any byte order, if its elements can be summed."""
    found = _BY_NUMPY_NAME.get(dtype.newbyteorder("=").name)
    # A record may have any name.
    return found if found and found.dtype == dtype.newbyteorder("=") else None
