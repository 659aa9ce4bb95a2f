"""The files that names on the command line mean: of files, folders and patterns.

May import errors, input and files' formats only.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from halfulp.errors import ArgumentError, HalfulpError
from halfulp.files.formats.zarr import is_zarr
from halfulp.input import the_file

Failures = list[tuple[Path, HalfulpError]]


def named_files(
    names: Iterable[Path], endings: Collection[str], *, once: bool = True
) -> tuple[list[Path], Failures]:
    """Return the files that are meant, each once, and names that mean none.

    Parameters
    ----------
    names : iterable of pathlib.Path
        Of files; of folders, for all files below them, but hidden ones, that have an
        ending; or patterns, as a shell has them, with ``**`` for any folders. Links to
        folders below a folder are not followed. A Zarr folder is a file here.
    endings : collection of str
    once : bool
        Whether naming a file twice is an error.

    Raises
    ------
    ArgumentError
        If `once`, and a file is named twice by itself, under any names.
    """
    files: dict[object, Path] = {}
    named: dict[object, Path] = {}
    failures: Failures = []
    for name in names:
        alone = not _is_pattern(name)
        found = [name] if alone else _matches(name)
        if not found:
            failures.append((name, ArgumentError(f"{str(name)!r} matches no file")))
        for path in found:
            if not path.is_dir() or _is_store(path, endings):
                key = _identity(path)
                if alone and once and key in named:
                    raise ArgumentError(
                        f"{the_file(path)} is {str(named[key])!r} again; allowed: each "
                        "file once"
                    )
                if alone:
                    named[key] = path
                files.setdefault(key, path)
                continue
            below = list(_below(path, endings))
            if not below:
                allowed = ", ".join(endings)
                text = (
                    f"the folder {str(path)!r} has no files to take; allowed: {allowed}"
                )
                failures.append((path, ArgumentError(text)))
            for file in below:
                files.setdefault(_identity(file), file)
    return list(files.values()), failures


def _is_pattern(name: Path) -> bool:
    return glob.has_magic(str(name)) and not os.path.lexists(name)


def _matches(pattern: Path) -> list[Path]:
    """Return what matches, sorted. Of folders that are links, ``**`` follows none."""
    found = [Path(pattern.anchor)]
    for part in pattern.parts[bool(pattern.anchor) :]:
        found = list(dict.fromkeys(path for path in found for path in _step(path, part)))
    return sorted(found)


def _step(folder: Path, part: str) -> Iterator[Path]:
    """Yield what a part of a pattern matches in a folder."""
    if part == "**":
        for where, folders, _ in os.walk(folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield Path(where)
    elif glob.has_magic(part):
        with suppress(OSError):
            for name in fnmatch.filter(os.listdir(folder), part):
                if part.startswith(".") or not name.startswith("."):
                    yield folder / name
    elif os.path.lexists(folder / part):
        yield folder / part


def _identity(path: Path) -> object:
    """Return the same for two paths that lead to one file."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return path
    return status.st_dev, status.st_ino


def _is_store(folder: Path, endings: Collection[str]) -> bool:
    return ".zarr" in endings and (folder.suffix.lower() == ".zarr" or is_zarr(folder))


def _below(folder: Path, endings: Collection[str]) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        here = Path(where)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in list(folders):
            if _is_store(here / name, endings):
                folders.remove(name)
                yield here / name
        for name in sorted(names):
            if not name.startswith(".") and Path(name).suffix.lower() in endings:
                yield here / name
