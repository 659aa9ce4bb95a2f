"""onnx's shape inference, kept from the nodes that crash it.

May import errors and nodes only. These are faults of onnx 1.23 and earlier, found by
calling it with hostile attributes, types and inputs of every operator: it reads beyond
arrays where an attribute is out of range, and through a null pointer where it asks for
the type of an input that has none.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from halfulp.errors import ModelError
from halfulp.onnx.nodes import DOMAIN_NAMES, subgraphs

# Operators that crash it if the type of their first input is not known.
_NEED_TYPE = frozenset(
    ("EyeLike", "RegexFullMatch", "DictVectorizer", "LabelEncoder", "TreeEnsemble")
)

# Operators that crash it with attributes that `check_attributes` refuses.
_NEED_ATTRIBUTES = frozenset(("GatherND", "LayerNormalization", "Split"))

# Attributes that count axes, which onnx keeps in 32 bits.
_AXES = frozenset(("axis", "batch_axis", "time_axis"))
_INT32 = range(-(1 << 31), 1 << 31)

# Begins the name of an operator that onnx is not to know.
_HIDDEN = "halfulp.hidden."

# Whether the type of a value is known, by name.
_Known = ChainMap[str, bool]


def check_attributes(node: NodeProto, where: str) -> None:
    """Check the attributes of a node that crash onnx, or hang it, if it is ONNX's.

    An attribute that refers to one of a function counts as absent.

    Raises
    ------
    ModelError
        If one is out of range.
    """
    if node.domain not in DOMAIN_NAMES:
        return
    for attribute in node.attribute:
        name = attribute.name
        if name in _AXES:
            allowed = _INT32
        elif name == "batch_dims":
            allowed = range(1 << 31)
        elif name == "num_outputs" and node.op_type == "Split":
            allowed = range(len(node.output), 1 << 31)
        elif name == "num_scan_inputs":
            allowed = range(1, max(2, len(node.input) + 1))
        else:
            continue
        if attribute.type != AttributeProto.INT or attribute.ref_attr_name:
            continue
        if attribute.i not in allowed:
            raise ModelError(
                f"{where}attribute {name!r} is {attribute.i}; "
                f"allowed: {allowed[0]} to {allowed[-1]}"
            )


def infer_types(model: ModelProto) -> ModelProto:
    """Return `model` with the types that onnx infers.

    It infers none of the outputs of nodes that would crash it.

    Parameters
    ----------
    model : onnx.ModelProto
        Changed while this runs.

    Raises
    ------
    Exception
        Whatever onnx raises.
    """
    if not _set_hidden(model):
        return onnx.shape_inference.infer_shapes(model)
    try:
        typed = onnx.shape_inference.infer_shapes(model)
        # Types are known now, of inputs of such nodes too.
        _set_hidden(typed)
        typed = onnx.shape_inference.infer_shapes(typed)
    finally:
        _show(model)
    _show(typed)
    return typed


def check_safe(model: ModelProto) -> None:
    """Raise a ModelError if a node of `model` would crash onnx."""
    hidden = _set_hidden(model)
    _show(model)
    if hidden:
        raise ModelError("an attribute is out of range, or the type of an input unknown")


def _set_hidden(model: ModelProto) -> bool:
    """Hide the nodes that would crash onnx, and no others; tell whether there are any."""
    found = False
    for node, known in _nodes(model):
        name = node.op_type.removeprefix(_HIDDEN)
        if name not in _NEED_TYPE and name not in _NEED_ATTRIBUTES:
            continue
        node.op_type = name
        if _crashes(node, known):
            node.op_type = f"{_HIDDEN}{name}"
            found = True
    return found


def _show(model: ModelProto) -> None:
    for node, _ in _nodes(model):
        if node.op_type.startswith(_HIDDEN):
            node.op_type = node.op_type.removeprefix(_HIDDEN)


def _crashes(node: NodeProto, known: _Known | None) -> bool:
    if node.op_type in _NEED_TYPE:
        # What types the inputs of a function have, its calls say.
        return known is None or not (node.input and known.get(node.input[0]))
    if known is None and any(attribute.ref_attr_name for attribute in node.attribute):
        return True
    try:
        check_attributes(node, "")
    except ModelError:
        return True
    return False


def _nodes(model: ModelProto) -> Iterator[tuple[NodeProto, _Known | None]]:
    """Yield each node with what is known where it stands: None within functions."""
    yield from _nodes_of(model.graph, ChainMap())
    for function in model.functions:
        yield from _nodes_within(function.node, None)


def _nodes_of(
    graph: GraphProto, outer: _Known
) -> Iterator[tuple[NodeProto, _Known | None]]:
    known = outer.new_child()
    # A name of an outer graph may be used again, for a value yet unknown.
    known.update((name, False) for node in graph.node for name in node.output)
    for value in (*graph.value_info, *graph.output, *graph.input):
        known[value.name] = value.type.WhichOneof("value") is not None
    known.update((tensor.name, True) for tensor in graph.initializer)
    yield from _nodes_within(graph.node, known)


def _nodes_within(
    nodes: Iterable[NodeProto], known: _Known | None
) -> Iterator[tuple[NodeProto, _Known | None]]:
    for node in nodes:
        yield node, known
        for _, graph in subgraphs(node):
            if known is None:
                yield from _nodes_within(graph.node, None)
            else:
                yield from _nodes_of(graph, known)
