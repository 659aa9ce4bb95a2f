"""Sums over files: the bits of sum_square in every format, one error for the rest."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import random
import re
import resource
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import halfulp
from command_line import facts, fail, process
from halfulp import HalfulpError, SumSquare
from halfulp.cli import main
from halfulp.files.formats import by_ending
from halfulp.files.sums import along, summing
from halfulp.files.sums.facts import root
from halfulp.files.sums.state_file import read_totals
from halfulp.files.sums.totals import Totals
from halfulp.files.tensors import boxes
from interrupting import interrupted
from oracle import BFLOAT16, TYPES, assert_same_bits, expected
from seed import SEED
from summed_files import (
    Arrays,
    onnx_model,
    save_onnx,
    save_safetensors,
    save_state,
    save_zarr,
    some_state,
    sum_files,
    sums_along,
    write_safetensors,
)


def save_onnx_fields(path: Path, arrays: Arrays) -> None:
    """With elements in the fields of their types, one by one."""
    tensors = []
    for name, x in arrays.items():
        code = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
        values = x.astype(np.float64 if x.dtype == BFLOAT16 else x.dtype).ravel()
        tensor = onnx.helper.make_tensor(name, code, x.shape, values.tolist())
        tensors.append(tensor)
    onnx.save(onnx_model(tensors), path)


def save_hdf5(path: Path, arrays: Arrays) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for i, (name, x) in enumerate(arrays.items()):
            packed: dict[str, Any] = {"chunks": True, "compression": "gzip"}
            file.create_dataset(name, data=x, **(packed if i % 2 and x.size else {}))


FORMATS: dict[str, tuple[str, Callable[[Path, Arrays], None]]] = {
    "npz": (".npz", lambda path, arrays: np.savez(path, **arrays)),
    "npz packed": (".npz", lambda path, arrays: np.savez_compressed(path, **arrays)),
    "safetensors": (".safetensors", save_safetensors),
    "onnx": (".onnx", save_onnx),
    "onnx fields": (".onnx", save_onnx_fields),
    "onnx external": (
        ".onnx",
        lambda path, arrays: save_onnx(
            path, arrays, save_as_external_data=True, location="data", size_threshold=0
        ),
    ),
    "zarr 2": (".zarr", lambda path, arrays: save_zarr(path, arrays, 2)),
    "zarr 3": (".zarr", save_zarr),
    "hdf5": (".h5", save_hdf5),
}
# What they cannot hold.
NO_BFLOAT16 = {"zarr 2", "zarr 3", "hdf5"}


def of_type(rng: np.random.Generator, dtype: Any, shape: Any) -> np.ndarray:
    """Random numbers of all magnitudes."""
    dtype = np.dtype(dtype)
    bits = rng.integers(0, 256, (*np.atleast_1d(shape), dtype.itemsize), np.uint8)
    x = bits.view(dtype)[..., 0].reshape(shape)
    if dtype.kind in "iu":
        # Of 64 bits below 2**60, so that no sum of a test is 2**127 or more.
        return x >> rng.integers(4, 8 * dtype.itemsize - 2, shape).astype(dtype)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(x.astype(np.float64)), x, np.ones((), dtype))


def state_of(x: np.ndarray) -> SumSquare:
    return SumSquare(x.dtype).update(x)


@pytest.mark.parametrize(
    ("format", "dtype"),
    [(f, d) for f in FORMATS for d in TYPES if d != BFLOAT16 or f not in NO_BFLOAT16],
    ids=str,
)
def test_every_format_and_type_gives_the_exact_sums(
    format: str,
    dtype: Any,
    tmp_path: Path,
    rng: np.random.Generator,
    small_pieces: None,
) -> None:
    ending, save = FORMATS[format]
    shapes = {"a": (7, 9, 2), "b": (64,), "c": (), "d": (3, 0)}
    arrays = {name: of_type(rng, dtype, shape) for name, shape in shapes.items()}
    path = tmp_path / f"x{ending}"
    save(path, arrays)
    totals = sum_files(path)
    assert sorted(totals.exact_sums) == [
        (n, SumSquare(dtype).type) for n in sorted(arrays)
    ]
    for (name, _), state in totals.exact_sums.items():
        assert state == state_of(arrays[name])
        assert state.exact() == halfulp.exact_sum_square(arrays[name])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("byte_order", ["<", ">"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_npy_of_every_order(
    dtype: Any,
    byte_order: str,
    order: Any,
    tmp_path: Path,
    rng: np.random.Generator,
    small_pieces: None,
) -> None:
    x = of_type(rng, dtype, (5, 6, 7))
    path = tmp_path / "x.npy"
    # NumPy saves bfloat16 in native order only.
    stored = x if dtype == BFLOAT16 else x.astype(dtype.newbyteorder(byte_order))
    np.save(path, np.asarray(stored, order=order))
    (state,) = sum_files(path).exact_sums.values()
    assert state == state_of(x)


@pytest.mark.parametrize("format", ["npy", "npz packed", "zarr 3", "hdf5"])
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_every_axis_and_blocking_has_the_bits_of_sum_square(
    data: st.DataObject, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=4)))
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    axis = tuple(a - len(shape) if data.draw(st.booleans()) else a for a in axes)
    dtype = data.draw(st.sampled_from(["float16", "float32", "float64", "int32"]))
    x = of_type(np.random.default_rng(data.draw(st.integers(0, 99))), dtype, shape)
    with monkeypatch.context() as patch:
        piece = data.draw(st.integers(8, 400))
        for module in (summing, along):
            patch.setattr(module, "PIECE", piece)
        patch.setattr(along, "_EXACT_SUMS", data.draw(st.sampled_from([1, 999, 2**20])))
        if format == "npy":
            path = tmp_path / "x.npy"
            np.save(path, np.asarray(x, order=data.draw(st.sampled_from("CF"))))
        else:
            ending, save = FORMATS[format]
            path = tmp_path / f"x{ending}"
            save(path, {"x": x})
        keep = data.draw(st.booleans())
        results, totals = sums_along([path], axis, False, keep)
    (result,) = results.values()
    assert_same_bits(result, halfulp.sum_square(x, axis, dtype=result.dtype))
    if keep:
        (state,) = totals.exact_sums.values()
        kept = tuple(n for i, n in enumerate(shape) if i not in axes)
        assert state == SumSquare(dtype, kept).update(x, tuple(axes))


def test_sums_along_axes_of_several_files_are_added_up(
    tmp_path: Path, rng: np.random.Generator, small_pieces: None
) -> None:
    x = of_type(rng, "float32", (40, 30, 3))
    y = of_type(rng, "float16", (7, 30, 3))
    for keep in (False, True):
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / "y.npy", np.asfortranarray(y))
        paths = [tmp_path / "x.npy", tmp_path / "y.npy"]
        results, totals = sums_along(paths, (0,), False, keep)
        both = np.concatenate([x.astype(np.float64), y.astype(np.float64)])
        assert_same_bits(results["float"], expected(both, 0))
    assert sorted(totals.exact_sums) == [("", "float"), ("", "float16")]


def test_mixed_types_are_exact_together_and_integers_apart(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    arrays = {d.name: of_type(rng, d, 100) for d in TYPES}
    save_safetensors(tmp_path / "x.safetensors", arrays)
    whole = sum_files(tmp_path / "x.safetensors", per_tensor=False).whole()
    for kind, wanted in (("float", "fb"), ("integer", "iu")):
        exact = sum(
            halfulp.exact_sum_square(x)
            for x in arrays.values()
            if x.dtype.kind.replace("V", "f") in wanted
        )
        assert whole[kind].exact() == exact


@settings(max_examples=300)
@given(data=st.data())
def test_boxes_cover_each_element_once(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 9), max_size=4))
    grain = [data.draw(st.integers(1, 5)) for _ in shape]
    most = data.draw(st.integers(1, 40))
    ordered = data.draw(st.booleans())
    whole = tuple(slice(0, n) for n in shape)
    places = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    seen = []
    for box in boxes(whole, most, grain, ordered=ordered):
        part = places[box]
        assert part.size <= max(most, np.prod(grain, dtype=int))
        seen += part.ravel().tolist()
    if not ordered:
        for box in boxes(whole, most, grain):
            assert all(side.start % g == 0 for side, g in zip(box, grain, strict=True))
        seen.sort()
    assert seen == list(range(places.size))


# State files.


@pytest.mark.parametrize("per_tensor", [False, True])
@pytest.mark.parametrize("axis", [None, (0,)])
def test_shards_merge_in_any_order_to_the_bytes_of_one_run(
    axis: Any, per_tensor: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    shards = []
    for i, dtype in enumerate(["float32", BFLOAT16, "float16", "int64", "float32"]):
        shards.append(tmp_path / f"{i}.safetensors")
        # Rows of a tensor that all have, and a tensor that only one has.
        x = rng.integers(-1000, 1000, (i + 1, 6)).astype(dtype)
        arrays = {"w": x, f"ü{i}": np.ones(6, "f4")}
        save_safetensors(shards[-1], arrays)

    def run(paths: list[Path], out: Path) -> None:
        arguments = ["sum", *map(str, paths), "--state", str(out)]
        arguments += ["--per-tensor"] * per_tensor
        for a in axis or ():
            arguments += ["--axis", str(a), "--tensor", "w"]
        assert main(arguments) == 0

    states = []
    for i in range(5):
        states.append(tmp_path / f"{i}.state")
        run([shards[i]], states[-1])
    run(shards, tmp_path / "all.state")
    wanted = (tmp_path / "all.state").read_bytes()
    for order in itertools.islice(itertools.permutations(states), 0, 120, 11):
        # Two of them joined first, as a tree does.
        pair, out = tmp_path / "pair.state", tmp_path / "out.state"
        assert main(["merge", *map(str, order[:2]), "--state", str(pair)]) == 0
        joined = ["merge", str(order[2]), str(pair), *map(str, order[3:])]
        assert main([*joined, "--state", str(out)]) == 0
        assert out.read_bytes() == wanted


def test_merge_prints_what_sum_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", w=np.float32([[3, 4]]), i=np.arange(4), h=np.ones((3, 2), "f2"))
    for options in ([], ["--per-tensor"], ["--axis", "0", "--tensor", "[wh]"]):
        one = facts(["sum", "x.npz", "--state", "s", *options], capsys)
        two = facts(["merge", "s"], capsys)
        assert {k: v for k, v in one.items() if k in two} == two
        assert main(["sum", "x.npz", *options]) == 0
        printed = capsys.readouterr().out
        assert main(["merge", "s"]) == 0
        merged = capsys.readouterr().out
        assert printed.startswith(merged.rstrip("\n"))


def test_a_damaged_state_is_an_error(tmp_path: Path) -> None:
    content = some_state()
    path = tmp_path / "s"
    path.write_bytes(content)
    assert save_state(read_totals(path)) == content
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(HalfulpError):
            read_totals(path)
    for place in range(len(content)):
        path.write_bytes(content[:place] + b"\x7e" + content[place + 1 :])
        if path.read_bytes() != content:
            with pytest.raises(HalfulpError):
                read_totals(path)


def test_a_forged_state_is_an_error_or_sound(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    path = tmp_path / "s"
    sound = 0
    for _ in range(1000):
        content = bytearray(some_state()[:-4])
        for _ in range(chance.randint(1, 3)):
            content[chance.randrange(len(content))] = chance.choice([0, 1, 2, 127, 255])
        path.write_bytes(content + struct.pack("<I", zlib.crc32(content)))
        with suppress(HalfulpError):
            totals = read_totals(path)
            sound += 1
            assert save_state(totals) == path.read_bytes()
    assert sound


def test_states_of_another_make_do_not_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", w=np.ones((2, 3), "f4"))
    for out, options in {
        "whole": [],
        "each": ["--per-tensor"],
        "rows": ["--axis", "0"],
        "columns": ["--axis", "1"],
    }.items():
        assert main(["sum", "x.npz", "--state", out, *options]) == 0
    capsys.readouterr()
    for one, other in itertools.combinations(("whole", "each", "rows", "columns"), 2):
        assert "allowed: all alike" in fail(["merge", "--strict", one, other], capsys)
    assert "again; allowed: each file once" in fail(["merge", "rows", "rows"], capsys)
    assert "no state of halfulp sum" in fail(["merge", "x.npz"], capsys)


# Files that are cut off, damaged, or lie.


def small_files(folder: Path) -> dict[str, Path]:
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    arrays = {"a": x, "b": x.astype(np.float16)}
    np.save(folder / "x.npy", x)
    files = {"npy": folder / "x.npy"}
    for format in ("npz", "npz packed", "safetensors", "onnx", "onnx fields"):
        ending, save = FORMATS[format]
        files[format] = folder / f"{format}{ending}"
        save(files[format], arrays)
    return files


@pytest.mark.parametrize(
    "format", ["npy", "npz", "npz packed", "safetensors", "onnx", "onnx fields"]
)
def test_a_file_cut_off_anywhere_is_an_error(format: str, tmp_path: Path) -> None:
    path = small_files(tmp_path)[format]
    content = path.read_bytes()
    whole = save_state(sum_files(path))
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with suppress(HalfulpError):
            found = save_state(sum_files(path))
            # Behind the graph of a model there may be nothing.
            assert format.startswith("onnx")
            assert found == whole
    # Neither do these formats have more than they say.
    if not format.startswith("onnx"):
        path.write_bytes(content + b"\0")
        if format in ("npy", "safetensors"):
            with pytest.raises(HalfulpError):
                sum_files(path)


@pytest.mark.parametrize(
    "format", ["npy", "npz", "npz packed", "safetensors", "onnx", "onnx fields"]
)
def test_a_damaged_file_is_an_error_or_another_sum(format: str, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    path = small_files(tmp_path)[format]
    content = path.read_bytes()
    errors = 0
    for _ in range(600):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(damaged))
            damaged[place] = chance.choice([0, 0xFF, chance.randrange(256)])
        path.write_bytes(damaged)
        errors += 1
        with suppress(HalfulpError):
            sum_files(path)
            errors -= 1
    assert errors > 50


def test_a_damaged_member_of_an_npz_is_found(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    for save in (np.savez, np.savez_compressed):
        save(path, x=np.arange(1000, dtype=np.float32))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(HalfulpError, match="cannot be read"):
            sum_files(path)


def npy(header: str, content: bytes = b"", version: int = 1) -> bytes:
    text = header.encode() + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + content


def header(shape: str, descr: str = "'<f4'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npy(header("(-1,)")), "shape (-1,)"),
        (npy(header("(2**9,)")), "cannot be read"),
        (npy(header("(1152921504606846976,)")), "has 84 bytes; allowed by its header"),
        (npy(header(f"({2**63},)")), "allowed: that of an array"),
        (npy(header(f"({2**40},{2**40})")), "below 2**63 bytes"),
        (npy(header(f"(0,{2**40},{2**40})")), "below 2**63 bytes"),
        (npy(header("(" + "1," * 65 + ")")), "of rank 64 at most"),
        (npy(header("(" * 3000 + ")" * 3000)), "cannot be read"),
        (npy(header("(2.0,)"), bytes(8)), "cannot be read"),
        (
            npy(header("(2,)", "'|O'"), pickle.dumps([1])),
            "type object; allowed: real",
        ),
        (npy(header("(2,)", "'<f2,<f2'"), bytes(8)), "has type |V4"),
        (npy(header("(2,)", "[('a', '<f4')]"), bytes(8)), "has type |V4"),
        (npy(header("(2,)", "'<c8'"), bytes(16)), "has type complex64"),
        (npy(header("(2,)", "'<V2'"), bytes(4)), "with --bfloat16, |V2 is bfloat16"),
        (npy("__import__('os').abort()"), "cannot be read"),
        (npy("{}"), "cannot be read"),
        (npy(header("(2,)"), bytes(7)), "has 73 bytes"),
        (npy(header("(2,)"), bytes(9)), "has 75 bytes"),
        (npy(" " * 70000, version=2), "has type a header of 70001 bytes"),
        (b"\x93NUMPY\2\0\xff\xff\xff\xff", "header of 4294967295 bytes"),
        (b"\x93NUMPY\4\0", "version (4, 0)"),
        (b"PK\3\4", "is no .npy file"),
        (b"", "is no .npy file"),
    ],
)
def test_a_lying_npy_is_one_clear_error(
    content: bytes,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    assert words in fail(["sum", str(path)], capsys)


def entry(begin: int, end: int, shape: Any = (2,), dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b'{"a": 1}', "allowed: dtype, shape and data_offsets"),
        (b"[]", "no object of JSON"),
        (b'{"a": ' + b"[" * 100000, "cannot be read"),
        (b'{"a": {}, "a": {}}', "a name is there twice"),
        (b'{"a": {"dtype": "F32", "dtype": "F64"}}', "a name is there twice"),
        (b"\xff\xfe", "cannot be read"),
        ({"a": entry(0, 8, (-2,))}, "natural numbers"),
        ({"a": entry(0, 8, (2.0,))}, "natural numbers"),
        ({"a": entry(0, 8, (True, 2))}, "natural numbers"),
        ({"a": entry(-8, 0)}, "natural numbers"),
        ({"a": entry(4, 12)}, "allowed: from 0 on"),
        ({"a": entry(0, 8), "b": entry(4, 12)}, "allowed: from 8 on"),
        ({"a": entry(0, 8), "b": entry(12, 20)}, "allowed: from 8 on"),
        ({"a": entry(8, 0)}, "allowed: from 0 on"),
        ({"a": entry(0, 8, (2**40, 2**40))}, "below 2**63 bytes"),
        ({"a": entry(0, 8, (3,))}, "has 8 bytes; allowed by its shape: 12"),
        ({"a": entry(0, 2**60, (2**58,))}, "allowed by its header"),
        ({"a": entry(0, 4, (1,))}, "allowed by its header"),
        ({"a": entry(0, 8, [1] * 65 + [2])}, "of rank 64 at most"),
    ],
)
def test_a_lying_safetensors_is_one_clear_error(
    head: Any, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.safetensors"
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    write_safetensors(path, text, bytes(8))
    assert words in fail(["sum", str(path)], capsys)


def test_a_safetensors_header_is_no_longer_than_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.safetensors"
    for length in (0, 1, 100, 2**63, 2**64 - 1):
        path.write_bytes(struct.pack("<Q", length) + b"{}")
        assert f"a header of {length} bytes" in fail(["sum", str(path)], capsys)


def write_zip(path: Path, members: dict[str, bytes], method: int = 0) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def patched(content: bytes, field: int, value: bytes) -> bytes:
    """A zip file with other bytes in the directory's entry of its first member."""
    start = content.index(b"PK\1\2") + field
    return content[:start] + value + content[start + len(value) :]


def test_a_lying_npz_is_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.npz"
    array = npy(header("(2,)"), bytes(8))

    def check(words: str, content: bytes | None = None) -> None:
        if content is not None:
            path.write_bytes(content)
        assert words in fail(["sum", str(path)], capsys)

    write_zip(path, {"a.npy": array})
    sound = path.read_bytes()
    assert main(["sum", str(path)]) == 0
    capsys.readouterr()
    size = struct.pack("<I", 2**31)
    check("allowed: what the file can hold", patched(sound, 20, size))
    check("allowed: what the file can hold", patched(sound, 24, size))
    check("begins within another or nowhere", patched(sound, 42, b"\1"))
    check("is packed by 12", patched(sound, 10, b"\x0c"))
    check("is encrypted", patched(sound, 8, b"\1"))
    check("cannot be read", sound[:-1])
    write_zip(path, {"data.pkl": pickle.dumps(1), "a.npy": array})
    found = facts(["sum", str(path)], capsys)
    assert (found["tensors"], found["skipped_types"]) == (1, ["no .npy"])
    write_zip(path, {"a.npy": npy(header(f"({2**58},)"))}, zipfile.ZIP_DEFLATED)
    check("bytes; allowed by its header")
    write_zip(path, {"a.npy": array}, zipfile.ZIP_BZIP2)
    check("is packed by 12")
    write_zip(path, {"a.npy": array, "b.npy": array})
    check("is there twice", path.read_bytes().replace(b"b.npy", b"a.npy"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", array)
        archive.writestr("b.npy", array)
        # Both are the first: how a small file is made to unpack to a huge one.
        archive.infolist()[1].header_offset = 0
    check("begins within another")


def test_types_that_are_not_summed_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.float32([3, 4])
    save_safetensors(
        tmp_path / "x.safetensors",
        {"a": x, "q": np.ones(3, np.complex64), "ä\n": np.ones(0, np.complex64)},
    )
    np.savez(tmp_path / "y.npz", a=x, z=np.ones(3, complex), text=np.array("hello"))
    save_onnx(tmp_path / "z.onnx", {"a": x, "z": np.ones(3, np.complex64)})
    files = [str(tmp_path / name) for name in ("x.safetensors", "y.npz", "z.onnx")]
    result = facts(["sum", *files], capsys)
    assert (result["tensors"], result["skipped"]) == (3, 5)
    assert result["skipped_types"] == ["<U5", "C64", "complex128", "complex64"]
    assert result["totals"][0]["sum_square"] == 75.0
    assert main(["sum", *files]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line == "not summed: 5 tensors of type <U5, C64, complex128, complex64"


def test_external_data_stays_in_the_folder_of_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "outside").write_bytes(bytes(64))
    (folder / "inside").write_bytes(np.float32([3, 4]).tobytes())
    (folder / "link").symlink_to("../outside")
    os.mkfifo(folder / "pipe")
    model = folder / "m.onnx"

    def save(**entries: Any) -> None:
        tensor = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=1)
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=str(value))
        model.write_bytes(onnx_model([tensor]).SerializeToString())

    save(location="inside")
    assert facts(["sum", str(model)], capsys)["totals"][0]["sum_square"] == 25.0
    save(location="inside", offset=4, length=4)
    assert "has 4 bytes; allowed by its shape: 8" in fail(["sum", str(model)], capsys)
    for location in ("../outside", "link", str(tmp_path / "outside"), "", "/dev/zero"):
        save(location=location)
        message = fail(["sum", str(model)], capsys)
        assert "allowed: a file in the model's folder" in message
    save(location="pipe")
    assert "no regular file" in fail(["sum", str(model)], capsys)
    save(location="none")
    assert "No such file" in fail(["sum", str(model)], capsys)
    save(location="inside", length=100)
    assert "has 100 bytes; allowed by its shape: 8" in fail(["sum", str(model)], capsys)
    for entries in ({"offset": 4}, {"offset": 2**62}):
        save(location="inside", **entries)
        assert "allowed: up to 8, its end" in fail(["sum", str(model)], capsys)
    for text in ("-1", "1e3", "9" * 30, "", "\uff11"):
        save(location="inside", offset=text)
        assert "allowed: a natural number" in fail(["sum", str(model)], capsys)


def test_initializers_of_nested_graphs_are_summed(tmp_path: Path) -> None:
    def graph(name: str, value: float, *nodes: onnx.NodeProto) -> onnx.GraphProto:
        tensor = onnx.numpy_helper.from_array(np.float32([value]), "w")
        return onnx.helper.make_graph(nodes, name, [], [], [tensor])

    inner = onnx.helper.make_node(
        "If",
        ["c"],
        ["o"],
        then_branch=graph("t", 2),
        else_branch=graph("e", 3),
    )
    outer = onnx.helper.make_node(
        "Loop", ["c"], ["p"], name="L", body=graph("b", 5, inner)
    )
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph("g", 7, outer)), path)
    found = {name: s.exact() for (name, _), s in sum_files(path).exact_sums.items()}
    assert found == {
        "w": 49,
        "L.body.w": 25,
        "L.body.o.then_branch.w": 4,
        "L.body.o.else_branch.w": 9,
    }


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        ({"dims": [-1], "data_type": 1}, "shape (-1,)"),
        ({"dims": [2**40, 2**40], "data_type": 1}, "below 2**63 bytes"),
        ({"dims": [3], "data_type": 1, "raw_data": bytes(8)}, "allowed by its shape: 12"),
        ({"dims": [3], "data_type": 1, "float_data": [1, 2]}, "allowed by its shape: 12"),
        ({"dims": [2], "data_type": 1, "double_data": [1, 2]}, "field of another type"),
        ({"dims": [2**50], "data_type": 7, "int64_data": [1]}, "fewer elements"),
        ({"dims": [3], "data_type": 7, "int64_data": [1, 2]}, "cannot be read"),
        ({"dims": [3], "data_type": 1}, "has 0 bytes"),
        ({"dims": [1], "data_type": 1, "segment": {"begin": 1}}, "in segments"),
        ({"dims": [1] * 65, "data_type": 1}, "of rank 64 at most"),
    ],
)
def test_a_lying_initializer_is_one_clear_error(
    tensor: Any, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    model = onnx_model([onnx.TensorProto(name="w", **tensor)])
    path.write_bytes(model.SerializeToString())
    assert words in fail(["sum", str(path)], capsys)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x3a\xff\xff\xff\xff\x0f",
        b"\x3a\x00\x3a\x00",
        b"\x3b",
        b"\xff" * 20,
        b"\x3a\x80",
        b"not a model at all",
    ],
)
def test_no_model_is_one_clear_error(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    fail(["sum", str(path)], capsys)


def test_nothing_of_another_file_is_read_from_hdf5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    h5py = pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    with h5py.File("other.h5", "w") as file:
        file["x"] = np.ones(4)
    with h5py.File("link.h5", "w") as file:
        file["x"] = h5py.ExternalLink("other.h5", "/x")
        file["soft"] = h5py.SoftLink("/nowhere")
    assert facts(["sum", "link.h5"], capsys)["tensors"] == 0
    Path("raw").write_bytes(bytes(32))
    with h5py.File("external.h5", "w") as file:
        file.create_dataset("x", (4,), "f8", external=[("raw", 0, 32)])
    with h5py.File("virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((4,), "f8")
        layout[:] = h5py.VirtualSource("other.h5", "x", (4,))
        file.create_virtual_dataset("x", layout)
    for name in ("external.h5", "virtual.h5"):
        assert "'x' has type double with its data in other files" in fail(
            ["sum", name], capsys
        )
    Path("bad.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    assert "'bad.h5' cannot be read" in fail(["sum", "bad.h5"], capsys)


def test_a_zarr_codec_that_could_run_code_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("zarr")
    folder = tmp_path / "x.zarr"
    folder.mkdir()
    metadata = {
        "zarr_format": 2,
        "shape": [2],
        "chunks": [2],
        "dtype": "<f4",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": [{"id": "pickle", "protocol": 5}],
    }

    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "evil"),)

    (folder / "0").write_bytes(pickle.dumps(Evil()))
    (folder / ".zarray").write_text(json.dumps(metadata))
    assert "float with codec 'pickle'" in fail(["sum", str(folder)], capsys)
    other = {"filters": [{"id": "quantize", "digits": 3, "dtype": "<f4"}]}
    (folder / ".zarray").write_text(json.dumps(metadata | other))
    assert "float with codec 'quantize'" in fail(["sum", str(folder)], capsys)
    assert not (tmp_path / "evil").exists()
    for change in ({"chunks": [2**40]}, {"shape": [-1]}, {"dtype": 3}, {"dtype": None}):
        change |= {"filters": None}
        (folder / ".zarray").write_text(json.dumps(metadata | change))
        fail(["sum", str(folder)], capsys)
    (folder / ".zarray").write_text("{")
    fail(["sum", str(folder)], capsys)
    (folder / "1").symlink_to("/dev/zero")
    assert "'1' is no regular file" in fail(["sum", str(folder)], capsys).replace(
        f"{folder}/", ""
    )


def test_a_missing_package_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, extra, ending in (("zarr", "zarr", "zarr"), ("h5py", "hdf5", "h5")):
        monkeypatch.setitem(sys.modules, package, None)
        if ending == "zarr":
            (tmp_path / f"x.{ending}").mkdir()
        message = fail(["sum", str(tmp_path / f"x.{ending}")], capsys)
        assert f"install halfulp with the extra '{extra}'" in message


# The command line.


def test_what_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = "model.layers.10.self_attn.[bold]rotary[/bold].\x1b[31mweight"
    arrays = {
        long: np.float16([300, 300]),
        "ids": np.array([2**62, 1]),
        "w": np.full(3, np.nan, np.float32),
    }
    save_safetensors(Path("m.safetensors"), arrays)
    assert main(["sum", "x.npy"]) == 0
    lines = [
        line.split() for line in capsys.readouterr().out.splitlines() if line.strip()
    ]
    assert lines[0] == ["all", "of", "type", "elements", "sum", "of", "squares", "norm"]
    assert lines[2] == ["float", "4", "169.0", "13.0"]
    assert lines[3][:6] == ["1", "tensor", "in", "1", "file,", "16"]
    assert main(["sum", "x.npy", "m.safetensors", "--per-tensor"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "180000" in out
    assert "nan" in out
    assert "21267647932558653" in out
    assert main(["sum", "x.npy", "--axis", "1"]) == 0
    lines = [
        line.split() for line in capsys.readouterr().out.splitlines() if line.strip()
    ]
    assert lines[2] == ["float", "double", "[2]", "25", "144"]


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("y.npz", i=np.int32([3, -4]), h=np.float16([0.1, np.inf]))
    result = facts(["sum", "x.npy", "y.npz", "--per-tensor"], capsys)
    assert result.pop("seconds") > 0
    third = {"elements": 4, "dtype": "double", "sum_square": 169.0}
    third |= {"hex": "0x1.5200000000000p+7", "norm": 13.0}
    infinite = {"dtype": "double", "sum_square": "inf", "hex": "inf", "norm": "inf"}
    integers = {"elements": 2, "dtype": "exact", "sum_square": 25, "norm": 5.0}
    assert result == {
        "files": 2,
        "tensors": 3,
        "skipped": 0,
        "axis": None,
        "totals": [
            {"kind": "float", "types": ["float16", "float"], "elements": 6} | infinite,
            {"kind": "integer", "types": ["int32"]} | integers,
        ],
        "per_tensor": [
            {"name": "h", "type": "float16", "elements": 2} | infinite,
            {"name": "i", "type": "int32"} | integers,
            {"name": "x.npy", "type": "float"} | third,
        ],
        "bytes": 28,
        "skipped_types": [],
        "nulls": 0,
        "reduction": "sum_square",
        "failed": [],
    }
    result = facts(["sum", "x.npy", "y.npz", "--tensor", "[ix]*", "--axis", "-1"], capsys)
    assert [each["name"] for each in result["results"]] == ["float", "integer"]
    assert result["results"][0] == {
        "name": "float",
        "types": ["float"],
        "shape": [2],
        "elements": 2,
        "dtype": "double",
        "first_values": [25.0, 144.0],
    }


def test_the_type_of_sums(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("t.npz", h=np.float16([300, 0.1]), i=np.int32([70000]))
    exact = halfulp.exact_sum_square(np.float16([300, 0.1]))
    for name, float_sum in (
        (None, float(exact)),
        ("float16", "inf"),
        ("float", float(np.float32(exact))),
        ("float32", float(np.float32(exact))),
        ("int64", float(exact)),
    ):
        arguments = ["sum", "t.npz"] + (["--dtype", name] if name else [])
        floats, integers = facts(arguments, capsys)["totals"]
        assert (floats["sum_square"], integers["sum_square"]) == (float_sum, 4900000000)
    message = fail(["sum", "t.npz", "--dtype", "int32"], capsys)
    assert "all of integer type" in message
    assert "int32 cannot hold it" in message
    message = fail(["sum", "t.npz", "--dtype", "int32", "--axis", "0"], capsys)
    assert "cannot hold it" in message
    assert "--dtype is 'half'" in fail(["sum", "t.npz", "--dtype", "half"], capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("sum", "Missing argument"),
        ("sum none.npy", "'none.npy' cannot be read: No such file"),
        ("sum x.npy ./x.npy", "'x.npy' again; allowed: each file once"),
        ("sum x.npy link.npy", "'x.npy' again; allowed: each file once"),
        ("sum pipe.npy", "'pipe.npy' is no regular file"),
        ("sum folder.npy", "the folder 'folder.npy' has no files to take; allowed: .npy"),
        ("sum zero.npy", "'zero.npy' is no regular file"),
        ("sum loop.npy", "cannot be read"),
        ("sum x.txt", "ending '.txt'; allowed: .npy, .npz, .safetensors, .onnx"),
        ("sum x.npy --axis 2", "tensor 'x.npy': axis 2"),
        ("sum x.npy --axis 0 --axis -2", "tensor 'x.npy': "),
        ("sum x.npy --axis a", "--axis"),
        ("sum x.npy y.npy --axis 0", "allowed: (2,), as those of tensor 'x.npy'"),
        ("sum x.npy --output o.npy", "allowed with --axis only"),
        ("sum x.npy --axis 0 --output o.txt", "allowed endings: .npy, .npz"),
        ("sum x.npy --axis 0 --output no/o.npy", "folder"),
        ("sum x.npy y.npy --axis 0 --per-tensor --output o.npy", "allowed: an .npz file"),
        ("sum x.npy --state no/s", "folder"),
        ("sum x.npy --tensor w", "no tensor that can be summed is named"),
        ("merge", "Missing argument"),
        ("merge none", "'none' cannot be read: No such file"),
        ("merge x.npy", "no state of halfulp sum"),
        (
            "merge folder.npy",
            "the folder 'folder.npy' has no files to take",
        ),
        ("merge pipe.npy", "no regular file"),
    ],
)
def test_bad_input_gives_one_line(
    arguments: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo("pipe.npy")
    Path("link.npy").symlink_to("x.npy")
    Path("loop.npy").symlink_to("loop.npy")
    Path("zero.npy").symlink_to("/dev/zero")
    Path("folder.npy").mkdir()
    np.save("y.npy", np.ones((2, 3)))
    Path("x.txt").write_text("")
    before = sorted(os.listdir())
    assert words in fail(arguments.split(), capsys)
    assert sorted(os.listdir()) == before


def test_names_of_any_kind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.float32([3, 4])
    save_safetensors(Path("m.safetensors"), {"\ud800": x, "../up": x, "": x})
    found = facts(["sum", "m.safetensors", "--per-tensor", "--state", "s"], capsys)
    assert [each["name"] for each in found["per_tensor"]] == ["", "../up", "\ud800"]
    assert facts(["merge", "s"], capsys)["per_tensor"] == found["per_tensor"]
    assert main(["merge", "s"]) == 0
    assert r" \ud800 " in capsys.readouterr().out
    along = ["sum", "m.safetensors", "--per-tensor", "--axis", "0", "--output", "o.npz"]
    assert "cannot be in an .npz file" in fail(along, capsys)
    save_safetensors(Path("n.safetensors"), {"../up": x.astype(np.float16)})
    two = [*along, "n.safetensors", "--tensor", "../up"]
    assert "there are two arrays '../up'" in fail(two, capsys)
    assert not Path("o.npz").exists()


def test_integers_beyond_the_states_leave_the_rest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("h.npz", hashes=np.full(3, 2**64 - 1, np.uint64), w=np.float32([3, 4]))
    floats, integers = facts(["sum", "h.npz"], capsys)["totals"]
    assert floats["sum_square"] == 25.0
    assert (integers["sum_square"], integers["norm"]) == (None, None)
    assert main(["sum", "h.npz", "--per-tensor"]) == 0
    assert "beyond 2**127" in capsys.readouterr().out
    message = fail(["sum", "h.npz", "--dtype", "uint64", "--state", "s"], capsys)
    assert "all of integer type" in message
    # What took long is not lost.
    assert facts(["merge", "s"], capsys)["totals"][0] == floats


def test_npy_output_of_either_order(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for order in ("C", "F"):
        np.save("a.npy", np.asarray(x, order=order))
        assert main(["sum", "a.npy", "--axis", "1", "--output", "o.npy"]) == 0
        assert_same_bits(np.load("o.npy"), expected(x, 1))


def test_the_norm_is_correctly_rounded(rng: np.random.Generator) -> None:
    pairs = rng.integers(0, [2**40, 2000], (300, 2))
    values = [Fraction(int(n), 2 ** int(k)) for n, k in pairs]
    values += [Fraction(1, 2**2148), Fraction(2**2000), Fraction(0), Fraction(3, 2**2148)]
    for value in values:
        got = Fraction(root(value))
        below, above = (
            Fraction(float(np.nextafter(float(got), to))) for to in (-1.0, np.inf)
        )
        assert value >= ((got + below) / 2) ** 2 or got == 0
        assert value <= ((got + above) / 2) ** 2
    assert root(2**4200) == np.inf
    assert root(float("inf")) == np.inf
    assert np.isnan(root(float("nan")))


def sparse_npy(path: Path, nbytes: int) -> None:
    """An .npy file of zeros that takes no disk."""
    with path.open("wb") as file:
        facts = {"descr": "<f4", "fortran_order": False, "shape": (nbytes // 4096, 1024)}
        np.lib.format.write_array_header_1_0(file, facts)
        file.truncate(file.tell() + nbytes)


_PEAK = """
import resource, sys
from halfulp.cli import main
import halfulp.files.formats.by_ending, halfulp.files.sums.along, rich.progress, zipfile
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert main(sys.argv[1:]) == 0
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.parametrize(
    "arguments", [[], ["--axis", "0"], ["--axis", "1"], ["packed"], ["stats"]]
)
def test_memory_is_bounded(arguments: list[str], folder: Path) -> None:
    # HALFULP_LARGE_FILES=8192 sums 8 GiB.
    mebibytes = int(os.environ.get("HALFULP_LARGE_FILES") or 300)
    sparse_npy(Path("big.npy"), mebibytes << 20)
    name = "big.npy"
    if arguments == ["packed"]:
        arguments, name = [], "big.npz"
        with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.write("big.npy", "big.npy")
    if arguments == ["stats"]:
        command = ["stats", name]
    else:
        output = ["--output", "o.npy"] if arguments else []
        command = ["sum", name, *arguments, *output]
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, *command],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout.splitlines()[-1]) < 64


def test_an_interrupt_leaves_nothing_half_written(folder: Path) -> None:
    sparse_npy(Path("big.npy"), 2**36)
    before = sorted(os.listdir())
    code = (
        "import itertools, sys, halfulp.files.sums.summing as summing\n"
        "read = summing._SharedBoxes.__next__\n"
        "def tell(self):\n"
        "    if next(calls) == 0: print('running', flush=True)\n"
        "    return read(self)\n"
        "calls = itertools.count(); summing._SharedBoxes.__next__ = tell\n"
        "from halfulp.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    for options in (["--state", "s"], ["--axis", "0", "--output", "o.npy"]):
        assert interrupted(code, "sum", "big.npy", *options) == (130, "", "")
        assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("option", "out"), [("--state", "out.state"), ("--output", "out.npy")]
)
def test_a_full_disk_leaves_what_was_there(option: str, out: str, folder: Path) -> None:
    Path(out).write_bytes(b"precious")
    np.save("wide.npy", np.ones((2, 100000), np.float32))
    before = sorted(os.listdir())
    done = process(
        *["sum", "wide.npy", "--axis", "0", option, out],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000)),
    )
    assert done.returncode == 2
    assert f"'{out}' cannot be written: File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(os.listdir()) == before
    assert Path(out).read_bytes() == b"precious"


def test_a_file_that_shrinks_is_an_error(
    folder: Path, small_pieces: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save("y.npy", np.ones(10000))
    tensors, _ = by_ending.find_tensors(Path("y.npy"), [], False)
    os.truncate("y.npy", 40000)
    with pytest.raises(HalfulpError, match=r"'y.npy' ends early"):
        summing.sum_tensors(tensors, Totals(False), lambda more: None)


def test_progress_is_shown_on_a_terminal_only(folder: Path) -> None:
    sparse_npy(Path("big.npy"), 2**28)
    done = process("sum", "big.npy", "--json")
    assert done.stderr == ""
    controller, terminal = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "halfulp", "sum", "big.npy", "--json"],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80"},
    ) as child:
        os.close(terminal)
        shown = b""
        try:
            while part := os.read(controller, 4096):
                shown += part
        except OSError:  # nobody writes any more
            pass
        out, _ = child.communicate(timeout=60)
    os.close(controller)
    assert json.loads(out)["bytes"] == 2**28
    assert b"/268.4 MB" in shown
    # So fast that the time left may not be known before it is over.
    assert re.search(rb"-:--:--|0:00:0\d", shown)


# What the states give to it.


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_states_of_a_wider_type_hold_the_same_sums(
    dtype: Any, rng: np.random.Generator
) -> None:
    x = of_type(rng, dtype, (3, 50))
    if dtype.kind not in "iu":
        x[1, 3], x[2, 3], x[2, 4] = np.inf, np.inf, np.nan
    state = SumSquare(dtype, 3).update(x, 1)
    widest = "uint64" if dtype.kind in "iu" else "double"
    wide = state.astype(widest)
    assert (wide.type, wide.shape, wide.count) == (widest, (3,), 50)
    for got, want in zip(wide.exact(), state.exact(), strict=True):
        assert got == want or (got != got and want != want)
    assert SumSquare.from_bytes(wide.to_bytes()) == wide
    assert state.astype(state.type) == state
    narrow = "int32" if dtype.kind in "iu" else "float16"
    if state.type != narrow:
        with pytest.raises(halfulp.UnsupportedTypeError, match="allowed: "):
            state.astype(narrow)
    other = "double" if dtype.kind in "iu" else "uint64"
    with pytest.raises(halfulp.UnsupportedTypeError, match="allowed: "):
        state.astype(other)


def test_widening_agrees_with_elements_of_the_wider_type(
    rng: np.random.Generator,
) -> None:
    for narrow, wide in (
        ("float16", "float32"),
        (BFLOAT16, "float32"),
        ("float32", "float64"),
        ("int32", "int64"),
        ("uint32", "uint64"),
        ("float16", BFLOAT16),
    ):
        x = of_type(rng, narrow, 100)
        if wide == BFLOAT16:
            x = x.astype(BFLOAT16).astype(narrow)
            x = np.where(np.isfinite(x), x, 1)
        y = x.astype(wide)
        assert (y.astype(narrow) == x).all()
        assert state_of(x).astype(wide) == state_of(y)


def test_concatenated_states(rng: np.random.Generator) -> None:
    x = of_type(rng, "float64", (5, 4, 3))
    whole = SumSquare("double", (4, 3)).update(x, 0)
    c = [SumSquare("double", 3).update(x[:, i], 0) for i in range(4)]
    assert SumSquare.concatenate(c, (4, 3)) == whole
    f = [SumSquare("double", 4).update(x[:, :, i], 0) for i in range(3)]
    assert SumSquare.concatenate(f, (4, 3), "F") == whole
    for parts, shape in (([], 0), (c, (4, 4)), ([*c, SumSquare("double")], 13)):
        with pytest.raises(halfulp.ArgumentError, match="allowed: "):
            SumSquare.concatenate(parts, shape)
