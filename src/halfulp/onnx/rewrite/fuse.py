"""Makes one node that reduces out of its term and a plain sum."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto

from halfulp.errors import HalfulpError
from halfulp.faults import model_errors
from halfulp.onnx.model.bodies import (
    Body,
    forget_values,
    outputs,
    reads,
    remove_unread_constants,
    replace,
)
from halfulp.onnx.model.nodes import (
    DOMAIN_NAMES,
    drop_attribute,
    labelled,
    twin_graphs,
    within,
)
from halfulp.onnx.model.open import read_model
from halfulp.onnx.model.reduce_nodes import NOOP, axes_values, read_node
from halfulp.onnx.model.scopes import Scope
from halfulp.onnx.model.tensors import tensor_facts, type_name
from halfulp.onnx.model.terms import TERMS
from halfulp.onnx.rewrite.reports import Candidate, RewriteReport
from halfulp.onnx.rewrite.typed_bodies import checked_bodies
from halfulp.reductions import SUM, SUM_SQUARE, Reduction, Term
from halfulp.spec.rules import check_type


def fuse(
    model: str | os.PathLike[str] | bytes | ModelProto,
) -> tuple[ModelProto, RewriteReport]:
    """Replace sums of squares by ReduceSumSquare nodes.

    A sum of squares is a ReduceSum of ``Mul(x, x)`` or of ``Pow(x, 2)`` with a
    constant exponent: what the converters of PyTorch and TensorFlow write. It becomes
    one node of the version that the opset around it allows, in nested graphs and
    functions too, if the model then means the same:

    - nothing else reads the square, and it is no output of its graph;
    - Pow keeps the shape of x;
    - at opsets 13 to 17, where ReduceSum takes axes as an input but ReduceSumSquare
      as an attribute, the axes are constant, and not empty where
      ``noop_with_empty_axes`` is set.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        Not changed. Of external data only what types may depend on is read, with a
        path; the result refers to the rest as the model does.

    Returns
    -------
    model : onnx.ModelProto
        The new node has the name, the output and the metadata of the ReduceSum.
        Constants that only the old nodes read are gone.
    report : RewriteReport
        Each ReduceSum of a square, whether it was fused, and why not.

    Raises
    ------
    HalfulpError
        If the model cannot be read or breaks a rule.

    Notes
    -----
    Integer results keep their bits. Those of floats may differ in the last bit,
    and are no longer infinite or zero where only a square or a partial sum was out
    of range: halfulp's ReduceSumSquare rounds once, two nodes round every square.

    Examples
    --------
    >>> import onnx.parser
    >>> from halfulp.onnx import fuse
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 13]>
    ...     g (float[N,3] x) => (float[N] y) <float two = {2}, int64[1] last = {-1}> {
    ...         square = Pow(x, two)
    ...         y = ReduceSum<keepdims=0>(square, last)
    ...     }
    ... ''')
    >>> fused, report = fuse(model)
    >>> print(report)
    fused 1 of 1
    node #1 (output 'y'): fused, Pow and ReduceSum
    >>> [node.op_type for node in fused.graph.node]
    ['ReduceSumSquare']
    """
    result = read_model(model)
    candidates: list[Candidate] = []
    with model_errors("the model cannot be used"):
        for each in checked_bodies(result):
            fuser = _Fuser(each.opset or 0, candidates)
            fuser.fuse(each.body, each.typed, None, ChainMap(), each.path)
            # What trains a model may read its initializers.
            if fuser.freed and not result.training_info:
                remove_unread_constants(each.body, fuser.freed)
    return result, RewriteReport("fused", tuple(candidates))


@dataclass(frozen=True, slots=True)
class _TermNode:
    """A node that makes terms of a reduction.

    Attributes
    ----------
    index : int
        Of the node.
    node : NodeProto
    row : Reduction
        Which sums such terms.
    refusal : str
        Why it is perhaps none, else "".
    """

    index: int
    node: NodeProto
    row: Reduction
    refusal: str


class _Fuser:
    """Fuses in a graph or a function, and the graphs nested there."""

    def __init__(self, opset: int, candidates: list[Candidate]) -> None:
        self.freed: set[str] = set()
        self._opset = opset
        self._candidates = candidates

    def fuse(
        self,
        body: Body,
        typed: GraphProto,
        outer: Scope | None,
        terms: ChainMap[str, _TermNode | None],
        path: str,
    ) -> None:
        """Fuse in `body`; `typed` has the same nodes, `terms` are those around."""
        scope = Scope(outer)
        scope.add_graph(typed)
        inputs = [value.name for value in typed.input]
        scope.constants.update(dict.fromkeys(inputs))
        terms = terms.new_child(dict.fromkeys(inputs))
        terms.update(dict.fromkeys(tensor.name for tensor in typed.initializer))
        uses = reads(body)
        ends = set(outputs(body))
        defined: dict[str, int] = {}
        gone: dict[int, str] = {}
        twins = zip(labelled(body.node, path), typed.node, strict=True)
        for index, ((here, node), twin) in enumerate(twins):
            for name, graph, typed_graph in twin_graphs(node, twin):
                self.fuse(graph, typed_graph, scope, terms, within(here, name))
            for name in node.output:
                defined[name] = index
                terms[name] = _term_node(index, node, scope) if name else None
            term = self._summed(node, terms)
            if term is None:
                continue
            output, noun = term.node.output[0], TERMS[term.row.term].noun
            if output not in terms.maps[0]:
                reason = f"the {noun} is computed in a graph around this one"
            elif output in ends:
                reason = f"the {noun} {output!r} is an output of its graph"
            elif uses[output] > 1:
                reason = f"the {noun} {output!r} is read elsewhere too"
            elif defined.get(term.node.input[0], -1) > term.index:
                reason = "the data has the name of another value by then"
            else:
                reason = term.refusal or self._replace(node, term, scope)
            if not reason:
                gone[term.index] = output
            done = f"{term.node.op_type} and {SUM.operator}"
            self._candidates.append(Candidate(here, not reason, reason or done))
        if gone:
            kept = [node for i, node in enumerate(body.node) if i not in gone]
            replace(body.node, kept)
            forget_values(body, set(gone.values()))

    def _summed(
        self, node: NodeProto, terms: ChainMap[str, _TermNode | None]
    ) -> _TermNode | None:
        """Return the node whose terms `node` sums, if it does."""
        summed = node.op_type == SUM.operator and node.domain in DOMAIN_NAMES
        return terms.get(node.input[0]) if summed else None

    def _replace(self, node: NodeProto, term: _TermNode, scope: Scope) -> str:
        """Make the plain sum `node` one that has the terms itself, or return why not."""
        version = term.row.version_for(self._opset)
        summed = SUM.version_for(self._opset)
        data = term.node.input[0]
        freed = set(term.node.input[1:])
        fused = NodeProto()
        fused.CopyFrom(node)
        fused.op_type = term.row.operator
        fused.input[0] = data
        try:
            if version.axes == "attribute" and summed.axes == "input":
                freed.update(node.input[1:])
                reason = _move_axes(fused, scope)
                if reason:
                    return f"{reason}, and {version} takes them as an attribute"
            read_node(fused, self._opset, "")
            _, element_type, _ = tensor_facts(scope.types.get(data))
            if element_type:
                check_type(type_name(element_type), version)
        except HalfulpError as error:
            return str(error)
        node.CopyFrom(fused)
        self.freed |= freed - {data, ""}
        return ""


def _term_node(index: int, node: NodeProto, scope: Scope) -> _TermNode | None:
    """Return `node` as one that makes terms, if it does or may do so."""
    if node.domain not in DOMAIN_NAMES:
        return None
    for row in (SUM_SQUARE,):
        if row.finish == "none":
            refusal = _REFUSALS[row.term](node, scope)
            if refusal is not None:
                return _TermNode(index, node, row, refusal)
    return None


def _refusal_of_square(node: NodeProto, scope: Scope) -> str | None:
    """Return why `node` is perhaps no square, "" if it surely is, None if it is none."""
    if len(node.input) != 2:
        return None
    if node.op_type == "Mul" and node.input[0] == node.input[1]:
        return ""
    if node.op_type != "Pow":
        return None
    exponent = scope.array(node.input[1])
    if exponent is None:
        _, _, shape = tensor_facts(scope.types.get(node.input[1]))
        if shape and any(size != 1 for size in shape):
            return None
        return "the exponent is known at run time only"
    if exponent.size != 1 or exponent.item() != 2:
        return None
    _, _, shape = tensor_facts(scope.types.get(node.input[0]))
    # Pow gives the longer of two shapes.
    if exponent.ndim > (0 if shape is None else len(shape)):
        has = f"the exponent has shape {list(exponent.shape)}, the data "
        has += "unknown rank" if shape is None else f"rank {len(shape)}"
        return f"{has}: Pow may raise the rank"
    return ""


_REFUSALS: dict[Term, Callable[[NodeProto, Scope], str | None]] = {
    "square": _refusal_of_square
}


def _move_axes(node: NodeProto, scope: Scope) -> str:
    """Make an attribute of the axes input, or return why not."""
    axes: tuple[int, ...] = ()
    if len(node.input) > 1 and node.input[1]:
        value = scope.array(node.input[1])
        if value is None:
            return "the axes are known at run time only"
        axes = axes_values(value, "")
    for attribute in node.attribute:
        decides = attribute.name == NOOP and (attribute.i or attribute.ref_attr_name)
        if decides and not axes:
            return f"empty axes reduce nothing where {NOOP} is set"
    drop_attribute(node, NOOP)
    del node.input[1:]
    if axes:
        node.attribute.add(name="axes", type="INTS", ints=axes)
    return ""
