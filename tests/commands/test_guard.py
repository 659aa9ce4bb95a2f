"""The command line survives what libraries do to a model, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from command_server import CommandServer, command_server
from halfulp.cli import main
from onnx_models import DATA, model
from processes import children, ended

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="limits of memory need Linux"
)

ENDLESS = """(float[2,3] x) => (y) { y = Loop <
    body = b (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t)
    { d = Identity(c) t = Identity(s) }>(, , x) }"""
GOOD = "(float[2,3] x) => (y) { y = ReduceSumSquare(x) }"

# Runs the command line as a program does, after a patch.
PROGRAM = "import sys; {} ; from halfulp.cli import main; sys.exit(main())"

# What stands for shape inference, which C++ does: `sum` never looks at signals either.
INFERENCE = (
    "import itertools, os, signal, onnx.shape_inference as s; "
    "s.C.infer_shapes = lambda model, *options: {}"
)
HANGS = "import halfulp.guard; halfulp.guard._GRACE = 0.2; " + INFERENCE.format(
    "(print('running', flush=True), sum(itertools.repeat(0)))"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a model good.onnx and an input x.npy."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    onnx.save(model(GOOD), "good.onnx")
    np.save("x.npy", DATA)
    return folder


def command(*arguments: str, patch: str = "pass") -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(patch), *arguments]


@pytest.fixture(scope="module", autouse=True)
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with command_server(tmp_path_factory.mktemp("run")) as Guarded.server:
        yield


class Guarded:
    """The same for many commands, from one process."""

    server: CommandServer


def run(*arguments: str, patch: str = "pass") -> tuple[int, str, str]:
    return Guarded.server.run(arguments, patch, "main()")[:3]


def refused(*arguments: str, patch: str = "pass") -> str:
    """Run the command line; return its one line on stderr."""
    before = sorted(Path().iterdir())
    code, out, err = run(*arguments, patch=patch)
    assert (code, out) == (2, ""), err
    assert err.startswith("halfulp: error: ")
    assert err.count("\n") == 1
    assert sorted(Path().iterdir()) == before
    return err


@contextmanager
def started(
    arguments: list[str], patch: str = "pass", **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """A process of the command line, in a session of its own."""
    with subprocess.Popen(
        command(*arguments, patch=patch),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["check", "--json"],
        ["run", "--input", "x=x.npy"],
        ["fuse", "-o", "out.onnx"],
        ["expand", "-o", "out.onnx"],
        ["convert", "--opset", "13", "-o", "out.onnx"],
    ],
    ids=" ".join,
)
def test_a_model_that_crashes_shape_inference_is_one_line(
    arguments: list[str], folder: Path
) -> None:
    patch = INFERENCE.format("os.kill(os.getpid(), signal.SIGSEGV)")
    err = refused(arguments[0], "good.onnx", *arguments[1:], patch=patch)
    assert "onnx's shape inference crashed (SIGSEGV) on the model 'good.onnx'" in err


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGABRT)", "crashed (SIGABRT) on the model"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "was killed (SIGKILL) on the model"),
        (
            "(os.write(2, b\"terminate called after throwing an instance of 'std::"
            "bad_alloc'\\n\"), os.abort())",
            "not enough memory; allowed: 256 MiB for a model of",
        ),
    ],
    ids=["abort", "kill", "bad_alloc"],
)
def test_an_end_by_a_signal_is_one_line(does: str, words: str, folder: Path) -> None:
    err = refused("expand", "good.onnx", "-o", "o.onnx", patch=INFERENCE.format(does))
    assert words in err


def test_looking_at_a_model_takes_memory_in_proportion(folder: Path) -> None:
    # onnx's errors are no errors of a model; here it has no memory.
    eats = "import onnx.checker as c; c.check_node = lambda *a: bytearray({} << 20)"
    err = refused("expand", "good.onnx", "-o", "o.onnx", patch=eats.format(300))
    assert "not enough memory; allowed: 256 MiB for a model of" in err
    code, _, err = run("expand", "good.onnx", "-o", "o.onnx", patch=eats.format(200))
    assert (code, err) == (0, "wrote o.onnx\n")


def test_data_beside_a_model_counts_as_the_model(folder: Path) -> None:
    proto = model("(float[N] x) => (y) { z = Add(x, w) y = ReduceSumSquare(z) }")
    size = 100 << 20
    tensor = proto.graph.initializer.add(
        name="w", data_type=1, dims=[size // 4], data_location="EXTERNAL"
    )
    tensor.external_data.add(key="location", value="w.data")
    onnx.save(proto, "large.onnx")
    with Path("w.data").open("wb") as file:
        file.truncate(size)
    patch = "from halfulp import limits; limits.LOOKING_MEMORY = 64 << 20"
    code, out, err = run("check", "large.onnx", "--json", patch=patch)
    assert (code, err) == (0, "")
    assert json.loads(out)["errors"] == 0


def test_looking_at_a_model_takes_bounded_time(folder: Path) -> None:
    soon = "from halfulp import limits; limits.LOOKING_TIME = 0; "
    patch = soon + INFERENCE.format("sum(itertools.repeat(0))")
    err = refused("check", "good.onnx", patch=patch)
    size = Path("good.onnx").stat().st_size
    words = f"; allowed: 1 s of processor time for a model of {size} bytes"
    assert "took too long on the model 'good.onnx'" + words in err


@pytest.mark.parametrize("engine", ["onnxruntime", "reference"])
def test_a_run_takes_the_time_that_is_allowed(engine: str, folder: Path) -> None:
    onnx.save(model(ENDLESS), "endless.onnx")
    options = ("--engine", engine, "--time-limit", "1")
    err = refused("run", "endless.onnx", "--input", "x=x.npy", *options)
    who = "ONNX Runtime" if engine == "onnxruntime" else "onnx's reference evaluator"
    words = "took too long on the model 'endless.onnx'; allowed: 1 s (--time-limit)"
    assert f"{who} {words}" in err


def test_a_limit_of_time_is_more_than_zero(folder: Path) -> None:
    for seconds in ("0", "-1", "nan"):
        code = main(["run", "good.onnx", "--input", "x=x.npy", "--time-limit", seconds])
        assert code == 2
    err = refused("run", "good.onnx", "--input", "x=x.npy", "--time-limit", "0")
    assert "--time-limit is 0; allowed: more than 0" in err
    code, _, err = run("run", "good.onnx", "--input", "x=x.npy", "--time-limit", "inf")
    assert (code, err) == (0, "")


def test_a_run_takes_no_more_memory_than_there_is(folder: Path) -> None:
    text = """(float[2,3] x) => (y) <int64[1] n = {30000000}>
        { q = ConstantOfShape(n) r = Add(q, q) y = ReduceSumSquare(r) }"""
    onnx.save(model(text), "eats.onnx")
    arguments = ("run", "eats.onnx", "--input", "x=x.npy", "--engine", "reference")
    patch = "from halfulp import limits; limits._machine_memory = lambda: 200 << 20"
    err = refused(*arguments, patch=patch)
    assert "not enough memory: Unable to allocate 114. MiB" in err
    assert err.endswith("; allowed: 200 MiB, which there are\n")


@pytest.mark.parametrize("group", [True, False], ids=["Ctrl-C", "kill -INT"])
def test_an_interrupt_is_heard_within_a_loop_of_c(group: bool, folder: Path) -> None:
    with started(["expand", "good.onnx", "-o", "o.onnx"], HANGS) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        (child,) = children(process.pid)
        began = time.monotonic()
        (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert time.monotonic() < began + 10
    assert (process.returncode, out, err) == (130, "", "")
    assert ended(child)
    assert sorted(path.name for path in folder.iterdir()) == ["good.onnx", "x.npy"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_command_that_is_killed_leaves_no_child(number: int, folder: Path) -> None:
    with started(["check", "good.onnx"], HANGS) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        (child,) = children(process.pid)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (-number, "", "")
    assert ended(child)


@pytest.mark.parametrize(
    "arguments",
    [
        ["expand", "good.onnx", "-o", "o.onnx"],
        ["sum", "x.npy", "--state", "o.state"],
        ["verify", "-k", "shapes/*", "--export", "cases"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_files_that_are_not_whole_are_removed(arguments: list[str], folder: Path) -> None:
    dies = "os.kill(os.getpid(), signal.SIGKILL)"
    patch = f"import os, signal; os.fsync = os.replace = lambda *a: {dies}"
    refused(*arguments, patch=patch)


def test_what_libraries_write_is_passed_on_unless_they_crash(folder: Path) -> None:
    writes = "os.write(2, b'a warning\\n')"
    done = run("check", "good.onnx", patch=INFERENCE.format(f"({writes}, model)[1]"))
    assert (done[0], done[2]) == (0, "a warning\n")
    crash = INFERENCE.format(f"({writes}, os.abort())")
    assert "a warning" not in refused("check", "good.onnx", patch=crash)


def test_closed_streams_are_no_fault(folder: Path) -> None:
    program = " ".join(f"'{word}'" for word in command("check", "good.onnx"))
    for closed, reads in (("<&- 2>&-", True), ("<&- >&- 2>&-", False)):
        line = f"{program} {closed}"
        done = subprocess.run(
            line, shell=True, capture_output=True, timeout=30, check=False
        )
        # Who cannot be told is no fault; what cannot be printed is one.
        assert (done.returncode, done.stderr) == (0 if reads else 2, b"")
        assert (b"1 ReduceSumSquare" in done.stdout) == reads


def test_in_a_process_of_the_caller_nothing_is_limited(folder: Path) -> None:
    code = (
        "import resource, signal, os; from halfulp.cli import main; "
        "kinds = resource.RLIMIT_DATA, resource.RLIMIT_CPU; "
        "state = lambda: ([resource.getrlimit(k) for k in kinds], "
        "signal.getitimer(signal.ITIMER_REAL), signal.getsignal(signal.SIGTERM), "
        "os.getpid()); before = state(); "
        "assert main(['check', 'good.onnx']) == 0; "
        "assert main(['run', 'good.onnx', '--input', 'x=x.npy']) == 0; "
        "assert state() == before"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=30, stdout=subprocess.DEVNULL
    )
