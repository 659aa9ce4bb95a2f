"""The eight element types, and the smaller ones of NumPy's face: names, bits, results.

The one place for the facts of float formats. May import errors only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from halfulp.errors import ArgumentError, UnsupportedTypeError, shown


@dataclass(frozen=True, slots=True)
class ElementType:
    """A type of elements.

    Attributes
    ----------
    name : str
        ONNX's name, as in ``tensor(float)``.
    code : int
        ONNX's number, ``TensorProto.DataType``. The native core uses the same.
    numpy_name : str
        The name of the NumPy dtype (``bfloat16`` is the one of ml_dtypes).
    kind : {"float", "integer"}
        The arithmetic: correctly rounded, or exact modulo 2^N.
    precision : int
        Of a float (IEEE 754-2019, 3.3): bits of the significand, the hidden one
        included. 0 of an integer, as the next.
    exponent_bits : int
        Bits of the exponent field.
    """

    name: str
    code: int
    numpy_name: str
    kind: Literal["float", "integer"]
    precision: int = 0
    exponent_bits: int = 0

    @property
    def is_signed(self) -> bool:
        """Whether there are numbers below 0; of bool too, which sums to what has them."""
        return not self.name.startswith("uint")

    @property
    def significand_bits(self) -> int:
        """Bits of the significand field of a float, which lacks the hidden one."""
        return self.precision - 1

    @property
    def emax(self) -> int:
        """The exponent of the largest number of a float, which is also its bias."""
        return (1 << self.exponent_bits - 1) - 1

    @property
    def emin(self) -> int:
        """The exponent of the least normal number of a float."""
        return 1 - self.emax

    @property
    def overflow(self) -> int:
        """The least value that rounds to infinity in a float, to nearest even.

        Half a unit in the last place above the greatest number.
        """
        above = 1 << self.emax + 1
        return above - (above >> self.precision + 1)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype, in native byte order."""
        if self.name == "bfloat16":
            import ml_dtypes

            dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return dtype
        return np.dtype(self.numpy_name)


ELEMENT_TYPES = (
    ElementType("bfloat16", 16, "bfloat16", "float", 8, 8),
    ElementType("float16", 10, "float16", "float", 11, 5),
    ElementType("float", 1, "float32", "float", 24, 8),
    ElementType("double", 11, "float64", "float", 53, 11),
    ElementType("int32", 6, "int32", "integer"),
    ElementType("int64", 7, "int64", "integer"),
    ElementType("uint32", 12, "uint32", "integer"),
    ElementType("uint64", 13, "uint64", "integer"),
)

# What NumPy's face takes besides: read as wider integers, which all sums are of.
SMALL_TYPES = (
    ElementType("bool", 9, "bool", "integer"),
    ElementType("int8", 3, "int8", "integer"),
    ElementType("int16", 5, "int16", "integer"),
    ElementType("uint8", 2, "uint8", "integer"),
    ElementType("uint16", 4, "uint16", "integer"),
)

FLOAT_TYPES = tuple(t for t in ELEMENT_TYPES if t.kind == "float")

BY_CODE = {t.code: t for t in ELEMENT_TYPES}
BY_NAME = {t.name: t for t in ELEMENT_TYPES}

ALLOWED = ", ".join(t.numpy_name for t in ELEMENT_TYPES)
ALLOWED_DATA = ", ".join(t.numpy_name for t in (*ELEMENT_TYPES, *SMALL_TYPES))

# Keyed by dtype because that look-up is fast; bfloat16 and byte-swapped dtypes
# are entered when first met, so that ml_dtypes is not imported before it is used.
_BY_DTYPE: dict[np.dtype[Any], ElementType] = {
    t.dtype: t for t in (*ELEMENT_TYPES, *SMALL_TYPES) if t.name != "bfloat16"
}


def element_type(dtype: np.dtype[Any], what: str = "data has dtype") -> ElementType:
    """Return the element type of a NumPy dtype of any byte order.

    Parameters
    ----------
    dtype : numpy.dtype
    what : str
        How an error begins, before the dtype.

    Raises
    ------
    UnsupportedTypeError
        If it is none of the eight.
    """
    found = _find(dtype)
    if found is None or found.code not in BY_CODE:
        raise UnsupportedTypeError(f"{what} {dtype}; allowed: {ALLOWED}")
    return found


def data_type(dtype: np.dtype[Any], what: str) -> ElementType:
    """Return the type of a NumPy dtype of any byte order, for data of NumPy's face.

    As `element_type`, but the small types are allowed too.
    """
    found = _find(dtype)
    if found is None:
        raise UnsupportedTypeError(f"{what} {dtype}; allowed: {ALLOWED_DATA}")
    return found


def widened(type_: ElementType) -> ElementType:
    """Return the type itself, or for a small type that of 32 bits with all its values."""
    if type_.code in BY_CODE:
        return type_
    return BY_NAME["int32" if type_.is_signed else "uint32"]


def result_type(
    source: ElementType,
    dtype: npt.DTypeLike | None,
    out: np.dtype[Any] | None = None,
) -> ElementType:
    """Return the element type of a result, for a caller's `dtype` and that of its `out`.

    Parameters
    ----------
    source : ElementType
        That of the data.
    dtype : dtype or None
    out : numpy.dtype or None
        At least one of the two is given.

    Raises
    ------
    ArgumentError, UnsupportedTypeError
        If one of them is not allowed for data of the type `source`.
    """
    if dtype is None:
        assert out is not None
        result = element_type(out, "out has dtype")
    else:
        try:
            result = element_type(np.dtype(dtype), "dtype is")
        except UnsupportedTypeError:
            raise
        except Exception as error:  # of several kinds, by what NumPy makes of it
            raise ArgumentError(
                f"dtype is {shown(dtype)}, not a dtype: {shown(error, str)}"
            ) from error
        if out is not None and element_type(out, "out has dtype") is not result:
            raise ArgumentError(f"out has dtype {out}; allowed: {result.numpy_name}")
    if source.kind == "float" and result.kind != "float":
        allowed = ", ".join(t.numpy_name for t in FLOAT_TYPES)
        which = "out has dtype" if dtype is None else "dtype is"
        raise UnsupportedTypeError(
            f"{which} {result.numpy_name}; allowed for results of {source.numpy_name}: "
            f"{allowed}"
        )
    return result


def is_float(dtype: np.dtype[Any]) -> bool:
    """Tell whether elements are floats: of NumPy's, or bfloat16."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def in_native_order(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype in native byte order; itself if it is of a kind that has none."""
    try:
        return dtype.newbyteorder("=")
    except TypeError:  # of NumPy's StringDType and other new kinds
        return dtype


def _find(dtype: np.dtype[Any]) -> ElementType | None:
    found = _BY_DTYPE.get(dtype)
    if found is None:
        native = in_native_order(dtype)
        for candidate in (*ELEMENT_TYPES, *SMALL_TYPES):
            if native.name == candidate.numpy_name and native == candidate.dtype:
                found = _BY_DTYPE[dtype] = candidate
    return found
