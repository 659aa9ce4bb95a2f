"""Checks the ReduceSumSquare nodes against types, shapes and constants.

May import errors, element_types, spec.rules, nodes, scopes and tensors only.

All that is known before the model runs is used: declared and inferred types,
initializers, constants, and the inputs that are fed. What is not known until
then, the operator checks with the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto

from halfulp.element_types import ALLOWED
from halfulp.errors import UnsupportedTypeError
from halfulp.onnx.nodes import axes_values, check_axes_type, is_reduce, place, read_node
from halfulp.onnx.scopes import Scope, array_type, tensor_facts, walk_typed
from halfulp.onnx.tensors import type_name
from halfulp.spec.rules import check_type, normalize_axes


def check_types(
    model: ModelProto, feeds: Mapping[str, Any], unknown: Iterable[str] = ()
) -> None:
    """Check each ReduceSumSquare node with what is known beforehand.

    Parameters
    ----------
    model : onnx.ModelProto
        Prepared, its functions specialized. It is not changed.
    feeds : mapping of str to array
        The values of graph inputs, as far as known.
    unknown : iterable of str, optional
        Graph inputs that may yet be fed, so that an initializer says nothing.

    Raises
    ------
    UnsupportedTypeError, AxesError
        If a node's data or axes have a type, rank or value that its version
        does not allow.
    """
    typed = ModelProto()
    typed.CopyFrom(model)
    arrays = {k: v for k, v in feeds.items() if isinstance(v, np.ndarray)}
    for value in typed.graph.input:
        if value.name in arrays:
            value.type.CopyFrom(array_type(arrays[value.name]))
    walk_typed(typed, {**dict.fromkeys(unknown), **arrays}, check_reduce)


def check_reduce(node: NodeProto, scope: Scope, opset: int, path: str) -> None:
    """Check `node` with what `scope` knows, if it is a ReduceSumSquare.

    Raises
    ------
    UnsupportedTypeError, AxesError
        As `check_types`.
    """
    if not is_reduce(node):
        return
    start = f"{path}{place(node)}: "
    rules = read_node(node, opset, start)
    kind, element_type, rank = tensor_facts(scope.types.get(node.input[0]))
    if kind not in ("tensor", None):
        raise UnsupportedTypeError(
            f"{start}data is a {kind}; allowed: a tensor of {ALLOWED}"
        )
    if element_type:
        check_type(type_name(element_type), rules.version, start)
    axes = rules.axes
    if len(node.input) > 1 and node.input[1]:
        constant = scope.array(node.input[1])
        if constant is not None:
            axes = axes_values(constant, start)
        else:
            kind, element_type, axes_rank = tensor_facts(scope.types.get(node.input[1]))
            if element_type:
                check_axes_type(type_name(element_type), axes_rank, start)
    if rank is not None:
        normalize_axes(axes, rank, repeated="merge", where=start)
