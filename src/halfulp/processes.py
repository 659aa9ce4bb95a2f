"""What the child processes of halfulp have in common.

Imports nothing of halfulp.
"""

from __future__ import annotations

import os
import signal
from typing import IO


def take_stdout() -> IO[bytes]:
    """Return the stream for answers; what a library prints then goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def ending(code: int, stderr: IO[bytes]) -> str:
    """Tell how a process ended, with the last line of its stderr."""
    stderr.seek(0)
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    return f"{_signal(-code) if code < 0 else f'exit code {code}'}{last}"


def signal_name(number: int) -> str:
    """Return the name of a signal, as SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _signal(number: int) -> str:
    name = signal_name(number)
    return name if name.startswith("signal") else f"signal {number} ({name})"
