"""Errors as findings of a report: which kind, and what to do."""

from __future__ import annotations

from halfulp.errors import ArgumentError, AxesError, HalfulpError, UnsupportedTypeError
from halfulp.onnx.check.facts import node_name
from halfulp.onnx.check.report import Finding
from halfulp.onnx.model.prepare import NO_IMPORT
from halfulp.spec.rules import OperatorVersion, version_for


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


def split_error(place: str, error: HalfulpError, opset: int | None) -> tuple[str, str]:
    """Return the node that `error` names, and what it says of it."""
    # Calls of functions come before the place.
    calls, _, message = str(error).rpartition(f"{place}: ")
    return calls + node_name(place, opset), message


def invalid_finding(place: str, error: HalfulpError, opset: int | None) -> Finding:
    """Return what is wrong with a node by the rules of ONNX for all nodes."""
    node, message = split_error(place, error, opset)
    fix = "Repair the node, or export the model again: runtimes refuse it too."
    if NO_IMPORT in message:
        fix = "Import the domain: add it to opset_import, with the version that is meant."
    return Finding(node, "error", "invalid-node", message, fix)


def error_finding(place: str, error: HalfulpError, opset: int | None) -> Finding:
    """Return what is wrong with a ReduceSumSquare of `opset`, or another node."""
    if opset is None:
        return invalid_finding(place, error, opset)
    node, message = split_error(place, error, opset)
    version = version_for(opset)
    if isinstance(error, UnsupportedTypeError):
        code = "element-type"
        fix = "Cast the data to an allowed type before the node."
        if version.since < 13 and "bfloat16" in message.partition(";")[0]:
            fix = "Raise the opset: halfulp convert MODEL --opset 13 -o OUT."
    elif isinstance(error, AxesError):
        code = "axes"
        fix = "Give axes from -rank to rank - 1 of the data"
        fix += ", as a 1-D tensor(int64)." if version.axes == "input" else "."
    elif isinstance(error, ArgumentError):
        code, fix = "attribute-value", "Set the attribute to 0 or 1."
    else:
        code, fix = "node-form", _form(version)
    return Finding(node, "error", code, message, fix)


def _form(version: OperatorVersion) -> str:
    inputs = "data and axes" if version.axes == "input" else "data"
    attributes = " and ".join(version.attributes)
    return (
        f"Write the node as {version} has it: inputs {inputs}, attributes {attributes}."
    )
