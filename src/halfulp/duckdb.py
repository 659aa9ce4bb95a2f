"""Exact aggregates of DuckDB's relations: one row a group, whatever runs where.

May import element_types, errors, groups, reductions and spec.rules only; and the packages
duckdb and pyarrow, when a function needs them.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from halfulp.arrays import Array
from halfulp.element_types import BY_NAME, ElementType, data_type, widened
from halfulp.errors import ArgumentError, EngineError, UnsupportedTypeError, shown
from halfulp.groups import GroupSums
from halfulp.reductions import MEAN, SUM, SUM_SQUARE, Reduction
from halfulp.spec.rules import norm_of

__all__ = ["mean", "sum", "sum_square", "vector_norm"]

# Rows that leave the database at once; each time all groups are looked through.
_BATCH = 1 << 20

# Most groups that pairs of columns are told apart by.
_MOST_KEYS = 1 << 31


def __dir__() -> list[str]:
    return sorted(__all__)


def sum(relation: Any, column: str, by: str | Sequence[str] | None = None) -> Any:
    """Sum a column of each group, correctly rounded.

    Parameters
    ----------
    relation : duckdb.DuckDBPyRelation
        What is summed: a table, a file or a query, of any size. It is read once, in
        batches; only the groups are in memory.
    column : str
        Of floats, integers of up to 64 bits or booleans.
    by : str or sequence of str, optional
        The columns whose values make a group; NULL makes one too, as in SQL. Default: all
        rows are one group.

    Returns
    -------
    pyarrow.Table
        The columns of `by` and the results, named as in DuckDB, ``sum(x)``; a row for
        each group, in the order of its first row. DuckDB, pandas and Polars read it.
        Results are DOUBLE of floats, BIGINT of integers and UBIGINT of unsigned ones.

    Raises
    ------
    ArgumentError, UnsupportedTypeError
        Before any work, if the relation has no such columns, or of other types.
    SumOverflowError
        If an integer result does not fit.
    EngineError
        If duckdb or pyarrow is missing.

    Notes
    -----
    The exact sum of each group, rounded once: the same bits for any order of rows and
    number of threads, of which the database's own ``sum`` makes others. NULL does not
    count, and a group of nothing else is NULL. Each group takes as many bytes as its
    exact sum, 288 of DOUBLE, and its key.

    Examples
    --------
    >>> import duckdb
    >>> import halfulp
    >>> rows = "('a', 1e16), ('b', 5.5), ('a', 1), ('a', -1e16)"
    >>> relation = duckdb.sql(f"select k, x::double as x from (values {rows}) as t(k, x)")
    >>> halfulp.duckdb.sum(relation, "x", by="k").to_pylist()
    [{'k': 'a', 'sum(x)': 1.0}, {'k': 'b', 'sum(x)': 5.5}]
    >>> halfulp.duckdb.sum(relation, "x").to_pylist()
    [{'sum(x)': 6.5}]
    """
    return _aggregate(SUM, "sum", relation, column, by)


def mean(relation: Any, column: str, by: str | Sequence[str] | None = None) -> Any:
    """Average a column of each group, correctly rounded.

    Parameters, result and errors are those of `sum`; results are DOUBLE.

    Examples
    --------
    >>> import duckdb
    >>> import halfulp
    >>> relation = duckdb.sql("select range % 2 as k, range as x from range(5)")
    >>> halfulp.duckdb.mean(relation, "x", by="k").to_pylist()
    [{'k': 0, 'mean(x)': 2.0}, {'k': 1, 'mean(x)': 2.0}]
    """
    return _aggregate(MEAN, "mean", relation, column, by)


def sum_square(relation: Any, column: str, by: str | Sequence[str] | None = None) -> Any:
    """Sum the squares of a column of each group, correctly rounded.

    Parameters, result and errors are those of `sum`.
    """
    return _aggregate(SUM_SQUARE, "sum_square", relation, column, by)


def vector_norm(
    relation: Any,
    column: str,
    by: str | Sequence[str] | None = None,
    *,
    ord: float = 2,
) -> Any:
    """Return the norm of a column of each group, correctly rounded.

    Parameters, result and errors are those of `sum`; results are DOUBLE. `ord` is 1 or 2.
    """
    row = norm_of(ord)
    if row.operation != "sum":
        raise ArgumentError(f"ord is {ord}; allowed: 1 and 2")
    return _aggregate(row, "vector_norm", relation, column, by)


def _aggregate(
    row: Reduction,
    name: str,
    relation: Any,
    column: str,
    by: str | Sequence[str] | None,
) -> Any:
    duckdb, pa = _package("duckdb"), _package("pyarrow")
    if not isinstance(relation, duckdb.DuckDBPyRelation):
        raise ArgumentError(
            f"relation is a {type(relation).__name__}; allowed: a "
            "duckdb.DuckDBPyRelation, as duckdb.sql returns"
        )
    if not isinstance(by, str | Sequence | None):
        raise ArgumentError(f"by is {shown(by)}; allowed: names of columns, or None")
    keys = [by] if isinstance(by, str) else list(by or ())
    for each in (column, *keys):
        if each not in relation.columns:
            raise ArgumentError(
                f"column {shown(each)} is not in the relation; allowed: "
                f"{', '.join(map(repr, relation.columns))}"
            )
    quoted = ['"' + each.replace('"', '""') + '"' for each in (*keys, column)]
    # By place: a column may be its own key.
    named = ", ".join(f"{each} as c{i}" for i, each in enumerate(quoted))
    reader = relation.project(named).to_arrow_reader(_BATCH)
    source = _element_type(column, reader.schema.field(len(keys)).type)
    for each, field in zip(keys, reader.schema, strict=False):
        _check_key(each, field.type)
    groups = _Keys([field.type for field in list(reader.schema)[: len(keys)]])
    sums = GroupSums(row.term, source)
    if not keys:
        sums.update(np.zeros(0, source.dtype), np.zeros(0, np.int64), 1)
    for batch in reader:
        codes = groups.codes(batch)
        values = batch.column(len(keys))
        codes[~values.is_valid().to_numpy(zero_copy_only=False)] = -1
        filled = values.fill_null(False if pa.types.is_boolean(values.type) else 0)
        sums.update(filled.to_numpy(zero_copy_only=False), codes, len(groups))
    real = source.kind == "float" or row.finish != "none" or row.ord is not None
    into = BY_NAME["double"] if real else row.result_of(source)
    results = sums.result(row.finish, into, checked=True)
    made = pa.array(results, mask=sums.counts == 0)
    return pa.table([*groups.values(), made], [*keys, f"{name}({column})"])


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise EngineError(f"{name} is missing; install halfulp[duckdb]") from error


def _element_type(column: str, type_: Any) -> ElementType:
    types = _package("pyarrow").types
    is_number = types.is_integer(type_) or types.is_boolean(type_)
    if not is_number and not types.is_floating(type_):
        raise UnsupportedTypeError(
            f"column {column!r} has type {type_}; allowed: floats, integers of up to 64 "
            "bits, booleans, or a cast to them"
        )
    return widened(data_type(np.dtype(type_.to_pandas_dtype()), f"column {column!r} has"))


def _check_key(column: str, type_: Any) -> None:
    types = _package("pyarrow").types
    if types.is_nested(type_) or types.is_interval(type_):
        raise UnsupportedTypeError(
            f"column {column!r} of by has type {type_}; allowed: what is no list, "
            "struct, map, union or interval"
        )


class _Keys:
    """The values that make groups, in the order in which they were met.

    NaN is one value and -0 is 0, as in SQL.
    """

    def __init__(self, types: Sequence[Any]) -> None:
        self._columns = [_Values(type_) for type_ in types]
        # A group of the first columns, and the place of a value of the next: a pair for
        # each group of all of these.
        self._pairs: list[Array] = [np.zeros(0, np.int64) for _ in types[1:]]

    def __len__(self) -> int:
        if not self._columns:
            return 1
        return len(self._pairs[-1]) if self._pairs else len(self._columns[0])

    def codes(self, batch: Any) -> Array:
        """Return the group of each row."""
        if not self._columns:
            return np.zeros(batch.num_rows, np.int64)
        codes = self._columns[0].places(batch.column(0))
        for i, column in enumerate(self._columns[1:]):
            pair = codes * _MOST_KEYS + column.places(batch.column(i + 1))
            known, codes = _places(self._pairs[i], pair)
            self._pairs[i] = known
            if len(known) >= _MOST_KEYS:
                raise ArgumentError(f"by makes {len(known)} groups; allowed: below 2**31")
        return codes

    def values(self) -> list[Any]:
        """Return the values of each group, a column for each of `by`."""
        columns = []
        places = np.arange(len(self))
        for column, pairs in zip(self._columns[:0:-1], self._pairs[::-1], strict=True):
            columns.append(column.known.take(pairs[places] % _MOST_KEYS))
            places = pairs[places] // _MOST_KEYS
        for column in self._columns[:1]:
            columns.append(column.known.take(places))
        return columns[::-1]


def _places(known: Array, new: Array) -> tuple[Array, Array]:
    """Return the numbers met so far, in their order, and the place of each new one."""
    found, first, inverse = np.unique(new, return_index=True, return_inverse=True)
    order = np.argsort(known, kind="stable")
    at = np.searchsorted(known[order], found)
    at_most = np.minimum(at, max(0, len(known) - 1))
    is_known = np.zeros(len(found), bool)
    places = np.zeros(len(found), np.int64)
    if len(known):
        is_known = known[order][at_most] == found
        places = order[at_most]
    missing = np.flatnonzero(~is_known)
    missing = missing[np.argsort(first[missing])]
    places[missing] = len(known) + np.arange(len(missing))
    return np.concatenate([known, found[missing]]), places[inverse]


class _Values:
    """The different values of a column, in the order in which they were met."""

    def __init__(self, type_: Any) -> None:
        pa = _package("pyarrow")
        if pa.types.is_dictionary(type_):
            type_ = type_.value_type
        self.known = pa.array([], type_)

    def __len__(self) -> int:
        return len(self.known)

    def places(self, column: Any) -> Array:
        """Return the place of each value; those not met yet come to the others."""
        pa, pc = _package("pyarrow"), _package("pyarrow.compute")
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_floating(column.type):
            one_nan = pa.scalar(float("nan"), column.type)
            zero = pa.scalar(0.0, column.type)
            column = pc.if_else(pc.is_nan(column), one_nan, pc.add(column, zero))
        encoded = column.dictionary_encode(null_encoding="encode")
        values = encoded.dictionary
        is_new = pc.is_null(pc.index_in(values, value_set=self.known, skip_nulls=False))
        new = values.filter(is_new)
        self.known = pa.concat_arrays([self.known, new])
        places = pc.index_in(values, value_set=self.known, skip_nulls=False)
        result: Array = places.to_numpy(zero_copy_only=False).astype(np.int64)[
            encoded.indices.to_numpy(zero_copy_only=False)
        ]
        return result
