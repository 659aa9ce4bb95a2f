"""Tensors in files: what is known of them, and reading them box by box.

May import element_types, errors and input only. Files are read, not mapped: a file that
shrinks while it is read is an error then, and no signal.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from halfulp.element_types import ElementType
from halfulp.errors import ModelError
from halfulp.files.stored_types import StoredType
from halfulp.input import open_regular, read_at

Array = npt.NDArray[Any]
# A part of a tensor: from where to where on each axis, in steps of one.
Box = tuple[slice, ...]
Read = Callable[[Box], Array]
# Tells of a name whether its tensor is asked for.
Wanted = Callable[[str], bool]
# Fills a buffer with the bytes from an offset on.
Fill = Callable[[int, memoryview], None]

_MOST_RANK = 64  # NumPy's


@dataclass(frozen=True, slots=True)
class Skipped:
    """A tensor that is not summed, since its type or form is none that can be."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class WrittenChunks:
    """The chunks of an array that a file has, where it lacks others.

    Attributes
    ----------
    places : numpy.ndarray
        Of int64 and shape (chunks, rank), in C order: where on the grid of chunks they
        are.
    known : set of tuple of int
        The same.
    fill : numpy.ndarray
        Of shape (), as it is summed: each element of the other chunks.
    missing : tuple of int
        Where the first element of the other chunks is, in C order.
    """

    places: npt.NDArray[np.int64]
    known: set[tuple[int, ...]]
    fill: Array
    missing: tuple[int, ...]


class Tensor(ABC):
    """A tensor in a file.

    Attributes
    ----------
    name : str
        In its file; of the one tensor of a file without names, the path.
    file : pathlib.Path
        As it was given; whoever finds the tensor sets it.
    stored : StoredType
    shape : tuple of int
    grain : tuple of int
        The sides of the boxes that the file stores as one.
    order : {"C", "F"}
        Which axis is the fastest in the file: the last or the first.
    threads : int
        The most threads that may read at once.
    nulls : int
        How many places have no element, as far as it was read: rows of tables alone.
    written_chunks : WrittenChunks, optional
        Of a tensor in chunks, some of which the file lacks.
    """

    name: str
    file: Path
    stored: StoredType
    shape: tuple[int, ...]
    grain: tuple[int, ...]
    order: Literal["C", "F"] = "C"
    threads = 1
    nulls = 0

    @property
    def written_chunks(self) -> WrittenChunks | None:
        """None: all is there."""
        return None

    @property
    def element(self) -> ElementType:
        """In which it is summed."""
        return self.stored.element

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, not compressed."""
        return self.stored.nbytes(self.size)

    def flat(self) -> Tensor:
        """Return the same elements in the shape that is read with the fewest calls."""
        return self

    def index_read(self, place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return where in the last box that was read an element of its array is.

        Parameters
        ----------
        place : int
            Of the element, in C order.
        shape : tuple of int
            Of the array.
        """
        return tuple(map(int, np.unravel_index(place, shape)))

    @abstractmethod
    def opened(self) -> AbstractContextManager[Read]:
        """Open the file for a ``with`` block.

        Returns
        -------
        context manager of a function
            It takes a box and returns its elements, as those that are summed, which
            stay there until the thread reads again.
        """


class FlatTensor(Tensor):
    """A tensor whose elements lie one after another in the bytes of a source.

    Parameters
    ----------
    source : Source
    offset : int
        Of the first element.
    dtype : numpy.dtype
        In the byte order of the source.
    order : {"C", "F"}
    """

    def __init__(
        self,
        name: str,
        stored: StoredType,
        shape: Sequence[int],
        source: Source,
        offset: int,
        dtype: np.dtype[Any],
        order: Literal["C", "F"] = "C",
    ) -> None:
        self.name, self.stored, self.shape = name, stored, tuple(shape)
        self.grain = (1,) * len(self.shape)
        self.threads = source.threads
        self._source, self.offset = source, offset
        self._dtype, self.order = dtype, order

    def flat(self) -> FlatTensor:
        source, offset, dtype = self._source, self.offset, self._dtype
        return FlatTensor(self.name, self.stored, (self.size,), source, offset, dtype)

    def transposed(self) -> FlatTensor:
        """Return the tensor with its axes reversed, in the other order."""
        source, offset, dtype = self._source, self.offset, self._dtype
        order: Literal["C", "F"] = "C" if self.order == "F" else "F"
        shape = self.shape[::-1]
        other = FlatTensor(self.name, self.stored, shape, source, offset, dtype, order)
        other.file = self.file
        return other

    @contextmanager
    def opened(self) -> Iterator[Read]:
        step = -1 if self.order == "F" else 1
        local = threading.local()
        with self._source.opened() as fill:

            def read(box: Box) -> Array:
                sides = tuple(side.stop - side.start for side in box)[::step]
                nbytes = math.prod(sides) * self._dtype.itemsize
                buffer = getattr(local, "buffer", memoryview(b""))
                if len(buffer) < nbytes:
                    buffer = local.buffer = memoryview(bytearray(nbytes))
                buffer = buffer[:nbytes]
                done = 0
                for start, count in _runs(self.shape[::step], box[::step], sides):
                    end = done + count * self._dtype.itemsize
                    self._fill(fill, start, count, buffer[done:end])
                    done = end
                array = np.frombuffer(buffer, self._dtype).reshape(sides)
                array = self.stored.converted(array)
                return array if step == 1 else array.T

            yield read

    def _fill(self, fill: Fill, start: int, count: int, buffer: memoryview) -> None:
        """Fill a buffer with elements, a byte at least for each."""
        bits = self.stored.bits
        if bits >= 8:
            fill(self.offset + start * bits // 8, buffer)
            return
        before, skipped = divmod(start * bits, 8)
        packed = bytearray(self.stored.nbytes(skipped // bits + count))
        fill(self.offset + before, memoryview(packed))
        unpacked = self.stored.unpacked(np.frombuffer(packed, np.uint8))
        buffer[:] = unpacked[skipped // bits :][:count].data


def _runs(
    shape: tuple[int, ...], box: Box, sides: tuple[int, ...]
) -> Iterator[tuple[int, int]]:
    """Yield start and length of the runs of a box in an array of C order."""
    if 0 in sides:
        return
    axis = len(shape)
    length = 1
    while axis and (axis == len(shape) or sides[axis] == shape[axis]):
        axis -= 1
        length *= sides[axis]
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    first = sum(side.start * stride for side, stride in zip(box, strides, strict=True))
    for index in np.ndindex(*sides[:axis]):
        yield first + sum(map(int.__mul__, index, strides)), length


def boxes(
    box: Box, most: int, grain: Sequence[int], *, ordered: bool = False
) -> Iterator[Box]:
    """Split a box into boxes of at most `most` elements, or of one grain if that is more.

    Parameters
    ----------
    box : Box
        It begins at a multiple of the grain.
    most : int
    grain : sequence of int
    ordered : bool
        Whether the elements, box after box, must be in C order. Grains are cut then where
        they are in the way.
    """
    sides = [side.stop - side.start for side in box]
    if 0 in sides:
        return
    steps = [min(g, n) for g, n in zip(grain, sides, strict=True)]
    # The axes from `axis` on stay whole.
    axis, whole = len(sides), 1
    while axis:
        before = 1 if ordered else math.prod(steps[: axis - 1])
        if whole * sides[axis - 1] * before > most:
            break
        axis -= 1
        whole *= sides[axis]
    if axis:
        if ordered:
            if steps[axis - 1] * whole > max(most, math.prod(steps)):
                steps[axis - 1] = 1
            steps[: axis - 1] = [1] * (axis - 1)
        steps[axis - 1] *= max(1, most // (whole * math.prod(steps[:axis])))
    yield from _in_steps(box, steps[:axis])


def _in_steps(box: Box, steps: Sequence[int]) -> Iterator[Box]:
    """Yield the boxes that steps on the first axes give, one by one."""
    if not steps:
        yield box
        return
    side = box[0]
    for start in range(side.start, side.stop, steps[0]):
        for rest in _in_steps(box[1:], steps[1:]):
            yield slice(start, min(start + steps[0], side.stop)), *rest


class Source(ABC):
    """Bytes that are read from any offset on.

    Attributes
    ----------
    threads : int
        The most threads that may read at once.
    """

    threads = 1

    @abstractmethod
    def opened(self) -> AbstractContextManager[Fill]:
        """Open it for a ``with`` block, to fill buffers."""


class FileSource(Source):
    """The bytes of a regular file; `raw` as for `open_regular`."""

    # More do not read faster, and each has a buffer.
    threads = 4

    def __init__(self, path: Path, *, raw: bool = False) -> None:
        self._path, self._raw = path, raw

    @contextmanager
    def opened(self) -> Iterator[Fill]:
        with open_regular(self._path, raw=self._raw) as file:
            yield lambda offset, buffer: read_at(file, self._path, offset, buffer)


def element_bytes(shape: Sequence[int], itemsize: int, what: str) -> int:
    """Return the bytes of an array of a shape that a file claims.

    Raises
    ------
    ModelError
        If no array has this shape.
    """
    if len(shape) > _MOST_RANK or any(not 0 <= n < 2**63 for n in shape):
        raise ModelError(
            f"{what} has shape {_short(shape)}; allowed: that of an array, of rank "
            f"{_MOST_RANK} at most"
        )
    # Empty arrays must be possible too, as NumPy has it.
    if math.prod(n for n in shape if n) * itemsize >= 2**63:
        raise ModelError(f"{what} has shape {_short(shape)}; allowed: below 2**63 bytes")
    return math.prod(shape) * itemsize


def _short(shape: Sequence[int]) -> str:
    text = str(tuple(shape))
    return text if len(text) <= 80 else text[:80] + "…"
