"""Files that a command writes: never one that it reads, each whole or not at all.

The path "-" is stdout, and stdin where a file is read.

May import errors and limits only.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from halfulp import limits
from halfulp.errors import ArgumentError

STDIO = Path("-")


@dataclass(frozen=True, slots=True)
class Output:
    """A file that a command is to write.

    Attributes
    ----------
    option : str
        Which asks for it, as errors name it.
    path : pathlib.Path
    endings : tuple of str
        Of the names that its format has, in lower case; "" for a name without one.
        Empty: any.
    replaces : pathlib.Path, optional
        An input that it may be: read whole, before it is written.
    folder : bool
        Whether it is a folder, which who writes it checks.
    text : bool
        Whether a terminal can show it.
    """

    option: str
    path: Path
    endings: tuple[str, ...] = ()
    replaces: Path | None = None
    folder: bool = False
    text: bool = False


def _nothing() -> Iterable[Path]:
    return ()


def check_outputs(
    outputs: Iterable[Output],
    inputs: Iterable[Path] = (),
    beside: Callable[[], Iterable[Path]] = _nothing,
) -> None:
    """Raise an ArgumentError unless a command may write its outputs.

    Parameters
    ----------
    outputs : iterable of Output
    inputs : iterable of pathlib.Path
        All that the command reads; of folders what is in them, too.
    beside : callable, optional
        Returns what else is read, such as external data. It is asked only if an output
        exists.

    Raises
    ------
    ArgumentError
        If an output is an input or another output, by whatever path; if it has an ending
        that its format does not have; or if it cannot be written.
    """
    outputs = list(outputs)
    for i, output in enumerate(outputs):
        if output.path == STDIO:
            _check_stdout(output)
        else:
            if not output.folder:
                check_target(output.path)
            _check_ending(output)
        for other in outputs[:i]:
            if _same(output.path, other.path):
                raise ArgumentError(
                    f"{output.option} {str(output.path)!r} and {other.option} "
                    f"{str(other.path)!r} are one file; allowed: one for each"
                )
    outputs = [output for output in outputs if output.path != STDIO]
    inputs = [path for path in inputs if path != STDIO]
    if any(output.path.is_file() for output in outputs):
        inputs += beside()
    for output in outputs:
        for path in inputs:
            if _writes_over(output, path):
                raise ArgumentError(
                    f"{output.option} {str(output.path)!r} is the input {str(path)!r}; "
                    "allowed: a file that is not read"
                )


def _check_stdout(output: Output) -> None:
    if not output.text and sys.stdout is not None and sys.stdout.isatty():
        raise ArgumentError(
            f"{output.option} - is binary; allowed: a file or a pipe, not a terminal"
        )


def _check_ending(output: Output) -> None:
    ending = output.path.suffix.lower()
    if output.endings and ending not in output.endings:
        allowed = ", ".join(each or "none" for each in output.endings)
        raise ArgumentError(
            f"{output.option} is {str(output.path)!r}; allowed endings: {allowed}"
        )


def _writes_over(output: Output, path: Path) -> bool:
    if _same(output.path, path):
        return output.replaces is None or not _same(path, output.replaces)
    if path.is_dir():
        return Path(os.path.realpath(output.path)).is_relative_to(os.path.realpath(path))
    return False


def _same(a: Path, b: Path) -> bool:
    """Tell whether two paths lead to one file, which need not exist."""
    try:
        return os.path.samefile(a, b)
    except OSError:
        return os.path.realpath(a) == os.path.realpath(b)


def check_target(path: Path) -> None:
    """Raise an ArgumentError unless `whole_file` may write to `path`."""
    with write_errors(path):
        there = path.exists()
        if there and not path.is_file():
            raise ArgumentError(f"the output {str(path)!r} exists and is no file")
        if not path.parent.is_dir():
            raise ArgumentError(f"the folder of the output {str(path)!r} does not exist")
        # The file would be replaced, which asks only whether its folder may change.
        if there and not writable(path):
            raise ArgumentError(f"the output {str(path)!r} exists and is read-only")
        if not writable(path.parent):
            raise ArgumentError(f"the folder of the output {str(path)!r} is read-only")


def writable(path: Path) -> bool:
    """Tell whether this process may write to a file or folder that exists."""
    own = os.access in os.supports_effective_ids
    return os.access(path, os.W_OK, effective_ids=own)


def temporary_beside(path: Path) -> Path:
    """Return a new path beside `path`, whose name may be as long as names get."""
    return path.with_name(f".halfulp-{secrets.token_hex(8)}.tmp")


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Raise an ArgumentError for an OSError: the output cannot be written."""
    try:
        yield
    except OSError as error:
        raise ArgumentError(
            f"the output {str(path)!r} cannot be written: {error.strerror}"
        ) from error


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write; until the block ends well, what was at `path` stays there.

    A file that it replaces hands its permissions on; a link is replaced, not followed. Of
    stdout nothing is written until the block ends.

    Raises
    ------
    ArgumentError
        If it cannot be written.
    """
    if path == STDIO:
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            _copy_to_stdout(file)
        return
    check_target(path)
    temporary = temporary_beside(path)
    with limits.temporary(temporary), write_errors(path):
        try:
            with temporary.open("xb") as file:
                with suppress(FileNotFoundError):
                    os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode) & 0o777)
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    written(path)


def _copy_to_stdout(file: IO[bytes]) -> None:
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        raise ArgumentError("the output '-' cannot be written: stdout is closed")
    sys.stdout.flush()
    shutil.copyfileobj(file, stream)
    stream.flush()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as `whole_file` does."""
    with whole_file(path) as file:
        file.write(content)


_listeners: list[Callable[[Path], None]] = []


@contextmanager
def telling(tell: Callable[[Path], None]) -> Iterator[None]:
    """Have `tell` called with the path of each file that the block writes."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)


def written(path: Path) -> None:
    """Tell that a file or a folder was written, whole."""
    for tell in _listeners:
        tell(path)


def read_stdin() -> bytes:
    """Return all of stdin.

    Raises
    ------
    ArgumentError
        If it is closed.
    """
    if sys.stdin is None:
        raise ArgumentError("the input '-' cannot be read: stdin is closed")
    return sys.stdin.buffer.read()
