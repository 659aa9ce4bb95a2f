"""ONNX's own node tests of the operators that reduce."""

from __future__ import annotations

import unittest
import warnings
from typing import Any

import onnx.backend.test

# By the name of a reduction: how its tests call kept dimensions, whether there are tests
# of the function body, and those with a name of their own.
_NAMES = {
    "sum_square": ("keepdims", True, ["empty_set"]),
    "sum": (
        "keepdims",
        False,
        [
            "empty_axes_input_noop",
            "empty_axes_input_noop_example",
            "empty_set",
            "empty_set_non_reduced_axis_zero",
        ],
    ),
    "mean": ("keepdims", False, []),
    "l1": ("keep_dims", True, ["empty_set"]),
    "l2": ("keep_dims", True, ["empty_set"]),
}


def _kinds(keep: str) -> list[str]:
    """The tests that each has; some call kept dimensions otherwise."""
    axes = ("default_axes_keepdims", "do_not_keepdims", keep, f"negative_axes_{keep}")
    return [f"{each}_{values}" for each in axes for values in ("example", "random")]


NODE_TESTS = [
    f"test_reduce_{name}_{kind}{expanded}_cpu"
    for name, (keep, has_body, others) in _NAMES.items()
    for kind in [*_kinds(keep), *others]
    for expanded in ("", "_expanded")[: 1 + has_body]
]
PATTERN = f"test_reduce_({'|'.join(_NAMES)})_.*_cpu"


def node_tests_of(backend: Any, module: str) -> type[unittest.TestCase]:
    """The tests, of a backend or a module like one, as methods."""
    with warnings.catch_warnings():
        # Making the data of other operators, onnx overflows here and there.
        warnings.simplefilter("ignore")
        runner = onnx.backend.test.BackendTest(backend, module)
    runner.include(PATTERN)
    return runner.test_cases["OnnxBackendNodeModelTest"]
