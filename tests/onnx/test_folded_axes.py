"""Axes that nodes compute from constants alone are as well known as constants."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
import pytest

import halfulp
from halfulp.onnx import check_model, convert_opset, fuse, infer_shapes, run_model
from onnx_models import function, model
from oracle import assert_same_bits

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
# How exporters write the axes [0, -1].
FORMS = {
    "reshape": "p = Constant<value_ints = [0, -1]>() q = Constant<value_ints = [-1]>()"
    "a = Reshape(p, q)",
    "cast": "p = Cast<to = 6>(c) a = Cast<to = 7>(p)",
    "identity": "a = Identity(c)",
    "concat": "p = Constant<value_ints = [0]>() q = Constant<value_ints = [-1]>()"
    "a = Concat<axis = 0>(p, q)",
    "unsqueeze": "i = Constant<value_int = 0>() z = Constant<value_ints = [0]>()"
    "p = Unsqueeze(i, z) j = Constant<value_int = -1>() q = Unsqueeze(j, z)"
    "a = Concat<axis = 0>(p, q)",
    "squeeze": "z = Constant<value_ints = [1]>() p = Unsqueeze(c, z) a = Squeeze(p, z)",
}
CONSTANT = "<int64[2] c = {0, -1}>"

each_form = pytest.mark.parametrize("form", FORMS)
each_operator = pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMean"])


def made(form: str, operator: str = "ReduceMean", opset: int = 18) -> onnx.ModelProto:
    text = f"{FORMS[form]} r = {operator}<keepdims = 0>(x, a) y = Relu(r)"
    return model(f"(float[2,N,4] x) => (float[M] y) {CONSTANT} {{ {text} }}", opset=opset)


@each_operator
@each_form
def test_they_become_an_attribute_in_older_opsets(form: str, operator: str) -> None:
    proto = made(form, operator)
    wanted = run_model(proto, {"x": X})["y"]
    assert wanted.shape == (3,)
    for opset in (17, 13, 11):
        result = convert_opset(proto, opset)
        onnx.checker.check_model(result, full_check=True)
        assert_same_bits(run_model(result, {"x": X})["y"], wanted)
        if opset < 13:
            # What computed them is gone with them.
            assert [node.op_type for node in result.graph.node] == [operator, "Relu"]
            assert bool(result.graph.initializer) == ("(c" not in FORMS[form])


@each_operator
@each_form
def test_check_and_shapes_know_them(form: str, operator: str) -> None:
    proto = made(form, operator)
    (node,) = check_model(proto).nodes
    assert (node.axes, node.output_shape) == ((0, -1), ("N",))
    assert check_model(proto).findings == ()
    result = infer_shapes(proto)
    (value,) = (v for v in result.graph.value_info if v.name == "r")
    assert [dim.dim_param for dim in value.type.tensor_type.shape.dim] == ["N"]
    assert result.graph.node == proto.graph.node


@each_form
def test_nodes_are_fused_where_axes_are_an_attribute(form: str) -> None:
    text = f"{FORMS[form]} s = Mul(x, x) y = ReduceSum(s, a)"
    proto = model(f"(float[2,N,4] x) => (y) {CONSTANT} {{ {text} }}", opset=13)
    result, report = fuse(proto)
    assert report.done == 1
    assert_same_bits(run_model(result, {"x": X})["y"], run_model(proto, {"x": X})["y"])


def test_they_are_known_in_nested_graphs_and_functions() -> None:
    proto = model(
        f"(float[2,3,4] x, bool b) => (y) {CONSTANT} {{ y = If (b) <"
        f"then_branch = t () => (u) {{ {FORMS['identity']} u = ReduceMean(x, a) }},"
        "else_branch = e () => (v) { v = f.mean(x) }> }",
        function(
            f"{FORMS['reshape']} r = ReduceMean(k, a)", head="mean (k) => (r)", opset=18
        ),
    )
    result = convert_opset(proto, 13)
    for b in (True, False):
        feeds = {"x": X, "b": b}
        assert_same_bits(run_model(result, feeds)["y"], run_model(proto, feeds)["y"])


def test_a_default_that_a_caller_may_override_is_no_constant() -> None:
    text = "a = Identity(c) s = Mul(x, x) y = ReduceSum(s, a)"
    proto = model(f"(float[2,3,4] x, int64[1] c) => (y) {{ {text} }}", opset=13)
    default = onnx.numpy_helper.from_array(np.array([1]), "c")
    proto.graph.initializer.append(default)
    assert check_model(proto).nodes[0].axes is None
    with pytest.raises(halfulp.ModelError, match="axes are known only when the model"):
        convert_opset(proto, 11)
    assert fuse(proto)[1].done == 0
    # Nor is a name of an outer graph that is another value inside.
    proto = model(
        f"(float[2,3,4] x, int64 n, bool g) => (y) {CONSTANT} {{ y = Loop(n, g) <"
        "body = l (int64 c, bool h) => (k, u) { k = Identity(h) z = Identity(c)"
        "o = Constant<value_ints = [1]>() a = Reshape(z, o) u = ReduceMean(x, a) }> }"
    )
    assert check_model(proto).nodes[0].axes is None
    got = run_model(proto, {"x": X, "n": 1, "g": True})["y"]
    assert got.shape == (1, 1, 3, 4)


WRONG = [
    "z = Constant<value_ints = [5, 5]>() a = Reshape(c, z)",
    "z = Constant<value_ints = [0]>() a = Reshape(c, z)",
    "z = Constant<value_ints = [-1, -1]>() a = Reshape(c, z)",
    "z = Constant<value_ints = [9]>() p = Unsqueeze(c, z) a = Identity(p)",
    "z = Constant<value_ints = [0]>() a = Squeeze(c, z)",
    "a = Concat<axis = 7>(c, c)",
    "a = Cast<to = 1>(c)",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_does_not_fit_is_not_known_or_an_error_of_the_family(text: str) -> None:
    proto = model(f"(float[2,3,4] x) => (y) {CONSTANT} {{ {text} y = ReduceMean(x, a) }}")
    for use in (check_model, infer_shapes, fuse, lambda m: convert_opset(m, 13)):
        with contextlib.suppress(halfulp.HalfulpError):
            use(proto)
