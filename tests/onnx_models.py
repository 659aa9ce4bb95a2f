"""Models for the tests of halfulp.onnx, in onnx's text form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser

from halfulp.element_types import ELEMENT_TYPES
from oracle import from_bits

DTYPES = {element.name: element.dtype for element in ELEMENT_TYPES}
REPORTS = json.loads((Path(__file__).parent / "cases/public_reports.json").read_text())

DATA = np.arange(6, dtype=np.float32).reshape(2, 3)


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


def report_array(tensor: dict[str, Any]) -> np.ndarray:
    """The array of a case."""
    dtype = DTYPES.get(tensor["type"]) or np.dtype(tensor["type"])
    runs = tensor.get("runs") or [(bits, 1) for bits in tensor["bits"]]
    values = np.repeat(
        np.array([int(bits, 16) for bits, _ in runs], f"u{dtype.itemsize}"),
        np.array([repeat for _, repeat in runs], np.int64),
    )
    return from_bits(values, dtype).reshape(tensor["shape"])


def report_model(case: dict[str, Any]) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model of a case, and its inputs."""
    data = report_array(case["data"])
    return reduce_model(
        data,
        opset=case["opset"],
        axes=case["axes"],
        form=case["axes_form"],
        keepdims=case["keepdims"],
        noop_with_empty_axes=case["noop_with_empty_axes"] or None,
    )


def reduce_model(
    data: np.ndarray,
    *,
    opset: int = 18,
    axes: Any = None,
    form: str = "absent",
    **attributes: int | None,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """One node, with axes in one of their forms, and the inputs to feed.

    Forms: absent, empty name, attr, const, node (Constant), input, default (an
    input with an initializer).
    """
    helper = onnx.helper
    code = helper.np_dtype_to_tensor_dtype(data.dtype)
    inputs = [helper.make_tensor_value_info("data", code, data.shape)]
    nodes, initializers = [], []
    feeds = {"data": data}
    names = ["data"]
    given = {k: v for k, v in attributes.items() if v is not None}
    if form == "empty name":
        names.append("")
    elif form not in ("absent", "attr"):
        names.append("axes")
        array = np.array(axes, np.int64)
        tensor = onnx.numpy_helper.from_array(array, "axes")
        if form in ("input", "default"):
            inputs.append(helper.make_tensor_value_info("axes", 7, [None]))
        if form in ("const", "default"):
            initializers.append(tensor)
        if form == "input":
            feeds["axes"] = array
        if form == "node":
            nodes.append(helper.make_node("Constant", [], ["axes"], value=tensor))
    nodes.append(helper.make_node("ReduceSumSquare", names, ["reduced"], **given))
    if form == "attr":
        # make_node cannot tell the type of an empty list.
        nodes[-1].attribute.add(name="axes", type="INTS", ints=axes)
    output = helper.make_tensor_value_info("reduced", code, None)
    graph = helper.make_graph(nodes, "g", inputs, [output], initializers)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8), feeds
