"""Runs a command in a child, which may crash, hang, or take too much.

May import limits and processes only. Libraries that a command calls, as onnx and ONNX
Runtime, are written in C++: a model can make them crash, or loop without end. The child
has the standard streams of its parent. The parent waits, hands on interrupts, and turns
an end by a signal into one line. It is another kind of child than those of children.py,
which start a module afresh and answer requests: this one is a fork that has all loaded,
is the command itself, and answers nothing.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import re
import selectors
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from halfulp import limits
from halfulp.processes import end_with, signal_name

# How long an interrupted child may take to end by itself, in seconds.
_GRACE = 1.0

# As much is kept of what libraries write to stderr by themselves, in bytes.
_LONGEST = 1 << 16

# Who is at work in which file. A traceback has these where a signal came.
_CULPRITS = (
    ("/onnx/shape_inference.py", "onnx's shape inference"),
    ("/onnx/checker.py", "onnx's checker"),
    ("/onnx/version_converter.py", "onnx's version converter"),
    ("/onnx/reference/", "onnx's reference evaluator"),
    ("/onnxruntime/", "ONNX Runtime"),
    ("/onnx/", "onnx"),
)

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def guarded(work: Callable[[], int], fail: Callable[[str], int]) -> int:
    """Do `work` in a child.

    Parameters
    ----------
    work : callable
        Returns an exit code. What it starts ends with it.
    fail : callable
        Tells an error; returns the exit code.

    Returns
    -------
    int
        In the child, what `work` returns. In the parent the exit code of the child; that
        of `fail` if a signal or a limit ended it; 130 after an interrupt.
    """
    _open_standard_streams()
    if sys.stdout is not None:
        sys.stdout.flush()
    # Objects that the garbage collector leaves alone stay shared, not copied.
    gc.freeze()
    lifeline, notes, noise = os.pipe(), os.pipe(), os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    with warnings.catch_warnings():
        # That threads do not survive a fork: those of BLAS libraries expect it.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        for descriptor in (lifeline[0], notes[1], noise[1]):
            os.close(descriptor)
        return _Parent(child).wait(notes[0], noise[0], fail)
    os.close(lifeline[1])
    _become_child(lifeline[0], notes[1], noise[1])
    os.close(notes[0])
    os.close(noise[0])
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
        return work()
    except KeyboardInterrupt:
        return 130
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _open_standard_streams() -> None:
    """Open what is closed of stdin, stdout and stderr, lest pipes take their numbers."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            return


def _become_child(lifeline: int, notes: int, noise: int) -> None:
    end_with(lifeline)
    # The parent hands on each interrupt, once.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    limits.begin(os.fdopen(notes, "wb"))
    # Python keeps stderr; what libraries write there by themselves is held back.
    if sys.stderr is not None:
        own = os.dup(2)
        sys.stderr.flush()
        sys.stderr = open(  # noqa: SIM115, open until the process ends
            own, "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors, buffering=1
        )
    os.dup2(noise, 2)
    os.close(noise)
    faulthandler.enable(2)
    for number in (signal.SIGXCPU, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
        faulthandler.register(number, 2, chain=True)


class _Parent:
    """The process that guards another."""

    def __init__(self, child: int) -> None:
        self._child = child
        self._interrupt = 0
        self._noise = bytearray()
        self._facts: dict[str, Any] = {}
        self._unfinished: dict[str, None] = {}

    def wait(self, notes: int, noise: int, fail: Callable[[str], int]) -> int:
        """Wait for the child, and return the exit code."""
        signal.signal(signal.SIGALRM, lambda *_: self._kill(signal.SIGKILL))
        for number in _INTERRUPTS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._hand_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
        self._read(notes, noise)
        _, status = os.waitpid(self._child, 0)
        self._child = 0
        signal.setitimer(signal.ITIMER_REAL, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0 and os.isatty(2):
            # The child may have hidden the cursor, to draw how far it was.
            os.write(2, b"\x1b[?25h")
        for path in self._unfinished:
            _remove(path)
        if self._interrupt in (signal.SIGTERM, signal.SIGHUP):
            # As without a child: others see which signal it was.
            signal.signal(self._interrupt, signal.SIG_DFL)
            os.kill(os.getpid(), self._interrupt)
        if code >= 0:
            with suppress(OSError):
                os.write(2, self._noise)
            return code
        return 130 if self._interrupt else fail(self._ending(-code))

    def _hand_on(self, number: int, _: object) -> None:
        """Interrupt the child, and kill it a moment later or the second time."""
        self._kill(signal.SIGKILL if self._interrupt else signal.SIGTERM)
        self._interrupt = self._interrupt or number
        signal.setitimer(signal.ITIMER_REAL, _GRACE)

    def _kill(self, number: int) -> None:
        # Once it was waited for, its id may be another's.
        if self._child:
            os.kill(self._child, number)

    def _read(self, notes: int, noise: int) -> None:
        """Read what the child tells until it ends."""
        told = b""
        with selectors.DefaultSelector() as selector:
            for descriptor in (notes, noise):
                selector.register(descriptor, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    chunk = os.read(key.fd, _LONGEST)
                    if not chunk:
                        selector.unregister(key.fd)
                        os.close(key.fd)
                    elif key.fd == noise:
                        self._noise += chunk
                        del self._noise[:-_LONGEST]
                    else:
                        *lines, told = (told + chunk).split(b"\n")
                        for line in lines:
                            self._note(json.loads(line))

    def _note(self, facts: dict[str, Any]) -> None:
        if "began" in facts:
            self._unfinished[facts["began"]] = None
        elif "ended" in facts:
            self._unfinished.pop(facts["ended"], None)
        else:
            self._facts.update(facts)

    def _ending(self, number: int) -> str:
        """Tell in one line why the child ended by a signal."""
        noise = self._noise.decode(errors="replace")
        who = _culprit(noise)
        on = f" on the model {self._facts['model']!r}" if "model" in self._facts else ""
        if number in (signal.SIGXCPU, signal.SIGALRM) and "time" in self._facts:
            return f"{who} took too long{on}; allowed: {self._facts['time']}"
        if number == signal.SIGKILL:
            return f"the process was killed (SIGKILL){on}, maybe for want of memory"
        crashed = f"{who} crashed ({signal_name(number)}){on}"
        if "bad_alloc" in noise:
            crashed += ": not enough memory"
            if "memory" in self._facts:
                crashed += f"; allowed: {self._facts['memory']}"
        return crashed


def _culprit(noise: str) -> str:
    """Return who was at work, by the traceback that faulthandler wrote."""
    if "(most recent call first)" not in noise:
        # Without a stack that is whole there is none.
        return "the process"
    # The thread where the signal came is the first in some versions, the last in others.
    _, _, current = noise.rpartition("\nCurrent thread ")
    for text in (current, noise):
        files = re.findall(r'File "(.*)", line', text)
        for part, who in _CULPRITS:
            if any(part in file for file in files):
                return who
    return "halfulp"


def _remove(path: str) -> None:
    """Remove a file or a folder that is not whole."""
    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
