"""Checks each node of a model by itself, and writes all alike."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Set

import onnx
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto

from halfulp.errors import HalfulpError, ModelError
from halfulp.faults import OnError, raise_error
from halfulp.files.formats.tensor_proto import read_tensor
from halfulp.onnx.model.nodes import (
    DOMAIN_NAMES,
    function_label,
    set_place,
    subgraphs,
    walk,
    within,
)
from halfulp.onnx.model.onnx_crashes import check_attributes
from halfulp.onnx.model.reduce_nodes import (
    VersionAt,
    describe,
    read_node,
    reduction_of,
    version_at,
)
from halfulp.spec.rules import check_opset

NO_IMPORT = "has no opset import; allowed: exactly one"


def prepare(
    model: ModelProto, on_error: OnError = raise_error, *, external: bool = False
) -> dict[str, VersionAt]:
    """Check each node by itself, and smooth what onnx's evaluator trips over.

    Afterwards the domain of ONNX's operators is ``""`` only, with an opset that
    the installed onnx knows; no node has an output without a name; and each
    node that reduces, nested ones and those of functions included, obeys the
    rules of its version as far as it says by itself. Every node knows how errors
    name it (`halfulp.onnx.model.nodes.place`).

    Parameters
    ----------
    model : onnx.ModelProto
        Changed in place.
    on_error : callable, optional
        Takes an error that concerns one node. Default: raise it.
    external : bool, optional
        Whether tensors may have their data in other files: it is not looked at.

    Returns
    -------
    dict of str to VersionAt
        The place of each node that reduces, in the order of the model, and its version
        and opset, which may be later than the installed onnx knows.

    Raises
    ------
    ModelError, ArgumentError
        If the model breaks a rule.
    """
    numbers = itertools.count()
    domains = {function.domain for function in model.functions}
    nodes = model.graph.node
    found = dict(_prepare_nodes(model, nodes, "", numbers, domains, external, on_error))
    for function in model.functions:
        if function.domain in DOMAIN_NAMES:
            function.domain = ""
        path = within(function_label(function))
        found.update(
            _prepare_nodes(
                function, function.node, path, numbers, domains, external, on_error
            )
        )
    return found


def _prepare_nodes(
    owner: ModelProto | FunctionProto,
    nodes: Iterable[NodeProto],
    path: str,
    numbers: Iterator[int],
    functions: Set[str],
    external: bool,
    on_error: OnError,
) -> Iterator[tuple[str, VersionAt]]:
    """Prepare the nodes that the opset imports of `owner` govern; yield ours."""
    opset = _opset(owner)
    imported = {entry.domain for entry in owner.opset_import} | functions
    for here, node in walk(nodes, path):
        if node.domain in DOMAIN_NAMES:
            node.domain = ""
            if opset is None:
                raise ModelError(
                    f"{here} is of domain '', which has no opset import; "
                    "allowed: opset 1 and later"
                )
            if reduction_of(node):
                at = version_at(node, opset)
                here = describe(here, at)
                yield here, at
        if not node.op_type:
            raise ModelError(f"{here}: has no operator; allowed: exactly one")
        elif node.domain not in imported:
            # One error for each domain.
            imported.add(node.domain)
            error = ModelError(
                f"{here}: operator {node.op_type!r} of domain {node.domain!r} {NO_IMPORT}"
            )
            on_error(here, error)
        set_place(node, here)
        _name_outputs(node, numbers)
        try:
            if opset is not None and reduction_of(node):
                read_node(node, opset, f"{here}: ")
            check_attributes(node, f"{here}: ")
            _check_tensors(node, here, external)
        except HalfulpError as error:
            on_error(here, error)


def _opset(owner: ModelProto | FunctionProto) -> int | None:
    """Return the opset of domain "", and leave one import of it at most.

    What is left is no later than the installed onnx knows: a later opset means
    the newest known version of each operator.
    """
    ours = [entry for entry in owner.opset_import if entry.domain in DOMAIN_NAMES]
    others = [entry for entry in owner.opset_import if entry.domain not in DOMAIN_NAMES]
    opsets = {entry.version for entry in ours}
    if len(opsets) > 1:
        raise ModelError(
            f"domain '' has opset imports {sorted(opsets)}; allowed: exactly one"
        )
    if not opsets:
        return None
    opset: int = opsets.pop()
    check_opset(opset)
    known = min(opset, onnx.defs.onnx_opset_version())
    imports = [onnx.helper.make_opsetid("", known), *others]
    del owner.opset_import[:]
    owner.opset_import.extend(imports)
    return opset


def _name_outputs(node: NodeProto, numbers: Iterator[int]) -> None:
    """Name the outputs that are left out.

    onnx's evaluator would store such an output under the empty name, and take it
    for the inputs that later nodes leave out.
    """
    for i, name in enumerate(node.output):
        if not name:
            node.output[i] = f"halfulp.unused.{next(numbers)}"


def _check_tensors(node: NodeProto, here: str, external: bool) -> None:
    def check(tensor: TensorProto, what: str) -> None:
        if not (external and tensor.data_location == TensorProto.EXTERNAL):
            read_tensor(tensor, what)

    for attribute in node.attribute:
        if attribute.HasField("t"):
            check(attribute.t, f"{here}: attribute {attribute.name!r}")
        for tensor in attribute.tensors:
            check(tensor, f"{here}: attribute {attribute.name!r}")
    for name, graph in subgraphs(node):
        for tensor in graph.initializer:
            check(tensor, f"{within(here, name)}initializer {tensor.name!r}")
