"""Runs the command line in a terminal of some width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def in_terminal(columns: int, *arguments: str) -> tuple[int, str]:
    """Return the exit code, and what the terminal shows, without its colours."""
    pid, terminal = pty.fork()
    if not pid:
        size = struct.pack("HHHH", 50, columns, 0, 0)
        fcntl.ioctl(1, termios.TIOCSWINSZ, size)
        environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
        command = [sys.executable, "-m", "halfulp", *arguments]
        os.execve(sys.executable, command, environment | {"TERM": "xterm"})
    shown = b""
    while True:
        try:
            part = os.read(terminal, 2**16)
        except OSError:
            # As Linux tells that the other end is closed.
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    text = _ESCAPE.sub("", shown.decode()).replace("\r\n", "\n")
    return os.waitstatus_to_exitcode(status), text
