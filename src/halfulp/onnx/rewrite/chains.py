"""Finds nodes that together are one reduction: a term and a sum, a sum and a finish, or
a log-sum-exp and what shifts it.

A chain is found by its last node, from what makes the values that it takes; it may be
longer once earlier nodes are one: a sum of squares that has a root, or the logarithm of
a sum of exponentials.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from onnx import NodeProto, TensorProto

from halfulp.onnx.model.nodes import DOMAIN_NAMES
from halfulp.onnx.model.reduce_nodes import NOOP, reduction_of
from halfulp.onnx.model.scopes import Scope
from halfulp.onnx.model.tensors import tensor_facts
from halfulp.onnx.model.terms import EXPONENTIAL, TERMS
from halfulp.onnx.rewrite.function_body import CAST, CAST_LIKE, LOGARITHM, ROOT
from halfulp.reductions import (
    LOG_SUM,
    LOG_SUM_EXP,
    MAX,
    REDUCTIONS,
    SUM,
    Finish,
    Reduction,
    Term,
)

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
    beside : tuple of Made
        Nodes that make other inputs of these, and are not needed if nothing else reads
        what they make: each is read by those before it, or by the chain.
    """

    nodes: tuple[Made, ...]
    nouns: tuple[str, ...]
    reduction: NodeProto
    row: Reduction | None
    refusal: str
    beside: tuple[Made, ...] = ()


def find_chain(last: Made, makers: Makers, scope: Scope) -> Chain | None:
    """Return the chain that ends with a node, if any does."""
    if last.node.domain not in DOMAIN_NAMES or len(last.node.output) != 1:
        return None
    finds = (_summed_terms, _finished_sum, _shifted, _cast_around)
    chains = (find(last, makers, scope) for find in finds)
    return next(filter(None, chains), None)


def _summed_terms(last: Made, makers: Makers, scope: Scope) -> Chain | None:
    """Return a term and a reduction of values."""
    row = reduction_of(last.node)
    if row is None or (row.operation, row.term) != (SUM.operation, SUM.term):
        return None
    first = _maker(last.node, makers)
    if first is None:
        return None
    if row is LOG_SUM:
        if first.node.op_type != EXPONENTIAL.operator:
            return None
        return Chain((first, last), (EXPONENTIAL.noun,), last.node, LOG_SUM_EXP, "")
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
    if row is None or (row.operation, row.finish) != (SUM.operation, SUM.finish):
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
            refusal = _UNKNOWN
    nouns = ("sum", "sum", _RESULTS[name]) if cast else ("sum",)
    return Chain(tuple(nodes), nouns, first, whole, refusal)


def _shifted(last: Made, makers: Makers, scope: Scope) -> Chain | None:
    """Return the log-sum-exp of the differences from a maximum, and its addition."""
    if last.node.op_type != "Add" or len(last.node.input) != 2:
        return None
    for name, other in (last.node.input, reversed(last.node.input)):
        inner = makers.get(name)
        if inner is None or reduction_of(inner.node) is not LOG_SUM_EXP:
            continue
        first = _maker(inner.node, makers)
        if first is None or first.node.op_type != "Sub" or len(first.node.input) != 2:
            continue
        data, taken = first.node.input
        axes = _axes(inner.node, data, scope)
        keeps = _flag(inner.node, "keepdims", 1)
        found = (
            _maximum(taken, True, data, axes, makers, scope),
            _maximum(other, bool(keeps), data, axes, makers, scope),
        )
        if None in found:
            continue
        refusal = ""
        if axes is None or any(each == () for each in found):
            refusal = "the maximum is perhaps of other axes or shape than the sum"
        # Of several the last is read by those before it.
        beside = {each.output: each for each in (*found[1], *found[0])}  # type: ignore[misc]
        return Chain(
            (first, inner, last),
            ("difference", "logarithm"),
            inner.node,
            LOG_SUM_EXP,
            refusal,
            tuple(sorted(beside.values(), key=lambda each: -each.index)),
        )
    return None


def _maximum(
    name: str,
    keeps: bool,
    data: str,
    axes: object,
    makers: Makers,
    scope: Scope,
) -> tuple[Made, ...] | None:
    """Return the nodes that make a value, if it is the maximum of `data` along `axes`.

    The last of them is the maximum. Empty: it is one along other axes, or of another
    shape than `keeps` asks for. None: it is none.
    """
    made = makers.get(name)
    if made is None or made.node.domain not in DOMAIN_NAMES:
        return None
    if reduction_of(made.node) is MAX:
        if made.node.input[0] != data:
            return None
        same = _axes(made.node, data, scope) == axes
        return (made,) if same and _flag(made.node, "keepdims", 1) == keeps else ()
    if made.node.op_type not in ("Squeeze", "Unsqueeze"):
        return None
    inner = _maximum(made.node.input[0], not keeps, data, axes, makers, scope)
    if not inner:
        return inner
    right = made.node.op_type == ("Unsqueeze" if keeps else "Squeeze")
    same = right and _axes(made.node, data, scope) == axes
    return (made, *inner) if same else ()


def _axes(node: NodeProto, data: str, scope: Scope) -> object:
    """Return what tells the axes that `node` names from others, of the rank of `data`.

    None: they are perhaps none, or a call of a function decides.
    """
    _, _, shape = tensor_facts(scope.types.get(data))
    given: tuple[int, ...] = ()
    for attribute in node.attribute:
        if attribute.name == "axes":
            if attribute.ref_attr_name:
                return None
            given = tuple(attribute.ints)
    if len(node.input) > 1 and node.input[1]:
        value = scope.array(node.input[1])
        if value is None:
            return None if _flag(node, NOOP, 0) else node.input[1]
        given = tuple(value.ravel().tolist())
    if not given and _flag(node, NOOP, 0):
        return None
    if shape is None:
        return frozenset(given)
    return frozenset(axis % max(len(shape), 1) for axis in given or range(len(shape)))


def _flag(node: NodeProto, name: str, default: int) -> int:
    """Return a flag of a node; 2 where a call of a function decides."""
    for attribute in node.attribute:
        if attribute.name == name:
            return 2 if attribute.ref_attr_name else int(attribute.i)
    return default


def _cast_around(last: Made, makers: Makers, scope: Scope) -> Chain | None:
    """Return a log-sum-exp of what is cast to a wider type, and the cast back."""
    if last.node.op_type not in (CAST, CAST_LIKE):
        return None
    inner = _maker(last.node, makers)
    if inner is None or reduction_of(inner.node) is not LOG_SUM_EXP:
        return None
    first = _maker(inner.node, makers)
    if first is None or not _is_wide_cast(first.node):
        return None
    data = first.node.input[0]
    same = _casts_back(last.node, data, scope)
    if same is False:
        return None
    refusal = "" if same else _UNKNOWN
    if _cast_to(first.node) == TensorProto.FLOAT:
        # Which is wider than the half types, and holds no more than these.
        source = tensor_facts(scope.types.get(data))[1]
        if source not in (0, TensorProto.FLOAT16, TensorProto.BFLOAT16):
            return None
        refusal = refusal or ("" if source else _UNKNOWN)
    nouns = ("cast", "logarithm")
    return Chain((first, inner, last), nouns, inner.node, LOG_SUM_EXP, refusal)


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
    """Return the row of sums that has a term and a finish, if models may have one."""
    wanted = SUM.operation, term, finish
    rows = (r for r in REDUCTIONS if (r.operation, r.term, r.finish) == wanted)
    return next(rows, None)


def _is_wide_cast(node: NodeProto) -> bool:
    """Tell whether `node` casts to a type that a finish may be taken in.

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


def _refusal_of_logarithm(node: NodeProto, scope: Scope) -> str | None:
    """Tell of logarithms what a `_Refusal` does."""
    return "" if node.op_type == LOGARITHM else None


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
_FINISHES: dict[Finish, _Refusal] = {
    "root": _refusal_of_root,
    "log": _refusal_of_logarithm,
}
_RESULTS: dict[Finish, str] = {"root": "root", "log": "logarithm"}

_UNKNOWN = "the type of the data is not known"
