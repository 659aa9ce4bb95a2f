"""halfulp.onnx.backend is an ONNX backend, and passes ONNX's own node tests."""

from __future__ import annotations

import re
import unittest

import numpy as np
import onnx
import onnx.backend.test
import pytest

import halfulp.onnx.backend
from halfulp import ArgumentError, HalfulpError, ModelError
from halfulp.onnx import backend
from node_tests import NODE_TESTS, PATTERN, node_tests_of
from onnx_models import DATA, model, reduce_model

# The names are given, as making them takes onnx seconds: all its tests with their data.


@pytest.fixture(scope="module")
def node_tests() -> type[unittest.TestCase]:
    return node_tests_of(halfulp.onnx.backend, __name__)


def test_these_are_the_node_tests(node_tests: type[unittest.TestCase]) -> None:
    names = [name for name in dir(node_tests) if re.fullmatch(PATTERN, name)]
    assert names == sorted(NODE_TESTS)


@pytest.mark.parametrize("name", NODE_TESTS)
def test_node_test_of_onnx(name: str, node_tests: type[unittest.TestCase]) -> None:
    getattr(node_tests(name), name)()


def test_a_prepared_model_runs_any_number_of_times() -> None:
    proto, _ = reduce_model(DATA, axes=[1], axes_form="input", keepdims=0)
    rep = backend.prepare(proto)
    for inputs in ([DATA, [1]], (DATA, np.array([1])), {"data": DATA, "axes": [1]}):
        outputs = rep.run(inputs)
        assert isinstance(outputs, tuple)
        assert outputs[0].tolist() == [5, 50]


def test_inputs_with_defaults_may_be_left_out() -> None:
    proto, _ = reduce_model(DATA, axes=[1], axes_form="default", keepdims=0)
    rep = backend.prepare(proto)
    assert rep.run([DATA])[0].tolist() == [5, 50]
    assert rep.run([DATA, [0]])[0].tolist() == [9, 17, 29]
    for count in (0, 3):
        with pytest.raises(ArgumentError, match=f"{count} inputs are given; allowed: 1"):
            rep.run([DATA] * count)


def test_run_model() -> None:
    proto, _ = reduce_model(DATA)
    assert backend.run_model(proto, [DATA])[0].tolist() == [[55]]


def test_run_node() -> None:
    node = onnx.helper.make_node("ReduceSumSquare", ["x", "a"], ["y"], keepdims=0)
    info = [(np.dtype(np.float32), (2,))]
    result = backend.run_node(node, [DATA, np.array([1])], outputs_info=info)
    assert result[0].tolist() == [5, 50]
    node = onnx.helper.make_node("ReduceSumSquare", ["x", ""], ["y"], domain="ai.onnx")
    assert backend.run_node(node, {"x": DATA})[0].tolist() == [[55]]
    node = onnx.helper.make_node("ReduceSumSquare", ["x"], ["y"], axes=[1], keepdims=0)
    assert backend.run_node(node, [DATA], opset_version=13)[0].tolist() == [5, 50]
    with pytest.raises(ModelError, match="axes is given as an attribute"):
        backend.run_node(node, [DATA])


@pytest.mark.parametrize("device", ["CPU", "CPU:0"])
def test_the_cpu_is_supported(device: str) -> None:
    proto, _ = reduce_model(DATA)
    assert backend.supports_device(device)
    assert backend.is_compatible(proto, device)
    assert backend.prepare(proto, device).run([DATA])[0].tolist() == [[55]]


@pytest.mark.parametrize("device", ["CUDA", "CUDA:1", "TPU", "", "CPU:x"])
def test_other_devices_are_refused(device: str) -> None:
    proto, _ = reduce_model(DATA)
    assert not backend.supports_device(device)
    assert not backend.is_compatible(proto, device)
    with pytest.raises(ArgumentError, match="allowed: 'CPU'"):
        backend.prepare(proto, device)
    with pytest.raises(ArgumentError, match="allowed: 'CPU'"):
        backend.run_model(proto, [DATA], device)


def test_prepare_refuses_what_is_wrong_whatever_the_inputs() -> None:
    proto = model("(int8[N] x) => (y) { y = ReduceSumSquare(x) }")
    assert not backend.is_compatible(proto)
    with pytest.raises(HalfulpError, match="int8"):
        backend.prepare(proto)
