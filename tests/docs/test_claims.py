"""What the documents say was measured is what benchmarks/results holds."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

import claims
import conformance
import what_others_give
from browser import dom_of, needs_chromium
from halfulp.bench import results
from halfulp.conformance.cases.suite import all_cases
from halfulp.conformance.report.data import to_json
from halfulp.conformance.report.markdown import markdown
from halfulp.exact import round_exact
from halfulp.records import load
from halfulp.reductions import REDUCTIONS
from what_others_give import asked

ROOT = Path(__file__).parents[2]


TEXTS = claims.texts()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_a_document_shows_the_stored_results(path: Path) -> None:
    assert path.read_text("utf-8") == TEXTS[path]


def test_a_changed_figure_is_found() -> None:
    others = json.loads((claims.RESULTS / "peers.json").read_text("utf-8"))
    readme = (ROOT / "README.md").read_text("utf-8")
    page = (ROOT / "docs/what-others-give.md").read_text("utf-8")
    assert claims.short_peers(others) in readme
    assert claims.peers(others) == page
    (row,) = (r for r in others["rows"] if "1e16, 1" in r["input"] and r["in_short"])
    row["answers"]["ONNX Runtime"] = "2"
    assert claims.short_peers(others) not in readme
    assert claims.peers(others) != page


def test_what_halfulp_and_numpy_give_is_what_the_tables_say() -> None:
    stored = json.loads((claims.RESULTS / "peers.json").read_text("utf-8"))
    rows = {(row["operation"], row["input"]): row for row in stored["rows"]}
    assert len(rows) == len(what_others_give.INPUTS)
    same_numpy = stored["versions"]["numpy"] == np.__version__
    for given in what_others_give.INPUTS:
        row = rows[given.reduction.operator, given.what]
        if given.what[0] in "(1":  # long ones
            continue
        x = given.make()
        for name in ("halfulp", "halfulp as ONNX"):
            way = what_others_give.WAYS[name]
            result = np.asarray(way(given.reduction, x, given.axis))
            right = round_exact(what_others_give.exact_of(given, x), result.dtype)
            for value in (result, right):
                assert asked(lambda value=value: value) == row["answers"][name]
        if same_numpy:
            numpy = what_others_give.NUMPY[given.reduction]
            assert asked(lambda f=numpy, x=x: f(x, axis=None)) == row["answers"]["NumPy"]


def test_claims_of_speed_follow_the_figures() -> None:
    run = results.load(claims.RESULTS / "speed.json")
    text = (ROOT / "README.md").read_text("utf-8")
    assert claims.with_claim(text, run, "docs/benchmarks.md") == text
    short = [
        row
        for row in run.rows
        if (row.cell, row.type, row.threads) == ("short-rows", "bfloat16", 1)
    ]
    for row in short:
        row.times["halfulp"] = [100 * time for time in row.times["halfulp"]]
    slower = claims.with_claim(text, run, "docs/benchmarks.md")
    least = f"{min(row.of_limit for row in short):.2f}"
    assert f"16 elements to a result at {least} to" in " ".join(slower.split())
    assert f"run at {least} to" in claims.limits("run at 0.3 to 0.4 of", run)


def test_no_document_claims_a_speed_that_was_not_measured() -> None:
    for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"), ROOT / "pyproject.toml"):
        text = re.sub(r"\s+", " ", path.read_text("utf-8"))
        assert not re.search(r"(?i)speed of memory|memory speed|blazing", text), path


MEASURE = """
<script>
const cut = [], texts = [...document.querySelectorAll("text")];
for (const text of texts) {
  const at = text.getBoundingClientRect();
  const box = text.closest("div > svg").getBoundingClientRect();
  if (at.left < box.left || at.right > box.right || at.bottom > box.bottom)
    cut.push(text.textContent);
}
document.title = `${texts.length} texts, cut off: ${cut.join("; ") || "none"}`;
</script>"""


@needs_chromium
def test_a_browser_cuts_no_text_of_a_picture_off(tmp_path: Path) -> None:
    page = '<!DOCTYPE html><meta charset="utf-8"><title>-</title>'
    for path in claims.pictures():
        for width in (330, 720):
            page += f'<div style="width: {width}px">{path.read_text("utf-8")}</div>'
    (tmp_path / "page.html").write_text(page + MEASURE, "utf-8")
    dom = dom_of(tmp_path / "page.html")
    assert re.search(r"<title>\d{4} texts, cut off: none</title>", dom), dom[:500]


def test_every_result_names_date_machine_and_versions() -> None:
    for path in claims.RESULTS.glob("*.json*"):
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
        assert re.search(r"\d{4}-\d\d-\d\d", text), path
        for word in ("machine", "halfulp", "numpy"):
            assert f'"{word}"' in text, path


def test_verdicts_written_in_few_lines_are_read_as_they_were(tmp_path: Path) -> None:
    runs = conformance.load(claims.RESULTS / "conformance.json.gz")
    rows = {result.case.reduction for result in runs[0].results}
    assert {len(run.results) + run.left_out for run in runs} == {len(all_cases(rows))}
    runs = runs[::3]
    path = tmp_path / "again.json.gz"
    text = to_json(runs)
    conformance.store(json.loads(text), path)
    again = conformance.load(path)
    assert to_json(again) == text
    assert markdown(again, "") == markdown(runs, "")


def test_cells_of_real_models_stand_below_their_heads() -> None:
    lines = (ROOT / "docs/models.md").read_text("utf-8").splitlines()
    tables = [re.split(r" *\| *", line)[1:-1] for line in lines if line.startswith("| ")]
    head: list[str] = []
    for cells in tables:
        if cells[0] == "model":
            head = cells
            continue
        row = dict(zip(head, cells, strict=True))
        assert re.fullmatch(r"\d+( to \d+|(, \d+)*)", row["opsets"])
        assert re.fullmatch(r"none|\d\sReduce.*", row["reductions"])


def test_the_number_of_cases_is_told_right() -> None:
    number = len(all_cases())
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"{number:,} hard cases" in readme
    conformance = (ROOT / "docs/conformance.md").read_text("utf-8")
    lines = conformance.splitlines()
    rows = [row for row in REDUCTIONS if f"| {row.operator} |" in conformance]
    totals = next(x for x in lines if x.startswith("| exact |"))
    assert totals.split("|")[2].strip() == str(len(all_cases(rows)))
    # Known failures name the releases that the document was made with.
    for name, known in load("known_failures").items():
        assert known["version"] in conformance, name
