"""Models for the tests of halfulp.onnx, in onnx's text form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser

from halfulp.conformance.cases.models import reduce_model as reduce_model
from halfulp.conformance.cases.recorded import report_array
from halfulp.element_types import ELEMENT_TYPES
from halfulp.records import load

DTYPES = {element.name: element.dtype for element in ELEMENT_TYPES}
REPORTS = load("public_reports")

DATA = np.arange(6, dtype=np.float32).reshape(2, 3)
# 4096^2 + 1 + 1: other implementations lose both ones, halfulp does not.
WITNESS = np.array([[4096, 1, 1], [1, 4096, 1]], np.float32)
EXACT = np.float32(16777218)


def model(text: str, *functions: str, opset: int = 18) -> onnx.ModelProto:
    """A model of a graph `text`, like ``(float[2,3] x) => (y) { y = Relu(x) }``."""
    head = f'<ir_version: 8, opset_import: ["" : {opset}, "f" : 1]> g '
    return onnx.parser.parse_model("\n".join([head + text, *functions]))


def function(body: str, *, head: str = "sq <k> (a) => (b)", opset: int = 13) -> str:
    """A function of the domain f, to give to `model`."""
    return f'<domain: "f", opset_import: ["" : {opset}, "f" : 1]> {head} {{ {body} }}'


def reports(check: str) -> list[dict[str, Any]]:
    """The cases of public_reports.json that are checked so."""
    return [case for case in REPORTS if case["check"] == check]


def report_model(case: dict[str, Any]) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model of a case, and its inputs."""
    data = report_array(case["data"])
    return reduce_model(
        data,
        opset=case["opset"],
        axes=case["axes"],
        axes_form=case["axes_form"],
        keepdims=case["keepdims"],
        noop_with_empty_axes=case["noop_with_empty_axes"] or None,
    )


def nested_graphs(depth: int) -> onnx.ModelProto:
    """A model of If nodes, each in a branch of another."""
    proto = model(
        """(float[2,3] x, bool c) => (y) { y = If (c) <
            then_branch = t () => (p) { p = ReduceSumSquare<keepdims=0>(x) },
            else_branch = e () => (q) { q = ReduceSum<keepdims=0>(x) }> }"""
    )
    for _ in range(depth):
        inner = onnx.GraphProto()
        inner.CopyFrom(proto.graph)
        inner.ClearField("input")
        proto.graph.node[0].attribute[0].g.CopyFrom(inner)
    return proto
