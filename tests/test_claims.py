"""What the documents say was measured is what benchmarks/results holds."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from halfulp.cases import load
from halfulp.conformance.suite import all_cases

ROOT = Path(__file__).parents[1]


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"benchmarks/{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CLAIMS = _script("claims")


@pytest.mark.parametrize("path", CLAIMS.texts(), ids=lambda path: path.name)
def test_a_document_shows_the_stored_results(path: Path) -> None:
    assert path.read_text("utf-8") == CLAIMS.texts()[path]


def test_a_changed_figure_is_found() -> None:
    peers = json.loads((CLAIMS.RESULTS / "peers.json").read_text("utf-8"))
    text = (ROOT / "README.md").read_text("utf-8")
    assert CLAIMS.readme(text, peers) == text
    peers["rows"][3]["ONNX Runtime"] = "921697.57"
    assert CLAIMS.readme(text, peers) != text


def test_every_result_names_date_machine_and_versions() -> None:
    for path in CLAIMS.RESULTS.glob("*.json"):
        text = path.read_text("utf-8")
        assert re.search(r"\d{4}-\d\d-\d\d", text), path
        for word in ("machine", "halfulp", "numpy"):
            assert f'"{word}"' in text, path


def test_the_number_of_cases_is_told_right() -> None:
    number = len(all_cases())
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"{number:,} hard cases" in readme
    conformance = (ROOT / "docs/conformance.md").read_text("utf-8")
    totals = next(x for x in conformance.splitlines() if x.startswith("| exact |"))
    assert totals.split("|")[2].strip() == str(number)
    # Known failures name the releases that the document was made with.
    for name, known in load("known_failures").items():
        assert known["version"] in conformance, name
