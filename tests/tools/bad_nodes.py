"""Nodes that break a rule of their version, and what the error must say."""

from __future__ import annotations

from halfulp import (
    ArgumentError,
    AxesError,
    HalfulpError,
    ModelError,
)

Bad = tuple[str, int, type[HalfulpError], list[str]]


def bad_nodes(name: str, since: int, before: int) -> dict[str, Bad]:
    """Nodes of an operator whose axes are an input since a version; that before it."""
    return {
        "axes attribute where they are an input": (
            f"{name}<axes=[1]>(i)",
            since,
            ModelError,
            [f"opset {since}", "input", "not an attribute"],
        ),
        "axes input where they are an attribute": (
            f"{name}(i, a)",
            since - 1,
            ModelError,
            [
                f"{name}-{before}",
                "has 2 inputs",
                f"before opset {since} axes is an attribute",
            ],
        ),
        "three inputs": (
            f"{name}(i, a, a)",
            since,
            ModelError,
            ["has 3 inputs", "allowed: data, axes"],
        ),
        "no inputs": (f"{name}()", since, ModelError, ["has no input data"]),
        "data left out": (f"{name}( , a)", since, ModelError, ["has no input data"]),
        "noop_with_empty_axes before it exists": (
            f"{name}<noop_with_empty_axes=0>(i)",
            since - 1,
            ModelError,
            ["noop_with_empty_axes", f"from opset {since} on", "allowed: axes, keepdims"],
        ),
        "unknown attribute": (
            f"{name}<keepdim=0>(i)",
            since,
            ModelError,
            ["'keepdim'", "allowed: keepdims, noop_with_empty_axes"],
        ),
        "keepdims twice": (
            f"{name}<keepdims=0, keepdims=0>(i)",
            since,
            ModelError,
            ["keepdims is given twice"],
        ),
        "keepdims as float": (
            f"{name}<keepdims=0.0>(i)",
            since,
            ModelError,
            ["keepdims has type FLOAT", "allowed: INT"],
        ),
        "axes as one integer": (
            f"{name}<axes=1>(i)",
            since - 1,
            ModelError,
            ["axes has type INT;", "allowed: INTS"],
        ),
        "keepdims 2": (
            f"{name}<keepdims=2>(i)",
            1,
            ArgumentError,
            ["keepdims is 2", "allowed: 0 or 1", f"{name}-1,"],
        ),
        "noop_with_empty_axes -1": (
            f"{name}<noop_with_empty_axes=-1>(i)",
            21,
            ArgumentError,
            ["noop_with_empty_axes is -1", "allowed: 0 or 1", "opset 21"],
        ),
        "axes attribute out of range": (
            f"{name}<axes=[0, 2]>(i)",
            11,
            AxesError,
            ["axis 2 is out of range for rank 2", "allowed: [-2, 1]"],
        ),
        "axes of a constant out of range": (
            f"{name}(i, far)",
            since,
            AxesError,
            ["axis -3 is out of range for rank 2", "allowed: [-2, 1]"],
        ),
        "axes of type int32": (
            f"{name}(i, short)",
            since,
            AxesError,
            ["axes is a tensor(int32) of rank 1", "allowed: a 1-D tensor(int64)"],
        ),
        "axes of rank 0": (
            f"{name}(i, scalar)",
            since,
            AxesError,
            ["axes is a tensor(int64) of rank 0", "allowed: a 1-D tensor(int64)"],
        ),
        "axes computed, of float": (
            f"{name}(i, i)",
            since,
            AxesError,
            ["axes is a tensor(float) of rank 2"],
        ),
        "opset 0": (f"{name}(i)", 0, ModelError, ["opset 0", "allowed: 1 and later"]),
    }


NODES: dict[str, Bad] = {
    f"{name}: {case}": node
    for name, since, before in (
        ("ReduceSumSquare", 18, 13),
        ("ReduceSum", 13, 11),
        ("ReduceMean", 18, 13),
        ("ReduceL1", 18, 13),
        ("ReduceL2", 18, 13),
    )
    for case, node in bad_nodes(name, since, before).items()
}
