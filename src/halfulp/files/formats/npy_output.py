"""Arrays written to .npy and .npz files block by block, whole or not at all.

May import errors and output only.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from halfulp.errors import ArgumentError
from halfulp.output import whole_file

Write = Callable[[npt.NDArray[Any]], None]
Order = Literal["C", "F"]
Begin = Callable[[str, tuple[int, ...], np.dtype[Any], Order], Write]


@contextmanager
def array_writer(path: Path | None) -> Iterator[Begin]:
    """Open an .npy or .npz file for a ``with`` block, to write arrays block by block.

    Returns
    -------
    context manager of a function
        It takes name, shape, dtype and order of an array, after the one before is
        complete, and returns a function that writes the next block. Without a path, none
        is written.

    Raises
    ------
    ArgumentError
        If the file cannot be written, or an .npy file is to hold several arrays.
    """
    if path is None:
        yield lambda name, shape, dtype, order: lambda block: None
        return
    with whole_file(path) as file:
        if path.suffix.lower() != ".npy":
            with zipfile.ZipFile(file, "w") as archive:
                yield from _members(archive)
            return
        names = []

        def begin(
            name: str, shape: tuple[int, ...], dtype: np.dtype[Any], order: Order
        ) -> Write:
            names.append(name)
            if len(names) > 1:
                raise ArgumentError(
                    f"the output {str(path)!r} can hold one array, not {names}; allowed: "
                    "an .npz file"
                )
            return _begin_array(file, shape, dtype, order)

        yield begin


def _members(archive: zipfile.ZipFile) -> Iterator[Begin]:
    members: list[IO[bytes]] = []

    def begin(
        name: str, shape: tuple[int, ...], dtype: np.dtype[Any], order: Order
    ) -> Write:
        close()
        file_name = f"{name}.npy"
        if file_name in archive.NameToInfo:
            raise ArgumentError(f"there are two arrays {name!r}; allowed: one of a name")
        try:
            members.append(archive.open(file_name, "w", force_zip64=True))
        except (ValueError, struct.error) as error:
            raise ArgumentError(
                f"the array {name[:40]!r} cannot be in an .npz file: {error}"
            ) from error
        return _begin_array(members[0], shape, dtype, order)

    def close() -> None:
        if members:
            members.pop().close()

    try:
        yield begin
    finally:
        close()


def _begin_array(
    file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any], order: Order
) -> Write:
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": order == "F",
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(file, header)

    def write(block: npt.NDArray[Any]) -> None:
        file.write(block.tobytes())

    return write
