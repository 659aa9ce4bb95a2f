"""The columns of Arrow files and streams, as Feather files are, by the package pyarrow.

May import errors, input, files' tensors and, beside it, chunked and columns only.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from halfulp.errors import ModelError
from halfulp.files.formats.chunked import package
from halfulp.files.formats.columns import Leaf, columns_of, leaves, opened_file
from halfulp.files.tensors import Skipped, Tensor, Wanted
from halfulp.input import the_file

_MAGIC = b"ARROW1"  # a file begins so, and a stream does not
_FEATHER_1 = b"FEA1"


def arrow_columns(path: Path, wanted: Wanted) -> Iterator[Tensor | Skipped]:
    """Yield the columns of an Arrow file or stream: fields of structs by path."""
    arrow = package("pyarrow", "arrow")
    with opened_file(arrow, path) as source:
        is_file, reader = _open(arrow, source, path, [])
        found, _ = leaves(arrow, reader.schema)
        rows = reader.count_rows() if is_file else 0
        if not is_file and len(reader.schema):
            # Only reading tells how many there are: of one column, so nothing is unpacked
            # but that.
            source.seek(0)
            _, reader = _open(arrow, source, path, [0])
            rows = sum(batch.num_rows for batch in reader)
    yield from columns_of(path, wanted, found, rows, partial(_batches, arrow, path))


def _open(arrow: Any, source: Any, path: Path, fields: list[int]) -> tuple[bool, Any]:
    """Return whether a file is no stream, and a reader of some columns of it, or all."""
    options = arrow.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
    beginning = source.read(len(_MAGIC))
    source.seek(0)
    if beginning.startswith(_FEATHER_1):
        raise ModelError(
            f"{the_file(path)} is of Feather's version 1; allowed: 2, which is Arrow's"
        )
    if beginning == _MAGIC:
        return True, arrow.ipc.open_file(source, options=options)
    return False, arrow.ipc.open_stream(source, options=options)


def _batches(arrow: Any, path: Path, leaf: Leaf) -> Generator[Any]:
    with opened_file(arrow, path) as source:
        is_file, reader = _open(arrow, source, path, [leaf.path[0]])
        if not is_file:
            yield from reader
            return
        for place in range(reader.num_record_batches):
            yield reader.get_batch(place)
