"""Parts of ONNX that runtimes take, though onnx's own tools trip over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto
from onnx.helper import make_node, make_opsetid, make_sparse_tensor, make_tensor

from halfulp import ModelError
from halfulp.onnx import (
    check_model,
    convert_opset,
    expand,
    fuse,
    infer_shapes,
    run_model,
)
from onnx_models import DATA, function, model

onnxruntime = pytest.importorskip("onnxruntime")

REWRITES: dict[str, Callable[[Any], ModelProto]] = {
    "convert": lambda m: convert_opset(m, 13),
    "fuse": lambda m: fuse(m)[0],
    "expand": lambda m: expand(m)[0],
    "infer_shapes": infer_shapes,
}


def results_of_onnxruntime(proto: ModelProto, feeds: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def with_sparse(text: str, indices: Any, nested: bool = False) -> ModelProto:
    """A model with a sparse w of [0, 3, 0, 0, 4, 0] as [2, 3]."""
    proto = model(text)
    places = np.array(indices, np.int64)
    sparse = make_sparse_tensor(
        make_tensor("w", onnx.TensorProto.FLOAT, [2], [3.0, 4.0]),
        onnx.numpy_helper.from_array(places),
        [2, 3],
    )
    graph = proto.graph
    if nested:
        graph = next(node for node in graph.node if node.op_type == "If").attribute[0].g
    graph.sparse_initializer.append(sparse)
    return proto


SPARSE = "(float[2,3] x) => (float[1,1] y) { s = Add(x, w) y = ReduceSumSquare(s) }"
SPARSE_NESTED = """(float[2,3] x, bool c) => (float[1,1] y) { y = If (c) <
    then_branch = t () => (float[1,1] p) { s = Add(x, w) p = ReduceSumSquare(s) },
    else_branch = e () => (float[1,1] q) { q = ReduceSumSquare(x) }> }"""


@pytest.mark.parametrize("indices", [[1, 4], [[0, 1], [1, 1]]])
@pytest.mark.parametrize("text", [SPARSE, SPARSE_NESTED])
def test_sparse_initializers_are_dense_where_a_model_runs(
    text: str, indices: Any
) -> None:
    proto = with_sparse(text, indices, nested=text is SPARSE_NESTED)
    feeds: dict[str, Any] = {"x": DATA}
    if text is SPARSE_NESTED:
        feeds["c"] = np.array(True)
    want = np.sum((DATA + np.float32([[0, 3, 0], [0, 4, 0]])) ** 2)
    assert run_model(proto, feeds)["y"].item() == want
    if text is SPARSE and isinstance(indices[0], int):
        assert results_of_onnxruntime(proto, feeds)[0].item() == want
    assert check_model(proto).errors == 0
    for name, rewrite in REWRITES.items():
        assert run_model(rewrite(proto), feeds)["y"].item() == want, name


def test_sparse_axes_are_known() -> None:
    proto = model("(float[2,3] x) => (y) { y = ReduceSumSquare(x, w) }")
    sparse = make_sparse_tensor(
        make_tensor("w", onnx.TensorProto.INT64, [1], [1]),
        make_tensor("", onnx.TensorProto.INT64, [1], [0]),
        [1],
    )
    proto.graph.sparse_initializer.append(sparse)
    assert check_model(proto).nodes[0].axes == (1,)


@pytest.mark.parametrize("indices", [[1, 6], [1, -1], [1], [[0, 1], [1, 3]]])
def test_broken_sparse_initializers_are_refused(indices: Any) -> None:
    with pytest.raises(ModelError, match="'w'"):
        run_model(with_sparse(SPARSE, indices), {"x": DATA})


def test_a_huge_sparse_initializer_is_not_made_dense_to_look_at() -> None:
    proto = with_sparse(SPARSE, [1, 4])
    proto.graph.sparse_initializer[0].dims[:] = [1 << 31, 1 << 31]
    check_model(proto)
    with pytest.raises(ModelError, match="allowed: up to 2147483647 bytes"):
        run_model(proto, {"x": DATA})


UNSORTED = {
    "graph": model(
        "(float[2,3] x) => (float[1,1] y) { y = Sqrt(s) s = ReduceSumSquare(x) }"
    ),
    "captured": model(
        """(float[2,3] x, bool c) => (float[1,1] y) { y = If (c) <
        then_branch = t () => (float[1,1] p) { p = Sqrt(s) },
        else_branch = e () => (float[1,1] q) { q = Abs(s) }> s = ReduceSumSquare(x) }"""
    ),
}


@pytest.mark.parametrize("case", UNSORTED)
def test_nodes_out_of_order_are_sorted(case: str) -> None:
    proto = UNSORTED[case]
    feeds: dict[str, Any] = {"x": DATA}
    if len(proto.graph.input) == 2:
        feeds["c"] = np.array(True)
    want = np.sqrt(np.float32(55))
    before = proto.SerializeToString()
    assert run_model(proto, feeds)["y"].item() == want
    assert results_of_onnxruntime(proto, feeds)[0].item() == want
    report = check_model(proto)
    assert report.errors == 0
    assert [f.code for f in report.findings if f.code == "unsorted-nodes"]
    for name, rewrite in REWRITES.items():
        rewritten = rewrite(proto)
        assert run_model(rewritten, feeds)["y"].item() == want, name
        codes = [finding.code for finding in check_model(rewritten).findings]
        assert "unsorted-nodes" not in codes
    assert proto.SerializeToString() == before


def test_sorting_changes_no_more_than_it_must() -> None:
    proto = model("(x) => (d) { a = Abs(x) d = Add(c, b) b = Neg(x) c = Abs(b) }")
    sorted_ = fuse(proto)[0]
    assert [node.output[0] for node in sorted_.graph.node] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("text", "functions"),
    [
        (
            """(float[2,3] x, bool c) => (float[1,1] y) { y = If (c) <
            then_branch = t () => (float[1,1] p) { p = Sqrt(s) s = ReduceSumSquare(x) },
            else_branch = e () => (float[1,1] q) { q = ReduceSumSquare(x) }> }""",
            [],
        ),
        (
            "(float[2,3] x) => (float[1,1] y) { y = f.sq(x) }",
            [function("b = Sqrt(s) s = ReduceSumSquare(a)", head="sq (a) => (b)")],
        ),
    ],
)
def test_what_no_runtime_sorts_stays_wrong(text: str, functions: list[str]) -> None:
    proto = model(text, *functions)
    with pytest.raises(Exception, match=r"sorted|have type"):
        results_of_onnxruntime(proto, {})
    (finding,) = check_model(proto).findings
    assert (finding.severity, finding.code) == ("error", "invalid-node")
    with pytest.raises(ModelError, match="'s' is not defined before the node"):
        fuse(proto)


def test_a_circle_is_told() -> None:
    proto = model("(float[2,3] x) => (y) { y = Add(x, z) z = Abs(y) }")
    assert [f.code for f in check_model(proto).findings] == ["invalid-node"]
    with pytest.raises(ModelError, match="'z' is not defined before the node"):
        run_model(proto, {"x": DATA})


@pytest.mark.parametrize("version", [1, 2])
def test_models_from_before_opset_imports_mean_opset_1(version: int) -> None:
    proto = model("(float[2,3] x) => (float[2,1] y) { y = ReduceSumSquare<axes=[1]>(x) }")
    proto.ir_version = version
    del proto.opset_import[:]
    want = np.sum(DATA**2, axis=1, keepdims=True)
    assert np.array_equal(run_model(proto, {"x": DATA})["y"], want)
    assert check_model(proto).nodes[0].opset == 1
    converted = convert_opset(proto, 18)
    assert converted.opset_import[0].version == 18
    assert converted.ir_version >= 8
    onnx.checker.check_model(converted)
    assert np.array_equal(run_model(converted, {"x": DATA})["y"], want)


def test_a_domain_without_import_is_told_once() -> None:
    proto = model("(float[2,3] x) => (y) { y = ReduceSumSquare(x) }")
    for i in range(3):
        node = make_node("Gelu", ["x"], [f"g{i}"], domain="com.microsoft")
        proto.graph.node.append(node)
    (finding,) = check_model(proto).findings
    assert (finding.severity, finding.code) == ("error", "invalid-node")
    assert "'com.microsoft' has no opset import" in finding.message
    assert "opset_import" in finding.fix
    for rewrite in REWRITES.values():
        with pytest.raises(ModelError, match=r"'com.microsoft' has no opset"):
            rewrite(proto)
    proto.opset_import.append(make_opsetid("com.microsoft", 1))
    assert check_model(proto).errors == 0


def test_a_default_of_another_type_than_its_input_is_refused() -> None:
    proto = model("(float[2,3] x, bool c) => (y) { y = ReduceSumSquare(x) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0), "c"))
    with pytest.raises(ModelError, match=r"'c' has a default of type int64; allowed: b"):
        check_model(proto)
