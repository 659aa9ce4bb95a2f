"""Errors as findings of a report: which kind, and what to do."""

from __future__ import annotations

from halfulp.errors import ArgumentError, AxesError, HalfulpError, UnsupportedTypeError
from halfulp.onnx.check.facts import node_name
from halfulp.onnx.check.report import Finding
from halfulp.onnx.model.prepare import NO_IMPORT
from halfulp.onnx.model.reduce_nodes import VersionAt
from halfulp.reductions import BY_OPERATOR, OperatorVersion


def unsorted_finding(node: str) -> Finding:
    """Return the warning that `node` comes too early."""
    return Finding(
        node,
        "warning",
        "unsorted-nodes",
        "it reads what only later nodes give, which ONNX's own checker refuses; here and "
        "in ONNX Runtime nodes are sorted",
        "Write the nodes in order: halfulp fuse, expand and convert do.",
    )


def more_errors_finding(most: int) -> Finding:
    """Return the error that there may be more than `most`."""
    return Finding(
        "other nodes",
        "error",
        "invalid-node",
        f"{most} nodes are wrong, and perhaps more that are not listed",
        "Repair the first.",
    )


def split_error(place: str, error: HalfulpError, at: VersionAt | None) -> tuple[str, str]:
    """Return the node that `error` names, and what it says of it."""
    # Calls of functions come before the place.
    calls, _, message = str(error).rpartition(f"{place}: ")
    return calls + node_name(place, at), message


def invalid_finding(place: str, error: HalfulpError, at: VersionAt | None) -> Finding:
    """Return what is wrong with a node by the rules of ONNX for all nodes."""
    node, message = split_error(place, error, at)
    fix = "Repair the node, or export the model again: runtimes refuse it too."
    if NO_IMPORT in message:
        fix = "Import the domain: add it to opset_import, with the version that is meant."
    return Finding(node, "error", "invalid-node", message, fix)


def error_finding(place: str, error: HalfulpError, at: VersionAt | None) -> Finding:
    """Return what is wrong with a node that reduces, or another one."""
    if at is None:
        return invalid_finding(place, error, at)
    node, message = split_error(place, error, at)
    version = at.version
    if isinstance(error, UnsupportedTypeError):
        code = "element-type"
        fix = "Cast the data to an allowed type before the node."
        row = BY_OPERATOR[version.operator]
        for name in {*row.newest.types} - {*version.types}:
            if f"type {name}," in message:
                fix = raise_opset(row.type_since(name))
    elif isinstance(error, AxesError):
        code = "axes"
        fix = "Give axes from -rank to rank - 1 of the data"
        fix += ", as a 1-D tensor(int64)." if version.axes == "input" else "."
    elif isinstance(error, ArgumentError):
        code, fix = "attribute-value", "Set the attribute to 0 or 1."
    else:
        code, fix = "node-form", _form(version)
    return Finding(node, "error", code, message, fix)


def raise_opset(opset: int) -> str:
    """Return the advice to do so."""
    return f"Raise the opset: halfulp convert MODEL --opset {opset} -o OUT."


def _form(version: OperatorVersion) -> str:
    inputs = "data and axes" if version.axes == "input" else "data"
    attributes = " and ".join(version.attributes)
    return (
        f"Write the node as {version} has it: inputs {inputs}, attributes {attributes}."
    )
