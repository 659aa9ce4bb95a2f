"""Nodes: walking them, how errors name them, and what a ReduceSumSquare node says.

May import errors, spec.rules, faults and tensors only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
)

from halfulp.errors import AxesError, ModelError
from halfulp.faults import shortened
from halfulp.onnx.model.tensors import dtype_name
from halfulp.spec.rules import OPERATOR, OperatorVersion, check_flag, version_for

# The domain of ONNX's own operators has two names.
DOMAIN_NAMES = ("", "ai.onnx")

_PLACE = "halfulp.place"

# Characters of a name, and of the path to a node. Every node repeats the path to it:
# its length bounds the memory for that.
_LONGEST_NAME = 200
_LONGEST_PATH = 400

_ATTRIBUTE_TYPES = {
    "axes": AttributeProto.INTS,
    "keepdims": AttributeProto.INT,
    "noop_with_empty_axes": AttributeProto.INT,
}


@dataclass(frozen=True, slots=True)
class ReduceNode:
    """What a ReduceSumSquare node says.

    Attributes
    ----------
    version : OperatorVersion
    keepdims, noop_with_empty_axes : bool
    axes : tuple of int
        Those of the attribute; empty from version 18 on.
    """

    version: OperatorVersion
    keepdims: bool
    noop_with_empty_axes: bool
    axes: tuple[int, ...]


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """Yield the name of each attribute of `node` that holds a graph, and the graph."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for graph in attribute.graphs:
            yield attribute.name, graph


def labelled(nodes: Iterable[NodeProto], path: str) -> Iterator[tuple[str, NodeProto]]:
    """Yield each node after the path that names it; no two nodes have the same."""
    names = set()
    for index, node in enumerate(nodes):
        again = f" #{index}" if node.name in names else ""
        if node.name:
            names.add(node.name)
        yield f"{path}{label(node, index)}{again}", node


def walk(nodes: Iterable[NodeProto], path: str = "") -> Iterator[tuple[str, NodeProto]]:
    """Yield nodes as `labelled` does, those of nested graphs too."""
    for here, node in labelled(nodes, path):
        yield here, node
        for name, graph in subgraphs(node):
            yield from walk(graph.node, within(here, name))


def within(*path: str) -> str:
    """Return what to put before the names of nodes that stand at `path`."""
    return shortened(" > ".join(path), _LONGEST_PATH) + " > "


def label(node: NodeProto, index: int | None = None) -> str:
    """Name `node`: by its name, else by its index and output."""
    if node.name:
        return f"node {shortened(node.name, _LONGEST_NAME)!r}"
    number = "" if index is None else f" #{index}"
    output = shortened(next(iter(node.output), ""), _LONGEST_NAME)
    return f"node{number} (output {output!r})"


def function_label(function: FunctionProto) -> str:
    """Name `function`."""
    return f"function {shortened(function.name, _LONGEST_NAME)!r}"


def is_reduce(node: NodeProto) -> bool:
    """Tell whether `node` is a ReduceSumSquare of ONNX."""
    return node.op_type == OPERATOR and node.domain in DOMAIN_NAMES


def opset_of(scope: ModelProto | FunctionProto) -> int | None:
    """Return the opset of ONNX's domain that `scope` imports, if any."""
    found = (e.version for e in scope.opset_import if e.domain in DOMAIN_NAMES)
    return next(found, None)


def describe(path: str, opset: int) -> str:
    """Name the ReduceSumSquare node at `path`, with its version."""
    return f"{path} ({version_for(opset)}, opset {opset})"


def set_place(node: NodeProto, place: str) -> None:
    """Note in `node` how errors name it; `place` finds it again."""
    node.metadata_props.add(key=_PLACE, value=place)


def place(node: NodeProto) -> str:
    """Return how errors name `node`, as `set_place` noted it last, else ""."""
    found = [entry.value for entry in node.metadata_props if entry.key == _PLACE]
    return found[-1] if found else ""


def constant(node: NodeProto) -> TensorProto | np.ndarray[Any, Any] | None:
    """Return the value of a node that is a Constant, of numbers or a tensor."""
    if node.op_type != "Constant" or node.domain not in DOMAIN_NAMES:
        return None
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            return None
        if attribute.name == "value":
            tensor: TensorProto = attribute.t
            return tensor
        if attribute.name == "value_int":
            return np.array(attribute.i, np.int64)
        if attribute.name == "value_ints":
            return np.array(attribute.ints, np.int64)
        if attribute.name == "value_float":
            return np.array(attribute.f, np.float32)
        if attribute.name == "value_floats":
            return np.array(attribute.floats, np.float32)
    return None


def read_node(node: NodeProto, opset: int, where: str) -> ReduceNode:
    """Check a ReduceSumSquare node by the rules of its version; return what it says.

    An attribute that refers to one of a function counts as absent.

    Raises
    ------
    ModelError, ArgumentError
        If the node has inputs, outputs, attributes or values that its version
        does not allow.
    """
    version = version_for(opset)
    _check_arity(node, version, where)
    values: dict[str, Any] = {}
    seen = set()
    for attribute in node.attribute:
        name = attribute.name
        if name not in version.attributes:
            raise ModelError(where + _attribute_not_allowed(name, version))
        if name in seen:
            raise ModelError(f"{where}attribute {name} is given twice; allowed: once")
        seen.add(name)
        if attribute.type != _ATTRIBUTE_TYPES[name]:
            given = AttributeProto.AttributeType.Name(attribute.type)
            allowed = AttributeProto.AttributeType.Name(_ATTRIBUTE_TYPES[name])
            raise ModelError(
                f"{where}attribute {name} has type {given}; allowed: {allowed}"
            )
        if not attribute.ref_attr_name:
            values[name] = attribute.ints if name == "axes" else attribute.i
    return ReduceNode(
        version=version,
        keepdims=check_flag("keepdims", values.get("keepdims", 1), where),
        noop_with_empty_axes=check_flag(
            "noop_with_empty_axes", values.get("noop_with_empty_axes", 0), where
        ),
        axes=tuple(values.get("axes", ())),
    )


def check_axes_type(name: str, rank: int | None, where: str) -> None:
    """Raise unless axes of element type `name`, and of `rank` if known, are allowed."""
    if name != "int64" or rank not in (1, None):
        shape = "" if rank is None else f" of rank {rank}"
        raise AxesError(
            f"{where}axes is a tensor({name}){shape}; allowed: a 1-D tensor(int64)"
        )


def axes_values(axes: np.ndarray[Any, Any], where: str) -> tuple[int, ...]:
    """Return the values of the axes input.

    Raises
    ------
    AxesError
        If it is not a 1-D tensor of int64.
    """
    check_axes_type(dtype_name(axes.dtype), axes.ndim, where)
    return tuple(axes.tolist())


def _check_arity(node: NodeProto, version: OperatorVersion, where: str) -> None:
    inputs = len(node.input)
    if version.axes == "attribute" and inputs > 1:
        raise ModelError(
            f"{where}has {inputs} inputs; allowed: 1, data; before opset 18 axes is an "
            f"attribute of {OPERATOR}, not an input"
        )
    if inputs > 2:
        raise ModelError(f"{where}has {inputs} inputs; allowed: data, axes")
    if not inputs or not node.input[0]:
        raise ModelError(f"{where}has no input data; allowed: exactly one")
    if len(node.output) != 1 or not node.output[0]:
        raise ModelError(f"{where}has outputs {list(node.output)}; allowed: exactly one")


def _attribute_not_allowed(name: str, version: OperatorVersion) -> str:
    if name == "axes":
        return (
            "axes is given as an attribute; from opset 18 axes is an input of "
            f"{OPERATOR}, not an attribute; convert the node or import opset 17"
        )
    hint = " (it exists from opset 18 on)" if name in _ATTRIBUTE_TYPES else ""
    allowed = ", ".join(version.attributes)
    return f"attribute {name!r} is not allowed{hint}; allowed: {allowed}"
