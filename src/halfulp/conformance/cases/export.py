"""Writes cases in the layout of ONNX's backend tests, for any language.

May import errors, limits, output and case only; and onnx.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx

import halfulp
from halfulp import limits
from halfulp.conformance.cases.case import Case
from halfulp.errors import ArgumentError
from halfulp.output import temporary_beside, writable, write_errors


def export(cases: Iterable[Case], folder: Path) -> int:
    """Write cases to a folder, whole or not at all; return how many.

    Each is a folder of its name, with ``model.onnx``, ``test_data_set_0/input_0.pb`` and
    so on, ``output_0.pb``, and ``data.json``, which asks ONNX's loader for no tolerance.
    ``index.json`` tells of all. Cases that must be refused have no place in this layout.

    Parameters
    ----------
    cases : iterable of Case
    folder : pathlib.Path
        It does not exist yet, or is empty.

    Raises
    ------
    ArgumentError
        If it is not empty, or cannot be written.
    """
    check_folder(folder)
    folder = folder.absolute()
    temporary = temporary_beside(folder)
    index = []
    with limits.temporary(temporary), write_errors(folder):
        try:
            temporary.mkdir()
            for case in cases:
                if case.valid:
                    index.append(_write_case(case, temporary / case.name))
            content = {"halfulp": halfulp.__version__, "cases": index}
            (temporary / "index.json").write_text(json.dumps(content, indent=1) + "\n")
            # An empty folder at the target is replaced.
            os.replace(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return len(index)


def check_folder(folder: Path) -> None:
    """Raise an ArgumentError unless `export` may write to `folder`."""
    with write_errors(folder):
        if not folder.absolute().parent.is_dir():
            raise ArgumentError(
                f"the parent of the folder {str(folder)!r} does not exist"
            )
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise ArgumentError(f"{str(folder)!r} exists and is no folder")
        if not writable(folder.absolute().parent):
            raise ArgumentError(f"the parent of the folder {str(folder)!r} is read-only")
        if folder.exists() and any(folder.iterdir()):
            raise ArgumentError(
                f"the folder {str(folder)!r} is not empty; allowed: a new one"
            )


def _write_case(case: Case, folder: Path) -> dict[str, Any]:
    model, feeds = case.model()
    assert case.expected is not None
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    tensors = {f"input_{i}": item for i, item in enumerate(feeds.items())}
    tensors["output_0"] = (model.graph.output[0].name, case.expected)
    for name, (of, array) in tensors.items():
        content = onnx.numpy_helper.from_array(array, of).SerializeToString()
        (data / f"{name}.pb").write_bytes(content)
    (folder / "data.json").write_text('{"rtol": 0, "atol": 0}\n')
    return case.facts | {
        "node": case.node,
        "inputs": len(feeds),
        "why": case.why,
        "source": case.source,
    }
