"""What a run has summed, and the state files that join runs.

May import element_types, errors, exact_sum, input and files' stored_types only.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from halfulp.element_types import ELEMENT_TYPES
from halfulp.errors import ArgumentError, HalfulpError, ModelError
from halfulp.exact_sum import SumSquare
from halfulp.files.stored_types import STORED_TYPES
from halfulp.input import file_errors, open_regular, the_file

KINDS = {t.name: t.kind for t in ELEMENT_TYPES}
# In which all sums of a kind are exact.
_WIDEST = {"float": "double", "integer": "uint64"}

# A state file, all numbers little-endian: this head; the axes, 8 bytes each; and for each
# sum its name and the bytes of its SumSquare, each after its length in 8 bytes. The sums
# are in the order of name and type. The last 4 bytes are the CRC-32 of all others.
_HEAD = struct.Struct("<8sHBBQQQQ")
_MAGIC = b"halfulpT"
_VERSION = 1
_NO_AXIS = 255
_COUNTS = ("files", "tensors", "skipped")
_MOST_COUNTED = 2**63 - 1
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_PART = 2**20


class Totals:
    """The sums of a run: of all tensors together, or of each by its name.

    Parameters
    ----------
    per_tensor : bool
    axis : tuple of int, optional
        Along which each tensor is summed; None for all axes.

    Attributes
    ----------
    states : dict
        From name ("" for all together) and element type to SumSquare.
    stored : dict
        From name and element type, as in `states`, to the types in the files, which may
        be smaller; state files do not have them.
    files, tensors, skipped : int
        How many there were.
    """

    def __init__(self, per_tensor: bool, axis: tuple[int, ...] | None = None) -> None:
        self.per_tensor, self.axis = per_tensor, axis
        self.states: dict[tuple[str, str], SumSquare] = {}
        self.stored: dict[tuple[str, str], set[str]] = {}
        self.files = self.tensors = self.skipped = 0

    def add(self, name: str, state: SumSquare, stored: str | None = None) -> None:
        """Add the sums of a tensor, or of a part of it, which has a type in its file."""
        key = (name if self.per_tensor else "", state.type)
        self.stored.setdefault(key, set()).add(stored or state.type)
        known = self.states.get(key)
        if known is None:
            self.states[key] = state.copy()
            return
        if known.shape != state.shape:
            raise ArgumentError(
                f"tensor {name!r} has sums of shape {state.shape}; allowed: "
                f"{known.shape}, as the others that it is added to"
            )
        known.merge(state)

    def merge(self, other: Totals) -> None:
        """Add all of another run, which stays as it is.

        Raises
        ------
        ArgumentError
            If its sums are of another make.
        """
        if (self.per_tensor, self.axis) != (other.per_tensor, other.axis):
            raise ArgumentError(
                f"states {other._make()} and {self._make()}; allowed: all alike"
            )
        counts = {n: getattr(self, n) + getattr(other, n) for n in _COUNTS}
        for what, count in counts.items():
            if count > _MOST_COUNTED:
                raise ArgumentError(f"{count} {what} together; allowed: {_MOST_COUNTED}")
        # All that may fail is done before anything changes.
        merged = Totals(self.per_tensor, self.axis)
        for (name, _), state in other.states.items():
            known = self.states.get((name, state.type))
            for each in (known, state) if known else (state,):
                merged.add(name, each)
        self.states |= merged.states
        for key, types in other.stored.items():
            self.stored.setdefault(key, set()).update(types)
        for what, count in counts.items():
            setattr(self, what, count)

    def _make(self) -> str:
        axis = "" if self.axis is None else f" with --axis {self.axis}"
        return f"{'per tensor' if self.per_tensor else 'of all tensors together'}{axis}"

    def types(self, keys: Iterable[tuple[str, str]]) -> list[str]:
        """Return the types in the files of what was summed, in a fixed order."""
        met = set().union(*(self.stored.get(key, {key[1]}) for key in keys))
        return [t.name for t in STORED_TYPES if t.name in met]

    def ordered(self) -> list[tuple[tuple[str, str], SumSquare]]:
        """Return names, types and sums, ordered by the bytes of the names."""

        def key(item: tuple[tuple[str, str], SumSquare]) -> tuple[bytes, str]:
            (name, type), _ = item
            return _encoded(name), type

        return sorted(self.states.items(), key=key)

    def whole(self) -> dict[str, SumSquare]:
        """Return the sum of all that was summed along all axes, for each kind."""
        return joined(s for s in self.states.values() if s.shape == ())

    def write(self, file: IO[bytes]) -> None:
        """Write a state file: for equal sums the same bytes, whatever the order was."""
        crc = 0

        def put(content: bytes) -> None:
            nonlocal crc
            crc = zlib.crc32(content, crc)
            file.write(content)

        axes = self.axis or ()
        rank = _NO_AXIS if self.axis is None else len(axes)
        counts = (self.files, self.tensors, self.skipped)
        head = (_MAGIC, _VERSION, self.per_tensor, rank, *counts, len(self.states))
        put(_HEAD.pack(*head) + struct.pack(f"<{len(axes)}q", *axes))
        for (name, _), state in self.ordered():
            for part in (_encoded(name), state.to_bytes()):
                put(_LENGTH.pack(len(part)))
                put(part)
        file.write(_CRC.pack(crc))


def joined(states: Iterable[SumSquare]) -> dict[str, SumSquare]:
    """Return the sums of all states of each kind, "float" and "integer"."""
    by_type: dict[str, SumSquare] = {}
    for state in states:
        known = by_type.get(state.type)
        by_type[state.type] = known.merge(state) if known else state.copy()
    result: dict[str, SumSquare] = {}
    for kind, widest in _WIDEST.items():
        of_kind = [s for s in by_type.values() if KINDS[s.type] == kind]
        if len(of_kind) > 1:
            of_kind = [s.astype(widest) for s in of_kind]
        for state in of_kind:
            result[kind] = result[kind].merge(state) if kind in result else state
    return result


def _encoded(name: str) -> bytes:
    # Names may hold halves of surrogate pairs: from JSON, or for bytes of a path.
    return name.encode(errors="surrogatepass")


def read_totals(path: Path) -> Totals:
    """Return what `Totals.write` wrote.

    Raises
    ------
    ModelError
        If the file is no such file, of another version, cut off or damaged.
    """
    with open_regular(path) as file, file_errors(path):
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size or not head.startswith(_MAGIC):
            raise ModelError(f"{the_file(path)} is no state of halfulp sum")
        _, version, per_tensor, rank, files, tensors, skipped, sums = _HEAD.unpack(head)
        if version != _VERSION:
            raise ModelError(
                f"{the_file(path)} is a state of version {version}; allowed: {_VERSION}"
            )
        end = size - _CRC.size
        if not _is_sound(file, end):
            raise ModelError(f"{the_file(path)} is damaged or cut off: wrong CRC-32")
        file.seek(_HEAD.size)

        def take(count: int) -> bytes:
            if count > end - file.tell():
                raise ModelError(f"{the_file(path)} claims more than it has")
            return file.read(count)

        def part() -> bytes:
            return take(_LENGTH.unpack(take(_LENGTH.size))[0])

        if max(files, tensors, skipped) > _MOST_COUNTED:
            raise ModelError(
                f"{the_file(path)} is of {files} files with {tensors} tensors and "
                f"{skipped} others; allowed: {_MOST_COUNTED} of each"
            )
        if per_tensor not in (0, 1):
            raise ModelError(f"{the_file(path)} has flag {per_tensor}; allowed: 0 or 1")
        axes = None
        if rank != _NO_AXIS:
            axes = struct.unpack(f"<{rank}q", take(8 * rank))
        result = Totals(bool(per_tensor), axes)
        result.files, result.tensors, result.skipped = files, tensors, skipped
        before: tuple[bytes, str] | None = None
        for _ in range(sums):
            encoded = part()
            name = encoded.decode(errors="surrogatepass")
            try:
                state = SumSquare.from_bytes(part())
            except HalfulpError as error:
                raise ModelError(f"{the_file(path)}, sum {name!r}: {error}") from error
            if axes is None and state.shape != ():
                raise ModelError(
                    f"{the_file(path)}, sum {name!r} has shape {state.shape}; allowed "
                    "without axes: ()"
                )
            key = (encoded, state.type)
            if (before and key <= before) or (name and not per_tensor):
                raise ModelError(f"{the_file(path)} has sum {name!r} where it cannot be")
            before = key
            result.states[name, state.type] = state
        if file.tell() != end:
            raise ModelError(f"{the_file(path)} has more than it claims")
        return result


def _is_sound(file: IO[bytes], end: int) -> bool:
    file.seek(0)
    crc = 0
    while end > 0:
        content = file.read(min(end, _PART))
        if not content:
            return False
        crc = zlib.crc32(content, crc)
        end -= len(content)
    return file.read() == _CRC.pack(crc)
