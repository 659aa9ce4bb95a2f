"""What a node that reduces says, held to the rules of its version.

Types and shapes of what it takes are not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from onnx import AttributeProto, NodeProto

from halfulp.errors import AxesError, ModelError
from halfulp.onnx.model.tensors import dtype_name
from halfulp.reductions import (
    BY_OPERATOR,
    REDUCTIONS,
    OperatorVersion,
    Reduction,
    reduction_named,
)
from halfulp.spec.rules import check_flag

NOOP = "noop_with_empty_axes"

_ATTRIBUTE_TYPES = {
    "axes": AttributeProto.INTS,
    "keepdims": AttributeProto.INT,
    NOOP: AttributeProto.INT,
}


class VersionAt(NamedTuple):
    """A version of an operator, and the opset that means it."""

    version: OperatorVersion
    opset: int

    def __str__(self) -> str:
        return f"{self.version}, opset {self.opset}"


@dataclass(frozen=True, slots=True)
class ReduceNode:
    """What a node that reduces says.

    Attributes
    ----------
    version : OperatorVersion
    keepdims, noop_with_empty_axes : bool
    axes : tuple of int
        Those of the attribute; empty where axes are an input.
    """

    version: OperatorVersion
    keepdims: bool
    noop_with_empty_axes: bool
    axes: tuple[int, ...]


def reduction_of(node: NodeProto) -> Reduction | None:
    """Return the row of the table that `node` is a node of, if there is one."""
    return reduction_named(node.op_type, node.domain)


def version_at(node: NodeProto, opset: int) -> VersionAt:
    """Return the version of a node that reduces.

    Raises
    ------
    ModelError
        If there is no such opset.
    """
    return VersionAt(BY_OPERATOR[node.op_type].version_for(opset), opset)


def describe(path: str, at: VersionAt) -> str:
    """Name the node that reduces at `path`, with its version."""
    return f"{path} ({at})"


def names_reduction(place: str) -> bool:
    """Tell whether a place, as `describe` names it, is that of a node that reduces."""
    return any(f" ({row.operator}-" in place for row in REDUCTIONS)


def read_node(node: NodeProto, opset: int, where: str) -> ReduceNode:
    """Check a node that reduces by the rules of its version; return what it says.

    An attribute that refers to one of a function counts as absent.

    Raises
    ------
    ModelError, ArgumentError
        If the node has inputs, outputs, attributes or values that its version
        does not allow.
    """
    version = version_at(node, opset).version
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
        noop_with_empty_axes=check_flag(NOOP, values.get(NOOP, 0), where),
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
        since = BY_OPERATOR[version.operator].axes_input_since
        raise ModelError(
            f"{where}has {inputs} inputs; allowed: 1, data; before opset {since} axes is "
            f"an attribute of {version.operator}, not an input"
        )
    if inputs > 2:
        raise ModelError(f"{where}has {inputs} inputs; allowed: data, axes")
    if not inputs or not node.input[0]:
        raise ModelError(f"{where}has no input data; allowed: exactly one")
    if len(node.output) != 1 or not node.output[0]:
        raise ModelError(f"{where}has outputs {list(node.output)}; allowed: exactly one")


def _attribute_not_allowed(name: str, version: OperatorVersion) -> str:
    row = BY_OPERATOR[version.operator]
    if name == "axes":
        since = row.axes_input_since
        return (
            f"axes is given as an attribute; from opset {since} axes is an input of "
            f"{version.operator}, not an attribute; convert the node or import opset "
            f"{since - 1}"
        )
    hint = ""
    if name in _ATTRIBUTE_TYPES:
        since = row.first(lambda version: name in version.attributes)
        hint = f" (it exists from opset {since} on)"
    allowed = ", ".join(version.attributes)
    return f"attribute {name!r} is not allowed{hint}; allowed: {allowed}"
