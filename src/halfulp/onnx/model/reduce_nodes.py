"""What a ReduceSumSquare node says, held to the rules of its version.

May import errors, spec.rules, nodes and tensors only. Types and shapes of what it takes
are not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import AttributeProto, NodeProto

from halfulp.errors import AxesError, ModelError
from halfulp.onnx.model.nodes import DOMAIN_NAMES
from halfulp.onnx.model.tensors import dtype_name
from halfulp.spec.rules import OPERATOR, OperatorVersion, check_flag, version_for

_ATTRIBUTE_TYPES = {
    "axes": AttributeProto.INTS,
    "keepdims": AttributeProto.INT,
    "noop_with_empty_axes": AttributeProto.INT,
}


@dataclass(frozen=True, slots=True)
class ReduceNode:
    """What a ReduceSumSquare node says.

    Attributes
    ----------
    version : OperatorVersion
    keepdims, noop_with_empty_axes : bool
    axes : tuple of int
        Those of the attribute; empty from version 18 on.
    """

    version: OperatorVersion
    keepdims: bool
    noop_with_empty_axes: bool
    axes: tuple[int, ...]


def is_reduce(node: NodeProto) -> bool:
    """Tell whether `node` is a ReduceSumSquare of ONNX."""
    return node.op_type == OPERATOR and node.domain in DOMAIN_NAMES


def describe(path: str, opset: int) -> str:
    """Name the ReduceSumSquare node at `path`, with its version."""
    return f"{path} ({version_for(opset)}, opset {opset})"


def read_node(node: NodeProto, opset: int, where: str) -> ReduceNode:
    """Check a ReduceSumSquare node by the rules of its version; return what it says.

    An attribute that refers to one of a function counts as absent.

    Raises
    ------
    ModelError, ArgumentError
        If the node has inputs, outputs, attributes or values that its version
        does not allow.
    """
    version = version_for(opset)
    _check_arity(node, version, where)
    values: dict[str, Any] = {}
    seen = set()
    for attribute in node.attribute:
        name = attribute.name
        if name not in version.attributes:
            raise ModelError(where + _attribute_not_allowed(name, version))
        if name in seen:
            raise ModelError(f"{where}attribute {name} is given twice; allowed: once")
        seen.add(name)
        if attribute.type != _ATTRIBUTE_TYPES[name]:
            given = AttributeProto.AttributeType.Name(attribute.type)
            allowed = AttributeProto.AttributeType.Name(_ATTRIBUTE_TYPES[name])
            raise ModelError(
                f"{where}attribute {name} has type {given}; allowed: {allowed}"
            )
        if not attribute.ref_attr_name:
            values[name] = attribute.ints if name == "axes" else attribute.i
    return ReduceNode(
        version=version,
        keepdims=check_flag("keepdims", values.get("keepdims", 1), where),
        noop_with_empty_axes=check_flag(
            "noop_with_empty_axes", values.get("noop_with_empty_axes", 0), where
        ),
        axes=tuple(values.get("axes", ())),
    )


def check_axes_type(name: str, rank: int | None, where: str) -> None:
    """Raise unless axes of element type `name`, and of `rank` if known, are allowed."""
    if name != "int64" or rank not in (1, None):
        shape = "" if rank is None else f" of rank {rank}"
        raise AxesError(
            f"{where}axes is a tensor({name}){shape}; allowed: a 1-D tensor(int64)"
        )


def axes_values(axes: np.ndarray[Any, Any], where: str) -> tuple[int, ...]:
    """Return the values of the axes input.

    Raises
    ------
    AxesError
        If it is not a 1-D tensor of int64.
    """
    check_axes_type(dtype_name(axes.dtype), axes.ndim, where)
    return tuple(axes.tolist())


def _check_arity(node: NodeProto, version: OperatorVersion, where: str) -> None:
    inputs = len(node.input)
    if version.axes == "attribute" and inputs > 1:
        raise ModelError(
            f"{where}has {inputs} inputs; allowed: 1, data; before opset 18 axes is an "
            f"attribute of {OPERATOR}, not an input"
        )
    if inputs > 2:
        raise ModelError(f"{where}has {inputs} inputs; allowed: data, axes")
    if not inputs or not node.input[0]:
        raise ModelError(f"{where}has no input data; allowed: exactly one")
    if len(node.output) != 1 or not node.output[0]:
        raise ModelError(f"{where}has outputs {list(node.output)}; allowed: exactly one")


def _attribute_not_allowed(name: str, version: OperatorVersion) -> str:
    if name == "axes":
        return (
            "axes is given as an attribute; from opset 18 axes is an input of "
            f"{OPERATOR}, not an attribute; convert the node or import opset 17"
        )
    hint = " (it exists from opset 18 on)" if name in _ATTRIBUTE_TYPES else ""
    allowed = ", ".join(version.attributes)
    return f"attribute {name!r} is not allowed{hint}; allowed: {allowed}"
