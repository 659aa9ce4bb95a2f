"""Brings one node of an operator of ONNX, other than ours, to another opset.

May import crashes, errors, faults, nodes, scopes and tensors only.

onnx's version converter takes whole models. It rebuilds all of them, with what it
does not know lost, and stops at the first operator it cannot convert. So it is given
one node at a time, in a model of its own, with the types and constants that the node
sees; everything else stays as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.version_converter
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto
from onnx.defs import OpSchema

from halfulp.errors import ModelError, UnsupportedTypeError
from halfulp.faults import reason
from halfulp.onnx.model.onnx_crashes import check_safe
from halfulp.onnx.model.scopes import Scope
from halfulp.onnx.model.tensors import known_rank, tensor_facts, type_name

# Inputs that were an attribute once, as axes, pads or scales, have no more elements.
_LONGEST_LIST = 64

# Versions (older, newer) between which the texts of onnx.defs differ in wording, in
# types, and in attributes or inputs that only the newer has, and in nothing else that
# a node valid in both could tell. Read by a person, for steps down: onnx's converter
# lacks most of them.
_REWORDED = {
    **{name: [(13, 14)] for name in ("Add", "Sub", "Mul", "Div")},
    **{name: [(6, 13)] for name in ("Abs", "Ceil", "Floor")},
    **{name: [(12, 13)] for name in ("ArgMax", "ArgMin", "Clip", "ReduceMax")},
    **{
        f"Reduce{name}": [(11, 13)]
        for name in ("L1", "L2", "LogSum", "LogSumExp", "Mean", "Prod")
    },
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


class _Step(NamedTuple):
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


def adapt_node(
    node: NodeProto,
    opsets: tuple[int, int],
    scope: Scope,
    fresh: Callable[[str], str],
    where: str,
) -> Sequence[NodeProto]:
    """Return the nodes that mean in one opset what `node` means in another.

    Parameters
    ----------
    node : onnx.NodeProto
        Of ONNX's domain. It is not changed, and returned itself if it may stay.
    opsets : tuple of int
        The one that it is written for, and the one wanted.
    scope : Scope
        What the node sees.
    fresh : callable
        Returns a name like the one given that no value has yet.
    where : str
        Names the node in errors.

    Raises
    ------
    ModelError
        If there is no way, or none that surely keeps the meaning.
    """
    at, target = opsets
    done: list[NodeProto] = []
    waiting = [(node, at)]
    while waiting:
        node, at = waiting.pop(0)
        step = _next_step(node, at, target, where)
        if step is None:
            done.append(node)
            continue
        nodes = [node] if _same_texts(*step) else _take(node, step, scope, fresh, where)
        opset = step.opsets[1]
        waiting[:0] = [(each, opset) for each in nodes]
    return done


def check_allowed(node: NodeProto, scope: Scope, opset: int, where: str) -> None:
    """Raise an UnsupportedTypeError unless the version in `opset` takes the types."""
    schema = _schema(node, opset)
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


def _schema(node: NodeProto, opset: int) -> OpSchema | None:
    try:
        return onnx.defs.get_schema(node.op_type, opset, "")
    except onnx.defs.SchemaError:
        return None


def _next_step(node: NodeProto, at: int, target: int, where: str) -> _Step | None:
    """Return the step from the version at opset `at` towards `target`, if any."""
    old = _schema(node, at)
    if old is None:
        raise ModelError(
            f"{where}operator {node.op_type!r} is unknown in opset {at}; "
            "allowed: the operators of ONNX"
        )
    if target < at:
        new = _schema(node, max(target, old.since_version - 1))
        if new is None:
            raise ModelError(
                f"{where}{node.op_type} exists from opset {old.since_version} on, "
                f"which opset {target} is not"
            )
    else:
        later = (_schema(node, opset) for opset in range(at + 1, target + 1))
        found = (s for s in later if s and s.since_version != old.since_version)
        new = next(found, old)
    return None if new.since_version == old.since_version else _Step(old, new)


def _same_texts(old: OpSchema, new: OpSchema) -> bool:
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


def _take(
    node: NodeProto,
    step: _Step,
    scope: Scope,
    fresh: Callable[[str], str],
    where: str,
) -> Sequence[NodeProto]:
    """Return the nodes that `node` becomes in a step that changes more than types."""
    start = f"{where}{step} "
    if any(attribute.ref_attr_name for attribute in node.attribute):
        raise ModelError(
            f"{start}cannot be converted: the node refers to attributes of a function"
        )
    node = _without_defaults(node, step)
    if node.op_type == "Constant":
        return [_with_tensor(node)]
    if change := _changed_meaning(node, step, scope):
        raise ModelError(f"{start}would change the meaning: {change}")
    versions = step.new.since_version, step.old.since_version
    if versions in _REWORDED.get(node.op_type, ()):
        return [node]
    names = _short_names(node)
    alone = _alone(node, names, step.opsets[0], scope)
    try:
        converted = _run_converter(alone, step.opsets[1])
    except Exception as error:
        # What onnx says comes after the name of a file and a condition.
        said = reason(error).rpartition(" failed: ")[2]
        raise ModelError(f"{start}is beyond onnx's version converter: {said}") from error
    return _taken_over(ModelProto.FromString(converted), names, node, fresh)


# One run takes ten milliseconds or more, and models repeat themselves.
@functools.lru_cache(maxsize=4096)
def _run_converter(model: bytes, opset: int) -> bytes:
    proto = ModelProto.FromString(model)
    check_safe(proto)
    converted = onnx.version_converter.convert_version(proto, opset)
    return bytes(converted.SerializeToString())


def _without_defaults(node: NodeProto, step: _Step) -> NodeProto:
    """Return `node` without attributes that only the old version has, where default.

    onnx's converter leaves some of them behind.
    """
    copy = NodeProto()
    copy.CopyFrom(node)
    for i in reversed(range(len(node.attribute))):
        attribute = node.attribute[i]
        if attribute.name in step.new.attributes:
            continue
        known = step.old.attributes.get(attribute.name)
        if known is None or not known.default_value.type:
            continue
        default = onnx.helper.get_attribute_value(known.default_value)
        if onnx.helper.get_attribute_value(attribute) == default:
            del copy.attribute[i]
    while copy.input and not copy.input[-1]:
        del copy.input[-1]
    return copy


def _with_tensor(node: NodeProto) -> NodeProto:
    """Return a Constant node with its value as a tensor, which every version knows."""
    dtypes = {"int": np.int64, "float": np.float32, "string": np.object_}
    copy = NodeProto()
    copy.CopyFrom(node)
    for i, attribute in enumerate(node.attribute):
        kind = attribute.name.removeprefix("value_").removesuffix("s")
        if kind in dtypes:
            value = onnx.helper.get_attribute_value(attribute)
            tensor = onnx.numpy_helper.from_array(np.array(value, dtypes[kind]))
            copy.attribute[i].CopyFrom(onnx.helper.make_attribute("value", tensor))
    return copy


def _changed_meaning(node: NodeProto, step: _Step, scope: Scope) -> str | None:
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


def _short_names(node: NodeProto) -> dict[str, str]:
    """Return names for the values of `node`, the same for nodes that are alike."""
    values = dict.fromkeys(filter(None, (*node.input, *node.output)))
    return {"": "", **{name: f"v{i}" for i, name in enumerate(values)}}


def _alone(node: NodeProto, names: dict[str, str], opset: int, scope: Scope) -> bytes:
    """Return a model of `node` alone, with its values renamed as in `names`."""
    alone = NodeProto(
        op_type=node.op_type,
        input=[names[name] for name in node.input],
        output=[names[name] for name in node.output],
        attribute=node.attribute,
    )
    for attribute in alone.attribute:
        if attribute.HasField("g"):
            attribute.g.CopyFrom(GraphProto(name="empty"))
    graph = GraphProto(name="alone", node=[alone])
    sizes: dict[str, str] = {}
    for name in dict.fromkeys(filter(None, node.input)):
        graph.input.append(_declared(name, names[name], sizes, scope))
        array = scope.array(name)
        if array is not None and array.size <= _LONGEST_LIST:
            graph.initializer.append(onnx.numpy_helper.from_array(array, names[name]))
    for name in filter(None, node.output):
        graph.output.append(_declared(name, names[name], sizes, scope))
    model = ModelProto(
        ir_version=onnx.IR_VERSION,
        graph=graph,
        opset_import=[onnx.helper.make_opsetid("", opset)],
    )
    return bytes(model.SerializeToString(deterministic=True))


def _declared(
    name: str, new_name: str, sizes: dict[str, str], scope: Scope
) -> ValueInfoProto:
    """Declare a value with what is known of it, its sizes renamed too."""
    value = ValueInfoProto(name=new_name)
    type_ = scope.types.get(name)
    kind, element_type, _ = tensor_facts(type_)
    if type_ is not None and kind == "tensor" and element_type:
        value.type.CopyFrom(type_)
    for dim in value.type.tensor_type.shape.dim if value.HasField("type") else ():
        if dim.dim_param:
            dim.dim_param = sizes.setdefault(dim.dim_param, f"n{len(sizes)}")
    return value


def _taken_over(
    converted: ModelProto,
    names: dict[str, str],
    node: NodeProto,
    fresh: Callable[[str], str],
) -> list[NodeProto]:
    """Return the nodes of `converted` with all that `node` has besides.

    Values get their names back; those that are new get fresh ones.
    """
    old_names = {new: old for old, new in names.items()}
    graphs = {a.name: a.g for a in node.attribute if a.HasField("g")}
    result = [
        onnx.helper.make_node("Constant", [], [tensor.name], value=tensor)
        for tensor in converted.graph.initializer
        if tensor.name not in old_names
    ]
    result.extend(converted.graph.node)
    for each in result:
        for side in (each.input, each.output):
            for i, name in enumerate(side):
                if name not in old_names:
                    old_names[name] = fresh(f"{node.output[0]}_{each.op_type.lower()}")
                side[i] = old_names[name]
        for attribute in each.attribute:
            if attribute.HasField("g"):
                attribute.g.CopyFrom(graphs[attribute.name])
        each.domain = node.domain
        if set(each.output) & set(node.output):
            for field in ("name", "doc_string"):
                if node.HasField(field):
                    setattr(each, field, getattr(node, field))
            each.metadata_props.extend(node.metadata_props)
    return result
