"""What commands write: never over what they read, and always what the ending says."""

from __future__ import annotations

import json
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import onnx
import pytest
import zarr
from onnx import numpy_helper

import halfulp
from halfulp.cli import main
from halfulp.onnx.model.files import MODEL_ENDINGS, load_model, save_model
from onnx_models import model

X = np.array([[4096, 1, 1], [1, 4096, 1]], np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with files of each kind that a command reads, and links."""
    monkeypatch.chdir(tmp_path)
    proto = model("(float[N,3] x) => (y) { y = ReduceSumSquare<keepdims=0>(x) }")
    onnx.save(proto, "m.onnx")
    proto.graph.initializer.append(numpy_helper.from_array(X, "w"))
    onnx.save(
        proto,
        "external.onnx",
        save_as_external_data=True,
        location="w.npy",
        size_threshold=0,
    )
    np.save("x.npy", X)
    np.savez("x.npz", x=X)
    np.savez("m.expected.npz", y=np.float32(0))
    Path("x.pb").write_bytes(numpy_helper.from_array(X).SerializeToString())
    Path("w.state").write_bytes(Path("w.npy").read_bytes())
    with h5py.File("x.h5", "w") as file:
        file["x"] = X
    zarr.save_group("x.zarr", x=X)
    assert main(["sum", "x.npy", "--state", "x.state"]) == 0
    assert main(["sum", "x.npy", "--state", "rows.state", "--axis", "0"]) == 0
    os.symlink("x.npy", "link.npy")
    os.link("x.npy", "hard.npy")
    os.link("x.npz", "hard.npz")
    os.symlink("m.onnx", "link.onnx")
    os.symlink("x.state", "link.state")
    os.symlink("new.npz", "dangling.npz")
    os.symlink(".", "here")
    Path("s.state").symlink_to("w.npy")
    return tmp_path


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "here" not in path.parts:
            yield str(path), path.read_bytes()


def fail(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run the command line; return its one line on stderr."""
    capsys.readouterr()
    assert main(arguments.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


@pytest.mark.parametrize(
    "arguments",
    [
        "run m.onnx --input x=x.npy --output hard.npz --input x=x.npz",
        "run m.onnx --input x.npz --output x.npz",
        "run m.onnx --input x.npz --output ./here/here/x.npz",
        "run m.onnx --input x.npz --output hard.npz",
        "run m.onnx --input x=x.npy --output m.expected.npz",
        "sum x.npy --axis 0 --output x.npy",
        "sum x.npy --axis 0 --output link.npy",
        "sum link.npy --axis 0 --output here/x.npy",
        "sum hard.npy --axis 0 --output x.npy",
        "sum m.onnx x.npz --axis 0 --output x.npz",
        "sum external.onnx --axis 0 --output w.npy",
        "sum external.onnx --state s.state",
        "sum x.zarr --state x.zarr/x/new.state",
        "sum x.zarr --axis 0 --output here/x.zarr/new.npy",
        "merge x.state --state x.state",
        "merge x.state --state link.state",
        "merge rows.state --state here/rows.state",
        "convert external.onnx --opset 13 -o link.json",
        "fuse external.onnx -o link.json",
        "expand external.onnx -o link.json",
        "bench --from run.json --json here/run.json",
        "bench accuracy --from run.json --json run.json",
        "bench onnxruntime --from run.json --json ./run.json",
    ],
)
def test_an_output_is_never_an_input(
    arguments: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.symlink("w.npy", "link.json")
    Path("run.json").write_text("{}")
    before = list(contents(folder))
    assert "allowed: a file that is not read" in fail(arguments, capsys)
    assert list(contents(folder)) == before


@pytest.mark.parametrize(
    "arguments",
    [
        "verify halfulp --html same.html --json ./same.html",
        "verify halfulp --junit a.xml --html new.htm --markdown here/a.xml",
        "verify halfulp --export new.html --html new.html",
        "sum x.npy --axis 0 --output new.npz --state new.npz",
        "sum x.npy --axis 0 --output dangling.npz --state new.npz",
        "merge rows.state --output new.npy --state here/new.npy",
        "bench --json new.json --plot new.json",
    ],
)
def test_two_outputs_are_two_files(
    arguments: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The endings of two formats differ, so that hardly ever two outputs can be one file.
    monkeypatch.setattr("halfulp.output._check_ending", lambda output: None)
    before = list(contents(folder))
    assert "are one file; allowed: one for each" in fail(arguments, capsys)
    assert list(contents(folder)) == before


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        ("run m.onnx --input x=x.npy --output m.onnx", ".npz"),
        ("sum x.npy --axis 0 --output m.onnx", ".npy, .npz"),
        ("sum x.npy --state m.onnx", ".state, none"),
        ("merge x.state --state x.npy", ".state, none"),
        ("convert m.onnx --opset 13 -o x.npy", ".onnx, .pb, .json"),
        ("convert m.onnx --opset 13 -o x", ".onnx, .pb, .json"),
        ("fuse m.onnx -o x.npy", ".onnx, .pb, .json"),
        ("expand m.onnx -o x.npy", ".onnx, .pb, .json"),
        ("docs ReduceSumSquare -o m.onnx", ".md, .markdown, .txt, none, .html"),
        ("docs ReduceSumSquare --format html -o x.md", ".html, .htm"),
        ("verify halfulp --json x.npy", ".json"),
        ("verify halfulp --html x.npy", ".html, .htm"),
        ("verify halfulp --junit x.npy", ".xml"),
        ("verify halfulp --markdown x.npy", ".md, .markdown"),
        ("bench --json x.npy", ".json"),
        ("bench accuracy --plot x.npy", ".svg"),
        ("bench onnxruntime --markdown x.npy", ".md, .markdown"),
    ],
)
def test_an_ending_of_another_format_is_refused(
    arguments: str, allowed: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = list(contents(folder))
    assert f"allowed endings: {allowed}" in fail(arguments, capsys)
    assert list(contents(folder)) == before


@pytest.mark.parametrize(
    "arguments",
    [
        "run m.onnx --input x=x.npy --output fifo.npz",
        "sum x.npy --state fifo.state",
        "convert m.onnx --opset 13 -o fifo.onnx",
        "docs ReduceSumSquare -o fifo.md",
        "verify halfulp --json folder.json",
        "bench --json fifo.json",
    ],
)
def test_an_output_that_exists_is_a_regular_file(
    arguments: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = arguments.split()[-1]
    if name.startswith("fifo"):
        os.mkfifo(name)
    else:
        os.mkdir(name)
    assert "exists and is no file" in fail(arguments, capsys)


WRITERS = [
    "convert m.onnx --opset 13 -o new.onnx",
    "docs ReduceSumSquare -o new.md",
    "run m.onnx --input x=x.npy -o new.npz",
    "sum x.npy --state new.state",
    "sum x.npy --axis 0 -o new.npy",
    "merge x.state --state new.state",
]


@pytest.mark.parametrize("arguments", WRITERS)
def test_permissions_stay_and_new_files_have_the_usual(
    arguments: str, folder: Path
) -> None:
    name = arguments.split()[-1]
    before = os.umask(0o027)
    try:
        assert main(arguments.split()) == 0
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o640
        for mode in (0o600, 0o666):
            os.chmod(name, mode)
            assert main(arguments.split()) == 0
            assert stat.S_IMODE(os.stat(name).st_mode) == mode
    finally:
        os.umask(before)


@pytest.mark.parametrize("arguments", [*WRITERS, "verify --case none --export new"])
def test_a_name_may_be_as_long_as_names_get(arguments: str, folder: Path) -> None:
    *most, name = arguments.split()
    longest = "n" * (255 - len(Path(name).suffix)) + Path(name).suffix
    assert main([*most, longest]) == (0 if "verify" not in most else 2)
    assert Path(longest).exists() or "verify" in most


@pytest.mark.parametrize("arguments", [*WRITERS, "verify halfulp --export new"])
def test_what_may_not_be_written_is_told_before_any_work(
    arguments: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    *most, name = arguments.split()
    with not_root(folder):
        Path("shut").mkdir()
        Path("shut", name).touch()
        Path("shut").chmod(0o555)
        message = fail(" ".join([*most, f"shut/new{name}"]), capsys)
        if "--export" in most:
            # The folders above one of pytest's may be shut too.
            assert "is read-only" in message or "Permission denied" in message
            return
        assert "is read-only" in message
        Path(name).touch(0o444)
        assert f"the output {name!r} exists and is read-only" in fail(arguments, capsys)
        assert not Path(name).read_bytes()
        long = "n" * 300 + Path(name).suffix
        assert "File name too long" in fail(" ".join([*most, long]), capsys)


@contextmanager
def not_root(folder: Path) -> Iterator[None]:
    """Run the block as a user for whom permissions count, in a folder of its own."""
    if os.geteuid():
        yield
        return
    nobody = 65534
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, nobody, nobody, follow_symlinks=False)
    os.seteuid(nobody)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("command", ["convert --opset 13", "fuse", "expand"])
@pytest.mark.parametrize("output", ["m.onnx", "here/m.onnx", "link.onnx"])
def test_a_model_is_rewritten_in_place(command: str, output: str, folder: Path) -> None:
    assert main([*command.split(), "m.onnx", "-o", output]) == 0
    assert onnx.load(output).graph.node


def all_values() -> onnx.ModelProto:
    """A model with what texts are apt to lose."""
    proto = model(
        "(float[N,3] x) => (y, z) { t = Mul(x, w) y = ReduceSumSquare<keepdims=0>(t) "
        "z = Identity(s) }"
    )
    special = np.array([[np.nan, np.inf, -0.0], [1e-45, 1 / 3, 3.4e38]], np.float32)
    strings = np.array(["ä\n\"'", "\\x"], object)
    proto.graph.initializer.append(numpy_helper.from_array(special, "w"))
    proto.graph.initializer.append(numpy_helper.from_array(strings, "s"))
    return proto


@pytest.mark.parametrize("ending", MODEL_ENDINGS)
def test_what_comes_out_is_what_the_ending_says(ending: str, folder: Path) -> None:
    proto = model("(float[N] x) => (float[1] y) { y = ReduceSumSquare(x) }")
    out = Path(f"out{ending.upper()}")
    for path in (Path(f"out{ending}"), out):
        save_model(path, proto)
        assert load_model(path) == proto
        assert load_model(path.read_bytes()) == proto
        assert halfulp.onnx.check_model(str(path)).errors == 0
    # onnx, which knows endings in lower case, agrees.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert onnx.load(f"out{ending}") == proto
    for command in (["convert", "--opset", "13"], ["fuse"], ["expand"]):
        path = Path(f"out{ending}")
        assert main([*command, str(path), "-o", str(path)]) == 0
        assert load_model(path).graph.node
        assert main(["check", str(path)]) == 0


@pytest.mark.parametrize("ending", MODEL_ENDINGS)
def test_every_format_holds_values_bit_for_bit(ending: str, folder: Path) -> None:
    proto = all_values()
    path = Path(f"m{ending}")
    save_model(path, proto)
    again = load_model(path)
    assert again.graph.node == proto.graph.node
    pairs = zip(again.graph.initializer, proto.graph.initializer, strict=True)
    for array, wanted in (map(numpy_helper.to_array, pair) for pair in pairs):
        assert array.dtype == wanted.dtype
        if array.dtype == object:
            assert array.tolist() == wanted.tolist()
        else:
            assert array.tobytes() == wanted.tobytes()


def test_what_onnx_text_drops_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = onnx.load("m.onnx")
    proto.graph.node[0].metadata_props.add(key="k", value="v")
    onnx.save(proto, "m.onnx")
    Path("m.onnxtxt").write_bytes(b"precious")
    message = fail("expand m.onnx -o m.onnxtxt", capsys)
    assert "cannot hold graph.node" in message or "metadata_props" in message
    assert Path("m.onnxtxt").read_bytes() == b"precious"


def test_values_of_tensors_survive_onnx_text(folder: Path) -> None:
    proto = model("(float[N,3] x) => (y) { y = Mul(x, w) }")
    proto.graph.initializer.append(numpy_helper.from_array(X, "w"))
    save_model(Path("m.onnxtxt"), proto)
    (tensor,) = load_model("m.onnxtxt").graph.initializer
    assert numpy_helper.to_array(tensor).tobytes() == X.tobytes()


def test_json_of_the_command_line_stays_json(folder: Path) -> None:
    assert main(["convert", "m.onnx", "--opset", "13", "-o", "m.json"]) == 0
    assert json.loads(Path("m.json").read_text())["opset_import"][0]["version"] == "13"
