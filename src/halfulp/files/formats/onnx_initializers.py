"""The initializers of .onnx files, nested graphs included.

May import errors, external_data, faults, input and files' stored_types and tensors only,
and tensor_proto when called, for tensors whose elements are encoded one by one: it loads
onnx. The file is walked field by field, in protobuf's encoding, so that weights are never
loaded as a whole.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from halfulp.errors import ModelError
from halfulp.external_data import external_data
from halfulp.faults import shortened
from halfulp.files.stored_types import BY_NAME, STORED_TYPES, StoredType
from halfulp.files.tensors import (
    Array,
    Box,
    FileSource,
    FlatTensor,
    Read,
    Skipped,
    Tensor,
    Wanted,
    element_bytes,
)
from halfulp.input import file_errors, open_regular, read_at, the_file

_WINDOW = 2**12  # bytes read at once
_DEEPEST = 100  # of messages in messages, protobuf's limit
_MOST_PARTS = 2**12  # attributes of a node, dimensions and the like
_MOST_TEXT = 2**16  # bytes of a name or a location
_LONGEST_PATH = 400  # characters before the name of a tensor, which all there repeat
_MOST_PARSED = 2**24  # bytes of a tensor that is loaded as a whole

# The numbers of fields, as ONNX's definition of its messages has them.
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_SPARSE = 1, 5, 15
_NODE_OUTPUT, _NODE_NAME, _NODE_ATTRIBUTE = 2, 3, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS = 1, 6, 11
_DIMS, _TYPE, _SEGMENT, _FLOATS, _NAME, _RAW, _DOUBLES = 1, 2, 3, 4, 8, 9, 10
_INTEGERS = (5, 7, 11)
_EXTERNAL, _LOCATION = 13, 14
_KEY, _VALUE = 1, 2

# The numbers of types, as ONNX's definition has them.
_TYPES = {8: "string", 14: "complex64", 15: "complex128"} | {
    t.code: t.name for t in STORED_TYPES
}

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def initializers(path: Path, wanted: Wanted) -> Iterator[Tensor | Skipped]:
    """Yield the initializers of a model; those of nested graphs behind their node."""
    with open_regular(path) as file, file_errors(path):
        model = _Message(file, path, 0, file.seek(0, io.SEEK_END))
        graph = None
        for number, part in model.messages():
            if number == _MODEL_GRAPH:
                if graph is not None:
                    raise ModelError(f"{the_file(path)} has several graphs; allowed: one")
                graph = part
        if graph is None:
            raise ModelError(f"{the_file(path)} has no graph; allowed: one")
        yield from _graph(graph, "", wanted)


@dataclass(slots=True)
class _Message:
    """The bytes of a message in a file."""

    file: io.FileIO
    path: Path
    begin: int
    end: int
    depth: int = 0

    def fields(self) -> Iterator[tuple[int, int | _Message]]:
        """Yield number and value of each field; what is no varint as a part."""
        window, first = bytearray(), self.begin
        position = self.begin

        def varint() -> int:
            nonlocal window, first, position
            value = shift = 0
            while True:
                if position >= self.end or shift > 63:
                    raise self.error(position)
                if not first <= position < first + len(window):
                    first = position
                    window = bytearray(min(_WINDOW, self.end - position))
                    read_at(self.file, self.path, position, memoryview(window))
                byte = window[position - first]
                position += 1
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    return value

        while position < self.end:
            number, wire = divmod(varint(), 8)
            if wire == _VARINT:
                yield number, varint()
                continue
            if wire == _BYTES:
                size = varint()
            elif wire in (_FIXED32, _FIXED64):
                size = 4 if wire == _FIXED32 else 8
            else:
                size = -1
            if not 0 <= size <= self.end - position or self.depth > _DEEPEST:
                raise self.error(position)
            begin, position = position, position + size
            part = _Message(self.file, self.path, begin, position, self.depth + 1)
            yield number, part

    def error(self, position: int) -> ModelError:
        return ModelError(f"{the_file(self.path)} is no ONNX model: byte {position}")

    def messages(self) -> Iterator[tuple[int, _Message]]:
        """Yield the fields that are messages, text or bytes."""
        for number, part in self.fields():
            if isinstance(part, _Message):
                yield number, part

    def __len__(self) -> int:
        return self.end - self.begin

    def content(self, most: int) -> bytes:
        """Return the bytes, or raise a ModelError if there are more than `most`."""
        if len(self) > most:
            raise ModelError(
                f"{the_file(self.path)} has {len(self)} bytes at {self.begin}; "
                f"allowed there: {most}"
            )
        content = bytearray(len(self))
        read_at(self.file, self.path, self.begin, memoryview(content))
        return bytes(content)

    def text(self) -> str:
        return self.content(_MOST_TEXT).decode(errors="backslashreplace")


def _graph(graph: _Message, prefix: str, wanted: Wanted) -> Iterator[Tensor | Skipped]:
    for number, part in graph.messages():
        if number == _GRAPH_INITIALIZER:
            facts = _facts(part)
            if wanted(prefix + facts.name):
                yield _initializer(part, facts, prefix)
        elif number == _GRAPH_SPARSE:
            if wanted(f"{prefix}(sparse)"):
                yield Skipped(f"{prefix}(sparse)", "sparse")
        elif number == _GRAPH_NODE:
            yield from _node(part, prefix, wanted)


def _node(node: _Message, prefix: str, wanted: Wanted) -> Iterator[Tensor | Skipped]:
    name = output = ""
    attributes = []
    for number, part in node.messages():
        if number == _NODE_NAME:
            name = part.text()
        elif number == _NODE_OUTPUT and not output:
            output = part.text()
        elif number == _NODE_ATTRIBUTE:
            attributes.append(part)
            if len(attributes) > _MOST_PARTS:
                raise node.error(part.begin)
    for attribute in attributes:
        attribute_name, graphs = "", []
        for number, part in attribute.messages():
            if number == _ATTRIBUTE_NAME:
                attribute_name = part.text()
            elif number in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS):
                graphs.append(part)
                if len(graphs) > _MOST_PARTS:
                    raise node.error(part.begin)
        path = shortened(f"{prefix}{name or output}.{attribute_name}", _LONGEST_PATH)
        for graph in graphs:
            yield from _graph(graph, f"{path}.", wanted)


@dataclass(slots=True)
class _Facts:
    """What a TensorProto says of itself."""

    dims: list[int] = field(default_factory=list)
    type: int = 0
    name: str = ""
    raw: _Message | None = None
    packed: tuple[int, _Message] | None = None
    others: bool = False  # elements in several parts or in varints
    external: bool = False
    location: dict[str, str] = field(default_factory=dict)


def _facts(tensor: _Message) -> _Facts:
    facts = _Facts()
    for number, part in tensor.fields():
        if isinstance(part, int):
            if number == _DIMS:
                facts.dims.append(_signed(part))
            elif number == _TYPE:
                facts.type = part
            elif number == _LOCATION:
                facts.external = part == 1
            elif number in _INTEGERS:
                facts.others = True
        elif number == _DIMS:
            facts.dims += map(_signed, _varints(part))
        elif number == _NAME:
            facts.name = part.text()
        elif number == _RAW:
            facts.raw = part
        elif number in (_FLOATS, _DOUBLES):
            facts.others |= facts.packed is not None
            facts.packed = number, part
        elif number in _INTEGERS:
            facts.others = True
        elif number == _EXTERNAL:
            entry = {key: text.text() for key, text in part.messages()}
            facts.location[entry.get(_KEY, "")] = entry.get(_VALUE, "")
        elif number == _SEGMENT:
            raise ModelError(f"{the_file(tensor.path)} has a tensor in segments")
        if len(facts.dims) > _MOST_PARTS or len(facts.location) > _MOST_PARTS:
            raise tensor.error(tensor.begin)
    return facts


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _varints(part: _Message) -> Iterator[int]:
    value = shift = 0
    for byte in part.content(_MOST_TEXT):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value & (2**64 - 1)
            value = shift = 0


def _initializer(tensor: _Message, facts: _Facts, prefix: str) -> Tensor | Skipped:
    name = prefix + facts.name
    what = f"{the_file(tensor.path)}, initializer {name!r}"
    type_name = _TYPES.get(facts.type, f"number {facts.type}")
    stored = BY_NAME.get(type_name)
    if stored is None:
        return Skipped(name, type_name)
    element_bytes(facts.dims, stored.element.dtype.itemsize, what)
    wanted = stored.nbytes(math.prod(facts.dims))
    dtype = stored.dtype.newbyteorder("<")
    path, begin, length = tensor.path, 0, 0
    if facts.external:
        path, begin, length = external_data(facts.location, path, wanted, what)
    elif facts.raw is not None:
        begin, length = facts.raw.begin, len(facts.raw)
    elif facts.others:
        return _SmallTensor(name, stored, facts.dims, tensor, what)
    elif facts.packed:
        number, part = facts.packed
        if number != (_FLOATS if stored.name == "float" else _DOUBLES):
            raise ModelError(f"{what} has its elements in the field of another type")
        begin, length = part.begin, len(part)
    if length != wanted:
        raise ModelError(f"{what} has {length} bytes; allowed by its shape: {wanted}")
    source = FileSource(path, raw=facts.external)
    return FlatTensor(name, stored, facts.dims, source, begin, dtype)


class _SmallTensor(Tensor):
    """A tensor whose elements are encoded one by one: it is loaded as a whole."""

    def __init__(
        self,
        name: str,
        stored: StoredType,
        shape: list[int],
        message: _Message,
        what: str,
    ) -> None:
        self.name, self.stored, self.shape = name, stored, tuple(shape)
        self.grain = self.shape
        self._path, self._begin, self._end = message.path, message.begin, message.end
        self._what = what
        if len(message) > _MOST_PARSED:
            raise ModelError(
                f"{what} has {len(message)} bytes in fields of elements; allowed: "
                f"{_MOST_PARSED}, or raw_data or external data of any size"
            )
        # A byte has one element, or as many as it packs: this bounds the memory too.
        if self.size * min(8, stored.bits) > 8 * len(message):
            raise ModelError(f"{what} has fewer elements than shape {self.shape}")

    @contextmanager
    def opened(self) -> Iterator[Read]:
        from onnx import TensorProto

        from halfulp.files.formats.tensor_proto import read_tensor

        with open_regular(self._path) as file, file_errors(self._path):
            message = _Message(file, self._path, self._begin, self._end)
            tensor = TensorProto.FromString(message.content(_MOST_PARSED))
            array = self.stored.converted(read_tensor(tensor, self._what))

        def read(box: Box) -> Array:
            return array[box]

        yield read
