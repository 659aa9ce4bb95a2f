"""The tensors of .npy and .npz files.

May import element_types, errors and tensors only. NumPy parses the headers, as literals;
arrays of Python objects are never loaded.
"""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.element_types import ELEMENT_TYPES, ElementType, element_type
from halfulp.errors import ModelError, UnsupportedTypeError
from halfulp.files.tensors import (
    FileSource,
    Fill,
    FlatTensor,
    Skipped,
    Source,
    element_bytes,
    file_errors,
    open_regular,
    read_at,
    the_file,
)

_BFLOAT16 = next(t for t in ELEMENT_TYPES if t.name == "bfloat16")
_VOID = np.dtype("V2")  # as which NumPy saves bfloat16
_LENGTHS = {(1, 0): 2, (2, 0): 4, (3, 0): 4}  # of the length of a header, by version
_MOST_HEADER = 2**16
_MOST_DIRECTORY = 2**22  # bytes of an .npz's
_MOST_RATIO = 1032  # of DEFLATE: 258 bytes from two bits
_LOCAL = struct.Struct("<4s22xHH")  # magic, lengths of the name and of the extra field
_PART = 2**18


def npy_tensors(path: Path, bfloat16: bool) -> Iterator[FlatTensor]:
    """Yield the one tensor of an .npy file, named by its path."""
    with open_regular(path) as file, file_errors(path):
        found = _tensor(file, str(path), FileSource(path), the_file(path), bfloat16)
        size = file.seek(0, io.SEEK_END)
        if isinstance(found, Skipped):
            hint = "; with --bfloat16 as bfloat16" if found.type == _VOID.str else ""
            allowed = ", ".join(t.numpy_name for t in ELEMENT_TYPES)
            raise UnsupportedTypeError(
                f"{the_file(path)} has dtype {found.type}; allowed: {allowed}{hint}"
            )
        _check_size(found, size, the_file(path))
        yield found


def npz_tensors(path: Path, bfloat16: bool) -> Iterator[FlatTensor | Skipped]:
    """Yield the tensors of an .npz file."""
    with open_regular(path) as file, file_errors(path):
        size = file.seek(0, io.SEEK_END)
        limited = _Limited(file)
        with zipfile.ZipFile(limited) as archive:
            members = archive.infolist()
        limited.detach()
        names = set()
        end = 0
        for member in sorted(members, key=lambda m: m.header_offset):
            what = f"{the_file(path)}, member {member.filename!r}"
            start = _check_member(file, path, member, end, size, what)
            end = start + member.compress_size
            name = member.filename.removesuffix(".npy")
            if name == member.filename:
                raise ModelError(f"{what}: allowed: .npy members only")
            if name in names:
                raise ModelError(f"{what} is there twice; allowed: once")
            names.add(name)
            source = _MemberSource(path, member, start)
            file.seek(start)
            with zipfile.ZipExtFile(file, "r", member) as content:
                found = _tensor(content, name, source, what, bfloat16)
            if isinstance(found, FlatTensor):
                _check_size(found, member.file_size, what)
            yield found


def _tensor(
    file: io.FileIO | zipfile.ZipExtFile,
    name: str,
    source: Source,
    what: str,
    bfloat16: bool,
) -> FlatTensor | Skipped:
    """Read the header that begins at the position of `file`."""
    version = np.lib.format.read_magic(file)
    if version not in _LENGTHS:
        raise ModelError(f"{what} is .npy of version {version}; allowed: 1.0, 2.0, 3.0")
    prefix = file.read(_LENGTHS[version]) or b""
    length = int.from_bytes(prefix, "little")
    if length > _MOST_HEADER:
        raise ModelError(
            f"{what} has a header of {length} bytes; allowed: {_MOST_HEADER}"
        )
    header = io.BytesIO(prefix + (file.read(length) or b""))
    with warnings.catch_warnings(action="ignore"):
        # Version 3.0 differs from 2.0 in the names of fields only.
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(header)
        else:
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(header)
    element: ElementType
    if bfloat16 and dtype == _VOID:
        element, dtype = _BFLOAT16, _BFLOAT16.dtype
    else:
        try:
            element = element_type(dtype)
        except UnsupportedTypeError:
            return Skipped(name, dtype.str if dtype.kind == "V" else str(dtype))
    element_bytes(shape, dtype.itemsize, what)
    offset = np.lib.format.MAGIC_LEN + len(prefix) + length
    order: Any = "F" if fortran else "C"
    return FlatTensor(name, element, shape, source, offset, dtype, order)


def _check_size(tensor: FlatTensor, size: int, what: str) -> None:
    wanted = tensor.offset + tensor.nbytes
    if size != wanted:
        raise ModelError(f"{what} has {size} bytes; allowed by its header: {wanted}")


class _Limited(io.BufferedReader):
    """A file that refuses the reading of a directory larger than any .npz has."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= _MOST_DIRECTORY:
            size = _MOST_DIRECTORY + 1
        content = super().read(size)
        if len(content) > _MOST_DIRECTORY:
            raise zipfile.BadZipFile("its directory is too large")
        return content


def _check_member(
    file: io.FileIO,
    path: Path,
    member: zipfile.ZipInfo,
    end: int,
    size: int,
    what: str,
) -> int:
    """Return where the data of a member starts, after `end`, that of the one before."""
    if member.flag_bits & 0x1:
        raise ModelError(f"{what} is encrypted; allowed: it is not")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ModelError(f"{what} is packed by {member.compress_type}; allowed: 0 or 8")
    local = bytearray(_LOCAL.size)
    read_at(file, path, member.header_offset, memoryview(local))
    magic, *lengths = _LOCAL.unpack(local)
    start: int = member.header_offset + _LOCAL.size + sum(lengths)
    if magic != b"PK\3\4" or member.header_offset < end:
        raise ModelError(f"{what} begins within another or nowhere; allowed: neither")
    ratio = 1 if member.compress_type == zipfile.ZIP_STORED else _MOST_RATIO
    if (
        start + member.compress_size > size
        or member.file_size > member.compress_size * ratio
    ):
        raise ModelError(
            f"{what} has {member.file_size} bytes out of {member.compress_size}; "
            "allowed: what the file can hold"
        )
    return start


class _MemberSource(Source):
    """The bytes of a member of an .npz, whose CRC-32 is checked at the end."""

    def __init__(self, path: Path, member: zipfile.ZipInfo, start: int) -> None:
        self._path, self._member, self._start = path, member, start

    @contextmanager
    def opened(self) -> Iterator[Fill]:
        with open_regular(self._path) as file, file_errors(self._path):
            file.seek(self._start)
            with zipfile.ZipExtFile(file, "r", self._member) as content:

                def fill(offset: int, buffer: memoryview) -> None:
                    if offset < content.tell():
                        content.seek(0)
                    self._pass(content, offset - content.tell())
                    while buffer:
                        part = content.read(min(len(buffer), _PART))
                        if not part:
                            raise ModelError(f"{the_file(self._path)} ends early")
                        buffer[: len(part)] = part
                        buffer = buffer[len(part) :]

                yield fill
                while content.read(_PART):
                    pass

    def _pass(self, content: zipfile.ZipExtFile, count: int) -> None:
        while count:
            part = content.read(min(count, _PART))
            if not part:
                raise ModelError(f"{the_file(self._path)} ends early")
            count -= len(part)
