"""Weights in other files are neither loaded nor written where only the graph counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto

from halfulp.cli import main
from halfulp.onnx import (
    check_model,
    convert_opset,
    expand,
    fuse,
    infer_shapes,
    run_model,
)
from onnx_models import model

TEXT = """(float[N,4] x) => (float[N,1] y, float[K] o) <int64[1] ax = {1}> {
    y = ReduceSumSquare(x, ax) o = Identity(w) }"""
LARGE = 3 << 30
SECONDS, MEMORY = 10, 500 << 20

COMMANDS = {
    "check": [],
    "convert": ["--opset", "13", "-o"],
    "fuse": ["-o"],
    "expand": ["-o"],
}


def write(path: Path, size: int, text: str = TEXT, name: str = "w") -> ModelProto:
    """A model whose data is `size` bytes in another file."""
    proto = model(text)
    tensor = proto.graph.initializer.add(
        name=name, data_type=1, dims=[size // 4], data_location="EXTERNAL"
    )
    tensor.external_data.add(key="location", value="w.data")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(proto.SerializeToString())
    return proto


def weights(path: Path, count: int = 5000) -> np.ndarray:
    array = np.arange(count, dtype=np.float32)
    array.tofile(path)
    return array


# Runs a command, and prints the processor time and the memory of all that it starts. A
# new process counts the memory of the one that starts it as its own: this one is small.
MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss << 10)
sys.exit(done.returncode)
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_gigabytes_of_weights_stay_where_they_are(command: str, tmp_path: Path) -> None:
    write(tmp_path / "m.onnx", LARGE)
    with (tmp_path / "w.data").open("wb") as file:
        file.truncate(LARGE)
    arguments = [command, str(tmp_path / "m.onnx"), *COMMANDS[command]]
    if arguments[-1] == "-o":
        arguments.append(str(tmp_path / "o.onnx"))
    command_line = [sys.executable, "-c", MEASURE, sys.executable, "-m", "halfulp"]
    done = subprocess.run([*command_line, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seconds, memory = map(float, done.stdout.split()[-2:])
    assert seconds < SECONDS
    assert memory < MEMORY
    if command != "check":
        assert (tmp_path / "o.onnx").stat().st_size < 1000
        assert sorted(os.listdir(tmp_path)) == ["m.onnx", "o.onnx", "w.data"]


def test_functions_refer_to_the_same_data(tmp_path: Path) -> None:
    write(tmp_path / "m.onnx", 20000)
    weights(tmp_path / "w.data")
    path = tmp_path / "m.onnx"
    results = [
        fuse(path)[0],
        expand(path)[0],
        convert_opset(path, 13),
        infer_shapes(path),
    ]
    for result in results:
        (tensor,) = (t for t in result.graph.initializer if t.name == "w")
        assert tensor.data_location == onnx.TensorProto.EXTERNAL
        (tmp_path / "o.onnx").write_bytes(result.SerializeToString())
        out = run_model(tmp_path / "o.onnx", {"x": np.ones((1, 4), np.float32)})
        assert np.array_equal(out["o"], np.arange(5000, dtype=np.float32))
    assert check_model(path).errors == 0


def test_small_data_that_types_depend_on_is_read(tmp_path: Path) -> None:
    text = "(float[2,4] x) => (y) { y = ReduceSumSquare(x, w) }"
    proto = write(tmp_path / "m.onnx", 4, text)
    tensor = proto.graph.initializer[0]
    tensor.data_type, tensor.dims[:] = onnx.TensorProto.INT64, [1]
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.array([1]).tofile(tmp_path / "w.data")
    assert check_model(tmp_path / "m.onnx").nodes[0].axes == (1,)
    assert convert_opset(tmp_path / "m.onnx", 13).graph.node[0].attribute


NESTED = """(float[2,4] x, bool c) => (y) { y = If (c) <
    then_branch = t () => (p) { s = Abs(w) p = ReduceSumSquare(s) },
    else_branch = e () => (q) { q = ReduceSumSquare(x) }> }"""


def test_data_of_nested_graphs_and_attributes_stays_too(tmp_path: Path) -> None:
    proto = write(tmp_path / "m.onnx", 20000, NESTED)
    graph = proto.graph.node[0].attribute[0].g
    graph.initializer.append(proto.graph.initializer.pop())
    constant = graph.node.add(op_type="Constant", output=["k"])
    value = constant.attribute.add(name="value", type="TENSOR").t
    value.CopyFrom(graph.initializer[0])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    array = weights(tmp_path / "w.data")
    assert check_model(tmp_path / "m.onnx").errors == 0
    result = expand(tmp_path / "m.onnx")[0]
    assert b"w.data" in result.SerializeToString()
    (tmp_path / "o.onnx").write_bytes(result.SerializeToString())
    feeds = {"x": np.ones((2, 4), np.float32), "c": np.array(True)}
    got = run_model(tmp_path / "m.onnx", feeds)["y"].item()
    assert got == np.float32(np.sum(array.astype(np.float64) ** 2))


def run(output: Path, source: Path, *more: str) -> int:
    return main(["convert", str(source), "--opset", "13", "-o", str(output), *more])


def test_an_output_elsewhere_gets_a_copy(tmp_path: Path, capsys: Any) -> None:
    source, output = tmp_path / "a/m.onnx", tmp_path / "b/m.onnx"
    write(source, 20000)
    array = weights(tmp_path / "a/w.data")
    output.parent.mkdir()
    assert run(output, source, "--verify") == 0
    assert f"copied its data to {output.parent / 'w.data'}" in "".join(
        capsys.readouterr().out.split("\n")
    )
    assert np.array_equal(np.fromfile(output.parent / "w.data", np.float32), array)
    feeds = {"x": np.ones((1, 4), np.float32)}
    assert np.array_equal(run_model(output, feeds)["o"], array)


def test_no_file_is_overwritten_by_a_copy(tmp_path: Path, capsys: Any) -> None:
    source, output = tmp_path / "a/m.onnx", tmp_path / "b/m.onnx"
    write(source, 20000)
    weights(tmp_path / "a/w.data")
    output.parent.mkdir()
    (output.parent / "w.data").write_bytes(b"mine")
    assert run(output, source) == 2
    assert "which exists" in capsys.readouterr().err
    assert (output.parent / "w.data").read_bytes() == b"mine"
    assert not output.exists()


def test_data_behind_links_is_found_from_the_output(tmp_path: Path) -> None:
    """As in the caches of downloads: model and data are links to elsewhere."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    write(blobs / "m", 20000)
    array = weights(blobs / "d")
    snapshot.mkdir()
    (snapshot / "m.onnx").symlink_to("../blobs/m")
    (snapshot / "w.data").symlink_to("../blobs/d")
    assert run(snapshot / "o.onnx", snapshot / "m.onnx") == 0
    assert sorted(os.listdir(snapshot)) == ["m.onnx", "o.onnx", "w.data"]
    assert (snapshot / "w.data").is_symlink()
    assert run(tmp_path / "o.onnx", snapshot / "m.onnx") == 0
    feeds = {"x": np.ones((1, 4), np.float32)}
    assert np.array_equal(run_model(tmp_path / "o.onnx", feeds)["o"], array)
