"""Spells out a node that reduces: its term, a plain sum and its finish.

These are the nodes of the function that ONNX has as the body of its operator, but for
casts: ONNX takes every root in float. Here floats keep their type, and integers are
cast to double, as float would round sums above 2^24. Exponentials are of double, as ONNX
has them, since those of narrower types overflow early.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from onnx import NodeProto, TensorProto
from onnx.defs import OpSchema

from halfulp.element_types import BY_NAME
from halfulp.onnx.model.nodes import become
from halfulp.onnx.model.tensors import type_name
from halfulp.onnx.model.terms import EXPONENTIAL, summed_by
from halfulp.onnx.rewrite.version_steps import known_schema
from halfulp.reductions import SUM, Finish, Reduction

ROOT, LOGARITHM = "Sqrt", "Log"
CAST, CAST_LIKE = "Cast", "CastLike"

# What comes after a plain sum, and what its output is called; of a mean ONNX has no
# such function.
_AFTER: dict[Finish, tuple[str, str] | None] = {
    "none": None,
    "root": (ROOT, "root"),
    "log": (LOGARITHM, "logarithm"),
}

# The first Cast that tells its type by ONNX's number.
_CAST_BY_NUMBER = 6

# Nodes, and what their outputs are called.
_Named = list[tuple[str, NodeProto]]


def missing(row: Reduction, element_type: int, types: Sequence[str], opset: int) -> str:
    """Return what the body of a node lacks in an opset, else "".

    Parameters
    ----------
    row : Reduction
        That of the node.
    element_type : int
        Of the data; 0 if unknown.
    types : sequence of str
        Those that its version has.
    opset : int
    """
    term, after = summed_by(row), _AFTER.get(row.finish)
    if row.operation not in ("sum", "exponentials") or not (term or after):
        return f"ONNX has no function body for {row.operator}"
    unknown = "" if element_type else "the type is unknown, and "
    wanted = [type_name(element_type)] if element_type else types
    if row.finish == "log":
        integers = [name for name in wanted if BY_NAME[name].kind == "integer"]
        if integers:
            return f"{unknown}{integers[0]} has no number for the logarithm of 0"
    if term is EXPONENTIAL and element_type == TensorProto.DOUBLE:
        return ""
    if term is EXPONENTIAL:
        if not has_cast(opset):
            return f"{unknown}opset {opset} has no {CAST} to a type told by number"
    elif term is not None:
        schema = known_schema(term.operator, opset)
        if schema is None:
            return f"opset {opset} has no {term.operator}"
        lacking = [name for name in wanted if not _takes(schema, name)]
        if lacking:
            return (
                f"{unknown}{schema.name}-{schema.since_version} has no type "
                f"{' or '.join(lacking)}"
            )
    if unknown and after and known_schema(CAST_LIKE, opset) is None:
        return f"{unknown}opset {opset} has no {CAST_LIKE}"
    return ""


def spell_out(
    node: NodeProto,
    row: Reduction,
    element_type: int,
    opset: int,
    derived: Callable[[str, str], str],
) -> list[NodeProto]:
    """Return the body of a node that lacks nothing, as `missing` tells.

    Parameters
    ----------
    node : onnx.NodeProto
        It is not changed. Its axes and flags go to the plain sum as they are.
    row : Reduction
    element_type : int
        Of the data; 0 if unknown.
    opset : int
    derived : callable
        From a name and what is derived from it to a new name.

    Returns
    -------
    list of onnx.NodeProto
        The last one has the name, the output and the metadata of `node`.
    """
    domain = node.domain
    summed = NodeProto(op_type=SUM.operator, domain=domain)
    summed.input.extend(node.input)
    summed.attribute.extend(node.attribute)
    body = [("sum", summed)]
    term, after = summed_by(row), _AFTER[row.finish]
    if term is not None:
        body.insert(0, (term.noun, term.node(node.input[0], "", domain)))
    if after is not None:
        operator, noun = after
        finish = (noun, NodeProto(op_type=operator, domain=domain, input=[""]))
        schema = known_schema(operator, opset)
        if term is EXPONENTIAL:
            body.append(finish)
            if element_type != TensorProto.DOUBLE:
                body = _between_casts(body, node, TensorProto.DOUBLE, element_type)
        elif schema is not None and _takes(schema, type_name(element_type)):
            body.append(finish)
        else:
            body += _between_casts([finish], node, TensorProto.DOUBLE, element_type)
    return _linked(body, node, derived)


def in_wider_type(
    node: NodeProto, wide: int, element_type: int, derived: Callable[[str, str], str]
) -> list[NodeProto]:
    """Return a node that reduces in a wider type, between casts there and back.

    Parameters
    ----------
    node : onnx.NodeProto
        It is not changed.
    wide, element_type : int
        The type that it reduces in, and that of the data.
    derived : callable
        As for `spell_out`.
    """
    reduced = NodeProto(op_type=node.op_type, domain=node.domain)
    reduced.input.extend(node.input)
    reduced.attribute.extend(node.attribute)
    body = _between_casts([("reduced", reduced)], node, wide, element_type)
    return _linked(body, node, derived)


def _between_casts(body: _Named, node: NodeProto, wide: int, element_type: int) -> _Named:
    """Return nodes between casts to a type and back to that of the data of `node`."""
    there = NodeProto(op_type=CAST, domain=node.domain, input=[""])
    there.attribute.add(name="to", type="INT", i=wide)
    back = NodeProto(op_type=CAST, domain=node.domain, input=[""])
    if element_type:
        back.attribute.add(name="to", type="INT", i=element_type)
    else:
        back.op_type = CAST_LIKE
        back.input.append(node.input[0])
    return [(type_name(wide), there), *body, ("cast", back)]


def _linked(
    body: _Named, node: NodeProto, derived: Callable[[str, str], str]
) -> list[NodeProto]:
    """Return nodes of which each takes what the one before it makes.

    The first takes the data of `node`, the last has its name, output and metadata.
    """
    body[0][1].input[0] = node.input[0]
    for (noun, each), (_, following) in itertools.pairwise(body):
        each.output[:] = following.input[:1] = [derived(node.output[0], noun)]
        if node.name:
            each.name = derived(node.name, noun)
    last = NodeProto()
    last.CopyFrom(node)
    become(last, body[-1][1])
    return [*(each for _, each in body[:-1]), last]


def has_cast(opset: int) -> bool:
    """Tell whether Cast tells its type by ONNX's number, not by a name, in an opset."""
    cast = known_schema(CAST, opset)
    return cast is not None and cast.since_version >= _CAST_BY_NUMBER


def _takes(schema: OpSchema, name: str) -> bool:
    """Tell whether the first input of an operator may have an element type."""
    return f"tensor({name})" in schema.inputs[0].types
