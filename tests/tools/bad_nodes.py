"""Nodes that break a rule of their version, and what the error must say."""

from __future__ import annotations

from halfulp import (
    ArgumentError,
    AxesError,
    ModelError,
)

NODES = {
    "axes attribute at 18": (
        "ReduceSumSquare<axes=[1]>(i)",
        18,
        ModelError,
        ["opset 18", "input", "not an attribute"],
    ),
    "axes input before 18": (
        "ReduceSumSquare(i, a)",
        17,
        ModelError,
        ["ReduceSumSquare-13", "has 2 inputs", "before opset 18 axes is an attribute"],
    ),
    "three inputs": (
        "ReduceSumSquare(i, a, a)",
        18,
        ModelError,
        ["has 3 inputs", "allowed: data, axes"],
    ),
    "no inputs": ("ReduceSumSquare()", 18, ModelError, ["has no input data"]),
    "data left out": ("ReduceSumSquare( , a)", 18, ModelError, ["has no input data"]),
    "noop_with_empty_axes before 18": (
        "ReduceSumSquare<noop_with_empty_axes=0>(i)",
        13,
        ModelError,
        ["noop_with_empty_axes", "from opset 18 on", "allowed: axes, keepdims"],
    ),
    "unknown attribute": (
        "ReduceSumSquare<keepdim=0>(i)",
        18,
        ModelError,
        ["'keepdim'", "allowed: keepdims, noop_with_empty_axes"],
    ),
    "keepdims twice": (
        "ReduceSumSquare<keepdims=0, keepdims=0>(i)",
        18,
        ModelError,
        ["keepdims is given twice"],
    ),
    "keepdims as float": (
        "ReduceSumSquare<keepdims=0.0>(i)",
        18,
        ModelError,
        ["keepdims has type FLOAT", "allowed: INT"],
    ),
    "axes as one integer": (
        "ReduceSumSquare<axes=1>(i)",
        13,
        ModelError,
        ["axes has type INT;", "allowed: INTS"],
    ),
    "keepdims 2": (
        "ReduceSumSquare<keepdims=2>(i)",
        1,
        ArgumentError,
        ["keepdims is 2", "allowed: 0 or 1", "ReduceSumSquare-1,"],
    ),
    "noop_with_empty_axes -1": (
        "ReduceSumSquare<noop_with_empty_axes=-1>(i)",
        21,
        ArgumentError,
        ["noop_with_empty_axes is -1", "allowed: 0 or 1", "opset 21"],
    ),
    "axes attribute out of range": (
        "ReduceSumSquare<axes=[0, 2]>(i)",
        11,
        AxesError,
        ["axis 2 is out of range for rank 2", "allowed: [-2, 1]"],
    ),
    "axes of a constant out of range": (
        "ReduceSumSquare(i, far)",
        18,
        AxesError,
        ["axis -3 is out of range for rank 2", "allowed: [-2, 1]"],
    ),
    "axes of type int32": (
        "ReduceSumSquare(i, short)",
        18,
        AxesError,
        ["axes is a tensor(int32) of rank 1", "allowed: a 1-D tensor(int64)"],
    ),
    "axes of rank 0": (
        "ReduceSumSquare(i, scalar)",
        18,
        AxesError,
        ["axes is a tensor(int64) of rank 0", "allowed: a 1-D tensor(int64)"],
    ),
    "axes computed, of float": (
        "ReduceSumSquare(i, i)",
        18,
        AxesError,
        ["axes is a tensor(float) of rank 2"],
    ),
    "opset 0": ("ReduceSumSquare(i)", 0, ModelError, ["opset 0", "allowed: 1 and later"]),
}
