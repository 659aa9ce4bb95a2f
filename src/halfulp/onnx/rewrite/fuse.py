"""Makes one node that reduces out of its term, a plain sum and its finish, or shift."""

from __future__ import annotations

import itertools
import os
from collections import ChainMap
from collections.abc import Collection, Mapping

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
    become,
    drop_attribute,
    labelled,
    opset_of,
    twin_graphs,
    within,
)
from halfulp.onnx.model.open import read_model
from halfulp.onnx.model.reduce_nodes import NOOP, axes_values, read_node
from halfulp.onnx.model.scopes import Scope
from halfulp.onnx.model.tensors import tensor_facts, type_name
from halfulp.onnx.rewrite.chains import Chain, Made, Makers, find_chain
from halfulp.onnx.rewrite.reports import Candidate, RewriteReport, said_together
from halfulp.onnx.rewrite.typed_bodies import checked_bodies
from halfulp.onnx.rewrite.version_steps import refused_in_function
from halfulp.reductions import BY_OPERATOR
from halfulp.spec.rules import check_type


def fuse(
    model: str | os.PathLike[str] | bytes | ModelProto,
) -> tuple[ModelProto, RewriteReport]:
    """Replace norms, log-sum-exp and the like by the nodes that ONNX has for them.

    A ReduceSum of ``Mul(x, x)`` or ``Pow(x, 2)`` becomes a ReduceSumSquare, one of
    ``Abs(x)`` a ReduceL1, and Sqrt or ``Pow(s, 0.5)`` of a ReduceSumSquare, whether
    it stood there or was made, a ReduceL2: what the converters of PyTorch and
    TensorFlow write. Exponents are constants. Around the root there may be casts,
    to float or double and back to the type of x, as in the function body of
    ReduceL2. ``Log`` of a ReduceSum becomes a ReduceLogSum, and if that is of ``Exp(x)``
    a ReduceLogSumExp, with casts around all of it too; so does what shifts it: ``m +
    log(sum(exp(x - m)))`` for a ReduceMax m of x along the same axes, with or without
    its dimensions, by keepdims, Squeeze or Unsqueeze. The new node is of the version that
    the opset around it allows, in nested graphs and functions too. Nodes become one if
    the model then means the same:

    - nothing else reads what is between them, and it is no output of its graph; but the
      maximum that shifts a log-sum-exp, which stays then;
    - Pow keeps the shape;
    - at opsets 13 to 17, where ReduceSum takes axes as an input but the others as an
      attribute, the axes are constant, and not empty where ``noop_with_empty_axes``
      is set;
    - in a function of another opset than the model's, the new node has the same version
      in both, which onnx's checker wants.

    A ReduceMean of squares or magnitudes stays: ONNX has no operator for them.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        Not changed. Of external data only what types may depend on is read, with a
        path; the result refers to the rest as the model does.

    Returns
    -------
    model : onnx.ModelProto
        The new node has the name, the output and the metadata of the last one that
        it replaces. Constants that only the old nodes read are gone.
    report : RewriteReport
        The last of each group of such nodes, whether it was fused, and why not.

    Raises
    ------
    HalfulpError
        If the model cannot be read or breaks a rule.

    Notes
    -----
    Integer results keep their bits, but for ReduceL2, which in halfulp is the integer
    part of the exact root: nodes take the root of a sum that may have wrapped, rounded
    by the cast. Results of floats may differ in the last bits, and are no longer
    infinite or zero where only a square or a partial sum was out of range: halfulp
    rounds once, nodes round every square and every root. A log-sum-exp has results too
    where all elements are -inf, or no exponential is in range.

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
    candidates: list[Candidate | None] = []
    with model_errors("the model cannot be used"):
        for each in checked_bodies(result):
            opset = each.opset or 0
            fuser = _Fuser(opset, opset_of(result) or opset, candidates)
            fuser.fuse(each.body, each.typed, None, ChainMap(), each.path)
            # What trains a model may read its initializers.
            if fuser.freed and not result.training_info:
                remove_unread_constants(each.body, fuser.freed)
    return result, RewriteReport("fused", tuple(filter(None, candidates)))


class _Fuser:
    """Fuses in a graph or a function, and the graphs nested there."""

    def __init__(
        self, opset: int, model_opset: int, candidates: list[Candidate | None]
    ) -> None:
        self.freed: set[str] = set()
        self._opset, self._model_opset = opset, model_opset
        self._candidates = candidates

    def fuse(
        self,
        body: Body,
        typed: GraphProto,
        outer: Scope | None,
        makers: Makers,
        path: str,
    ) -> None:
        """Fuse in `body`; `typed` has the same nodes, `makers` are those around."""
        scope = Scope(outer)
        scope.add_graph(typed)
        inputs = [value.name for value in typed.input]
        scope.constants.update(dict.fromkeys(inputs))
        makers = makers.new_child(dict.fromkeys(inputs))
        makers.update(dict.fromkeys(tensor.name for tensor in typed.initializer))
        uses = reads(body)
        ends = set(outputs(body))
        places = {
            name: i for i, node in enumerate(body.node) for name in node.output if name
        }
        # By index, of which nodes a node was made, and the number of its candidate.
        fused: dict[int, tuple[list[str], int]] = {}
        gone: dict[int, str] = {}
        twins = zip(labelled(body.node, path), typed.node, strict=True)
        for index, ((here, node), twin) in enumerate(twins):
            for name, graph, typed_graph in twin_graphs(node, twin):
                self.fuse(graph, typed_graph, scope, makers, within(here, name))
            made = Made(node, index)
            makers.update(dict.fromkeys(filter(None, node.output), made))
            while chain := find_chain(made, makers, scope):
                names = [[each.node.op_type] for each in chain.nodes]
                before = [name for each in chain.nodes for name in each.node.input]
                reason = _why_not(chain, makers.maps[0], ends, uses, places)
                reason = reason or self._replace(chain, scope)
                if reason:
                    if index not in fused:
                        self._candidates.append(Candidate(here, False, reason))
                    break
                gone.update((each.index, each.output) for each in chain.nodes[:-1])
                uses.subtract(before)
                uses.update(node.input)
                for each in chain.beside:
                    if uses[each.output] == 0 and each.output in makers.maps[0]:
                        gone[each.index] = each.output
                        uses.subtract(each.node.input)
                for each, parts in zip(chain.nodes, names, strict=True):
                    if each.index in fused:
                        parts[:], earlier = fused.pop(each.index)
                        self._candidates[earlier] = None
                words = [each.node.op_type for each in reversed(chain.beside)]
                words += itertools.chain.from_iterable(names)
                fused[index] = words, len(self._candidates)
                self._candidates.append(Candidate(here, True, said_together(words)))
        if gone:
            kept = [node for i, node in enumerate(body.node) if i not in gone]
            replace(body.node, kept)
            forget_values(body, set(gone.values()))

    def _replace(self, chain: Chain, scope: Scope) -> str:
        """Make the last node of a chain do what all do together, or return why not."""
        assert chain.row is not None
        first, last = chain.nodes[0].node, chain.nodes[-1].node
        version = chain.row.version_for(self._opset)
        source = BY_OPERATOR[chain.reduction.op_type].version_for(self._opset)
        data = first.input[0]
        fused = NodeProto()
        fused.CopyFrom(chain.reduction)
        fused.op_type = chain.row.operator
        fused.input[0] = data
        try:
            if version.axes == "attribute" and source.axes == "input":
                reason = _move_axes(fused, scope)
                if reason:
                    return f"{reason}, and {version} takes them as an attribute"
            read_node(fused, self._opset, "")
            _, element_type, _ = tensor_facts(scope.types.get(data))
            if element_type:
                check_type(type_name(element_type), version)
        except HalfulpError as error:
            return str(error)
        reason = refused_in_function(fused, self._opset, self._model_opset)
        if reason:
            return reason
        parts = (*chain.beside, *chain.nodes)
        read = {name for each in parts for name in each.node.input}
        self.freed |= read - {*fused.input}
        become(last, fused)
        return ""


def _why_not(
    chain: Chain,
    own: Mapping[str, Made | None],
    ends: Collection[str],
    uses: Mapping[str, int],
    places: Mapping[str, int],
) -> str:
    """Return why a chain is not one node, as far as the names of values tell, else "".

    Parameters
    ----------
    chain : Chain
    own : mapping of str to Made or None
        What makes the values of the graph, up to the chain.
    ends : collection of str
        The outputs of the graph.
    uses : mapping of str to int
        How often each name is read.
    places : mapping of str to int
        The index of the node that makes each value of the graph.
    """
    if chain.row is None:
        return chain.refusal
    for each, noun in zip(chain.nodes, chain.nouns, strict=False):
        output = each.output
        if output not in own:
            return f"the {noun} is computed in a graph around this one"
        if output in ends:
            return f"the {noun} {output!r} is an output of its graph"
        if uses[output] > 1:
            return f"the {noun} {output!r} is read elsewhere too"
    for each in chain.nodes:
        for name in each.node.input:
            if places.get(name, -1) >= each.index:
                return f"{name!r} is the name of another value later on"
    return chain.refusal


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
