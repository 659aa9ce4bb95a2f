"""Fills in the types and shapes of a model that can be inferred."""

from __future__ import annotations

import os

from onnx import GraphProto, ModelProto

from halfulp.faults import model_errors
from halfulp.onnx.check.nodes import open_checked
from halfulp.onnx.model.inference import Inference
from halfulp.onnx.model.nodes import twin_graphs
from halfulp.onnx.model.open import Purpose, read_model


def infer_shapes(model: str | os.PathLike[str] | bytes | ModelProto) -> ModelProto:
    """Return a copy of a model with the types and shapes that can be inferred.

    onnx infers all operators but those that reduce, which are inferred as by
    `infer_shape`. onnx itself gives up their rank where the axes are not known
    before the model runs, and with it the ranks of all that follows; it passes
    over axes out of range; and it believes in the default of an input, which a
    caller may override: from IR version 4 on, none is used here.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        Not changed. Of external data only what types may depend on is read, with a
        path; the result refers to the rest as the model does.

    Returns
    -------
    onnx.ModelProto
        Types are in ``value_info`` and in the outputs, in nested graphs too. In
        functions there are none: they depend on the call.

    Raises
    ------
    ModelError
        If the model cannot be read, breaks a rule, or declares what cannot be.
    UnsupportedTypeError, AxesError, ArgumentError
        If a node that reduces breaks the rules of its version.

    Examples
    --------
    >>> import onnx.parser
    >>> from halfulp.onnx import infer_shapes
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 18]>
    ...     agraph (float[2,1] x, int64[K] axes) => (y) { y = ReduceSumSquare(x, axes) }
    ... ''')
    >>> len(infer_shapes(model).graph.output[0].type.tensor_type.shape.dim)
    2
    """
    result = read_model(model)
    with model_errors("the model cannot be used"):
        opened = open_checked(result, Purpose.TYPES)
    with model_errors("the types of the model cannot be inferred"):
        typed = Inference(opened.proto, opened.fed, strict=True).graph
        _copy_types(typed, result.graph)
    return result


def _copy_types(typed: GraphProto, graph: GraphProto, nested: bool = False) -> None:
    """Copy the types of `typed` into `graph`, which has the same nodes."""
    for name in ("value_info", "output", *(("input",) if nested else ())):
        values = getattr(graph, name)
        del values[:]
        values.extend(getattr(typed, name))
    for typed_node, node in zip(typed.node, graph.node, strict=True):
        for _, inner, twin in twin_graphs(typed_node, node):
            _copy_types(inner, twin, nested=True)
