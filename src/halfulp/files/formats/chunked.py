"""Arrays that are stored in chunks, some of which may never have been written.

May import errors, input and files' stored_types and tensors only. The packages that
unpack the chunks, zarr and h5py, are imported when they are needed.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp.errors import ModelError
from halfulp.files.stored_types import StoredType
from halfulp.files.tensors import Array, Box, Read, Tensor, WrittenChunks, element_bytes
from halfulp.input import file_errors

_MOST_CHUNK = 2**30  # bytes

# Where the chunks are that a file has: for each the place on each axis of the grid of
# chunks.
Places = npt.NDArray[np.int64]


class ChunkedTensor(Tensor):
    """An array that is stored in chunks, which another package unpacks.

    Parameters
    ----------
    path : pathlib.Path
    name : str
    what : str
        How errors name it.
    stored : StoredType
    shape : tuple of int
    chunks : tuple of int, optional
        Their shape; None if all lies in one piece.
    opened : function
        Opens the array for a ``with`` block.
    places : function of the open array
        Returns where the chunks are that the file has, or None if it has all. Those
        beyond the shape count for nothing.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        what: str,
        stored: StoredType,
        shape: tuple[int, ...],
        chunks: tuple[int, ...] | None,
        opened: Callable[[], AbstractContextManager[Any]],
        places: Callable[[Any], Places | None],
    ) -> None:
        self.name, self.stored, self.shape = name, stored, shape
        itemsize = self.element.dtype.itemsize
        element_bytes(shape, itemsize, what)
        self.grain = chunks or (1,) * len(shape)
        if element_bytes(self.grain, itemsize, what) > _MOST_CHUNK:
            raise ModelError(f"{what} has chunks of shape {self.grain}; allowed: 1 GiB")
        self._path, self._opened, self._places = path, opened, places

    @cached_property
    def written_chunks(self) -> WrittenChunks | None:
        """The chunks that the file has, where it lacks others."""
        if not self.size:
            return None
        with file_errors(self._path), self._opened() as array:
            places = self._places(array)
            if places is None:
                return None
            grid = self._chunk_grid
            places = places[(places < np.array(grid)).all(axis=1)]
            places = np.unique(places, axis=0) if len(places) else places
            if len(places) == math.prod(grid):
                return None
            known = set(map(tuple, places.tolist()))
            # At most as many come before as there are, so this ends soon.
            free = next(p for p in _grid_places(grid) if p not in known)
            first = tuple(g * p for g, p in zip(self.grain, free, strict=True))
            one = tuple(slice(n, n + 1) for n in first)
            fill = self._elements(array[one]).reshape(())
            return WrittenChunks(places, known, fill, first)

    @property
    def _chunk_grid(self) -> list[int]:
        return [-(-n // g) for n, g in zip(self.shape, self.grain, strict=True)]

    def _elements(self, array: Any) -> Array:
        # Types that the package does not know are stored as others of their size.
        given = np.asarray(array)
        if self.stored.dtype != given.dtype.newbyteorder("="):
            given = given.view(self.stored.dtype)
        return self.stored.converted(given)

    @contextmanager
    def opened(self) -> Iterator[Read]:
        with file_errors(self._path), self._opened() as array:

            def read(box: Box) -> Array:
                with file_errors(self._path):
                    written = self.written_chunks
                    there = None if written is None else self._there(written, box)
                    if written is None or there is None:
                        return self._elements(array[box])
                    starts = [side.start for side in box]
                    sides = [side.stop - side.start for side in box]
                    result = np.full(sides, written.fill)
                    for place in there:
                        part = self._within(place, box)
                        where = tuple(
                            slice(side.start - start, side.stop - start)
                            for side, start in zip(part, starts, strict=True)
                        )
                        result[where] = self._elements(array[part])
                    return result

            yield read

    def _there(self, written: WrittenChunks, box: Box) -> Sequence[Sequence[int]] | None:
        """Return where the chunks are that have elements of a box; None if all are."""
        sides = [
            range(side.start // g, -(-side.stop // g))
            for side, g in zip(box, self.grain, strict=True)
        ]
        count = math.prod(map(len, sides))
        found: Sequence[Sequence[int]]
        if count <= len(written.places):
            found = [p for p in itertools.product(*sides) if p in written.known]
        else:
            low = np.array([side.start for side in sides])
            high = np.array([side.stop for side in sides])
            places = written.places
            found = places[((places >= low) & (places < high)).all(axis=1)].tolist()
        return None if len(found) == count else found

    def _within(self, place: Sequence[int], box: Box) -> Box:
        """Return the part of a box that a chunk has."""
        return tuple(
            slice(max(side.start, p * g), min(side.stop, (p + 1) * g))
            for side, p, g in zip(box, place, self.grain, strict=True)
        )


def _grid_places(grid: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the places of a grid of chunks one by one, however long its sides are."""
    if not grid:
        yield ()
        return
    for rest in _grid_places(grid[:-1]):
        for last in range(grid[-1]):
            yield (*rest, last)


def package(name: str, extra: str) -> Any:
    """Return a package that reads a format.

    Raises
    ------
    ModelError
        If it is missing.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ModelError(
            f"the package {name!r} is missing; install halfulp with the extra {extra!r}"
        ) from error
