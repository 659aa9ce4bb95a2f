"""Checks nodes that reduce against types, shapes and constants.

All that is known before the model runs is used: declared and inferred types,
initializers, constants, and the inputs that are fed. What is not known until
then, the operator checks with the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto

from halfulp.element_types import ALLOWED
from halfulp.errors import HalfulpError, UnsupportedTypeError
from halfulp.faults import OnError, raise_error
from halfulp.onnx.model.nodes import place
from halfulp.onnx.model.open import OpenedModel, Purpose, open_model
from halfulp.onnx.model.reduce_nodes import (
    ReduceNode,
    axes_values,
    check_axes_type,
    read_node,
    reduction_of,
)
from halfulp.onnx.model.scopes import Scope, walk_typed
from halfulp.onnx.model.tensors import (
    Shape,
    dtype_code,
    tensor_facts,
    tensor_type,
    type_name,
)
from halfulp.spec.rules import check_type, normalize_axes


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node that reduces, with what is known of it before the model runs.

    Attributes
    ----------
    path : str
        How errors name the calls of functions around the node; else "".
    place : str
        How errors name the node; `path` comes before.
    node : ReduceNode
    element_type : str or None
        ONNX's name.
    shape : tuple of int, str or None; or None
        Of the data: numbers, symbols, and None for what is not known.
    axes : tuple of int or None
        None: known at run time only.
    """

    path: str
    place: str
    node: ReduceNode
    element_type: str | None
    shape: Shape | None
    axes: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class BrokenNode:
    """A node that reduces and has an error, with what is known of it all the same.

    Attributes
    ----------
    path, place, element_type, shape, axes
        As those of `KnownNode`.
    node : ReduceNode or None
        None: it does not obey the rules of its version.
    """

    path: str
    place: str
    node: ReduceNode | None
    element_type: str | None
    shape: Shape | None
    axes: tuple[int, ...] | None


def check_types(
    model: ModelProto,
    feeds: Mapping[str, Any],
    unknown: Iterable[str] = (),
    on_error: OnError = raise_error,
    on_broken: Callable[[BrokenNode], None] = lambda broken: None,
) -> list[KnownNode]:
    """Check each node that reduces with what is known beforehand.

    Parameters
    ----------
    model : onnx.ModelProto
        Prepared, its functions specialized. It is not changed.
    feeds : mapping of str to array
        The values of graph inputs, as far as known.
    unknown : iterable of str, optional
        Graph inputs that may yet be fed, so that an initializer says nothing.
    on_error : callable, optional
        Takes an error that concerns one node. Default: raise it.
    on_broken : callable, optional
        Takes what is known of a node with an error.

    Returns
    -------
    list of KnownNode
        The nodes without errors, those of functions once for each kind of call.

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
            array = arrays[value.name]
            value.type.CopyFrom(tensor_type(dtype_code(array.dtype) or 0, array.shape))
    found: list[KnownNode] = []

    def visit(node: NodeProto, scope: Scope, opset: int, path: str) -> None:
        if reduction_of(node):
            try:
                found.append(check_reduce(node, scope, opset, path))
            except HalfulpError:
                on_broken(_known(node, scope, opset, path))
                raise

    walk_typed(typed, {**dict.fromkeys(unknown), **arrays}, visit, on_error)
    return found


def check_opened(
    opened: OpenedModel,
    on_error: OnError = raise_error,
    on_broken: Callable[[BrokenNode], None] = lambda broken: None,
) -> list[KnownNode]:
    """Check the nodes of a model as `check_types` does, whatever it will be fed."""
    feeds = {name: a for name, a in opened.large.items() if name not in opened.fed}
    return check_types(opened.proto, feeds, opened.fed, on_error, on_broken)


def open_checked(model: ModelProto, purpose: Purpose) -> OpenedModel:
    """Open a model, and check its nodes with what is known beforehand.

    Raises
    ------
    HalfulpError
        If the model breaks a rule.
    """
    opened = open_model(model, purpose)
    check_opened(opened)
    return opened


def _known(node: NodeProto, scope: Scope, opset: int, path: str) -> BrokenNode:
    """Return what `scope` knows of a node that reduces and has an error."""
    rules, axes, element_type, shape = None, None, 0, None
    with suppress(HalfulpError):
        rules = read_node(node, opset, "")
        axes = rules.axes
    if node.input:
        _, element_type, shape = tensor_facts(scope.types.get(node.input[0]))
    if len(node.input) > 1 and node.input[1]:
        axes, value = None, scope.array(node.input[1])
        with suppress(HalfulpError):
            axes = None if value is None else axes_values(value, "")
    name = type_name(element_type) if element_type else None
    return BrokenNode(path, place(node), rules, name, shape, axes)


def check_reduce(node: NodeProto, scope: Scope, opset: int, path: str) -> KnownNode:
    """Check a node that reduces with what `scope` knows.

    Raises
    ------
    UnsupportedTypeError, AxesError
        As `check_types`.
    """
    start = f"{path}{place(node)}: "
    rules = read_node(node, opset, start)
    kind, element_type, shape = tensor_facts(scope.types.get(node.input[0]))
    if kind not in ("tensor", None):
        raise UnsupportedTypeError(
            f"{start}data is a {kind}; allowed: a tensor of {ALLOWED}"
        )
    if element_type:
        check_type(type_name(element_type), rules.version, start)
    axes: tuple[int, ...] | None = rules.axes
    if len(node.input) > 1 and node.input[1]:
        value = scope.array(node.input[1])
        if value is not None:
            axes = axes_values(value, start)
        else:
            axes = None
            _, axes_type, axes_shape = tensor_facts(scope.types.get(node.input[1]))
            if axes_type:
                axes_rank = None if axes_shape is None else len(axes_shape)
                check_axes_type(type_name(axes_type), axes_rank, start)
    if shape is not None and axes is not None:
        normalize_axes(axes, len(shape), repeated="merge", where=start)
    name = type_name(element_type) if element_type else None
    return KnownNode(path, place(node), rules, name, shape, axes)
