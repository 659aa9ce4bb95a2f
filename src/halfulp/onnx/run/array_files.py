"""Files of arrays that a model is run on or gives: .npy, .npz and TensorProto as .pb.

Nothing in a file is ever executed: NumPy files are read and written without pickle.
"""

from __future__ import annotations

import math
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, ValueInfoProto, numpy_helper

from halfulp import limits
from halfulp.errors import HalfulpError, ModelError
from halfulp.faults import model_errors
from halfulp.files.formats.npy import NumpyArray, numpy_arrays
from halfulp.files.formats.tensor_proto import read_tensor
from halfulp.input import read_whole, the_file
from halfulp.output import STDIO, read_stdin, whole_file

# Bytes of a TensorProto, by protobuf.
_LARGEST = 2**31 - 1
# Bytes that the arrays of a file may have at least, and for each byte that it has.
_MOST_FREE = 2**28
_MOST_RATIO = 64


def load_array(path: Path, declared: int | None = None) -> npt.NDArray[Any]:
    """Return the one array of an .npy, .npz or TensorProto .pb file.

    Parameters
    ----------
    path : pathlib.Path
    declared : int, optional
        As for `load_arrays`, of the one array.

    Raises
    ------
    ModelError
        If the file cannot be read, or holds another number of arrays.
    """
    with _stdin_as_file(path) as file:
        if file.suffix.lower() == ".pb":
            return _load_tensor(file)
        arrays = numpy_arrays(file)
        if len(arrays) != 1:
            raise ModelError(f"{the_file(file)} holds {len(arrays)} arrays; allowed: one")
        sizes = {} if declared is None else {arrays[0].name: declared}
        return _loaded(file, arrays, sizes)[arrays[0].name]


def load_arrays(
    path: Path, declared: Mapping[str, int] | None = None
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an .npz file by name.

    Parameters
    ----------
    path : pathlib.Path
    declared : mapping of str to int, optional
        How many elements the model declares for an input of this name. Arrays of that
        size are loaded. The others may have 256 MiB together, or 64 bytes for each byte
        of the file, if that is more.

    Raises
    ------
    ModelError
        If the file cannot be read, is no .npz, or would take more memory.
    """
    with _stdin_as_file(path) as file:
        return _loaded(file, _named_arrays(file), declared or {})


def declared_sizes(values: Sequence[ValueInfoProto]) -> dict[str, int]:
    """Return the numbers of elements of the values whose sizes are all declared."""
    return {
        value.name: math.prod(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in values
        if value.type.tensor_type.HasField("shape")
        and all(d.HasField("dim_value") for d in value.type.tensor_type.shape.dim)
    }


class ExpectedArrays:
    """The arrays of an .npz file that outputs are compared with.

    Parameters
    ----------
    path : pathlib.Path
        Only the headers of its arrays are read, until they are needed.

    Raises
    ------
    ModelError
        If the file cannot be read, or is no .npz.
    """

    def __init__(self, path: Path) -> None:
        self._arrays = {array.name: array for array in _named_arrays(path)}

    def load(self, outputs: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
        """Return by name what is expected of outputs.

        An array of another shape than the output is not read: all its elements are
        equal, in no memory.
        """
        expected: dict[str, npt.NDArray[Any]] = {}
        for name, array in self._arrays.items():
            value = outputs.get(name)
            if not isinstance(value, np.ndarray):
                continue
            if array.shape == value.shape:
                expected[name] = array.load()
            else:
                expected[name] = np.broadcast_to(np.uint8(0), array.shape)
        return expected


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write named arrays, whole or not at all: an .npz file, or one as .npy or .pb.

    Raises
    ------
    ArgumentError
        If it cannot be written; what was at `path` is still there.
    """
    ending = path.suffix.lower()
    with whole_file(path) as file:
        if ending == ".npy":
            _write_npy(file, *arrays.values())
        elif ending == ".pb":
            ((name, array),) = arrays.items()
            tensor = numpy_helper.from_array(array, name)
            file.write(tensor.SerializeToString())
        else:
            _write_npz(file, arrays)


def _write_npz(file: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    # numpy.savez cannot write arrays that are named as one of its parameters.
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                _write_npy(member, array)


def _write_npy(file: IO[bytes], array: npt.NDArray[Any]) -> None:
    # Strings are objects in ONNX's arrays, which only pickle could write.
    plain = array.astype(np.str_) if array.dtype == object else array
    np.lib.format.write_array(file, plain, allow_pickle=False)


@contextmanager
def _stdin_as_file(path: Path) -> Iterator[Path]:
    """Yield `path`, or a file with the content of stdin.

    The readers need a file of some size, which they can read anywhere.
    """
    if path != STDIO:
        yield path
        return
    content = read_stdin()
    ending = ".pb"
    if content.startswith((b"\x93NUMPY", b"PK")):
        ending = ".npz" if content.startswith(b"PK") else ".npy"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"stdin{ending}")
        with limits.temporary(Path(folder)):
            file.write_bytes(content)
            try:
                yield file
            except HalfulpError as error:
                raise type(error)(str(error).replace(str(file), "-")) from error


def _named_arrays(path: Path) -> list[NumpyArray]:
    arrays = numpy_arrays(path)
    if len(arrays) == 1 and arrays[0].name == str(path):
        raise ModelError(
            f"{the_file(path)} holds one array without a name; allowed: NAME=FILE, or an "
            ".npz file"
        )
    return arrays


def _loaded(
    path: Path, arrays: Sequence[NumpyArray], declared: Mapping[str, int]
) -> dict[str, npt.NDArray[Any]]:
    most = max(_MOST_FREE, _MOST_RATIO * path.stat().st_size)
    total = sum(
        array.size
        for array in arrays
        if math.prod(array.shape) != declared.get(array.name)
    )
    if total > most:
        raise ModelError(
            f"{the_file(path)} unpacks to {total} bytes; allowed: {most}, or arrays of "
            "sizes that the model declares"
        )
    return {array.name: array.load() for array in arrays}


def _load_tensor(path: Path) -> npt.NDArray[Any]:
    with model_errors(f"{the_file(path)} cannot be read as a TensorProto"):
        tensor = TensorProto.FromString(read_whole(path, _LARGEST))
        return read_tensor(tensor, the_file(path))
