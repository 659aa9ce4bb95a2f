"""What the processes of halfulp have in common.

Imports nothing of halfulp.
"""

from __future__ import annotations

import fcntl
import os
import signal


def end_with(lifeline: int, *, group: bool = False) -> None:
    """Have this process, or its group, end with the one at the other end of a pipe.

    Nothing is ever written to that pipe: it tells the end of the other process, however
    it came, by a signal that ends this one even within an endless loop of C++.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp() if group else os.getpid())
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)


def signal_name(number: int) -> str:
    """Return the name of a signal, as SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
