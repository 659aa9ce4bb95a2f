"""The rules for the arguments of a reduction: types, axes, flags, shapes.

They are those of a version where versions differ. May import errors and reductions only;
in particular not onnx, so that the rules hold without it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar

import numpy as np

from halfulp.errors import (
    ArgumentError,
    AxesError,
    ModelError,
    UnsupportedTypeError,
    shown,
)
from halfulp.reductions import (
    NUMPY_REDUCTIONS,
    REDUCTIONS,
    OperatorVersion,
    Reduction,
    Spread,
)

# Sequences that are no list of axes.
_NO_AXES = (str, bytes, bytearray, memoryview)

_NORMS = {row.ord: row for row in (*REDUCTIONS, *NUMPY_REDUCTIONS) if row.ord is not None}

_MOST_DDOF = 2**53  # of the core

# A size, or what stands for one that is not known: a name or None.
_Size = TypeVar("_Size", int, int | str | None)


def check_opset(opset: int) -> None:
    """Raise a ModelError unless there is such an opset of the domain ``""``."""
    if opset < 1:
        raise ModelError(
            f"opset {opset} of domain '' is not allowed; allowed: 1 and later"
        )


def check_type(name: str, version: OperatorVersion, where: str = "") -> None:
    """Raise unless `version` allows the element type called `name` in ONNX."""
    if name not in version.types:
        allowed = ", ".join(version.types)
        raise UnsupportedTypeError(
            f"{where}data has type {name}, not allowed in {version}; allowed: {allowed}"
        )


def check_flag(name: str, value: object, where: str = "") -> bool:
    """Return a flag, given as the integer 0 or 1, as a bool.

    Raises
    ------
    ArgumentError
        For any other value.
    """
    if isinstance(value, np.bool):  # which is no integer
        value = bool(value)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if number not in (0, 1):
        raise ArgumentError(f"{where}{name} is {shown(value)}; allowed: 0 or 1")
    return number == 1


def norm_of(ord: object) -> Reduction:
    """Return the row of the norm that NumPy's argument `ord` names.

    Raises
    ------
    ArgumentError
        If there is none.
    """
    if type(ord) is int and ord in _NORMS:  # most calls, in a tenth of the time
        return _NORMS[ord]
    row: Reduction | None = None
    try:
        if not isinstance(ord, bool):
            row = _NORMS.get(ord)  # type: ignore[call-overload]
    except TypeError:  # of what is not hashable
        pass
    if row is None:
        allowed = ", ".join(str(each) for each in _NORMS)
        raise ArgumentError(f"ord is {shown(ord)}; allowed: {allowed}")
    return row


def spread_of(name: Literal["var", "std"], ddof: object) -> Spread:
    """Return what NumPy's function of this name computes with an argument `ddof`.

    Raises
    ------
    ArgumentError
        If that is not an integer of at most 2**53 in size.
    """
    try:
        number = operator.index(ddof)  # type: ignore[arg-type]
    except TypeError:
        number = _MOST_DDOF + 1
    if isinstance(ddof, bool) or abs(number) > _MOST_DDOF:
        raise ArgumentError(
            f"ddof is {shown(ddof)}; allowed: an integer of at most 2**53 in size"
        )
    return Spread(name, number)


def raises_on_overflow(overflow: object) -> bool:
    """Return what the argument `overflow` says.

    Raises
    ------
    ArgumentError
        If it is neither "wrap" nor "raise".
    """
    if not isinstance(overflow, str) or overflow not in ("wrap", "raise"):
        raise ArgumentError(f"overflow is {shown(overflow)}; allowed: 'wrap' or 'raise'")
    return overflow == "raise"


def axes_error(axes: object, allowed: str) -> AxesError:
    """Return the error for axes that are no list; a lone axis is told how to be one."""
    hint = ""
    if not isinstance(axes, bool):
        with suppress(TypeError):
            hint = f"; write [{shown(operator.index(axes))}]"  # type: ignore[arg-type]
    return AxesError(f"axes is {shown(axes)}; allowed: {allowed}{hint}")


def normalize_axes(
    axes: Iterable[int],
    rank: int,
    *,
    repeated: Literal["merge", "raise"],
    where: str = "",
) -> tuple[int, ...]:
    """Return axes as sorted, distinct, non-negative integers.

    Parameters
    ----------
    axes : iterable of int
        Each in [-rank, rank - 1].
    rank : int
    repeated : {"merge", "raise"}
        What the same axis twice means: ONNX's faces merge (as ONNX's shape
        inference and ONNX Runtime do), NumPy's raises (as NumPy does).
    where : str
        Put before the message of an error.

    Raises
    ------
    AxesError
        If an axis is no integer, out of range, or repeated where that raises.
    """
    found: set[int] = set()
    for given in axes:
        try:
            if isinstance(given, bool):  # a misplaced keepdims; NumPy refuses it too
                raise TypeError
            axis = operator.index(given)
        except TypeError:
            raise AxesError(f"{where}axis {shown(given)} is not an integer") from None
        if not -rank <= axis < rank:
            allowed = f"[{-rank}, {rank - 1}]" if rank else "none, a scalar has no axes"
            raise AxesError(
                f"{where}axis {shown(axis)} is out of range for rank {rank}; "
                f"allowed: {allowed}"
            )
        axis %= rank
        if axis in found and repeated == "raise":
            raise AxesError(f"{where}axis {axis} is given twice; allowed: each axis once")
        found.add(axis)
    return tuple(sorted(found))


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Return the axes that `axis` of NumPy's face names, normalized.

    None means all, a sequence each in it, anything else one axis.

    Raises
    ------
    AxesError
        As `normalize_axes`.
    """
    if type(axis) is int and -rank <= axis < rank:  # as in most calls
        return (axis % rank,)
    if axis is None:
        return tuple(range(rank))
    alone = isinstance(axis, int) or not is_sequence_of_axes(axis)
    given = (axis,) if alone else axis
    return normalize_axes(given, rank, repeated="raise")


def is_sequence_of_axes(axes: object) -> bool:
    """Tell whether axes are a sequence of Python's, not an array and no text."""
    return isinstance(axes, tuple | list) or (
        isinstance(axes, Sequence) and not isinstance(axes, _NO_AXES)
    )


def check_mask(
    dtype: np.dtype[Any], shape: tuple[int, ...], data_shape: tuple[int, ...]
) -> None:
    """Raise unless `where` of a dtype and a shape tells which elements count.

    Raises
    ------
    UnsupportedTypeError, ArgumentError
        If it is not of bool, or its shape does not broadcast to that of the data.
    """
    if dtype.kind != "b":
        raise UnsupportedTypeError(f"where has dtype {dtype}; allowed: bool")
    fits = len(shape) <= len(data_shape) and all(
        n in (1, size) for n, size in zip(shape[::-1], data_shape[::-1], strict=False)
    )
    if not fits:
        raise ArgumentError(
            f"where has shape {shape}; allowed: one that broadcasts to {data_shape}, "
            "the shape of x"
        )


def reduced_axes(
    axes: Iterable[int] | None,
    rank: int,
    *,
    noop_with_empty_axes: bool,
    where: str = "",
) -> tuple[int, ...]:
    """Return the axes that a node reduces, empty axes decided.

    Absent and empty `axes` mean all axes, or none when `noop_with_empty_axes`
    is set: each element is a reduction of itself then.
    """
    normal = normalize_axes(axes or (), rank, repeated="merge", where=where)
    if normal or noop_with_empty_axes:
        return normal
    return tuple(range(rank))


def reduced_shape(
    shape: Sequence[_Size], axes: Sequence[int], keepdims: bool
) -> tuple[_Size, ...]:
    """Return the shape of the result for normalized `axes`."""
    reduced = set(axes)
    if keepdims:
        return tuple(1 if i in reduced else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in reduced)
