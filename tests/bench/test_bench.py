"""The benchmark measures what it says; none of its figures is judged here."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import halfulp
from contrast import contrast
from halfulp import cli, output
from halfulp.bench import goals, measure, plot, report, results, sessions
from halfulp.bench.accuracy import (
    ACCURACY_TYPES,
    DISTRIBUTIONS,
    error_in_ulps,
    errors_of,
    result_of_integers,
)
from halfulp.bench.cells import (
    CELLS,
    FAMILIES,
    FLOATS,
    OTHERS,
    ROWS,
    SUMS,
    TYPES,
    Cell,
)
from halfulp.bench.child import answers, environment
from halfulp.bench.machine import describe
from halfulp.bench.memory import extra_memory
from halfulp.bench.ours import ours
from halfulp.bench.peers import PEERS, Peer, as_array
from halfulp.bench.results import Benchmark, Errors, Measured
from halfulp.bench.sessions import (
    EXPRESSION,
    SESSION_CELLS,
    SESSION_TYPES,
    measure_sessions,
)
from halfulp.bench.values import hard_rows
from halfulp.element_types import ElementType
from halfulp.errors import ArgumentError, HalfulpError
from halfulp.exact import exact, round_exact
from halfulp.reductions import BY_OPERATOR, L1, MEAN, SUM, SUM_SQUARE, Reduction
from halfulp.report.html import DARK, LIGHT
from oracle import PRECISION, from_bits

EFFORT = measure.Effort(repeats=1, turn_ns=0, hopeless_after=1)
NUMPY = next(peer for peer in PEERS if peer.name == "numpy")
PEERS_SHOWN = {"peers": {"sum_square": {"numpy": NUMPY.expression}}}
# What these libraries have no kernel for, which a run records as missing.
DOUBLE = TYPES["float64"]
REFUSED = {
    ("onnxruntime", "bfloat16"),
    ("onnxruntime", "uint32"),
    ("onnxruntime", "uint64"),
    ("torch.sum", "uint32"),
    ("torch.sum", "uint64"),
    ("torch.abs", "uint32"),
    ("torch.abs", "uint64"),
    *((f"torch.{name}", f"uint{n}") for name in ("amax", "amin") for n in (32, 64)),
}


def smaller(cell: Cell) -> Cell:
    shape = tuple(min(n, 6 + i) for i, n in enumerate(cell.shape))
    return dataclasses.replace(cell, shape=shape, nbytes=512)


def a_run(reduction: str = "sum_square") -> Benchmark:
    """A run of made-up figures."""
    rows = []
    for type_name, element in TYPES.items():
        for cell in CELLS.values():
            if type_name in cell.types and reduction in cell.reductions:
                row = Measured(cell.name, type_name, 1, cell.bytes_touched(element))
                row.reduction = reduction
                ns = row.nbytes / 10
                row.times = {"limit": [ns, ns / 2], "halfulp": [ns], "numpy": [3 * ns]}
                second = "numkong.moments" if reduction == "sum_square" else "bottleneck"
                row.times[second] = [2 * ns]
                row.missing = {"onnxruntime": "NotImplemented: no kernel | here"}
                row.extra_memory = 123456
                if cell.values != "ordinary":
                    row.times = {"limit": [ns], "halfulp": [ns]}
                    row.times[results.ORDINARY] = [ns]
                rows.append(row)
    rows.append(Measured("flat", "float32", 2, 1 << 26, skipped="needs 4 GiB"))
    return Benchmark("speed", "halfulp bench", describe(["onnx"]), PEERS_SHOWN, rows)


def accuracy_run() -> Benchmark:
    rows = [
        Errors(type_name, values, who, 10**i, [0.0, i / 10])
        for type_name in ACCURACY_TYPES
        for values in DISTRIBUTIONS
        for who in ("halfulp", "numpy")
        for i in range(1, 8)
    ]
    rows.append(Errors("float32", "normal", "torch", 10, [], "ImportError: none"))
    return Benchmark(
        "accuracy", "halfulp bench accuracy", describe([]), PEERS_SHOWN, rows
    )


def sessions_run() -> Benchmark:
    rows = []
    for type_name in SESSION_TYPES:
        for cell in SESSION_CELLS.values():
            if "sum_square" not in cell.reductions:
                continue
            for threads in (1, 2):
                nbytes = cell.bytes_touched(TYPES[type_name])
                row = Measured(cell.name, type_name, threads, nbytes)
                row.times = {"halfulp": [nbytes / 10]}
                if type_name.startswith("u"):
                    row.missing = {results.RUNTIME: "NotImplemented: no kernel"}
                else:
                    row.times[results.RUNTIME] = [nbytes / threads]
                rows.append(row)
    settings = {"peers": {"sum_square": {results.RUNTIME: EXPRESSION}}}
    return Benchmark(
        "onnxruntime", "halfulp bench onnxruntime", describe([]), settings, rows
    )


RUNS = [a_run(), a_run("sum"), accuracy_run(), sessions_run()]


def chosen(cells: Iterable[Cell]) -> Iterator[tuple[Cell, Reduction, str]]:
    """What is measured: cells, reductions and types."""
    for cell in cells:
        for name in cell.reductions:
            for type_name in cell.types:
                yield cell, ROWS[name], type_name


# --- the cells


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_builds_what_it_says(name: str) -> None:
    for cell, reduction, type_name in chosen([smaller(CELLS[name])]):
        element = TYPES[type_name]
        x = cell.build(element, reduction)
        assert x.dtype == element.dtype
        assert len({*x.ravel().view(f"u{x.itemsize}").tolist()}) > 1
        touched = x.nbytes * (2 if cell.layout == "every second" else 1)
        assert cell.bytes_touched(element) == touched
        assert x.ndim == len(cell.memory_shape(element))
        assert np.array_equal(cell.build(element, reduction), x)
        if not cell.update:
            call, names = ours(cell, reduction, x)
            expected = round_exact_all(reduction, exact(reduction, x, cell.axes), element)
            np.testing.assert_array_equal(eval(call, dict(names)), expected)


def round_exact_all(reduction: Reduction, value: Any, element: ElementType) -> Any:
    """Exact results, rounded to the type that the function gives."""
    dtype = reduction.result_of(element).dtype
    if not isinstance(value, np.ndarray):
        return round_exact(value, dtype)
    rounded = [round_exact(v, dtype) for v in value.ravel()]
    return np.array(rounded, dtype).reshape(value.shape)


def test_every_reduction_has_the_cells_that_its_goals_are_of() -> None:
    for reduction in (row.name for row in SUMS):
        names = {cell.name for cell in CELLS.values() if reduction in cell.reductions}
        assert {"rows", "columns", "short-rows", "small", "ties-rows"} <= names
    for reduction in ("sum", "l1", "sum_square"):
        names = {cell.name for cell in CELLS.values() if reduction in cell.reductions}
        assert {"flat", "middle", "channels", "64MiB", "1GiB", "zeros-rows"} <= names
    for reduction in (row.name for row in OTHERS):
        names = {cell.name for cell in CELLS.values() if reduction in cell.reductions}
        assert {"joined-flat", "joined-columns", "joined-short-rows"} <= names


def test_cells_have_the_sizes_that_their_names_promise() -> None:
    sizes = {
        "4KiB": 2**12,
        "64KiB": 2**16,
        "1MiB": 2**20,
        "64MiB": 2**26,
        "1GiB": 2**30,
        "1GiB-columns": 2**30,
    }
    for name, nbytes in sizes.items():
        assert {CELLS[name].bytes_touched(t) for t in TYPES.values()} == {nbytes}
    assert CELLS["small"].bytes_touched(TYPES["float32"]) == 256
    assert CELLS["strided"].bytes_touched(TYPES["float16"]) == 2**25


def test_cells_by_length_have_results_of_so_many_elements() -> None:
    for name in FAMILIES["lengths"]:
        cell = CELLS[name]
        assert cell.axes is not None
        for type_name in cell.types:
            shape = cell.memory_shape(TYPES[type_name])
            assert shape[cell.axes[0]] == cell.length, name
            assert str(cell.length) in name.split("-")
            assert 0.9999 < cell.bytes_touched(TYPES[type_name]) / 2**26 <= 1


def test_layouts_are_what_they_are_called() -> None:
    element = TYPES["float32"]
    arrays = {
        name: smaller(cell).build(element, SUM_SQUARE) for name, cell in CELLS.items()
    }
    assert arrays["rows"].flags.c_contiguous
    assert arrays["fortran-0"].flags.f_contiguous
    assert not arrays["fortran-1"].flags.c_contiguous
    assert arrays["strided"].strides == (8,)
    assert arrays["reversed"].strides == (-4,)


@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.parametrize("reduction", SUMS, ids=lambda row: row.name)
@pytest.mark.parametrize("length", [16, 4096])
def test_every_result_of_a_cell_of_ties_is_a_tie(
    reduction: Reduction, type_name: str, length: int
) -> None:
    precision = PRECISION[type_name]
    rows = hard_rows("ties", (300, length), TYPES[type_name], reduction)
    for value in exact(reduction, rows[:40], 1):
        scaled = Fraction(value) * (length if reduction.finish == "mean" else 1)
        assert scaled.denominator == 1
        assert scaled.numerator % 2 == 1
        assert scaled.numerator.bit_length() == precision + 1
    assert (rows[256:] == rows[:44]).all()
    assert len({row.tobytes() for row in rows[:256]}) > 200


@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.parametrize("length", [16, 4096])
def test_hard_sums_are_zero_or_an_ulp_of_an_element(type_name: str, length: int) -> None:
    element = TYPES[type_name]
    for reduction in SUMS:
        rows = hard_rows("zeros", (20, length), element, reduction)
        assert set(exact(reduction, rows, 1)) == {0}
        if reduction.term == "value":
            assert len({*np.abs(rows[0]).tolist()}) >= length // 8
    rows = hard_rows("cancel", (20, length), element, SUM)
    for row, total in zip(rows, halfulp.exact_sum(rows, 1), strict=True):
        ulp = np.abs(row[0].astype(np.float64) + row[-1].astype(np.float64))
        assert abs(total) == Fraction(float(ulp)) != 0
        assert abs(total) < Fraction(float(np.abs(row[0]))) / 2 ** (element.precision - 2)


# --- peers


@pytest.mark.parametrize(
    "peer", PEERS, ids=lambda peer: f"{peer.reduction.name}-{peer.name}"
)
def test_a_peer_computes_the_same_reduction(peer: Peer) -> None:
    pytest.importorskip(peer.library)
    computed = 0
    reduction = peer.reduction
    for cell, row, type_name in chosen(CELLS.values()):
        if row != reduction or cell.layout in ("every second", "reversed"):
            continue
        if cell.values != "ordinary" and not peer.is_exact:
            continue
        element = TYPES[type_name]
        x = smaller(cell).build(element, reduction)
        if not peer.applies(x, cell.axes):
            continue
        if (peer.name, type_name) in REFUSED:
            with pytest.raises(Exception, match=r"(?i)implement"):
                eval(peer.expression, dict(peer.prepare(x, cell.axes, 1)))
            continue
        value = eval(peer.expression, dict(peer.prepare(x, cell.axes, 1)))
        got = as_array(value).astype(np.float64)
        want = np.asarray(
            round_exact_all(reduction, exact(reduction, x, cell.axes), DOUBLE)
        )
        assert got.shape == want.shape
        tolerance = {"bfloat16": 0.2, "float16": 0.01}.get(type_name, 1e-5)
        if peer.is_exact:
            assert (got == want).all(), cell.name
        size = want
        if reduction.term == "value":  # and so perhaps much smaller than its terms
            terms = round_exact_all(L1, exact(L1, x, cell.axes), DOUBLE)
            size = terms / (x.size // got.size if reduction == MEAN else 1)
            tolerance /= 10
        assert (np.abs(got - want) <= tolerance * size).all(), cell.name
        computed += 1
    assert computed


def test_peers_that_raise_or_are_not_there_are_missing_with_the_reason() -> None:
    absent = dataclasses.replace(
        NUMPY, name="absent", prepare=lambda *_: {"x": importlib.import_module("absent")}
    )
    broken = dataclasses.replace(NUMPY, name="broken", expression="1 / 0\n")
    idle = dataclasses.replace(NUMPY, name="idle", applies=lambda x, axes: False)
    peers = [NUMPY, absent, broken, idle]
    row = measure.measure(CELLS["small"], SUM_SQUARE, "float32", 1, peers, EFFORT)
    assert row.reduction == "sum_square"
    assert row.times.keys() == {"limit", "halfulp", "numpy"}
    assert row.missing == {
        "absent": "ModuleNotFoundError: No module named 'absent'",
        "broken": "ZeroDivisionError: division by zero",
    }


def test_halfulp_is_compared_with_itself_in_turns() -> None:
    ties = dataclasses.replace(CELLS["ties-columns"], shape=(64, 256))
    row = measure.measure(ties, SUM, "float32", 2, [NUMPY], EFFORT)
    assert set(row.times) == results.NO_PEERS
    assert row.peers == []


def test_what_is_exact_is_timed_on_hard_values_too_and_is_no_peer_to_beat() -> None:
    fsum = next(peer for peer in PEERS if peer.name == "math.fsum")
    cancel = dataclasses.replace(CELLS["cancel"], shape=(1 << 12,))
    row = measure.measure(cancel, SUM, "float64", 1, [NUMPY, fsum], EFFORT)
    assert row.times.keys() == {"limit", "halfulp", results.ORDINARY, "math.fsum"}
    assert row.peers == []
    (table,) = (t for t in report.tables(run_of([row])) if "Exact" in t.title)
    each = row.best("math.fsum") / 4096
    assert table.head == ("cell", "halfulp", "math.fsum")
    assert table.rows[0][2] == f"{each:.2f}"


def run_of(rows: list[Measured]) -> Benchmark:
    return dataclasses.replace(a_run(), rows=rows)


def test_a_cell_that_does_not_fit_memory_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "memory_bytes", lambda name: 1 << 20)
    row = measure.measure(CELLS["1MiB"], SUM_SQUARE, "int32", 1, [NUMPY], EFFORT)
    assert row.times == {}
    assert row.skipped == "needs 4 MiB of memory, 1 MiB are free"


def test_two_sessions_are_compared_in_every_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "SMALL_CALLS", 10)
    for cell in map(smaller, SESSION_CELLS.values()):
        for reduction in BY_OPERATOR.values():
            row = measure_sessions(cell, reduction, "float64", 1, EFFORT)
            assert row.times.keys() == {"halfulp", "onnxruntime"}
            assert not row.missing
            assert row.reduction == reduction.name


def test_hopeless_peers_have_few_turns() -> None:
    effort = measure.Effort(repeats=3, turn_ns=0, hopeless_after=1)
    times: dict[str, list[float]] = {}
    constant = {"limit": 1, "halfulp": 100, "fast": 2, "slow": 3, "hopeless": 9}
    timed = {name: lambda ns=ns: ns for name, ns in constant.items()}
    measure.take_turns(timed, effort, times)
    counts = {name: len(values) for name, values in times.items()}
    assert counts == {"limit": 3, "halfulp": 3, "fast": 3, "slow": 3, "hopeless": 1}


def test_nothing_of_the_peers_is_imported_before_it_is_measured() -> None:
    code = (
        "import sys, halfulp.cli, halfulp.commands.bench, halfulp.bench.peers\n"
        "halfulp.cli.main(['--help'])\n"
        "names = {'torch', 'onnxruntime', 'numkong', 'bottleneck'}\n"
        "assert not names & set(sys.modules), names & set(sys.modules)\n"
        "code = halfulp.cli.main(['bench', '--help'])\n"
        "assert not names & set(sys.modules), names & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


# --- the process that measures


def test_blas_has_one_thread_and_nothing_that_slows_it() -> None:
    present = {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "8", "HOME": "x"}
    env = environment(present)
    assert env["HOME"] == "x"
    assert env["OPENBLAS_NUM_THREADS"] == env["MKL_NUM_THREADS"] == "1"
    assert "OPENBLAS_CORETYPE" not in env


def test_a_process_that_fails_gives_one_error_that_names_the_job() -> None:
    job = {"reduction": "sum", "cell": "none", "type": "float32", "threads": 1}
    options = {"peers": [], "effort": dataclasses.asdict(EFFORT)}
    with pytest.raises(
        HalfulpError, match=r"'sum none float32 1' with exit code 1: Key.*'$"
    ):
        list(answers("speed", [job], options))


def test_extra_memory_is_a_figure_where_the_system_has_one() -> None:
    job = {"reduction": "l1", "cell": "1MiB", "type": "int32", "threads": 1}
    (nbytes,) = answers("memory", [job], {})
    assert (nbytes is None) == (not Path("/proc/self/clear_refs").exists())
    assert nbytes is None or 0 <= nbytes < 2**24
    nbytes = extra_memory(smaller(CELLS["rows"]), MEAN, "float64", 1)
    assert nbytes is None or 0 <= nbytes < 2**24


# --- results, tables, pictures and files


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.kind)
def test_a_run_survives_json(run: Benchmark, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(results.to_json(run))
    assert json.loads(path.read_text())["schema"] == results.SCHEMA
    assert results.load(path) == run


def test_runs_of_squares_alone_as_they_were_written_before_are_read(
    tmp_path: Path,
) -> None:
    content = json.loads(results.to_json(a_run()))
    content["schema"] = 1
    content["settings"]["peers"] = content["settings"]["peers"]["sum_square"]
    for row in content["rows"]:
        assert row.pop("reduction") == "sum_square"
    path = tmp_path / "old.json"
    path.write_text(json.dumps(content))
    assert results.load(path) == a_run()


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"schema": 0}', '{"schema": 1, "kind": "none"}', "\0"]
)
def test_what_is_no_run_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(content)
    with pytest.raises(ArgumentError, match="holds no benchmark run"):
        results.load(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HalfulpError, match="No such file"):
        results.load(tmp_path / "none.json")


def test_figures_follow_from_the_best_times() -> None:
    row = Measured("flat", "float32", 1, 1000)
    row.times = {"limit": [90, 50], "halfulp": [200, 100], "numpy": [300, 400], "b": [75]}
    assert row.speed == 10
    assert row.of_limit == 0.5
    assert row.peers == ["b", "numpy"]
    assert row.ratio_to("numpy") == 3


def test_joined_runs_have_the_turns_of_all() -> None:
    first, second = a_run(), a_run()
    second.command, second.machine["date"] = "again", "later"
    second.rows = second.rows[:1]
    second.rows[0].times = {name: [1.0] for name in first.rows[0].times}
    first.rows[0].extra_memory = None
    both = results.joined([first, second])
    for name, turns in a_run().rows[0].times.items():
        assert both.rows[0].times[name] == [*turns, 1.0]
    assert both.rows[0].extra_memory == a_run().rows[0].extra_memory
    assert [row.times for row in both.rows[1:]] == [r.times for r in a_run().rows[1:]]
    assert both.command == f"{a_run().command}; again"
    assert both.machine["date"] == f"{a_run().machine['date']} to later"


def test_joined_runs_have_the_rows_of_each() -> None:
    squares, sums = a_run(), a_run("sum")
    sums.settings = {"peers": {"sum": {"numpy": "np.sum(x)"}}}
    both = results.joined([squares, sums])
    assert both.rows == [*a_run().rows, *a_run("sum").rows[:-1]]
    assert both.settings["peers"] == a_run().settings["peers"] | sums.settings["peers"]
    assert both.command == "halfulp bench"


def test_runs_of_different_things_are_not_joined() -> None:
    others = a_run(), a_run()
    others[0].machine["versions"] = {"numpy": "1.0"}
    del others[1].rows[0].times["numpy"]
    messages = "runs differ in versions", "the same peers"
    for other, message in zip(others, messages, strict=True):
        with pytest.raises(ArgumentError, match=message):
            results.joined([a_run(), other])


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.kind)
def test_tables_fit_80_columns(run: Benchmark) -> None:
    from rich.console import Console

    console = Console(width=200)
    for table in [*report.tables(run), report.goal_table(a_run())]:
        if table.title == "Targets":  # the only one whose lines fold
            console = Console(width=80)
        with console.capture() as capture:
            console.print(report.for_terminal(table))
        assert max(len(line.rstrip()) for line in capture.get().splitlines()) <= 80


def test_markdown_has_every_figure_and_reason() -> None:
    run = a_run()
    text = report.markdown(run)
    assert text.startswith("# Speed\n")
    assert f"on {run.machine['date']}" in text
    assert "| rows | 1 | 10.0 | 0.50 | numkong.moments | 2.00 | 120 KiB |" in text
    assert "no kernel \\| here" in text
    assert "| cell flat | float32 | needs 4 GiB |" in text
    for goal in goals.GOALS:
        assert f"| {goal.text} |" in text
    assert "| numpy | `np.sum(np.square(x), axis=axes)` |" in text
    assert "| ties-rows | 1 | 10.0 | 1.00 | ordinary | 1.00 | 120 KiB |" in text
    both = results.joined([a_run(), a_run("sum")])
    both.settings["peers"]["sum"] = {"numpy": "np.sum(x)"}
    assert "\n## sum of float32\n" in report.markdown(both)
    assert "| numpy (sum) | `np.sum(x)` |" in report.markdown(both)
    columns = [line.count("|") for line in text.splitlines() if line[:4] == "|---"]
    assert min(columns) >= 3
    accuracy = report.markdown(accuracy_run())
    assert "| halfulp | 0.10 | 0.20 | 0.30 |" in accuracy


def test_verdicts_name_the_worst_row() -> None:
    run = a_run()
    verdicts = {c.goal.text: c for c in goals.check_goals(run.rows)}
    flat = verdicts["flat, rows, 64MiB, 1GiB ≥ 0.9 of the limit"]
    assert (flat.worst, flat.misses, flat.rows) == (0.5, 32, 32)
    assert verdicts["8 MiB or more ≥ 0.95 times the fastest peer"].misses == 0
    assert verdicts["8 MiB or more ≥ 0.95 times the fastest peer"].worst == 2
    assert verdicts["columns of sum_square ≥ 10 times onnxruntime"].rows == 0
    assert verdicts["ties, zeros ≥ 0.5 times ordinary values"].worst == 1
    assert verdicts["extra memory ≤ 1 MiB"].misses == 0
    slow = Measured("flat", "float32", 2, 1 << 26, {"halfulp": [10], "limit": [1]})
    slow.times[results.ONE_THREAD] = [15]
    run.rows.append(slow)
    slow.times[results.ALL_LIMIT] = [8]
    verdicts = {c.goal.text: c for c in goals.check_goals(run.rows)}
    readers = [c for text, c in verdicts.items() if "threads that only read" in text]
    assert [(c.worst, c.misses, c.rows) for c in readers] == [(0.8, 1, 1)]
    assert readers[0].at == "sum_square of float32 flat, 2 threads"


def test_cells_by_length_have_a_table_and_goals_of_their_own() -> None:
    run = a_run()
    shown = {table.title: table for table in report.tables(run)}
    lines = shown["sum_square, ns a result (ratio)"]
    assert lines.head == ("cell", "float16", "float32", "float64")
    assert [row[0] for row in lines.rows] == [*FAMILIES["lengths"]]
    # At 10 GB/s, of which the fastest peer has a half.
    assert ("rows-of-100", "20.00 (2.00)", "40.00 (2.00)", "80.00 (2.00)") in lines.rows
    others = {row[0] for row in shown["sum_square of float32"].rows}
    assert not others & {*FAMILIES["lengths"]}
    verdicts = {c.goal.text: c for c in goals.check_goals(run.rows)}
    half = verdicts["lengths of 512 bytes or more ≥ 0.8 of the limit"]
    # From 256, 128 and 64 elements on; none of the few rows but 64 of float64.
    assert (half.worst, half.rows) == (0.5, 5 + 7 + 10)
    for row in run.rows:
        if row.cell == "rows-of-3":
            row.times["numpy.einsum"] = [0.9 * row.best()]
    verdicts = {c.goal.text: c for c in goals.check_goals(run.rows)}
    einsum = verdicts["lengths ≥ 1 times the faster of einsum, torch"]
    assert einsum.worst == pytest.approx(0.9)
    assert (einsum.misses, einsum.rows) == (3, 3)
    caches = verdicts["4KiB, 64KiB, 1MiB of float32, float64 ≥ 0.9 of the limit"]
    assert (caches.misses, caches.rows) == (6, 6)


def test_the_goals_of_data_that_cancels_are_of_each_type() -> None:
    rows = a_run("sum").rows
    for row in rows:
        if row.cell == "cancel":
            elements = row.nbytes / TYPES[row.type].dtype.itemsize
            row.times = {"limit": [elements], "halfulp": [1.5 * elements]}
    verdicts = {c.goal.text: c for c in goals.check_goals(rows)}
    double = verdicts["cancel of float64 ≤ 0.7 ns an element"]
    assert (double.worst, double.misses, double.rows) == (1.5, 1, 1)
    others = verdicts["cancel of other types ≥ 0.5 of the limit"]
    assert (others.misses, others.rows) == (0, 9)
    assert others.worst == pytest.approx(2 / 3)


def test_the_goal_of_columns_in_a_session_is_of_what_the_runtime_is_slow_at() -> None:
    rows = [
        Measured("columns", "float32", 1, 1 << 26, {"halfulp": [1], "onnxruntime": [n]})
        for n in (30, 25, 3)
    ]
    for row, reduction in zip(rows, ("sum_square", "l2", "mean"), strict=True):
        row.reduction = reduction
    columns, large, small = goals.check_goals(rows, "onnxruntime")
    assert (columns.worst, columns.misses, columns.rows) == (25, 0, 2)
    assert (large.worst, large.rows, small.rows) == (3, 3, 0)


SVG = "{http://www.w3.org/2000/svg}"
each_run = pytest.mark.parametrize("run", RUNS, ids=lambda run: run.kind)


def extents(
    element: ElementTree.Element, x: float, width: float
) -> Iterator[tuple[str, float, float]]:
    """Each text with where it begins and ends, if no letter is wider than most are."""

    def at(value: str) -> float:
        return float(value[:-1]) / 100 * width if value.endswith("%") else float(value)

    for child in element:
        start = x + at(child.get("x", "0"))
        if child.tag == f"{SVG}svg":
            yield from extents(child, start, at(child.get("width", "100%")))
        if child.tag == f"{SVG}text":
            name = child.get("class", "").split()
            letter = 8.2 if "title" in name else 6.1 if "small" in name else 6.6
            text = child.text or ""
            long = letter * len(text)
            start += float(child.get("dx", "0"))
            start -= long if "end" in name else long / 2 if "middle" in name else 0
            yield text, start, start + long


def texts_of(picture: str) -> list[str]:
    return [e.text or "" for e in ElementTree.fromstring(picture).iter(f"{SVG}text")]


@each_run
@pytest.mark.parametrize("width", [340, 720])
def test_no_text_of_a_picture_is_cut_off_on_a_phone_or_a_desk(
    run: Benchmark, width: int
) -> None:
    found = [*extents(ElementTree.fromstring(plot.draw(run)), 0, width)]
    assert len(found) > 50
    for text, start, end in found:
        assert -1 <= start <= end <= width + 1, text


@each_run
def test_pictures_are_small_have_a_title_and_are_the_same_every_time(
    run: Benchmark,
) -> None:
    picture = plot.draw(run, "100%")
    root = ElementTree.fromstring(picture)
    assert root.get("width") == "100%"
    assert root.get("viewBox") is None  # else text would shrink with the page
    (title,) = root.iter(f"{SVG}title")
    assert title.get("id") == root.get("aria-labelledby")
    assert len(picture) < 70_000
    assert plot.draw(run, "100%") == picture
    assert "url(" not in picture
    assert "<path" not in picture


@pytest.mark.parametrize(
    ("scheme", "series"),
    [(LIGHT, plot.SERIES_LIGHT), (DARK, plot.SERIES_DARK)],
    ids=["light", "dark"],
)
def test_pictures_are_told_apart_in_light_and_dark(
    scheme: dict[str, str], series: tuple[str, ...]
) -> None:
    assert contrast("#ffffff", "#767676") == pytest.approx(4.54, abs=0.01)
    for ink in (scheme["ink"], scheme["muted"]):
        assert contrast(ink, scheme["paper"]) >= 4.5
    for colour in series:
        assert contrast(colour, scheme["paper"]) >= 3
    assert len({*series}) == len(series)
    picture = plot.draw(RUNS[0])
    light, dark = picture.split("@media(prefers-color-scheme:dark)")
    half = dark if scheme is DARK else light
    named = [scheme[name] for name in ("paper", "ink", "muted", "line")]
    assert all(colour in half for colour in (*named, *series))


def test_the_picture_of_speed_names_the_limit_and_peers_and_leaves_out_empty_rows() -> (
    None
):
    run = a_run()
    shown = texts_of(plot.draw(run))
    types = [text for text in shown if text.startswith("sum_square of ")]
    lengths = ("float16", "float32", "float64")
    assert types[len(TYPES) :] == [
        f"sum_square of {name}, ns each: {kind}"
        for name in lengths
        for kind in ("rows", "few rows")
    ]
    types = types[: len(TYPES)]
    assert types == [f"sum_square of {name}" for name in TYPES]
    assert shown.count("the limit: numpy.vdot") == len(TYPES)
    assert {f"0.5{plot.TIMES}", f"1{plot.TIMES}", "halfulp", "the fastest peer"} <= {
        *shown
    }
    large = [r for r in run.rows if r.times and r.nbytes >= 1 << 14]
    large = [row for row in large if row.cell not in FAMILIES["lengths"]]
    for cell in (name for name in CELLS if name not in FAMILIES["lengths"]):
        # A label for each row with figures, none for ties of integers.
        assert shown.count(cell) == sum(row.cell == cell for row in large), cell
    assert shown.count("numkong.moments") == sum(len(row.peers) > 0 for row in large)
    more = texts_of(plot.draw(results.joined([run, a_run("l1")])))
    assert "sum_square of float32" in more
    assert "l1 of float32" in more


def test_the_picture_of_sessions_writes_ratios_as_such() -> None:
    shown = texts_of(plot.draw(sessions_run()))
    ratios = {f"{number}{plot.TIMES}" for number in ("1", "2", "5", "10", "10.0")}
    assert {*ratios, "as fast as without"} <= {*shown}
    assert not any("10⁰" in text or "uint" in text for text in shown)


def test_the_picture_of_errors_has_a_line_and_a_legend_for_each_library() -> None:
    run = accuracy_run()
    picture = plot.draw(run)
    panels = len(ACCURACY_TYPES) * len(DISTRIBUTIONS)
    assert picture.count("<polyline") == 2 * panels + 2
    shown = texts_of(picture)
    assert shown.count("half an ulp") == panels
    assert shown.count("halfulp") == shown.count("numpy") == 1
    assert {"10", "100", "10³", "10⁷"} <= {*shown}
    fewer = dataclasses.replace(run, rows=[r for r in run.rows if r.who == "halfulp"])
    assert plot.draw(fewer).count("<polyline") == panels + 1


def test_lines_of_one_panel_differ_and_ways_of_a_library_share_a_line() -> None:
    peers = {
        "sum_square": (
            "numpy",
            "numpy.vdot",
            "numpy.einsum",
            "torch.norm",
            "onnxruntime",
        ),
        "l1": ("numpy", "numpy.abs", "torch", "onnxruntime"),
        "sum": ("numpy", "torch", "xsum"),
    }
    rows = [
        Errors("float64", "normal", who, n, [0.4], reduction=reduction)
        for reduction, names in peers.items()
        for who in ("halfulp", *names)
        for n in (10, 100)
    ]
    picture = plot.draw(dataclasses.replace(accuracy_run(), rows=rows))
    shown = texts_of(picture)
    legend = shown[shown.index("halfulp") : shown.index("sum_square of float64, normal")]
    ways = ["numpy", "numpy.vdot/abs", "numpy.einsum", "torch", "onnxruntime"]
    assert legend == ["halfulp", *ways]
    panels = re.findall(r"<svg [^>]*viewBox.*?</svg>", picture, re.DOTALL)
    lines = [re.findall(r'<polyline class="(s\d)', panel) for panel in panels]
    assert [len(line) for line in lines] == [6, 5, 3]
    assert all(len(line) == len({*line}) for line in lines)


def test_a_picture_of_nothing_is_refused() -> None:
    for run in RUNS:
        with pytest.raises(ArgumentError, match=r"."):
            plot.draw(dataclasses.replace(run, rows=[]))


@pytest.mark.parametrize("error", [OSError(28, "No space"), KeyboardInterrupt()])
def test_files_are_written_whole_or_not_at_all(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    output.write_whole(path, b"old")
    output.write_whole(path, b"whole")

    def fail(_: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((ArgumentError, KeyboardInterrupt)):
        output.write_whole(path, b"new")
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


# --- accuracy


@pytest.mark.parametrize("reduction", SUMS, ids=lambda row: row.name)
@pytest.mark.parametrize("type_name", ACCURACY_TYPES)
def test_results_of_integers_are_exact(
    type_name: str, reduction: Reduction, rng: np.random.Generator
) -> None:
    def check(x: np.ndarray) -> None:
        want = exact(reduction, x)
        if isinstance(want, tuple):
            assert abs(result_of_integers(reduction, x) / want[0] - 1) < 2.0**-120
        else:
            assert result_of_integers(reduction, x) == want

    dtype = TYPES[type_name].dtype
    width = 8 * dtype.itemsize
    for size in (1, 2, 1000):
        x = from_bits(rng.integers(0, 2**width, size, dtype=f"u{width // 8}"), dtype)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            x = np.where(np.isfinite(x), x, dtype.type(0))
        check(x)
    least = from_bits([1, 2, 3, 0], dtype)
    for values in (x[:0:-2], least, least[3:], -least):
        check(values)
    check(rng.standard_normal(3000).astype(dtype))


def test_errors_are_in_ulps_of_the_exact_sum() -> None:
    assert error_in_ulps(np.float32(1), Fraction(1), "float32") == 0
    assert error_in_ulps(1, 1 + Fraction(1, 2**24), "float32") == 0.5
    assert error_in_ulps(1, 1 - Fraction(1, 2**25), "float32") == 0.5
    assert error_in_ulps(-1, -1 - Fraction(1, 2**24), "float32") == 0.5
    assert error_in_ulps(2.0**-24, Fraction(1, 2**25), "float16") == 0.5
    with pytest.raises(OverflowError):
        error_in_ulps(math.inf, Fraction(1), "float16")


@pytest.mark.parametrize("reduction", SUMS, ids=lambda row: row.name)
@pytest.mark.parametrize("type_name", ACCURACY_TYPES)
def test_halfulp_is_within_half_an_ulp(type_name: str, reduction: Reduction) -> None:
    numpy = next(p for p in PEERS if p.name == "numpy" and p.reduction == reduction)
    broken = dataclasses.replace(numpy, name="broken", expression="1 / 0")
    for values in DISTRIBUTIONS:
        rows = errors_of(reduction, type_name, values, 1000, [numpy, broken])
        assert [(row.who, row.reduction) for row in rows] == [
            (who, reduction.name) for who in ("halfulp", "numpy", "broken")
        ]
        mine, other, missing = rows
        assert len(mine.ulps) == len(other.ulps) == 20
        assert max(mine.ulps) <= 0.5
        assert missing.missing == "ZeroDivisionError: division by zero"


# --- the command line


def test_a_run_from_end_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"--json": "run.json", "--markdown": "run.md", "--plot": "run.svg"}
    outputs = [word for k, v in files.items() for word in (k, str(tmp_path / v))]
    options = ["--reductions", "sum_square", "--threads", "1,2"]
    options += ["--cells", "small,1MiB", "--types", "float32"]
    options += ["--repeats", "1", "--peers", "numpy", "--quick", "--memory"]
    assert cli.main(["bench", *options, *outputs]) == 0
    shown = capsys.readouterr().out
    assert "float32" in shown
    assert "small ≥ 1 times numpy" in shown
    run = results.load(tmp_path / "run.json")
    assert [(row.cell, row.threads) for row in run.rows] == [
        ("small", 1),
        ("small", 2),
        ("1MiB", 1),
        ("1MiB", 2),
    ]
    assert all(len(ns) == 1 for row in run.rows for ns in row.times.values())
    assert run.rows[0].times.keys() == {
        "limit",
        "halfulp",
        "numpy",
        "numpy.vdot",
        "numpy.einsum",
    }
    assert run.settings["effort"]["repeats"] == 1
    assert run.settings["peers"]["sum_square"]["numpy.vdot"] == "np.vdot(x, x)"
    assert run.rows[3].times.keys() > {results.ALL_LIMIT, results.ONE_THREAD}
    assert run.command == (
        "halfulp bench --quick --reductions sum_square --types float32 "
        "--cells small,1MiB --threads 1,2 --repeats 1 --peers numpy --memory"
    )
    assert "(run.svg)\n" in (tmp_path / "run.md").read_text()
    again = tmp_path / "again.json"
    saved = str(tmp_path / "run.json")
    assert cli.main(["bench", "--from", saved, "--json", str(again)]) == 0
    assert capsys.readouterr().out == shown
    assert again.read_bytes() == (tmp_path / "run.json").read_bytes()
    twice = ["--from", saved, "--from", saved, "--json", str(again)]
    assert cli.main(["bench", *twice]) == 0
    assert all(len(ns) == 2 for r in results.load(again).rows for ns in r.times.values())
    capsys.readouterr()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        [*files.values(), "again.json"]
    )
    assert cli.main(["bench", "accuracy", "--from", saved]) == 2
    assert "holds a run of speed; allowed: accuracy" in capsys.readouterr().err


def test_accuracy_from_end_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    options = ["--quick", "--reductions", "l2,mean", "--types", "float16"]
    options += ["--no-peers", "--json", str(path)]
    assert cli.main(["bench", "accuracy", *options]) == 0
    assert "mean of float16, uniform(0, 1)" in capsys.readouterr().out
    run = results.load(path)
    assert run.command == (
        "halfulp bench accuracy --quick --reductions l2,mean --types float16 --no-peers"
    )
    assert len(run.rows) == 24
    assert max(max(row.ulps) for row in run.rows) <= 0.5


def test_sessions_from_end_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    options = ["--quick", "--types", "float32,uint64", "--cells", "small"]
    options += ["--reductions", "sum_square"]
    command = ["bench", "onnxruntime", *options, "--json", str(path)]
    assert cli.main([*command, "--markdown", str(tmp_path / "run.md")]) == 0
    shown = capsys.readouterr().out
    assert "with halfulp" in shown
    assert "no kernel" in shown
    assert "small ≥ 0.95 times the runtime's" in shown
    text = (tmp_path / "run.md").read_text()
    assert text.startswith("# Speed inside ONNX Runtime\n")
    run = results.load(path)
    known, unknown = run.rows
    assert known.times.keys() == {"halfulp", "onnxruntime"}
    assert unknown.times.keys() == {"halfulp"}
    assert "NOT_IMPLEMENTED" in unknown.missing["onnxruntime"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("onnxruntime --types bfloat16", "no type 'bfloat16'; allowed: float16"),
        ("onnxruntime --cells strided", "no cell 'strided'; allowed: flat, rows"),
        ("--cells none", "no cell 'none'; allowed: flat, rows"),
        ("--cells rows-of-2", "cancel-columns, update-flat, update-axis-0"),
        ("--cells rows-of-2", "joined-small, lengths"),
        ("--types float", "no type 'float'; allowed: bfloat16"),
        ("--peers numpy,pandas", "no peer 'pandas'; allowed: numpy"),
        ("--peers numpy --no-peers", "--peers and --no-peers are given"),
        (
            "--cells ties-rows --types int32",
            "'ties-rows' has no sum_square of int32; allowed: sum_square, sum, mean, l1, "
            "l2 of bfloat16, float16, float32, float64",
        ),
        ("--cells cancel --reductions l1", "allowed: sum of bfloat16, float16"),
        ("--reductions median", "no reduction 'median'; allowed: sum_square, sum, mean"),
        ("accuracy --reductions prod", "no reduction 'prod'; allowed: sum_square, sum"),
        ("--threads 0", "--threads has '0'; allowed: 1 to 1024, or all"),
        ("--threads 1,many", "--threads has 'many'"),
        ("--repeats 0", "--repeats is 0; allowed: 1 or more"),
        ("--json no/such/folder.json", "does not exist"),
        ("--markdown .", "exists and is no file"),
        ("--plot x.gif", "allowed endings: .svg"),
        ("--from none.json", "'none.json' cannot be read"),
        ("accuracy --types int32", "no type 'int32'; allowed: float32"),
    ],
)
def test_bad_options_give_one_line(
    options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", *options.split()]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert shown.err.count("\n") == 1


def test_an_interrupt_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    command = [sys.executable, "-m", "halfulp", "bench", "--cells", "1MiB"]
    command += ["--repeats", "1000", "--no-peers", "--json", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []


def test_every_reduction_has_figures_in_the_summary() -> None:
    path = Path(__file__).parents[2] / "benchmarks/results/speed.json"
    table = report.summary_table(results.load(path).rows)
    assert len(table.rows) == 9
    assert all(all(row[1:4]) for row in table.rows)
