"""Exact sums of squares that grow by arrays and merge in any order.

May import arrays, element_types, errors, exact_bytes, spec.rules and the native core
only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from halfulp import _core
from halfulp.arrays import Array, as_array
from halfulp.element_types import (
    BY_NAME,
    ElementType,
    element_type,
    in_native_order,
    result_type,
)
from halfulp.errors import (
    ArgumentError,
    HalfulpError,
    SumOverflowError,
    UnsupportedTypeError,
    shown,
)
from halfulp.exact_bytes import (
    REDUCTION,
    check_shape,
    digits_of,
    joined,
    packed,
    unpacked,
)
from halfulp.spec.rules import axes_of, raises_on_overflow, reduced_shape

_MOST_TERMS = 2**63 - 1
# For each type those whose exact sums hold all of its own, itself included.
_WIDER = {
    "float16": ("float16", "bfloat16", "float", "double"),
    "bfloat16": ("bfloat16", "float", "double"),
    "float": ("float", "double"),
    "double": ("double",),
    "int32": ("int32", "uint32", "int64", "uint64"),
    "uint32": ("uint32", "int64", "uint64"),
    "int64": ("int64", "uint64"),
    "uint64": ("uint64",),
}


class SumSquare:
    """A sum of squares, exact until it is rounded: it grows by arrays and merges.

    Parameters
    ----------
    type : str or dtype
        Of the elements: ONNX's name of one of the eight types (``"float"`` is float32
        and ``"double"`` float64), or a NumPy dtype.
    shape : int or tuple of int, optional
        Of the sums: that of the kept axes, in their order.

    Raises
    ------
    UnsupportedTypeError, ArgumentError
        If the type is none of the eight, or the shape none of an array.

    Notes
    -----
    A sum is one wide integer, so the order of updates and merges does not matter: equal
    multisets of elements give equal objects and equal bytes, on every processor and
    number of threads. NaN counts before infinity, and infinity before numbers.

    Sums of integers are exact below 2**127, which those of 32 bits never reach. From
    there on `result` is still exact modulo 2^N, and `exact` raises.

    Python's ``sum`` adds objects of one shape, and ``float`` gives the exact sum of an
    object of shape (), rounded once to binary64.

    One object is changed by one call at a time: others raise ArgumentError meanwhile, be
    they of other threads or of a signal handler. While one thread changes it, no other
    should read it.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> one = halfulp.SumSquare("float").update(np.float32([4096, 1]))
    >>> two = halfulp.SumSquare("float").update(np.float32([1]))
    >>> (one + two).result(), (one + two).exact(), (one + two).count
    (np.float32(1.6777218e+07), Fraction(16777218, 1), 3)
    >>> columns = halfulp.SumSquare(np.int32, shape=2)
    >>> for rows in np.arange(8, dtype=np.int32).reshape(2, 2, 2):
    ...     columns.update(rows, axis=0)
    <SumSquare: int32, shape (2,), count 2>
    <SumSquare: int32, shape (2,), count 4>
    >>> columns.result()
    array([56, 84], dtype=int32)
    >>> halfulp.SumSquare.from_bytes(columns.to_bytes()) == columns
    True
    """

    # The sums are one array of uint64, the count and then the digits of each sum, which
    # no interrupt can part: they change by one call in C.
    __slots__ = ("_element", "_shape", "_sums")

    def __init__(
        self, type: str | npt.DTypeLike, shape: int | Sequence[int] = ()
    ) -> None:
        element = _element(type)
        normal = check_shape(shape, element)
        digits = digits_of(element)
        try:
            sums = np.zeros(1 + math.prod(normal) * digits, np.uint64)
        except MemoryError as error:
            raise ArgumentError(
                f"shape is {normal}; allowed: one whose sums, {8 * digits} bytes each, "
                "fit in memory"
            ) from error
        self._set(element, normal, sums)

    def _set(self, element: ElementType, shape: tuple[int, ...], sums: Array) -> Self:
        self._element, self._shape, self._sums = element, shape, sums
        return self

    @property
    def _digits(self) -> Array:
        """The digits of each sum, a row each, as a view."""
        rows = math.prod(self._shape)
        return self._sums[1:].reshape(rows, digits_of(self._element))

    @property
    def type(self) -> str:
        """ONNX's name of the element type."""
        return self._element.name

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self._element.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the sums."""
        return self._shape

    @property
    def count(self) -> int:
        """How many squares each sum is of; at most 2**63 - 1."""
        return int(self._sums[0])

    @property
    def nbytes(self) -> int:
        """The bytes of the sums in memory.

        For each sum 24 for float16, 80 for bfloat16 and float, 536 for double, 16 for
        integers.
        """
        return self._sums.nbytes - self._sums.itemsize

    def update(self, array: Any, axis: int | Sequence[int] | None = None) -> Self:
        """Add the squares of an array.

        Parameters
        ----------
        array : array_like
            Of the element type, as for `halfulp.sum_square`: of any layout and byte
            order, never copied; objects with ``__dlpack__`` too. Without labels and
            masks, and no Dask array.
        axis : int or tuple of int, optional
            The axes to sum along; None means all. The others have the shape of the
            sums.

        Returns
        -------
        SumSquare
            This object.

        Raises
        ------
        UnsupportedTypeError, AxesError, ArgumentError
            Before any work, if an argument is not allowed.
        SumOverflowError
            Before any work, if there would be more than 2**63 - 1 squares in a sum.

        Notes
        -----
        However it fails or is interrupted, the sums are as they were, or hold the whole
        array: `count` tells. A long call in the main thread (of some 4 million elements
        or more) needs memory for a copy of the sums, to be interruptible by Ctrl-C.
        """
        data, _ = as_array(array, "array")
        if in_native_order(data.dtype) != self.dtype:
            raise UnsupportedTypeError(
                f"array has dtype {data.dtype}; allowed: {self._element.numpy_name}, "
                "the type of the sums"
            )
        axes = axes_of(axis, data.ndim)
        kept = reduced_shape(data.shape, axes, False)
        if kept != self._shape:
            raise ArgumentError(
                f"array of shape {data.shape} without axes {axes} has shape {kept}; "
                f"allowed: {self._shape}, that of the sums"
            )
        try:
            _core.update_sums(REDUCTION, self._sums, data, axes)
        except (OverflowError, BufferError) as error:
            more = math.prod(data.shape[i] for i in axes)
            raise self._not_added(error, more) from None
        return self

    def merge(self, other: SumSquare) -> Self:
        """Add the sums of another object, which stays as it is.

        Parameters
        ----------
        other : SumSquare
            Of the same type and shape.

        Returns
        -------
        SumSquare
            This object.

        Raises
        ------
        ArgumentError
            If `other` is nothing of the kind.
        SumOverflowError
            If there would be more than 2**63 - 1 squares in a sum.
        """
        if not isinstance(other, SumSquare):
            raise ArgumentError(
                f"other is a {other.__class__.__name__}; allowed: a SumSquare"
            )
        if (other._element, other._shape) != (self._element, self._shape):
            raise ArgumentError(
                f"other has type {other.type} and shape {other.shape}; allowed: "
                f"{self.type} and {self.shape}, those of this object"
            )
        try:
            _core.merge_sums(REDUCTION, self._sums, other._sums, self._element.code)
        except (OverflowError, BufferError) as error:
            raise self._not_added(error, other.count) from None
        return self

    def _not_added(self, error: Exception, more: int) -> HalfulpError:
        """Return our error for the core's, which was to add so many squares more."""
        if isinstance(error, OverflowError):
            return SumOverflowError(
                f"the sums would be of {self.count + more} squares each; "
                f"allowed: {_MOST_TERMS}"
            )
        return ArgumentError(
            "the sums are being changed by another call, of another thread or one that "
            "a signal handler came into; allowed: one change at a time"
        )

    def __add__(self, other: object) -> Self:
        if not isinstance(other, SumSquare):
            return NotImplemented
        return self.copy().merge(other)

    def __radd__(self, other: object) -> Self:
        # Python's sum() begins with the integer 0.
        if type(other) is not int or other != 0:
            return NotImplemented
        return self.copy()

    def __iadd__(self, other: object) -> Self:
        if not isinstance(other, SumSquare):
            return NotImplemented
        return self.merge(other)

    def result(self, dtype: npt.DTypeLike | None = None, overflow: str = "wrap") -> Any:
        """Return the sums, rounded once.

        Parameters
        ----------
        dtype : dtype, optional
            Of the result, as for `halfulp.sum_square`. Default: that of the elements,
            of integers too.
        overflow : {"wrap", "raise"}, optional
            What happens when an integer result does not fit its dtype.

        Returns
        -------
        numpy.ndarray or numpy scalar
            The bits that `halfulp.sum_square` gives as that dtype for all that was added.
            A scalar where the shape is ().

        Raises
        ------
        UnsupportedTypeError, ArgumentError
            If an argument is not allowed.
        SumOverflowError
            With ``overflow="raise"``.
        """
        result = self._element
        if dtype is not None:
            result = result_type(result, dtype)
        checked = raises_on_overflow(overflow)
        return _core.round_sums(
            REDUCTION, self._sums, self._shape, self._element.code, result.code, checked
        )[()]

    def exact(self) -> Any:
        """Return the sums without rounding, as `halfulp.exact_sum_square` does.

        Returns
        -------
        fractions.Fraction, int, float or numpy.ndarray
            A Fraction for floats, an int for integers; the float ``nan`` or ``inf``
            where an element was. An array of these objects where the shape is not ().

        Raises
        ------
        SumOverflowError
            If a sum of integers is 2**127 or more, which it does not hold.
        """
        rows = self._digits
        result = np.empty(len(rows), dtype=object)
        for i, digits in enumerate(rows):
            result[i] = self._exact(_integer(digits))
        return result.reshape(self._shape)[()]

    def _exact(self, total: int) -> Fraction | int | float:
        digits, exponent = _core.sum_format(REDUCTION, self._element.code)
        top = total >> (64 * digits - 2)
        if self._element.kind == "float":
            if top:
                return math.nan if top & 2 else math.inf
            return Fraction(total, 2**-exponent)
        if top & 2:
            raise SumOverflowError(
                f"a sum of {self.type} squares is 2**127 or more; allowed: below"
            )
        return total

    def __float__(self) -> float:
        # The exact sum rounded once, whatever the type of the elements.
        if self._shape:
            raise UnsupportedTypeError(
                f"a SumSquare of shape {self._shape} is no float; allowed: of shape ()"
            )
        if self._element.kind == "integer":
            return float(self.exact())
        return float(self.result("float64"))

    def to_bytes(self) -> bytes:
        """Return all of it as bytes, the same on every platform.

        Returns
        -------
        bytes
            24, and 8 for each axis, and `nbytes`. Equal objects give equal bytes.
        """
        return packed(self._element, self._shape, self._sums)

    @classmethod
    def from_bytes(cls, data: Any) -> Self:
        """Return the object that `to_bytes` gave these bytes.

        Parameters
        ----------
        data : bytes-like
            From anywhere: it is checked, and no more memory is taken than it has.

        Returns
        -------
        SumSquare

        Raises
        ------
        ArgumentError
            If these are no such bytes, of another version, cut off or damaged.
        """
        return cls.__new__(cls)._set(*unpacked(data))

    def astype(self, type: str | npt.DTypeLike) -> Self:
        """Return the same sums as an object of a wider type.

        Parameters
        ----------
        type : str or dtype
            As for the constructor: a type of the same kind, whose sums can be all those
            of this type. Of floats: bfloat16 and float after float16, float after
            bfloat16, double after all. Of integers, in this order: int32, uint32, int64
            and uint64.

        Returns
        -------
        SumSquare
            New, of the same count.

        Raises
        ------
        UnsupportedTypeError
            If the type is none of these.

        Examples
        --------
        >>> import numpy as np
        >>> import halfulp
        >>> half = halfulp.SumSquare("float16").update(np.float16([3, 4]))
        >>> (half.astype("double") + halfulp.SumSquare("double")).result()
        np.float64(25.0)
        """
        element = _element(type)
        if element.name not in _WIDER[self.type]:
            raise UnsupportedTypeError(
                f"sums of {self.type} cannot become sums of {element.name}; allowed: "
                f"{', '.join(_WIDER[self.type])}"
            )
        wide = self.__class__(element.name, self._shape)
        wide._sums[0] = self._sums[0]
        digits, exponent = _core.sum_format(REDUCTION, self._element.code)
        wide_digits, wide_exponent = _core.sum_format(REDUCTION, element.code)
        shift = exponent - wide_exponent
        # The two highest bits are flags; the bits below them, the number, are shifted.
        flags = 64 * digits - 2
        for narrow_row, wide_row in zip(self._digits, wide._digits, strict=True):
            total = _integer(narrow_row)
            top = total >> flags << (64 * wide_digits - 2)
            total = (total & (1 << flags) - 1) << shift | top
            wide_row[:] = np.frombuffer(total.to_bytes(8 * wide_digits, "little"), "<u8")
        return wide

    @classmethod
    def concatenate(
        cls,
        parts: Sequence[SumSquare],
        shape: int | Sequence[int],
        order: Literal["C", "F"] = "C",
    ) -> Self:
        """Return the sums of several objects, one after another.

        Parameters
        ----------
        parts : sequence of SumSquare
            At least one, all of the same type and count.
        shape : int or tuple of int
            Of the result, of as many sums as the parts have.
        order : {"C", "F"}, optional
            Whether the last or the first axis of the result is the fastest.

        Returns
        -------
        SumSquare
            New.

        Raises
        ------
        ArgumentError
            If the parts are not alike, or do not fit the shape.

        Examples
        --------
        >>> import halfulp
        >>> parts = [halfulp.SumSquare("float", 2), halfulp.SumSquare("float", (1, 4))]
        >>> halfulp.SumSquare.concatenate(parts, (2, 3))
        <SumSquare: float, shape (2, 3), count 0>
        """
        if not isinstance(order, str) or order not in ("C", "F"):
            raise ArgumentError(f"order is {shown(order)}; allowed: 'C' or 'F'")
        if not isinstance(parts, Sequence):
            raise ArgumentError(
                f"parts is a {parts.__class__.__name__}; allowed: a sequence of SumSquare"
            )
        for part in parts:
            if not isinstance(part, SumSquare):
                raise ArgumentError(
                    f"parts has a {part.__class__.__name__}; allowed: SumSquare only"
                )
        kinds = {(part.type, part.count) for part in parts}
        if len(kinds) != 1:
            raise ArgumentError(
                f"parts of types and counts {sorted(kinds)}; allowed: one type and count"
            )
        normal = check_shape(shape, parts[0]._element)
        digits = np.concatenate([part._digits for part in parts])
        if len(digits) != math.prod(normal):
            raise ArgumentError(
                f"parts of {len(digits)} sums; allowed: as many as shape {normal} has"
            )
        if order == "F":
            turned = digits.reshape(*normal[::-1], digits.shape[1])
            turned = turned.transpose(*reversed(range(len(normal))), len(normal))
            digits = np.ascontiguousarray(turned).reshape(digits.shape)
        return cls.__new__(cls)._set(
            parts[0]._element, normal, joined(parts[0].count, digits)
        )

    def copy(self) -> Self:
        """Return a copy that shares nothing with this object."""
        new = self.__class__.__new__(self.__class__)
        return new._set(self._element, self._shape, self._sums.copy())

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: object) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        # A function of the module: cloudpickle takes a class method apart.
        kind = self.__class__
        return _loaded, (self.to_bytes(), *([kind] if kind is not SumSquare else []))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SumSquare):
            return NotImplemented
        return (
            self._element is other._element
            and self._shape == other._shape
            and np.array_equal(self._sums, other._sums)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<SumSquare: {self.type}, shape {self._shape}, count {self.count}>"


def _integer(digits: Array) -> int:
    """Return the integer whose digits of 64 bits these are, the lowest first."""
    return int.from_bytes(digits.astype("<u8").tobytes(), "little")


def _loaded(data: bytes, kind: type[SumSquare] = SumSquare) -> SumSquare:
    return kind.from_bytes(data)


def _element(type: Any) -> ElementType:
    named = BY_NAME.get(type) if isinstance(type, str) else None
    if named is not None:
        return named
    try:
        return element_type(np.dtype(type), "type is")
    except UnsupportedTypeError:
        raise
    except Exception as error:  # of several kinds, by what NumPy makes of it
        allowed = ", ".join(BY_NAME)
        raise UnsupportedTypeError(
            f"type is {shown(type)}; allowed: {allowed}"
        ) from error
