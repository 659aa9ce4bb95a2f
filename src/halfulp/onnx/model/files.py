"""Files of models: reading them with their external data, and writing them."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import (  # type: ignore[import-untyped]
    DecodeError,
    Message,
)
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    TensorProto,
    TypeProto,
)
from onnx.serialization import registry

from halfulp import limits
from halfulp.errors import ArgumentError, HalfulpError, ModelError
from halfulp.external_data import external_data
from halfulp.faults import model_errors
from halfulp.files.formats.tensor_proto import external_entries, read_tensor
from halfulp.input import open_regular, read_at, read_whole
from halfulp.onnx.model.tensors import all_tensors, tensor_nbytes
from halfulp.output import STDIO, read_stdin, write_whole

# Graphs in graphs; what protobuf reads is a third as deep, and types half.
_DEEPEST = 100

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


def is_binary(path: Path) -> bool:
    """Tell whether a name says that a file is no text."""
    return _format_of(path.name) in (None, _BINARY)


# Those of all versions of onnx; which of them the installed one knows, it tells.
_ENDINGS = """.onnx .pb .json .onnxjson .textproto .prototxt .pbtxt .txtpb .onnxtxt
.onnxtext"""
MODEL_ENDINGS = tuple(each for each in _ENDINGS.split() if _format_of("m" + each))


def load_model(model: Any, largest: int | None = None) -> ModelProto:
    """Return a model, as a copy that the caller may change.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        External data is loaded with a path, from the folder of the model only.
    largest : int, optional
        Of tensors with external data, those of more elements stay where they are, once
        it is sure that they are there. Default: all are loaded.

    Raises
    ------
    ModelError
        If it cannot be read.
    ArgumentError
        If `model` is something else.
    """
    if isinstance(model, ModelProto):
        check_depth(model)
        copy = ModelProto()
        copy.CopyFrom(model)
        return copy
    if isinstance(model, bytes | bytearray | memoryview):
        with model_errors("the model cannot be read"):
            return _parse(bytes(model), None, "the model")
    if isinstance(model, str | os.PathLike):
        return _load(Path(model), data=True, largest=largest)
    raise ArgumentError(
        f"model is a {type(model).__name__}; allowed: a path, bytes or onnx.ModelProto"
    )


def given_model(path: Path) -> Path | bytes:
    """Return what a command line names: a path, or for "-" the bytes of stdin."""
    if path != STDIO:
        return path
    with limits.more_to_look_at():
        return read_stdin()


def check_depth(model: ModelProto) -> None:
    """Raise a ModelError if graphs or types in `model` are nested as no file can have it.

    Protobuf reads no deeper messages; it copies them, until the stack is full.
    """
    depth = 0
    level: list[Message] = [model.graph, *model.functions]
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise ModelError(
                f"the model has graphs or types nested more than {_DEEPEST} deep"
            )
        level = [below for message in level for below in _below(message)]


def _below(message: Message) -> Iterator[Message]:
    """Yield the graphs, and the types in types, that `message` itself holds."""
    if isinstance(message, GraphProto | FunctionProto):
        for node in message.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    yield attribute.g
                yield from attribute.graphs
                yield from attribute.type_protos
                if attribute.HasField("tp"):
                    yield attribute.tp
        values = list(message.value_info)
        if isinstance(message, GraphProto):
            values += [*message.input, *message.output]
        yield from (value.type for value in values if _is_nested(value.type))
    elif isinstance(message, TypeProto):
        kind = message.WhichOneof("value")
        if kind == "map_type":
            yield message.map_type.value_type
        elif _is_nested(message):
            yield getattr(message, kind).elem_type


def _is_nested(type_: TypeProto) -> bool:
    return type_.WhichOneof("value") in ("sequence_type", "optional_type", "map_type")


def load_structure(path: Path) -> ModelProto:
    """Return the model at `path` without its external data.

    Raises
    ------
    ModelError
        If it cannot be read.
    """
    return _load(path, data=False)


def load_data(model: ModelProto, path: Path, largest: int | None = None) -> None:
    """Load external data of a model that is at `path`, as `load_model` does."""
    for tensor in all_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            _load_external(tensor, path, largest)


def _load(path: Path, *, data: bool, largest: int | None = None) -> ModelProto:
    what = f"the model {str(path)!r}"
    with model_errors(f"{what} cannot be read"):
        proto = _parse(read_whole(path, _LARGEST), _format_of(path.name), what)
        if data:
            with limits.more_to_look_at():
                load_data(proto, path, largest)
        return proto


def _load_external(tensor: TensorProto, model: Path, largest: int | None) -> None:
    what = f"tensor {tensor.name!r}"
    nbytes = tensor_nbytes(tensor, what)
    found = external_data(external_entries(tensor), model, nbytes, what)
    if largest is not None and math.prod(tensor.dims) > largest:
        return
    content = bytearray(found.length)
    with open_regular(found.path, raw=True) as file:
        read_at(file, found.path, found.offset, memoryview(content))
    tensor.raw_data = bytes(content)
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]


def _parse(content: bytes, encoding: str | None, what: str) -> ModelProto:
    """Return a model, whose bytes tell the format where no name does."""
    if encoding not in (None, _BINARY):
        return _parse_as(encoding, content)
    try:
        return _parse_as(_BINARY, content)
    except DecodeError:
        if content[4:8] == _ORT_FORMAT:
            raise ModelError(
                f"{what} is in ONNX Runtime's own format; allowed: ONNX. "
                "halfulp.onnxruntime.InferenceSession runs it"
            ) from None
        if encoding is not None:
            raise
        # No text of a model can be read as binary: its tags would be of no field.
        start = content[:1024].lstrip()[:1]
        if start in _STARTS:
            return _parse_as(_STARTS[start], content)
        if start == b"#" or start.isalpha():
            return _parse_as("textproto", content)
        raise


def _parse_as(encoding: str, content: bytes) -> ModelProto:
    with warnings.catch_warnings():
        # onnx says of its own text that it is experimental.
        warnings.simplefilter("ignore")
        return registry.get(encoding).deserialize_proto(content, ModelProto())


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
    encoding = _format_of(str(path)) or _BINARY
    if model.ByteSize() > _LARGEST:
        raise ModelError(
            f"the model is too large for the one file {str(path)!r}; "
            "allowed: less than 2 GiB"
        )
    with model_errors("the model cannot be written"):
        content = registry.get(encoding).serialize_proto(model)
    if encoding in _TEXTS:
        with model_errors(f"the model cannot be written as {path.suffix}"):
            lost = next(_differences(_parse_as(encoding, content), model), None)
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
