"""What a command may take: memory, time, and files that are not whole yet.

Imports nothing of halfulp. All of it works in the child that guard.py runs a command in;
in any other process, as in that of a caller of `halfulp.cli.main`, it does nothing.
Where the system has no such limit, or does not tell what is in use, there is none.
"""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

# A command that only looks at a model takes no more memory than this, beside what the
# program itself takes, and so many bytes for each byte of the model: a node of 23 bytes
# takes 150 in protobuf alone, and there are several copies while it is converted.
LOOKING_MEMORY = 256 << 20
LOOKING_MEMORY_PER_BYTE = 256

# Nor does it compute for longer, in seconds. 100,000 nodes have 2 MB or more and take
# 5 s; but where onnx has to convert each, 4,000 of them, of 1 MB with usual names,
# take 40 s.
LOOKING_TIME = 60
LOOKING_TIME_PER_MB = 60

# Of a run, in seconds, unless the caller says otherwise.
RUNNING_TIME: float = 3600

# The longest time that setitimer takes on every system, in seconds, and some.
_LONGEST_TIMER = 1e8

_CGROUPS = ("memory.max", "memory/memory.limit_in_bytes")


class _Limits:
    """The limits of this process."""

    def __init__(self, notes: IO[bytes]) -> None:
        import resource

        self._resource = resource
        self._notes = notes
        # Bytes of data, without the model.
        self._base = _data_in_use()
        self._machine = _machine_memory()
        self._first = {
            kind: resource.getrlimit(kind)
            for kind in (resource.RLIMIT_DATA, resource.RLIMIT_CPU)
        }
        # Of the model; None where it is not only looked at.
        self._size: int | None = None
        self._models = 1
        self.memory_words = ""

    def tell(self, **facts: Any) -> None:
        """Tell the process that guards this one."""
        self._notes.write(json.dumps(facts).encode() + b"\n")
        self._notes.flush()

    def look(self, size: int, models: int = 1) -> None:
        self._size, self._models = size, models
        memory = LOOKING_MEMORY + LOOKING_MEMORY_PER_BYTE * size
        seconds = LOOKING_TIME * models + math.ceil(LOOKING_TIME_PER_MB * size / 1e6)
        those = "a model" if models == 1 else f"{models} models"
        self._limit_memory(memory, f"{memory >> 20} MiB for {those} of {size} bytes")
        words = f"{seconds} s of processor time for {those} of {size} bytes"
        self.tell(time=words)
        self._limit(self._resource.RLIMIT_CPU, seconds)

    def run(self, seconds: float, option: str) -> None:
        self._size = None
        self._limit_memory(self._machine)
        self.tell(time=f"{seconds:g} s{option and f' ({option})'}")
        self._limit(self._resource.RLIMIT_CPU, None)
        self.ring_after(seconds if seconds < _LONGEST_TIMER else 0)

    def ring_after(self, seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)

    @contextmanager
    def more(self) -> Iterator[None]:
        size, before = self._size, _data_in_use()
        if size is None or before is None:
            yield
            return
        self._limit_memory(self._machine)
        yield
        self.look(size + max(0, (_data_in_use() or before) - before), self._models)

    def _limit_memory(self, size: int, words: str = "") -> None:
        if size >= self._machine or not words:
            size, words = self._machine, f"{self._machine >> 20} MiB, which there are"
        self.memory_words = words
        self.tell(memory=words)
        if self._base is not None:
            self._limit(self._resource.RLIMIT_DATA, self._base + size)

    def _limit(self, kind: int, value: int | None) -> None:
        """Limit a resource to `value`, and to what it was limited to at first."""
        given = self._first[kind]
        known = [
            n for n in (value, *given) if n not in (None, self._resource.RLIM_INFINITY)
        ]
        limit = min(known, default=self._resource.RLIM_INFINITY)
        with suppress(OSError, ValueError):
            self._resource.setrlimit(kind, (limit, given[1]))


_limits: _Limits | None = None


def begin(notes: IO[bytes]) -> None:
    """Let limits work in this process, which tells what must be known to `notes`."""
    global _limits
    _limits = _Limits(notes)


@contextmanager
def temporary(path: Path) -> Iterator[None]:
    """Have what is at `path` removed, should the process end within the block."""
    if _limits is None:
        yield
        return
    absolute = str(path.absolute())
    _limits.tell(began=absolute)
    try:
        yield
    finally:
        _limits.tell(ended=absolute)


def look_at(*models: Path) -> None:
    """Limit a command that does not run `models`, in proportion to their size."""
    if _limits is None:
        return
    at(models[0])
    size = 0
    for model in models:
        # What is no file is told by those who open it.
        with suppress(OSError, ValueError):
            size += model.stat().st_size if model.is_file() else 0
    _limits.look(size, len(models))


def at(model: Path) -> None:
    """Tell which of several models is looked at now."""
    if _limits is not None:
        _limits.tell(model=str(model))


@contextmanager
def more_to_look_at() -> Iterator[None]:
    """Count the memory that the block takes to the size of the model."""
    if _limits is None:
        yield
        return
    with _limits.more():
        yield


def run(model: Path, seconds: float = RUNNING_TIME, option: str = "") -> None:
    """Limit a command that runs `model`: in time, and by the memory of the machine.

    Parameters
    ----------
    model : pathlib.Path
    seconds : float
    option : str
        That changes `seconds`, for the message.
    """
    if _limits is not None:
        _limits.tell(model=str(model))
        _limits.run(seconds, option)


def ran() -> None:
    """End the limit of time of `run`: the rest shows what there is."""
    if _limits is not None:
        _limits.ring_after(0)


def memory_allowed() -> str:
    """Say what memory is allowed, as the end of a message; empty without a limit."""
    words = "" if _limits is None else _limits.memory_words
    return f"; allowed: {words}" if words else ""


def _data_in_use() -> int | None:
    """Return the bytes that RLIMIT_DATA counts; None where that is not known."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("VmData")]
    return int(sizes[0]) << 10 if sizes else None


def _machine_memory() -> int:
    """Return the bytes of memory that this machine, or its container, has."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in _CGROUPS:
        with suppress(OSError, ValueError):
            memory = min(memory, int((Path("/sys/fs/cgroup") / name).read_text()))
    return memory
