"""The tensors of a file, by the ending of its name.

May import errors, input, files' tensors and the formats beside it only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from halfulp.errors import ArgumentError
from halfulp.files.formats.arrow import arrow_columns
from halfulp.files.formats.hdf5 import hdf5_datasets
from halfulp.files.formats.npy import npy_tensors, npz_tensors
from halfulp.files.formats.onnx_initializers import initializers
from halfulp.files.formats.parquet import parquet_columns
from halfulp.files.formats.safetensors import safetensors
from halfulp.files.formats.zarr import is_zarr, zarr_arrays
from halfulp.files.tensors import Skipped, Tensor, Wanted
from halfulp.input import the_file

_Found = Iterator[Tensor | Skipped]

# Those that may have elements of two bytes and no type.
_UNTYPED: dict[str, Callable[[Path, Wanted, bool], _Found]] = {
    ".npy": npy_tensors,
    ".npz": npz_tensors,
    ".zarr": zarr_arrays,
    ".h5": hdf5_datasets,
    ".hdf5": hdf5_datasets,
}
_TYPED: dict[str, Callable[[Path, Wanted], _Found]] = {
    ".safetensors": safetensors,
    ".onnx": initializers,
    ".parquet": parquet_columns,
    ".arrow": arrow_columns,
    ".arrows": arrow_columns,
    ".feather": arrow_columns,
}
# Of the files whose elements have their types, whatever --bfloat16 says.
TYPED_ENDINGS = tuple(_TYPED)
ENDINGS = (
    *(".npy", ".npz", ".safetensors", ".onnx", ".zarr", ".h5", ".hdf5"),
    *(".parquet", ".arrow", ".arrows", ".feather"),
)


def find_tensors(
    file: Path, patterns: Sequence[str], bfloat16: bool
) -> tuple[list[Tensor], list[Skipped]]:
    """Find the tensors of a file, before any is read.

    Parameters
    ----------
    file : pathlib.Path
    patterns : sequence of str
        Of names, as a shell has them; none means all.
    bfloat16 : bool
        As for `read_file`.

    Raises
    ------
    ModelError, UnsupportedTypeError, ArgumentError
        If the file cannot be read.
    """
    tensors: list[Tensor] = []
    skipped: list[Skipped] = []

    def wanted(name: str) -> bool:
        return not patterns or any(fnmatchcase(name, p) for p in patterns)

    for found in read_file(file, bfloat16, wanted):
        if isinstance(found, Skipped):
            skipped.append(found)
        else:
            found.file = file
            tensors.append(found)
    return tensors, skipped


def read_file(
    path: Path, bfloat16: bool = False, wanted: Wanted = lambda name: True
) -> Iterator[Tensor | Skipped]:
    """Find the tensors of a file, without reading their elements.

    Parameters
    ----------
    path : pathlib.Path
    bfloat16 : bool
        Whether elements of two bytes without a type, as which NumPy saves bfloat16, are
        bfloat16.
    wanted : function of str
        Tells of a name whether it is asked for: what else is wrong with others does not
        matter then.

    Yields
    ------
    Tensor or Skipped

    Raises
    ------
    ModelError, UnsupportedTypeError
        If the file cannot be read, is cut off, or claims what cannot be.
    ArgumentError
        If its name has none of the endings.
    """
    ending = ".zarr" if is_zarr(path) else path.suffix.lower()
    if ending in _UNTYPED:
        yield from _UNTYPED[ending](path, wanted, bfloat16)
    elif ending in _TYPED:
        yield from _TYPED[ending](path, wanted)
    else:
        allowed = ", ".join(ENDINGS)
        raise ArgumentError(f"{the_file(path)} has ending {ending!r}; allowed: {allowed}")
