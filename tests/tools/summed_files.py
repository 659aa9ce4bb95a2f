"""Files of tensors as tests write them, and their sums as tests take them."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from halfulp import SumSquare
from halfulp.files.formats import by_ending
from halfulp.files.sums import along, summing
from halfulp.files.sums.facts import array_facts, plain
from halfulp.files.sums.state_file import write_totals
from halfulp.files.sums.totals import Totals

CODES = {
    "bfloat16": "BF16",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "int32": "I32",
    "int64": "I64",
    "uint32": "U32",
    "uint64": "U64",
}


Arrays = dict[str, np.ndarray]


def save_safetensors(path: Path, arrays: Arrays, **extra: Any) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "np"}} | extra
    content = b""
    for name, x in arrays.items():
        end = len(content) + x.nbytes
        header[name] = {
            "dtype": CODES.get(x.dtype.name, "C64"),
            "shape": list(x.shape),
            "data_offsets": [len(content), end],
        }
        content += x.tobytes()
    write_safetensors(path, json.dumps(header).encode(), content)


def write_safetensors(path: Path, header: bytes, content: bytes) -> None:
    path.write_bytes(struct.pack("<Q", len(header)) + header + content)


def save_onnx(path: Path, arrays: Arrays, **options: Any) -> None:
    tensors = [onnx.numpy_helper.from_array(x, name) for name, x in arrays.items()]
    onnx.save(onnx_model(tensors), path, **options)


def onnx_model(tensors: list[onnx.TensorProto]) -> onnx.ModelProto:
    return onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], tensors))


def save_zarr(path: Path, arrays: Arrays, zarr_format: int = 3) -> None:
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    for name, x in arrays.items():
        chunks = tuple(max(1, n // 2) for n in x.shape)
        group.create_array(name, shape=x.shape, chunks=chunks, dtype=x.dtype)[...] = x


def sum_files(*paths: Path, per_tensor: bool = True, bfloat16: bool = True) -> Totals:
    tensors = [t for p in paths for t in by_ending.find_tensors(p, [], bfloat16)[0]]
    totals = Totals(per_tensor)
    summing.sum_tensors(tensors, totals, lambda more: None)
    return totals


def sums_along(paths: list[Path], axis: Any, per_tensor: bool, keep: bool) -> Any:
    """The arrays that --output writes and the totals that --state saves."""
    tensors = [t for p in paths for t in by_ending.find_tensors(p, [], True)[0]]
    totals = Totals(per_tensor, axis)
    output = paths[0].with_name("out.npz")
    groups = along.arrays_along(tensors, axis, totals, keep, lambda more: None)
    told = array_facts(groups, None, output)
    with np.load(output) as arrays:
        results = dict(arrays)
    for each in told:
        result = results[each["name"]]
        assert each["shape"] == list(result.shape)
        assert each["first_values"] == [plain(v) for v in result.ravel()[:8].tolist()]
    return results, totals


def save_state(totals: Totals) -> bytes:
    file = io.BytesIO()
    write_totals(totals, file)
    return file.getvalue()


def some_state() -> bytes:
    totals = Totals(True, (0, -1))
    totals.files = totals.tensors = 2
    totals.add("a", SumSquare("float", 2).update(np.ones((3, 2), "f4"), 0))
    totals.add("b", SumSquare("int32", ()).update(np.ones(3, "i4")))
    return save_state(totals)
