"""The files of external data that a model refers to.

May import errors, files and tensors only.
"""

from __future__ import annotations

import os
from pathlib import Path

from halfulp.errors import HalfulpError
from halfulp.onnx.files import load_structure
from halfulp.onnx.tensors import all_tensors


def data_files(path: Path) -> list[Path]:
    """Return the files of external data of a model, whether they exist or not.

    Of a file that is no model there are none.
    """
    try:
        model = load_structure(path)
    except HalfulpError:
        return []
    locations = {
        entry.value
        for tensor in all_tensors(model)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    folders = {path.parent, Path(os.path.realpath(path)).parent}
    return [folder / name for folder in folders for name in sorted(locations)]
