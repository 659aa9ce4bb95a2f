"""The arrays of .npy and .npz files, to sum or to load.

May import errors, faults, input and files' stored_types and tensors only. NumPy
parses the headers, as literals; arrays of Python objects are never loaded.
"""

from __future__ import annotations

import ast
import io
import os
import struct
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from halfulp.errors import ModelError
from halfulp.faults import model_errors
from halfulp.files.stored_types import BY_NAME, SAVED_BFLOAT16, stored_type
from halfulp.files.tensors import (
    Array,
    FileSource,
    Fill,
    FlatTensor,
    Skipped,
    Source,
    Wanted,
    element_bytes,
)
from halfulp.input import file_errors, open_regular, read_at, the_file

_MAGIC = b"\x93NUMPY"
_LENGTHS = {(1, 0): 2, (2, 0): 4, (3, 0): 4}  # of the length of a header, by version
# Bytes of a header, as for NumPy: that of an array without fields is far shorter.
_MOST_HEADER = 10_000
_MOST_DIRECTORY = 100_000_000  # bytes of an .npz's: a member takes about a hundred
_MOST_RATIO = 1032  # of DEFLATE: 258 bytes from two bits
_LOCAL = struct.Struct("<4s22xHH")  # magic, lengths of the name and of the extra field
_PART = 2**18
# The one type of ml_dtypes that NumPy saves by a name, which it cannot read again.
_FLOAT8, _BYTE = b"'descr': '<f1'", b"'descr': '|u1'"


@dataclass(frozen=True, slots=True)
class NumpyArray:
    """An array in an .npy or .npz file, of which the header is read.

    Attributes
    ----------
    name : str
        Of the member, or the path of the file.
    what : str
        How errors name it.
    dtype : numpy.dtype, optional
        None if NumPy does not know the type.
    type : str
        How the header has it.
    shape : tuple of int
    order : {"C", "F"}
    source : Source
    offset : int
        Of the first element.
    size : int
        Bytes of the source.
    """

    name: str
    what: str
    dtype: np.dtype[Any] | None
    type: str
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    source: Source
    offset: int
    size: int

    def check(self, dtype: np.dtype[Any]) -> int:
        """Return the bytes of the elements.

        Raises
        ------
        ModelError
            If the shape is none of an array, or there are more or fewer bytes.
        """
        nbytes = element_bytes(self.shape, dtype.itemsize, self.what)
        wanted = self.offset + nbytes
        if self.size != wanted:
            raise ModelError(
                f"{self.what} has {self.size} bytes; allowed by its header: {wanted}"
            )
        return nbytes

    def load(self) -> Array:
        """Return the array, with all elements in memory."""
        if self.dtype is None:
            raise ModelError(f"{self.what} is no array of NumPy: {self.type}")
        if self.dtype.hasobject:
            raise ModelError(f"{self.what} cannot be read: it has Python objects")
        with model_errors(f"{self.what} cannot be read"):
            content = bytearray(self.check(self.dtype))
            with self.source.opened() as fill:
                fill(self.offset, memoryview(content))
            return np.ndarray(self.shape, self.dtype, content, order=self.order)


def numpy_arrays(path: Path) -> list[NumpyArray]:
    """Return what is in an .npy or .npz file, which its first bytes tell apart.

    Raises
    ------
    ModelError
        If it is neither, or cannot be read.
    """
    with open_regular(path) as file, file_errors(path):
        beginning = file.read(len(_MAGIC))
        if beginning.startswith(b"PK"):
            return list(_npz_arrays(path))
        if beginning == _MAGIC:
            return [_npy_array(path)]
    raise ModelError(f"{the_file(path)} is no .npy or .npz file")


def npy_tensors(
    path: Path, wanted: Wanted, bfloat16: bool
) -> Iterator[FlatTensor | Skipped]:
    """Yield the one tensor of an .npy file, named by its path."""
    array = _npy_array(path)
    if wanted(array.name):
        yield _tensor(array, bfloat16)


def npz_tensors(
    path: Path, wanted: Wanted, bfloat16: bool
) -> Iterator[FlatTensor | Skipped]:
    """Yield the tensors of an .npz file."""
    for array in _npz_arrays(path):
        if wanted(array.name):
            yield _tensor(array, bfloat16)


def _tensor(array: NumpyArray, bfloat16: bool) -> FlatTensor | Skipped:
    dtype = array.dtype
    if bfloat16 and dtype == SAVED_BFLOAT16:
        dtype = BY_NAME["bfloat16"].dtype
    stored = stored_type(dtype) if dtype else None
    if dtype is None or stored is None:
        return Skipped(array.name, array.type)
    array.check(dtype)
    name, shape, source, offset = array.name, array.shape, array.source, array.offset
    return FlatTensor(name, stored, shape, source, offset, dtype, array.order)


def _npy_array(path: Path) -> NumpyArray:
    with open_regular(path) as file, file_errors(path):
        size = os.fstat(file.fileno()).st_size
        return _array(file, str(path), FileSource(path), size, the_file(path))


def _npz_arrays(path: Path) -> Iterator[NumpyArray]:
    with open_regular(path) as file, file_errors(path):
        size = file.seek(0, io.SEEK_END)
        limited = _Limited(file, size)
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
            if name in names:
                raise ModelError(f"{what} is there twice; allowed: once")
            names.add(name)
            source = _MemberSource(path, member, start)
            if name == member.filename:
                yield NumpyArray(name, what, None, "no .npy", (), "C", source, 0, 0)
                continue
            file.seek(start)
            with zipfile.ZipExtFile(file, "r", member) as content:
                yield _array(content, name, source, member.file_size, what)


def _array(
    file: io.FileIO | zipfile.ZipExtFile,
    name: str,
    source: Source,
    size: int,
    what: str,
) -> NumpyArray:
    """Read the header that begins at the position of `file`."""
    magic = file.read(len(_MAGIC) + 2) or b""
    if not magic.startswith(_MAGIC) or len(magic) < len(_MAGIC) + 2:
        raise ModelError(f"{what} is no .npy file")
    version = magic[-2], magic[-1]
    if version not in _LENGTHS:
        raise ModelError(f"{what} is .npy of version {version}; allowed: 1.0, 2.0, 3.0")
    prefix = file.read(_LENGTHS[version]) or b""
    length = int.from_bytes(prefix, "little")
    offset = len(magic) + len(prefix) + length
    if length > _MOST_HEADER:
        if offset > size:
            raise ModelError(f"{what} has a header of {length} bytes; it ends before")
        kind = f"a header of {length} bytes"
        return NumpyArray(name, what, None, kind, (), "C", source, offset, size)
    content = file.read(length) or b""
    header = content.replace(_FLOAT8, _BYTE)
    try:
        shape, fortran, dtype = _parsed(prefix + header, version)
    except ValueError as error:
        # Raised from a TypeError, when all is well but the name of the type.
        if not isinstance(error.__cause__, TypeError):
            raise
        kind = repr(ast.literal_eval(header.decode("latin1").strip())["descr"])[:80]
        return NumpyArray(name, what, None, kind, (), "C", source, offset, size)
    if header != content:
        dtype = BY_NAME["float8e5m2"].dtype
    kind = dtype.str if dtype.kind == "V" else str(dtype)
    order: Literal["C", "F"] = "F" if fortran else "C"
    return NumpyArray(name, what, dtype, kind, shape, order, source, offset, size)


def _parsed(
    header: bytes, version: tuple[int, int]
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether the first axis is the fastest, and dtype."""
    with warnings.catch_warnings(action="ignore"):
        # Version 3.0 differs from 2.0 in the names of fields only.
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(io.BytesIO(header))
        return np.lib.format.read_array_header_2_0(io.BytesIO(header))


class _Limited(io.BufferedReader):
    """A file that refuses the reading of a directory larger than it or any .npz has."""

    def __init__(self, file: io.FileIO, size: int) -> None:
        super().__init__(file)
        self._most = min(size, _MOST_DIRECTORY)

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= self._most:
            size = self._most + 1
        content = super().read(size)
        if len(content) > self._most:
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
