"""Makes their terms and a plain sum, the function body, out of nodes that reduce."""

from __future__ import annotations

import os

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto

from halfulp.faults import model_errors
from halfulp.onnx.model.bodies import Body, FreshNames, fresh_names, replace
from halfulp.onnx.model.nodes import (
    drop_attribute,
    labelled,
    twin_graphs,
    within,
)
from halfulp.onnx.model.open import read_model
from halfulp.onnx.model.reduce_nodes import read_node, reduction_of
from halfulp.onnx.model.scopes import Scope
from halfulp.onnx.model.tensors import tensor_facts, type_name
from halfulp.onnx.model.terms import TERMS, TermInOnnx
from halfulp.onnx.rewrite.reports import Candidate, RewriteReport
from halfulp.onnx.rewrite.typed_bodies import checked_bodies
from halfulp.reductions import SUM, SUM_SQUARE


def expand(
    model: str | os.PathLike[str] | bytes | ModelProto,
) -> tuple[ModelProto, RewriteReport]:
    """Replace each ReduceSumSquare by Mul and ReduceSum: the inverse of `fuse`.

    These are the body that version 18 has as a function; older versions mean the
    same. Nodes in nested graphs and functions are replaced too. A node stays where
    Mul lacks its type (integers before opset 6), and where its axes are an
    attribute that a function takes from its call but ReduceSum an input (opsets 13
    to 17).

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        Not changed. Of external data only what types may depend on is read, with a
        path; the result refers to the rest as the model does.

    Returns
    -------
    model : onnx.ModelProto
        The ReduceSum has the name, the output and the metadata of the
        ReduceSumSquare; the names of what is new are not in the model yet.
    report : RewriteReport
        Each ReduceSumSquare, whether it was expanded, and why not.

    Raises
    ------
    HalfulpError
        If the model cannot be read or breaks a rule.

    Notes
    -----
    Integer results keep their bits, in a runtime that wraps. Those of floats are no
    longer correctly rounded: each square and each partial sum is rounded.

    Examples
    --------
    >>> import onnx.parser
    >>> from halfulp.onnx import expand
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 18]>
    ...     g (float[N] x) => (float[1] y) { y = ReduceSumSquare(x) }
    ... ''')
    >>> expanded, report = expand(model)
    >>> print(report)
    expanded 1 of 1
    node #0 (output 'y'): expanded, Mul and ReduceSum
    >>> [node.op_type for node in expanded.graph.node]
    ['Mul', 'ReduceSum']
    """
    result = read_model(model)
    candidates: list[Candidate] = []
    with model_errors("the model cannot be used"):
        names = fresh_names(result)
        for each in checked_bodies(result):
            expander = _Expander(each.opset or 0, names, candidates)
            expander.expand(each.body, each.typed, None, each.path)
    return result, RewriteReport("expanded", tuple(candidates))


class _Expander:
    """Expands in a graph or a function, and the graphs nested there."""

    def __init__(
        self, opset: int, names: FreshNames, candidates: list[Candidate]
    ) -> None:
        self._opset = opset
        self._names = names
        self._candidates = candidates

    def expand(
        self, body: Body, typed: GraphProto, outer: Scope | None, path: str
    ) -> None:
        """Expand in `body`; `typed` has the same nodes."""
        scope = Scope(outer)
        scope.add_graph(typed)
        nodes: list[NodeProto] = []
        twins = zip(labelled(body.node, path), typed.node, strict=True)
        for (here, node), twin in twins:
            for name, graph, typed_graph in twin_graphs(node, twin):
                self.expand(graph, typed_graph, scope, within(here, name))
            row = reduction_of(node)
            if row is SUM_SQUARE:
                assert row.finish == "none"
                term = TERMS[row.term]
                reason = self._refusal(node, term, scope)
                if not reason:
                    nodes.extend(self._split(node, term))
                done = f"{term.operator} and {SUM.operator}"
                self._candidates.append(Candidate(here, not reason, reason or done))
            nodes.append(node)
        if len(nodes) > len(body.node):
            replace(body.node, nodes)

    def _refusal(self, node: NodeProto, term: TermInOnnx, scope: Scope) -> str:
        """Return why `node` cannot be expanded, else ""."""
        if SUM.version_for(self._opset).axes == "input":
            for attribute in node.attribute:
                if attribute.name == "axes" and attribute.ref_attr_name:
                    return "the axes are those of a call, which may leave them out"
        known = min(self._opset, onnx.defs.onnx_opset_version())
        schema = onnx.defs.get_schema(term.operator, known)
        lacks = f"{term.operator}-{schema.since_version} has no type"
        allowed = set(schema.type_constraints[0].allowed_type_strs)
        _, element_type, _ = tensor_facts(scope.types.get(node.input[0]))
        version = read_node(node, self._opset, "").version
        types = [type_name(element_type)] if element_type else version.types
        missing = [name for name in types if f"tensor({name})" not in allowed]
        if not missing:
            return ""
        if element_type:
            return f"{lacks} {missing[0]}"
        return f"the type is unknown, and {lacks} {' or '.join(missing)}"

    def _split(self, node: NodeProto, term: TermInOnnx) -> list[NodeProto]:
        """Make `node` a plain sum; return the nodes that go before it."""
        output = self._names.fresh(f"{node.output[0]}.{term.noun}")
        name = self._names.fresh(f"{node.name}.{term.noun}") if node.name else None
        before = [term.node(node.input[0], output, node.domain, name)]
        rules = read_node(node, self._opset, "")
        node.op_type = SUM.operator
        node.input[0] = output
        if rules.version.axes == SUM.version_for(self._opset).axes:
            return before
        drop_attribute(node, "axes")
        if rules.axes:
            # A Constant node, as functions have no initializers.
            axes = NodeProto(op_type="Constant", domain=node.domain)
            axes.output.append(self._names.fresh(f"{node.output[0]}.axes"))
            value = onnx.numpy_helper.from_array(np.array(rules.axes, np.int64))
            axes.attribute.append(onnx.helper.make_attribute("value", value))
            node.input.append(axes.output[0])
            before.append(axes)
        return before
