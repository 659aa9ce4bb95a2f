"""Files that are none, or claim what is not in them: one clear error, and at once."""

from __future__ import annotations

import io
import json
import math
import os
import random
import socket
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import halfulp
from command_line import facts, fail
from halfulp import ArgumentError, HalfulpError, SumSquare
from halfulp.cli import main
from halfulp.files.formats import by_ending
from halfulp.files.sums import along, summing
from halfulp.files.sums.facts import array_facts
from halfulp.files.sums.state_file import read_totals
from halfulp.files.sums.totals import Totals
from halfulp.onnx.model.files import load_model
from halfulp.onnx.run.array_files import load_array
from halfulp.settings import check_environment
from oracle import assert_same_bits
from seed import SEED
from summed_files import save_state, some_state, sums_along

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.float32([[3, 4]]))
    text = '<ir_version: 8, opset_import: ["": 18]> g (float[N,M] x) => (float[1,1] y)'
    onnx.save(onnx.parser.parse_model(text + "{ y = ReduceSumSquare(x) }"), "m.onnx")
    return tmp_path


# Whatever opens a file: the command with % where the name of the file stands.
OPENS = [
    *("run %.onnx", "run m.onnx --input x=%.npy", "run m.onnx --input x=%.npz"),
    *("run m.onnx --input %.npz", "run m.onnx --input x=%.pb"),
    *("check %.onnx", "convert %.onnx --opset 18 -o o.onnx", "fuse %.onnx -o o.onnx"),
    *("expand %.onnx -o o.onnx", "sum %.npy", "sum %.npz", "sum %.safetensors"),
    *("sum %.onnx", "sum %.h5", "sum %.zarr", "sum %.parquet", "sum %.arrow"),
    "merge %.state",
    *("check %.json", "check %.textproto", "bench --from %.json"),
]


@pytest.mark.parametrize("kind", ["FIFO", "device", "socket", "directory"])
@pytest.mark.parametrize("command", OPENS)
def test_what_is_no_file_is_told_without_waiting(
    command: str, kind: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = command.replace("%", "none").split()
    name = next(a for a in arguments if "none" in a).removeprefix("x=")
    if kind == "FIFO":
        os.mkfifo(name)
    elif kind == "device":
        Path(name).symlink_to("/dev/zero")
    elif kind == "directory":
        if name.endswith(".zarr"):
            return
        Path(name).mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name)
    before = time.monotonic()
    message = fail(arguments, capsys)
    assert time.monotonic() - before < 5
    assert name in message
    if not name.endswith(".zarr"):
        assert kind in message or "folder" in message or "Is a directory" in message
    assert not Path("o.onnx").exists()


def test_a_fifo_beside_a_model_is_not_what_is_expected_of_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo("m.expected.npz")
    assert "expected" not in facts(["run", "m.onnx", "--input", "x=x.npy"], capsys)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 123\n",
            "is a Git LFS pointer, not the data",
        ),
        (b"\n  <!DOCTYPE html><p>Not found</p>", "is an HTML page, not the data"),
        (b"<html lang='en'>", "is an HTML page, not the data"),
    ],
)
@pytest.mark.parametrize("command", [c for c in OPENS if "zarr" not in c])
def test_what_lies_in_place_of_data_is_told(
    command: str,
    content: bytes,
    words: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = command.replace("%", "none").split()
    name = next(a for a in arguments if "none" in a).removeprefix("x=")
    Path(name).write_bytes(content)
    assert words in fail(arguments, capsys)


def test_external_data_of_a_checkout_without_data_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 123\n"
    Path("data").write_bytes(pointer)
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[100], data_location=1)
    tensor.external_data.add(key="location", value="data")
    model = onnx.load("m.onnx")
    model.graph.initializer.append(tensor)
    Path("e.onnx").write_bytes(model.SerializeToString())
    for command in (["sum", "e.onnx"], ["run", "e.onnx", "--input", "x=x.npy"]):
        assert "'" + str(folder / "data") + "' is a Git LFS pointer" in fail(
            command, capsys
        )
    # Raw numbers may begin with any bytes.
    Path("data").write_bytes(pointer.ljust(400, b"\0"))
    assert facts(["sum", "e.onnx"], capsys)["tensors"] == 1
    assert facts(["run", "e.onnx", "--input", "x=x.npy"], capsys)["outputs"]


# Files that unpack to more than they have.


def bomb(path: Path, shape: tuple[int, ...], name: str = "x") -> None:
    """An .npz file of zeros, a thousandth of its size."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        archive.open(f"{name}.npy", "w", force_zip64=True) as member,
    ):
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(member, header)
        left = 4 * math.prod(shape)
        zeros = bytes(2**20)
        while left:
            member.write(zeros[:left])
            left -= min(left, len(zeros))


@pytest.mark.parametrize("option", ["bomb.npz", "x=bomb.npz"])
def test_an_input_unpacks_in_proportion_or_to_what_the_model_declares(
    option: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bomb(Path("bomb.npz"), (70, 2**20))
    command = ["run", "m.onnx", "--input", option]
    message = fail(command, capsys)
    assert "unpacks to 293601408 bytes; allowed: 268435456, or arrays of sizes" in message
    model = onnx.load("m.onnx")
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_value, dims[1].dim_value = 70, 2**20
    onnx.save(model, "m.onnx")
    assert facts(command, capsys)["outputs"][0]["first_values"] == [0.0]


def test_expected_values_are_read_as_far_as_outputs_need_them(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb(Path("m.expected.npz"), (70, 2**20), "y")
    read = []
    monkeypatch.setattr(
        "halfulp.files.formats.npy._MemberSource.opened",
        lambda self: read.append(self),
    )
    result = facts(["run", "m.onnx", "--input", "x=x.npy"], capsys)
    assert result["outputs"][0]["expected"] == {"shape": [70, 2**20]}
    assert not read


# Stores whose chunks were never written.


Store = tuple[Path, Any]


def stores(folder: Path, shape: tuple[int, ...], **options: Any) -> Iterator[Store]:
    """Path and open array of every format with chunks."""
    number = len(os.listdir(folder))
    chunks = options.pop("chunks")
    fill = options.pop("fill")
    dtype = options.pop("dtype", "f4")
    shards = tuple(3 * n for n in chunks)
    for version, more in ((2, {}), (3, {}), (3, {"shards": shards})):
        path = folder / f"{number}-{version}{len(more)}.zarr"
        yield (
            path,
            zarr.create_array(
                path,
                shape=shape,
                chunks=chunks,
                dtype=dtype,
                fill_value=fill,
                zarr_format=version,
                **more,
            ),
        )
    path = folder / f"{number}.h5"
    with h5py.File(path, "w") as file:
        array = file.create_dataset("x", shape, dtype, chunks=chunks, fillvalue=fill)
        yield path, array


@pytest.mark.parametrize("fill", [0.0, 1.5, -0.1, math.nan, math.inf])
def test_what_was_never_written_is_summed_at_once(
    fill: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for path, _ in stores(tmp_path, (2**24, 2**26), chunks=(1024, 1024), fill=fill):
        paths.append(path)
    with h5py.File(tmp_path / "whole.h5", "w") as file:
        file.create_dataset("x", (2**24, 2**26), "f4", fillvalue=fill)
    paths.append(tmp_path / "whole.h5")
    before = time.monotonic()
    for path in paths:
        (found,) = facts(["sum", str(path)], capsys)["totals"]
        exact = (
            float(2**50 * Fraction(float(np.float32(fill))) ** 2)
            if math.isfinite(fill)
            else fill
        )
        assert found["elements"] == 2**50
        assert str(found["sum_square"]) == str(exact)
    assert time.monotonic() - before < 20


@pytest.mark.parametrize("axis", [(0,), (1,)])
def test_along_axes_too(axis: tuple[int], tmp_path: Path) -> None:
    shape = (2**40, 50) if axis == (0,) else (50, 2**40)
    chunks = (2**10, 20) if axis == (0,) else (20, 2**10)
    for path, array in stores(tmp_path, shape, chunks=chunks, fill=0.1):
        corner = (slice(5, 8), 3) if axis == (0,) else (3, slice(5, 8))
        array[corner] = 2.0
        fill = Fraction(float(np.float32(0.1))) ** 2
        results = None
        if path.suffix == ".h5":
            array.file.close()
        results, totals = sums_along([path], axis, False, True)
        wanted = np.full(50, float(2**40 * fill))
        wanted[3] = float((2**40 - 3) * fill + 12)
        assert_same_bits(results["float"], wanted)
        (state,) = totals.exact_sums.values()
        assert state.count == 2**40


@pytest.mark.parametrize("seed", range(6))
def test_sparse_stores_have_the_sums_of_their_elements(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng([SEED, seed])
    rank = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, 14, rank))
    chunks = tuple(min(n, int(rng.integers(1, 5))) for n in shape)
    fill = float(rng.choice([0.0, 1.5, -3.0]))
    dtype = str(rng.choice(["f2", "f4", "f8", "i4", "i8", "u1"]))
    if dtype == "u1":
        fill = abs(fill)
    fill_value = np.dtype(dtype).type(fill)
    boxes = []
    for _ in range(int(rng.integers(0, 5))):
        low = [int(rng.integers(0, n)) for n in shape]
        boxes.append(tuple(slice(n, n + int(rng.integers(1, 4))) for n in low))
    for module in (summing, along):
        monkeypatch.setattr(module, "PIECE", int(rng.integers(8, 400)))
    monkeypatch.setattr(along, "_EXACT_SUMS", int(rng.choice([1, 999, 2**20])))
    axes = tuple(i for i in range(rank) if rng.integers(2)) or (0,)
    for path, array in stores(
        tmp_path, shape, chunks=chunks, fill=fill_value, dtype=dtype
    ):
        for box in boxes:
            part = array[box]
            array[box] = rng.integers(1, 9, part.shape).astype(dtype)
        x = array[...]
        if path.suffix == ".h5":
            array.file.close()
        tensors, _ = by_ending.find_tensors(path, [], False)
        wide = x.astype("u4") if dtype == "u1" else x
        kept = tuple(n for i, n in enumerate(shape) if i not in axes)
        totals = Totals(False)
        summing.sum_tensors(tensors, totals, lambda more: None)
        (state,) = totals.exact_sums.values()
        assert state == SumSquare(wide.dtype).update(wide)
        _, totals = sums_along([path], axes, False, True)
        (state,) = totals.exact_sums.values()
        assert state == SumSquare(wide.dtype, kept).update(wide, axes)
        results, _ = sums_along([path], axes, False, False)
        (result,) = results.values()
        assert_same_bits(
            result, np.asarray(halfulp.sum_square(wide, axes, dtype=result.dtype))
        )


def test_chunks_beyond_the_shape_count_for_nothing(tmp_path: Path) -> None:
    for path, array in stores(tmp_path, (40,), chunks=(4,), fill=1.0):
        array[...] = 2.0
        if path.suffix == ".h5":
            continue
        array.resize((3,))
        for name in ("c/9", "c/x", "9", "-1", "c/0/0", "0.0", "00"):
            # What another program left there, or a chunk that is none.
            with suppress(OSError):
                (path / name).parent.mkdir(exist_ok=True)
                (path / name).write_bytes(b"no chunk")
        (tensor,), _ = by_ending.find_tensors(path, [], False)
        totals = Totals(False)
        summing.sum_tensors([tensor], totals, lambda more: None)
        (state,) = totals.exact_sums.values()
        assert (state.exact(), state.count) == (12, 3)


def test_what_cannot_be_counted_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(tmp_path / "0.h5")]
    with h5py.File(names[0], "w") as file:
        for name in "abcd":
            file.create_dataset(name, (2**61,), "f2", chunks=(1024,))
    message = fail(["sum", *names, "--dtype", "double"], capsys)
    assert f"allowed: {2**63 - 1}" in message
    with h5py.File(tmp_path / "0.h5", "w") as file:
        file.create_dataset("x", (2**40, 2), "f4", chunks=(1024, 2))
    message = fail(["sum", names[0], "--axis", "1"], capsys)
    assert f"has {2**40} sums; allowed, since most of it was never written" in message


def test_a_shard_is_as_long_as_its_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.zarr"
    array = zarr.create_array(path, shape=(64,), chunks=(1,), shards=(64,), dtype="f4")
    array[3] = 2.0
    found = facts(["sum", str(path)], capsys)["totals"][0]
    assert (found["sum_square"], found["elements"]) == (4.0, 64)
    shard = path / "c/0"
    shard.write_bytes(shard.read_bytes()[-100:])
    assert "is too short for 64 chunks" in fail(["sum", str(path)], capsys)


# Errors of others.


@pytest.mark.parametrize(
    "shape", [(0, 2**60), (2**20,) * 3, 2**40, (2**62, 2), 10**30, (0, 2**31, 2**31)]
)
@pytest.mark.parametrize("type", ["float16", "float", "double", "int32", "uint64"])
def test_a_shape_of_no_array_is_one_of_our_errors(type: str, shape: Any) -> None:
    code = "import sys, halfulp\nhalfulp.SumSquare(sys.argv[1], eval(sys.argv[2]))"
    if shape == 2**40:
        limited = 'ulimit -v 8000000; exec "$@"'
        # It may or may not be had: without overcommitment it is not.
        done = subprocess.run(
            ["bash", "-c", limited, "-", sys.executable, "-c", code, type, repr(shape)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "halfulp.errors.ArgumentError: shape is (1099511627776,)" in done.stderr
        return
    with pytest.raises(ArgumentError, match=r"shape is .*; allowed: "):
        SumSquare(type, shape)


def test_bytes_of_such_a_shape_too() -> None:
    content = bytearray(SumSquare("float", (0, 1)).to_bytes())
    content[32:40] = struct.pack("<Q", 2**60)
    crc = zlib.crc32(content[16:], zlib.crc32(content[:12]))
    content[12:16] = struct.pack("<I", crc)
    with pytest.raises(ArgumentError, match=r"shape is \(0, 1152921504606846976\)"):
        SumSquare.from_bytes(content)
    closed = memoryview(b"abc")
    closed.release()
    for data in (closed, np.zeros(3, ml_dtypes.bfloat16), np.zeros((4, 4))[:, 0]):
        with pytest.raises(ArgumentError):
            SumSquare.from_bytes(data)


@pytest.mark.parametrize("place", [16, 24, 32])
def test_counts_that_none_can_have_are_an_error_of_merge(
    place: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = tmp_path / "s", tmp_path / "t"

    def claim(count: int) -> None:
        content = bytearray(some_state()[:-4])
        head = struct.Struct("<8sHBBQQQQ")
        fields = list(head.unpack_from(content))
        fields[4 + (place - 16) // 8] = count
        content[: head.size] = head.pack(*fields)
        path.write_bytes(content + struct.pack("<I", zlib.crc32(content)))

    claim(2**64 - 1)
    assert "allowed: 9223372036854775807 of each" in fail(["merge", str(path)], capsys)
    claim(2**63 - 1)
    other.write_bytes(path.read_bytes())
    arguments = [
        "merge",
        "--strict",
        str(other),
        str(path),
        "--state",
        str(tmp_path / "o"),
    ]
    assert "together; allowed: 9223372036854775807" in fail(arguments, capsys)
    assert not (tmp_path / "o").exists()


def test_any_state_with_a_right_checksum_is_an_error_or_merges(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    path = tmp_path / "s"
    codes = set()
    plain = Totals(True)
    plain.add("a", SumSquare("float").update(np.ones(3, "f4")))
    for i in range(200):
        content = bytearray((some_state() if i % 2 else save_state(plain))[:-4])
        for _ in range(chance.randint(1, 3)):
            start = chance.randrange(len(content))
            if chance.randrange(3):
                content[start] = chance.choice([0, 1, 2, 127, 255])
            else:
                content[start : start + 8] = chance.choice([b"\xff" * 8, bytes(8)])
        path.write_bytes(content + struct.pack("<I", zlib.crc32(content)))
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as err:
            codes.add(
                main(["merge", str(path), "--state", str(tmp_path / "o"), "--json"])
            )
        assert err.getvalue().count("\n") <= 1
    assert codes == {0, 2}


def test_sums_of_a_shape_without_axes_are_no_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    totals = Totals(True)
    totals.exact_sums["a", "float"] = SumSquare("float", 2)
    (tmp_path / "s").write_bytes(save_state(totals))
    message = fail(["merge", str(tmp_path / "s")], capsys)
    assert "has shape (2,); allowed without axes: ()" in message


@pytest.mark.parametrize(
    "text", ["٣", "٣٤", "0", "", " 4", "+4", "-1", "4 ", "1e3", "²", "9" * 5000]
)
def test_the_environment_is_read_as_the_core_reads_it(text: str) -> None:
    with pytest.raises(ArgumentError, match="HALFULP_NUM_THREADS is "):
        check_environment({"HALFULP_NUM_THREADS": text})
    check_environment({"HALFULP_NUM_THREADS": "0" * 5000 + "3"})


# Readers on bytes that are nearly right.


def hostile(content: bytes, chance: random.Random) -> bytes:
    """Bytes with other numbers in them, or other digits, or cut off."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        if not changed:
            break
        place = chance.randrange(len(changed))
        kind = chance.randrange(4)
        if kind == 0:
            changed[place] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, ord("9"), ord("[")])
        elif kind == 1:
            number = chance.choice([0, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, 2**50])
            width = chance.choice([4, 8])
            changed[place : place + width] = (number & (1 << 8 * width) - 1).to_bytes(
                width, "little"
            )
        elif kind == 2:
            digits = str(chance.choice([0, -1, 2**31, 2**63, 10**30, 10**400])).encode()
            changed[place : place + chance.randrange(4)] = digits
        else:
            del changed[place : place + chance.randrange(1, 20)]
    return bytes(changed)


def save_samples(folder: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(folder / "x.npy", x)
    np.savez_compressed(folder / "x.npz", a=x, b=np.array(["a", "b"]))
    header = json.dumps({"a": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}})
    (folder / "x.safetensors").write_bytes(
        struct.pack("<Q", len(header)) + header.encode() + x.tobytes()
    )
    tensor = onnx.numpy_helper.from_array(x, "w")
    (folder / "x.pb").write_bytes(tensor.SerializeToString())
    graph = onnx.helper.make_graph([], "g", [], [], [tensor])
    onnx.save(onnx.helper.make_model(graph), folder / "x.onnx")
    for version in (2, 3):
        path = folder / f"{version}.zarr"
        group = zarr.open_group(path, mode="w", zarr_format=version)
        group.create_array("a", shape=(6, 4), chunks=(2, 2), dtype="f4")[:3] = x


@pytest.mark.filterwarnings("ignore")
def test_nearly_right_bytes_give_our_errors_only(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    save_samples(tmp_path)
    # Not the chunks: what unpacks them is trusted, and crashes.
    found = [p for p in sorted(tmp_path.rglob("*")) if p.is_file()]
    files = [p for p in found if not p.name[0].isdigit()]
    for i in range(400):
        path = files[i % len(files)]
        content = path.read_bytes()
        if not content:
            continue
        path.write_bytes(hostile(content, chance))
        inside = path.relative_to(tmp_path).parts[0]
        with suppress(HalfulpError):
            tensors, _ = (
                by_ending.find_tensors(tmp_path / inside, [], True)
                if (path.suffix != ".pb")
                else ([], [])
            )
            if sum(t.nbytes for t in tensors) < 2**24 or inside.endswith(".zarr"):
                summing.sum_tensors(tensors, Totals(True), lambda more: None)
                groups = along.arrays_along(
                    tensors, (0,), Totals(True), False, lambda more: None
                )
                array_facts(groups, None, None)
        with suppress(HalfulpError):
            if path.suffix in (".npy", ".npz", ".pb"):
                load_array(path)
        with suppress(HalfulpError):
            if path.suffix == ".onnx":
                load_model(path)
        path.write_bytes(content)


def test_a_state_of_nothing_but_claims_is_read_in_proportion(tmp_path: Path) -> None:
    content = struct.pack("<8sHBBQQQQ", b"halfulpT", 1, 1, 255, 1, 1, 0, 2**64 - 1)
    content += struct.pack("<Q", 2**64 - 1)
    (tmp_path / "s").write_bytes(content + struct.pack("<I", zlib.crc32(content)))
    with pytest.raises(HalfulpError, match="claims more than it has"):
        read_totals(tmp_path / "s")
