"""The bytes of exact sums: how many they are in memory, and what they are serialized.

May import arrays, element_types, errors, reductions and the native core only.

Serialized, all numbers are little-endian: the head; the lengths of the axes, 8 bytes
each; and the digits of each sum. The CRC-32 is of all other bytes. Version 1 is of sums
of squares; version 2, of other terms, has theirs after the head.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.arrays import Array
from halfulp.element_types import BY_CODE, ElementType
from halfulp.errors import ArgumentError, shown
from halfulp.reductions import Term

_HEAD = struct.Struct("<8sHBBIQ")  # magic, version, type, rank, CRC-32, count
_TERM = struct.Struct("<B7x")  # in version 2
_MAGIC = b"halfulpS"
_VERSIONS = (1, 2)
_BEFORE_CRC = 12
_AFTER_CRC = 16

# By their numbers in sums of version 2.
_TERMS: dict[int, Term] = {1: "magnitude", 2: "value"}
_NUMBERS = {term: number for number, term in _TERMS.items()}

_MOST_RANK = 64  # NumPy's
_MOST_BYTES = 2**63  # of an array


def digits_of(term: Term, element: ElementType) -> int:
    """Return how many digits of 64 bits an exact sum of terms of a type has."""
    return _core.sum_format(term, element.code)[0]


def joined(count: int, digits: Array) -> Array:
    """Return the one array of a count and the digits of sums."""
    sums = np.empty(1 + digits.size, np.uint64)
    sums[0] = count
    sums[1:] = digits.ravel()
    return sums


def check_shape(shape: Any, term: Term, element: ElementType) -> tuple[int, ...]:
    """Return a shape of sums whose digits are an array too, empty ones included.

    Raises
    ------
    ArgumentError
        If it is none.
    """
    digits = digits_of(term, element)
    try:
        # A view without memory, which NumPy refuses for what is no shape of an array.
        normal = np.broadcast_to(np.uint8(0), shape).shape
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(
            f"shape is {shown(shape)}; allowed: that of an array"
        ) from error
    if math.prod(n for n in normal if n) * 8 * digits >= _MOST_BYTES:
        raise ArgumentError(
            f"shape is {shown(shape)}; allowed: one whose sums, of {8 * digits} bytes "
            "each, are below 2**63 bytes"
        )
    return normal


def packed(
    term: Term, element: ElementType, shape: tuple[int, ...], sums: Array
) -> bytes:
    """Return sums, as `joined` has them, as bytes."""
    number = _NUMBERS.get(term)
    rest = struct.pack("<Q", sums[0])
    if number is not None:
        rest += _TERM.pack(number)
    rest += struct.pack(f"<{len(shape)}Q", *shape)
    rest += sums[1:].astype("<u8", copy=False).tobytes()
    version = _VERSIONS[number is not None]
    head = _HEAD.pack(_MAGIC, version, element.code, len(shape), 0, 0)[:_BEFORE_CRC]
    return head + struct.pack("<I", zlib.crc32(rest, zlib.crc32(head))) + rest


def view_of(data: Any) -> memoryview:
    """Return what is given as bytes as a view of them.

    Raises
    ------
    ArgumentError
        If it is nothing of the kind.
    """
    try:
        return memoryview(data).cast("B")
    except (TypeError, ValueError, BufferError) as error:
        raise ArgumentError(
            f"data is no C-contiguous bytes: {shown(error, str)}"
        ) from error


def unpacked(data: Any) -> tuple[Term, ElementType, tuple[int, ...], Array]:
    """Return term, element type, shape and sums that `packed` gave these bytes.

    Raises
    ------
    ArgumentError
        If these are no such bytes, of another version, cut off or damaged.
    """
    view = view_of(data)
    if len(view) < _HEAD.size:
        raise ArgumentError(
            f"an exact sum of {len(view)} bytes; allowed: {_HEAD.size} or more"
        )
    magic, version, code, rank, crc, count = _HEAD.unpack_from(view)
    if magic != _MAGIC:
        raise ArgumentError(
            f"the bytes of an exact sum begin with {magic!r}; allowed: {_MAGIC!r}"
        )
    if version not in _VERSIONS:
        raise ArgumentError(
            f"the bytes of an exact sum have version {version}; allowed: "
            f"{', '.join(map(str, _VERSIONS))}"
        )
    shape_at = _HEAD.size + (_TERM.size if version > 1 else 0)
    start = shape_at + 8 * rank
    element = BY_CODE.get(code)
    if element is None or rank > _MOST_RANK or len(view) < start:
        raise ArgumentError(
            f"an exact sum of {len(view)} bytes has type {code} and rank {rank}; "
            f"allowed: types {sorted(BY_CODE)}, ranks up to {_MOST_RANK} that fit"
        )
    term: Term = "square"
    if version > 1:
        (number,) = _TERM.unpack_from(view, _HEAD.size)
        if number not in _TERMS or any(view[_HEAD.size + 1 : shape_at]):
            raise ArgumentError(
                f"an exact sum has term {number}; allowed: "
                f"{', '.join(map(str, _TERMS))}, and zeros after it"
            )
        term = _TERMS[number]
    shape = struct.unpack_from(f"<{rank}Q", view, shape_at)
    size = start + 8 * digits_of(term, element) * math.prod(shape)
    if len(view) != size:
        raise ArgumentError(
            f"an exact sum of {element.name} has {len(view)} bytes; allowed: {size} "
            f"for shape {shape}"
        )
    if zlib.crc32(view[_AFTER_CRC:], zlib.crc32(view[:_BEFORE_CRC])) != crc:
        raise ArgumentError("the bytes of an exact sum are damaged: wrong CRC-32")
    normal = check_shape(shape, term, element)
    sums = joined(count, np.frombuffer(view[start:], "<u8"))
    if not _core.are_sums(term, sums, code):
        raise ArgumentError(
            f"the bytes of an exact sum hold what {count} {term}s of {element.name} "
            "cannot sum up to"
        )
    return term, element, normal, sums
