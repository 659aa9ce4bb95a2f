"""State files: the exact sums of a run, which others join.

May import errors, exact_sums, input, reductions and, beside it, totals only.
"""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import IO

from halfulp.errors import HalfulpError, ModelError
from halfulp.exact_sums import ExactSum
from halfulp.files.sums.totals import MOST_COUNTED, Totals, encoded
from halfulp.input import file_errors, open_regular, the_file
from halfulp.reductions import Term

# A state file, all numbers little-endian: this head; in version 2 the name of the term in
# 16 bytes, which in version 1 is square; the axes, 8 bytes each; and for each sum its
# name and the bytes of its ExactSum, each after its length in 8 bytes. The sums are in
# the order of name and type. The last 4 bytes are the CRC-32 of all others.
_HEAD = struct.Struct("<8sHBBQQQQ")
_MAGIC = b"halfulpT"
_TERM = struct.Struct("<16s")
_TERMS: dict[bytes, Term] = {b"value": "value", b"magnitude": "magnitude"}
_NO_AXIS = 255
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_PART = 2**20


def write_totals(totals: Totals, file: IO[bytes]) -> None:
    """Write a state file: for equal sums the same bytes, whatever the order was."""
    crc = 0

    def put(content: bytes) -> None:
        nonlocal crc
        crc = zlib.crc32(content, crc)
        file.write(content)

    axes = totals.axis or ()
    rank = _NO_AXIS if totals.axis is None else len(axes)
    counts = (totals.files, totals.tensors, totals.skipped)
    version = 1 if totals.term == "square" else 2
    head = (_MAGIC, version, totals.per_tensor, rank, *counts, len(totals.exact_sums))
    put(_HEAD.pack(*head))
    if version == 2:
        put(_TERM.pack(totals.term.encode()))
    put(struct.pack(f"<{len(axes)}q", *axes))
    for (name, _), exact_sum in totals.ordered():
        for part in (encoded(name), exact_sum.to_bytes()):
            put(_LENGTH.pack(len(part)))
            put(part)
    file.write(_CRC.pack(crc))


def read_totals(path: Path) -> Totals:
    """Return what `write_totals` wrote.

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
        if version not in (1, 2):
            raise ModelError(
                f"{the_file(path)} is a state of version {version}; allowed: 1 and 2"
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

        if max(files, tensors, skipped) > MOST_COUNTED:
            raise ModelError(
                f"{the_file(path)} is of {files} files with {tensors} tensors and "
                f"{skipped} others; allowed: {MOST_COUNTED} of each"
            )
        if per_tensor not in (0, 1):
            raise ModelError(f"{the_file(path)} has flag {per_tensor}; allowed: 0 or 1")
        term: Term = "square"
        if version == 2:
            named = take(_TERM.size).rstrip(b"\0")
            if named not in _TERMS:
                raise ModelError(
                    f"{the_file(path)} has sums of {named!r}; allowed: of "
                    f"{' and '.join(_TERMS.values())}"
                )
            term = _TERMS[named]
        axes = None
        if rank != _NO_AXIS:
            axes = struct.unpack(f"<{rank}q", take(8 * rank))
        result = Totals(bool(per_tensor), axes, term)
        result.files, result.tensors, result.skipped = files, tensors, skipped
        before: tuple[bytes, str] | None = None
        for _ in range(sums):
            name_bytes = part()
            name = name_bytes.decode(errors="surrogatepass")
            try:
                exact_sum = ExactSum.from_bytes(part())
            except HalfulpError as error:
                raise ModelError(f"{the_file(path)}, sum {name!r}: {error}") from error
            if exact_sum.term != term:
                raise ModelError(
                    f"{the_file(path)}, sum {name!r} is of {exact_sum.term}s; allowed: "
                    f"of {term}s, as the file says"
                )
            if axes is None and exact_sum.shape != ():
                raise ModelError(
                    f"{the_file(path)}, sum {name!r} has shape {exact_sum.shape}; "
                    "allowed without axes: ()"
                )
            key = (name_bytes, exact_sum.type)
            if (before and key <= before) or (name and not per_tensor):
                raise ModelError(f"{the_file(path)} has sum {name!r} where it cannot be")
            before = key
            result.exact_sums[name, exact_sum.type] = exact_sum
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
