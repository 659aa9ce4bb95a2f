"""What reads bytes that nobody vouches for, as one table, for fuzz_bytes.py.

A target takes any bytes. Only errors of halfulp may come out of what it calls; where
a result comes out, it is checked.
"""

from __future__ import annotations

import copy
import io
import itertools
import operator
import random
import struct
import tempfile
import zlib
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

import halfulp
from halfulp.cli import main
from halfulp.onnx import check_model, convert_opset, expand, fuse, infer_shapes
from halfulp.onnx.model.nodes import walk
from halfulp.onnx.run.array_files import load_array
from halfulp.onnx.run.evaluate import ReferenceModel
from halfulp.reductions import SUMS
from hostile_graphs import FEEDS, nested_graphs
from hostile_graphs import functions as hostile_functions
from hostile_nodes import hostile_node
from oracle import (
    FLOATS,
    SMALL,
    TYPES,
    assert_same_bits,
    expected_of,
    function_of,
)


@dataclass(frozen=True)
class Target:
    """A target: what it runs, and the message that its bytes are, if they are one."""

    run: Callable[[bytes], None]
    message: type[Message] | None = None


# Sizes of inputs of a model that are unknown, and the most elements that are fed.
_UNKNOWN = 2
_MOST_ELEMENTS = 1000

# Operators whose results are not much larger than what they are given: a model is a
# program, and others may rightly ask for a terabyte.
_SMALL = {
    "ReduceSumSquare", "Identity", "Constant", "Abs", "Add", "Sub", "Mul", "Div", "Sqrt",
    "Neg", "Cast", "If", "Relu", "Shape", "Squeeze", "ReduceSum",
}  # fmt: skip

# What an axis may be given as, besides an integer.
_ODD = (None, True, 0.0, "0", b"0", [], np.int64(-1), np.float64(1), np.array(0), 2**70)


def axes(data: bytes) -> None:
    """A shape, flags and a list of axes, through both faces."""
    values = iter(data)

    def byte() -> int:
        return next(values, 0)

    shape = tuple(byte() % 4 for _ in range(byte() % 6))
    x = np.arange(np.prod(shape, dtype=int), dtype=np.int64).reshape(shape)
    given: Any = []
    for _ in range(byte() % 8):
        kind = byte()
        given.append(_ODD[kind % len(_ODD)] if kind > 200 else byte() - 128 >> kind % 7)
    form = byte() % 6
    if form == 0:
        given = tuple(given)
    elif form == 1:
        with suppress(ValueError, OverflowError, TypeError):
            given = np.array(given)
    elif form == 2:
        given = given[0] if given else None
    keepdims, noop = (byte() % 3 for _ in range(2))
    row = SUMS[byte() % len(SUMS)]
    with suppress(halfulp.HalfulpError):
        by_onnx = getattr(halfulp, row.onnx_name)
        result = by_onnx(x, given, keepdims=keepdims, noop_with_empty_axes=noop)
        listed = [] if given is None else np.asarray(given).tolist()
        reduced = tuple({int(axis) % x.ndim for axis in listed})
        if not reduced and not noop:
            reduced = tuple(range(x.ndim))
        want = expected_of(row, x, reduced, x.dtype, bool(keepdims))
        assert_same_bits(result, want)
    with suppress(halfulp.HalfulpError):
        result = function_of(row)(x, given, keepdims=bool(keepdims))
        listed = given if isinstance(given, list | tuple) else (given,)
        axis = None if given is None else tuple(map(operator.index, listed))
        want = expected_of(row, x, axis, keepdims=bool(keepdims))
        assert_same_bits(result, want)


def elements(data: bytes) -> None:
    """A matrix of any elements, reduced by any row to any type that it may."""
    head, data = data[:6].ljust(6, b"\0"), data[6:2000]
    row = SUMS[head[0] % len(SUMS)]
    dtype = (*TYPES, *SMALL)[head[1] % len(TYPES + SMALL)]
    types = FLOATS if dtype in FLOATS else TYPES
    into = types[head[2] % len(types)]
    columns = 1 + head[3] % 40
    rows = len(data) // (columns * dtype.itemsize)
    x = np.frombuffer(data, dtype, rows * columns).reshape(rows, columns)
    axis = (None, 0, 1, ())[head[4] % 4]
    overflow = ("wrap", "raise")[head[4] >> 4 & 1]
    where: Any = True
    if head[5]:
        where = np.arange(x.size).reshape(x.shape) * head[5] % 256 < 128
    want = expected_of(row, x, axis, into, where=where)[()]
    with suppress(halfulp.SumOverflowError):
        result = function_of(row)(x, axis, dtype=into, where=where, overflow=overflow)
        assert_same_bits(result, want)


def model(data: bytes) -> None:
    """A model: read, checked, and run where that cannot take long."""
    with suppress(halfulp.HalfulpError):
        prepared = ReferenceModel(data)
        prepared.check()
        proto = onnx.load_model_from_string(data)
        bodies = [proto.graph, *proto.functions]
        nodes = itertools.chain.from_iterable(walk(body.node) for body in bodies)
        functions = {function.name for function in proto.functions}
        if not {node.op_type for _, node in nodes} <= _SMALL | functions:
            return
        feeds = {value.name: _zeros(value.type) for value in prepared.inputs}
        if all(array is not None for array in feeds.values()):
            prepared.run(feeds)


def node(data: bytes) -> None:
    """A node of any operator, through all that does not run it."""
    _look(hostile_node(data))


def _look(proto: onnx.ModelProto) -> dict[str, onnx.ModelProto]:
    """Return what comes of a model without running it, by what made it."""
    looks: dict[str, Callable[[Any], Any]] = {
        "check_model": check_model,
        "infer_shapes": infer_shapes,
        "fuse": lambda m: fuse(m)[0],
        "expand": lambda m: expand(m)[0],
        "13": lambda m: convert_opset(m, 13),
        "21": lambda m: convert_opset(m, 21),
    }
    found = {}
    for name, look in looks.items():
        with suppress(halfulp.HalfulpError):
            found[name] = look(proto)
    found.pop("check_model", None)
    return found


def _agree(name: str, result: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in result.items():
        same = np.array_equal(value, other[key])
        assert same, f"{name}: {key} is {other[key]}, not {value}"


def _fits(declared: onnx.ValueInfoProto, value: Any) -> None:
    """Check an inferred shape."""
    tensor = declared.type.tensor_type
    if tensor.HasField("shape"):
        sizes = [
            d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim
        ]
        same = [size in (None, n) for size, n in zip(sizes, value.shape, strict=True)]
        assert all(same), f"{declared.name} has shape {value.shape}, not {sizes}"


def _has_allowed_types(proto: onnx.ModelProto) -> bool:
    """Whether no node breaks ONNX's rules of types, of which the evaluator is free."""
    try:
        onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


def graphs(data: bytes) -> None:
    """Graphs in graphs: what comes of them means the same."""
    _same(nested_graphs(data), FEEDS)


def functions(data: bytes) -> None:
    """Functions with attributes: they mean what they do where they are inlined."""
    proto = hostile_functions(data)
    result = _same(proto, {"x": FEEDS["x"]})
    if result is not None:
        with suppress(Exception):
            inlined = onnx.inliner.inline_local_functions(proto)
            _agree("inlined", result, ReferenceModel(inlined).run({"x": FEEDS["x"]}))


def _same(proto: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any] | None:
    """Check that what comes of a model gives the same results; return these, if any."""
    others = _look(proto)
    result = None
    with suppress(halfulp.HalfulpError):
        result = ReferenceModel(proto).run(feeds)
    if result is not None:
        for name, other in others.items():
            try:
                told = ReferenceModel(other).run(feeds)
            except halfulp.UnsupportedTypeError:
                if _has_allowed_types(proto):
                    raise
                continue
            _agree(name, result, told)
        inferred = others.get("infer_shapes", proto)
        for value in inferred.graph.output:
            _fits(value, result[value.name])
    return result


def _zeros(declared: onnx.TypeProto) -> Any:
    tensor = declared.tensor_type
    shape = [
        dim.dim_value if dim.HasField("dim_value") else _UNKNOWN
        for dim in tensor.shape.dim
    ]
    if len(shape) > 8 or np.prod([float(n) for n in shape]) > _MOST_ELEMENTS:
        return None
    if not tensor.elem_type:
        return np.zeros(shape, np.float32)
    return np.zeros(shape, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))


def _file(data: bytes, suffix: str) -> None:
    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        file.write(data)
        file.flush()
        with suppress(halfulp.HalfulpError):
            load_array(Path(file.name))


def npy(data: bytes) -> None:
    """An .npy or .npz file: they are told apart by their first bytes."""
    _file(data, ".npy")


def tensor(data: bytes) -> None:
    """A TensorProto in a file."""
    _file(data, ".pb")


def state(data: bytes) -> None:
    """The bytes of a SumSquare."""
    with suppress(halfulp.HalfulpError):
        read = halfulp.SumSquare.from_bytes(data)
        assert read.to_bytes() == data
        read.result()
        read.exact()


def _sum(data: bytes, suffix: str) -> None:
    """`halfulp sum` of a file."""
    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        file.write(data)
        file.flush()
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            assert main(["sum", file.name, "--per-tensor", "--json"]) in (0, 2)


def sum_npy(data: bytes) -> None:
    """An .npy file to sum."""
    _sum(data, ".npy")


def sum_npz(data: bytes) -> None:
    """An .npz file to sum."""
    _sum(data, ".npz")


def sum_safetensors(data: bytes) -> None:
    """A .safetensors file to sum."""
    _sum(data, ".safetensors")


def sum_zarr(data: bytes) -> None:
    """The metadata of a Zarr array of either version, no chunk of which was written."""
    with tempfile.TemporaryDirectory(suffix=".zarr") as folder:
        name = ".zarray" if b'"chunks"' in data else "zarr.json"
        (Path(folder) / name).write_bytes(data)
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            assert main(["sum", folder, "--bfloat16", "--json"]) in (0, 2)


def merge(data: bytes) -> None:
    """A state file, whose checksum is made right."""
    with tempfile.NamedTemporaryFile(suffix=".state") as file:
        file.write(data + struct.pack("<I", zlib.crc32(data)))
        file.flush()
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            assert main(["merge", file.name, "--json"]) in (0, 2)


def sum_onnx(data: bytes) -> None:
    """The initializers of a model to sum."""
    _sum(data, ".onnx")


TARGETS = {
    "axes": Target(axes),
    "elements": Target(elements),
    "merge": Target(merge),
    "functions": Target(functions),
    "graphs": Target(graphs),
    "model": Target(model, onnx.ModelProto),
    "node": Target(node),
    "npy": Target(npy),
    "state": Target(state),
    "sum_npy": Target(sum_npy),
    "sum_npz": Target(sum_npz),
    "sum_onnx": Target(sum_onnx, onnx.ModelProto),
    "sum_safetensors": Target(sum_safetensors),
    "sum_zarr": Target(sum_zarr),
    "tensor": Target(tensor, onnx.TensorProto),
}


def mutate_message(
    kind: type[Message], data: bytes, seed: int, mutate: Callable[[bytes], bytes]
) -> bytes:
    """Change one field of a message, so that most of its bytes still mean something."""
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return mutate(data)
    rng = random.Random(seed)
    places = list(_places(message))
    if not places or rng.randrange(5) == 0:
        return mutate(data)
    parent, field = rng.choice(places)
    others = [
        getattr(other, same.name)
        for other, same in places
        if same.type == field.type and same.message_type is field.message_type
    ]
    donor = rng.choice(others)
    if not isinstance(donor, str | bytes | int | float | Message):
        donor = rng.choice(list(donor))
    donor = copy.deepcopy(donor)  # it may be around the place where it goes
    if field.is_repeated:
        _change_list(rng, getattr(parent, field.name), field, donor, mutate)
    elif rng.randrange(4) == 0:
        parent.ClearField(field.name)
    elif field.message_type is not None:
        getattr(parent, field.name).CopyFrom(donor)
    else:
        with suppress(ValueError, TypeError):  # what the field cannot hold
            setattr(parent, field.name, _scalar(rng, donor, mutate))
    return message.SerializeToString()


def _places(message: Message) -> Any:
    """Every field of `message` and below it that is set, after the message it is in."""
    for field, value in message.ListFields():
        yield message, field
        if field.message_type is not None:
            for below in value if field.is_repeated else [value]:
                yield from _places(below)


def _change_list(
    rng: random.Random,
    values: Any,
    field: FieldDescriptor,
    donor: Any,
    mutate: Callable[[bytes], bytes],
) -> None:
    action = rng.randrange(3)
    if action == 0:
        del values[rng.randrange(len(values))]
    elif field.message_type is not None:
        if action == 1:
            values.add().CopyFrom(donor)
        else:
            values[rng.randrange(len(values))].CopyFrom(donor)
    else:
        with suppress(ValueError, TypeError):
            new = _scalar(rng, donor, mutate)
            if action == 1:
                values.append(new)
            else:
                values[rng.randrange(len(values))] = new


def _scalar(rng: random.Random, value: Any, mutate: Callable[[bytes], bytes]) -> Any:
    """`value`, of which there is one in the message, or another of its type."""
    if rng.randrange(2):
        return value
    if isinstance(value, str):
        return mutate(value.encode()).decode(errors="replace")
    if isinstance(value, bytes):
        return mutate(value)
    if isinstance(value, float):
        return rng.choice([0.0, -1.0, float("inf"), float("nan")])
    return rng.choice([*range(-3, 30), 2**31 - 1, 2**31, 2**62, -(2**63)])
