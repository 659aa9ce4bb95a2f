"""The columns of Parquet files, by the package pyarrow.

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

_ROWS = 2**17  # of a batch
_BUFFER = 2**20  # bytes that are read of a column at once, still packed


def parquet_columns(path: Path, wanted: Wanted) -> Iterator[Tensor | Skipped]:
    """Yield the columns of a Parquet file: fields of structs by path, as ``a.b``."""
    arrow, parquet = package("pyarrow", "arrow"), package("pyarrow.parquet", "arrow")
    with opened_file(arrow, path) as source:
        file = _open(parquet, source)
        found, count = leaves(arrow, file.schema_arrow)
        if count != file.metadata.num_columns:
            raise ModelError(
                f"{the_file(path)} has {file.metadata.num_columns} columns; allowed: "
                f"{count}, as its schema has"
            )
        rows = file.metadata.num_rows
    batches = partial(_batches, arrow, parquet, path)
    yield from columns_of(path, wanted, found, rows, batches)


def _open(parquet: Any, source: Any) -> Any:
    # Whole columns of a row group are never in memory, but a page of each that is read.
    return parquet.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False)


def _batches(arrow: Any, parquet: Any, path: Path, leaf: Leaf) -> Generator[Any]:
    with opened_file(arrow, path) as source:
        file = _open(parquet, source)
        # By number, since names may have dots, and be those of several.
        yield from file.reader.iter_batches(
            _ROWS,
            row_groups=range(file.metadata.num_row_groups),
            column_indices=[leaf.first],
            use_threads=False,
        )
