"""The command line: what it prints, and one line and exit code 2 on bad input."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest

import halfulp
from command_line import facts, fail, process
from halfulp import limits
from halfulp.cli import main
from interrupting import interrupted
from onnx_models import DATA, model

X = np.array([[4096, 1, 1], [1, 4096, 1]], np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a model m.onnx and its input x.npy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    proto = model(
        "(float[N,M] x) => (y, i) <int64[1] axes = {1}> "
        "{ y = ReduceSumSquare<keepdims=0>(x, axes) i = Cast<to=7>(x) }"
    )
    onnx.save(proto, "m.onnx")
    np.save("x.npy", X)
    return tmp_path


def test_run_shows_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "m.onnx", "--input", "x=x.npy"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = [line.split() for line in out.splitlines() if line.strip()]
    assert lines[0] == ["output", "type", "shape", "first", "values"]
    assert lines[2] == ["y", "float", "[2]", "16777218", "16777218"]
    assert lines[3] == ["i", "int64", "[2,", "3]", "4096", "1", "1", "1", "4096", "1"]
    assert lines[4][:2] == ["ran", "in"]
    assert len(lines) == 5
    assert max(map(len, out.splitlines())) <= 80


def test_run_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "m.onnx", "--input", "x=x.npy", "--engine", "reference"]
    result = facts(arguments, capsys)
    assert result.pop("seconds") > 0
    assert result == {
        "model": "m.onnx",
        "engine": "reference",
        "outputs": [
            {
                "name": "y",
                "type": "float",
                "shape": [2],
                "first_values": [16777218.0, 16777218.0],
            },
            {
                "name": "i",
                "type": "int64",
                "shape": [2, 3],
                "first_values": [4096, 1, 1, 1, 4096, 1],
            },
        ],
    }


def test_outputs_are_compared_with_those_expected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = X.astype(np.int64)
    wrong[0, 0] = 0
    np.savez("m.expected.npz", y=np.float32([16777218, 16777216]), i=wrong)
    assert main(["run", "m.onnx", "--input", "x=x.npy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == (
        "y: greatest difference 1.2e-07 of the largest magnitude in m.expected.npz"
    )
    assert lines[-1] == "i: 5 of 6 agree with m.expected.npz"
    result = facts(["run", "m.onnx", "--input", "x=x.npy"], capsys)
    assert result["expected"] == "m.expected.npz"
    y, i = (output["expected"] for output in result["outputs"])
    assert y == {"agree": 1, "of": 2, "greatest_difference": 2 / 16777218}
    assert i == {"agree": 5, "of": 6}


@pytest.mark.parametrize(
    ("value", "expected", "comparison"),
    [
        ([1, np.nan, np.inf], [1, np.nan, np.inf], (3, 0.0)),
        ([1, 2, np.inf], [1, np.nan, 5], (1, "inf")),
        ([0, 0, 0], [0, 0, 0], (3, 0.0)),
        ([0, 0, 1], [0, 0, 0], (2, "inf")),
        ([1, 2, -3], [1, 2, -4], (2, 0.25)),
    ],
)
def test_comparison_of_floats(
    value: list[float],
    expected: list[float],
    comparison: tuple[int, Any],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, dtype in (("float", np.float32), ("bfloat16", ml_dtypes.bfloat16)):
        text = f"({name}[N] x) => (y) {{ y = Identity(x) }}"
        onnx.save(model(text), "same.onnx")
        np.save("v.npy", np.array(value, dtype))
        np.savez("same.expected.npz", y=np.array(expected, dtype))
        result = facts(["run", "same.onnx", "--input", "x=v.npy"], capsys)
        agree, difference = comparison
        assert result["outputs"][0]["expected"] == {
            "agree": agree,
            "of": 3,
            "greatest_difference": difference,
        }
        assert main(["run", "same.onnx", "--input", "x=v.npy"]) == 0
        line = "greatest difference" if difference else "3 of 3 agree"
        assert f"y: {line}" in capsys.readouterr().out


def test_another_shape_than_expected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("m.expected.npz", y=np.float32([1, 2, 3]))
    assert main(["run", "m.onnx", "--input", "x=x.npy"]) == 0
    assert "y: shape [3] is expected in m.expected.npz" in capsys.readouterr().out


def test_strings_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model("(string[N] x) => (y) { y = Identity(x) }"), "s.onnx")
    np.save("s.npy", np.array(["a", "bc"]))
    np.savez("s.expected.npz", y=np.array(["a", "b"]))
    result = facts(["run", "s.onnx", "--input", "x=s.npy"], capsys)
    assert result["outputs"][0]["expected"] == {"agree": 1, "of": 2}


def test_values_and_names_of_any_kind_are_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "/model/layer.0/[bold]attention[/bold]/ReduceSumSquare_output_0"
    proto = model(
        "(double[N,M] x, float[2,3] z) => (y, m, e, s) { y = Sqrt(x) "
        'm = ai.onnx.ml.ZipMap<classlabels_strings=["cat","dog","eel"]>(z) '
        "e = ReduceSumSquare(x) s = Cast<to=8>(z) }"
    )
    proto.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 1))
    proto.graph.node[2].output[0] = proto.graph.output[2].name = long
    proto.graph.node[3].output[0] = proto.graph.output[3].name = "new\nline\x1b[31m"
    onnx.save(proto, "v.onnx")
    np.savez("in.npz", x=np.array([[-1, np.inf] + [1 / 3] * 20]), z=DATA)
    assert main(["run", "v.onnx", "--input", "in.npz"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "nan" in out
    assert "0.577350269" in out
    assert "..." in out
    assert "{'cat': 0.0, 'dog': 1.0" in out
    assert long in out
    assert r" new\nline\x1b[31m " in out
    result = facts(["run", "v.onnx", "--input", "in.npz"], capsys)["outputs"]
    assert result[0]["first_values"][:3] == ["nan", "inf", (1 / 3) ** 0.5]
    assert result[1]["type"] == "sequence"
    assert result[1]["first_values"][0] == {"cat": 0.0, "dog": 1.0, "eel": 2.0}
    assert result[2]["name"] == long
    # The engines differ: "0" or "0.0".
    assert [*map(float, result[3]["first_values"])] == [0, 1, 2, 3, 4, 5]


def test_every_kind_of_input_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("x.npz", x=X)
    np.savez("other.npz", whatever=X)
    Path("x.pb").write_bytes(onnx.numpy_helper.from_array(X).SerializeToString())
    for given in ("x=x.npy", "x.npz", "x=other.npz", "x=x.pb"):
        result = facts(["run", "m.onnx", "--input", given], capsys)
        assert result["outputs"][0]["first_values"] == [16777218.0, 16777218.0]


def test_bfloat16_input_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model("(bfloat16[N] x) => (y) { y = ReduceSumSquare(x) }"), "b.onnx")
    data = np.array([3, 4], ml_dtypes.bfloat16)
    np.save("b.npy", data)
    tensor = onnx.numpy_helper.from_array(data)
    Path("b.pb").write_bytes(tensor.SerializeToString())
    for file in ("b.npy", "b.pb"):
        result = facts(["run", "b.onnx", "--input", f"x={file}"], capsys)["outputs"][0]
        assert result["type"] == "bfloat16"
        assert result["first_values"] == [25.0]


def test_several_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "(float[N] x, int64[K] axes) => (y) { y = ReduceSumSquare(x, axes) }"
    onnx.save(model(text), "two.onnx")
    np.save("axes.npy", np.array([0]))
    np.save("v.npy", np.float32([3, 4]))
    arguments = ["run", "two.onnx", "--input", "x=v.npy", "--input", "axes=axes.npy"]
    assert facts(arguments, capsys)["outputs"][0]["first_values"] == [25.0]


def test_output_writes_an_npz(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto = model(
        "(float[N,M] x) => (file, s, b) { file = ReduceSumSquare(x) s = Cast<to=8>(file) "
        "b = Cast<to=16>(file) }"
    )
    onnx.save(proto, "o.onnx")
    arguments = ["run", "o.onnx", "--input", "x=x.npy", "--output", "out.npz"]
    for _ in range(2):
        assert main(arguments) == 0
        with np.load("out.npz", allow_pickle=False) as written:
            assert list(written) == ["file", "s", "b"]
            assert written["file"].tolist() == [[33554436]]
            assert written["file"].dtype == np.float32
            assert written["b"].view(ml_dtypes.bfloat16).tolist() == [[33554432]]
            assert written["s"].dtype.kind == "U"
    assert sorted(os.listdir()) == ["m.onnx", "o.onnx", "out.npz", "x.npy"]


@pytest.mark.parametrize("existing", [None, b"precious"])
def test_a_failed_write_leaves_what_was_there(
    existing: bytes | None,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if existing:
        Path("out.npz").write_bytes(existing)
    before = sorted(os.listdir())
    monkeypatch.setattr(os, "fsync", full)
    message = fail(["run", "m.onnx", "--input", "x=x.npy", "--output", "out.npz"], capsys)
    assert "output 'out.npz' cannot be written: No space left on device" in message
    assert sorted(os.listdir()) == before
    if existing:
        assert Path("out.npz").read_bytes() == existing


def test_outputs_that_an_npz_cannot_hold_are_refused_before_the_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = model("(float[N,M] x) => (s) { s = SplitToSequence<axis=0>(x) }")
    proto.graph.output[0].type.sequence_type.elem_type.tensor_type.elem_type = 1
    onnx.save(proto, "s.onnx")
    arguments = ["run", "s.onnx", "--input", "x=x.npy"]
    message = fail([*arguments, "--output", "out.npz"], capsys)
    assert "output 's' is a sequence; allowed with --output: tensors only" in message
    assert main(arguments) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("runn", ["No such command 'runn'"]),
        ("run", ["Missing argument 'MODEL'"]),
        ("run m.onnx --inputs x=x.npy", ["No such option", "--inputs"]),
        ("run m.onnx --input", ["--input"]),
        ("run m.onnx x.npy", ["unexpected extra argument"]),
        ("run none.onnx", ["'none.onnx' cannot be read", "No such file"]),
        ("run x.npy", ["'x.npy' cannot be read"]),
        ("run .", ["cannot be read", "directory"]),
        ("run m.onnx --input two.npz", ["input 'a' is unknown; allowed: 'x'"]),
        ("run m.onnx --input x=x.npy --seed 1", ["--seed", "inputs are made up"]),
        ("run m.onnx --seed -1", ["--seed is -1; allowed: 0 or more"]),
        ("run m.onnx --input q=x.npy", ["input 'q' is unknown; allowed: 'x'"]),
        ("run m.onnx --input x=none.npy", ["'none.npy' cannot be read", "No such"]),
        ("run m.onnx --input x.npy", ["'x.npy' holds one array without a name"]),
        ("run m.onnx --input x=x.npy --input x=x.npy", ["input 'x' is given twice"]),
        ("run m.onnx --input x=m.onnx", ["'m.onnx' is no .npy or .npz file"]),
        ("run m.onnx --input x=pickle.npy", ["'pickle.npy' cannot be read"]),
        (
            "run m.onnx --input x=huge.npy",
            ["'huge.npy' has 128 bytes; allowed by"],
        ),
        ("run m.onnx --input x=two.npz", ["'two.npz' holds 2 arrays; allowed: one"]),
        ("run m.onnx --input text.npz", ["'text.npz', member 'note.txt'", "no array"]),
        ("run m.onnx --input x=bad.pb", ["'bad.pb' cannot be read as a TensorProto"]),
        ("run m.onnx --input x=empty.pb", ["'empty.pb' has element type 0"]),
        ("run m.onnx --input x=wrong.npy", ["input 'x' has type double"]),
        ("run m.onnx --input x=x.npy --output no/y.npz", ["folder", "not exist"]),
        ("run m.onnx --input x=x.npy --output .", ["'.' exists and is no file"]),
        ("run bad.onnx --input x=x.npy", ["(ReduceSumSquare-18, opset 18)", "axis 5"]),
        ("run m.onnx --engine x", ["--engine is 'x'", "onnxruntime or reference"]),
        ("info --jsn", ["No such option", "--jsn"]),
    ],
)
def test_bad_input_gives_one_line_and_exit_code_2(
    arguments: str,
    words: list[str],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.save("pickle.npy", np.array([{}]), allow_pickle=True)
    np.save("wrong.npy", X.astype(np.float64))
    np.savez("two.npz", a=X, b=X)
    with Path("huge.npy").open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 1 << 20)}
        np.lib.format.write_array_header_1_0(file, header)
    with zipfile.ZipFile("text.npz", "w") as archive:
        archive.writestr("note.txt", "hello")
    Path("bad.pb").write_bytes(b"\xff\xff")
    Path("empty.pb").write_bytes(b"")
    bad = model("(float[N,M] x) => (y) <int64[1] a = {5}> { y = ReduceSumSquare(x, a) }")
    onnx.save(bad, "bad.onnx")
    message = fail(arguments.split(), capsys)
    for word in words:
        assert word in message


def test_a_damaged_file_of_expected_values_is_bad_input(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("m.expected.npz").write_bytes(b"PK\x03\x04 damaged")
    message = fail(["run", "m.onnx", "--input", "x=x.npy"], capsys)
    assert "'m.expected.npz' cannot be read" in message


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    for key in ("kernels chosen", "kernels available", "threads", "onnx", "numpy"):
        assert key in out
    result = facts(["info"], capsys)
    build = halfulp.build_info()
    assert result["halfulp"] == halfulp.__version__
    assert result["kernels_chosen"] == build["target"]
    assert result["kernels_available"] == build["targets"]
    assert result["prefetch_distance"] == build["prefetch_distance"]
    assert result["threads"] == build["threads"]
    assert result["onnx"] == onnx.__version__
    assert result["numpy"] == np.__version__


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"halfulp {halfulp.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "example"),
    [
        (["--help"], "halfulp run model.onnx --input x=x.npy"),
        (["run", "--help"], "halfulp run model.onnx --input x=x.npy"),
        (["check", "--help"], "Example:  halfulp check model.onnx"),
        (["convert", "--help"], "Example:  halfulp convert model.onnx"),
        (["fuse", "--help"], "Example:  halfulp fuse model.onnx"),
        (["expand", "--help"], "Example:  halfulp expand model.onnx"),
        (["docs", "--help"], "Example:  halfulp docs "),
        (["verify", "--help"], "Example:  halfulp verify "),
        (["stats", "--help"], "Example:  halfulp stats "),
        (["sum", "--help"], "Example:  halfulp sum "),
        (["merge", "--help"], "Example:  halfulp merge "),
        (["info", "--help"], ""),
    ],
)
def test_help_fits_80_columns_and_shows_an_example(
    arguments: list[str],
    example: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert example in out


def test_as_a_process(folder: Path) -> None:
    done = process("run", "m.onnx", "--input", "x=x.npy")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "16777218" in done.stdout
    done = process("run", "none.onnx")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("halfulp: error: ")
    assert done.stderr.count("\n") == 1


def test_an_encoding_without_the_lines_of_tables(folder: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = process("run", "m.onnx", "--input", "x=x.npy", env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert "16777218" in done.stdout


def test_the_version_needs_no_onnx(folder: Path) -> None:
    code = (
        "import sys; from halfulp.cli import main; main(['--version']); "
        "assert 'onnx' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    code = "import sys, halfulp; assert not {'typer', 'rich', 'onnx'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_nobody_reads_the_output(folder: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    for arguments in (["run", "m.onnx", "--input", "x=x.npy"], ["info"]):
        command = [sys.executable, "-m", "halfulp", *arguments]
        done = subprocess.run(
            command, stdout=write, stderr=subprocess.PIPE, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (1, b"")
    os.close(write)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_the_output_cannot_be_printed(folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "halfulp", "info"]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert done.returncode == 2
    assert done.stderr == b"halfulp: error: cannot print: No space left on device\n"


def test_help_tells_the_limits_that_are_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert (
        f"at most {limits.LOOKING_MEMORY >> 20} MiB of memory, and "
        f"{limits.LOOKING_MEMORY_PER_BYTE} bytes for each byte of the model; and "
        f"{limits.LOOKING_TIME} s, and {limits.LOOKING_TIME_PER_MB} s for each MB of it."
    ) in text


# Where each engine is when the loop runs, as patches that call tell().
_RUNNING = {
    "reference": (
        "from onnx.reference.ops.op_identity import Identity; run = Identity._run\n"
        "def tell(self, *args):\n"
        "    if not count: print('running', flush=True)\n"
        "    count.append(1)\n"
        "    return run(self, *args)\n"
        "Identity._run = tell\n"
    ),
    "onnxruntime": (
        "import halfulp; run = halfulp.onnxruntime.run\n"
        "def tell(*args):\n"
        "    print('running', flush=True)\n"
        "    return run(*args)\n"
        "halfulp.onnxruntime.run = tell\n"
    ),
}


@pytest.mark.parametrize("engine", _RUNNING)
def test_an_interrupt_ends_a_run_quietly(folder: Path, engine: str) -> None:
    text = """(float[N] x) => (y) { y = Loop <
        body = b (int64 i, bool c, float[N] s) => (bool d, float[N] t)
        { d = Identity(c) t = Identity(s) }>(, , x) }"""
    onnx.save(model(text), "endless.onnx")
    np.save("v.npy", np.float32([1]))
    # Tells when the loop runs, to interrupt it there.
    code = (
        f"import sys; count = []\n{_RUNNING[engine]}"
        "from halfulp.cli import main\n"
        "sys.exit(main(['run', 'endless.onnx', '--input', 'x=v.npy', "
        f"'--engine', '{engine}']))"
    )
    assert interrupted(code) == (130, "", "")


def test_either_engine_has_the_bits_of_halfulp(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {
        "reference": "reference",
        "onnxruntime": f"onnxruntime {onnxruntime.__version__}",
        None: f"onnxruntime {onnxruntime.__version__}",
    }
    for engine, name in names.items():
        arguments = ["run", "m.onnx", "--input", "x=x.npy"]
        if engine:
            arguments += ["--engine", engine]
        result = facts(arguments, capsys)
        assert result["engine"] == name
        assert result["outputs"][0]["first_values"] == [16777218.0, 16777218.0]
        assert main(arguments) == 0
        assert f"engine {name}\n" in capsys.readouterr().out


def test_what_onnxruntime_refuses_the_reference_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Its square root lacks this type.
    proto = model("(bfloat16[N] x) => (y) { s = ReduceSumSquare(x) y = Sqrt(s) }")
    onnx.save(proto, "root.onnx")
    np.save("v.npy", np.array([3, 4], ml_dtypes.bfloat16))
    arguments = ["run", "root.onnx", "--input", "x=v.npy"]
    result = facts(arguments, capsys)
    assert result["engine"] == "reference"
    assert result["outputs"][0]["first_values"] == [5.0]
    message = fail([*arguments, "--engine", "onnxruntime"], capsys)
    assert "onnxruntime refuses the model" in message


def test_what_fails_in_onnxruntime_the_reference_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The rank of the body's output is not known before the run.
    text = """(float[2,3,1] x) => (y) { y = Scan <num_scan_inputs = 1,
        body = b (e) => (o) { axes = Constant<value_ints=[0, 1]>()
                              o = ReduceSumSquare<keepdims=0>(e, axes) }> (x) }"""
    onnx.save(model(text), "scan.onnx")
    np.save("scanned.npy", np.load("x.npy")[:, :, np.newaxis])
    arguments = ["run", "scan.onnx", "--input", "x=scanned.npy"]
    result = facts(arguments, capsys)
    assert result["engine"] == "reference"
    assert result["outputs"][0]["first_values"] == [16777218.0, 16777218.0]
    message = fail([*arguments, "--engine", "onnxruntime"], capsys)
    assert "the model fails" in message


def test_without_onnxruntime_the_reference_runs(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    arguments = ["run", "m.onnx", "--input", "x=x.npy"]
    assert facts(arguments, capsys)["engine"] == "reference"
    message = fail([*arguments, "--engine", "onnxruntime"], capsys)
    assert "install halfulp with the extra 'onnxruntime'" in message


def test_an_error_of_a_run_in_onnxruntime_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = model("(float[N] x, int64[K] s) => (y) { y = Reshape(x, s) }")
    onnx.save(proto, "r.onnx")
    np.savez("r.npz", x=np.float32([1, 2, 3]), s=np.array([2, 2]))
    arguments = ["run", "r.onnx", "--input", "r.npz", "--engine", "onnxruntime"]
    assert "the model fails: " in fail(arguments, capsys)
