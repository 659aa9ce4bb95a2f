"""Interrupts a program as Ctrl-C does."""

from __future__ import annotations

import signal
import subprocess
import sys
import time


def interrupted(code: str, *arguments: str) -> tuple[int, str, str]:
    """Run Python code that prints "running" at last, and interrupt it there.

    Returns
    -------
    tuple
        The exit code, and what it printed to stdout, after that word, and stderr.
    """
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "running\n"
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    return child.returncode, out, err
