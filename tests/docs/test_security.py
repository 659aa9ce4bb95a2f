"""What SECURITY.md promises of the sources: no network, and nothing in a file is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import halfulp

SOURCE = Path(__file__).parents[2] / "src/halfulp"

# Modules that reach the network, run what they read, start processes, or read memory.
MODULES = {
    "asyncio", "code", "codeop", "ctypes", "dill", "ftplib", "http", "imaplib", "joblib",
    "marshal", "multiprocessing", "pickle", "poplib", "pty", "runpy", "shelve", "smtplib",
    "socket", "socketserver", "ssl", "subprocess", "urllib", "xmlrpc",
}  # fmt: skip
CALLS = {"eval", "exec", "compile", "__import__"}
METHODS = {"system", "popen", "fork", "forkpty"}
PREFIXES = ("exec", "spawn", "posix_spawn")  # of os

# Where they may be, each with its reason.
ALLOWED = {
    # What measures, and a backend under test, which may crash: nothing of a user is in
    # the command. Of multiprocessing, frames of bytes: what travels in them is JSON.
    "children.py": {"subprocess", "multiprocessing"},
    # Reads the memory of a result that onnxruntime holds.
    "onnxruntime.py": {"ctypes"},
    # Asks the library whether PyTorch took it.
    "torch/library.py": {"ctypes"},
    # Expressions of the table in bench/peers.py, which is what is timed.
    "bench/accuracy.py": {"eval"},
    "bench/measure.py": {"eval"},
    "bench/memory.py": {"eval"},
    # The backend under test that was named on the command line, as module:attribute.
    "conformance/backends/registry.py": {"import_module"},
    # Each command runs in a child of the same program, which may crash.
    "guard.py": {"os.fork"},
    # Optional packages: duckdb, pyarrow, zarr, h5py.
    "duckdb.py": {"import_module"},
    "files/formats/chunked.py": {"import_module"},
    # The node tests of the installed onnx; and urllib.parse, which splits an address.
    "page/examples.py": {"import_module"},
    "page/blocks.py": {"urllib"},
}


def _found(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
            if node.module == "os":
                yield from (a.name for a in node.names if _is_method(a.name))
        elif isinstance(node, ast.Name) and node.id in CALLS:
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in ("os", "builtins") and _is_method(node.attr):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                yield "allow_pickle"
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "import_module"
            and not _is_our_choice(node.args[0])
        ):
            yield "import_module"
        for name in names:
            if name.partition(".")[0] in MODULES:
                yield name.partition(".")[0]


def _is_method(name: str) -> bool:
    return name in METHODS | CALLS or name.startswith(PREFIXES)


def _is_our_choice(module: ast.expr) -> bool:
    """Whether a module imported by name is named in the source, its package at least."""
    if isinstance(module, ast.JoinedStr):
        module = module.values[0]
    return isinstance(module, ast.Constant) and isinstance(module.value, str)


def test_no_module_runs_what_it_reads_or_reaches_the_network() -> None:
    found = {}
    for path in SOURCE.rglob("*.py"):
        names = set(_found(ast.parse(path.read_text())))
        if names:
            found[path.relative_to(SOURCE).as_posix()] = names
    assert found == ALLOWED


def test_the_search_finds_what_it_looks_for() -> None:
    code = """
import pickle, urllib.request as web
from subprocess import run
from os import system
def f(x):
    np.load(x, allow_pickle=True)
    os.execv(x, [])
    importlib.import_module(x)
    return eval(x)
"""
    assert set(_found(ast.parse(code))) == {
        "pickle", "urllib", "subprocess", "system", "allow_pickle", "os.execv",
        "import_module", "eval",
    }  # fmt: skip


def test_these_are_the_sources_that_run() -> None:
    ours = {path.relative_to(SOURCE) for path in SOURCE.rglob("*.py")}
    running = Path(halfulp.__file__).parent
    assert {path.relative_to(running) for path in running.rglob("*.py")} == ours
