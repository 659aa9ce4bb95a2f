"""Runs a backend in a process of its own, which may crash or hang.

May import errors, processes, cases, outcomes and registry only; and onnx.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import IO, Any

import onnx

from halfulp.conformance.backends.outcomes import (
    Answer,
    Crashed,
    Hung,
    Outcome,
    Refused,
    one_line,
)
from halfulp.conformance.backends.registry import BACKENDS
from halfulp.conformance.cases.case import Case
from halfulp.errors import ArgumentError
from halfulp.processes import ending

# For importing a backend, in seconds.
_START_LIMIT = 120.0


class Child:
    """A backend in a process, started when first asked and again after its end.

    Parameters
    ----------
    backend : str
    time_limit : float
        In seconds, for one case.
    """

    def __init__(self, backend: str, time_limit: float) -> None:
        self.versions: dict[str, str] = {}
        self._backend = backend
        self._limit = time_limit
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def start(self) -> None:
        """Start the process, unless it runs.

        Raises
        ------
        ArgumentError
            If the backend cannot be imported.
        """
        if self._process is not None:
            return
        # What is not known by name may lie in the working folder; the rest must not.
        safe = ["-P"] if self._backend in BACKENDS else []
        module = "halfulp.conformance.backends.worker"
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115, closed by _end
        self._process = subprocess.Popen(
            [sys.executable, *safe, "-m", module, self._backend],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
        )
        with _Alarm(self._process, _START_LIMIT) as alarm:
            line = self._read_line()
        if not line:
            how = "in time" if alarm.rang else self._end()
            self._end()
            raise ArgumentError(f"backend {self._backend!r} did not start: {how}")
        facts = json.loads(line)
        if "error" in facts:
            self._end()
            raise ArgumentError(facts["error"])
        self.versions = facts["versions"]

    def run(self, case: Case) -> Outcome:
        """Run a case."""
        self.start()
        assert self._process is not None
        model, feeds = case.model()
        content = model.SerializeToString()
        tensors = {
            name: onnx.numpy_helper.from_array(array).SerializeToString()
            for name, array in feeds.items()
        }
        request = {
            "model": len(content),
            "inputs": [[name, len(tensor)] for name, tensor in tensors.items()],
        }
        head = json.dumps(request).encode() + b"\n"
        with _Alarm(self._process, self._limit) as alarm:
            outcome = self._ask(b"".join([head, content, *tensors.values()]))
        if outcome is not None:
            return outcome
        end = self._end()
        if alarm.rang:
            return Hung(f"no answer within {self._limit:g} s")
        return Crashed(one_line(end))

    def kill(self) -> None:
        """End the process at once, from any thread; what it was asked ends as a crash."""
        process = self._process
        if process is not None:
            _kill(process)

    def _ask(self, request: bytes) -> Outcome | None:
        """The answer to a request; None if the process ended before it was whole."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self._read_line()
        if not line:
            return None
        facts: dict[str, Any] = json.loads(line)
        if "refused" in facts:
            return Refused(facts["refused"])
        if facts["outputs"] != 1:
            return Answer(facts["outputs"], "", (), None)
        array = None
        if facts["size"]:
            content = self._process.stdout.read(facts["size"])
            if len(content) < facts["size"]:
                return None
            array = onnx.numpy_helper.to_array(onnx.TensorProto.FromString(content))
        return Answer(1, facts["type"], tuple(facts["shape"]), array)

    def _read_line(self) -> bytes:
        """The next line, or nothing if the process ended within it."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return line if line.endswith(b"\n") else b""

    def _end(self) -> str:
        """End the process and those it started; tell how it ended by itself."""
        if self._process is None:
            return ""
        process, self._process = self._process, None
        assert process.stdin is not None
        assert process.stdout is not None
        assert self._stderr is not None
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()
        _wait_for_end(process.pid)
        # What it started is killed too; its own end, if it came by itself, is kept.
        _kill(process)
        code = process.wait()
        how = ending(code, self._stderr)
        self._stderr.close()
        return how


class _Alarm:
    """Kills a process that takes too long, whether it is written to or read from."""

    def __init__(self, process: subprocess.Popen[bytes], limit: float) -> None:
        self.rang = False
        self._process = process
        self._timer = threading.Timer(limit, self._ring)

    def __enter__(self) -> _Alarm:
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        self._timer.join()

    def _ring(self) -> None:
        self.rang = True
        _kill(self._process)


def _wait_for_end(pid: int) -> None:
    """Wait a moment for a process to end by itself."""
    deadline = time.monotonic() + 1
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while os.waitid(os.P_PID, pid, flags) is None and time.monotonic() < deadline:
        time.sleep(0.002)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what it started."""
    # Once it was waited for, its id may be another's.
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
