"""Models of one node of a reduction, with axes in every form that a node can have.

May import reductions and bits only; and onnx.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from halfulp.conformance.bits import Array
from halfulp.reductions import SUM_SQUARE

# Where a node has its axes. "default" is a model input with an initializer.
AXES_FORMS = ("absent", "empty name", "attr", "const", "node", "input", "default")


def reduce_model(
    data: Array,
    *,
    opset: int = SUM_SQUARE.newest.since,
    axes: Any = None,
    axes_form: str = "absent",
    shape: tuple[int, ...] | None = None,
    operator: str = SUM_SQUARE.operator,
    **attributes: int | None,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return a model of one node, and the inputs to feed.

    Parameters
    ----------
    data : numpy.ndarray
    opset : int
        It need not allow the node.
    axes : array_like, optional
        Integers; as an array, of any type and rank.
    axes_form : str
        One of `AXES_FORMS`.
    shape : tuple of int, optional
        That the model states for its output.
    operator : str
    **attributes
        Of the node; None stands for an absent one.
    """
    helper = onnx.helper
    code = helper.np_dtype_to_tensor_dtype(data.dtype)
    inputs = [helper.make_tensor_value_info("data", code, data.shape)]
    nodes, initializers = [], []
    feeds = {"data": data}
    names = ["data"]
    given: dict[str, Any] = {k: v for k, v in attributes.items() if v is not None}
    if axes_form == "empty name":
        names.append("")
    elif axes_form not in ("absent", "attr"):
        names.append("axes")
        array = axes if isinstance(axes, np.ndarray) else np.array(axes, np.int64)
        tensor = onnx.numpy_helper.from_array(array, "axes")
        if axes_form in ("input", "default"):
            unknown = [None] * array.ndim
            inputs.append(
                helper.make_tensor_value_info("axes", tensor.data_type, unknown)
            )
        if axes_form in ("const", "default"):
            initializers.append(tensor)
        if axes_form == "input":
            feeds["axes"] = array
        if axes_form == "node":
            nodes.append(helper.make_node("Constant", [], ["axes"], value=tensor))
    nodes.append(helper.make_node(operator, names, ["reduced"], **given))
    if axes_form == "attr":
        # make_node cannot tell the type of an empty list.
        nodes[-1].attribute.add(name="axes", type="INTS", ints=axes)
    output = helper.make_tensor_value_info("reduced", code, shape)
    graph = helper.make_graph(nodes, "g", inputs, [output], initializers)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8), feeds
