"""ONNX's own node tests of the operator."""

from __future__ import annotations

import unittest
import warnings
from typing import Any

import onnx.backend.test

KINDS = [
    f"{axes}keepdims_{values}"
    for axes in ("default_axes_", "do_not_", "", "negative_axes_")
    for values in ("example", "random")
]


NODE_TESTS = [
    f"test_reduce_sum_square_{kind}{expanded}_cpu"
    for kind in [*KINDS, "empty_set"]
    for expanded in ("", "_expanded")
]


def node_tests_of(backend: Any, module: str) -> type[unittest.TestCase]:
    """The tests, of a backend or a module like one, as methods."""
    with warnings.catch_warnings():
        # Making the data of other operators, onnx overflows here and there.
        warnings.simplefilter("ignore")
        runner = onnx.backend.test.BackendTest(backend, module)
    runner.include("test_reduce_sum_square.*_cpu")
    return runner.test_cases["OnnxBackendNodeModelTest"]
