"""The files of external data that a model refers to.

May import files and nodes only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from halfulp.errors import HalfulpError
from halfulp.onnx.files import load_structure
from halfulp.onnx.nodes import subgraphs


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
        for tensor in _tensors(model)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    folders = {path.parent, Path(os.path.realpath(path)).parent}
    return [folder / name for folder in folders for name in sorted(locations)]


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    yield from _tensors_of(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from _tensors_of_node(node)


def _tensors_of(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _tensors_of_node(node)


def _tensors_of_node(node: NodeProto) -> Iterator[TensorProto]:
    for attribute in node.attribute:
        yield attribute.t
        yield from attribute.tensors
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
    for _, graph in subgraphs(node):
        yield from _tensors_of(graph)
