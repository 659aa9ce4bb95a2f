"""One rule for data outside of a model, for whatever reads the model."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import halfulp
from command_line import facts
from halfulp.cli import main
from halfulp.errors import HalfulpError, ModelError
from halfulp.files.formats import by_ending
from halfulp.files.sums import summing
from halfulp.files.sums.totals import Totals
from halfulp.onnx.model.files import load_model
from halfulp.onnx.model.tensors import all_tensors

C = np.arange(512, dtype=np.float32)
X = {"x": np.zeros((1, 512), np.float32)}
WANTED = float(halfulp.sum_square(C))


def save(path: Path, location: str, **entries: int) -> None:
    """A model that needs 512 floats from another file."""
    text = """<ir_version: 8, opset_import: ["" : 18]>
        g (float[N,512] x) => (float[1,1] y) { e = Sub(x, c)  y = ReduceSumSquare(e) }"""
    model = onnx.parser.parse_model(text)
    tensor = onnx.TensorProto(name="c", data_type=1, dims=[512], data_location=1)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    model.graph.initializer.append(tensor)
    path.write_bytes(model.SerializeToString())


def run_command(model: Path) -> float:
    np.savez(model.parent / "x.npz", **X)
    arguments = ["run", str(model), "--input", str(model.parent / "x.npz"), "--json"]
    arguments += ["--output", str(model.parent / "o.npz"), "--engine", "reference"]
    if main(arguments):
        raise ModelError("told on stderr")
    with np.load(model.parent / "o.npz") as found:
        return float(found["y"][0, 0])


def sum_command(model: Path) -> float:
    tensors, _ = by_ending.find_tensors(model, [], False)
    totals = Totals(False)
    summing.sum_tensors(tensors, totals, lambda more: None)
    return float(totals.whole()["float"].result())


READERS: dict[str, Callable[[Path], float]] = {
    "run_model": lambda p: float(halfulp.onnx.run_model(p, X)["y"][0, 0]),
    "run": run_command,
    "load_model": lambda p: float(
        halfulp.sum_square(onnx.numpy_helper.to_array(load_model(p).graph.initializer[0]))
    ),
    "sum": sum_command,
}


@pytest.fixture(params=READERS)
def read(request: pytest.FixtureRequest) -> Callable[[Path], float]:
    return READERS[request.param]


def test_the_cache_of_a_download_is_read(
    read: Callable[[Path], float], tmp_path: Path
) -> None:
    """Model and data are links to files of other names, side by side elsewhere."""
    snapshot, blobs = tmp_path / "snapshots/0a1/onnx", tmp_path / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    save(blobs / "0", "model.onnx_data")
    (blobs / "1").write_bytes(C.tobytes())
    (snapshot / "model.onnx").symlink_to("../../../blobs/0")
    (snapshot / "model.onnx_data").symlink_to("../../../blobs/1")
    assert read(snapshot / "model.onnx") == WANTED
    assert main(["check", str(snapshot / "model.onnx")]) == 0


def test_a_link_to_a_model_leads_to_its_data(
    read: Callable[[Path], float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real/below").mkdir(parents=True)
    (tmp_path / "links").mkdir()
    save(tmp_path / "real/m.onnx", "below/data", offset=8, length=2048)
    (tmp_path / "real/below/data").write_bytes(bytes(8) + C.tobytes() + bytes(3))
    (tmp_path / "links/m.onnx").symlink_to("../real/m.onnx")
    monkeypatch.chdir(tmp_path / "links")
    assert read(Path("m.onnx")) == WANTED
    # What is beside the path as it was given comes first.
    (tmp_path / "links/below").mkdir()
    (tmp_path / "links/below/data").write_bytes(bytes(8 + 2048))
    assert read(Path("m.onnx")) == 0


@pytest.mark.parametrize(
    "location",
    ["../data", "below/../../data", "..", ".", "", "out", "below/out", "/dev/zero", "%",
     "folder/../data", "none", "a\0b", "chain"],
)  # fmt: skip
def test_nothing_else_is_read(
    location: str,
    read: Callable[[Path], float],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    (tmp_path / "folder2").mkdir()
    for name in ("data", "folder2/data", "folder/data"):
        (tmp_path / name).write_bytes(C.tobytes())
    (folder / "out").symlink_to("../data")
    (folder / "below/out").symlink_to(tmp_path / "folder2/data")
    (folder / "chain").symlink_to("below/out")
    save(folder / "m.onnx", location.replace("%", str(folder / "data")))
    with pytest.raises(HalfulpError) as caught:
        read(folder / "m.onnx")
    told = str(caught.value) + capsys.readouterr().err
    if location == "none":
        assert "cannot be read" in told
    else:
        assert "allowed: a file in the model's folder" in told


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"offset": 1}, "allowed: up to 2048, its end"),
        ({"offset": 2**63}, "allowed: up to 2048, its end"),
        ({"length": 2**40}, "allowed by its shape: 2048"),
        ({"length": 4}, "allowed by its shape: 2048"),
        ({"offset": -1}, "allowed: a natural number"),
    ],
)
def test_more_than_there_is_is_an_error_before_memory_is_taken(
    entries: dict[str, int], words: str, tmp_path: Path
) -> None:
    (tmp_path / "data").write_bytes(C.tobytes())
    save(tmp_path / "m.onnx", "data", **entries)
    with pytest.raises(ModelError, match=words):
        load_model(tmp_path / "m.onnx")


def test_tensors_of_all_places_and_types_are_loaded(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    dtypes: list[Any] = [ml_dtypes.int4, ml_dtypes.uint4, np.int8, bool, np.complex64]
    dtypes += [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn, "f8"]
    arrays = [rng.integers(0, 7, (3, 5)).astype(dtype) for dtype in dtypes]
    constants = [onnx.numpy_helper.from_array(a, f"t{i}") for i, a in enumerate(arrays)]
    body = onnx.helper.make_graph(
        [onnx.helper.make_node("Constant", [], [f"b{i}"], value=t)
         for i, t in enumerate(constants)],
        "b", [], [],
    )  # fmt: skip
    outer = onnx.helper.make_node("If", ["c"], [], then_branch=body, else_branch=body)
    function = onnx.helper.make_function(
        "f", "g", [], [],
        [onnx.helper.make_node("Constant", [], ["v"], value=constants[0])],
        [onnx.helper.make_opsetid("", 21)],
    )  # fmt: skip
    graph = onnx.helper.make_graph([outer], "g", [], [], constants)
    model = onnx.helper.make_model(graph, functions=[function])
    whole = model.SerializeToString()
    place = 0
    with (tmp_path / "data").open("wb") as file:
        for tensor in all_tensors(model):
            content = tensor.raw_data
            file.write(content)
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", "data"), ("offset", place)):
                tensor.external_data.add(key=key, value=str(value))
            place += len(content)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    read = load_model(tmp_path / "m.onnx")
    for tensor in all_tensors(read):
        assert tensor.data_location == onnx.TensorProto.DEFAULT
        tensor.ClearField("data_location")
    assert read.SerializeToString() == whole


def test_a_folder_that_is_a_link_is_as_good(
    read: Callable[[Path], float], tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    save(tmp_path / "real/m.onnx", "data")
    (tmp_path / "real/data").write_bytes(C.tobytes())
    os.symlink("real", tmp_path / "link")
    assert read(tmp_path / "link/m.onnx") == WANTED


def test_sum_takes_links_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "m.onnx", "data")
    (tmp_path / "data").write_bytes(C.tobytes())
    (tmp_path / "l.onnx").symlink_to("m.onnx")
    (found,) = facts(["sum", str(tmp_path / "l.onnx")], capsys)["totals"]
    assert found["sum_square"] == float(np.sum(C.astype(np.float64) ** 2))
