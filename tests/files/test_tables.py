"""Columns of Parquet and Arrow files: their sums are those of arrays in memory."""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfulp
from command_line import facts, fail
from halfulp import HalfulpError, SumSquare
from halfulp.cli import main
from halfulp.files.formats import columns
from halfulp.files.formats.by_ending import find_tensors
from halfulp.files.sums.statistics import statistics_facts, statistics_of
from oracle import TYPES
from seed import SEED
from summed_files import sum_files

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = 1000
PART = 300  # rows of a row group or batch


def save_parquet(path: Path, table: Any) -> None:
    parquet.write_table(table, path, row_group_size=PART)


def save_arrow(path: Path, table: Any, compression: str | None = None) -> None:
    new = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (
        pa.OSFile(str(path), "wb") as file,
        new(file, table.schema, options=options) as w,
    ):
        w.write_table(table, max_chunksize=PART)


FORMS: dict[str, Callable[[Path, Any], None]] = {
    "x.parquet": save_parquet,
    "x.arrow": save_arrow,
    "x.arrows": save_arrow,
    "x.feather": lambda path, table: save_arrow(path, table, "zstd"),
}


@pytest.fixture(params=FORMS)
def save(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Any], Path]:
    """A function that saves a table in one of the forms."""

    def saved(table: Any) -> Path:
        FORMS[request.param](tmp_path / request.param, table)
        return tmp_path / request.param

    return saved


def told(path: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for tensor in find_tensors(path, [], False)[0]:
        statistics = statistics_of(tensor, lambda more: None)
        found[tensor.name] = statistics_facts(tensor, statistics, 0)
    return found


NAMES = [np.dtype(t).name for t in TYPES if np.dtype(t).name != "bfloat16"]


def test_columns_of_every_type_have_the_sums_of_their_elements(
    save: Callable[[Any], Path], rng: np.random.Generator, small_pieces: None
) -> None:
    names = [*NAMES, "int8", "int16", "uint8", "uint16", "bool"]
    there = {n: rng.random(ROWS) < rng.choice([0.0, 0.5, 1.0]) for n in names}
    arrays = {n: (rng.standard_normal(ROWS) * 40 + 90).astype(n) for n in names}
    arrays["uint64"][:] = rng.integers(0, 2**64, ROWS, np.uint64)
    there["uint64"][:] = np.arange(ROWS) < 1
    table = pa.table({n: pa.array(x, mask=~there[n]) for n, x in arrays.items()})
    path = save(table)
    facts_of = told(path)
    assert list(facts_of) == names
    totals = sum_files(path)
    for name, x in arrays.items():
        elements = x[there[name]]
        one = facts_of[name]
        assert (one["elements"], one["shape"]) == (len(elements), [ROWS])
        assert one["nulls"] == ROWS - len(elements)
        wide = elements.astype("i4") if elements.dtype == bool else elements
        total = halfulp.sum(wide, dtype="f8") if wide.dtype.kind == "f" else wide.sum()
        assert one["sum"] == total
        (state,) = (s for (n, _), s in totals.exact_sums.items() if n == name)
        assert state == SumSquare(state.type).update(elements.astype(state.dtype))


def test_the_first_nan_is_told_by_its_row(
    save: Callable[[Any], Path], rng: np.random.Generator, small_pieces: None
) -> None:
    x = rng.standard_normal(ROWS)
    there = rng.random(ROWS) < 0.7
    odd = rng.random(ROWS) < 0.01
    there[777] = odd[777] = True
    x[odd] = np.nan
    found = told(save(pa.table({"x": pa.array(x, mask=~there)})))["x"]
    marked = np.flatnonzero(odd & there)
    assert (found["nan"], found["first_nan"]) == (len(marked), [int(marked[0])])


def test_fields_are_named_by_path_and_the_rest_is_told(
    save: Callable[[Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    n = 7
    place = pa.array(
        [{"lat": 1.5, "at": {"lon": i}} if i % 3 else None for i in range(n)]
    )
    others = {
        "list": pa.array([[{"a": 1.0, "b": 2}]] * n),
        "map": pa.array([[("k", 1)]] * n, pa.map_(pa.string(), pa.int32())),
        "text": pa.array(["a"] * n),
        "price": pa.array([decimal.Decimal("1.5")] * n),
        "when": pa.array([0] * n, pa.timestamp("us")),
        "kind": pa.array(["a"] * n).dictionary_encode(),
        "none": pa.nulls(n),
    }
    # Columns behind others of several columns, and one whose name has a dot.
    last = {"place": place, "place.lat": pa.array(np.arange(n, dtype="f4"))}
    path = save(pa.table(others | last))
    found = facts(["stats", str(path)], capsys)
    rows = [(r["name"], r["type"], r["sum"], r["nulls"]) for r in found["tensors"]]
    assert rows == [
        ("place.lat", "double", 6.0, 3),
        ("place.at.lon", "int64", 1 + 2 + 4 + 5, 3),
        ("place.lat", "float", 21.0, 0),
    ]
    assert found["nulls"] == 6
    skipped = {s["name"]: s["type"] for s in found["skipped"]}
    assert list(skipped) == list(others)
    assert skipped["price"] == "decimal128(2, 1)"
    assert main(["sum", str(path)]) == 0
    out = capsys.readouterr().out
    assert "not counted: 6 nulls" in out
    assert "timestamp[us]" in out
    (row,) = facts(["sum", str(path), "--tensor", "place.at*", "--axis", "0"], capsys)[
        "results"
    ]
    assert (row["elements"], row["first_values"]) == (4, [46])
    assert "type string" in fail(["sum", str(path), "--tensor", "text"], capsys)


def test_a_table_of_no_rows_or_no_columns_is_one(
    save: Callable[[Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(pa.table({"x": pa.array([], pa.float64())}))
    (row,) = facts(["stats", str(path)], capsys)["tensors"]
    assert (row["shape"], row["elements"], row["sum"]) == ([0], 0, 0.0)
    assert facts(["sum", str(save(pa.table({})))], capsys)["tensors"] == 0


def test_a_row_group_is_never_in_memory_whole(tmp_path: Path) -> None:
    x = np.random.default_rng(SEED).standard_normal(2**21)
    parquet.write_table(pa.table({"x": x}), tmp_path / "x.parquet", row_group_size=2**21)
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    peak = 0
    (tensor,), _ = find_tensors(tmp_path / "x.parquet", [], False)

    def look(more: int) -> None:
        nonlocal peak
        peak = max(peak, pool.bytes_allocated() - before)

    statistics = statistics_of(tensor, look)
    assert statistics_facts(tensor, statistics, 0)["sum"] == halfulp.sum(x)
    assert 0 < peak < x.nbytes // 2


def test_damaged_files_give_one_error_each(
    save: Callable[[Any], Path], rng: np.random.Generator
) -> None:
    mask = rng.random(ROWS) < 0.3
    x = pa.array(rng.standard_normal(ROWS), mask=mask)
    path = save(pa.table({"x": x, "p": [{"a": i} for i in range(ROWS)]}))
    content = path.read_bytes()
    chance = random.Random(SEED)
    errors = []
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(chance.choice([1, 3])):
            # As many in the descriptions, which are at the end or the beginning.
            place = chance.randrange(len(content))
            if chance.random() < 0.5:
                place = place % 1000 - (1000 if path.suffix != ".arrows" else 0)
            damaged[place] = chance.choice([0, 0x7F, 0xFF, chance.randrange(256)])
        path.write_bytes(damaged[: chance.choice([len(content)] * 3 + [place])])
        try:
            told(path)
        except HalfulpError as error:
            errors.append(str(error))
    assert len(errors) > 5
    assert all(str(path) in error and "\n" not in error for error in errors)


def test_what_claims_more_than_it_has_is_told_before_memory_is_taken(
    save: Callable[[Any], Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = save(pa.table({"x": np.random.default_rng(SEED).standard_normal(ROWS)}))
    command = ["sum", str(path)]
    whole = path.read_bytes()
    for length in (0, 1, 8, len(whole) // 2, len(whole) - 20):
        path.write_bytes(whole[:length])
        if length < len(whole) - 20 or path.suffix != ".arrows":
            assert str(path) in fail(command, capsys)
    path.write_bytes(whole)
    (tensor,), _ = find_tensors(path, [], False)
    for rows, words in (
        (ROWS + 1, "ends early, at row 1000"),
        (ROWS - 1, "more rows than"),
    ):
        tensor.shape = (rows,)
        with pytest.raises(HalfulpError, match=words):
            statistics_of(tensor, lambda more: None)
    monkeypatch.setattr(columns, "_MOST_READ", 100)
    assert "has a part of" in fail(command, capsys)


def test_the_first_version_of_feather_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.feather").write_bytes(b"FEA1" + bytes(100))
    assert "version 1; allowed: 2" in fail(["sum", str(tmp_path / "x.feather")], capsys)
