"""Reductions as operators of onnx's own ReferenceEvaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from halfulp import ArgumentError, AxesError, ModelError, UnsupportedTypeError
from halfulp.onnx import ReduceSumSquare, new_ops
from halfulp.reductions import REDUCTIONS, Reduction
from onnx_models import DATA, WITNESS, function, model, reduce_model
from oracle import assert_same_bits, expected


def run(proto: Any, feeds: dict[str, Any]) -> list[Any]:
    return ReferenceEvaluator(proto, new_ops=new_ops()).run(None, feeds)


def test_in_a_nested_graph() -> None:
    proto = model(
        """(float[2,3] x, bool c) => (y) { y = If (c) <
            then_branch = t () => (o) { o = ReduceSumSquare(x) },
            else_branch = e () => (p) { p = Identity(x) } > }"""
    )
    assert run(proto, {"x": WITNESS, "c": np.array(True)})[0] == 2 * 16777218


def test_a_node_by_itself() -> None:
    result = ReduceSumSquare.eval(WITNESS, np.array([1]), keepdims=0)
    assert_same_bits(result, expected(WITNESS, 1))
    with pytest.raises(ModelError, match="not an attribute"):
        ReduceSumSquare.eval(WITNESS, axes=[1])


class Evaluator(ReferenceEvaluator):
    """An evaluator that has the operator in functions too, which onnx's has not."""

    def __init__(self, proto: Any, **options: Any) -> None:
        super().__init__(proto, **{**options, "new_ops": [ReduceSumSquare]})


def test_attributes_of_a_function() -> None:
    square = function(
        "b = ReduceSumSquare<axes : ints = @a, keepdims : int = @k>(a)",
        head="sq <a, k> (a) => (b)",
    )
    text = "(float[2,3] x) => (y) { y = f.sq<a=[1], k=0>(x) }"
    result = Evaluator(model(text, square)).run(None, {"x": WITNESS})[0]
    assert_same_bits(result, expected(WITNESS, 1))
    evaluator = Evaluator(model(text.replace("k=0", "k=2"), square))
    with pytest.raises(ArgumentError, match=r"ReduceSumSquare-13.*keepdims is 2"):
        evaluator.run(None, {"x": WITNESS})


def test_a_node_that_breaks_its_rules_is_refused_with_the_evaluator() -> None:
    proto, _ = reduce_model(DATA, axes=[1], axes_form="attr")
    with pytest.raises(ModelError, match=r"node \(output 'reduced'\).*not an attribute"):
        ReferenceEvaluator(proto, new_ops=[ReduceSumSquare])


@pytest.mark.parametrize(
    ("feeds", "error", "words"),
    [
        ({"data": DATA.astype(np.int16)}, UnsupportedTypeError, "data has type int16"),
        ({"data": [DATA]}, UnsupportedTypeError, "data is a list"),
        ({"axes": np.array([2])}, AxesError, "axis 2 is out of range for rank 2"),
        ({"axes": np.array(1)}, AxesError, r"tensor\(int64\) of rank 0"),
        ({"axes": np.array([1], "i4")}, AxesError, r"tensor\(int32\) of rank 1"),
    ],
)
@pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)
def test_errors_at_run_time(
    row: Reduction, feeds: dict[str, Any], error: type[Exception], words: str
) -> None:
    proto, good = reduce_model(DATA, operator=row.operator, axes=[1], axes_form="input")
    proto.graph.node[0].name = "rss"
    place = rf"node 'rss' \({row.version_for(18)}, opset 18\): "
    with pytest.raises(error, match=place + ".*" + words):
        run(proto, good | feeds)
