"""Wherever they stand in a model, nodes that reduce run in halfulp."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from faces import ENGINES, Run
from halfulp import HalfulpError, ModelError
from halfulp.onnx import run_model
from halfulp.reductions import MAX, MIN, REDUCTIONS, Reduction
from onnx_models import DATA, EXACT, WITNESS, function, model, reduce_model
from oracle import assert_same_bits, expected, expected_of


@pytest.mark.parametrize("opset", [1000, 2**40])
@pytest.mark.parametrize("noop", [0, 1])
def test_a_later_opset_than_any_known_means_version_18(opset: int, noop: int) -> None:
    for axes in ([], [1]):
        proto, feeds = reduce_model(
            DATA, opset=opset, axes=axes, axes_form="const", noop_with_empty_axes=noop
        )
        axis = tuple(axes) if axes or noop else None
        want = expected(DATA, axis, keepdims=True)
        assert_same_bits(run_model(proto, feeds)["reduced"], want)


def test_fed_axes_replace_their_default() -> None:
    proto, feeds = reduce_model(DATA, axes=[7], axes_form="default", keepdims=0)
    result = run_model(proto, feeds | {"axes": [1]})["reduced"]
    assert_same_bits(result, expected(DATA, 1))


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
@pytest.mark.parametrize("imported", ["", "ai.onnx"])
def test_both_names_of_the_domain_of_onnx(domain: str, imported: str) -> None:
    proto, feeds = reduce_model(WITNESS, opset=13, axes=[1], axes_form="attr", keepdims=0)
    proto.graph.node[0].domain = domain
    proto.opset_import[0].domain = imported
    assert run_model(proto, feeds)["reduced"].tolist() == [EXACT, EXACT]


def test_equal_opset_imports_count_once() -> None:
    proto, feeds = reduce_model(WITNESS)
    proto.opset_import.append(onnx.helper.make_opsetid("ai.onnx", 18))
    assert run_model(proto, feeds)["reduced"].tolist() == [[EXACT * 2]]


def test_model_as_path_bytes_and_proto_which_stays_unchanged(tmp_path: Path) -> None:
    proto, feeds = reduce_model(WITNESS, axes=[1], axes_form="const")
    before = proto.SerializeToString(deterministic=True)
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    for given in (proto, before, bytearray(before), path, str(path)):
        result = run_model(given, feeds)["reduced"]
        assert result.tolist() == [[EXACT], [EXACT]]
    assert proto.SerializeToString(deterministic=True) == before


def test_outputs_come_in_the_order_of_the_model() -> None:
    proto = model(
        "(float[2,3] x) => (c, x, a, b) { a = ReduceSumSquare<keepdims=0>(x) "
        "b = Neg(a) c = Neg(b) }"
    )
    results = run_model(proto, {"x": WITNESS})
    assert list(results) == ["c", "x", "a", "b"]
    assert results["c"] == results["a"] == -results["b"] == EXACT * 2


# onnx's own evaluator stacks what a Loop scans in another way.
@pytest.fixture(params=["run_model", "onnxruntime"])
def run(request: pytest.FixtureRequest) -> Run:
    return ENGINES[request.param]


@pytest.mark.parametrize("condition", [True, False])
def test_in_both_branches_of_if(condition: bool, run: Run) -> None:
    proto = model(
        """(float[2,3] x, bool c) => (y) <int64[1] axes = {1}> { y = If (c) <
            then_branch = t () => (o) { o = ReduceSumSquare<keepdims=0>(x, axes) },
            else_branch = e () => (p) { n = Neg(x) p = ReduceSumSquare(n) } > }"""
    )
    result = run(proto, {"x": WITNESS, "c": np.array(condition)})["y"]
    assert result.tolist() == ([EXACT, EXACT] if condition else [[EXACT * 2]])


def test_in_the_body_of_scan(run: Run) -> None:
    proto = model(
        """(float[2,3] x) => (y) { y = Scan <num_scan_inputs = 1,
            body = b (e) => (float o) { o = ReduceSumSquare<keepdims=0>(e) }> (x) }"""
    )
    assert run(proto, {"x": WITNESS})["y"].tolist() == [EXACT, EXACT]


# Which onnx's evaluator gets right too, on these data.
RIGHT = {"ReduceMax", "ReduceMin", "ReduceLogSumExp"}
# Data of the others that onnx's evaluator gets wrong, which rounds on the way.
WITNESSES = {
    "ReduceSumSquare": [4096, 1, 1],
    "ReduceSum": [2**24, 1, 1],
    "ReduceMean": [2**24, 1, 1],
    "ReduceL1": [-(2**24), 1, 1],
    "ReduceL2": [3e-30, 4e-30, 0],
    "ReduceMax": [-np.nan, 1, 2],
    "ReduceMin": [-np.nan, 1, 2],
    "ReduceProd": [1e30, 1e30, 1e-30],
    "ReduceLogSum": [3e38, 3e38, 0],
    "ReduceLogSumExp": [np.inf, 1, 1],
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)
def test_every_operator_runs_in_graphs_and_functions(
    row: Reduction, opset: int, engine: str
) -> None:
    operator = row.operator
    proto = model(
        f"""(float[2,3] x, bool c) => (plain, branch, called, scanned) {{
            plain = {operator}<keepdims=0>(x)
            branch = If (c) <
                then_branch = t () => (o) {{ o = {operator}<keepdims=0>(x) }},
                else_branch = e () => (p) {{ n = Neg(x) p = {operator}<keepdims=0>(n) }}>
            called = f.reduce<k=0>(x)
            scanned = Scan <num_scan_inputs = 1,
                body = b (e) => (float s) {{ s = {operator}<keepdims=0>(e) }}> (x) }}""",
        function(f"b = {operator}<keepdims : int = @k>(a)", head="reduce <k> (a) => (b)"),
        opset=opset,
    )
    x = np.float32([WITNESSES[operator], [row.operation == "product"] * 3])
    total = expected_of(row, x)
    with np.errstate(all="ignore"):
        theirs = ReferenceEvaluator(proto).run(None, {"x": x, "c": np.array(True)})
    if operator not in RIGHT:
        assert not any(each.ravel()[0].tobytes() == total.tobytes() for each in theirs)
    for condition in (True, False):
        want = total if condition else expected_of(row, -x)
        feeds = {"x": x, "c": np.array(condition)}
        with np.errstate(all="ignore"):
            got = ENGINES[engine](proto, feeds)
        assert_same_bits(got["plain"], total)
        assert_same_bits(got["branch"], want)
        assert_same_bits(got["scanned"], expected_of(row, x, 1))
        if engine != "evaluator":  # which has functions of its own
            assert_same_bits(got["called"], total)


def test_scan_over_the_only_axis_gives_squares() -> None:
    proto = model(
        """(float[3] x) => (y) { y = Scan <num_scan_inputs = 1,
            body = b (e) => (o) { o = ReduceSumSquare(e) }> (x) }"""
    )
    assert run_model(proto, {"x": WITNESS[0]})["y"].tolist() == [4096**2, 1, 1]


LOOP = """(int64 M, float[2,3] x) => (last, all) {{ last, all = Loop <
    body = b (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t, float{shape} k) {{
        d = Identity(c) t = Identity(s) k = ReduceSumSquare<keepdims={keepdims}>(s)
    }}> (M, {condition}, x) }}"""


@pytest.mark.parametrize("condition", ["", "c"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("trips", [0, 1, 3])
def test_in_the_body_of_loop(condition: str, keepdims: int, trips: int, run: Run) -> None:
    shape = "[1,1]" if keepdims else "[]"
    text = LOOP.format(condition=condition, keepdims=keepdims, shape=shape)
    feeds = {"x": WITNESS, "M": np.array(trips)}
    if condition:
        text = text.replace("float[2,3] x)", "float[2,3] x, bool c)", 1)
        feeds["c"] = np.array(True)
    results = run(model(text), feeds)
    assert_same_bits(results["last"], WITNESS)
    assert_same_bits(
        results["all"], np.full((trips, 1, 1) if keepdims else trips, EXACT * 2)
    )


def test_trip_count_and_condition_may_have_one_dimension() -> None:
    text = LOOP.format(condition="c", keepdims=0, shape="[]")
    text = text.replace(
        "(int64 M, float[2,3] x)", "(int64[1] M, float[2,3] x, bool[1] c)"
    )
    results = run_model(model(text), {"x": WITNESS, "M": [2], "c": [True]})
    assert results["all"].tolist() == [EXACT * 2] * 2


def test_loop_stops_when_its_body_says_so() -> None:
    proto = model(
        """(float[N] x) => (y) <float limit = {100}> { y = Loop <
            body = b (int64 i, bool c, float[N] s) => (bool go, float[N] t) {
                axes = Constant<value_ints=[0]>()
                q = ReduceSumSquare<keepdims=0>(s, axes)
                go = Less(q, limit)
                two = Constant<value_float=2.0>()
                t = Mul(s, two) }> (, , x) }"""
    )
    result = run_model(proto, {"x": [1, 1]})["y"]
    assert result.tolist() == [16, 16]


def test_a_name_of_a_nested_graph_hides_the_one_around_it() -> None:
    proto = model(
        """(float[2,3] x, bool c) => (y) <int64[1] axes = {0}> { y = If (c) <
            then_branch = t () => (o) <int64[1] axes = {1}>
                { o = ReduceSumSquare<keepdims=0>(x, axes) },
            else_branch = e () => (p) { p = Identity(x) } > }"""
    )
    result = run_model(proto, {"x": WITNESS, "c": np.array(True)})["y"]
    assert result.tolist() == [EXACT, EXACT]


SQUARE_13 = function("b = ReduceSumSquare<axes = [1], keepdims : int = @k>(a)")


@pytest.mark.parametrize("opset", [12, 13, 18, 21])
def test_a_function_has_its_own_opset(opset: int) -> None:
    proto = model("(float[2,3] x) => (y) { y = f.sq<k=0>(x) }", SQUARE_13, opset=opset)
    assert run_model(proto, {"x": WITNESS})["y"].tolist() == [EXACT, EXACT]


def test_each_call_of_a_function_has_its_own_attributes() -> None:
    outer = function("b = f.sq<k : int = @keep>(a)", head="outer <keep> (a) => (b)")
    proto = model(
        "(float[2,3] x) => (y, z, w) { y = f.sq<k=0>(x) z = f.sq<k=1>(x) "
        "w = f.outer<keep=0>(x) }",
        outer,
        SQUARE_13,
    )
    results = run_model(proto, {"x": WITNESS})
    assert results["y"].tolist() == results["w"].tolist() == [EXACT, EXACT]
    assert results["z"].tolist() == [[EXACT], [EXACT]]


def test_axes_by_reference_to_an_attribute() -> None:
    body = "b = ReduceSumSquare<axes : ints = @a, keepdims = 0>(a)"
    proto = model(
        "(float[2,3] x) => (y) { y = f.sq<a=[-1]>(x) }",
        function(body, head="sq <a> (a) => (b)"),
    )
    assert run_model(proto, {"x": WITNESS})["y"].tolist() == [EXACT, EXACT]


def test_an_attribute_that_a_call_leaves_out_has_its_default() -> None:
    own = function(
        "b = ReduceSumSquare<axes = [1], keepdims : int = @k>(a)",
        head="own <k : int = 0> (a) => (b)",
    )
    proto = model("(float[2,3] x) => (y, z) { y = f.own(x) z = f.sq(x) }", own, SQUARE_13)
    results = run_model(proto, {"x": WITNESS})
    assert results["y"].tolist() == [EXACT, EXACT]
    assert results["z"].tolist() == [[EXACT], [EXACT]]


def test_an_input_that_a_call_leaves_out_is_absent() -> None:
    body = "b = ReduceSumSquare<keepdims = 0>(a, axes)"
    square = function(body, head="sq (a, axes) => (b)", opset=18)
    proto = model(
        "(float[2,3] x) => (y, z, w) <int64[1] i = {1}> "
        "{ y = f.sq(x) z = f.sq(x) w = f.sq(x, i) }",
        square,
    )
    proto.graph.node[1].input.append("")
    results = run_model(proto, {"x": WITNESS})
    assert results["y"] == results["z"] == EXACT * 2
    assert results["w"].tolist() == [EXACT, EXACT]


def test_in_a_nested_graph_of_a_function() -> None:
    body = """b = Scan <num_scan_inputs = 1, body = s (e) => (o)
        { o = ReduceSumSquare<axes = [0], keepdims : int = @k>(e) }> (a)"""
    proto = model("(float[2,3] x) => (y) { y = f.sq<k=0>(x) }", function(body))
    assert run_model(proto, {"x": WITNESS})["y"].tolist() == [EXACT, EXACT]


def test_overloads_of_a_function_are_different_functions() -> None:
    proto = model("(float[2,3] x) => (y, z) { y = f.sq(x) z = f.sq(x) }", SQUARE_13)
    other = onnx.FunctionProto()
    other.CopyFrom(proto.functions[0])
    other.overload = "all"
    del other.node[0].attribute[:]
    proto.functions.append(other)
    proto.graph.node[1].overload = "all"
    proto.ir_version = 10
    results = run_model(proto, {"x": WITNESS})
    assert results["y"].tolist() == [[EXACT], [EXACT]]
    assert results["z"].tolist() == [[EXACT * 2]]


def test_calls_that_no_machine_can_finish_are_refused() -> None:
    chain = [
        function(f"c = f.f{i}(a) b = f.f{i}(c)", head=f"f{i - 1} (a) => (b)")
        for i in range(1, 40)
    ]
    last = function("b = Identity(a)", head="f39 (a) => (b)")
    with pytest.raises(ModelError, match="called more than 100000 times"):
        run_model(model("(float[1] x) => (y) { y = f.f0(x) }", *chain, last), {"x": [3]})


def test_many_calls_of_functions_that_call_functions_take_little_time() -> None:
    chain = [
        function(f"c = f.f{i}(a) b = f.f{i}(c)", head=f"f{i - 1} (a) => (b)")
        for i in range(1, 12)
    ]
    last = function("b = Identity(a)", head="f11 (a) => (b)")
    # Prepared and checked, but never taken.
    proto = model(
        """(float[1] x, bool c) => (y) { y = If (c) <
            then_branch = t () => (o) { o = f.f0(x) },
            else_branch = e () => (p) { p = ReduceSumSquare(x) }> }""",
        *chain,
        last,
    )
    assert run_model(proto, {"x": [3], "c": False})["y"].tolist() == [9]


def test_left_out_outputs_do_not_become_left_out_inputs() -> None:
    proto = model(
        "(float[1,1,4] x) => (y, z) "
        "{ , indices = MaxPool<kernel_shape=[2]>(x) y = ReduceSumSquare(x) "
        "limit = Constant<value_float=3.0>() z = Clip(x, , limit) }"
    )
    proto.graph.node[1].input.append("")
    data = np.array([[[1, -2, 3, 4]]], np.float32)
    results = run_model(proto, {"x": data})
    assert results["y"].tolist() == [[[30]]]
    assert results["z"].tolist() == [[[1, -2, 3, 3]]]


def test_maps_and_sequences_are_passed_through() -> None:
    proto = model(
        """(float[2,3] x) => (maps, parts, y) { y = ReduceSumSquare(x)
            maps = ai.onnx.ml.ZipMap<classlabels_strings=["a", "b", "c"]>(x)
            parts = SplitToSequence<axis=0>(x) }"""
    )
    proto.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 1))
    results = run_model(proto, {"x": DATA})
    assert results["maps"] == [{"a": 0, "b": 1, "c": 2}, {"a": 3, "b": 4, "c": 5}]
    assert [part.tolist() for part in results["parts"]] == [[[0, 1, 2]], [[3, 4, 5]]]
    assert results["y"].tolist() == [[55]]


def test_operators_of_a_model_give_infinities_without_warnings() -> None:
    proto = model(
        "(float[2] x) => (y) <float zero = {0}> "
        "{ d = Div(x, zero) y = ReduceSumSquare(d) }"
    )
    assert run_model(proto, {"x": [1, 2]})["y"].tolist() == [np.inf]


def test_large_initializers_and_external_data(tmp_path: Path) -> None:
    weights = np.ones((200, 300), np.float32)
    proto, _ = reduce_model(weights, axes=[1], axes_form="const", keepdims=0)
    tensor = onnx.numpy_helper.from_array(weights, "data")
    proto.graph.initializer.append(tensor)
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    external = onnx.load(path)
    onnx.save(external, path, save_as_external_data=True, location="w", size_threshold=0)
    assert (tmp_path / "w").stat().st_size > weights.nbytes
    for given in (path, proto):
        assert run_model(given, {})["reduced"].tolist() == [300] * 200
        doubled = run_model(given, {"data": weights * 2})["reduced"]
        assert doubled.tolist() == [1200] * 200
    del proto.graph.input[0]
    assert run_model(proto, {})["reduced"].tolist() == [300] * 200


def test_bfloat16_scalars_of_scan() -> None:
    proto = model(
        """(bfloat16[2] x) => (y) { y = Scan <num_scan_inputs = 1,
            body = b (e) => (o) { o = ReduceSumSquare(e) }> (x) }"""
    )
    data = np.array([3, 4], ml_dtypes.bfloat16)
    assert_same_bits(run_model(proto, {"x": data})["y"], data * data)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("row", [MAX, MIN], ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("name", "opset"),
    [(name, opset) for name in ("int8", "uint8") for opset in (12, 13, 18, 20, 21)]
    + [("bool", 20), ("bool", 21)],
)
def test_the_types_of_one_byte_in_the_versions_that_have_them(
    name: str, opset: int, row: Reduction, engine: str, rng: np.random.Generator
) -> None:
    forms = (
        ("attr",) if row.version_for(opset).axes == "attribute" else ("const", "input")
    )
    reduce = np.max if row is MAX else np.min
    bytes_ = rng.integers(0, 256, (3, 1000, 7), np.uint8)
    x = bytes_ > 200 if name == "bool" else bytes_.view(name)
    info = np.iinfo("uint8" if name == "bool" else name)
    least, greatest = (0, 1) if name == "bool" else (info.min, info.max)
    of_none = np.full((3, 1, 7), least if row is MAX else greatest, name)
    for form in forms:
        for axes in ([1], [0, -1], [2]):
            node = {"axes": axes, "axes_form": form, "keepdims": 0}
            proto, feeds = reduce_model(x, opset=opset, operator=row.operator, **node)
            want = reduce(x, tuple(axes))
            assert_same_bits(ENGINES[engine](proto, feeds)["reduced"], want)
        empty = x[:, :0]
        proto, feeds = reduce_model(
            empty, opset=opset, operator=row.operator, axes=[1], axes_form=form
        )
        assert_same_bits(ENGINES[engine](proto, feeds)["reduced"], of_none)


@pytest.mark.parametrize("row", [MAX, MIN], ids=lambda row: row.name)
@pytest.mark.parametrize(("name", "opset"), [("int8", 11), ("uint8", 1), ("bool", 18)])
def test_a_type_of_one_byte_before_its_version_is_an_error(
    name: str, opset: int, row: Reduction
) -> None:
    proto, feeds = reduce_model(np.ones(3, name), opset=opset, operator=row.operator)
    version = row.version_for(opset).since
    for engine in ("run_model", "evaluator"):
        with pytest.raises(HalfulpError, match=rf"{name}.*{row.operator}-{version}"):
            ENGINES[engine](proto, feeds)
