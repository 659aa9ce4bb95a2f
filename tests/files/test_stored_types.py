"""Types of elements in files: the small ones are summed exactly, others never decide."""

from __future__ import annotations

import json
import math
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from command_line import facts, fail
from oracle import BFLOAT16
from summed_files import (
    onnx_model,
    save_safetensors,
    sum_files,
    sums_along,
    write_safetensors,
)

SMALL = {
    "bool": ("BOOL", bool),
    "int8": ("I8", np.int8),
    "uint8": ("U8", np.uint8),
    "int16": ("I16", np.int16),
    "uint16": ("U16", np.uint16),
    "float8e4m3fn": ("F8_E4M3", ml_dtypes.float8_e4m3fn),
    "float8e5m2": ("F8_E5M2", ml_dtypes.float8_e5m2),
    "float8e4m3fnuz": ("F8_E4M3FNUZ", ml_dtypes.float8_e4m3fnuz),
    "float8e5m2fnuz": ("F8_E5M2FNUZ", ml_dtypes.float8_e5m2fnuz),
    "float8e8m0": ("F8_E8M0", ml_dtypes.float8_e8m0fnu),
    "float4e2m1": ("F4", ml_dtypes.float4_e2m1fn),
    "int4": (None, ml_dtypes.int4),
    "uint4": (None, ml_dtypes.uint4),
    "int2": (None, ml_dtypes.int2),
    "uint2": (None, ml_dtypes.uint2),
}


def of_small_type(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """All values of a type again and again, but NaN and infinity."""
    _, dtype = SMALL[name]
    dtype = np.dtype(dtype)
    if dtype.kind in "biu":
        bits = np.arange(math.prod(shape)) * 257
        return bits.astype(dtype).reshape(shape)
    values = np.arange(256, dtype=np.uint8).view(dtype)
    if name in ("int4", "uint4", "int2", "uint2", "float4e2m1"):
        values = values[: 4 if name.endswith("2") else 16]
    finite = values[np.isfinite(values.astype(np.float64))]
    return np.resize(finite, shape)


def packed(name: str, x: np.ndarray) -> bytes:
    bits = {"int4": 4, "uint4": 4, "float4e2m1": 4, "int2": 2, "uint2": 2}.get(name, 8)
    if bits == 8:
        return x.tobytes()
    codes = x.ravel().view(np.uint8) & (1 << bits) - 1
    out = bytearray(-(-len(codes) * bits // 8))
    for i, code in enumerate(codes.tolist()):
        out[i * bits // 8] |= code << i * bits % 8
    return bytes(out)


def save_small(format: str, path: Path, name: str, x: np.ndarray) -> bool:
    """Save an array; tell whether the format has its type."""
    code, dtype = SMALL[name]
    if format == "safetensors":
        content = packed(name, x)
        entry = {"dtype": code, "shape": x.shape, "data_offsets": [0, len(content)]}
        write_safetensors(path, json.dumps({"x": entry}).encode(), content)
        return code is not None
    if format.startswith("onnx"):
        number = onnx.TensorProto.DataType.Value(name.upper())
        tensor = onnx.TensorProto(name="x", data_type=number, dims=x.shape)
        if format == "onnx fields":
            content = packed(name, x)
            values = np.frombuffer(content, np.uint8) if "int" not in name[-4:] else x
            if (x.dtype.kind in "biu" and x.dtype.itemsize == 2) or x.dtype.kind in "bi":
                values = x.ravel()
            else:
                values = np.frombuffer(content, np.uint8)
            tensor.int32_data.extend(int(v) for v in values)
        else:
            tensor.raw_data = packed(name, x)
        onnx.save(onnx_model([tensor]), path)
        return True
    if format == "npz":
        np.savez(path, x=x)
        return np.dtype(dtype).kind != "V"
    if format.startswith("zarr"):
        zarr = pytest.importorskip("zarr")
        version = int(format[-1])
        known = np.dtype(dtype).kind in "biu"
        raw = x if known else x.view(np.uint8)
        zarr.create_array(path, data=raw, chunks=(2, 3), zarr_format=version)
        if not known:
            file = path / ("zarr.json" if version == 3 else ".zarray")
            metadata = json.loads(file.read_text())
            metadata["data_type" if version == 3 else "dtype"] = np.dtype(dtype).name
            file.write_text(json.dumps(metadata))
        return True
    h5py = pytest.importorskip("h5py")
    if np.dtype(dtype).kind not in "biu":
        return False
    with h5py.File(path, "w") as file:
        file["x"] = x
    return True


@pytest.mark.parametrize(
    "format",
    ["safetensors", "onnx", "onnx fields", "npz", "zarr 2", "zarr 3", "hdf5"],
)
@pytest.mark.parametrize("name", SMALL)
def test_small_types_are_summed_exactly_under_their_names(
    name: str, format: str, folder: Path, small_pieces: None
) -> None:
    x = of_small_type(name, (7, 43))
    path = folder / f"x.{format.partition(' ')[0]}"
    if not save_small(format, path, name, x):
        return
    exact = [Fraction(float(v)) ** 2 for v in x.astype(np.float64).ravel()]
    totals = sum_files(path)
    (state,) = totals.exact_sums.values()
    assert (state.exact(), state.count) == (sum(exact), x.size)
    assert totals.types(totals.exact_sums) == [name]
    for axis in ((0,), (1,)):
        results, _ = sums_along([path], axis, False, axis == (0,))
        (result,) = results.values()
        wanted = np.sum(np.array(exact, object).reshape(x.shape), axis=axis)
        assert result.tolist() == [float(v) for v in wanted]


def test_every_bit_pattern_of_small_floats_is_converted_exactly(tmp_path: Path) -> None:
    for name in ("float8e4m3fn", "float8e5m2", "float8e8m0", "float8e4m3fnuz"):
        x = np.arange(256, dtype=np.uint8).view(SMALL[name][1])
        save_small("safetensors", tmp_path / "x.safetensors", name, x.reshape(16, 16))
        (state,) = sum_files(tmp_path / "x.safetensors").exact_sums.values()
        assert math.isnan(state.exact())


def test_the_types_in_files_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("t.npz", q=np.int8([3, -4]), i=np.int32([1]), m=np.array([True, False]))
    found = facts(["sum", "t.npz", "--per-tensor"], capsys)
    assert [each["type"] for each in found["per_tensor"]] == ["int32", "bool", "int8"]
    assert found["totals"][0]["types"] == ["int32", "bool", "int8"]
    assert found["totals"][0]["sum_square"] == 27
    assert found["bytes"] == 2 + 4 + 2
    np.savez("u.npz", u=np.uint8([[200, 255]]))
    (along,) = facts(["sum", "u.npz", "--axis", "0"], capsys)["results"]
    assert (along["dtype"], along["types"]) == ("uint64", ["uint8"])


@pytest.mark.filterwarnings("ignore:The data type")
def test_bfloat16_without_a_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    x = np.array([[3, 4, 0.5], [1, 2, -1]], BFLOAT16)
    with h5py.File("b.h5", "w") as file:
        file["layers/dense/vars/0"] = x
        file.create_dataset("free", (4, 4), "V2", chunks=(2, 2))
    for version in (2, 3):
        array = zarr.create_array(
            f"b{version}.zarr",
            shape=(5, 6),
            chunks=(2, 3),
            dtype="V2",
            zarr_format=version,
        )
        array[:2, :3] = x.view("V2")
    for name in ("b.h5", "b2.zarr", "b3.zarr"):
        assert "with --bfloat16, |V2 is bfloat16" in fail(["sum", name], capsys)
        found = facts(["sum", name, "--bfloat16"], capsys)
        assert found["totals"][0]["types"] == ["bfloat16"]
        assert found["totals"][0]["sum_square"] == 31.25


@pytest.mark.parametrize(
    ("data_type", "fill", "each"),
    [
        ("bfloat16", 1.5, 2.25),
        ("bfloat16", "NaN", math.nan),
        ("bfloat16", "0xff80", math.inf),
        ("bfloat16", "-Infinity", math.inf),
        ("float8_e4m3fn", 0.25, 0.0625),
        ("float8_e5m2", "0x3c", 1.0),
        ("int4", -8, 64),
        ("uint4", 15, 225),
        ("int2", -2, 4),
    ],
)
def test_fill_values_of_types_that_zarr_lacks(
    data_type: str, fill: Any, each: float, folder: Path
) -> None:
    zarr = pytest.importorskip("zarr")
    size = 2 if data_type == "bfloat16" else 1
    for more in ({}, {"shards": (4, 4)}):
        path = folder / f"{len(more)}.zarr"
        zarr.create_array(path, shape=(9, 9), chunks=(2, 2), dtype=f"u{size}", **more)
        metadata = json.loads((path / "zarr.json").read_text())
        metadata |= {"data_type": data_type, "fill_value": fill}
        (path / "zarr.json").write_text(json.dumps(metadata))
        (state,) = sum_files(path).exact_sums.values()
        got = state.exact()
        assert got == 81 * each or (got != got and each != each)


def test_what_is_skipped_decides_about_nothing_else(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    x = np.float32([3, 4])
    with h5py.File("x.h5", "w") as file:
        file["t"] = x
        layout = h5py.VirtualLayout((2,), "f4")
        layout[:] = h5py.VirtualSource("other.h5", "t", (2,))
        file.create_virtual_dataset("v", layout)
        file["s"] = ["Oslo", "Rome"]
        file.create_dataset("e", data=h5py.Empty("f4"))
        space = h5py.h5s.create_simple((3,))
        h5py.h5d.create(file.id, b"time", h5py.h5t.UNIX_D32LE, space)
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((3,))
        properties.set_filter(39999, h5py.h5z.FLAG_OPTIONAL, (1,))
        kind = h5py.h5t.IEEE_F32LE
        h5py.h5d.create(file.id, b"filter", kind, space, properties)
    for version in (2, 3):
        group = zarr.open_group(f"{version}.zarr", mode="w", zarr_format=version)
        group.create_array("t", data=x)
        text = group.create_array("site", shape=(2,), dtype=str)
        text[:] = np.array(["Oslo", "Rome"], dtype=object)
        name = "zarr.json" if version == 3 else ".zarray"
        for other in ("type", "codec", "record"):
            group.create_array(other, data=x)
            file = folder / f"{version}.zarr" / other / name
            metadata = json.loads(file.read_text())
            key = "data_type" if version == 3 else "dtype"
            if other == "type":
                metadata[key] = "float6_e2m3fn"
            elif other == "record":
                fields = [["a", "<f4"]]
                metadata[key] = {"name": "struct"} if version == 3 else fields
            elif version == 3:
                metadata["codecs"] = [{"name": "bytes"}, {"name": "zfpy"}]
            else:
                metadata["compressor"] = {"id": "zfpy"}
            file.write_text(json.dumps(metadata))
    np.savez("x.npz", t=x, s=np.array(["a"]), d=np.array(["2020"], "M8[Y]"))
    save_safetensors(Path("x.safetensors"), {"t": x, "z": np.ones(2, np.complex64)})
    strings = onnx.TensorProto(name="s", data_type=8, dims=[1], string_data=[b"a"])
    sub8 = onnx.TensorProto(name="f", data_type=99, dims=[1])
    away = onnx.TensorProto(name="a", data_type=1, dims=[1], data_location=1)
    away.external_data.add(key="location", value="gone")
    tensors = [onnx.numpy_helper.from_array(x, "t"), strings, sub8]
    onnx.save(onnx_model(tensors), "x.onnx")
    Path("y.onnx").write_bytes(onnx_model([*tensors, away]).SerializeToString())
    files = ["x.h5", "2.zarr", "3.zarr", "x.npz", "x.safetensors", "x.onnx"]
    for file in files:
        found = facts(["sum", file], capsys)
        assert found["totals"][0]["sum_square"] == 25.0
        assert found["skipped"] > 0
    for file in [*files, "y.onnx"]:
        found = facts(["sum", file, "--tensor", "t"], capsys)
        assert (found["totals"][0]["sum_square"], found["skipped"]) == (25.0, 0)
    message = fail(["sum", "2.zarr", "--tensor", "codec"], capsys)
    assert "'codec' has type float with codec 'zfpy'" in message


def test_a_safetensors_header_may_be_as_long_as_that_format_allows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"ds.sample.{i:07d}.{'embedding' * 50}" for i in range(18000)]
    header = {
        name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
        for i, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    assert len(text) > 2**23
    content = np.ones(len(names), "f4").tobytes()
    write_safetensors(Path("x.safetensors"), text, content)
    found = facts(["sum", "x.safetensors"], capsys)
    assert found["totals"][0]["sum_square"] == len(names)
    with Path("y.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", 100_000_001))
        file.truncate(100_000_100)
    assert "100000000 at most" in fail(["sum", "y.safetensors"], capsys)


def test_names_in_hdf5_may_be_any_bytes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File("n.h5", "w") as file:
        file["a"] = np.float32([3, 4])
        file.move("a", b"\xff\xfe")
    (found,) = facts(["sum", "n.h5", "--per-tensor", "--state", "n.state"], capsys)[
        "per_tensor"
    ]
    assert (found["name"], found["sum_square"]) == ("\udcff\udcfe", 25.0)
    assert facts(["merge", "n.state"], capsys)["per_tensor"] == [found]
