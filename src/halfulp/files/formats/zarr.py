"""The arrays of Zarr folders, of version 2 and 3, by the package zarr.

May import errors, input, files' stored_types and tensors and, beside it, chunked only.
The metadata of each array is read here, so that none that zarr does not know is in the
way of the others.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.errors import ModelError
from halfulp.files.formats.chunked import ChunkedTensor, Places, package
from halfulp.files.stored_types import (
    BY_NAME,
    BY_NUMPY_NAME,
    SAVED_BFLOAT16,
    StoredType,
    stored_type,
)
from halfulp.files.tensors import Skipped, Tensor, Wanted
from halfulp.input import file_errors, open_regular, read_at, read_whole, the_file

_MOST_METADATA = 2**24  # bytes
# Those that only unpack. Another one, as pickle, may run what a file says.
_CODECS = {
    *("blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma"),
    *("shuffle", "delta", "fixedscaleoffset", "crc32", "crc32c", "adler32"),
    *("bytes", "transpose", "sharding_indexed"),
}
# For an inner chunk of a shard: offset and length, or twice this if it has none.
_NOWHERE = 2**64 - 1
_CRC = 4  # bytes behind the index of a shard


def zarr_arrays(path: Path, wanted: Wanted, bfloat16: bool) -> Iterator[Tensor | Skipped]:
    """Yield the arrays of a Zarr folder, a group or one array."""
    zarr = package("zarr", "zarr")
    with file_errors(path):
        if not path.is_dir():
            raise ModelError(f"{the_file(path)} is no folder; allowed: a Zarr folder")
        found = sorted(_find(path, path))
        if not found and not is_zarr(path):
            raise ModelError(f"{the_file(path)} has no Zarr metadata; allowed: some")
        for name, version in found:
            if wanted(name or str(path)):
                yield _Array(zarr, path, name, version).read(bfloat16)


def is_zarr(folder: Path) -> bool:
    """Tell whether a folder is a Zarr array or group, whatever its name."""
    return any((folder / name).is_file() for name in (".zarray", ".zgroup", "zarr.json"))


def _find(root: Path, folder: Path) -> Iterator[tuple[str, int]]:
    """Yield name and version of each array below a folder.

    Raises
    ------
    ModelError
        If there are links, or what might never end.
    """
    names = set()
    below = []
    with os.scandir(folder) as entries:
        for entry in entries:
            names.add(entry.name)
            if entry.is_dir(follow_symlinks=False):
                below.append(entry.name)
            elif not entry.is_file(follow_symlinks=False):
                raise ModelError(f"{the_file(Path(entry.path))} is no regular file")
    version = 0
    if "zarr.json" in names:
        if _metadata(folder / "zarr.json").get("node_type") == "array":
            version = 3
    elif ".zarray" in names:
        version = 2
    if version:
        yield folder.relative_to(root).as_posix().removeprefix("."), version
    for name in below:
        yield from _find(root, folder / name)


def _metadata(path: Path) -> dict[str, Any]:
    with file_errors(path):
        metadata = json.loads(read_whole(path, _MOST_METADATA))
        if not isinstance(metadata, dict):
            raise ModelError(f"{the_file(path)} has no object of JSON")
        return metadata


class _Array:
    """An array of a Zarr folder, as its metadata has it."""

    def __init__(self, zarr: Any, root: Path, name: str, version: int) -> None:
        self._zarr, self._root, self._path, self._version = zarr, root, name, version
        # Of a folder that is one array.
        self._name = name or str(root)
        self._folder = root / name
        self._metadata = _metadata(
            self._folder / ("zarr.json" if version == 3 else ".zarray")
        )
        self._what = f"{the_file(root)}, array {self._name!r}"

    def read(self, bfloat16: bool) -> Tensor | Skipped:
        stored, told = self._stored_type(bfloat16)
        if stored is None:
            return Skipped(self._name, told)
        for codec in self._codecs():
            if codec not in _CODECS:
                return Skipped(self._name, f"{stored.name} with codec {codec!r}")
        self._as_zarr_knows(stored)
        with file_errors(self._folder):
            array = self._open()
            shape = tuple(map(int, array.shape))
            shards = array.shards if self._index_is_plain() else None
            # What is stored as one: shards whose index is of another form are whole.
            chunks = tuple(array.chunks if shards or not array.shards else array.shards)

        def opened() -> AbstractContextManager[Any]:
            return nullcontext(array)

        def places(array: Any) -> Places:
            return self._places(array, tuple(shards) if shards else None)

        name, what = self._name, self._what
        return ChunkedTensor(
            self._folder, name, what, stored, shape, chunks, opened, places
        )

    def _open(self) -> Any:
        store = self._zarr.storage.LocalStore(self._root, read_only=True)
        place = self._zarr.storage.StorePath(store, self._path)
        array = self._zarr.AsyncArray.from_dict(place, self._metadata)
        return self._zarr.Array(array)

    def _stored_type(self, bfloat16: bool) -> tuple[StoredType | None, str]:
        """Return the type, if its elements can be summed, and its name in the file."""
        name = self._metadata.get("data_type" if self._version == 3 else "dtype")
        if self._version == 3 and isinstance(name, dict):
            facts = name.get("configuration") or {}
            name = name.get("name")
            if name == "raw_bytes" and isinstance(facts, dict):
                name = f"r{8 * facts['length_bytes']}"
        if isinstance(name, list):
            return None, "a record"
        if not isinstance(name, str):
            raise ModelError(f"{self._what} has type {name!r}; allowed: a name")
        if name in BY_NUMPY_NAME:
            return BY_NUMPY_NAME[name], name
        if name in ("r16", "|V2", "<V2"):
            return (BY_NAME["bfloat16"] if bfloat16 else None), SAVED_BFLOAT16.str
        if self._version == 2:
            try:
                return stored_type(np.dtype(name)), name
            except TypeError:
                return None, name
        return None, name

    def _codecs(self) -> Iterator[str]:
        """Yield the names of all codecs, of those within others too."""
        metadata = self._metadata
        if self._version == 2:
            listed = [metadata.get("compressor"), *(metadata.get("filters") or ())]
        else:
            listed = list(metadata.get("codecs") or ())
        while listed:
            codec = listed.pop()
            if codec is None:
                continue
            if isinstance(codec, str):
                codec = {"name": codec}
            name = codec.get("id" if self._version == 2 else "name")
            yield str(name).removeprefix("numcodecs.")
            settings = codec.get("configuration") or {}
            listed += settings.get("codecs") or ()
            listed += settings.get("index_codecs") or ()

    def _as_zarr_knows(self, stored: StoredType) -> None:
        """Say that elements of a type that zarr lacks are integers of their size."""
        if hasattr(np, stored.numpy_name):
            return
        size = stored.dtype.itemsize
        bits = _fill_bits(self._metadata.get("fill_value"), stored)
        if self._version == 2:
            # One byte has no order, and is of no other spelling for zarr.
            name = np.dtype(f"<u{size}").str
            self._metadata |= {"dtype": name, "fill_value": bits}
            return
        self._metadata |= {"data_type": f"uint{8 * size}", "fill_value": bits}
        listed = list(self._metadata.get("codecs") or ())
        while listed:
            codec = listed.pop()
            if isinstance(codec, dict):
                if codec.get("name") == "bytes" and not codec.get("configuration"):
                    codec["configuration"] = {"endian": "little"}
                listed += (codec.get("configuration") or {}).get("codecs") or ()

    def _index_is_plain(self) -> bool:
        """Tell whether the index of shards is one that `_inner_places` reads."""
        if self._version == 2:
            return False
        codecs = self._metadata["codecs"]
        if len(codecs) != 1 or codecs[0]["name"] != "sharding_indexed":
            return False
        index = codecs[0]["configuration"].get("index_codecs")
        plain: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
        return index in (plain, [*plain, {"name": "crc32c"}])

    def _places(self, array: Any, shards: tuple[int, ...] | None) -> Places:
        metadata = array.metadata
        rank = array.ndim
        sizes = zip(array.shape, shards or array.chunks, strict=True)
        grid = tuple(-(-n // side) for n, side in sizes)
        found = []
        for folder, _, names in os.walk(self._folder):
            for name in names:
                key = (Path(folder) / name).relative_to(self._folder).as_posix()
                numbers = map(int, re.findall(r"[0-9]{1,18}", key) if rank else ())
                place = tuple(numbers)
                if (
                    len(place) == rank
                    and all(p < n for p, n in zip(place, grid, strict=True))
                    and metadata.encode_chunk_key(place) == key
                ):
                    found.append((place, Path(folder) / name))
        if shards is None:
            return np.array([p for p, _ in found], np.int64).reshape(len(found), rank)
        sides = [s // c for s, c in zip(shards, array.chunks, strict=True)]
        inner = [np.empty((0, rank), np.int64)]
        for place, path in found:
            inner.append(self._inner_places(path, sides) + np.array(place) * sides)
        return np.concatenate(inner)

    def _inner_places(self, path: Path, sides: list[int]) -> Places:
        """Return where the inner chunks are that a shard has."""
        settings = self._metadata["codecs"][0]["configuration"]
        count = int(np.prod(sides, dtype=object))
        after = _CRC * (len(settings["index_codecs"]) - 1)
        with open_regular(path, raw=True) as file:
            size = os.fstat(file.fileno()).st_size
            if size < 16 * count + after:
                raise ModelError(f"{the_file(path)} is too short for {count} chunks")
            at_start = settings.get("index_location") == "start"
            content = bytearray(16 * count)
            begin = 0 if at_start else size - after - len(content)
            read_at(file, path, begin, memoryview(content))
        entries = np.frombuffer(content, "<u8").reshape(count, 2)
        there = np.flatnonzero((entries != _NOWHERE).any(axis=1))
        return np.stack(np.unravel_index(there, sides), axis=1).astype(np.int64)


def _fill_bits(value: Any, stored: StoredType) -> int:
    """Return the bits of a fill value of a type that zarr lacks."""
    size = stored.dtype.itemsize
    if value is None:
        return 0
    if isinstance(value, list):
        return int.from_bytes(bytes(value), "little")
    if isinstance(value, str) and value.startswith("0x"):
        return int(value, 16) & (1 << 8 * size) - 1
    if isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity"):
        return int.from_bytes(base64.b64decode(value, validate=True), "little")
    if stored.element.kind == "integer":
        return int(value) & (1 << 8 * size) - 1
    return int(np.array(float(value), stored.dtype).view(f"u{size}"))
