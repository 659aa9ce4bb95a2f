"""Where the data of a tensor lies that is not in the model's own file.

May import errors and input only. One rule holds for whatever reads a model: the file is
below the folder of the path that was given, or below that of the file to which this path
leads, as in the caches of downloads, whose files are links. All links are followed before
that is checked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from halfulp.errors import ModelError
from halfulp.input import open_regular, the_file


class ExternalData(NamedTuple):
    """Where the bytes of a tensor are.

    Attributes
    ----------
    path : pathlib.Path
        Of a regular file, without links.
    offset, length : int
        In bytes; the file has all of them.
    """

    path: Path
    offset: int
    length: int


def external_data(
    entries: Mapping[str, str], model: Path, nbytes: int, what: str
) -> ExternalData:
    """Return where the data of a tensor is.

    Parameters
    ----------
    entries : mapping of str to str
        ``external_data`` of the TensorProto: ``location``, ``offset``, ``length``.
    model : pathlib.Path
        Of the model, as it was given.
    nbytes : int
        Of its type and shape.
    what : str
        How errors name the tensor.

    Raises
    ------
    ModelError
        If the location is absolute, has ``..`` in it, or leads out of the model's
        folder; or if the file is not as long, or the tensor is longer or shorter.
    """
    path = _path(entries.get("location", ""), model, what)
    offset = _number(entries, "offset", 0, what)
    length = _number(entries, "length", nbytes, what)
    if length != nbytes:
        raise ModelError(f"{what} has {length} bytes; allowed by its shape: {nbytes}")
    with open_regular(path, raw=True) as file:
        size = os.fstat(file.fileno()).st_size
    if offset + length > size:
        # A pointer in place of the data is told as one.
        open_regular(path).close()
        raise ModelError(
            f"{what} has its data at {offset} to {offset + length} of "
            f"{entries['location']!r}; allowed: up to {size}, its end"
        )
    return ExternalData(path, offset, length)


def _path(location: str, model: Path, what: str) -> Path:
    folders = [os.path.realpath(model.parent), os.path.dirname(os.path.realpath(model))]
    parts = Path(location).parts
    missing = None
    if parts and not os.path.isabs(location) and not {"..", "\0"} & {*parts, *location}:
        for folder in folders:
            real = Path(os.path.realpath(os.path.join(folder, location)))
            if any(real.is_relative_to(allowed) for allowed in folders):
                if real.exists():
                    return real
                missing = missing or real
    if missing is not None:
        raise ModelError(f"{what}: {the_file(missing)} cannot be read: No such file")
    raise ModelError(
        f"{what} has its data in {location!r}; allowed: a file in the model's folder"
    )


def _number(entries: Mapping[str, str], key: str, default: int, what: str) -> int:
    text = entries.get(key, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ModelError(f"{what} has {key} {text[:40]!r}; allowed: a natural number")
    return int(text)
