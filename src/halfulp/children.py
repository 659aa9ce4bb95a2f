"""Child processes that answer requests: started, asked and ended in one way.

Imports processes only. A message is what JSON has, and bytes behind it; it travels in the
frames of multiprocessing's connections, never as a pickle, which an answer could make run
anything. The rest of multiprocessing is left alone: its children import the main module
of their parent again and share its path and standard streams, and the children here must
do neither. They fall, hang and print as they like.
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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import IO, Any

from halfulp.processes import end_with, signal_name


class Link:
    """One end of the way between a child and its parent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, facts: Any, contents: Iterable[bytes] = ()) -> None:
        """Send a message.

        Parameters
        ----------
        facts : object
            What JSON has.
        contents : iterable of bytes, optional
            What follows it.

        Raises
        ------
        OSError
            If the other process has ended.
        """
        contents = list(contents)
        for frame in (json.dumps([facts, len(contents)]).encode(), *contents):
            self._connection.send_bytes(frame)

    def receive(self) -> tuple[Any, list[bytes]]:
        """Return the facts and the contents of the next message.

        Raises
        ------
        EOFError, OSError
            If the other process has ended.
        """
        facts, count = json.loads(self._connection.recv_bytes())
        return facts, [self._connection.recv_bytes() for _ in range(count)]

    def __iter__(self) -> Iterator[tuple[Any, list[bytes]]]:
        """Yield messages until the other process has ended."""
        with suppress(EOFError, OSError):
            while True:
                yield self.receive()

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


def parent() -> Link:
    """Return the link to the parent, for the module that a `Child` is started with.

    The process ends with its parent, whatever it is doing then; and what it started.
    """
    lifeline = os.dup(0)
    end_with(lifeline, group=True)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return Link(Connection(int(sys.argv.pop(1))))


class ChildEndedError(Exception):
    """A child ended before its answer was whole.

    Attributes
    ----------
    hung : bool
        Whether it was ended because it took too long.
    """

    def __init__(self, how: str, hung: bool) -> None:
        super().__init__(how)
        self.hung = hung


class Child:
    """A process of this interpreter that runs a module, which asks for its `parent`.

    What it prints is kept: the last line tells of its end. A terminal interrupts the
    parent alone. As a context manager it ends the child, and what that has started.

    Parameters
    ----------
    module : str
    *arguments : str
    safe : bool, optional
        Whether no module of the working folder can take the place of another.
    environment : mapping, optional
        Default: that of this process.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        safe: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        here, there = Pipe()
        self._link = Link(here)
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115, see `end`
        command = [sys.executable, *["-P"] * safe, "-m", module]
        with there:
            self._process = subprocess.Popen(
                [*command, str(there.fileno()), *arguments],
                # Nothing is ever written there: its end is that of this process.
                stdin=subprocess.PIPE,
                stdout=self._printed,
                stderr=self._printed,
                pass_fds=[there.fileno()],
                env=environment,
                start_new_session=True,
            )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.kill()
        self.end()

    def ask(
        self, facts: Any, contents: Iterable[bytes] = (), limit: float | None = None
    ) -> tuple[Any, list[bytes]]:
        """Return the answer to a request.

        Parameters
        ----------
        facts, contents
            As in `Link.send`.
        limit : float, optional
            In seconds, for the answer to be whole. Then the child is killed.

        Raises
        ------
        ChildEndedError
            If the child ended first, with how it ended.
        """
        rang = threading.Event()

        def ring() -> None:
            rang.set()
            self.kill()

        # Whether it is written to or read from.
        alarm = threading.Timer(threading.TIMEOUT_MAX if limit is None else limit, ring)
        alarm.start()
        answer = None
        try:
            self._link.send(facts, contents)
            answer = self._link.receive()
        except (EOFError, OSError):
            pass
        finally:
            alarm.cancel()
            alarm.join()
        if answer is None or rang.is_set():
            raise ChildEndedError(self.end(), rang.is_set())
        return answer

    def kill(self) -> None:
        """Kill the child and what it started; from any thread."""
        # Once it was waited for, its id may be another's.
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> str:
        """End the child and what it started; tell how it ended, if by itself."""
        if self._printed.closed:
            return ""
        self._link.close()
        self._await_end(1.0)
        # Its own end, if it came by itself, is kept.
        self.kill()
        code = self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        with self._printed as printed:
            printed.seek(0)
            lines = printed.read().decode(errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return f"{_code_text(code)}{last}"

    def _await_end(self, seconds: float) -> None:
        """Wait a while for the child to end by itself, if possible without reaping it."""
        if not hasattr(os, "waitid"):  # macOS, before Python 3.13: its group may stay
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return
        deadline = time.monotonic() + seconds
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, self._process.pid, flags) is None:
            if time.monotonic() > deadline:
                return
            time.sleep(0.002)


def _code_text(code: int) -> str:
    """An exit code, or the signal that a process ended by, in words."""
    if code >= 0:
        return f"exit code {code}"
    name = signal_name(-code)
    return name if name.startswith("signal") else f"signal {-code} ({name})"
