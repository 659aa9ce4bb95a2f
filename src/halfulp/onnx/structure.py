"""Checks names and nodes of a prepared model: what needs no type and no value.

May import errors, faults and nodes only.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import GraphProto, ModelProto, NodeProto, OperatorSetIdProto
from onnx.checker import C

from halfulp.errors import ModelError
from halfulp.onnx.faults import model_errors
from halfulp.onnx.nodes import label, subgraphs, where


def check_structure(model: ModelProto) -> None:
    """Check a prepared model whose functions are specialized.

    Raises
    ------
    ModelError
        If a value is used before it is defined, or defined twice, or if a node
        breaks the rules of its operator.
    """
    _check_graph(model.graph, set(), _context(model.opset_import))
    for function in model.functions:
        context = _context(function.opset_import)
        _check_body(function.node, function.output, set(function.input), set(), context)


def _context(imports: Iterable[OperatorSetIdProto]) -> C.CheckerContext:
    context = C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    context.opset_imports = {entry.domain: entry.version for entry in imports}
    return context


def _check_graph(graph: GraphProto, outer: set[str], context: C.CheckerContext) -> None:
    known = {value.name for value in graph.input}
    known.update(tensor.name for tensor in graph.initializer)
    known.update(tensor.values.name for tensor in graph.sparse_initializer)
    outputs = [value.name for value in graph.output]
    _check_body(graph.node, outputs, known, outer, context)


def _check_body(
    nodes: Iterable[NodeProto],
    outputs: Iterable[str],
    known: set[str],
    outer: set[str],
    context: C.CheckerContext,
) -> None:
    """Check nodes that see the names `known` in their scope, and `outer` around it."""
    for index, node in enumerate(nodes):
        here = (where(node) or label(node, index)).removesuffix(": ")
        for name in node.input:
            if name and name not in known and name not in outer:
                raise ModelError(f"{here}: input {name!r} is not defined before the node")
        nested = [graph for _, graph in subgraphs(node)]
        for graph in nested:
            _check_graph(graph, known | outer, context)
        if not nested:
            with model_errors(here):
                onnx.checker.check_node(node, context)
        for name in node.output:
            if name in known:
                raise ModelError(f"{here}: output {name!r} is defined twice; allowed: once")
            known.add(name)
    for name in outputs:
        if name not in known and name not in outer:
            raise ModelError(f"output {name!r} of a graph is not defined in it")
