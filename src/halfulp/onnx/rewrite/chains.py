"""Finds nodes that together are one reduction: a term and a sum, or a sum and a finish.

A chain is found by its last node, from what makes the values that it takes; it may be
longer once earlier nodes are one: a sum of squares that has a root.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from onnx import NodeProto, TensorProto

from halfulp.onnx.model.nodes import DOMAIN_NAMES
from halfulp.onnx.model.reduce_nodes import reduction_of
from halfulp.onnx.model.scopes import Scope
from halfulp.onnx.model.tensors import tensor_facts
from halfulp.onnx.model.terms import TERMS
from halfulp.onnx.rewrite.function_body import CAST, CAST_LIKE, ROOT
from halfulp.reductions import REDUCTIONS, SUM, Finish, Reduction, Term

_Kind = TypeVar("_Kind", Term, Finish)

# Returns why a node is perhaps not of a kind, "" if it surely is, None if it is not.
_Refusal = Callable[[NodeProto, Scope], str | None]


@dataclass(frozen=True, slots=True)
class Made:
    """A node in its graph.

    Attributes
    ----------
    node : onnx.NodeProto
    index : int
        Of the node.
    """

    node: NodeProto
    index: int

    @property
    def output(self) -> str:
        """The name of the first output."""
        return str(self.node.output[0])


# By names of values what makes them; None where that is no node. The last map has the
# names of the graph looked at, the others those of the graphs around it.
Makers = ChainMap[str, Made | None]


@dataclass(frozen=True, slots=True)
class Chain:
    """Nodes of which each but the first takes what the one before it makes.

    Attributes
    ----------
    nodes : tuple of Made
    nouns : tuple of str
        What the outputs of all but the last are called.
    reduction : onnx.NodeProto
        The one that has axes and flags.
    row : Reduction or None
        What all are together; None: ONNX has no operator for that.
    refusal : str
        Why they are perhaps none, else "".
    """

    nodes: tuple[Made, ...]
    nouns: tuple[str, ...]
    reduction: NodeProto
    row: Reduction | None
    refusal: str


def find_chain(last: Made, makers: Makers, scope: Scope) -> Chain | None:
    """Return the chain that ends with a node, if any does."""
    if last.node.domain not in DOMAIN_NAMES or len(last.node.output) != 1:
        return None
    return _summed_terms(last, makers, scope) or _finished_sum(last, makers, scope)


def _summed_terms(last: Made, makers: Makers, scope: Scope) -> Chain | None:
    """Return a term and a reduction of values."""
    row = reduction_of(last.node)
    if row is None or row.term != SUM.term:
        return None
    first = _maker(last.node, makers)
    if first is None:
        return None
    found = _recognized(_TERMS, first.node, scope)
    if found is None:
        return None
    term, refusal = found
    noun, whole = TERMS[term].noun, _row(term, row.finish)
    if whole is None:
        refusal = f"ONNX has no operator for the {row.finish} of {noun}s"
    return Chain((first, last), (noun,), last.node, whole, refusal)


def _finished_sum(last: Made, makers: Makers, scope: Scope) -> Chain | None:
    """Return a reduction and its finish, with casts around this or not."""
    cast = last.node.op_type in (CAST, CAST_LIKE)
    nodes = [last]
    for _ in range(3 if cast else 1):
        made = _maker(nodes[0].node, makers)
        if made is None:
            return None
        nodes.insert(0, made)
    first, finish = nodes[0].node, nodes[-2 if cast else -1].node
    row = reduction_of(first)
    if row is None or row.finish != "none":
        return None
    found = _recognized(_FINISHES, finish, scope)
    if found is None:
        return None
    name, refusal = found
    whole = _row(row.term, name)
    if whole is None:
        return None
    if cast:
        there, back = nodes[1].node, nodes[3].node
        same = _is_wide_cast(there) and _casts_back(back, first.input[0], scope)
        if same is False:
            return None
        if same is None:
            refusal = "the type of the data is not known"
    nouns = ("sum", "sum", "root") if cast else ("sum",)
    return Chain(tuple(nodes), nouns, first, whole, refusal)


def _maker(node: NodeProto, makers: Makers) -> Made | None:
    """Return the node of ONNX's that makes the first input of `node`."""
    made = makers.get(node.input[0]) if node.input else None
    return made if made and made.node.domain in DOMAIN_NAMES else None


def _recognized(
    kinds: Mapping[_Kind, _Refusal], node: NodeProto, scope: Scope
) -> tuple[_Kind, str] | None:
    """Return which of some kinds `node` is of, and why perhaps not, if it may be."""
    each = ((kind, refused(node, scope)) for kind, refused in kinds.items())
    return next(((kind, why) for kind, why in each if why is not None), None)


def _row(term: Term, finish: Finish) -> Reduction | None:
    """Return the row that has a term and a finish, if models may have one."""
    return next((r for r in REDUCTIONS if (r.term, r.finish) == (term, finish)), None)


def _is_wide_cast(node: NodeProto) -> bool:
    """Tell whether `node` casts to a type that a root may be taken in.

    ONNX's function body has float; others may have more.
    """
    return node.op_type == CAST and _cast_to(node) in (
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
    )


def _cast_to(node: NodeProto) -> int:
    """Return the type that a Cast gives; 0 unless the node itself says its number."""
    return next((int(a.i) for a in node.attribute if a.name == "to"), 0)


def _casts_back(node: NodeProto, data: str, scope: Scope) -> bool | None:
    """Tell whether a cast gives the type of the data; None: that is not known."""
    if node.op_type == CAST_LIKE and node.input[1] == data:
        return True
    if node.op_type == CAST_LIKE:
        given = tensor_facts(scope.types.get(node.input[1]))[1]
    else:
        given = _cast_to(node)
    wanted = tensor_facts(scope.types.get(data))[1]
    return given == wanted if given and wanted else None


def _refusal_of_square(node: NodeProto, scope: Scope) -> str | None:
    """Tell of squares what a `_Refusal` does."""
    if node.op_type == "Mul":
        same = len(node.input) == 2 and node.input[0] == node.input[1]
        return "" if same else None
    return _refusal_of_power(node, 2, scope)


def _refusal_of_magnitude(node: NodeProto, scope: Scope) -> str | None:
    """Tell of magnitudes what a `_Refusal` does."""
    return "" if node.op_type == "Abs" else None


def _refusal_of_root(node: NodeProto, scope: Scope) -> str | None:
    """Tell of roots what a `_Refusal` does."""
    return "" if node.op_type == ROOT else _refusal_of_power(node, 0.5, scope)


def _refusal_of_power(node: NodeProto, wanted: float, scope: Scope) -> str | None:
    """Tell of powers with one exponent what a `_Refusal` does."""
    if node.op_type != "Pow" or len(node.input) != 2:
        return None
    exponent = scope.array(node.input[1])
    if exponent is None:
        _, _, shape = tensor_facts(scope.types.get(node.input[1]))
        if shape and any(size != 1 for size in shape):
            return None
        return "the exponent is known at run time only"
    if exponent.size != 1 or exponent.item() != wanted:
        return None
    _, _, shape = tensor_facts(scope.types.get(node.input[0]))
    # Pow gives the longer of two shapes.
    if exponent.ndim > (0 if shape is None else len(shape)):
        has = f"the exponent has shape {list(exponent.shape)}, the data "
        has += "unknown rank" if shape is None else f"rank {len(shape)}"
        return f"{has}: Pow may raise the rank"
    return ""


# How ONNX's other operators write terms and finishes.
_TERMS: dict[Term, _Refusal] = {
    "square": _refusal_of_square,
    "magnitude": _refusal_of_magnitude,
}
_FINISHES: dict[Finish, _Refusal] = {"root": _refusal_of_root}
