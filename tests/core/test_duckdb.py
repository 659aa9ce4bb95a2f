"""Aggregates of DuckDB's relations have the bits of each group's exact sum."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import halfulp
from halfulp.reductions import Reduction
from oracle import assert_same_bits, expected_of
from rows import by_row
from seed import SEED

duckdb = pytest.importorskip("duckdb")


@pytest.fixture
def database() -> Any:
    with duckdb.connect() as connection:
        yield connection


def aggregate(row: Reduction, *arguments: Any) -> pa.Table:
    if row.ord is not None:
        return halfulp.duckdb.vector_norm(*arguments, ord=row.ord)
    return getattr(halfulp.duckdb, row.name)(*arguments)


@by_row
def test_groups_of_a_relation_are_correctly_rounded(
    row: Reduction, database: Any
) -> None:
    rng = np.random.default_rng([SEED, 1])
    x = np.ldexp(rng.standard_normal(300), rng.integers(-40, 40, 300))
    table = pa.table({"k": rng.integers(0, 9, 300), "x": x})
    got = aggregate(row, database.from_arrow(table), "x", "k")
    found = dict(zip(*(column.to_pylist() for column in got.columns), strict=True))
    for key in range(9):
        want = expected_of(row, x[table["k"].to_numpy() == key])
        assert_same_bits(np.float64(found[key]), want)


def test_the_database_sums_to_other_bits_with_other_threads(database: Any) -> None:
    rng = np.random.default_rng([SEED, 2])
    n = 400_000  # several of the database's row groups, which its threads share
    x = np.ldexp(rng.standard_normal(n), rng.integers(-30, 30, n))
    codes = rng.integers(0, 50, n)
    database.sql("create table t (k int, x double)")
    database.append("t", pa.table({"k": codes, "x": x}).to_pandas())
    ours, theirs = [], []
    for threads, order in ((1, ""), (2, ""), (2, "order by x")):
        database.sql(f"set threads = {threads}")
        rows = database.sql(f"select * from t {order}")
        got = halfulp.duckdb.sum(rows, "x", by="k").sort_by("k")
        ours.append(got["sum(x)"].to_numpy())
        sums = database.sql(
            f"select sum(x) from ({rows.sql_query()}) group by k order by k"
        )
        theirs.append(sums.fetchnumpy()["sum(x)"])
    for each in ours:
        assert_same_bits(each, halfulp.sum(x, by=codes))
    assert any(each.tobytes() != theirs[0].tobytes() for each in theirs[1:])
    assert any(each.tobytes() != ours[0].tobytes() for each in theirs)


def test_null_counts_nowhere_and_makes_a_group_as_in_sql(database: Any) -> None:
    rows = "('a', 1), (null, 2), ('b', null), (null, 4), ('a', null), ('a', 5)"
    relation = database.sql(f"select k, x::int as x from (values {rows}) as t(k, x)")
    got = halfulp.duckdb.sum(relation, "x", by="k")
    assert got.schema.types == [pa.string(), pa.int64()]
    assert got.to_pylist() == [
        {"k": "a", "sum(x)": 6},
        {"k": None, "sum(x)": 6},
        {"k": "b", "sum(x)": None},
    ]
    own = "select k, sum(x)::bigint, avg(x) from relation group by k order by k"
    ours = "select k, s, m from sums order by k"
    sums = got.rename_columns(["k", "s"]).append_column(
        "m", halfulp.duckdb.mean(relation, "x", "k")["mean(x)"]
    )
    database.register("sums", sums)
    assert database.sql(own).fetchall() == database.sql(ours).fetchall()


def test_relations_of_no_rows(database: Any) -> None:
    relation = database.sql("select 1 as k, 2.5::float as x where false")
    assert halfulp.duckdb.sum(relation, "x").to_pylist() == [{"sum(x)": None}]
    got = halfulp.duckdb.sum(relation, "x", by="k")
    assert (got.num_rows, got.column_names) == (0, ["k", "sum(x)"])


@pytest.mark.parametrize(
    "key",
    [
        "x % 3",
        "'n' || (x % 3)",
        "x % 3 = 0",
        "(x % 3)::double / 0.5",
        "case x % 3 when 0 then 'nan'::double when 1 then -0.0 else 0.0 end",
        "case x % 2 when 0 then 'nan'::float else null end",
        "date '2020-01-01' + (x % 3)::int",
        "(x % 3)::decimal(9, 2)",
        "('b' || (x % 2))::blob",
        "(x % 3)::varchar::enum('0', '1', '2')",
        "make_timestamp_ns(x % 3)",
        "(x % 3)::hugeint",
    ],
)
def test_keys_of_any_type_are_told_apart_as_in_sql(database: Any, key: str) -> None:
    relation = database.sql(f"select {key} as k, x, x // 10 as j from range(100) as t(x)")
    got = halfulp.duckdb.sum(relation, "x", by="k")
    database.register("got", got)
    both = database.sql(
        'select got."sum(x)", own.s from got full join '
        "(select k, sum(x)::bigint as s from relation group by k) as own "
        "on got.k is not distinct from own.k"
    ).fetchall()
    assert len(both) == got.num_rows
    assert all(ours == own for ours, own in both)
    pairs = halfulp.duckdb.sum(relation, "x", by=["j", "k", "j"])
    count = "select count(*) from (select distinct j, k from relation)"
    assert pairs.num_rows == database.sql(count).fetchall()[0][0]


def test_groups_that_come_batch_by_batch(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "select (x * 7) % 1000 as k, 's' || (x % 13) as s, x from range(9000) as t(x)"
    relation = database.sql(query)
    want = halfulp.duckdb.sum(relation, "x", by=["s", "k"])
    monkeypatch.setattr(halfulp.duckdb, "_BATCH", 100)
    got = halfulp.duckdb.sum(relation, "x", by=["s", "k"])
    assert got.equals(want)
    own = "select s, k, sum(x)::bigint from relation group by s, k order by s, k"
    ours = got.sort_by([("s", "ascending"), ("k", "ascending")])
    assert database.sql(own).fetchall() == [tuple(r.values()) for r in ours.to_pylist()]


@pytest.mark.parametrize(
    ("type_", "result"),
    [
        ("tinyint", pa.int64()),
        ("ubigint", pa.uint64()),
        ("boolean", pa.int64()),
        ("float", pa.float64()),
    ],
)
def test_results_are_of_64_bits(database: Any, type_: str, result: pa.DataType) -> None:
    relation = database.sql(f'select (x % 2)::{type_} as "a ""x" from range(9) as t(x)')
    got = halfulp.duckdb.sum(relation, 'a "x')
    assert (got.schema.types, got.column(0).to_pylist()) == ([result], [4])


def test_bad_arguments_are_told(database: Any) -> None:
    relation = database.sql("select 1 as k, 'a' as s, [1] as l, 2.5 as d, 9::bigint as x")
    for arguments, message in [
        ((3, "x"), "relation is a int; allowed: a duckdb.DuckDBPyRelation"),
        ((relation, "y"), "column 'y' is not in the relation; allowed: 'k', 's', "),
        ((relation, "x", ["k", "z"]), "column 'z' is not in the relation"),
        ((relation, "x", 5), "by is 5; allowed: names of columns, or None"),
        ((relation, "s"), "column 's' has type string; allowed: floats, integers"),
        ((relation, "d"), r"column 'd' has type decimal128\(2, 1\)"),
        ((relation, "x", "l"), "column 'l' of by has type list"),
    ]:
        with pytest.raises(halfulp.HalfulpError, match=message):
            halfulp.duckdb.sum(*arguments)
    with pytest.raises(halfulp.ArgumentError, match="ord is inf; allowed: 1 and 2"):
        halfulp.duckdb.vector_norm(relation, "x", ord=np.inf)
    big = database.sql("select 9223372036854775807 as x from range(3)")
    with pytest.raises(halfulp.SumOverflowError, match="27670116110564327421"):
        halfulp.duckdb.sum(big, "x")


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = "import sys, halfulp; halfulp.duckdb; print('duckdb' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "False"
