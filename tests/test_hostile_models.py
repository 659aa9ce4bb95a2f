"""A hostile model gets one clear line soon, whichever command reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

SECONDS = 10
MEMORY = 3 << 30  # of addresses, of which onnxruntime reserves more than it uses

# Runs each command in a process of its own, forked from one that has imported all that
# takes long.
SERVER = f"""
import json, os, resource, signal, sys
import halfulp.cli, halfulp.commands.check, halfulp.commands.rewrite
import halfulp.engines, halfulp.onnx, onnxruntime
for line in sys.stdin:
    arguments, out, err = json.loads(line)
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm({SECONDS})
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
        code = 99
        try:
            code = halfulp.cli.main(arguments)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SERVER]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def run(server: subprocess.Popen[str], tmp_path: Path) -> Run:
    """Run the command line; return exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        files = [str(tmp_path / name) for name in ("stdout", "stderr")]
        stdin: IO[str] = server.stdin  # type: ignore[assignment]
        stdin.write(json.dumps([arguments, *files]) + "\n")
        stdin.flush()
        code = int(server.stdout.readline())
        return code, *(Path(file).read_text(errors="strict") for file in files)

    return run


def commands(path: Path) -> list[list[str]]:
    feed = ["--input", f"x={path.parent / 'x.npy'}"]
    return [
        ["check", str(path)],
        ["fuse", str(path), "-o", str(path.parent / "out.onnx")],
        ["expand", str(path), "-o", str(path.parent / "out.onnx")],
        ["run", str(path), *feed],
    ]
