"""The sources of the core: what their heads say they may include, and their size."""

from __future__ import annotations

import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
FILES = sorted(path for path in NATIVE.rglob("*") if path.suffix in {".h", ".cpp"})
HEADERS = [path for path in FILES if path.suffix == ".h"]
SOURCES = [path for path in FILES if path.suffix == ".cpp"]


def _name(path: Path) -> str:
    return str(path.relative_to(NATIVE))


def _head(path: Path) -> str:
    comment = re.match(r"(?://.*\n)*", path.read_text())
    assert comment
    return re.sub(r"\n?// ?", " ", comment[0])


def _included(path: Path) -> set[str]:
    names = re.findall(r'^#include "(?:\.\./)?(.+\.h)"', path.read_text(), re.MULTILINE)
    return set(names)


def _allowed(path: Path) -> tuple[set[str], set[str]]:
    """What a head says that its file may include, and its source besides."""
    head = _head(path)
    said = re.search(
        r"(?:May i|I)nclude[s ].*?(?:only|halfulp|too)(;.*?\.(?= |$))?", head
    )
    assert said, f"{_name(path)} does not say what it may include"
    own, _, source = said[0].partition("; its source")
    names = re.compile(r"\w+\.h")
    also = {file.name for file in path.parent.glob("*.h")} if "folder" in own else set()
    return {*names.findall(own), *also}, set(names.findall(source))


@pytest.mark.parametrize("path", HEADERS, ids=_name)
def test_a_header_includes_what_its_head_says(path: Path) -> None:
    assert _included(path) == _allowed(path)[0] or (
        "what" in _head(path) and _included(path) <= _allowed(path)[0]
    )


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_source_includes_what_its_header_or_its_head_says(path: Path) -> None:
    header = path.with_suffix(".h")
    if header.exists():
        own, more = _allowed(header)
        assert _included(path) <= {header.name} | own | more
        assert more <= _included(path)
    else:
        assert _included(path) <= _allowed(path)[0]


def test_no_files_include_each_other_in_a_circle() -> None:
    order = TopologicalSorter({path.name: _included(path) for path in FILES})
    assert len(list(order.static_order())) >= len(FILES)


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_file_has_at_most_400_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


def test_operators_are_named_in_the_table_only() -> None:
    table = (NATIVE / "reductions.inc").read_text()
    names = re.findall(r'^REDUCTION\(\w+, "(\w+)"', table, re.MULTILINE)
    assert names
    for path in FILES:
        text = path.read_text()
        assert not [name for name in names if name in text], _name(path)


def _reached(path: Path) -> set[str]:
    """The names of all headers that a file includes, be it through others."""
    by_name = {file.name: file for file in FILES}
    found: set[str] = set()
    new = {path.name}
    while new:
        new = {name for file in new for name in _included(by_name[file])} - found
        found |= new
    return found


def test_tables_are_those_that_the_script_makes() -> None:
    made = subprocess.run(
        [sys.executable, Path(__file__).with_name("make_coefficients.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    files = ("logarithm.h", "kernels/exponentials.h")
    text = "".join((NATIVE / name).read_text() for name in files)
    for line in made.stdout.splitlines():
        assert line.split("//")[0].strip(" ,") in text


def test_kernels_and_exact_sums_know_no_finish_and_results_no_kernel() -> None:
    kernels = [path for path in FILES if path.parent.name == "kernels"]
    assert kernels
    for path in [*kernels, NATIVE / "exact_sum.h", NATIVE / "terms.h"]:
        assert not _reached(path) & {"finish.h", "results.h", "rounding.h"}, path
    assert _reached(NATIVE / "finish.h") == {
        "digits.h",
        "finishes.h",
        "logarithm.h",
        "reals.h",
    }
    assert not _reached(NATIVE / "results.h") & {path.name for path in kernels}
