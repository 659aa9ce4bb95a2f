"""The nodes that crash onnx, in its shape inference and in its version converter.

These are faults of onnx 1.23 and earlier, found by calling it with hostile attributes,
types and inputs of every operator: it reads beyond arrays where an attribute is out of
range, and through a null pointer where it asks for the type of an input that has none.
"""

from __future__ import annotations

from onnx import AttributeProto, ModelProto, NodeProto

from halfulp.errors import ModelError
from halfulp.onnx.model.nodes import DOMAIN_NAMES

# Operators that crash it if the type of their first input is not known.
NEED_TYPE = frozenset(
    ("EyeLike", "RegexFullMatch", "DictVectorizer", "LabelEncoder", "TreeEnsemble")
)

# Attributes that count axes, which onnx keeps in 32 bits.
_AXES = frozenset(("axis", "batch_axis", "time_axis"))
_INT32 = range(-(1 << 31), 1 << 31)


def check_attributes(node: NodeProto, where: str) -> None:
    """Check the attributes of a node that crash onnx, or hang it, if it is ONNX's.

    An attribute that refers to one of a function counts as absent.

    Raises
    ------
    ModelError
        If one is out of range.
    """
    if node.domain not in DOMAIN_NAMES:
        return
    for attribute in node.attribute:
        name = attribute.name
        if name in _AXES:
            allowed = _INT32
        elif name == "batch_dims":
            allowed = range(1 << 31)
        elif name == "num_outputs" and node.op_type == "Split":
            allowed = range(len(node.output), 1 << 31)
        elif name == "num_scan_inputs":
            allowed = range(1, max(2, len(node.input) + 1))
        else:
            continue
        if attribute.type != AttributeProto.INT or attribute.ref_attr_name:
            continue
        if attribute.i not in allowed:
            raise ModelError(
                f"{where}attribute {name!r} is {attribute.i}; "
                f"allowed: {allowed[0]} to {allowed[-1]}"
            )


def has_safe_attributes(node: NodeProto) -> bool:
    """Tell whether `check_attributes` lets a node pass."""
    try:
        check_attributes(node, "")
    except ModelError:
        return False
    return True


def check_safe(model: ModelProto) -> None:
    """Raise a ModelError if a node of the graph of `model` would crash onnx."""
    known = {tensor.name for tensor in model.graph.initializer}
    for value in (*model.graph.value_info, *model.graph.output, *model.graph.input):
        if value.type.WhichOneof("value"):
            known.add(value.name)
    for node in model.graph.node:
        typed = node.op_type not in NEED_TYPE or known.issuperset(node.input[:1])
        if not typed or not has_safe_attributes(node):
            raise ModelError(
                "an attribute is out of range, or the type of an input unknown"
            )
