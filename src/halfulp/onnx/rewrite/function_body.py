"""Spells out a node that reduces: its term, a plain sum and its finish.

These are the nodes of the function that ONNX has as the body of its operator, but for
casts: ONNX takes every root in float. Here floats keep their type, and integers are
cast to double, as float would round sums above 2^24.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from onnx import NodeProto, TensorProto
from onnx.defs import OpSchema

from halfulp.onnx.model.nodes import become
from halfulp.onnx.model.tensors import type_name
from halfulp.onnx.model.terms import TERMS
from halfulp.onnx.rewrite.version_steps import known_schema
from halfulp.reductions import SUM, Finish, Reduction

ROOT = "Sqrt"
CAST, CAST_LIKE = "Cast", "CastLike"

# What comes after a plain sum; of a mean ONNX has no such function.
_AFTER: dict[Finish, str | None] = {"none": None, "root": ROOT}


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
    if row.term == SUM.term or row.finish not in _AFTER:
        return f"ONNX has no function body for {row.operator}"
    unknown = "" if element_type else "the type is unknown, and "
    term = known_schema(TERMS[row.term].operator, opset)
    if term is None:
        return f"opset {opset} has no {TERMS[row.term].operator}"
    wanted = [type_name(element_type)] if element_type else types
    lacking = [name for name in wanted if not _takes(term, name)]
    if lacking:
        return (
            f"{unknown}{term.name}-{term.since_version} has no type "
            f"{' or '.join(lacking)}"
        )
    if unknown and _AFTER[row.finish] and known_schema(CAST_LIKE, opset) is None:
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
        The first is the term, the second the plain sum. The last one has the name,
        the output and the metadata of `node`.
    """
    term = TERMS[row.term]
    summed = NodeProto(op_type=SUM.operator, domain=node.domain)
    summed.input.extend(node.input)
    summed.attribute.extend(node.attribute)
    body = [(term.noun, term.node(node.input[0], "", node.domain)), ("sum", summed)]
    root = _AFTER[row.finish]
    if root is not None:
        body += _root(root, node, element_type, opset)
    for (noun, each), (_, after) in itertools.pairwise(body):
        each.output[:] = after.input[:1] = [derived(node.output[0], noun)]
        if node.name:
            each.name = derived(node.name, noun)
    last = NodeProto()
    last.CopyFrom(node)
    become(last, body[-1][1])
    return [*(each for _, each in body[:-1]), last]


def _root(
    root: str, node: NodeProto, element_type: int, opset: int
) -> list[tuple[str, NodeProto]]:
    """Return nodes that take a root, and what their outputs are called."""

    def one(operator: str, *inputs: str, to: int | None = None) -> NodeProto:
        made = NodeProto(op_type=operator, domain=node.domain, input=["", *inputs])
        if to is not None:
            made.attribute.add(name="to", type="INT", i=to)
        return made

    schema = known_schema(root, opset)
    if schema is not None and _takes(schema, type_name(element_type)):
        return [("root", one(root))]
    back = one(CAST, to=element_type) if element_type else one(CAST_LIKE, node.input[0])
    return [
        ("double", one(CAST, to=TensorProto.DOUBLE)),
        ("root", one(root)),
        ("cast", back),
    ]


def _takes(schema: OpSchema, name: str) -> bool:
    """Tell whether the first input of an operator may have an element type."""
    return f"tensor({name})" in schema.inputs[0].types
