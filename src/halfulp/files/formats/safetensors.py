"""The tensors of .safetensors files.

May import errors, input and files' stored_types and tensors only. The format, as its
authors describe it: 8 bytes, the length of a header in JSON; the header, from names to
element type, shape and offsets; and the elements, little-endian, without holes.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from halfulp.errors import ModelError
from halfulp.files.stored_types import STORED_TYPES
from halfulp.files.tensors import FileSource, FlatTensor, Skipped, Wanted, element_bytes
from halfulp.input import file_errors, open_regular, read_at, the_file

_MOST_HEADER = 100_000_000  # bytes, as the format has it
_TYPES = {t.safetensors: t for t in STORED_TYPES if t.safetensors}


def safetensors(path: Path, wanted: Wanted) -> Iterator[FlatTensor | Skipped]:
    """Yield the tensors of a .safetensors file, in the order of their elements."""
    file_name = the_file(path)
    with open_regular(path) as file, file_errors(path):
        size = file.seek(0, io.SEEK_END)
        prefix = bytearray(8)
        read_at(file, path, 0, memoryview(prefix))
        length = int.from_bytes(prefix, "little")
        if not 2 <= length <= min(_MOST_HEADER, size - 8):
            raise ModelError(
                f"{file_name} has a header of {length} bytes; allowed: what the file "
                f"has, and {_MOST_HEADER} at most"
            )
        content = bytearray(length)
        read_at(file, path, 8, memoryview(content))
        header = json.loads(content, object_pairs_hook=_unique)
    if not isinstance(header, dict):
        raise ModelError(f"{file_name} has no object of JSON as its header")
    header.pop("__metadata__", None)
    start = 8 + length
    tensors = [(*_entry(facts, name, path), name) for name, facts in header.items()]
    source = FileSource(path)
    end = 0
    for begin, stop, code, shape, name in sorted(tensors, key=lambda t: t[:2]):
        what = f"{file_name}, tensor {name!r}"
        if begin != end or stop < begin:
            raise ModelError(
                f"{what} has its elements at {begin} to {stop}; allowed: from {end} on"
            )
        end = stop
        if not wanted(name):
            continue
        if code not in _TYPES:
            yield Skipped(name, code)
            continue
        stored = _TYPES[code]
        dtype = stored.dtype.newbyteorder("<")
        element_bytes(shape, dtype.itemsize, what)
        nbytes = stored.nbytes(math.prod(shape))
        if stop - begin != nbytes:
            raise ModelError(
                f"{what} has {stop - begin} bytes; allowed by its shape: {nbytes}"
            )
        yield FlatTensor(name, stored, shape, source, start + begin, dtype)
    if start + end != size:
        raise ModelError(
            f"{file_name} has {size} bytes; allowed by its header: {start + end}"
        )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a name is there twice in its header")
    return unique


def _entry(facts: Any, name: str, path: Path) -> tuple[int, int, str, list[int]]:
    """Return begin, end, type and shape of a tensor in the header."""
    match facts:
        case {"dtype": str(code), "shape": list(shape), "data_offsets": [begin, end]}:
            if all(type(n) is int and n >= 0 for n in (begin, end, *shape)):
                return begin, end, code, shape
    raise ModelError(
        f"{the_file(path)}, tensor {name!r}: allowed: dtype, shape and data_offsets, of "
        "text and natural numbers"
    )
