"""Opens the files that a user names: regular files only, without waiting for any.

May import errors and faults only. Whatever reads a file of the user's opens it here.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from halfulp.errors import ModelError
from halfulp.faults import model_errors

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)
# What lies where a download or a checkout has failed, by how it begins.
_POINTER = b"version https://git-lfs.github.com/spec/"
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)
_BEGINNING = 256  # bytes of a file that tell it


def the_file(path: Path) -> str:
    """Return how errors name a file."""
    return f"the file {str(path)!r}"


def file_errors(path: Path) -> AbstractContextManager[None]:
    """Raise a ModelError of one line, which names the file, for any other exception."""
    return model_errors(f"{the_file(path)} cannot be read")


def open_regular(path: Path, *, raw: bool = False) -> io.FileIO:
    """Open a file to read, without a buffer.

    Parameters
    ----------
    path : pathlib.Path
    raw : bool
        Whether any bytes may be in it, also those of what is no data: a Git LFS pointer
        or an HTML page.

    Raises
    ------
    ModelError
        If it cannot be opened, or is no regular file, which might never end; or if it is
        one of those.
    """
    with file_errors(path):
        # Opening alone may wait, rewind a tape or wake a process up.
        _check_mode(path, os.stat(path).st_mode)
        # It may be another file by now. Without O_NONBLOCK, a FIFO waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            _check_mode(path, os.fstat(descriptor).st_mode)
            if not raw:
                check_beginning(path, os.pread(descriptor, _BEGINNING, 0))
            return io.FileIO(descriptor)
        except BaseException:
            os.close(descriptor)
            raise


def _check_mode(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise ModelError(f"{the_file(path)} cannot be read: Is a directory")
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "thing unknown")
    raise ModelError(f"{the_file(path)} is no regular file, but a {kind}")


def check_beginning(path: Path, content: bytes) -> None:
    """Raise a ModelError if a file begins as what lies in place of data."""
    if content.startswith(_POINTER):
        raise ModelError(
            f"{the_file(path)} is a Git LFS pointer, not the data; `git lfs pull` gets it"
        )
    if _PAGE.match(content):
        raise ModelError(f"{the_file(path)} is an HTML page, not the data")


def read_at(file: io.FileIO, path: Path, offset: int, buffer: memoryview) -> None:
    """Fill a buffer with the bytes of a file from an offset on.

    Raises
    ------
    ModelError
        If it ends before.
    """
    with file_errors(path):
        while buffer:
            count = os.preadv(file.fileno(), [buffer], offset)
            if not count:
                raise ModelError(f"{the_file(path)} ends early, at byte {offset}")
            buffer = buffer[count:]
            offset += count


def read_whole(path: Path, most: int) -> bytes:
    """Return all bytes of a file.

    Raises
    ------
    ModelError
        If it cannot be read, or has more than `most` bytes.
    """
    with io.BufferedReader(open_regular(path)) as file, file_errors(path):
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ModelError(
                f"{the_file(path)} has {size} bytes; allowed: {most} at most"
            )
        return file.read(size)
