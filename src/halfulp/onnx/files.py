"""Reads models and arrays from files, and writes arrays.

May import errors, limits, output, faults and tensors only. Nothing in a file is ever
executed: NumPy files are read and written without pickle.
"""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import (  # type: ignore[import-untyped]
    DecodeError,
    Message,
)
from onnx import ModelProto, TensorProto
from onnx.serialization import registry

from halfulp import limits
from halfulp.errors import ArgumentError, HalfulpError, ModelError
from halfulp.faults import model_errors
from halfulp.onnx.tensors import read_tensor
from halfulp.output import whole_file, write_whole

# Of a message, by protobuf; a larger model has its data in other files.
_LARGEST = 2**31 - 1

_BINARY = "protobuf"
_TEXTS = ("json", "textproto", "onnxtxt")
_BLANK = (None, "", b"")

# What a file of ONNX Runtime's own format has after four other bytes.
_ORT_FORMAT = b"ORTM"
_STARTS = {b"{": "json", b"<": "onnxtxt"}


def _format_of(path: str) -> str | None:
    """Return onnx's name of the format that the ending of a name means, if any."""
    ending = os.path.splitext(path)[1].lower()
    return registry.get_format_from_file_extension(ending)


# Those of all versions of onnx; which of them the installed one knows, it tells.
_ENDINGS = """.onnx .pb .json .onnxjson .textproto .prototxt .pbtxt .txtpb .onnxtxt
.onnxtext"""
MODEL_ENDINGS = tuple(each for each in _ENDINGS.split() if _format_of("m" + each))


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
            return _parse(bytes(model), None, "the model")
    if isinstance(model, str | os.PathLike):
        return _load(os.fspath(model), data=True)
    raise ArgumentError(
        f"model is a {type(model).__name__}; allowed: a path, bytes or onnx.ModelProto"
    )


def load_structure(path: Path) -> ModelProto:
    """Return the model at `path` without its external data.

    Raises
    ------
    ModelError
        If it cannot be read.
    """
    return _load(os.fspath(path), data=False)


def _load(path: str, *, data: bool) -> ModelProto:
    with model_errors(f"the model {path!r} cannot be read"):
        size = os.stat(path).st_size
        if size > _LARGEST:
            raise ModelError(
                f"the model {path!r} has {size} bytes; allowed: {_LARGEST} at most"
            )
        with open(path, "rb") as file:
            proto = _parse(file.read(), _format_of(path), f"the model {path!r}")
        if data:
            with limits.more_to_look_at():
                onnx.load_external_data_for_model(proto, os.path.dirname(path))
        return proto


def _parse(content: bytes, form: str | None, what: str) -> ModelProto:
    """Return a model, whose bytes tell the format where no name does."""
    if form not in (None, _BINARY):
        return _parse_as(form, content)
    try:
        return _parse_as(_BINARY, content)
    except DecodeError:
        if content[4:8] == _ORT_FORMAT:
            raise ModelError(
                f"{what} is in ONNX Runtime's own format; allowed: ONNX. "
                "halfulp.onnxruntime.InferenceSession runs it"
            ) from None
        if form is not None:
            raise
        # No text of a model can be read as binary: its tags would be of no field.
        start = content[:1024].lstrip()[:1]
        if start in _STARTS:
            return _parse_as(_STARTS[start], content)
        if start == b"#" or start.isalpha():
            return _parse_as("textproto", content)
        raise


def _parse_as(form: str, content: bytes) -> ModelProto:
    with warnings.catch_warnings():
        # onnx says of its own text that it is experimental.
        warnings.simplefilter("ignore")
        return registry.get(form).deserialize_proto(content, ModelProto())


def save_model(path: Path, model: ModelProto) -> None:
    """Write a model with all its data, whole or not at all.

    Raises
    ------
    ModelError
        If it is larger than the 2 GiB that one file may have, or has what the format that
        the ending of the name means cannot hold.
    ArgumentError
        If it cannot be written; what was at `path` is still there.
    """
    form = _format_of(str(path)) or _BINARY
    if model.ByteSize() > _LARGEST:
        raise ModelError(
            f"the model is too large for the one file {str(path)!r}; "
            "allowed: less than 2 GiB"
        )
    with model_errors("the model cannot be written"):
        content = registry.get(form).serialize_proto(model)
    if form in _TEXTS:
        with model_errors(f"the model cannot be written as {path.suffix}"):
            lost = next(_differences(_parse_as(form, content), model), None)
        if lost is not None:
            raise ModelError(
                f"{str(path)!r} cannot hold {lost} of the model, as its format reads it "
                "back otherwise; allowed: .onnx"
            )
    write_whole(path, content)


def _differences(a: Message, b: Message, path: str = "") -> Iterator[str]:
    """Yield the paths of the fields in which two messages differ.

    The values of a tensor may stand in any of its fields.
    """
    if isinstance(a, TensorProto) and isinstance(b, TensorProto):
        values, others = _values(a), _values(b)
        if values is not None and others is not None:
            if values != others:
                yield f"{path}data"
            a, b = _without_values(a), _without_values(b)
    left: dict[str, Any] = {field.name: value for field, value in a.ListFields()}
    right: dict[str, Any] = {field.name: value for field, value in b.ListFields()}
    for name in sorted(left.keys() | right.keys()):
        here = f"{path}{name}"
        pair: tuple[Any, Any] = left.get(name), right.get(name)
        x, y = pair
        if isinstance(x, Message) and isinstance(y, Message):
            yield from _differences(x, y, f"{here}.")
        elif _has_messages(x) and _has_messages(y) and len(x) == len(y):
            for i, items in enumerate(zip(x, y, strict=True)):
                yield from _differences(*items, f"{here}[{i}].")
        elif repr(x) != repr(y) and not (x in _BLANK and y in _BLANK):
            # As text NaN is itself, and -0 is not 0.
            yield here


def _values(tensor: TensorProto) -> tuple[Any, ...] | None:
    """Return type and values of a tensor; None where they are elsewhere, or broken."""
    try:
        array = read_tensor(tensor, "")
    except HalfulpError:
        return None
    of_objects = array.dtype == object
    return array.dtype, array.shape, array.tolist() if of_objects else array.tobytes()


def _without_values(tensor: TensorProto) -> TensorProto:
    rest = TensorProto(name=tensor.name, doc_string=tensor.doc_string)
    rest.metadata_props.extend(tensor.metadata_props)
    return rest


def _has_messages(value: Any) -> bool:
    return hasattr(value, "add") and hasattr(value, "__len__")


def load_array(path: Path) -> npt.NDArray[Any]:
    """Return the one array of an .npy, .npz or TensorProto .pb file.

    Raises
    ------
    ModelError
        If the file cannot be read, or holds another number of arrays.
    """
    if path.suffix.lower() == ".pb":
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
