"""Converts a model to another opset, its nodes that reduce with it."""

from __future__ import annotations

import os
from typing import Any

import onnx
from onnx import ModelProto, NodeProto

from halfulp.errors import ArgumentError, ModelError
from halfulp.faults import model_errors
from halfulp.onnx.check.nodes import check_reduce, open_checked
from halfulp.onnx.model.inference import Inference
from halfulp.onnx.model.initializers import skeleton
from halfulp.onnx.model.nodes import (
    DOMAIN_NAMES,
    opset_of,
    place,
)
from halfulp.onnx.model.open import OpenedModel, Purpose, read_model
from halfulp.onnx.model.reduce_nodes import (
    reduction_of,
)
from halfulp.onnx.model.scopes import Scope, walk_typed
from halfulp.onnx.model.structure import check_node, checker_context
from halfulp.onnx.rewrite.convert_body import BodyConverter
from halfulp.onnx.rewrite.reports import Conversion
from halfulp.onnx.rewrite.typed_bodies import typed_bodies
from halfulp.onnx.rewrite.version_steps import check_allowed


def convert_opset(
    model: str | os.PathLike[str] | bytes | ModelProto, target: int
) -> ModelProto:
    """Return a model that means in opset `target` what the one given means in its own.

    Every node that reduces, of ONNX's ten reductions, gets the form of its new version,
    in nested graphs and functions too. Other operators go through onnx's version
    converter, each node by itself; one whose version is the same in both opsets, or
    differs in the types it allows only, stays as it is. Names of inputs, outputs and
    nodes stay.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        Not changed. Of external data only what types may depend on is read, with a
        path; the result refers to the rest as the model does.
    target : int
        From 1 to the newest opset that the installed onnx knows. Functions, which
        import opsets of their own, are brought there too.

    Returns
    -------
    onnx.ModelProto
        Its IR version is that of the one given, or the least that `target` needs.

    Raises
    ------
    ArgumentError
        If `target` is out of range.
    ModelError
        If the model cannot be read or breaks a rule, or if a node cannot be
        converted, or not so that it surely keeps its meaning; the message names
        node, operator and versions.
    UnsupportedTypeError, AxesError, ArgumentError
        If a node has types that its new version does not take, as bfloat16 before
        13, or a node that reduces breaks the rules of its version.

    Notes
    -----
    Results stay the same bit for bit, with two exceptions.

    Axes that are known only when the model runs have no form where axes are an
    attribute: before opset 13 in ReduceSum, before 18 in the others. From 13 to 17
    ReduceSumSquare becomes Mul and ReduceSum, ReduceL1 Abs and ReduceSum, ReduceL2
    Mul, ReduceSum and Sqrt, ReduceLogSum ReduceSum and Log, and ReduceLogSumExp Exp,
    ReduceSum and Log, whose roundings are those of whatever runs them; see `expand`. All
    else is an error. An input with an initializer is such a case: a
    caller may override it.

    With ``noop_with_empty_axes`` and no axes the node becomes ``Mul(x, x)``, ``Abs(x)``
    or ``Identity(x)``. A square rounded once is the same in both, but a NaN may keep
    its sign and payload. A ReduceLogSum gets an axis of size 1 from Unsqueeze instead.

    Of types that an older version lacks, those of ReduceMax and ReduceMin are cast to
    a wider one and back: bool, uint8, and int8 where surely no size is 0.

    Negative axes become non-negative ones below opset 11, which does not promise
    them, where the rank is known. A type that is not known beforehand is not checked.

    Examples
    --------
    >>> import onnx.parser
    >>> from halfulp.onnx import convert_opset
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 7, opset_import: ["" : 13]>
    ...     agraph (float[N,3] x) => (float[N] y) {
    ...         y = ReduceSumSquare<axes = [1], keepdims = 0>(x)
    ...     }
    ... ''')
    >>> graph = convert_opset(model, 18).graph
    >>> graph.node[0].input, graph.initializer[0].name
    (['x', 'axes'], 'axes')
    """
    return convert(model, target).model


def convert(model: Any, target: int) -> Conversion:
    """Convert as `convert_opset` does; return what was done, too."""
    _check_target(target)
    proto = read_model(model)
    with model_errors("the model cannot be converted"):
        return _convert(proto, _check_source(proto), target)


def _check_target(target: int) -> None:
    newest = onnx.defs.onnx_opset_version()
    if isinstance(target, bool) or not isinstance(target, int):
        raise ArgumentError(f"opset is {target!r}; allowed: an integer")
    if not 1 <= target <= newest:
        raise ArgumentError(
            f"opset is {target}; allowed: 1 to {newest}, the newest of the installed onnx"
        )


def _check_source(model: ModelProto) -> OpenedModel:
    """Check a model, and return what is known of it."""
    opened = open_checked(model, Purpose.TYPES)
    if model.training_info:
        raise ModelError("the model has training information; allowed: none")
    newest = onnx.defs.onnx_opset_version()
    for owner in (model, *model.functions):
        opset = opset_of(owner)
        if opset is not None and opset > newest:
            raise ModelError(
                f"the model imports opset {opset}, unknown to the installed onnx; "
                f"allowed: 1 to {newest}"
            )
    return opened


def _convert(model: ModelProto, opened: OpenedModel, target: int) -> Conversion:
    conversion = Conversion(model, (opset_of(model), target))
    sound = _passes_checker(model)
    typed = Inference(opened.proto, opened.fed, strict=True).graph
    for body in typed_bodies(model, typed):
        BodyConverter(body, model, conversion).convert()
    least = onnx.helper.find_min_ir_version_for(
        list(model.opset_import), ignore_unknown=True
    )
    model.ir_version = max(model.ir_version, least)
    _check_result(model)
    if sound:
        onnx.checker.check_model(skeleton(model))
    return conversion


def _passes_checker(model: ModelProto) -> bool:
    try:
        onnx.checker.check_model(skeleton(model))
    except onnx.checker.ValidationError:
        return False
    return True


def _check_result(model: ModelProto) -> None:
    """Check every node of ONNX with all that is known, calls of functions included."""

    def visit(node: NodeProto, scope: Scope, opset: int, path: str) -> None:
        if node.domain in DOMAIN_NAMES and opset:
            here = f"{path}{place(node)}: "
            if reduction_of(node):
                check_reduce(node, scope, opset, path)
            check_node(node, contexts[opset], here)
            check_allowed(node, scope, opset, here)

    opened = open_checked(model, Purpose.TYPES)
    contexts = {}
    for owner in (opened.proto, *opened.proto.functions):
        opset = opset_of(owner)
        if opset is not None:
            contexts[opset] = checker_context(owner.opset_import)
    walk_typed(opened.proto, dict.fromkeys(opened.fed), visit)
