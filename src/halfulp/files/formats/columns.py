"""The numeric columns of tables, batch after batch, by the package pyarrow.

May import errors, faults, input and files' stored_types and tensors only. The package is
imported by the formats that need it. What it reads of a file comes through one reader,
which has a bound: no file makes it ask for more at once.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from halfulp.errors import ModelError
from halfulp.faults import shortened
from halfulp.files.stored_types import BY_NUMPY_NAME, StoredType
from halfulp.files.tensors import Array, Box, Read, Skipped, Tensor, Wanted
from halfulp.input import file_errors, open_regular, the_file

_MOST_READ = 2**30  # bytes
_MOST_TYPE = 60  # characters of a type that is told
_NUMPY_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


class Leaf(NamedTuple):
    """A column without columns in it.

    Attributes
    ----------
    name : str
        The names on the way to it, with dots between.
    path : tuple of int
        The place of its column among all, and of each field within the one before.
    first : int
        How many leaves come before.
    type : object
        Arrow's.
    """

    name: str
    path: tuple[int, ...]
    first: int
    type: Any


# Opens the file, and yields batches that have the one column of a leaf.
Batches = Callable[[Leaf], Generator[Any]]


def leaves(arrow: Any, schema: Any) -> tuple[list[Leaf], int]:
    """Return the leaves of a schema, with what is no struct whole, and the count of all.

    A list of numbers is one leaf here; a list of structs counts as many as they have.
    """
    found: list[Leaf] = []
    count = 0
    # A list and no recursion, so that no schema is too deep; the last is the next.
    ahead: list[tuple[Any, str, tuple[int, ...]]] = []
    ahead += [(f, f.name, (i,)) for i, f in enumerate(schema)][::-1]
    while ahead:
        field, name, path = ahead.pop()
        if arrow.types.is_struct(field.type) and field.type.num_fields:
            ahead += [
                (field.type[i], f"{name}.{field.type[i].name}", (*path, i))
                for i in range(field.type.num_fields)
            ][::-1]
            continue
        found.append(Leaf(name, path, count, field.type))
        count += _stored_columns(arrow, field.type)
    return found, count


def _stored_columns(arrow: Any, type: Any) -> int:
    """Return how many columns Parquet has for one of a type."""
    count = 0
    ahead = [type]
    while ahead:
        type = ahead.pop()
        if isinstance(type, arrow.BaseExtensionType):
            ahead.append(type.storage_type)
        elif arrow.types.is_nested(type):
            ahead += [type.field(i).type for i in range(type.num_fields)]
        else:
            count += 1
    return count


def known_type(type: Any) -> StoredType | None:
    """Return the stored type of a type of Arrow, if its elements can be summed."""
    name = str(type)
    stored = BY_NUMPY_NAME.get(_NUMPY_NAMES.get(name, name))
    # Arrow's have no other names in common with NumPy's than those of numbers and bool.
    return stored if stored and hasattr(np, stored.numpy_name) else None


def columns_of(
    path: Path,
    wanted: Wanted,
    found: list[Leaf],
    rows: int,
    batches: Batches,
) -> Iterator[Tensor | Skipped]:
    """Yield the leaves that are asked for: numbers as tensors, others as skipped.

    Parameters
    ----------
    path : pathlib.Path
    wanted : function of str
    found : list of Leaf
    rows : int
        Of the table, as the file claims.
    batches : Batches
    """
    if not 0 <= rows < 2**60:
        raise ModelError(f"{the_file(path)} has {rows} rows; allowed: below 2**60")
    for leaf in found:
        if not wanted(leaf.name):
            continue
        stored = known_type(leaf.type)
        if stored is None:
            yield Skipped(leaf.name, shortened(str(leaf.type), _MOST_TYPE))
        else:
            yield ColumnTensor(path, leaf, stored, rows, batches)


class ColumnTensor(Tensor):
    """A column of numbers, whose nulls are no elements; it is read in order.

    Its shape is the number of rows; reading a box gives the elements that its rows have.
    """

    def __init__(
        self,
        path: Path,
        leaf: Leaf,
        stored: StoredType,
        rows: int,
        batches: Batches,
    ) -> None:
        self.name, self.stored, self.shape = leaf.name, stored, (rows,)
        self.grain = (1,)
        self._path, self._leaf, self._batches = path, leaf, batches
        self._what = f"{the_file(path)}, column {leaf.name!r}"
        # Of the rows of the box that was read last: where elements are.
        self._filled: Array = np.empty(0, np.bool_)

    @contextmanager
    def opened(self) -> Iterator[Read]:
        self.nulls = 0
        parts = self._parts()
        rest: Any = None
        done = 0

        def read(box: Box) -> Array:
            nonlocal rest, done, parts
            (side,) = box
            if side.start != done:
                raise AssertionError("columns are read in order")
            taken = []
            while done < side.stop:
                if rest is None or not len(rest):
                    with file_errors(self._path):
                        rest = next(parts, None)
                if rest is None:
                    raise ModelError(
                        f"{self._what} ends early, at row {done} of {self.shape[0]}"
                    )
                part = rest.slice(0, side.stop - done)
                rest = rest.slice(len(part))
                done += len(part)
                taken.append(part)
            with file_errors(self._path):
                if done == self.shape[0] and (len(rest) or self._some(parts)):
                    raise ModelError(f"{self._what} has more rows than it claims")
                return self._elements(taken)

        try:
            yield read
        finally:
            parts.close()

    def _parts(self) -> Generator[Any]:
        """Yield the arrays of the column, with the nulls of what it is in."""
        batches = self._batches(self._leaf)
        try:
            for batch in batches:
                array = batch.column(0)
                array.validate()
                for place in self._leaf.path[1:]:
                    # In Parquet the structs have this one field alone.
                    array = array.flatten()[place if array.type.num_fields > 1 else 0]
                if array.type != self._leaf.type:
                    raise ModelError(f"{self._what} changes its type to {array.type}")
                yield array
        finally:
            batches.close()

    def _some(self, parts: Iterator[Any]) -> bool:
        return any(len(part) for part in parts)

    def _elements(self, arrays: list[Any]) -> Array:
        self._filled = np.concatenate([_bits(a, a.buffers()[0]) for a in arrays])
        contents = [_content(a, self.stored.dtype) for a in arrays]
        joined = contents[0] if len(contents) == 1 else np.concatenate(contents)
        nulls = int(len(self._filled) - np.count_nonzero(self._filled))
        self.nulls += nulls
        return self.stored.converted(joined[self._filled] if nulls else joined)

    def index_read(self, place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (int(np.flatnonzero(self._filled)[place]),)


# Arrow's own conversions would import pandas, where it is installed, which takes seconds.


def _bits(array: Any, buffer: Any) -> Array:
    """Return the bits in a buffer that an array has; of no buffer all are true."""
    if buffer is None:
        return np.ones(len(array), np.bool_)
    first, skipped = divmod(array.offset, 8)
    nbytes = -(-(skipped + len(array)) // 8)
    packed = np.frombuffer(buffer, np.uint8, nbytes, first)
    bits = np.unpackbits(packed, count=skipped + len(array), bitorder="little")
    return bits[skipped:].view(np.bool_)


def _content(array: Any, dtype: np.dtype[Any]) -> Array:
    """Return the elements of an array, and anything for nulls."""
    buffer = array.buffers()[1]
    if not len(array):
        return np.empty(0, dtype)
    if dtype == np.bool_:
        return _bits(array, buffer)
    offset = array.offset * dtype.itemsize
    elements: Array = np.frombuffer(buffer, dtype, len(array), offset)
    return elements


@contextmanager
def opened_file(arrow: Any, path: Path) -> Iterator[Any]:
    """Open a file for pyarrow, which is told as one that cannot be read if it fails."""
    with file_errors(path), open_regular(path) as file:
        yield arrow.PythonFile(_Bounded(file, path), mode="r")


class _Bounded(io.RawIOBase):
    """A file that gives no more than so many bytes at once."""

    def __init__(self, file: io.FileIO, path: Path) -> None:
        self._file, self._path = file, path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MOST_READ:
            raise ModelError(
                f"{the_file(self._path)} has a part of {size} bytes; allowed: 1 GiB"
            )
        return self._file.read(size)
