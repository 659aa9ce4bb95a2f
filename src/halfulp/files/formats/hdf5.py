"""The datasets of HDF5 files, by the package h5py.

May import input, files' stored_types and tensors and, beside it, chunked only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.files.formats.chunked import ChunkedTensor, Places, package
from halfulp.files.stored_types import BY_NAME, SAVED_BFLOAT16, stored_type
from halfulp.files.tensors import Skipped, Tensor, Wanted
from halfulp.input import file_errors, open_regular, the_file


def hdf5_datasets(
    path: Path, wanted: Wanted, bfloat16: bool
) -> Iterator[Tensor | Skipped]:
    """Yield the datasets of an HDF5 file; links to other files are not followed."""
    h5py = package("h5py", "hdf5")
    open_regular(path).close()
    found: list[Tensor | Skipped] = []

    def visit(key: str | bytes, node: Any) -> None:
        # Bytes, where they are no UTF-8.
        name = os.fsdecode(key)
        if isinstance(node, h5py.Dataset) and wanted(name):
            found.append(_dataset(h5py, path, key, name, node, bfloat16))

    with file_errors(path), h5py.File(path, "r") as file:
        file.visititems(visit)
    yield from found


def _dataset(
    h5py: Any, path: Path, key: str | bytes, name: str, node: Any, bfloat16: bool
) -> Tensor | Skipped:
    try:
        dtype = node.dtype
    except TypeError:  # NumPy has none like it
        return Skipped(name, type(node.id.get_type()).__name__)
    if bfloat16 and dtype == SAVED_BFLOAT16:
        stored = BY_NAME["bfloat16"]
    else:
        known = stored_type(dtype)
        if known is None:
            return Skipped(name, str(dtype))
        stored = known
    if node.shape is None:
        return Skipped(name, "empty")
    if node.is_virtual or node.external:
        return Skipped(name, f"{stored.name} with its data in other files")
    filters = node.id.get_create_plist()
    for i in range(filters.get_nfilters()):
        code, _, _, what = filters.get_filter(i)
        if not h5py.h5z.filter_avail(code):
            text = what.decode(errors="replace") or code
            return Skipped(name, f"{stored.name} with filter {text!r}")

    @contextmanager
    def opened() -> Iterator[Any]:
        with h5py.File(path, "r") as file:
            yield file[key]

    what = f"{the_file(path)}, dataset {name!r}"
    shape, chunks = node.shape, node.chunks
    return ChunkedTensor(path, name, what, stored, shape, chunks, opened, _places)


def _places(dataset: Any) -> Places | None:
    if dataset.chunks is None:
        # Of one piece, which is there, or not even begun.
        if dataset.id.get_storage_size():
            return None
        return np.empty((0, dataset.ndim), np.int64)
    offsets: list[tuple[int, ...]] = []
    dataset.id.chunk_iter(lambda chunk: offsets.append(chunk.chunk_offset))
    places: Places = np.array(offsets, np.int64).reshape(len(offsets), dataset.ndim)
    places //= np.array(dataset.chunks)
    return places
