"""Exact sums that grow by arrays and merge in any order.

May import arrays, element_types, errors, exact_bytes, reductions, spec.rules and the
native core only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from halfulp import _core
from halfulp.arrays import Array, as_array
from halfulp.element_types import (
    BY_NAME,
    ELEMENT_TYPES,
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
    check_shape,
    digits_of,
    joined,
    packed,
    unpacked,
)
from halfulp.reductions import Finish, Term, result_of
from halfulp.spec.rules import axes_of, raises_on_overflow, reduced_shape

_MOST_TERMS = 2**63 - 1
_TERMS: tuple[Term, ...] = get_args(Term)
# Logarithms are of the functions alone.
_FINISHES: tuple[Finish, ...] = ("none", "mean", "root")


class ExactSum:
    """A sum, exact until it is rounded: it grows by arrays and merges.

    Parameters
    ----------
    type : str or dtype
        Of the elements: ONNX's name of one of the eight types (``"float"`` is float32
        and ``"double"`` float64), or a NumPy dtype.
    shape : int or tuple of int, optional
        Of the sums: that of the kept axes, in their order.
    term : {"value", "magnitude", "square"}, optional
        What an element adds: itself, its size or its square.

    Raises
    ------
    UnsupportedTypeError, ArgumentError
        If the type is none of the eight, the shape none of an array, or there is no such
        term.

    Notes
    -----
    A sum is one wide integer, so the order of updates and merges does not matter: equal
    multisets of elements give equal objects and equal bytes, on every processor and
    number of threads. NaN counts before infinity, and infinity before numbers;
    infinities of both signs are NaN.

    Sums of integers are exact below 2**127 in size, which those of 32 bits never reach,
    nor those of values. From there on `result` is still exact modulo 2^N, and `exact`
    raises.

    Python's ``sum`` adds objects of one shape, and ``float`` gives the exact sum of an
    object of shape (), rounded once to binary64.

    One object is changed by one call at a time: others raise ArgumentError meanwhile, be
    they of other threads or of a signal handler. While one thread changes it, no other
    should read it.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> one = halfulp.ExactSum("double").update(np.float64([1e16, 1]))
    >>> two = halfulp.ExactSum("double").update(np.float64([-1e16]))
    >>> (one + two).result(), (one + two).exact(), (one + two).count
    (np.float64(1.0), Fraction(1, 1), 3)
    >>> (one + two).mean()
    np.float64(0.3333333333333333)
    >>> columns = halfulp.ExactSum(np.float32, shape=2, term="square")
    >>> for rows in np.arange(8, dtype=np.float32).reshape(2, 2, 2):
    ...     columns.update(rows, axis=0)
    <ExactSum: square of float, shape (2,), count 2>
    <ExactSum: square of float, shape (2,), count 4>
    >>> columns.result(), columns.norm()
    (array([56., 84.], dtype=float32), array([7.483315, 9.165152], dtype=float32))
    >>> halfulp.ExactSum.from_bytes(columns.to_bytes()) == columns
    True
    """

    # The sums are one array of uint64, the count and then the digits of each sum, which
    # no interrupt can part: they change by one call in C.
    __slots__ = ("_element", "_shape", "_sums", "_term")

    # The terms that objects of a class may have.
    _terms: ClassVar[tuple[Term, ...]] = _TERMS

    def __init__(
        self,
        type: str | npt.DTypeLike,
        shape: int | Sequence[int] = (),
        *,
        term: Term = "value",
    ) -> None:
        element = _element(type)
        if not isinstance(term, str) or term not in self._terms:
            raise ArgumentError(
                f"term is {shown(term)}; allowed: {', '.join(map(repr, self._terms))}"
            )
        normal = check_shape(shape, term, element)
        digits = digits_of(term, element)
        try:
            sums = np.zeros(1 + math.prod(normal) * digits, np.uint64)
        except MemoryError as error:
            raise ArgumentError(
                f"shape is {normal}; allowed: one whose sums, {8 * digits} bytes each, "
                "fit in memory"
            ) from error
        self._set(term, element, normal, sums)

    def _set(
        self, term: Term, element: ElementType, shape: tuple[int, ...], sums: Array
    ) -> Self:
        self._term, self._element, self._shape, self._sums = term, element, shape, sums
        return self

    @property
    def _digits(self) -> Array:
        """The digits of each sum, a row each, as a view."""
        rows = math.prod(self._shape)
        return self._sums[1:].reshape(rows, digits_of(self._term, self._element))

    @property
    def term(self) -> Term:
        """What an element adds: "value", "magnitude" or "square"."""
        return self._term

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
        """How many terms each sum is of; at most 2**63 - 1."""
        return int(self._sums[0])

    @property
    def nbytes(self) -> int:
        """The bytes of the sums in memory.

        For each sum of squares 24 for float16, 80 for bfloat16 and float, 536 for
        double, 16 for integers; of values and magnitudes 24, 48, 272 and 16.
        """
        return self._sums.nbytes - self._sums.itemsize

    def update(self, array: Any, axis: int | Sequence[int] | None = None) -> Self:
        """Add the terms of an array.

        Parameters
        ----------
        array : array_like
            Of the element type, as for `halfulp.sum`: of any layout and byte
            order, never copied; objects with ``__dlpack__`` too. Without labels and
            masks, and no Dask array.
        axis : int or tuple of int, optional
            The axes to sum along; None means all. The others have the shape of the
            sums.

        Returns
        -------
        ExactSum
            This object.

        Raises
        ------
        UnsupportedTypeError, AxesError, ArgumentError
            Before any work, if an argument is not allowed.
        SumOverflowError
            Before any work, if there would be more than 2**63 - 1 terms in a sum.

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
            _core.update_sums(self._term, self._sums, data, axes)
        except (OverflowError, BufferError) as error:
            more = math.prod(data.shape[i] for i in axes)
            raise self._not_added(error, more) from None
        return self

    def merge(self, other: ExactSum) -> Self:
        """Add the sums of another object, which stays as it is.

        Parameters
        ----------
        other : ExactSum
            Of the same term, type and shape.

        Returns
        -------
        ExactSum
            This object.

        Raises
        ------
        ArgumentError
            If `other` is nothing of the kind.
        SumOverflowError
            If there would be more than 2**63 - 1 terms in a sum.
        """
        if not isinstance(other, ExactSum):
            raise ArgumentError(
                f"other is a {other.__class__.__name__}; allowed: an exact sum"
            )
        if other._term != self._term:
            raise ArgumentError(
                f"other has term {other.term}; allowed: {self.term}, that of this object"
            )
        if (other._element, other._shape) != (self._element, self._shape):
            raise ArgumentError(
                f"other has type {other.type} and shape {other.shape}; allowed: "
                f"{self.type} and {self.shape}, those of this object"
            )
        try:
            _core.merge_sums(self._term, self._sums, other._sums, self._element.code)
        except (OverflowError, BufferError) as error:
            raise self._not_added(error, other.count) from None
        return self

    def _not_added(self, error: Exception, more: int) -> HalfulpError:
        """Return our error for the core's, which was to add so many terms more."""
        if isinstance(error, OverflowError):
            return SumOverflowError(
                f"the sums would be of {self.count + more} {self.term}s each; "
                f"allowed: {_MOST_TERMS}"
            )
        return ArgumentError(
            "the sums are being changed by another call, of another thread or one that "
            "a signal handler came into; allowed: one change at a time"
        )

    def __add__(self, other: object) -> Self:
        if not isinstance(other, ExactSum):
            return NotImplemented
        return self.copy().merge(other)

    def __radd__(self, other: object) -> Self:
        # Python's sum() begins with the integer 0.
        if type(other) is not int or other != 0:
            return NotImplemented
        return self.copy()

    def __iadd__(self, other: object) -> Self:
        if not isinstance(other, ExactSum):
            return NotImplemented
        return self.merge(other)

    def result(
        self,
        dtype: npt.DTypeLike | None = None,
        overflow: str = "wrap",
        *,
        finish: Finish = "none",
    ) -> Any:
        """Return the sums or what they finish as, rounded once.

        Parameters
        ----------
        dtype : dtype, optional
            Of the result, as for `halfulp.sum`. Default: that of the elements if they
            are floats, else int64 or uint64, or float64 of means and roots.
        overflow : {"wrap", "raise"}, optional
            What happens when an integer result does not fit its dtype.
        finish : {"none", "mean", "root"}, optional
            What becomes of a sum before it is rounded. Sums of values have no root.

        Returns
        -------
        numpy.ndarray or numpy scalar
            The bits that `halfulp.sum`, `mean`, `vector_norm` or `sum_square` gives as
            that dtype for all that was added. A scalar where the shape is ().

        Raises
        ------
        UnsupportedTypeError, ArgumentError
            If an argument is not allowed.
        SumOverflowError
            With ``overflow="raise"``; and where a sum of integers is 2**127 or more,
            which is held modulo 2**127 only, and more than that is asked for.
        """
        allowed = _FINISHES if self._term != "value" else _FINISHES[:-1]
        if not isinstance(finish, str) or finish not in allowed:
            raise ArgumentError(
                f"finish is {shown(finish)}; allowed of {self.term}s: "
                f"{', '.join(map(repr, allowed))}"
            )
        if dtype is None:
            result = result_of(self._element, is_real=finish != "none")
        else:
            result = result_type(self._element, dtype)
        checked = raises_on_overflow(overflow)
        return _core.round_sums(
            self._term,
            finish,
            self._sums,
            self._shape,
            self._element.code,
            result.code,
            checked,
        )[()]

    def mean(self, dtype: npt.DTypeLike | None = None, overflow: str = "wrap") -> Any:
        """Return the means of the terms, rounded once: ``result(finish="mean")``.

        Parameters
        ----------
        dtype, overflow : optional
            As for `result`.

        Returns
        -------
        numpy.ndarray or numpy scalar
            As of `result`; of no terms NaN, or 0 where it is an integer.

        Raises
        ------
        UnsupportedTypeError, ArgumentError, SumOverflowError
            As `result` does.
        """
        return self.result(dtype, overflow, finish="mean")

    def norm(self, dtype: npt.DTypeLike | None = None, overflow: str = "wrap") -> Any:
        """Return the norms of all that was added, rounded once.

        Of squares that is the root of the sum, of magnitudes the sum.

        Parameters
        ----------
        dtype, overflow : optional
            As for `result`. Of integers the default is float64.

        Returns
        -------
        numpy.ndarray or numpy scalar
            As of `result`.

        Raises
        ------
        UnsupportedTypeError, ArgumentError, SumOverflowError
            As `result` does; of values there is no norm.
        """
        if self._term == "value":
            raise ArgumentError(
                "norm() of a sum of values; allowed: of magnitudes and of squares"
            )
        if dtype is None:
            dtype = result_of(self._element, is_real=True).dtype
        finish: Finish = "root" if self._term == "square" else "none"
        return self.result(dtype, overflow, finish=finish)

    def exact(self) -> Any:
        """Return the sums without rounding, as `halfulp.exact_sum` does.

        Returns
        -------
        fractions.Fraction, int, float or numpy.ndarray
            A Fraction for floats, an int for integers; the float ``nan``, ``inf`` or
            ``-inf`` where an element was. An array of these objects where the shape is
            not ().

        Raises
        ------
        SumOverflowError
            If a sum of integers is 2**127 or more, which it does not hold.
        """
        rows = self._digits
        result = np.empty(len(rows), dtype=object)
        for i, digits in enumerate(rows):
            result[i] = self._exact(digits)
        return result.reshape(self._shape)[()]

    def _exact(self, digits: Array) -> Fraction | int | float:
        top, number = _parted(self._term, self._element, digits)
        if self._element.kind == "float":
            _, flags, exponent = _core.sum_format(self._term, self._element.code)
            return _FLAGGED[flags][top] if top else Fraction(number, 2**-exponent)
        if top:
            raise SumOverflowError(
                f"a sum of {self.type} {self.term}s is 2**127 or more; allowed: below"
            )
        return number

    def __float__(self) -> float:
        # The exact sum rounded once, whatever the type of the elements.
        if self._shape:
            raise UnsupportedTypeError(
                f"{self._described} of shape {self._shape} is no float; allowed: of "
                "shape ()"
            )
        if self._element.kind == "integer":
            return float(self.exact())
        return float(self.result("float64"))

    def to_bytes(self) -> bytes:
        """Return all of it as bytes, the same on every platform.

        Returns
        -------
        bytes
            24, or of values and magnitudes 32, and 8 for each axis, and `nbytes`. Equal
            objects give equal bytes.
        """
        return packed(self._term, self._element, self._shape, self._sums)

    @classmethod
    def from_bytes(cls, data: Any) -> Self:
        """Return the object that `to_bytes` gave these bytes.

        Parameters
        ----------
        data : bytes-like
            From anywhere: it is checked, and no more memory is taken than it has.

        Returns
        -------
        ExactSum

        Raises
        ------
        ArgumentError
            If these are no such bytes, of another version, cut off or damaged; or of a
            term that this class has not.
        """
        parts = unpacked(data)
        if parts[0] not in cls._terms:
            raise ArgumentError(
                f"the bytes are of a sum of {parts[0]}s; allowed: of {cls._terms[0]}s"
            )
        return cls.__new__(cls)._set(*parts)

    def astype(self, type: str | npt.DTypeLike) -> Self:
        """Return the same sums as an object of a wider type.

        Parameters
        ----------
        type : str or dtype
            As for the constructor: a type of the same kind, whose sums can be all those
            of this type. Of floats: bfloat16 and float after float16, float after
            bfloat16, double after all. Of integers, in this order: int32, uint32, int64
            and uint64; but sums of values with signs stay of types with signs.

        Returns
        -------
        ExactSum
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
        allowed = _wider(self._term, self._element)
        if element not in allowed:
            raise UnsupportedTypeError(
                f"sums of {self.type} cannot become sums of {element.name}; allowed: "
                f"{', '.join(each.name for each in allowed)}"
            )
        wide = self.copy()
        size, flags, wide_exponent = _core.sum_format(self._term, element.code)
        _, _, exponent = _core.sum_format(self._term, self._element.code)
        rows = np.empty((math.prod(self._shape), size), np.uint64)
        for digits, row in zip(self._digits, rows, strict=True):
            top, number = _parted(self._term, self._element, digits)
            total = number << exponent - wide_exponent | top << 64 * size - flags
            total %= 2 ** (64 * size)
            row[:] = np.frombuffer(total.to_bytes(8 * size, "little"), "<u8")
        return wide._set(self._term, element, self._shape, joined(self.count, rows))

    @classmethod
    def concatenate(
        cls,
        parts: Sequence[ExactSum],
        shape: int | Sequence[int],
        order: Literal["C", "F"] = "C",
    ) -> Self:
        """Return the sums of several objects, one after another.

        Parameters
        ----------
        parts : sequence of ExactSum
            At least one, all of the same term, type and count.
        shape : int or tuple of int
            Of the result, of as many sums as the parts have.
        order : {"C", "F"}, optional
            Whether the last or the first axis of the result is the fastest.

        Returns
        -------
        ExactSum
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
                f"parts is a {parts.__class__.__name__}; allowed: a sequence of sums"
            )
        for part in parts:
            if not isinstance(part, ExactSum) or part.term not in cls._terms:
                raise ArgumentError(
                    f"parts has a {part.__class__.__name__}; allowed: sums of "
                    f"{' or '.join(cls._terms)} only"
                )
        kinds = {(part.term, part.type, part.count) for part in parts}
        if len(kinds) != 1:
            raise ArgumentError(
                f"parts of terms, types and counts {sorted(kinds)}; allowed: one of each"
            )
        first = parts[0]
        normal = check_shape(shape, first._term, first._element)
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
            first._term, first._element, normal, joined(first.count, digits)
        )

    @classmethod
    def _of_digits(
        cls, term: Term, element: ElementType, count: int, digits: Array
    ) -> ExactSum:
        """Return a sum of shape () that has these digits, as it stores them."""
        return ExactSum.__new__(ExactSum)._set(term, element, (), joined(count, digits))

    def _as_signed(self) -> Self:
        """Return sums of unsigned values as among those of int64, to which others merge.

        Of 2**63 - 1 values in all, each within 2**64, they are within 2**127, and held.
        """
        int64 = BY_NAME["int64"]
        wide = self.astype("uint64")
        return wide._set(self._term, int64, self._shape, wide._sums)

    def _count_as(self, other: ExactSum) -> Self:
        """Count as many terms as another object, each of them 0."""
        self._sums[0] = other._sums[0]
        return self

    def copy(self) -> Self:
        """Return a copy that shares nothing with this object."""
        new = self.__class__.__new__(self.__class__)
        return new._set(self._term, self._element, self._shape, self._sums.copy())

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: object) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        # A function of the module: cloudpickle takes a class method apart.
        return _loaded, (self.to_bytes(), self.__class__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactSum):
            return NotImplemented
        return (
            self._term == other._term
            and self._element is other._element
            and self._shape == other._shape
            and np.array_equal(self._sums, other._sums)
        )

    __hash__ = None  # type: ignore[assignment]

    _described = "an ExactSum"

    def __repr__(self) -> str:
        return (
            f"<ExactSum: {self.term} of {self.type}, shape {self._shape}, "
            f"count {self.count}>"
        )


class SumSquare(ExactSum):
    """A sum of squares, exact until it is rounded: an `ExactSum` of that term.

    Parameters
    ----------
    type : str or dtype
        As for `ExactSum`.
    shape : int or tuple of int, optional
        As for `ExactSum`.

    Raises
    ------
    UnsupportedTypeError, ArgumentError
        As `ExactSum` does.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> one = halfulp.SumSquare("float").update(np.float32([4096, 1]))
    >>> two = halfulp.SumSquare("float").update(np.float32([1]))
    >>> (one + two).result(), (one + two).exact(), (one + two).count
    (np.float32(1.6777218e+07), Fraction(16777218, 1), 3)
    >>> (one + two).norm()
    np.float32(4096.0)
    """

    __slots__ = ()

    _terms: ClassVar[tuple[Term, ...]] = ("square",)
    _described = "a SumSquare"

    def __init__(
        self, type: str | npt.DTypeLike, shape: int | Sequence[int] = ()
    ) -> None:
        super().__init__(type, shape, term="square")

    def __repr__(self) -> str:
        return f"<SumSquare: {self.type}, shape {self._shape}, count {self.count}>"


# What a sum of floats is by its flags, of so many: NaN, infinity, and -infinity where
# terms have signs, the highest first. Only one is set.
_FLAGGED = {2: {2: math.nan, 1: math.inf}, 3: {4: math.nan, 2: math.inf, 1: -math.inf}}


def _parted(term: Term, element: ElementType, digits: Array) -> tuple[int, int]:
    """Return the flags of a stored sum, and the number where there are none."""
    size, flags, _ = _core.sum_format(term, element.code)
    total = int.from_bytes(digits.astype("<u8").tobytes(), "little")
    number_bits = 64 * size - flags
    top = total >> number_bits
    number = total & (1 << number_bits) - 1
    # Numbers below 0, in two's complement, have all flags set.
    if element.kind == "float":
        below_zero = flags == 3 and top == 0b111
    else:
        below_zero = flags == 0 and total >> 64 * size - 1 == 1
    return (0, number - (1 << number_bits)) if below_zero else (top, number)


@cache
def _wider(term: Term, element: ElementType) -> list[ElementType]:
    """Return the types whose exact sums hold all those of a type, first itself."""

    def holds(wide: ElementType) -> bool:
        if wide.kind != element.kind:
            return False
        if element.kind == "float":
            least, wide_least = (t.emin - t.significand_bits for t in (element, wide))
            return wide.exponent_bits >= element.exponent_bits and wide_least <= least
        size, wide_size = (t.dtype.itemsize for t in (element, wide))
        if wide.is_signed and not element.is_signed:
            return wide_size > size
        if element.is_signed and not wide.is_signed:
            # What has signs becomes sizes, of which numbers without signs hold more.
            return term != "value" and wide_size >= size
        return wide_size >= size

    return sorted(filter(holds, ELEMENT_TYPES), key=lambda wide: wide is not element)


def _loaded(data: bytes, kind: type[ExactSum] = SumSquare) -> ExactSum:
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
