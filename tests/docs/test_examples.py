"""The example models give what is stored beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import halfulp
from examples import EXAMPLES, INPUTS
from halfulp.onnx.model.nodes import walk
from oracle import assert_same_bits, expected


def _feeds(name: str) -> dict[str, Any]:
    return {"X": np.load(EXAMPLES / INPUTS[name])}


def test_every_model_is_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.onnx")} == set(INPUTS)


@pytest.mark.parametrize("name", INPUTS)
def test_labels_are_those_of_scikit_learn_and_values_near_them(name: str) -> None:
    outputs = halfulp.onnx.run_model(EXAMPLES / f"{name}.onnx", _feeds(name))
    stored = np.load(EXAMPLES / f"{name}.expected.npz")
    assert set(outputs) == set(stored)
    for key, value in outputs.items():
        if value.dtype.kind == "i":
            assert_same_bits(value, stored[key])
            continue
        # Other operators round too, and scikit-learn computes in another order: 100
        # epsilons of the largest magnitude, as in examples/make_models.py.
        assert (value.dtype, value.shape) == (stored[key].dtype, stored[key].shape)
        largest = np.abs(stored[key]).max()
        limit = 100 * np.finfo(value.dtype).eps * largest
        assert np.abs(value.astype(float) - stored[key]).max() <= limit


@pytest.mark.parametrize("name", INPUTS)
def test_every_reduce_sum_square_of_the_graph_is_correctly_rounded(name: str) -> None:
    model = onnx.load(EXAMPLES / f"{name}.onnx")
    evaluator = ReferenceEvaluator(model, new_ops=[halfulp.onnx.ReduceSumSquare])
    values = evaluator.run(None, _feeds(name), intermediate=True)
    nodes = [n for _, n in walk(model.graph.node) if n.op_type == "ReduceSumSquare"]
    assert nodes
    for node in nodes:
        if node.output[0] not in values:
            assert name == "gaussian_process_opset18"  # it stands in a Scan body
            continue
        assert_same_bits(
            values[node.output[0]], expected(values[node.input[0]], 1, keepdims=True)
        )
