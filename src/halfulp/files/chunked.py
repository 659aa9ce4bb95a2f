"""The arrays of Zarr folders and HDF5 files, by the packages of these formats.

May import element_types, errors and tensors only. The packages, zarr and h5py, are
imported when they are needed. One chunk at a time is in memory.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from halfulp.element_types import ElementType, element_type
from halfulp.errors import ModelError, UnsupportedTypeError
from halfulp.files.tensors import (
    Array,
    Box,
    Read,
    Skipped,
    Tensor,
    element_bytes,
    file_errors,
    open_regular,
    the_file,
)

_MOST_CHUNK = 2**30  # bytes
# Of Zarr: those that only unpack. Another one, as pickle, may run what a file says.
_CODECS = {
    *("blosc", "zstd", "gzip", "zlib", "lz4", "bz2", "lzma"),
    *("shuffle", "delta", "fixedscaleoffset", "crc32", "crc32c", "adler32"),
    *("bytes", "transpose", "sharding_indexed"),
}


def hdf5_datasets(path: Path) -> Iterator[Tensor | Skipped]:
    """Yield the datasets of an HDF5 file; links to other files are not followed."""
    h5py = _package("h5py", "hdf5")
    open_regular(path).close()
    found: list[Any] = []

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            found.append(_dataset(path, name, node))

    with file_errors(path), h5py.File(path, "r") as file:
        file.visititems(visit)
    yield from found


def _dataset(path: Path, name: str, node: Any) -> Tensor | Skipped:
    if node.shape is None:
        return Skipped(name, "empty")
    if node.is_virtual or node.external:
        raise ModelError(
            f"{the_file(path)}, dataset {name!r} has its data in other files; allowed: "
            "in this one"
        )

    @contextmanager
    def opened() -> Iterator[Any]:
        with _package("h5py", "hdf5").File(path, "r") as file:
            yield file[name]

    return _chunked(path, name, node, node.chunks, opened)


def zarr_arrays(path: Path) -> Iterator[Tensor | Skipped]:
    """Yield the arrays of a Zarr folder, of version 2 or 3, a group or one array."""
    zarr = _package("zarr", "zarr")
    with file_errors(path):
        if not path.is_dir():
            raise ModelError(f"{the_file(path)} is no folder; allowed: a Zarr folder")
        _check_folder(path)
        root = zarr.open(path, mode="r")
        if isinstance(root, zarr.Array):
            arrays = {str(path): root}
        else:
            members = root.members(max_depth=None)
            arrays = {name: a for name, a in members if isinstance(a, zarr.Array)}
        for name, array in sorted(arrays.items()):
            _check_codecs(array.metadata.to_dict(), f"{the_file(path)}, array {name!r}")
            yield _chunked(path, name, array, array.chunks, partial(nullcontext, array))


def _check_folder(folder: Path) -> None:
    """Raise a ModelError if there are links, or what might never end, in a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _check_folder(Path(entry.path))
            elif not entry.is_file(follow_symlinks=False):
                raise ModelError(f"{the_file(Path(entry.path))} is no regular file")


def _check_codecs(metadata: dict[str, Any], what: str) -> None:
    listed = [metadata.get("compressor"), *(metadata.get("filters") or ())]
    codecs = list(metadata.get("codecs") or ())
    while codecs:
        codec = codecs.pop()
        listed.append(codec)
        settings = codec.get("configuration") or {}
        codecs += settings.get("codecs") or ()
        codecs += settings.get("index_codecs") or ()
    for codec in listed:
        name = (codec or {}).get("id") or (codec or {}).get("name")
        if codec and str(name).removeprefix("numcodecs.") not in _CODECS:
            allowed = ", ".join(sorted(_CODECS))
            raise ModelError(f"{what} has codec {name!r}; allowed: {allowed}")


def _chunked(
    path: Path,
    name: str,
    array: Any,
    chunks: tuple[int, ...] | None,
    opened: Callable[[], AbstractContextManager[Any]],
) -> Tensor | Skipped:
    what = f"{the_file(path)}, array {name!r}"
    try:
        element = element_type(array.dtype)
    except UnsupportedTypeError:
        return Skipped(name, str(array.dtype))
    element_bytes(array.shape, element.dtype.itemsize, what)
    grain = chunks or (1,) * len(array.shape)
    if element_bytes(grain, element.dtype.itemsize, what) > _MOST_CHUNK:
        raise ModelError(f"{what} has chunks of shape {grain}; allowed: 1 GiB")
    return ChunkedTensor(path, name, element, array.shape, grain, opened)


class ChunkedTensor(Tensor):
    """An array that is stored in chunks, which another package unpacks."""

    def __init__(
        self,
        path: Path,
        name: str,
        element: ElementType,
        shape: tuple[int, ...],
        grain: tuple[int, ...],
        opened: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self.name, self.element, self.shape = name, element, shape
        self.grain = grain
        self._path, self._opened = path, opened

    @contextmanager
    def opened(self) -> Iterator[Read]:
        with file_errors(self._path), self._opened() as array:

            def read(box: Box) -> Array:
                with file_errors(self._path):
                    part: Array = array[box]
                return part

            yield read


def _package(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ModelError(
            f"the package {name!r} is missing; install halfulp with the extra {extra!r}"
        ) from error
