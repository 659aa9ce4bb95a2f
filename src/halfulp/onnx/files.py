"""Reads models and arrays from files, and writes arrays.

May import errors, output, faults and tensors only. Nothing in a file is ever executed:
NumPy files are read and written without pickle.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, TensorProto

from halfulp.errors import ArgumentError, ModelError
from halfulp.faults import model_errors
from halfulp.onnx.tensors import read_tensor
from halfulp.output import whole_file, write_whole

# Of a message, by protobuf; a larger model has its data in other files.
_LARGEST = 2**31 - 1


def load_model(model: Any) -> ModelProto:
    """Return a model, as a copy that the caller may change.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        External data is loaded with a path, from the folder of the model only.

    Raises
    ------
    ModelError
        If it cannot be read.
    ArgumentError
        If `model` is something else.
    """
    if isinstance(model, ModelProto):
        copy = ModelProto()
        copy.CopyFrom(model)
        return copy
    if isinstance(model, bytes | bytearray | memoryview):
        with model_errors("the model cannot be read"):
            return onnx.load_model_from_string(bytes(model))
    if isinstance(model, str | os.PathLike):
        path = os.fspath(model)
        with model_errors(f"the model {path!r} cannot be read"):
            size = os.stat(path).st_size
            if size > _LARGEST:
                raise ModelError(
                    f"the model {path!r} has {size} bytes; allowed: {_LARGEST} at most"
                )
            return onnx.load(path)
    raise ArgumentError(
        f"model is a {type(model).__name__}; allowed: a path, bytes or onnx.ModelProto"
    )


def save_model(path: Path, model: ModelProto) -> None:
    """Write a model with all its data, whole or not at all.

    Raises
    ------
    ModelError
        If it is larger than the 2 GiB that one file may have.
    ArgumentError
        If it cannot be written; what was at `path` is still there.
    """
    with model_errors("the model cannot be written"):
        content = model.SerializeToString()
    write_whole(path, content)


def load_array(path: Path) -> npt.NDArray[Any]:
    """Return the one array of an .npy, .npz or TensorProto .pb file.

    Raises
    ------
    ModelError
        If the file cannot be read, or holds another number of arrays.
    """
    if path.suffix == ".pb":
        return _load_tensor(path)
    loaded = _load_numpy(path)
    if isinstance(loaded, dict):
        if len(loaded) != 1:
            raise ModelError(
                f"the file {str(path)!r} holds {len(loaded)} arrays; allowed: one"
            )
        return next(iter(loaded.values()))
    return loaded


def load_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an .npz file by name.

    Raises
    ------
    ModelError
        If the file cannot be read, or is no .npz.
    """
    loaded = _load_numpy(path)
    if not isinstance(loaded, dict):
        raise ModelError(
            f"the file {str(path)!r} holds one array without a name; "
            "allowed: NAME=FILE, or an .npz file"
        )
    return loaded


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write an .npz file of named arrays, whole or not at all.

    Raises
    ------
    ArgumentError
        If it cannot be written; what was at `path` is still there.
    """
    with whole_file(path) as file:
        _write_npz(file, arrays)


def _write_npz(file: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    # numpy.savez cannot write arrays that are named as one of its parameters.
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            # Strings are objects in ONNX's arrays, which only pickle could write.
            plain = array.astype(np.str_) if array.dtype == object else array
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, plain, allow_pickle=False)


def _load_numpy(path: Path) -> npt.NDArray[Any] | dict[str, npt.NDArray[Any]]:
    what = f"the file {str(path)!r}"
    with model_errors(f"{what} cannot be read as .npy or .npz"), path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            arrays = {name: loaded[name] for name in loaded.files}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ModelError(f"{what} holds {name!r}, which is no array")
    return arrays


def _load_tensor(path: Path) -> npt.NDArray[Any]:
    what = f"the file {str(path)!r}"
    with model_errors(f"{what} cannot be read as a TensorProto"):
        tensor = TensorProto.FromString(path.read_bytes())
        return read_tensor(tensor, what)
