"""Exact moments that grow by arrays and merge: sums of values and of squares at once.

May import arrays, element_types, errors, exact_bytes, exact_sums, reductions, spec.rules
and the native core only.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from halfulp import _core
from halfulp.element_types import element_type, result_type
from halfulp.errors import ArgumentError, UnsupportedTypeError
from halfulp.exact_bytes import view_of
from halfulp.exact_sums import ExactSum
from halfulp.reductions import result_of
from halfulp.spec.rules import spread_of

_HEAD = struct.Struct("<8sQ")  # magic, and the bytes of the sums of values
_MAGIC = b"halfulpM"


class Moments:
    """Count, sum and sum of squares, exact until they are rounded: they grow and merge.

    Parameters
    ----------
    type : str or dtype
        Of the elements, as for `ExactSum`.
    shape : int or tuple of int, optional
        Of the results: that of the kept axes, in their order.

    Raises
    ------
    UnsupportedTypeError, ArgumentError
        As `ExactSum` does.

    Notes
    -----
    Equal multisets of elements give equal objects, bytes and results, in any order of
    updates and merges. Every result is the exact value rounded once, as `halfulp.mean`,
    `var`, `std`, `vector_norm` and the like give it for all that was added.

    One object is changed by one call at a time: others raise ArgumentError meanwhile.

    Examples
    --------
    >>> import numpy as np
    >>> import halfulp
    >>> one = halfulp.Moments("float").update(np.float32([1, 2]))
    >>> two = halfulp.Moments("float").update(np.float32([4]))
    >>> both = one + two
    >>> both.mean(), both.var(), both.std(ddof=1), both.norm(), both.rms()
    (np.float32(2.3333333), np.float32(1.5555556), np.float32(1.5275252), \
np.float32(4.582576), np.float32(2.6457512))
    >>> both == two + one, halfulp.Moments.from_bytes(both.to_bytes()) == both
    (True, True)
    """

    __slots__ = ("_changing", "_sums")

    def __init__(
        self, type: str | npt.DTypeLike, shape: int | Sequence[int] = ()
    ) -> None:
        self._set(ExactSum(type, shape), ExactSum(type, shape, term="square"))

    def _set(self, values: ExactSum, squares: ExactSum) -> Self:
        # One object, so that no interrupt parts them.
        self._sums = (values, squares)
        self._changing = threading.Lock()
        return self

    @property
    def values(self) -> ExactSum:
        """A copy of the exact sums of the elements."""
        return self._sums[0].copy()

    @property
    def squares(self) -> ExactSum:
        """A copy of the exact sums of their squares."""
        return self._sums[1].copy()

    @property
    def type(self) -> str:
        """ONNX's name of the element type."""
        return self._sums[0].type

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self._sums[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the results."""
        return self._sums[0].shape

    @property
    def count(self) -> int:
        """How many elements each result is of; at most 2**63 - 1."""
        return self._sums[0].count

    @property
    def nbytes(self) -> int:
        """The bytes of the sums in memory: those of both, see `ExactSum.nbytes`."""
        return sum(each.nbytes for each in self._sums)

    def update(self, array: Any, axis: int | Sequence[int] | None = None) -> Self:
        """Add the elements of an array.

        Parameters
        ----------
        array, axis
            As for `ExactSum.update`.

        Returns
        -------
        Moments
            This object.

        Raises
        ------
        UnsupportedTypeError, AxesError, ArgumentError, SumOverflowError
            As `ExactSum.update` does; the moments are as they were then, as after an
            interrupt, for which a copy of them is made.
        """
        with self._change():
            values, squares = (sums.copy().update(array, axis) for sums in self._sums)
            self._sums = (values, squares)
        return self

    def merge(self, other: Moments) -> Self:
        """Add the moments of another object, which stays as it is.

        Parameters
        ----------
        other : Moments
            Of the same type and shape.

        Returns
        -------
        Moments
            This object.

        Raises
        ------
        ArgumentError
            If `other` is nothing of the kind.
        SumOverflowError
            If there would be more than 2**63 - 1 elements in a sum.
        """
        if not isinstance(other, Moments):
            raise ArgumentError(
                f"other is a {other.__class__.__name__}; allowed: a Moments"
            )
        with self._change():
            pairs = zip(self._sums, other._sums, strict=True)
            values, squares = (mine.copy().merge(theirs) for mine, theirs in pairs)
            self._sums = (values, squares)
        return self

    @contextmanager
    def _change(self) -> Iterator[None]:
        if not self._changing.acquire(blocking=False):
            raise ArgumentError(
                "the moments are being changed by another call, of another thread or one "
                "that a signal handler came into; allowed: one change at a time"
            )
        try:
            yield
        finally:
            self._changing.release()

    def __add__(self, other: object) -> Self:
        if not isinstance(other, Moments):
            return NotImplemented
        return self.copy().merge(other)

    def __radd__(self, other: object) -> Self:
        # Python's sum() begins with the integer 0.
        if type(other) is not int or other != 0:
            return NotImplemented
        return self.copy()

    def __iadd__(self, other: object) -> Self:
        if not isinstance(other, Moments):
            return NotImplemented
        return self.merge(other)

    def sum(self, dtype: npt.DTypeLike | None = None, overflow: str = "wrap") -> Any:
        """Return the sums, rounded once.

        Parameters
        ----------
        dtype, overflow : optional
            As for `ExactSum.result`.

        Returns
        -------
        numpy.ndarray or numpy scalar
            A scalar where the shape is ().

        Raises
        ------
        UnsupportedTypeError, ArgumentError, SumOverflowError
            As `ExactSum.result` does.
        """
        return self._sums[0].result(dtype, overflow)

    def mean(self, dtype: npt.DTypeLike | None = None, overflow: str = "wrap") -> Any:
        """Return the means, rounded once; see `ExactSum.mean`.

        Parameters
        ----------
        dtype, overflow : optional
            As for `ExactSum.mean`.

        Returns
        -------
        numpy.ndarray or numpy scalar
            As of `sum`.

        Raises
        ------
        UnsupportedTypeError, ArgumentError, SumOverflowError
            As `ExactSum.mean` does.
        """
        return self._sums[0].mean(dtype, overflow)

    def norm(self, dtype: npt.DTypeLike | None = None) -> Any:
        """Return the roots of the sums of squares, rounded once; see `ExactSum.norm`.

        Parameters
        ----------
        dtype : dtype, optional
            As for `ExactSum.norm`.

        Returns
        -------
        numpy.ndarray or numpy scalar
            As of `sum`.

        Raises
        ------
        UnsupportedTypeError, ArgumentError, SumOverflowError
            As `ExactSum.norm` does.
        """
        return self._sums[1].norm(dtype)

    def var(self, dtype: npt.DTypeLike | None = None, *, ddof: int = 0) -> Any:
        """Return the variances, rounded once, as `halfulp.var` does.

        Parameters
        ----------
        dtype : dtype, optional
            Of the result, a float type. Default: that of the elements, and float64 of
            integers.
        ddof : int, optional
            As for `halfulp.var`.

        Returns
        -------
        numpy.ndarray or numpy scalar
            As of `sum`; NaN where ``count - ddof`` is not above 0, and of elements that
            are not finite.

        Raises
        ------
        UnsupportedTypeError, ArgumentError
            If an argument is not allowed.
        SumOverflowError
            Where a sum of squares of integers is 2**127 or more, which is not held.
        """
        return self._spread("var", ddof, dtype, *self._sums)

    def std(self, dtype: npt.DTypeLike | None = None, *, ddof: int = 0) -> Any:
        """Return the standard deviations, rounded once, as `halfulp.std` does.

        Parameters
        ----------
        dtype, ddof : optional
            As for `var`.

        Returns
        -------
        numpy.ndarray or numpy scalar
            As of `var`.

        Raises
        ------
        UnsupportedTypeError, ArgumentError, SumOverflowError
            As `var` does.
        """
        return self._spread("std", ddof, dtype, *self._sums)

    def rms(self, dtype: npt.DTypeLike | None = None) -> Any:
        """Return the roots of the means of the squares, rounded once.

        Parameters
        ----------
        dtype : dtype, optional
            As for `var`.

        Returns
        -------
        numpy.ndarray or numpy scalar
            As of `sum`; of no elements NaN, with infinite ones infinity.

        Raises
        ------
        UnsupportedTypeError, ArgumentError, SumOverflowError
            As `var` does.
        """
        squares = self._sums[1]
        # The deviation of elements whose sum is 0: none, if one is not finite.
        zeros = ExactSum(self.dtype, self.shape)._count_as(squares)
        roots = self._spread("std", 0, dtype, zeros, squares)
        if not self.count or not np.isnan(roots).any():
            return roots
        return np.where(np.isnan(roots), squares.norm(roots.dtype), roots)[()]

    def _spread(
        self,
        name: Literal["var", "std"],
        ddof: int,
        dtype: npt.DTypeLike | None,
        values: ExactSum,
        squares: ExactSum,
    ) -> Any:
        spread = spread_of(name, ddof)
        source = element_type(self.dtype)
        into = result_of(source, is_real=True)
        if dtype is not None:
            into = result_type(source, dtype)
        if into.kind != "float":
            raise UnsupportedTypeError(
                f"dtype is {into.numpy_name}, of {name}; allowed: float types"
            )
        return _core.round_spreads(
            name == "std",
            spread.ddof,
            values._sums,
            squares._sums,
            self.shape,
            source.code,
            into.code,
        )[()]

    def to_bytes(self) -> bytes:
        """Return all of it as bytes, the same on every platform.

        Returns
        -------
        bytes
            Equal objects give equal bytes.
        """
        values, squares = (sums.to_bytes() for sums in self._sums)
        return _HEAD.pack(_MAGIC, len(values)) + values + squares

    @classmethod
    def from_bytes(cls, data: Any) -> Self:
        """Return the object that `to_bytes` gave these bytes.

        Parameters
        ----------
        data : bytes-like
            From anywhere: it is checked, and no more memory is taken than it has.

        Returns
        -------
        Moments

        Raises
        ------
        ArgumentError
            If these are no such bytes, of another version, cut off or damaged.
        """
        view = view_of(data)
        if len(view) < _HEAD.size or bytes(view[: len(_MAGIC)]) != _MAGIC:
            raise ArgumentError(
                f"the bytes of moments begin with {bytes(view[: len(_MAGIC)])!r}; "
                f"allowed: {_MAGIC!r}, and more"
            )
        _, size = _HEAD.unpack_from(view)
        values = ExactSum.from_bytes(view[_HEAD.size : _HEAD.size + size])
        squares = ExactSum.from_bytes(view[_HEAD.size + size :])
        told = [(s.term, s.type, s.shape, s.count) for s in (values, squares)]
        if told[0][0] != "value" or told[1] != ("square", *told[0][1:]):
            raise ArgumentError(
                f"the bytes of moments hold sums of {told[0]} and {told[1]}; allowed: of "
                "values and squares of one type, shape and count"
            )
        return cls.__new__(cls)._set(values, squares)

    def copy(self) -> Self:
        """Return a copy that shares nothing with this object."""
        values, squares = self._sums
        return self.__class__.__new__(self.__class__)._set(values.copy(), squares.copy())

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: object) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        # A function of the module: cloudpickle takes a class method apart.
        return _loaded, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moments):
            return NotImplemented
        return self._sums == other._sums

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Moments: {self.type}, shape {self.shape}, count {self.count}>"


def _loaded(data: bytes) -> Moments:
    return Moments.from_bytes(data)
