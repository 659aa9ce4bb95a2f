"""Many commands, each in a process of its own that need not import anything.

The processes are forks of one that has imported all that takes long.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_MODEL = Path(__file__).parents[1] / "stored/exported/torch_pow_18.onnx"

# A request is the working folder, where stdout and stderr go, the arguments, and Python
# that is run before the command and that is the command, whose value is an exit code.
_SERVER = """
import contextlib, io, json, os, resource, signal, sys
import halfulp.cli, halfulp.commands.run, halfulp.commands.engines, halfulp.onnx
import halfulp.onnxruntime, onnx.shape_inference, rich.table
from halfulp.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    main(["check", sys.argv[1]])
for line in sys.stdin:
    folder, files, arguments, before, call = json.loads(line)
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 99
        try:
            os.chdir(folder)
            for number, file in enumerate(files, 1):
                os.dup2(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
            sys.argv = ["halfulp", *arguments]
            exec(before)
            code = eval(call)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime
    told = [os.waitstatus_to_exitcode(status), seconds, usage.ru_maxrss << 10]
    print(json.dumps(told), flush=True)
"""


class Done(NamedTuple):
    """What became of a command: its processor time is in seconds, its memory in bytes."""

    code: int
    out: str
    err: str
    seconds: float
    memory: int


class CommandServer:
    """Runs commands in the working folder.

    Parameters
    ----------
    process : subprocess.Popen
        Runs the server.
    folder : pathlib.Path
        Where what the commands print is held.
    before : str
        Python that is run before each command.
    """

    def __init__(
        self, process: subprocess.Popen[str], folder: Path, before: str = "pass"
    ) -> None:
        self._process, self._before = process, before
        self._files = [str(folder / name) for name in ("out", "err")]

    def run(
        self, arguments: Sequence[str], before: str = "", call: str = "main(sys.argv[1:])"
    ) -> Done:
        """Run the command line in a fork, without the child that guards it.

        Parameters
        ----------
        arguments : sequence of str
        before : str, optional
            Python that is run before the command, in its process.
        call : str, optional
            An expression for the exit code: "main()" is the command with its guard.
        """
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        request = [os.getcwd(), self._files, arguments, before or self._before, call]
        print(json.dumps(request), file=requests, flush=True)
        assert select.select([answers], [], [], 60)[0], arguments
        code, seconds, memory = json.loads(answers.readline())
        out, err = (Path(file).read_text(encoding="utf-8") for file in self._files)
        return Done(code, out, err, seconds, memory)


@contextmanager
def command_server(folder: Path, before: str = "pass") -> Iterator[CommandServer]:
    """Start a server of commands, which ends with the block."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(_MODEL)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    ) as process:
        yield CommandServer(process, folder, before)
        assert process.stdin is not None
        process.stdin.close()
