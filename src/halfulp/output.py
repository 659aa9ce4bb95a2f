"""Writes files whole or not at all.

May import errors only.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from halfulp.errors import ArgumentError


def check_target(path: Path) -> None:
    """Raise an ArgumentError unless `whole_file` may write to `path`."""
    if path.exists() and not path.is_file():
        raise ArgumentError(f"the output {str(path)!r} exists and is no file")
    if not path.parent.is_dir():
        raise ArgumentError(f"the folder of the output {str(path)!r} does not exist")


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write; until the block ends well, what was at `path` stays there.

    Raises
    ------
    ArgumentError
        If it cannot be written.
    """
    check_target(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise ArgumentError(
            f"the output {str(path)!r} cannot be written: {error.strerror}"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as `whole_file` does."""
    with whole_file(path) as file:
        file.write(content)
