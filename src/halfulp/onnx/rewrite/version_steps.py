"""From one version of an operator of ONNX to the next: what changes, as far as known.

Where `same_texts` or `REWORDED` has a step, nothing does that a node could tell; where
`changed_meaning` says something, onnx's converter would not see it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import NodeProto, TypeProto
from onnx.defs import OpSchema

from halfulp.errors import ModelError, UnsupportedTypeError
from halfulp.onnx.model.scopes import Scope
from halfulp.onnx.model.tensors import known_rank, tensor_facts, type_name

# Versions (older, newer) between which the texts of onnx.defs differ in wording, in
# types, and in attributes or inputs that only the newer has, and in nothing else that
# a node valid in both could tell. Read by a person, for steps down: onnx's converter
# lacks most of them.
REWORDED = {
    **{name: [(13, 14)] for name in ("Add", "Sub", "Mul", "Div")},
    **{name: [(6, 13)] for name in ("Abs", "Ceil", "Floor")},
    **{name: [(12, 13)] for name in ("ArgMax", "ArgMin", "Clip", "ReduceMax")},
    **{f"Reduce{name}": [(11, 13)] for name in ("LogSum", "LogSumExp", "Prod")},
    "BatchNormalization": [(14, 15)],
    "Cast": [(9, 13)],
    "Gather": [(11, 13)],
    "GatherElements": [(11, 13)],
    "GatherND": [(12, 13)],
    "Gemm": [(9, 11), (11, 13)],
    "If": [(1, 11)],
    "Loop": [(1, 11), (11, 13), (13, 16)],
    "MaxPool": [(8, 10)],
    "Mod": [(10, 13)],
    "NegativeLogLikelihoodLoss": [(12, 13)],
    "NonMaxSuppression": [(10, 11)],
    "Pad": [(11, 13), (13, 18)],
    "Pow": [(7, 12), (12, 13)],
    "ReduceMin": [(12, 13)],
    "Reshape": [(13, 14)],
    "Scan": [(9, 11)],
    "Shape": [(13, 15)],
    "Slice": [(11, 13)],
    "SoftmaxCrossEntropyLoss": [(12, 13)],
    "Split": [(13, 18)],
}


class Step(NamedTuple):
    """From one version of an operator to the next one."""

    old: OpSchema
    new: OpSchema

    @property
    def upwards(self) -> bool:
        return bool(self.new.since_version > self.old.since_version)

    @property
    def newer(self) -> int:
        return max(self.old.since_version, self.new.since_version)

    @property
    def opsets(self) -> tuple[int, int]:
        """Two opsets, one beside the other, that have these versions."""
        newer = self.newer
        return (newer - 1, newer) if self.upwards else (newer, newer - 1)

    def __str__(self) -> str:
        old, new = self.old.since_version, self.new.since_version
        return f"{self.old.name}-{old} to {self.old.name}-{new}"


def known_schema(operator: str, opset: int) -> OpSchema | None:
    """Return the version of an operator that an opset has, if it has one."""
    try:
        known = min(opset, onnx.defs.onnx_opset_version())
        return onnx.defs.get_schema(operator, known, "")
    except onnx.defs.SchemaError:
        return None


def refused_in_function(node: NodeProto, opset: int, model_opset: int) -> str:
    """Return why onnx's checker refuses a node in a function of `opset`, else "".

    It wants a node to have the same version in the opset of the model.
    """
    here = known_schema(node.op_type, opset)
    there = known_schema(node.op_type, model_opset)
    if here is None or (there and there.since_version == here.since_version):
        return ""
    return (
        f"onnx's checker refuses {node.op_type}-{here.since_version} in a function of a "
        f"model of opset {model_opset}"
    )


def next_step(node: NodeProto, at: int, target: int, where: str) -> Step | None:
    """Return the step from the version at opset `at` towards `target`, if any."""
    old = known_schema(node.op_type, at)
    if old is None:
        raise ModelError(
            f"{where}operator {node.op_type!r} is unknown in opset {at}; "
            "allowed: the operators of ONNX"
        )
    if target < at:
        new = known_schema(node.op_type, max(target, old.since_version - 1))
        if new is None:
            raise ModelError(
                f"{where}{node.op_type} exists from opset {old.since_version} on, "
                f"which opset {target} is not"
            )
    else:
        later = (known_schema(node.op_type, opset) for opset in range(at + 1, target + 1))
        found = (s for s in later if s and s.since_version != old.since_version)
        new = next(found, old)
    return None if new.since_version == old.since_version else Step(old, new)


def same_texts(old: OpSchema, new: OpSchema) -> bool:
    """Tell whether two versions differ in nothing but types and the layout of texts."""
    return _texts(old) == _texts(new) and not new.deprecated


def _texts(schema: OpSchema) -> object:
    attributes = {
        name: (a.type, a.required, str(a.default_value), _plain(a.description))
        for name, a in schema.attributes.items()
    }
    parameters = [
        (p.name, p.option, p.is_homogeneous, p.min_arity, _plain(p.description))
        for p in (*schema.inputs, *schema.outputs)
    ]
    return _plain(schema.doc), attributes, parameters


def _plain(text: str | None) -> str:
    return "".join((text or "").replace("`", "").replace("*", "").split())


def changed_meaning(node: NodeProto, step: Step, scope: Scope) -> str | None:
    """Say what a step changes that onnx's converter does not see, if anything."""
    set_here = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    match node.op_type, step.newer, step.upwards:
        case "Hardmax", 13, True:
            return _if_not_last(set_here.get("axis", 1), node, scope)
        case "Softmax" | "LogSoftmax" | "Hardmax", 13, False:
            return _if_not_last(set_here.get("axis", -1), node, scope)
        case "BatchNormalization" | "Dropout", 7, True if not set_here.get("is_test"):
            return "without is_test the node trains, until opset 6 only"
        case _, 11, False if any(map(_is_negative_axis, set_here.items())):
            return "until opset 10 negative axes have none"
        case "PRelu", 7, True if not _is_one_element(scope.types.get(node.input[1])):
            return "until opset 6 slopes are of channels"
        case "Scan", 9, _:
            return "until opset 8 it scans batches"
        case "Resize", 11, _:
            return "opset 11 has other coordinates"
        case "Pad", 19, False if set_here.get("mode") == b"wrap":
            return "mode 'wrap' exists from opset 19 on"
        case "Resize", 19, False if (
            set_here.get("coordinate_transformation_mode") == b"half_pixel_symmetric"
        ):
            return "'half_pixel_symmetric' exists from opset 19 on"
        case "GroupNormalization", 21, _:
            return "scale and bias are of groups until opset 20, of channels from 21 on"
    return None


def _is_one_element(type_: TypeProto | None) -> bool:
    kind, _, rank = tensor_facts(type_)
    if type_ is None or kind != "tensor" or rank is None:
        return False
    return all(dim.dim_value == 1 for dim in type_.tensor_type.shape.dim)


def _is_negative_axis(attribute: tuple[str, Any]) -> bool:
    name, value = attribute
    return name.endswith(("axis", "axes")) and bool(np.min(value, initial=0) < 0)


def _if_not_last(axis: int, node: NodeProto, scope: Scope) -> str | None:
    """Say what is wrong unless `axis` surely is the last one."""
    rank = known_rank(scope.types.get(node.input[0]))
    if axis == -1 or (rank and axis % rank == rank - 1):
        return None
    return f"until opset 12 it takes axis {axis} and those behind it as one"


def check_allowed(node: NodeProto, scope: Scope, opset: int, where: str) -> None:
    """Raise an UnsupportedTypeError unless the version in `opset` takes the types."""
    schema = known_schema(node.op_type, opset)
    if schema is None:
        return
    bound: dict[str, str] = {}
    for what, names, formals in (
        ("input", node.input, schema.inputs),
        ("output", node.output, schema.outputs),
    ):
        for i, name in enumerate(names):
            kind, element_type, _ = tensor_facts(scope.types.get(name) if name else None)
            if kind != "tensor" or not element_type:
                continue
            formal = formals[min(i, len(formals) - 1)]
            given = f"tensor({type_name(element_type)})"
            allowed = ", ".join(sorted(formal.types))
            if formal.is_homogeneous:
                allowed = bound.setdefault(formal.type_str, allowed)
            if given not in allowed.split(", "):
                raise UnsupportedTypeError(
                    f"{where}{what} {name!r} is a {given}, not allowed in "
                    f"{node.op_type}-{schema.since_version}; allowed: {allowed}"
                )
            if formal.is_homogeneous:
                bound[formal.type_str] = given
