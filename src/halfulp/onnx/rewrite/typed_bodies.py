"""The bodies of a model that are rewritten, each with the types that are known there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from onnx import FunctionProto, GraphProto, ModelProto, ValueInfoProto

from halfulp.onnx.check.nodes import open_checked
from halfulp.onnx.model.bodies import Body
from halfulp.onnx.model.files import load_model
from halfulp.onnx.model.inference import Inference
from halfulp.onnx.model.nodes import function_label, opset_of, within
from halfulp.onnx.model.open import Purpose


@dataclass(frozen=True, slots=True)
class TypedBody:
    """The graph of a model, or a function.

    Attributes
    ----------
    owner : onnx.ModelProto or onnx.FunctionProto
        Whose opset imports govern the nodes.
    body : onnx.GraphProto or onnx.FunctionProto
    typed : onnx.GraphProto
        The same nodes, with the types that are known.
    path : str
        To put before the names of nodes.
    opset : int or None
        None: none of ONNX's operators stands there.
    """

    owner: ModelProto | FunctionProto
    body: Body
    typed: GraphProto
    path: str
    opset: int | None


def typed_bodies(model: ModelProto, typed: GraphProto) -> Iterator[TypedBody]:
    """Yield the graph of `model`, whose types `typed` has, and then its functions."""
    yield TypedBody(model, model.graph, typed, "", opset_of(model))
    for function in model.functions:
        graph = GraphProto(node=function.node, value_info=function.value_info)
        path = within(function_label(function))
        yield TypedBody(function, function, graph, path, opset_of(function))


def checked_bodies(model: ModelProto) -> Iterator[TypedBody]:
    """Yield the typed bodies of a model, once a copy of it is checked.

    Raises
    ------
    HalfulpError
        If the model breaks a rule.
    """
    checked = open_checked(load_model(model), Purpose.CHECK).proto
    for each in typed_bodies(model, Inference(checked).graph):
        if isinstance(each.body, FunctionProto):
            inputs = (ValueInfoProto(name=name) for name in each.body.input)
            each.typed.input.extend(inputs)
        yield each
