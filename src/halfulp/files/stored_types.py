"""The types that elements have in files, and the type in which each is summed.

May import element_types only. Smaller types than those of the operator are summed in the
one below that holds all their values: the conversion is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp.element_types import BY_NAME as ELEMENTS
from halfulp.element_types import ELEMENT_TYPES, SMALL_TYPES, ElementType, widened

# As which NumPy and h5py save bfloat16: two bytes of no type.
SAVED_BFLOAT16 = np.dtype("V2")


@dataclass(frozen=True, slots=True)
class StoredType:
    """A type of elements in files.

    Attributes
    ----------
    name : str
        ONNX's.
    code : int
        ONNX's number.
    numpy_name : str
        Of the dtype of NumPy or ml_dtypes, which has a byte for less than one.
    safetensors : str
        The name in .safetensors files; empty if they have none.
    bits : int
        Of an element; below 8, a byte has several, the first in its lowest bits.
    element : ElementType
        In which it is summed.
    """

    name: str
    code: int
    numpy_name: str
    safetensors: str
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
        if self.name in ELEMENTS:
            return array
        if self.name == "bool":
            array = array.view(np.uint8) != 0
        elif self.bits < 8 and self.element.kind == "integer":
            low = array.view(np.uint8).astype(np.int32) & (1 << self.bits) - 1
            sign = 0 if self.name.startswith("u") else 1 << self.bits - 1
            array = (low ^ sign) - sign
        return array.astype(self.element.dtype)


_SAFETENSORS = {
    "bfloat16": "BF16",
    "float16": "F16",
    "float": "F32",
    "double": "F64",
    "int32": "I32",
    "int64": "I64",
    "uint32": "U32",
    "uint64": "U64",
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "uint8": "U8",
    "uint16": "U16",
}


def _whole(type_: ElementType) -> StoredType:
    return StoredType(
        type_.name,
        type_.code,
        type_.numpy_name,
        _SAFETENSORS[type_.name],
        8 * type_.dtype.itemsize,
        widened(type_),
    )


_INT32, _UINT32, _FLOAT = ELEMENTS["int32"], ELEMENTS["uint32"], ELEMENTS["float"]

STORED_TYPES = (
    *map(_whole, (*ELEMENT_TYPES, *SMALL_TYPES)),
    StoredType("int4", 22, "int4", "", 4, _INT32),
    StoredType("int2", 26, "int2", "", 2, _INT32),
    StoredType("uint4", 21, "uint4", "", 4, _UINT32),
    StoredType("uint2", 25, "uint2", "", 2, _UINT32),
    StoredType("float8e4m3fn", 17, "float8_e4m3fn", "F8_E4M3", 8, _FLOAT),
    StoredType("float8e4m3fnuz", 18, "float8_e4m3fnuz", "F8_E4M3FNUZ", 8, _FLOAT),
    StoredType("float8e5m2", 19, "float8_e5m2", "F8_E5M2", 8, _FLOAT),
    StoredType("float8e5m2fnuz", 20, "float8_e5m2fnuz", "F8_E5M2FNUZ", 8, _FLOAT),
    StoredType("float8e8m0", 24, "float8_e8m0fnu", "F8_E8M0", 8, _FLOAT),
    StoredType("float4e2m1", 23, "float4_e2m1fn", "F4", 4, _FLOAT),
)
BY_NAME = {t.name: t for t in STORED_TYPES}
BY_NUMPY_NAME = {t.numpy_name: t for t in STORED_TYPES}


def stored_type(dtype: np.dtype[Any]) -> StoredType | None:
    """Return the type of a dtype of any byte order, if its elements can be summed."""
    found = BY_NUMPY_NAME.get(dtype.newbyteorder("=").name)
    # A record may have any name.
    return found if found and found.dtype == dtype.newbyteorder("=") else None
