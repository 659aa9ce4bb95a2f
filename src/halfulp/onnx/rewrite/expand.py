"""Makes their terms and a plain sum, the function body, out of nodes that reduce."""

from __future__ import annotations

import os

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto

from halfulp.faults import model_errors
from halfulp.onnx.model.bodies import Body, FreshNames, replace
from halfulp.onnx.model.nodes import (
    drop_attribute,
    labelled,
    opset_of,
    twin_graphs,
    within,
)
from halfulp.onnx.model.open import read_model
from halfulp.onnx.model.reduce_nodes import read_node, reduction_of
from halfulp.onnx.model.scopes import Scope
from halfulp.onnx.model.tensors import tensor_facts
from halfulp.onnx.rewrite.function_body import missing, spell_out
from halfulp.onnx.rewrite.reports import Candidate, RewriteReport, said_together
from halfulp.onnx.rewrite.typed_bodies import checked_bodies
from halfulp.onnx.rewrite.version_steps import refused_in_function
from halfulp.reductions import SUM, Reduction


def expand(
    model: str | os.PathLike[str] | bytes | ModelProto,
) -> tuple[ModelProto, RewriteReport]:
    """Replace nodes that reduce by what they are made of: the inverse of `fuse`.

    ReduceSumSquare becomes Mul and ReduceSum, ReduceL1 Abs and ReduceSum, ReduceL2 Mul,
    ReduceSum and Sqrt, ReduceLogSum ReduceSum and Log, and ReduceLogSumExp Exp, ReduceSum
    and Log, in double: the bodies that their newest versions have as functions; older
    versions mean the same. ReduceSum, ReduceMean, ReduceMax, ReduceMin and ReduceProd
    have none, and stay. So do logarithms of integers, as the body casts what may be no
    number. Nodes in nested graphs and functions are replaced too. A node
    stays where the operators lack its type (integers before opset 6), and where its
    axes are an attribute that a function takes from its call but those of ReduceSum
    an input (opsets 13 to 17), or it is in a function where onnx's checker takes it
    but not what it is made of, as that has another version in the model's opset.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        Not changed. Of external data only what types may depend on is read, with a
        path; the result refers to the rest as the model does.

    Returns
    -------
    model : onnx.ModelProto
        The last of the nodes that take the place of one has its name, its output and
        its metadata; the names of what is new are not in the model yet.
    report : RewriteReport
        Each node that reduces, whether it was expanded, and why not.

    Raises
    ------
    HalfulpError
        If the model cannot be read or breaks a rule.

    Notes
    -----
    Integer results keep their bits, in a runtime that wraps, but for ReduceL2. Those
    of floats are no longer correctly rounded: each term and each partial sum is
    rounded. Exponentials above 709 overflow, which one node does not.

    A root of integers is taken in double and cast back, where ONNX's body takes it in
    float, which rounds sums above 2^24. It differs from ReduceL2, the integer part of
    the exact root, where the sum of squares does not fit the type, which wraps it, or
    is above 2^53. Where the type is not known beforehand, as in functions, ReduceL2 of
    floats has these casts too, which change nothing; CastLike, that they need, exists
    from opset 15 on.

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
        for each in checked_bodies(result):
            opset, names = each.opset or 0, FreshNames(each.body, ".")
            expander = _Expander(opset, opset_of(result) or opset, names, candidates)
            expander.expand(each.body, each.typed, None, each.path)
    return result, RewriteReport("expanded", tuple(candidates))


class _Expander:
    """Expands in a graph or a function, and the graphs nested there."""

    def __init__(
        self,
        opset: int,
        model_opset: int,
        names: FreshNames,
        candidates: list[Candidate],
    ) -> None:
        self._opset, self._model_opset = opset, model_opset
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
            if row is None:
                nodes.append(node)
                continue
            element_type = tensor_facts(scope.types.get(node.input[0]))[1]
            reason = self._refusal(node, row, element_type)
            parts = [] if reason else self._split(node, row, element_type)
            if not self._refused(node):
                reason = reason or next(filter(None, map(self._refused, parts)), "")
            nodes.extend([node] if reason else parts)
            said = reason or said_together(n.op_type for n in parts if n.input)
            self._candidates.append(Candidate(here, not reason, said))
        if len(nodes) > len(body.node):
            replace(body.node, nodes)

    def _refusal(self, node: NodeProto, row: Reduction, element_type: int) -> str:
        """Return why `node` cannot be expanded, else ""."""
        types = row.version_for(self._opset).types
        lacking = missing(row, element_type, types, self._opset)
        if lacking:
            return lacking
        if SUM.version_for(self._opset).axes == "input":
            for attribute in node.attribute:
                if attribute.name == "axes" and attribute.ref_attr_name:
                    return "the axes are those of a call, which may leave them out"
        return ""

    def _refused(self, node: NodeProto) -> str:
        """Return why onnx's checker refuses `node` here, else ""."""
        return refused_in_function(node, self._opset, self._model_opset)

    def _split(
        self, node: NodeProto, row: Reduction, element_type: int
    ) -> list[NodeProto]:
        """Return the body of `node`, which says its axes as a plain sum does."""
        rules = read_node(node, self._opset, "")
        moved = NodeProto()
        moved.CopyFrom(node)
        constants = []
        if rules.version.axes != SUM.version_for(self._opset).axes:
            drop_attribute(moved, "axes")
            if rules.axes:
                # A Constant node, as functions have no initializers.
                axes = NodeProto(op_type="Constant", domain=node.domain)
                axes.output.append(self._names.derived(node.output[0], "axes"))
                value = onnx.numpy_helper.from_array(np.array(rules.axes, np.int64))
                axes.attribute.append(onnx.helper.make_attribute("value", value))
                moved.input.append(axes.output[0])
                constants.append(axes)
        opset, derived = self._opset, self._names.derived
        return [*constants, *spell_out(moved, row, element_type, opset, derived)]
