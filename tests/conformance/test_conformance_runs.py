"""halfulp verify: each backend in a process that may fall, and what it reports."""

from __future__ import annotations

import html
import html.parser
import json
import os
import re
import time
import unittest
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx.backend.test.loader import load_model_tests

import halfulp.onnx.backend
from browser import dom_of, needs_chromium
from fake_backends import MARK
from halfulp import ArgumentError
from halfulp.cli import main
from halfulp.conformance.backends.outcomes import Answer, Crashed, Refused, one_line
from halfulp.conformance.backends.registry import BACKENDS
from halfulp.conformance.cases.case import INVALID, WRONG_OPSET, Case
from halfulp.conformance.cases.export import export
from halfulp.conformance.cases.suite import all_cases, choose, quick
from halfulp.conformance.cases.why import explain
from halfulp.conformance.known_failures import explains
from halfulp.conformance.report import page
from halfulp.conformance.report.elements import lines_of
from halfulp.conformance.report.junit import junit
from halfulp.conformance.report.terminal import details
from halfulp.conformance.results import Run, result_of
from halfulp.conformance.runner import run_cases
from halfulp.conformance.verdicts import EXACT, VERDICTS
from halfulp.element_types import SMALL_TYPES
from halfulp.records import load
from halfulp.reductions import BY_OPERATOR, MAX, REDUCTIONS, SUM_SQUARE, SUMS
from oracle import bits

TESTS = Path(__file__).parents[1] / "tools"
OURS = ("halfulp", "onnxruntime+halfulp")

VECTOR = Case("test_vector", SUM_SQUARE, "random", 18, np.float32([3, 4]))
SCALAR = Case("test_scalar", SUM_SQUARE, "rank0", 18, np.float32(3))


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    # Backends that are not known by name are looked for in the working folder too.
    monkeypatch.chdir(TESTS)
    monkeypatch.setenv("COLUMNS", "80")


def run_fake(name: str, *cases: Case, time_limit: float = 60.0) -> list[tuple[str, str]]:
    run = run_cases(f"fake_backends:{name}", cases, time_limit=time_limit)
    assert [result.case for result in run.results] == list(cases)
    return [(result.verdict.word, result.verdict.text) for result in run.results]


@pytest.mark.parametrize(
    ("name", "word", "text"),
    [
        ("right", "exact", ""),
        ("prints", "exact", ""),
        ("one_ulp_high", "ulps", ""),
        ("wrong_value", "wrong value", ""),
        ("wrong_shape", "wrong shape", "shape [1, 1], not [1]"),
        ("wrong_type", "wrong type", "type complex64, not float32"),
        ("no_onnx_type", "wrong type", "type object, not float32"),
        ("two_outputs", "wrong shape", "2 outputs, not 1"),
        ("no_output", "wrong shape", "0 outputs, not 1"),
        ("raises", "refused", "NotImplementedError: no kernel for this"),
        ("exits", "crashed", "exit code 7"),
    ],
)
def test_each_fault_has_its_verdict(name: str, word: str, text: str) -> None:
    # Twice: what it did with one case is over before the next.
    assert run_fake(name, VECTOR, VECTOR) == 2 * [(word, text)]


def test_texts_of_backends_become_one_line_that_terminals_can_show() -> None:
    assert one_line("a\n  b\x1b[31mc") == "a b\ufffd[31mc"
    assert len(one_line("x" * 10**6)) == 1000


def test_a_crash_costs_one_case() -> None:
    found = run_fake("crashes_on_scalars", VECTOR, SCALAR, SCALAR, VECTOR)
    fall = ("crashed", "signal 11 (SIGSEGV): about to fall")
    assert found == [("exact", ""), fall, fall, ("exact", "")]


def test_what_hangs_is_ended_after_the_time_limit() -> None:
    start = time.monotonic()
    found = run_fake("hangs_on_scalars", VECTOR, SCALAR, VECTOR, time_limit=4)
    assert found == [("exact", ""), ("hung", "no answer within 4 s"), ("exact", "")]
    assert time.monotonic() - start < 30


def commands() -> Iterator[bytes]:
    """The command line of every process."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()


def test_what_hangs_is_ended_with_what_it_started() -> None:
    assert run_fake("hangs", VECTOR, time_limit=3)[0][0] == "hung"
    deadline = time.monotonic() + 10
    while any(MARK.encode() in command for command in commands()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_cases_of_several_processes_stay_in_order() -> None:
    cases = choose("_18_float32_")[:60]
    run = run_cases("halfulp", cases, jobs=3)
    assert [result.case for result in run.results] == cases
    assert run.exact


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("no_such_module:Backend", "cannot be imported: ModuleNotFoundError"),
        ("fake_backends:missing", "cannot be imported: AttributeError"),
        (
            "fake_backends:no_backend",
            r"'fake_backends:no_backend' has no prepare\(model, device\)",
        ),
        ("fake_backend_that_exits:x", "did not start: exit code 3: no device"),
    ],
)
def test_backends_that_cannot_be_had(backend: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        run_cases(backend, [VECTOR])


def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "openvino.py").write_text("raise ImportError('none here')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    with pytest.raises(
        ArgumentError, match=r"'openvino' cannot be .*; install openvino: "
    ):
        run_cases("openvino", [VECTOR])


# In which the others fail, each in its way, at what is no sum.
TELLING = (
    *("signed zero", "inf and nan", "partial overflow", "near ties", "random"),
    *("integer log", "wide integers", "wrap", "empty", "rank0"),
)


@cache
def quick_cases() -> list[Case]:
    """The quick cases of sums of squares, and some of each other operator."""
    sums = [row for row in SUMS if row is not SUM_SQUARE]
    others = quick(all_cases(row for row in REDUCTIONS if row not in SUMS))
    telling = {
        (case.reduction.name, case.class_name, case.type, zero): case
        for case in others
        if case.class_name in TELLING
        for zero in [case.kind if case.class_name == "signed zero" else ""]
    }
    some = [*quick(all_cases(sums))[::5], *others[::20], *telling.values()]
    return list(dict.fromkeys([*quick(all_cases([SUM_SQUARE])), *some]))


@cache
def quick_run(name: str) -> Run:
    """Those, and those that known failures are about, over a backend."""
    cases = list(quick_cases())
    if name not in OURS:
        about = ("axes", INVALID, WRONG_OPSET)
        asked = [c for c in all_cases([SUM_SQUARE, MAX]) if c.class_name in about]
        small = {element.name for element in SMALL_TYPES}
        known = set(cases)
        cases += [
            case
            for case in asked
            if case not in known
            if case.reduction is SUM_SQUARE
            or (case.type in small and case.version == 20)
            or (case.class_name == INVALID and case.version == 11)
        ]
    return run_cases(name, cases, jobs=2)


@pytest.mark.parametrize("name", OURS)
def test_halfulp_is_exact(name: str) -> None:
    run = quick_run(name)
    assert [result.case.name for result in run.results if not result.exact] == []
    others = sum(case.class_name == WRONG_OPSET for case in quick_cases())
    assert run.left_out == (0 if name == "halfulp" else others)


@pytest.mark.parametrize("name", load("known_failures"))
def test_known_failures_fail_and_no_others(name: str) -> None:
    pytest.importorskip(BACKENDS[name].packages[0])
    known, run = load("known_failures")[name], quick_run(name)
    news = [
        f"unknown: {result.case.name}: {result.verdict.word}"
        for result in run.results
        if not result.exact and result.known is None
    ]
    for entry in known["failures"]:
        for type_name in entry["types"]:
            if not any(
                explains(entry, result.case, result.verdict.word)
                for result in run.results
                if result.case.type == type_name
            ):
                news.append(f"passes now: {type_name}: {entry['reason']}")
    release = next(iter(run.versions.values()))
    if news and release != known["version"]:
        pytest.skip(f"{name} {release}, not {known['version']}: {'; '.join(news)}")
    assert news == []


def test_known_failures_are_well_formed() -> None:
    for known in load("known_failures").values():
        for entry in known["failures"]:
            assert entry["reason"].endswith(".")
            some = {"operators", "classes", "versions"}
            assert set(entry) <= {"reason", "verdicts", "types"} | some
            assert set(entry.get("operators", ())) <= set(BY_OPERATOR)
            assert set(entry["verdicts"]) <= set(VERDICTS) - {EXACT}


def verify(*arguments: object) -> int:
    return main(["verify", *map(str, arguments)])


def fail(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    assert verify(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("halfulp: error: ")
    assert err.count("\n") == 1
    return err


def test_verify_shows_tables_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("-k", "_18_*x*_*", "--operators", "ReduceSumSquare,ReduceMax", "--quick")
    assert verify("halfulp", "reference", *options) == 1
    out, err = capsys.readouterr()
    assert err == ""
    # In a pipe only prose has longer lines.
    rows = [line for line in out.splitlines() if not re.match("A figure|  |test_", line)]
    assert max(map(len, rows)) <= 80
    assert re.search(r"^ties +0 +0 +0 +0 *$", out, re.MULTILINE)
    assert re.search(r"^wrap +type +0 +type +0 *$", out, re.MULTILINE)
    assert re.search(r"^passes at ONNX's rtol 1e-3 +\d+ +\d+ *$", out, re.MULTILINE)
    assert "wrong type: type int64, not int32" in out


def test_verify_tells_by_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("halfulp", "-k", "_13_float16_ties") == 0
    assert verify("fake_backends:one_ulp_high", "-k", "_13_float16_ties") == 1


def test_verify_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("--list") == 0
    assert capsys.readouterr().out.split() == [case.name for case in all_cases()]
    assert verify("--list", "--quick", "-k", "uint64") == 0
    names = capsys.readouterr().out.split()
    assert names == [case.name for case in quick(choose("uint64"))]


def test_verify_runs_a_case_by_its_name_and_tells_all_about_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (case,) = choose("_18_float32_ties_down_last2_", [SUM_SQUARE])
    assert verify("halfulp", "--case", case.name) == 0
    assert f"halfulp: {case.name}\n  exact\n" in capsys.readouterr().out
    assert verify("fake_backends:one_ulp_high", "--case", case.name) == 1
    out = capsys.readouterr().out
    place = (0,) if case.expected is not None and case.expected.ndim == 1 else (0, 0)
    right = case.expected[place]
    for text in (
        "off by 1 ulp: element",
        case.node,
        explain(case.reduction, case.unrounded, case.expected, place),
        f"expected {right!s} (0x{int(bits(right)):08x})",
        f"(0x{int(bits(right)) + 1:08x})",
        *(line[0] for line in lines_of(case, place)),
    ):
        assert text in out


def test_verify_takes_the_operators_that_are_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ["--operators", "ReduceL2,ReduceSum", "--quick", "-k", "_float16_ties"]
    assert verify("halfulp", *asked, "--json", tmp_path / "x.json") == 0
    run = json.loads((tmp_path / "x.json").read_text())
    assert {c["name"].split("_")[1] for c in run["cases"]} == {"reducesum", "reducel2"}


def test_verify_refuses_bad_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "BACKEND is missing" in fail([], capsys)
    assert "BACKEND is missing" in fail(["--json", tmp_path / "x.json"], capsys)
    message = fail(["onnx-runtime"], capsys)
    assert (
        "no backend 'onnx-runtime'; allowed: halfulp, reference, onnxruntime" in message
    )
    assert "--time-limit is 0" in fail(["halfulp", "--time-limit", "0"], capsys)
    assert "--jobs is 0" in fail(["halfulp", "--jobs", "0"], capsys)
    assert "no case is called 'ties'" in fail(["halfulp", "--case", "ties"], capsys)
    both = ["halfulp", "--quick", "--case", all_cases()[0].name]
    assert "allowed: without --quick, --operators and -k" in fail(both, capsys)
    bad = ["halfulp", "--operators", "ReduceSum,ReduceNone"]
    assert "--operators has 'ReduceNone'; allowed: ReduceSumSquare, " in fail(bad, capsys)
    assert "no case has 'x y'" in fail(["halfulp", "-k", "x y"], capsys)
    assert "is no file" in fail(["halfulp", "--html", tmp_path], capsys)
    (tmp_path / "a").touch()
    assert "is not empty" in fail(["--export", tmp_path], capsys)
    assert "is no folder" in fail(["--export", tmp_path / "a"], capsys)
    assert "does not exist" in fail(["--export", tmp_path / "b/c"], capsys)


PATTERN = "_18_float32_"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of what one run over two backends writes."""
    folder = tmp_path_factory.mktemp("written")
    names = ["reference", "halfulp", "-k", PATTERN, "--quick"]
    files = {"--json": "x.json", "--junit": "x.xml", "--markdown": "x.md"}
    options = [word for k, v in files.items() for word in (k, folder / v)]
    assert verify(*names, *options) == 1
    return folder


def test_verify_writes_json(written: Path, tmp_path: Path) -> None:
    runs = json.loads((written / "x.json").read_text())
    assert [run["backend"] for run in runs] == ["reference", "halfulp"]
    assert runs[0]["versions"]["onnx"] == onnx.__version__
    for run in runs:
        cases = quick(choose(PATTERN))
        assert [case["name"] for case in run["cases"]] == [case.name for case in cases]
    for case in runs[1]["cases"]:
        assert (case["verdict"], case["ulps"]) == ("exact", 0)
        assert case["passes_at_onnx_tolerance"] is True
    sums = [case for case in runs[0]["cases"] if "reduceprod" not in case["name"]]
    by_class = {case["class"]: case for case in sums}
    tie = next(c for c in sums if (c["class"], c["verdict"]) == ("ties", "ulps"))
    assert (tie["type"], tie["version"]) == ("float32", 18)
    assert tie["ulps"] >= 1
    assert tie["known_failure"] == "NumPy rounds each term and each partial sum."
    assert by_class[WRONG_OPSET]["verdict"] == "accepted"

    path = tmp_path / "one.json"
    assert verify("halfulp", "-k", "square_18_float16_ties", "--json", path) == 0
    one = json.loads(path.read_text())
    assert (one["backend"], len(one["cases"])) == ("halfulp", 39)


def test_verify_writes_junit(written: Path) -> None:
    suites = ElementTree.parse(written / "x.xml").getroot().findall("testsuite")
    names = [case.name for case in quick(choose(PATTERN))]
    for suite, failures in zip(suites, (True, False), strict=True):
        cases = suite.findall("testcase")
        assert [case.get("name") for case in cases] == names
        failed = [case for case in cases if case.find("failure") is not None]
        assert suite.get("tests") == str(len(cases))
        assert suite.get("failures") == str(len(failed))
        assert bool(failed) == failures


def test_junit_tells_crashes_as_errors() -> None:
    result = result_of("fake", VECTOR, Crashed("signal 11 <&"))
    root = ElementTree.fromstring(junit([Run("fake", {"a": "1"}, [result])]))
    (error,) = root.iter("error")
    assert error.get("type") == "crashed"
    assert error.get("message") == "crashed: signal 11 <&"
    assert str(error.text).endswith("\nhalfulp verify fake --case test_vector")
    assert next(root.iter("testsuite")).get("errors") == "1"


def test_verify_writes_markdown(written: Path) -> None:
    text = (written / "x.md").read_text()
    assert f"`halfulp verify reference halfulp --quick -k '{PATTERN}'`" in text
    assert f"onnx {onnx.__version__}" in text
    assert "| ties |  |  | 0 |  |  |  |  |  |" in text
    assert "NumPy rounds each term and each partial sum." in text


class Tables(html.parser.HTMLParser):
    """The matrices of a page: for each backend, what its cells say."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: dict[tuple[str, ...], str] = {}
        self._key: tuple[str, ...] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = dict(attrs)
        if tag == "button" and "data-class" in facts:
            names = ("data-backend", "data-class", "data-type")
            self._key = tuple(str(facts[name]) for name in names)

    def handle_data(self, data: str) -> None:
        if self._key is not None:
            self.cells[self._key] = data
            self._key = None


@pytest.fixture(scope="module")
def report() -> str:
    names = (*OURS, "onnxruntime", "reference")
    return page.page([quick_run(name) for name in names], "halfulp verify")


def test_the_page_has_a_matrix_for_each_backend(report: str) -> None:
    tables = Tables()
    tables.feed(report)
    assert tables.cells["halfulp", "ties", "float32"] == "0"
    assert tables.cells["reference", "wrap", "int32"] == "type"
    assert tables.cells["onnxruntime", "axes", "uint64"] == "refused"
    assert len({key[0] for key in tables.cells}) == 4
    assert {cell for key, cell in tables.cells.items() if key[0] == "halfulp"} == {"0"}


@pytest.mark.parametrize("type_name", ["object", "complex128", "bool", "S3", "U2"])
def test_answers_of_any_type_are_shown(type_name: str) -> None:
    got = np.ones(1, type_name)
    answer = Answer(1, got.dtype.name, (1,), got)
    result = result_of("fake", VECTOR, answer)
    assert result.verdict.word == "wrong type"
    shown = page.page([Run("fake", {}, [result])], "x")
    assert f'"type": "{got.dtype.name}"' in shown
    assert "\n".join(details(result)).startswith("  wrong type: type ")


def test_the_page_escapes_what_a_backend_says() -> None:
    evil = "</script><b>&"
    run = Run(evil, {evil: evil}, [result_of(evil, VECTOR, Refused(evil))])
    text = page.page([run], evil)
    assert evil not in text
    assert text.count("</script>") == 1


def in_browser(text: str, script: str, folder: Path, fragment: str = "") -> Any:
    """What a script gives that runs in a page 390 pixels wide, as JSON.

    It may await `settle()`, and `q` finds an element; errors of scripts are told.
    """
    harness = f"""<script>
      const q = (selector) => document.querySelector(selector);
      const settle = () => new Promise((done) => setTimeout(done, 50));
      const tell = (text) => parent.postMessage(text, "*");
      window.addEventListener("error", (e) => tell(`error ${{e.message}}`));
      (async () => {{ {script} }})().then(
        (given) => tell(JSON.stringify(given)), (error) => tell(`error ${{error}}`));
    </script>"""
    (folder / "page.html").write_text(text.replace("</body>", f"{harness}</body>"))
    # In a frame, since a window of the browser has 500 pixels at least.
    frame = folder / "frame.html"
    frame.write_text(
        f"""<iframe src="page.html{fragment}" width="390" height="800"></iframe>
        <pre id="told"></pre><script>
        const told = document.querySelector("#told");
        window.onmessage = (event) => told.textContent ||= event.data;
        </script>"""
    )
    dom = dom_of(frame, "--virtual-time-budget=5000")
    given = dom.partition('<pre id="told">')[2].partition("</pre>")[0]
    return json.loads(html.unescape(given))


@needs_chromium
def test_the_page_opens_with_failures_and_back_undoes_a_filter(
    report: str, tmp_path: Path
) -> None:
    script = """
      const state = () => ({
        verdict: q("[name=verdict]").value, class: q("[name=class]").value,
        name: q("[name=name]").value, count: parseInt(q("#count").textContent),
        first: q("#cases summary")?.textContent ?? "", hash: location.hash,
        none: !q("#none").hidden && q("#none").offsetHeight > 0,
      });
      const states = [state()];
      q(".matrix [data-backend=reference][data-class=absorption][data-type=float32]")
        .click();
      await settle(); states.push(state());
      for (const letters of ["x", "xyz"]) {
        q("[name=name]").value = letters;
        q("[name=name]").dispatchEvent(new Event("input", { bubbles: true }));
      }
      await settle(); states.push(state());
      history.back(); await settle(); states.push(state());
      history.back(); await settle(); states.push(state());
      history.forward(); await settle(); states.push(state());
      q("#none .all").click(); await settle(); states.push(state());
      return states;
    """
    states = in_browser(report, script, tmp_path)
    first, cell, nothing, back, start, forward, everything = states
    runs = [quick_run(name) for name in ("reference", "onnxruntime")]
    failing = {
        result.case.name for run in runs for result in run.results if not result.exact
    }
    assert (first["verdict"], first["count"]) == ("not exact", len(failing))
    assert re.search(r"(reference|onnxruntime): \w", first["first"])
    assert "halfulp:" not in first["first"]
    wanted = [
        case
        for case in {result.case for run in runs for result in run.results}
        if case.class_name == "absorption" and case.type == "float32"
    ]
    assert (cell["class"], cell["count"]) == ("absorption", len(wanted))
    assert "class=absorption" in cell["hash"]
    assert nothing["none"]
    assert (nothing["count"], nothing["first"]) == (0, "")
    assert back == forward == cell
    assert start == first
    assert not cell["none"]
    assert (everything["verdict"], everything["name"]) == ("any", "")
    assert everything["count"] > len(failing)


@needs_chromium
def test_the_page_explains_the_worst_element_with_its_row_and_fits_a_phone(
    report: str, tmp_path: Path
) -> None:
    (case,) = choose("_18_float32_absorption_many_ones_last2_", [SUM_SQUARE])
    result = next(r for r in quick_run("reference").results if r.case == case)
    assert not result.exact
    script = """
      await settle();
      const all = [...document.querySelectorAll("#cases details")];
      for (const details of all.slice(1, 20)) details.open = true;
      await settle();
      const width = document.documentElement.scrollWidth;
      return [q("#cases details[open]").innerText, width, innerWidth];
    """
    text, width, window = in_browser(report, script, tmp_path, f"#case={case.name}")
    assert width <= window == 390
    lines = lines_of(case, result.verdict.worst)
    assert case.expected is not None
    count = case.data.size // case.expected.size
    assert lines[-1][0].endswith(str([result.verdict.worst[0], count - 1]))
    wanted = [
        explain(case.reduction, case.unrounded, case.expected, result.verdict.worst),
        case.about,
    ]
    wanted += [case.node, case.source, f"--case {case.name}"]
    for line in lines:
        wanted += line[:3]
    for word in wanted:
        assert word in text


@needs_chromium
def test_a_page_without_failures_says_so_and_shows_all(tmp_path: Path) -> None:
    cases = choose("_18_float32_ties_*middle", [SUM_SQUARE])
    run = run_cases("halfulp", cases)
    text = page.page([run], "halfulp verify")
    assert f"all {len(cases)} cases are exact" in text
    script = "return [q('#count').textContent, q('#cases').innerText, q('#none').hidden]"
    count, shown, hidden = in_browser(text, script, tmp_path)
    assert (count, hidden) == (f"{len(cases)} of {len(cases)} cases", True)
    assert all(case.name in shown for case in cases)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds") / "exported"
    # Some of each operator: the runner takes milliseconds for each.
    cases = [case for case in quick(all_cases()) if case.data.size < 10**4][::7]
    assert {case.reduction for case in cases} == set(REDUCTIONS)
    count = export(cases, folder)
    assert count == sum(case.valid for case in cases)
    return folder


def test_an_export_holds_the_cases_in_onnx_layout(exported: Path) -> None:
    assert os.listdir(exported.parent) == ["exported"]
    index = json.loads((exported / "index.json").read_text())
    names = [case["name"] for case in index["cases"]]
    assert sorted([*names, "index.json"]) == sorted(os.listdir(exported))
    cases = {case.name: case for case in all_cases()}
    for entry in index["cases"]:
        folder, case = exported / entry["name"], cases[entry["name"]]
        assert entry["why"] == case.why
        data = folder / "test_data_set_0"
        tensor = onnx.load_tensor(data / "output_0.pb")
        assert case.expected is not None
        assert (bits(onnx.numpy_helper.to_array(tensor)) == bits(case.expected)).all()
        inputs = [f"input_{i}.pb" for i in range(entry["inputs"])]
        assert sorted(os.listdir(data)) == [*inputs, "output_0.pb"]


def test_onnx_runner_passes_an_export_without_tolerance(
    exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = load_model_tests(str(exported.parent), exported.name)
    assert {(test.rtol, test.atol) for test in tests} == {(0, 0)}
    # In place of ONNX's own tests, whose data take seconds to make.
    monkeypatch.setattr(
        onnx.backend.test.runner,
        "load_model_tests",
        lambda kind: tests if kind == "simple" else [],
    )
    runner = onnx.backend.test.BackendTest(halfulp.onnx.backend, __name__)
    case = runner.test_cases["OnnxBackendSimpleModelTest"]
    result = unittest.TestResult()
    with warnings.catch_warnings():
        # Of NumPy, as infinities are compared.
        warnings.simplefilter("ignore")
        unittest.TestSuite(case(f"{test.name}_cpu") for test in tests).run(result)
    assert result.testsRun == len(tests) > 300
    assert result.failures == result.errors == result.skipped == []


def test_an_export_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ArgumentError, match="cannot be written: No space left"):
        export([VECTOR], tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
