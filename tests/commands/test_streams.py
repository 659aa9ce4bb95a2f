"""The habits of a command line: -h, -o, "-" for stdin and stdout, and broken streams."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from halfulp.cli import app, main
from halfulp.onnx.model.files import MODEL_ENDINGS, save_model
from onnx_models import model
from terminals import in_terminal

X = np.array([[4096, 1, 1], [1, 4096, 1]], np.float32)
COMMAND = [sys.executable, "-m", "halfulp"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a model m.onnx of one output, and its input x.npy."""
    monkeypatch.chdir(tmp_path)
    proto = model("(float[N,M] x) => (y) { y = ReduceSumSquare<keepdims=0>(x) }")
    onnx.save(proto, "m.onnx")
    two = model("(float[N,M] x) => (y, z) { y = ReduceSumSquare(x) z = Neg(x) }")
    onnx.save(two, "two.onnx")
    np.save("x.npy", X)
    return tmp_path


def piped(content: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line with a pipe as stdin, stdout and stderr."""
    return subprocess.run(
        [*COMMAND, *arguments],
        input=content,
        capture_output=True,
        check=False,
        timeout=60,
    )


def shell(script: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run `halfulp`, as $halfulp, in a shell."""
    names = {"halfulp": f"{sys.executable} -m halfulp"}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        capture_output=True,
        check=False,
        timeout=60,
        env=os.environ | names | environment,
    )


# --- help


@pytest.mark.parametrize(
    "command",
    ["", *(c.name or c.callback.__name__ for c in app.registered_commands if c.callback)],
)
def test_h_is_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "-h"]) == 0
    short = capsys.readouterr().out
    assert main([*command.split(), "--help"]) == 0
    assert capsys.readouterr().out == short
    assert "-h, --help" in short


def test_without_a_command_there_is_help_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.strip() == err.strip()
    assert "Commands:" in err


def test_completion_is_installed_by_an_option(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "SHELL": "/bin/bash"}
    # The shell that asks is found among the parents: it must not give way to the command.
    done = shell("$halfulp --install-completion bash; exit $?", **home)
    assert done.returncode == 0
    assert "_HALFULP_COMPLETE" in "".join(
        path.read_text() for path in tmp_path.rglob("*") if path.is_file()
    )
    asked = {"_HALFULP_COMPLETE": "complete_bash", "COMP_WORDS": "halfulp ver"}
    done = shell("$halfulp", **home, **asked, COMP_CWORD="1")
    assert (done.returncode, done.stdout) == (0, b"verify\n")


# --- wrote FILE


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("run m.onnx --input x=x.npy --output o.npz", "o.npz"),
        ("run m.onnx --input x=x.npy -o o.npy", "o.npy"),
        ("sum x.npy --axis 0 -o o.npy --state o.state", "o.npy o.state"),
        ("sum x.npy --axis 0 --json --output o.npy", "o.npy"),
        ("convert m.onnx --opset 13 -o o.onnx --json", "o.onnx"),
        ("convert m.onnx --opset 13 -o m.onnx", "m.onnx"),
        ("fuse m.onnx -o o.json --csv", "o.json"),
        ("expand m.onnx -o o.onnx", "o.onnx"),
        ("docs Abs -o o.html", "o.html"),
        (
            "verify halfulp --operators ReduceL2 -k 18_float16_ties --json o.json "
            "--html o.html",
            "o.json o.html",
        ),
        ("verify --operators ReduceL2 -k 18_float16_ties --export cases", "cases"),
    ],
)
def test_each_file_is_told_on_stderr(
    command: str, names: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 0
    out, err = capsys.readouterr()
    told = [line for line in err.splitlines() if line.startswith("wrote ")]
    assert sorted(told) == sorted(f"wrote {name}" for name in names.split())
    assert "wrote" not in out
    if command.endswith("--json") or "--json --" in command:
        json.loads(out)


def test_a_file_that_is_not_written_is_not_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["sum", "x.npy", "--axis", "0", "-o", "o.npy", "--state", "none/o.state"])
        == 2
    )
    assert "wrote" not in capsys.readouterr().err


# --- run --output by its ending


def test_outputs_are_written_as_the_ending_says(folder: Path) -> None:
    arguments = ["run", "m.onnx", "--input", "x=x.npy", "--output"]
    for name in ("o.npy", "o.npz", "o.pb", "O.NPY", "O.PB"):
        assert main([*arguments, name]) == 0
    with np.load("o.npz") as arrays:
        wanted = arrays["y"]
    assert wanted.tolist() == 33554436
    for name in ("o.npy", "O.NPY"):
        with open(name, "rb") as file:
            assert np.array_equal(np.load(file), wanted)
    for name in ("o.pb", "O.PB"):
        tensor = onnx.TensorProto.FromString(Path(name).read_bytes())
        assert tensor.name == "y"
        assert numpy_helper.to_array(tensor).tobytes() == wanted.tobytes()
        # What was written can be fed.
        assert main(["run", "two.onnx", "--input", f"x={name}"]) == 2
    assert main(["run", "two.onnx", "--input", "x=x.npy", "-o", "t.npz"]) == 0


@pytest.mark.parametrize("name", ["o.npy", "o.pb"])
def test_several_outputs_need_an_npz(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "two.onnx", "--input", "x=x.npy", "-o", name]) == 2
    assert "the model has 2 outputs; allowed: an .npz file" in capsys.readouterr().err
    assert not Path(name).exists()


@pytest.mark.parametrize("ending", [".npy", ".pb", ".npz"])
def test_strings_and_bfloat16_are_written(ending: str, folder: Path) -> None:
    for number, dtype in ((8, "U"), (16, ml_dtypes.bfloat16)):
        text = f"(float[N,M] x) => (y) {{ y = Cast<to={number}>(x) }}"
        onnx.save(model(text), "c.onnx")
        assert main(["run", "c.onnx", "--input", "x=x.npy", "-o", f"o{ending}"]) == 0
        same = model("(float[N,M] x) => (y) { y = Identity(x) }")
        same.graph.input[0].type.tensor_type.elem_type = number
        onnx.save(same, "same.onnx")
        given = f"x=o{ending}"
        engine = ["--engine", "reference"]
        assert main(["run", "same.onnx", "--input", given, *engine]) == 0, dtype


# --- "-"


def test_models_come_from_stdin_and_go_to_stdout(folder: Path) -> None:
    content = Path("m.onnx").read_bytes()
    done = piped(content, "convert", "-", "--opset", "13", "-o", "-")
    assert done.returncode == 0
    assert onnx.load_model_from_string(done.stdout).opset_import[0].version == 13
    # What people read goes to stderr then.
    assert b"ReduceSumSquare-18 is now ReduceSumSquare-13" in done.stderr
    assert b"wrote" not in done.stderr
    for command in ("expand", "fuse"):
        done = piped(content, command, "-", "-o", "-")
        assert onnx.load_model_from_string(done.stdout).graph.node
    done = piped(content, "check", "-")
    assert done.returncode == 0
    assert b"1 ReduceSumSquare node, no errors" in done.stdout
    for engine in ("reference", "onnxruntime"):
        done = piped(content, "run", "-", "--input", "x=x.npy", "--engine", engine)
        assert b"33554436" in done.stdout, done.stderr


@pytest.mark.parametrize("ending", MODEL_ENDINGS)
def test_the_format_of_stdin_is_found(ending: str, folder: Path) -> None:
    save_model(Path(f"o{ending}"), onnx.load("m.onnx"))
    done = piped(Path(f"o{ending}").read_bytes(), "check", "-")
    assert (done.returncode, done.stderr) == (0, b"")


def test_inputs_come_from_stdin_and_outputs_go_to_stdout(folder: Path) -> None:
    np.savez("x.npz", x=X)
    Path("x.pb").write_bytes(numpy_helper.from_array(X).SerializeToString())
    for name, given in (
        ("x.npy", "x=-"),
        ("x.npz", "x=-"),
        ("x.npz", "-"),
        ("x.pb", "x=-"),
    ):
        content = Path(name).read_bytes()
        done = piped(content, "run", "m.onnx", "--input", given, "-o", "-")
        assert done.returncode == 0, done.stderr
        with np.load(io.BytesIO(done.stdout)) as arrays:
            assert arrays["y"] == 33554436
        assert b"33554436" in done.stderr


def test_sums_and_states_go_to_stdout(folder: Path) -> None:
    done = piped(b"", "sum", "x.npy", "--axis", "0", "-o", "-")
    with np.load(io.BytesIO(done.stdout)) as arrays:
        (wanted,) = arrays.values()
        assert wanted.tolist() == [16777217, 16777217, 2]
    done = piped(b"", "sum", "x.npy", "--state", "-")
    Path("x.state").write_bytes(done.stdout)
    assert main(["merge", "x.state"]) == 0
    assert b"33554436" in done.stderr


def test_pages_and_reports_go_to_stdout(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", "Abs", "-o", "-", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)
    chosen = ["--operators", "ReduceL2", "-k", "18_float16_ties"]
    assert main(["verify", "halfulp", *chosen, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["backend"] == "halfulp"
    assert "ties" in err
    bench = "bench --quick --cells small --types float32 --no-peers --json -"
    assert main(bench.split()) == 0
    saved, _ = capsys.readouterr()
    assert json.loads(saved)["kind"] == "speed"
    done = piped(saved.encode(), "bench", "--from", "-", "--csv", "-")
    assert done.stdout.startswith(b"table,cell"), done.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run m.onnx --input x=x.npy -o - --json", "--json and an output '-' are given"),
        ("sum x.npy --axis 0 -o - --csv", "--csv and an output '-' are given"),
        ("sum x.npy --axis 0 -o - --state -", "are one file"),
        ("convert m.onnx --opset 13 -o - --json", "--json and an output '-' are given"),
        ("expand m.onnx -o - --csv", "--csv and an output '-' are given"),
        ("verify halfulp --json - --html -", "are one file"),
        ("run - --input x=-", "'-' is given twice"),
        ("check -", "cannot be"),
        ("run m.onnx --input x=-", "'-' "),
    ],
)
def test_what_cannot_go_there_is_refused(
    command: str, message: str, folder: Path
) -> None:
    done = piped(b"\xff garbage", *command.split())
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_a_terminal_gets_nothing_binary(folder: Path) -> None:
    for command in (
        "run m.onnx --input x=x.npy -o -",
        "convert m.onnx --opset 13 -o -",
        "sum x.npy --state -",
    ):
        code, shown = in_terminal(80, *command.split())
        assert code == 2
        assert "is binary; allowed: a file or a pipe, not a terminal" in shown
    code, shown = in_terminal(80, "docs", "Abs", "-o", "-")
    assert code == 0
    assert "# Abs" in shown


# --- streams that are closed or full, and a bad environment

# Commands that print in each of the ways that there are.
PRINTING = [
    "info",
    "--version",
    "sum x.npy",
    "sum x.npy --csv",
    "run m.onnx --input x=x.npy",
    "convert m.onnx --opset 13 -o -",
    "verify --list --operators ReduceSumSquare -k 18_float16_ties",
]


@pytest.mark.parametrize("command", PRINTING)
def test_a_stream_that_is_closed_or_full_is_one_line(command: str, folder: Path) -> None:
    for target, words in ((">&-", b"closed"), (">/dev/full", b"No space left")):
        done = shell(f"$halfulp {command} {target}")
        assert done.returncode == 2
        lines = done.stderr.splitlines()
        assert lines[-1].startswith(b"halfulp: error: ")
        assert words in lines[-1]
        assert b"Traceback" not in done.stderr
    done = shell(f"$halfulp {command} >&- 2>&-")
    assert done.returncode == 2


def test_errors_need_no_stderr(folder: Path) -> None:
    for target in ("2>&-", "2>/dev/full", "2>&- <&- >&-"):
        done = shell(f"$halfulp sum none.npy {target}")
        assert (done.returncode, done.stderr) == (2, b"")
        done = shell(f"$halfulp expand m.onnx -o o.onnx {target}")
        # What was asked for is done.
        assert Path("o.onnx").exists()
        os.remove("o.onnx")


def test_stdin_that_is_closed_is_one_line(folder: Path) -> None:
    done = shell("$halfulp check - <&-")
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"Traceback" not in done.stderr


def test_a_reader_that_has_enough_is_no_error(folder: Path) -> None:
    done = shell("$halfulp verify --list --operators ReduceL1 | head -1")
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1
    done = shell("$halfulp docs Abs -o - | head -c 1")
    assert done.stderr == b""


@pytest.mark.parametrize("value", ["0", "-1", "many", ""])
def test_a_bad_environment_is_one_line(value: str) -> None:
    done = shell("$halfulp info", HALFULP_NUM_THREADS=value)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"halfulp: error: HALFULP_NUM_THREADS is ")
    assert done.stderr.count(b"\n") == 1
    script = Path(sys.executable).with_name("halfulp")
    if script.exists():
        done = shell(f"{script} info", HALFULP_NUM_THREADS=value)
        assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)


def test_a_bad_environment_is_an_error_in_python() -> None:
    code = "import halfulp"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"HALFULP_NUM_THREADS": "0"},
        capture_output=True,
        check=False,
        text=True,
    )
    last: Any = done.stderr.splitlines()[-1]
    assert last.startswith("halfulp.errors.ArgumentError: HALFULP_NUM_THREADS is 0")
