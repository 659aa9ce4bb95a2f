"""The files of external data that a model refers to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from onnx import ModelProto, TensorProto

from halfulp import limits
from halfulp.errors import ArgumentError, HalfulpError
from halfulp.external_data import external_data
from halfulp.files.formats.tensor_proto import external_entries, read_tensor
from halfulp.input import open_regular
from halfulp.onnx.model.files import (
    given_model,
    load_data,
    load_model,
    load_structure,
    save_model,
)
from halfulp.onnx.model.initializers import SMALL_TENSOR
from halfulp.onnx.model.tensors import all_tensors, tensor_nbytes
from halfulp.output import STDIO, whole_file


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


def load_to_rewrite(path: Path) -> ModelProto:
    """Return a model without its weights; that of stdin, "-", has no other files."""
    model = load_model(given_model(path), SMALL_TENSOR)
    for tensor in all_tensors(model) if path == STDIO else ():
        if tensor.data_location == TensorProto.EXTERNAL:
            read_tensor(tensor, f"tensor {tensor.name!r}")
    return model


def with_data(model: ModelProto, path: Path) -> ModelProto:
    """Return a model, made of that at `path`, with all its data."""
    copy = ModelProto()
    copy.CopyFrom(model)
    if path != STDIO:
        with limits.more_to_look_at():
            load_data(copy, path)
    return copy


def save_beside_data(output: Path, model: ModelProto, source: Path) -> list[Path]:
    """Write a model, made of that at `source`, so that it finds its external data.

    Files are where the model finds them, or are copied to where it does. To stdout it
    goes with its data.

    Returns
    -------
    list of pathlib.Path
        The copies.

    Raises
    ------
    ArgumentError
        If another file is where a copy would be; nothing is written then.
    ModelError
        If data is not where it was.
    """
    if output == STDIO:
        save_model(output, with_data(model, source))
        return []
    wanted: dict[Path, Path] = {}
    for tensor in all_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            entries = external_entries(tensor)
            what = f"tensor {tensor.name!r}"
            nbytes = tensor_nbytes(tensor, what)
            found = external_data(entries, source, nbytes, what).path
            beside = output.parent / entries["location"]
            if not beside.exists() or not beside.samefile(found):
                wanted[beside] = found
    for beside in wanted:
        if os.path.lexists(beside):
            raise ArgumentError(
                f"the model's data would be copied to {str(beside)!r}, which exists; "
                "allowed: an output in another folder, or in that of the model"
            )
    for beside, found in wanted.items():
        beside.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(beside) as copy, open_regular(found, raw=True) as file:
            shutil.copyfileobj(file, copy, 1 << 20)
    save_model(output, model)
    return list(wanted)
