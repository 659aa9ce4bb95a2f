"""The imports of src/halfulp: down the floors of docs/design.md, never in a circle.

A circle would be one wherever its imports stand: at the top of a file, within a function
or for type checkers alone.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
FILES = sorted((SOURCE / "halfulp").rglob("*.py"))


def _module(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module(path): path for path in FILES}
NAMES = [*MODULES, "halfulp._core"]
SHORT = {name: name.removeprefix("halfulp.") for name in NAMES}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _imports(module: str) -> set[str]:
    """The modules of halfulp that one imports, anywhere in it."""
    names = set()
    for node in ast.walk(_tree(MODULES[module])):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} imports {node.module} by dots"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in NAMES else str(node.module))
    return {name for name in names if name in NAMES} - {module}


GRAPH = {module: _imports(module) for module in MODULES}


def _room(module: str) -> str:
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]


@cache
def _floors() -> dict[str, int]:
    """Modules and rooms, each with its floor: the rows of the table, the lowest first."""
    text = (ROOT / "docs/design.md").read_text()
    table = re.search(r"^\| floor \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table
    return {
        name.replace("/", "."): floor
        for floor, row in enumerate(table[1].splitlines())
        for name in re.findall(r"`([\w/]+?)/?`", row.split("|")[2])
    }


def _floor(module: str) -> int:
    """The floor of a module: its own, or that of the room it is in."""
    floors = _floors()
    name = SHORT.get(module, module)
    while name not in floors:
        assert "." in name, f"docs/design.md names no floor of {module}"
        name = name.rpartition(".")[0]
    return floors[name]


def _head(module: str) -> str:
    return " ".join((ast.get_docstring(_tree(MODULES[module])) or "").split())


def _is_named(module: str, text: str) -> bool:
    """Whether a text names a module, or the room that it is in."""
    names = SHORT[module].split(".")
    words = set(re.findall(r"[\w.]*\w", text))
    return bool(
        words & {*names, ".".join(names), module}
        or (module == "halfulp" and "itself" in words)
    )


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert len(list(TopologicalSorter(GRAPH).static_order())) == len(NAMES)


def test_no_rooms_beside_each_other_import_each_other_in_a_circle() -> None:
    """A room's `__init__` names what its modules offer, and stands above them."""
    rooms: dict[str, set[str]] = {}
    for module, imported in GRAPH.items():
        if MODULES[module].name != "__init__.py":
            room = _room(module)
            others = {_room(name) for name in imported if name in MODULES}
            rooms.setdefault(room, set()).update(
                other
                for other in others
                if not f"{room}.".startswith(f"{other}.")
                and not f"{other}.".startswith(f"{room}.")
            )
    assert len(list(TopologicalSorter(rooms).static_order())) >= len(rooms)


@pytest.mark.parametrize("module", MODULES)
def test_an_import_points_down_the_floors_or_has_its_reason_in_the_head(
    module: str,
) -> None:
    up = {name for name in GRAPH[module] if _floor(name) > _floor(module)}
    reasons = re.findall(r"(?:[^.]|\.(?=\w))*\bwhen\b(?:[^.]|\.(?=\w))*", _head(module))
    unexplained = {
        name for name in up if not any(_is_named(name, reason) for reason in reasons)
    }
    assert not unexplained


def test_the_floors_name_nothing_that_is_not_there() -> None:
    assert set(_floors()) <= set(SHORT.values())
