"""Brings one node of an operator of ONNX, other than ours, to another opset.

onnx's version converter takes whole models. It rebuilds all of them, with what it
does not know lost, and stops at the first operator it cannot convert. So it is given
one node at a time, in a model of its own, with the types and constants that the node
sees; everything else stays as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnx.version_converter
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from halfulp.errors import ModelError
from halfulp.faults import reason
from halfulp.onnx.model.nodes import drop_attribute
from halfulp.onnx.model.onnx_crashes import check_safe
from halfulp.onnx.model.scopes import Scope
from halfulp.onnx.model.tensors import tensor_facts
from halfulp.onnx.rewrite.version_steps import (
    REWORDED,
    Step,
    changed_meaning,
    next_step,
    same_texts,
)

# Inputs that were an attribute once, as axes, pads or scales, have no more elements.
_LONGEST_LIST = 64


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
        step = next_step(node, at, target, where)
        if step is None:
            done.append(node)
            continue
        nodes = [node] if same_texts(*step) else _take(node, step, scope, fresh, where)
        opset = step.opsets[1]
        waiting[:0] = [(each, opset) for each in nodes]
    return done


def _take(
    node: NodeProto,
    step: Step,
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
    if change := changed_meaning(node, step, scope):
        raise ModelError(f"{start}would change the meaning: {change}")
    versions = step.new.since_version, step.old.since_version
    if versions in REWORDED.get(node.op_type, ()):
        return _without_newer(node, step, scope, fresh, start)
    names = _short_names(node)
    alone = _alone(node, names, step.opsets[0], scope)
    try:
        converted = _run_converter(alone, step.opsets[1])
    except Exception as error:
        # What onnx says comes after the name of a file and a condition.
        said = reason(error).rpartition(" failed: ")[2]
        raise ModelError(f"{start}is beyond onnx's version converter: {said}") from error
    return _taken_over(ModelProto.FromString(converted), names, node, fresh)


def _without_newer(
    node: NodeProto,
    step: Step,
    scope: Scope,
    fresh: Callable[[str], str],
    start: str,
) -> Sequence[NodeProto]:
    """Return the nodes that do what `node` does without attributes of its version."""
    newer = [a for a in node.attribute if a.name not in step.new.attributes]
    if not newer:
        return [node]
    if node.op_type == "Shape":
        return _as_slice(node, fresh)
    if node.op_type == "Reshape":
        # allowzero says what a size of 0 means, which is nothing where there is none.
        shape = scope.array(node.input[1])
        if shape is not None and np.all(shape):
            copy = NodeProto()
            copy.CopyFrom(node)
            drop_attribute(copy, newer[0].name)
            return [copy]
    raise ModelError(
        f"{start}cannot be made: {node.op_type}-{step.new.since_version} has no "
        f"attribute {newer[0].name!r}"
    )


def _as_slice(node: NodeProto, fresh: Callable[[str], str]) -> Sequence[NodeProto]:
    """Return what a Shape that has ends is before opset 15: a Slice of all sizes."""
    # Slice clamps both ends, and counts negative ones from the end, as Shape does.
    given = {attribute.name: attribute.i for attribute in node.attribute}
    ends = {
        fresh(f"{node.output[0]}_{name}"): np.array([given.get(name, default)], np.int64)
        for name, default in (("start", 0), ("end", np.iinfo(np.int64).max))
    }
    whole = fresh(f"{node.output[0]}_shape")
    last = NodeProto(op_type="Slice", input=[whole, *ends], output=node.output)
    for field in ("name", "doc_string", "domain"):
        if node.HasField(field):
            setattr(last, field, getattr(node, field))
    last.metadata_props.extend(node.metadata_props)
    constants = (
        onnx.helper.make_node(
            "Constant", [], [name], value=onnx.numpy_helper.from_array(end)
        )
        for name, end in ends.items()
    )
    return [*constants, onnx.helper.make_node("Shape", node.input, [whole]), last]


# One run takes ten milliseconds or more, and models repeat themselves.
@functools.lru_cache(maxsize=4096)
def _run_converter(model: bytes, opset: int) -> bytes:
    proto = ModelProto.FromString(model)
    check_safe(proto)
    converted = onnx.version_converter.convert_version(proto, opset)
    return bytes(converted.SerializeToString())


def _without_defaults(node: NodeProto, step: Step) -> NodeProto:
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
