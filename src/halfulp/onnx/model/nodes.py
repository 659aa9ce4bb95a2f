"""Nodes: walking them, what they hold, and how errors name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from halfulp.faults import shortened
from halfulp.reductions import DOMAIN_NAMES as DOMAIN_NAMES

_PLACE = "halfulp.place"

# Characters of a name, and of the path to a node. Every node repeats the path to it:
# its length bounds the memory for that.
_LONGEST_NAME = 200
_LONGEST_PATH = 400


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """Yield the name of each attribute of `node` that holds a graph, and the graph."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for graph in attribute.graphs:
            yield attribute.name, graph


def twin_graphs(
    node: NodeProto, twin: NodeProto
) -> Iterator[tuple[str, GraphProto, GraphProto]]:
    """Yield what `subgraphs` does, each with the graph at the same place of `twin`."""
    pairs = zip(subgraphs(node), subgraphs(twin), strict=True)
    yield from ((name, graph, other) for (name, graph), (_, other) in pairs)


def drop_attribute(node: NodeProto, name: str) -> None:
    """Remove each attribute called `name`."""
    for i in reversed(range(len(node.attribute))):
        if node.attribute[i].name == name:
            del node.attribute[i]


def become(node: NodeProto, other: NodeProto) -> None:
    """Let `node` do what `other` of its domain does; all else stays its own."""
    node.op_type = other.op_type
    for own, its in ((node.input, other.input), (node.attribute, other.attribute)):
        kept = list(its)
        del own[:]
        own.extend(kept)


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
    overload = shortened(function.overload, _LONGEST_NAME)
    which = f" (overload {overload!r})" if overload else ""
    return f"function {shortened(function.name, _LONGEST_NAME)!r}{which}"


def opset_of(scope: ModelProto | FunctionProto) -> int | None:
    """Return the opset of ONNX's domain that `scope` imports, if any."""
    found = (e.version for e in scope.opset_import if e.domain in DOMAIN_NAMES)
    return next(found, None)


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
