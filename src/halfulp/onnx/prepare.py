"""Brings a model into the form that the rest of the package relies on.

May import errors, faults, nodes, tensors and spec.rules only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import onnx
from onnx import FunctionProto, ModelProto, NodeProto

from halfulp.errors import ModelError
from halfulp.onnx.nodes import (
    DOMAIN_NAMES,
    describe,
    is_reduce,
    read_node,
    set_place,
    subgraphs,
    walk,
)
from halfulp.onnx.tensors import read_tensor
from halfulp.spec.rules import version_for


def prepare(model: ModelProto) -> None:
    """Check each node by itself, and smooth what onnx's evaluator trips over.

    Afterwards the domain of ONNX's operators is ``""`` only, with an opset that
    the installed onnx knows; no node has an output without a name; and each
    ReduceSumSquare node, nested ones and those of functions included, obeys the
    rules of its version as far as it says by itself. Every node knows how errors
    name it (`halfulp.onnx.nodes.place`).

    Raises
    ------
    ModelError, ArgumentError
        If the model breaks a rule.
    """
    if not model.HasField("graph"):
        raise ModelError("the model has no graph; allowed: exactly one")
    numbers = itertools.count()
    _prepare_nodes(model, model.graph.node, "", numbers)
    for function in model.functions:
        if function.domain in DOMAIN_NAMES:
            function.domain = ""
        path = f"function {function.name!r} > "
        _prepare_nodes(function, function.node, path, numbers)


def _prepare_nodes(
    scope: ModelProto | FunctionProto,
    nodes: Iterable[NodeProto],
    path: str,
    numbers: Iterator[int],
) -> None:
    """Prepare the nodes that the opset imports of `scope` govern."""
    opset = _opset(scope)
    for here, node in walk(nodes, path):
        if node.domain in DOMAIN_NAMES:
            node.domain = ""
            if opset is None:
                raise ModelError(
                    f"{here} is of domain '', which has no opset import; "
                    "allowed: opset 1 and later"
                )
            if is_reduce(node):
                here = describe(here, opset)
                read_node(node, opset, f"{here}: ")
        set_place(node, here)
        _name_outputs(node, numbers)
        _check_tensors(node, here)


def _opset(scope: ModelProto | FunctionProto) -> int | None:
    """Return the opset of domain "", and leave one import of it at most.

    What is left is no later than the installed onnx knows: a later opset means
    the newest known version of each operator.
    """
    ours = [entry for entry in scope.opset_import if entry.domain in DOMAIN_NAMES]
    others = [entry for entry in scope.opset_import if entry.domain not in DOMAIN_NAMES]
    opsets = {entry.version for entry in ours}
    if len(opsets) > 1:
        raise ModelError(
            f"domain '' has opset imports {sorted(opsets)}; allowed: exactly one"
        )
    if not opsets:
        return None
    opset: int = opsets.pop()
    version_for(opset)
    known = min(opset, onnx.defs.onnx_opset_version())
    imports = [onnx.helper.make_opsetid("", known), *others]
    del scope.opset_import[:]
    scope.opset_import.extend(imports)
    return opset


def _name_outputs(node: NodeProto, numbers: Iterator[int]) -> None:
    """Name the outputs that are left out.

    onnx's evaluator would store such an output under the empty name, and take it
    for the inputs that later nodes leave out.
    """
    for i, name in enumerate(node.output):
        if not name:
            node.output[i] = f"halfulp.unused.{next(numbers)}"


def _check_tensors(node: NodeProto, here: str) -> None:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            read_tensor(attribute.t, f"{here}: attribute {attribute.name!r}")
        for tensor in attribute.tensors:
            read_tensor(tensor, f"{here}: attribute {attribute.name!r}")
    for name, graph in subgraphs(node):
        for tensor in graph.initializer:
            read_tensor(tensor, f"{here} > {name}: initializer {tensor.name!r}")
