"""Shape inference: never wrong, and as exact as the operator's rules allow."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

import halfulp
from examples import EXAMPLES
from halfulp.onnx import infer_shape, infer_shapes, run_model
from onnx_models import function, model, reduce_model, report_model, reports
from seed import SEED

sizes = st.one_of(st.integers(0, 3), st.sampled_from(["N", "M"]), st.none())
shapes = st.lists(sizes, max_size=4).map(tuple)


# Operator, version, and whether axes are an input there.
VERSIONS = [
    *(("ReduceSum", since, since == 13) for since in (1, 11, 13)),
    *(
        (operator, since, since == 18)
        for operator in ("ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare")
        for since in (1, 11, 13, 18)
    ),
]


def subsets(rank: int) -> list[tuple[int, ...]]:
    axes = range(rank)
    return [s for n in range(rank + 1) for s in itertools.combinations(axes, n)]


def true_shape(
    shape: tuple[int, ...], axes: Any, keepdims: int, noop: int
) -> tuple[int, ...]:
    """What the operator itself gives."""
    result = halfulp.reduce_sum_square(
        np.zeros(shape, np.float32), axes, keepdims=keepdims, noop_with_empty_axes=noop
    )
    return result.shape


def dimensions(value: onnx.ValueInfoProto) -> tuple[Any, ...] | None:
    """The shape of a value: sizes, None where not known, None for no rank."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(
        d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim
    )


def inferred(proto: onnx.ModelProto) -> dict[str, tuple[Any, ...] | None]:
    """The shapes in the graph, by name, after inference."""
    graph = infer_shapes(proto).graph
    return {v.name: dimensions(v) for v in (*graph.value_info, *graph.output)}


@pytest.mark.parametrize("case", reports("infer"), ids=lambda case: case["id"])
def test_public_reports(case: dict[str, Any]) -> None:
    axes = "unknown" if case["axes_form"] == "input" else case["axes"]
    shape = tuple(case["data"]["shape"])
    got = infer_shape(shape, axes, case["keepdims"], case["noop_with_empty_axes"])
    assert str(got) == case["expect_text"]
    proto, _ = report_model(case)
    assert inferred(proto)["reduced"] == got


@pytest.mark.parametrize("shape", [(), (3,), (1, 2), (2, 0, 4), (1, 1, 1), (2, 3, 1, 4)])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("noop", [0, 1])
def test_known_axes_give_the_shape_of_the_result(
    shape: tuple[int, ...], keepdims: int, noop: int
) -> None:
    for axes in [None, *subsets(len(shape))]:
        want = true_shape(shape, axes, keepdims, noop)
        assert infer_shape(shape, axes, keepdims, noop) == want
        negative = None if axes is None else [a - len(shape) for a in axes] * 2
        assert infer_shape(list(shape), negative, keepdims, noop) == want


# Of rank 1 without noop, any axes give the same; the rules do not make use of that.
@pytest.mark.parametrize("shape", [(), (1,), (1, 2), (2, 0, 4), (1, 1, 1), (2, 3, 1, 4)])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("noop", [0, 1])
def test_unknown_axes_give_what_all_axes_have_in_common(
    shape: tuple[int, ...], keepdims: int, noop: int
) -> None:
    possible = {true_shape(shape, a, keepdims, noop) for a in subsets(len(shape))}
    want: Any = None
    if shape == (1,) and not keepdims:
        assert () in possible
    elif len({len(p) for p in possible}) == 1:
        columns = zip(*possible, strict=True)
        want = tuple(c[0] if len(set(c)) == 1 else None for c in columns)
    assert infer_shape(shape, "unknown", keepdims, noop) == want


@seed(SEED)
@given(shapes, st.data(), st.booleans(), st.booleans(), st.sampled_from(VERSIONS))
def test_agrees_with_onnx_where_axes_are_known(
    shape: tuple[Any, ...],
    data: Any,
    keepdims: bool,
    noop: bool,
    version: tuple[str, int, bool],
) -> None:
    """onnx is right where the axes are a constant and in range."""
    rank, (operator, opset, is_input) = len(shape), version
    noop = noop and is_input
    axis = st.integers(-rank, max(rank - 1, 0))
    axes = data.draw(st.lists(axis, max_size=3 if rank else 0))
    proto, _ = reduce_model(
        np.zeros((), np.float32),
        opset=opset,
        operator=operator,
        axes=axes,
        axes_form="const" if is_input else "attr",
        keepdims=int(keepdims),
        noop_with_empty_axes=int(noop) if is_input else None,
    )
    proto.graph.input[0].CopyFrom(
        onnx.helper.make_tensor_value_info("data", 1, list(shape))
    )
    theirs = onnx.shape_inference.infer_shapes(proto, strict_mode=True).graph.output[0]
    want = tuple(
        d.dim_value if d.HasField("dim_value") else d.dim_param
        for d in theirs.type.tensor_type.shape.dim
    )
    # onnx invents names for sizes that it does not know.
    want = tuple(None if str(size).startswith("unk__") else size for size in want)
    assert infer_shape(shape, axes, keepdims, noop, opset, operator=operator) == want
    ours = infer_shapes(proto).graph.output[0]
    assert ours == theirs


def test_symbols_and_unknown_sizes_pass() -> None:
    assert infer_shape(("N", None, 3), [2]) == ("N", None, 1)
    assert infer_shape(("N", None, 3), [-3], keepdims=0) == (None, 3)
    assert infer_shape(("N", 1, 3), "unknown") == (None, 1, None)
    assert infer_shape(("N",), "unknown", keepdims=0) is None
    assert infer_shape((), "unknown", keepdims=0) == ()


def test_a_rank_not_known_stays_so_unless_all_is_reduced() -> None:
    assert infer_shape(None) is None
    assert infer_shape(None, keepdims=0) == ()
    assert infer_shape(None, [], keepdims=0) == ()
    assert infer_shape(None, [7], keepdims=0) is None
    assert infer_shape(None, "unknown", keepdims=0) is None
    assert infer_shape(None, keepdims=0, noop_with_empty_axes=1) is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (((2, 3), [2]), halfulp.AxesError, "axis 2 is out of range for rank 2"),
        (((), [0]), halfulp.AxesError, "a scalar has no axes"),
        (((2,), ["N"]), halfulp.AxesError, "axis 'N' is not an integer"),
        (((2,), "unkown"), halfulp.AxesError, "axes is 'unkown'; allowed: a seq"),
        (((2,), 0), halfulp.AxesError, "axes is 0; .*; write .0."),
        (((2,), np.array(0)), halfulp.AxesError, "axes is .*; write .0."),
        ((2, [0]), halfulp.ArgumentError, "shape is 2; allowed: a sequence or None"),
        (((2,), None, 2), halfulp.ArgumentError, "keepdims is 2; allowed: 0 or 1"),
        (((2,), None, 1, 1, 13), halfulp.ArgumentError, "ReduceSumSquare-13 lacks"),
        (((-1,),), halfulp.ArgumentError, "a dimension is -1"),
        (((1.5,),), halfulp.ArgumentError, "a dimension is 1.5"),
        (((2,), None, 1, 0, 0), halfulp.ModelError, "opset 0 of domain ''"),
    ],
)
def test_bad_arguments(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message.replace("(", "\\(")):
        infer_shape(*arguments)


def test_the_operator_decides_which_opset_has_noop_with_empty_axes() -> None:
    shape = (2, "N")
    for operator in ("ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"):
        with pytest.raises(halfulp.ArgumentError, match=f"{operator}-13 lacks.*opset 18"):
            infer_shape(shape, None, 1, 1, 13, operator=operator)
        assert infer_shape(shape, None, 1, 1, 18, operator=operator) == shape
        assert infer_shape(shape, None, 1, 1, operator=operator) == shape
    assert infer_shape(shape, None, 1, 1, 13, operator="ReduceSum") == shape
    with pytest.raises(halfulp.ArgumentError, match=r"ReduceSum-11 lacks.*opset 13"):
        infer_shape(shape, None, 1, 1, 12, operator="ReduceSum")
    for wrong in ("ReduceMedian", "sum", None, ["ReduceSum"]):
        message = "operator is .*; allowed: ReduceSumSquare, ReduceSum, ReduceMean, "
        with pytest.raises(halfulp.ArgumentError, match=message):
            infer_shape(shape, operator=wrong)  # type: ignore[arg-type]


def test_a_model_keeps_ranks_where_axes_are_of_run_time() -> None:
    """onnx gives up all of these: the node, and whatever follows it."""
    proto = model(
        "(float[2,N,1] x, int64[K] axes) => (z) "
        "{ y = ReduceSum(x, axes) w = ReduceMean(y, axes) z = Sqrt(w) }"
    )
    theirs = onnx.shape_inference.infer_shapes(proto).graph
    assert dimensions(theirs.output[0]) is None
    shapes = inferred(proto)
    assert shapes["y"] == shapes["w"] == shapes["z"] == (None, None, 1)


def test_axes_without_elements_are_known_by_their_type() -> None:
    proto = model(
        "(float[2,3] x, int64[0] axes) => (y) "
        "{ y = ReduceSumSquare<keepdims=0>(x, axes) }"
    )
    assert inferred(proto)["y"] == ()


NESTED = {
    "if": """y = If(c) <
        then_branch = t () => (a) { u = ReduceSumSquare(x, axes) a = Sqrt(u) },
        else_branch = e () => (b) { b = ReduceSumSquare(x, axes) }>""",
    "loop": """ys = Loop(n, c) <body = l (int64 i, bool k)
        => (k2, t) { k2 = Identity(k) t = ReduceSumSquare(x, axes) }>
        zero = Constant <value_int = 0> () y = Gather(ys, zero)""",
    "function": "y = f.sq(x, axes)",
}


@pytest.mark.parametrize("place", NESTED)
def test_ranks_are_kept_in(place: str) -> None:
    proto = model(
        "(float[2,N,1] x, int64[K] axes, bool c, int64 n) => (z) "
        f"{{ {NESTED[place]} z = Sqrt(y) }}",
        function("q = ReduceSumSquare(p, ax)", head="sq (p, ax) => (q)", opset=18),
    )
    result = infer_shapes(proto)
    assert inferred(proto)["z"] == (None, None, 1)
    if place == "if":
        then = next(a.g for a in result.graph.node[0].attribute if a.name[0] == "t")
        assert {v.name: dimensions(v) for v in then.value_info}["u"] == (None, None, 1)


@pytest.mark.parametrize(("ir_version", "known"), [(3, True), (4, False), (8, False)])
def test_a_default_that_a_caller_may_override_says_nothing(
    ir_version: int, known: bool
) -> None:
    """Before IR version 4 every constant was such an input."""
    proto, _ = reduce_model(
        np.zeros((2, 3), np.float32), axes=[1], axes_form="default", keepdims=0
    )
    proto.ir_version = ir_version
    assert inferred(proto)["reduced"] == ((2,) if known else None)


@pytest.mark.parametrize(("operator", "opset", "is_input"), VERSIONS)
def test_axes_out_of_range_are_an_error(
    operator: str, opset: int, is_input: bool
) -> None:
    form = "const" if is_input else "attr"
    data = np.zeros((2, 3), np.float32)
    node = {"opset": opset, "operator": operator, "axes": [2], "axes_form": form}
    proto, _ = reduce_model(data, **node)
    with pytest.raises(halfulp.AxesError, match=f"{operator}-{opset}.*axis 2"):
        infer_shapes(proto)


def test_axes_out_of_range_of_an_inferred_rank_are_an_error() -> None:
    proto = model(
        "(float[2,3] x, int64[1] axes) => (z) <int64[1] far = {2}> "
        "{ y = ReduceSumSquare(x, axes) [last] z = ReduceSumSquare(y, far) }"
    )
    with pytest.raises(halfulp.AxesError, match=r"node 'last'.*axis 2 is out of range"):
        infer_shapes(proto)


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("*.onnx")), ids=lambda path: path.stem
)
def test_a_model_is_as_onnx_infers_it_or_better(path: Path) -> None:
    proto = onnx.load(path)
    before = proto.SerializeToString(deterministic=True)
    theirs = onnx.shape_inference.infer_shapes(proto)
    ours = infer_shapes(proto)
    assert proto.SerializeToString(deterministic=True) == before
    assert dimensions(ours.graph.output[0]) == dimensions(theirs.graph.output[0])
    # Where onnx gives up, nothing is different; names of unknown sizes may be.
    assert re.sub("unk__[0-9]+", "", str(ours)) == re.sub("unk__[0-9]+", "", str(theirs))


@seed(SEED)
@given(st.data())
def test_what_is_inferred_is_true_when_the_model_runs(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)))
    axes = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1), max_size=2))
    noop, keepdims = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))
    form = data.draw(st.sampled_from(["const", "node", "input", "default"]))
    proto, feeds = reduce_model(
        np.ones(shape, np.float32),
        axes=axes,
        axes_form=form,
        keepdims=keepdims,
        noop_with_empty_axes=noop,
    )
    known = inferred(proto)["reduced"]
    true = run_model(proto, feeds)["reduced"].shape
    if known is not None:
        assert len(known) == len(true)
        for size, n in zip(known, true, strict=True):
            assert size in (n, None)
    if form in ("const", "node"):
        assert known == true


def test_large_initializers_need_not_be_serialized() -> None:
    proto = model("(float[2,3] x) => (y) { z = MatMul(x, w) y = ReduceSumSquare(z) }")
    weights = onnx.numpy_helper.from_array(np.zeros((3, 999), np.float32), "w")
    proto.graph.initializer.append(weights)
    result = infer_shapes(proto)
    assert result.graph.initializer[0] == weights
    assert len(result.graph.input) == 1
    assert {v.name: dimensions(v) for v in result.graph.value_info}["z"] == (2, 999)


def test_operators_of_others_are_passed_over() -> None:
    proto = model("(float[2,3] x) => (y) { z = f.Unknown(x) y = ReduceSumSquare(z) }")
    assert inferred(proto)["y"] is None


def test_onnx_knows_no_operator_more_afterwards() -> None:
    before = len(onnx.defs.get_all_schemas_with_history())
    infer_shapes(model("(float[2] x) => (y) { y = ReduceSumSquare(x) }"))
    assert len(onnx.defs.get_all_schemas_with_history()) == before
