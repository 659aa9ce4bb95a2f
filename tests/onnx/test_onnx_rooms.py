"""The rooms of halfulp.onnx: which may import which, and the one way to open a model."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import halfulp.onnx

PACKAGE = Path(halfulp.onnx.__file__).parent

# By room, or module beside the rooms: what it may import of the package.
ALLOWED = {
    "model": {"model"},
    "check": {"model", "check"},
    "ops": {"model"},
    "run": {"model", "check", "run", "ops"},
    "rewrite": {"model", "check", "rewrite"},
    "model_check": {"model", "check"},
    "backend": {"model", "run"},
}

# The steps that open.open_model takes, and what brings a file to it.
STEPS = {
    "check_declared",
    "check_structure",
    "densify",
    "prepare",
    "sort_nodes",
    "specialize_functions",
    "take_large_tensors",
}


def _imports(file: Path) -> Iterator[tuple[str, str]]:
    """Yield module and name of all that a file imports, in functions too."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def _room(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = [file for file in sorted(PACKAGE.rglob("*.py")) if _room(file) != "__init__"]


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_rooms_import_what_is_before_them(file: Path) -> None:
    for module, name in _imports(file):
        parts = [*module.split("."), name]
        if parts[:2] == ["halfulp", "onnx"]:
            assert parts[2] in ALLOWED[_room(file)], (module, name)


def test_each_room_and_module_has_its_place() -> None:
    assert {_room(file) for file in FILES} == ALLOWED.keys()


def test_a_model_is_opened_in_one_place() -> None:
    taken = {}
    for file in sorted(PACKAGE.parent.rglob("*.py")):
        for module, name in _imports(file):
            if module.startswith("halfulp.onnx.") and name in STEPS:
                taken.setdefault(name, []).append(
                    file.relative_to(PACKAGE.parent).as_posix()
                )
    assert taken == {step: ["onnx/model/open.py"] for step in STEPS}
