"""Opset conversion: the converted model means what the model meant, bit for bit."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import halfulp
from examples import EXAMPLES
from halfulp.cli import main
from halfulp.onnx import convert_opset, infer_shapes, run_model
from halfulp.onnx.model.nodes import walk
from halfulp.onnx.rewrite import version_steps
from halfulp.onnx.rewrite.convert import convert
from halfulp.onnx.run.equivalence import compare_models
from halfulp.reductions import (
    BY_OPERATOR,
    L1,
    L2,
    LOG_SUM,
    LOG_SUM_EXP,
    MAX,
    MEAN,
    MIN,
    PROD,
    REDUCTIONS,
    SUM,
    SUM_SQUARE,
    Reduction,
)
from onnx_models import (
    DTYPES,
    function,
    model,
    reduce_model,
    report_model,
    reports,
)
from oracle import assert_same_bits
from seed import SEED

NEWEST = onnx.defs.onnx_opset_version()

# One for each version of an operator, and what If, Loop and Scan need is there too.
OPSETS = [10, 11, 13, 18]
PAIRS = [pair for pair in itertools.product(OPSETS, repeat=2) if pair[0] != pair[1]]

INPUTS = "(float[2,3,4] x, bool c, int64 n)"
LOOP = """Loop(n, c, c) <body = l (int64 i, bool k, bool s) => (k2, s2, r)
    {{ k2 = Identity(k) s2 = Identity(s) {} }}>"""
IF = """If(c) <then_branch = t () => (r) {{ {} }},
    else_branch = e () => (q) {{ q = ReduceSumSquare(x) }}>"""
REDUCE = "r = ReduceSumSquare(x)"
PLACES = {
    "main": "y = ReduceSumSquare(x)",
    "if": "y = " + IF.format(REDUCE),
    "loop": "u, y = " + LOOP.format(REDUCE),
    "scan": """y = Scan <num_scan_inputs = 1,
        body = s (float[3,4] v) => (r) { r = ReduceSumSquare(v) }> (x)""",
    "if in loop": "u, y = "
    + LOOP.format(
        "r = " + IF.replace("t ()", "t2 ()").format("w = Identity(c) " + REDUCE)
    ),
    "function": "y = f.sq(x)",
    "if in function": "y = f.cond(c, x)",
}
FUNCTIONS = {
    "sq (x) => (r)": REDUCE,
    "cond (c, x) => (y)": "y = " + IF.format(REDUCE),
}

FEEDS: dict[str, Any] = {
    "x": np.array(
        [[[4096, 1, 1, 2], [1, 4096, 1, -0.0], [3, 1e-30, 5, 7]]] * 2, np.float32
    ),
    "c": np.array(True),
    "n": np.array(2),
}
# All of them fit the rank of a slice that Scan hands on.
AXES = [[], [1], [-1], [0, 1], [1, -1, 1]]


def reduces(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Every node that reduces, nested ones and those of functions too."""
    return [node for node in every_node(proto) if node.op_type in BY_OPERATOR]


def every_node(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    bodies = [proto.graph.node, *(f.node for f in proto.functions)]
    return [node for body in bodies for _, node in walk(body)]


def placed(
    place: str,
    opset: int,
    *,
    axes: Any = None,
    form: str = "absent",
    row: Reduction = SUM_SQUARE,
    **attributes: int | None,
) -> onnx.ModelProto:
    """A model with an operator somewhere, its axes in one of their forms."""
    used = [
        function(body, head=head, opset=opset)
        for head, body in FUNCTIONS.items()
        if f"f.{head.split()[0]}(" in PLACES[place]
    ]
    text = f"{INPUTS} => (float y) {{ {PLACES[place]} }}"
    proto = model(text, *used, opset=opset)
    for node in reduces(proto):
        node.op_type = row.operator
        for name, value in attributes.items():
            if value is not None:
                node.attribute.add(name=name, type="INT", i=value)
        if form == "attr":
            node.attribute.add(name="axes", type="INTS", ints=axes)
        elif form == "empty name":
            node.input.append("")
        elif form != "absent":
            node.input.append("axes")
    tensor = onnx.numpy_helper.from_array(np.array(axes or [], np.int64), "axes")
    if form == "node" or (form == "const" and proto.functions):
        constant = onnx.helper.make_node("Constant", [], ["axes"], value=tensor)
        body = (proto.functions or [proto.graph])[0]
        nodes = [constant, *body.node]
        del body.node[:]
        body.node.extend(nodes)
    elif form in ("const", "default"):
        proto.graph.initializer.append(tensor)
    if form in ("input", "default"):
        proto.graph.input.append(onnx.helper.make_tensor_value_info("axes", 7, ["K"]))
    rank = run(proto, **({"axes": axes} if form == "input" else {})).ndim
    output = onnx.helper.make_tensor_value_info("y", 1, [f"n{i}" for i in range(rank)])
    proto.graph.output[0].CopyFrom(output)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def run(proto: onnx.ModelProto, **more: Any) -> np.ndarray:
    result: np.ndarray = run_model(proto, {**FEEDS, **more})["y"]
    return result


def converted(proto: onnx.ModelProto, target: int) -> onnx.ModelProto:
    """Convert, and check what holds for every conversion."""
    before = proto.SerializeToString(deterministic=True)
    result = convert_opset(proto, target)
    assert proto.SerializeToString(deterministic=True) == before
    for part in (result, *result.functions):
        assert {e.version for e in part.opset_import if e.domain == ""} == {target}
    for field in ("input", "output"):
        assert getattr(result.graph, field) == getattr(proto.graph, field)
    # In the form of the version, which onnx's own schema knows.
    onnx.checker.check_model(result, full_check=True)
    return result


# Each row with each pair, and each in each place.
EVERY = [
    (old, new, place, REDUCTIONS[(i + j) % len(REDUCTIONS)])
    for i, (old, new) in enumerate(PAIRS)
    for j, place in enumerate(PLACES)
]


@pytest.mark.parametrize(
    ("old", "new", "place", "row"),
    EVERY,
    ids=[f"{old}-{new}-{place}-{row.name}" for old, new, place, row in EVERY],
)
def test_every_pair_keeps_every_bit(
    old: int, new: int, place: str, row: Reduction
) -> None:
    was, becomes = row.version_for(old), row.version_for(new)
    by_input = was.axes == "input"
    noops = [None, 1] if was.noop_with_empty_axes else [None]
    for axes, keepdims, noop in itertools.product(AXES, [None, 0], noops):
        forms = ["const", "node"] if by_input else ["attr"]
        if not axes:
            forms += ["absent", "empty name"] if by_input else ["absent"]
        for form in forms:
            proto = placed(
                place,
                old,
                axes=axes,
                form=form,
                row=row,
                keepdims=keepdims,
                noop_with_empty_axes=noop,
            )
            result = converted(proto, new)
            assert_same_bits(run(result), run(proto))
            alone = noop == 1 and not axes and becomes.axes == "attribute"
            assert bool(reduces(result)) is not alone
            if becomes.axes == "input":
                back = converted(result, old)
                assert_same_bits(run(back), run(proto))


@pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("old", "new"), [(1, 18), (7, 28), (18, 7), (17, 1), (21, 13), (12, 16), (16, 12)]
)
def test_opsets_between_the_versions(old: int, new: int, row: Reduction) -> None:
    form = "const" if row.version_for(old).axes == "input" else "attr"
    proto = placed("main", old, axes=[1], form=form, row=row)
    assert_same_bits(run(converted(proto, new)), run(proto))


# Each row with each pair, and each with each type.
TYPED = [
    (old, new, name, REDUCTIONS[(i + j) % len(REDUCTIONS)])
    for i, (old, new) in enumerate(PAIRS)
    for j, name in enumerate(DTYPES)
]


@pytest.mark.parametrize(
    ("old", "new", "type_name", "row"),
    TYPED,
    ids=[f"{old}-{new}-{name}-{row.name}" for old, new, name, row in TYPED],
)
def test_every_type_is_converted_or_refused(
    old: int, new: int, type_name: str, row: Reduction
) -> None:
    data = np.array([[1, 2, 3], [4, 5, 250]]).astype(DTYPES[type_name])
    form = "const" if row.version_for(old).axes == "input" else "attr"
    if type_name not in row.version_for(old).types:
        return
    proto, feeds = reduce_model(
        data, opset=old, axes=[1], axes_form=form, operator=row.operator
    )
    version = row.version_for(new)
    if type_name not in version.types:
        message = rf"'reduced'.* bfloat16, not .* {version}; allowed: float16"
        with pytest.raises(halfulp.UnsupportedTypeError, match=message):
            convert_opset(proto, new)
        return
    want = run_model(proto, feeds)["reduced"]
    assert_same_bits(run_model(convert_opset(proto, new), feeds)["reduced"], want)


# The opsets of versions that not all operators have, and one before and after each.
LATER = {
    MAX: (11, 12, 13, 18, 19, 20, 28),
    MIN: (11, 12, 13, 18, 19, 20, 28),
    PROD: (11, 13, 18, 28),
    LOG_SUM: (11, 13, 18, 27, 28),
    LOG_SUM_EXP: (11, 13, 18, 27, 28),
}


@pytest.mark.parametrize("row", LATER, ids=lambda row: row.name)
def test_every_later_version_keeps_every_bit(row: Reduction) -> None:
    for old, new in itertools.permutations(LATER[row], 2):
        was = row.version_for(old)
        form = "const" if was.axes == "input" else "attr"
        for axes, keepdims in (([1], 0), ([-1, 0], 1), ([], 0)):
            proto = placed("main", old, axes=axes, form=form, row=row, keepdims=keepdims)
            assert_same_bits(run(converted(proto, new)), run(proto))
        if was.noop_with_empty_axes:
            proto = placed("main", old, row=row, noop_with_empty_axes=1)
            assert_same_bits(run(converted(proto, new)), run(proto))


# What a version lacks that has a wider type with all values: from which opset to which,
# through which type.
HELD = [
    ("bool", 20, 19, "uint8"),
    ("bool", 28, 12, "uint8"),
    ("bool", 20, 11, "uint32"),
    ("bool", 20, 6, "uint32"),
    ("uint8", 20, 11, "uint32"),
    ("uint8", 12, 6, "uint32"),
    ("int8", 18, 11, "int32"),
]


@pytest.mark.parametrize("row", [MAX, MIN], ids=lambda row: row.name)
@pytest.mark.parametrize(("name", "old", "new", "wide"), HELD)
def test_small_types_are_cast_where_a_version_lacks_them(
    name: str, old: int, new: int, wide: str, row: Reduction, rng: np.random.Generator
) -> None:
    form = "const" if row.version_for(old).axes == "input" else "attr"
    for shape in ((3, 5), (3, 0)):
        data = rng.integers(0, 256, shape, np.uint8).astype(name)
        proto, feeds = reduce_model(
            data, opset=old, axes=[1], axes_form=form, operator=row.operator
        )
        proto.graph.node[0].name = "the node"
        if name == "int8" and 0 in shape:
            with pytest.raises(halfulp.UnsupportedTypeError, match=r"int8, not allowed"):
                convert_opset(proto, new)
            continue
        conversion = convert(proto, new)
        nodes = conversion.model.graph.node
        assert [node.op_type for node in nodes] == ["Cast", row.operator, "Cast"]
        assert nodes[-1].name == "the node"
        assert conversion.changes[0].how.endswith(f"in {wide}")
        assert conversion.changes[0].exact
        got = run_model(conversion.model, feeds)["reduced"]
        assert_same_bits(got, run_model(proto, feeds)["reduced"])


@pytest.mark.parametrize(
    ("row", "name", "old", "new"),
    [
        (LOG_SUM, "int32", 18, 28),
        (LOG_SUM, "uint64", 13, 28),
        (LOG_SUM_EXP, "int64", 18, 28),
        (LOG_SUM_EXP, "uint32", 11, 28),
        (MAX, "uint8", 20, 5),
        (MIN, "bool", 20, 1),
        (MAX, "bfloat16", 20, 12),
        (PROD, "bfloat16", 18, 11),
    ],
)
def test_a_type_that_no_cast_brings_there_is_refused(
    row: Reduction, name: str, old: int, new: int
) -> None:
    data = np.ones((2, 3), {**DTYPES, "uint8": np.uint8, "bool": bool}[name])
    form = "const" if row.version_for(old).axes == "input" else "attr"
    proto, _ = reduce_model(
        data, opset=old, axes=[1], axes_form=form, operator=row.operator
    )
    message = rf"{name}, not allowed in {row.version_for(new)}; allowed: "
    with pytest.raises(halfulp.UnsupportedTypeError, match=message):
        convert_opset(proto, new)


# What an element alone becomes, where no axis is reduced.
ALONE = {
    **{row: ["Identity"] for row in REDUCTIONS},
    SUM_SQUARE: ["Mul"],
    L1: ["Abs"],
    L2: ["Abs"],
    LOG_SUM: ["Unsqueeze", "ReduceLogSum"],
}


@pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)
@pytest.mark.parametrize("type_name", DTYPES)
def test_elements_alone_have_the_same_bits(
    type_name: str, row: Reduction, rng: np.random.Generator
) -> None:
    dtype, opset = DTYPES[type_name], row.axes_input_since - 1
    if type_name not in row.version_for(opset).types:
        return
    bits = rng.integers(0, 256, 4000 * dtype.itemsize, np.uint8)
    data = bits.view(dtype)
    if dtype.kind == "i":
        data[0] = np.iinfo(dtype).min
    proto, feeds = reduce_model(
        data, axes_form="absent", noop_with_empty_axes=1, operator=row.operator
    )
    result = convert_opset(proto, opset)
    assert [node.op_type for node in result.graph.node] == ALONE[row]
    got = run_model(result, feeds)["reduced"]
    want = run_model(proto, feeds)["reduced"]
    numbers = ~np.isnan(want) if want.dtype.kind not in "iu" else np.full(4000, True)
    assert_same_bits(got[numbers], want[numbers])
    with np.errstate(invalid="ignore"):  # of signaling ones
        assert np.isnan(got[~numbers]).all()


@pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)
def test_elements_alone_need_an_operator_of_the_type(row: Reduction) -> None:
    """Mul-1, Mul-6 and Abs-1 take fewer types than what reduces."""
    data = np.array([[1, 2]], np.int64)
    proto, feeds = reduce_model(
        data, axes_form="absent", noop_with_empty_axes=1, operator=row.operator
    )
    want = run_model(proto, feeds)["reduced"]
    assert_same_bits(run_model(convert_opset(proto, 6), feeds)["reduced"], want)
    if ALONE[row][0] in ("Identity", "Unsqueeze"):
        assert_same_bits(run_model(convert_opset(proto, 5), feeds)["reduced"], want)
        return
    message = rf"int64\), not .* in {ALONE[row][0]}-1"
    with pytest.raises(halfulp.UnsupportedTypeError, match=message):
        convert_opset(proto, 5)


# What axes of run time make of a node from 13 to 17.
SPELLED = {SUM_SQUARE: ["Mul", "ReduceSum"], L1: ["Abs", "ReduceSum"]}
SPELLED[L2] = [*SPELLED[SUM_SQUARE], "Sqrt"]


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float", "double"])
def test_axes_of_run_time_of_logarithms(name: str, rng: np.random.Generator) -> None:
    data = rng.uniform(1, 4, (3, 4)).astype(DTYPES[name])
    exponentials = ["Exp", "ReduceSum", "Log"]
    if name != "double":
        exponentials = ["Cast", *exponentials, "Cast"]
    for row, nodes in ((LOG_SUM, ["ReduceSum", "Log"]), (LOG_SUM_EXP, exponentials)):
        proto, feeds = reduce_model(
            data, axes=[1], axes_form="input", operator=row.operator
        )
        conversion = convert(proto, 13)
        assert [node.op_type for node in conversion.model.graph.node] == nodes
        assert not conversion.changes[0].exact
        got = run_model(conversion.model, feeds)["reduced"].astype(float)
        want = run_model(proto, feeds)["reduced"].astype(float)
        # Whoever rounds: two units in the last place of numbers of 1 to 4.
        assert abs(got - want).max() <= 4 * float(ml_dtypes.finfo(DTYPES[name]).eps)


@pytest.mark.parametrize("row", SPELLED, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("place", "form", "new"),
    [("main", "input", 13), ("if", "default", 17), ("loop", "input", 17)],
)
@pytest.mark.parametrize("noop", [None, 0, 1])
@pytest.mark.parametrize("keepdims", [None, 0])
def test_axes_of_run_time_become_a_term_and_reduce_sum(
    place: str,
    form: str,
    new: int,
    noop: int | None,
    keepdims: int | None,
    row: Reduction,
) -> None:
    proto = placed(
        place,
        18,
        axes=[1],
        form=form,
        row=row,
        keepdims=keepdims,
        noop_with_empty_axes=noop,
    )
    result = converted(proto, new)
    names = [
        node.op_type
        for node in every_node(result)
        if node.op_type not in ("If", "Loop", "Identity")
    ]
    assert names == SPELLED[row] * (2 if place == "if" else 1)
    # Small integers: whoever adds them, and in whatever order, the bits are the same.
    x = np.arange(-12, 12, dtype=np.float32).reshape(2, 3, 4)
    for axes in ([1], [0, -1], []):
        more = {"axes": np.array(axes, np.int64), "x": x}
        assert_same_bits(run(result, **more), run(proto, **more))
    if form == "default":
        assert_same_bits(run(result, x=x), run(proto, x=x))


@pytest.mark.parametrize("type_name", DTYPES)
def test_axes_of_run_time_of_every_type(type_name: str) -> None:
    least = 0 if "uint" in type_name else -5
    data = np.arange(least, least + 12).astype(DTYPES[type_name]).reshape(3, 4)
    for row in SPELLED:
        proto, feeds = reduce_model(
            data, axes=[1], axes_form="input", operator=row.operator
        )
        result = convert_opset(proto, 13)
        cast = row is L2 and "int" in type_name
        names = [node.op_type for node in result.graph.node]
        assert names == SPELLED[row][:2] + (
            ["Cast", "Sqrt", "Cast"] if cast else SPELLED[row][2:]
        )
        got = run_model(result, feeds)["reduced"]
        assert_same_bits(got, run_model(proto, feeds)["reduced"])


NO_BODY = r"\(ONNX has no function body for ReduceMean\); allowed: from opset 18 on"


@pytest.mark.parametrize("form", ["input", "default"])
@pytest.mark.parametrize(
    ("row", "old", "new", "words"),
    [
        *(
            (row, 18, new, f"in opset {new}; allowed: from opset 13 on, or a constant")
            for row in SPELLED
            for new in (10, 12)
        ),
        (SUM, 18, 12, "in opset 12; allowed: from opset 13 on, or a constant"),
        (SUM, 13, 11, "in opset 11; allowed: from opset 13 on, or a constant"),
        (MEAN, 18, 12, "in opset 12; allowed: from opset 18 on, or a constant"),
        (MEAN, 18, 13, NO_BODY),
        (MEAN, 18, 17, NO_BODY),
        *((row, 18, 13, rf"body for {row.operator}\)") for row in (MAX, MIN, PROD)),
    ],
)
def test_axes_of_run_time_may_have_no_form(
    row: Reduction, old: int, new: int, words: str, form: str
) -> None:
    proto = placed("if", old, axes=[1], form=form, row=row)
    message = rf"then_branch > node #0 .*{row.version_for(old)}.*axes are known only"
    with pytest.raises(halfulp.ModelError, match=rf"{message}.* has no form .*{words}"):
        convert_opset(proto, new)


def test_a_root_of_an_unknown_type_needs_cast_like() -> None:
    norm = function("b = ReduceL2(a, k)", head="norm (a, k) => (b)", opset=18)
    proto = model("(int64[2] x, int64[K] axes) => (y) { y = f.norm(x, axes) }", norm)
    result = convert_opset(proto, 15)
    assert [node.op_type for node in result.functions[0].node][-1] == "CastLike"
    feeds = {"x": np.array([-3, 4]), "axes": np.array([0])}
    assert_same_bits(run_model(result, feeds)["y"], np.array([5]))
    message = (
        r"opset 14 \(the type is unknown, and opset 14 has no CastLike\); allowed: from "
        "opset 15 on"
    )
    with pytest.raises(halfulp.ModelError, match=message):
        convert_opset(proto, 14)


def test_axes_that_others_use_survive() -> None:
    proto = model(
        "(float[2,3] x) => (float[2,1] y, float[2,1] z, int64[1] shown) "
        "<int64[1] shared = {1}, int64[1] own = {1}, int64[1] shown = {1}> { "
        "y = ReduceSumSquare(x, shared) s = ReduceSum(x, shared) "
        "u = ReduceSumSquare(x, own) v = Add(u, s) z0 = ReduceSumSquare(x, shown) "
        "k = Constant <value_ints = [1]> () z1 = ReduceSumSquare(x, k) "
        "z = Sum(z0, z1, v) }"
    )
    result = convert_opset(proto, 13)
    onnx.checker.check_model(result, full_check=True)
    assert [t.name for t in result.graph.initializer] == ["shared", "shown"]
    assert "Constant" not in [node.op_type for node in result.graph.node]
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    want = run_model(proto, feeds)
    for name, value in run_model(result, feeds).items():
        assert_same_bits(value, want[name])


def test_axes_that_were_unused_already_stay() -> None:
    proto = model(
        "(float[2,3] x) => (float[2,1] y) <int64[1] other = {1}, int64[1] axes = {1}> "
        "{ y = ReduceSumSquare(x, axes) }"
    )
    result = convert_opset(proto, 13)
    assert [t.name for t in result.graph.initializer] == ["other"]


def test_nodes_share_the_axes_that_are_written_for_them() -> None:
    proto = model(
        "(float[2,3] axes, bool c) => (float[a,b] y) { "
        "u = ReduceSumSquare<axes = [1]>(axes) v = ReduceSumSquare<axes = [0]>(u) "
        "y = If(c) <then_branch = t () => (float[a,b] axes_1) "
        "{ axes_1 = ReduceSumSquare<axes = [1]>(v) }, "
        "else_branch = e () => (float[a,b] q) { q = Identity(v) }> }",
        opset=13,
    )
    result = convert_opset(proto, 18)
    onnx.checker.check_model(result, full_check=True)
    values = {t.name: t.int64_data or t.raw_data for t in result.graph.initializer}
    assert list(values) == ["axes_2", "axes_3"]
    assert [node.input[1] for node in reduces(result)] == ["axes_2", "axes_3", "axes_2"]
    feeds = {"axes": np.ones((2, 3), np.float32), "c": True}
    want = run_model(proto, feeds)["y"]
    assert_same_bits(run_model(result, feeds)["y"], want)


def test_all_that_a_node_has_besides_stays() -> None:
    proto = model("(float[2,3] x) => (float[2,1] y) { y = ReduceSumSquare(x) }", opset=13)
    node = proto.graph.node[0]
    node.name, node.doc_string = "name", "text"
    node.attribute.add(name="axes", type="INTS", ints=[1])
    node.attribute.add(name="keepdims", type="INT", i=1)
    node.metadata_props.add(key="k", value="v")
    proto.metadata_props.add(key="k", value="v")
    proto.producer_name = "producer"
    result = convert_opset(convert_opset(proto, 18), 13)
    # Attributes come in another order.
    for each in (proto, result):
        each.graph.node[0].attribute.sort(key=lambda a: a.name)
    assert result == proto
    squares = model(
        "(float[2,3] x) => (float[2,3] y) "
        "{ [n] y = ReduceSumSquare<noop_with_empty_axes = 1>(x) }"
    )
    assert convert_opset(squares, 13).graph.node[0].name == "n"


@pytest.mark.parametrize(("old", "new"), [(18, 19), (13, 17), (11, 12), (1, 5)])
def test_only_the_number_changes_where_no_version_does(old: int, new: int) -> None:
    form = "const" if old == 18 else "attr"
    data = np.ones((2, 3), np.float32)
    proto, _ = reduce_model(data, opset=old, axes=[1, 1], axes_form=form)
    proto.ir_version = 9
    result = convert_opset(proto, new)
    proto.opset_import[0].version = new
    assert result == proto


@pytest.mark.parametrize(
    ("ir_version", "old", "new", "want"),
    [(3, 7, 18, 8), (7, 13, 11, 7), (10, 13, 18, 10), (8, 18, 1, 8), (6, 11, 13, 7)],
)
def test_the_ir_version_is_kept_unless_the_opset_needs_more(
    ir_version: int, old: int, new: int, want: int
) -> None:
    proto, _ = reduce_model(np.ones((2, 3), np.float32), opset=old, axes_form="absent")
    proto.ir_version = ir_version
    assert convert_opset(proto, new).ir_version == want


def test_negative_axes_are_not_left_to_versions_that_do_not_promise_them() -> None:
    data = np.ones((2, 3, 4), np.float32)
    for opset, form in ((18, "const"), (13, "attr"), (11, "attr")):
        proto, _ = reduce_model(data, opset=opset, axes=[-1, 2, 0, -3], axes_form=form)
        done = convert(proto, 10)
        axes = next(a for a in done.model.graph.node[-1].attribute if a.name == "axes")
        assert list(axes.ints) == [2, 0]
        assert done.warnings == []
        proto.graph.input[0].type.tensor_type.ClearField("shape")
        done = convert(proto, 10)
        axes = next(a for a in done.model.graph.node[-1].attribute if a.name == "axes")
        assert list(axes.ints) == [-1, 2, 0, -3]
        assert len(done.warnings) == 1
        assert "opset 10 does not promise" in done.warnings[0]


@pytest.mark.parametrize("case", reports("convert"), ids=lambda case: case["id"])
def test_public_reports(case: dict[str, Any]) -> None:
    proto, feeds = report_model(case)
    proto.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info(
            "reduced", 1, ["a", "b", "c"][: 2 + (not case["axes"])]
        )
    )
    result = convert_opset(proto, case["convert_to"])
    onnx.checker.check_model(result, full_check=True)
    [node] = result.graph.node
    if case["axes"]:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        assert attributes == {"axes": case["axes"], "keepdims": case["keepdims"]}
        assert list(node.input) == ["data"]
    else:
        assert node.op_type == "Mul"
    want = run_model(proto, feeds)["reduced"]
    assert_same_bits(run_model(result, feeds)["reduced"], want)


ATTRIBUTE = "r = ReduceSumSquare<axes: ints = @k, keepdims: int = @keep>(x)"
CALL = "(float[2,3,4] x) => (float[a,b,c] y) { y = f.sq<k = [1, 2], keep = 1>(x) }"


def test_axes_that_are_an_attribute_of_a_function() -> None:
    proto = model(CALL, function(ATTRIBUTE, head="sq <k, keep> (x) => (r)"), opset=13)
    result = converted(proto, 18)
    back = converted(result, 11)
    assert [a.ref_attr_name for a in reduces(back)[0].attribute] == ["keep", "k"]
    for each in (result, back):
        got = run_model(each, {"x": FEEDS["x"]})["y"]
        assert_same_bits(got, run_model(proto, {"x": FEEDS["x"]})["y"])


def test_axes_of_a_function_need_a_value_in_every_call() -> None:
    proto = model(
        CALL.replace("k = [1, 2], ", ""),
        function(ATTRIBUTE, head="sq <k, keep> (x) => (r)"),
        opset=13,
    )
    with pytest.raises(
        halfulp.ModelError, match="'sq' without a value for its attribute"
    ):
        convert_opset(proto, 18)
    with_default = function(ATTRIBUTE, head="sq <keep, k: ints = [1]> (x) => (r)")
    with_default = with_default.replace("<keep, k: ints = [1]>", "<keep>")
    proto = model(CALL.replace("k = [1, 2], ", ""), with_default, opset=13)
    proto.functions[0].attribute_proto.add(name="k", type="INTS", ints=[1])
    result = convert_opset(proto, 18)
    want = run_model(proto, {"x": FEEDS["x"]})["y"]
    assert_same_bits(run_model(result, {"x": FEEDS["x"]})["y"], want)


def test_a_flag_that_a_call_decides() -> None:
    body = "r = ReduceSumSquare<noop_with_empty_axes: int = @k>(x)"
    text = "(float[2,3] x) => (float[a,b] y) { y = f.sq<k = 1>(x) }"
    proto = model(text, function(body, head="sq <k> (x) => (r)", opset=18))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = converted(proto, 13)
    assert_same_bits(run_model(result, {"x": x})["y"], x * x)
    with pytest.raises(halfulp.ModelError, match="noop_with_empty_axes is known only"):
        convert_opset(proto, 11)


def test_bfloat16_is_refused_where_only_the_call_of_a_function_tells() -> None:
    proto = model(
        "(bfloat16[2,3] x) => (bfloat16[a,b] y) { [call] y = f.sq(x) }",
        function("b = ReduceSumSquare(a)", head="sq (a) => (b)"),
        opset=13,
    )
    message = r"node 'call' > .*bfloat16, not allowed in ReduceSumSquare-11"
    with pytest.raises(halfulp.UnsupportedTypeError, match=message):
        convert_opset(proto, 11)


@pytest.mark.parametrize("old", [11, 13, 18])
@pytest.mark.parametrize("new", [11, 13, 18, NEWEST])
def test_a_real_model_keeps_every_bit(old: int, new: int) -> None:
    proto = onnx.load(EXAMPLES / f"kmeans_digits_opset{old}.onnx")
    result = convert_opset(proto, new)
    onnx.checker.check_model(result, full_check=True)
    feeds = {"X": np.load(EXAMPLES / "digits.npy")}
    want = run_model(proto, feeds)
    for name, value in run_model(result, feeds).items():
        assert_same_bits(value, want[name])


@pytest.mark.parametrize(
    "name", ["gaussian_process", "gaussian_mixture", "normalizer_double"]
)
@pytest.mark.parametrize("new", [11, 13, NEWEST])
def test_other_real_models_keep_every_bit(name: str, new: int) -> None:
    proto = onnx.load(EXAMPLES / f"{name}_opset18.onnx")
    data = name.removesuffix("_double")
    feeds = {"X": np.load(EXAMPLES / f"{data}_input.npy")}
    want = run_model(proto, feeds)
    for key, value in run_model(convert_opset(proto, new), feeds).items():
        assert_same_bits(value, want[key])


NEIGHBOURS = [
    (18, 11, "<int64[1] a = {1}> { z = ReduceMean(s, a) y = Relu(z) }"),
    (18, 13, "{ a = Constant<value_ints = [1]>() z = ReduceMean(s, a) y = Relu(z) }"),
    (11, 18, "{ z = ReduceMean<axes = [1]>(s) y = Squeeze<axes = [1]>(z) }"),
    (13, 11, "<int64[1] a = {1}> { y = Unsqueeze(s, a) }"),
    (11, 13, "{ y = Softmax<axis = 1>(s) }"),
    (13, 11, "{ y = Softmax(s) }"),
    (18, 11, "{ z = Shape(s) y = Reshape<allowzero = 0>(s, z) }"),
    (18, 11, "<int64[2] z = {3, -1}> { y = Reshape<allowzero = 1>(s, z) }"),
    (18, 13, "{ z = Shape<start = 1, end = 2>(s) y = Cast<to = 1>(z) }"),
    (15, 14, "{ z = Shape<start = -2>(s) y = Cast<to = 1>(z) }"),
    (18, 11, "{ z = Shape<start = -9, end = 9>(s) y = Cast<to = 1>(z) }"),
    (15, 11, "{ z = Shape<end = -1>(s) y = Cast<to = 1>(z) }"),
    (18, 11, "{ z = Shape<start = 2, end = 1>(s) y = Cast<to = 1>(z) }"),
    (19, 13, "{ y = Cast<to = 1, saturate = 1>(s) }"),
    (13, 11, "{ k = Constant<value_floats = [1.5]>() y = Add(s, k) }"),
    (13, 10, "{ k = Constant<value_float = 1.5>() y = Mul(s, k) }"),
    (11, 13, "{ y, w = Split<axis = 1, split = [2, 1]>(s) }"),
    (9, 13, "{ y, w = TopK<k = 1>(s) }"),
    (18, 15, "{ y = f.Sum(s) }"),
]


@pytest.mark.parametrize(("old", "new", "text"), NEIGHBOURS)
def test_other_operators_come_along(old: int, new: int, text: str) -> None:
    text = text.replace("{ ", "{ s = ReduceSumSquare<keepdims = 1>(x) ", 1)
    text = text.replace(
        "(x)", "(x, n)" if old >= 18 else "<axes = [2], keepdims = 1>(x)", 1
    )
    text = text.replace("<keepdims = 1><", "<")
    if old >= 18:
        text = text.replace("{ s", "{ n = Constant<value_ints = [2]>() s", 1)
    proto = model(
        "(float[2,3,1] x) => (float y) " + text,
        function("b = Sqrt(a)", head="Sum (a) => (b)", opset=old),
        opset=old,
    )
    result = convert_opset(proto, new)
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3, 1) + 0.1}
    assert_same_bits(run_model(result, feeds)["y"], run_model(proto, feeds)["y"])
    names = [name for node in every_node(result) for name in node.output]
    assert len(names) == len(set(names))


def test_other_operators_come_along_in_nested_graphs() -> None:
    body = "z = ReduceSumSquare<axes = [1]>(x) r = ReduceMean<axes = [1]>(z)"
    proto = model(
        f"(float[2,3] x, bool c, int64 n) => (float[a,b,d] y) "
        f"{{ u, y = {LOOP.format(body)} }}",
        opset=13,
    )
    result = converted(proto, 18)
    feeds = {"x": np.ones((2, 3), np.float32), "c": True, "n": 2}
    assert_same_bits(run_model(result, feeds)["y"], run_model(proto, feeds)["y"])


REFUSED = [
    (
        18,
        13,
        "y = Reshape<allowzero = 1>(s, p)",
        "Reshape-14 to Reshape-13 cannot be made: Reshape-13 has no .* 'allowzero'",
    ),
    (
        18,
        13,
        "y, w = Split<axis = 1, num_outputs = 2>(s)",
        "Split-18 to Split-13 cannot be made: Split-13 has no attribute 'num_outputs'",
    ),
    (20, 18, "y = Gelu(s)", "Gelu exists from opset 20 on"),
    (13, 12, "y = Softmax<axis = 1>(s)", "Softmax-13 to Softmax-11 would change"),
    (12, 13, "y = Hardmax(s)", "Hardmax-11 to Hardmax-13 would change the meaning"),
    (19, 18, 'y = Pad<mode = "wrap">(s, p)', "Pad-19 to Pad-18 would change"),
    (11, 10, "y = Softmax<axis = -1>(s)", "negative axes"),
    (20, 21, "y = GroupNormalization<num_groups = 1>(s, q, q)", "GroupNormalization"),
    (6, 7, "y = Dropout(s)", "Dropout-6 to Dropout-7 would change the meaning"),
    (6, 7, "y = PRelu(s, q3)", "PRelu-6 to PRelu-7 would change the meaning"),
    (13, 12, "y = Relu(h)", r"tensor\(bfloat16\), not allowed in Relu-6"),
    (
        11,
        10,
        "y, k = TopK(s, one)",
        "TopK-11 to TopK-10 is beyond onnx's version converter",
    ),
]


@pytest.mark.parametrize(("old", "new", "text", "message"), REFUSED)
def test_what_would_not_keep_its_meaning_is_refused(
    old: int, new: int, text: str, message: str
) -> None:
    """In each of these onnx's converter gives another model, or fails."""
    proto = model(
        "(float[2,3,4] s, float[1] q, float[3] q3, int64[6] p, int64[1] one, "
        "bfloat16[2] h) => (y) "
        f"{{ [n] {text} }}",
        opset=old,
    )
    with pytest.raises(halfulp.HalfulpError, match=message) as caught:
        convert_opset(proto, new)
    assert "node 'n'" in str(caught.value)
    assert "\n" not in str(caught.value)


OLD_MODELS = Path(onnx.__file__).parent / "backend/test/data/pytorch-operator"


def run_elsewhere(proto: onnx.ModelProto, feeds: list[np.ndarray]) -> list[np.ndarray]:
    """Run a model in onnxruntime, which has kernels for every version from 7 on."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # What it fuses depends on the opset.
    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    names = [value.name for value in session.get_inputs()]
    result: list[np.ndarray] = session.run(None, dict(zip(names, feeds, strict=False)))
    return result


def test_old_models_of_onnx_keep_their_results() -> None:
    """They are of opset 6, with the outputs that PyTorch gave when they were made."""
    compared = 0
    for path in sorted(OLD_MODELS.glob("*/model.onnx")):
        proto = onnx.load(path)
        try:
            upgraded = [convert_opset(proto, opset) for opset in (7, 13, 18)]
        except halfulp.HalfulpError:
            continue
        inputs, outputs = (
            [
                onnx.numpy_helper.to_array(onnx.load_tensor(str(file)))
                for file in sorted((path.parent / "test_data_set_0").glob(f"{what}_*.pb"))
            ]
            for what in ("input", "output")
        )
        first, *later = (run_elsewhere(each, inputs) for each in upgraded)
        for got, want in zip(first, outputs, strict=True):
            # The tolerance that onnx itself has for them.
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-7)
        for results in later:
            for got, want in zip(results, first, strict=True):
                assert_same_bits(got, want)
        compared += 1
    assert compared > 25


def test_versions_said_to_be_reworded_differ_in_additions_only() -> None:
    for name, pairs in version_steps.REWORDED.items():
        for older, newer in pairs:
            old = onnx.defs.get_schema(name, older, "")
            new = onnx.defs.get_schema(name, newer, "")
            assert (old.since_version, new.since_version) == (older, newer)
            assert onnx.defs.get_schema(name, newer - 1, "").since_version == older
            for attribute in old.attributes.values():
                same = new.attributes[attribute.name]
                assert (attribute.type, str(attribute.default_value)) == (
                    same.type,
                    str(same.default_value),
                )
            for theirs, ours in ((old.inputs, new.inputs), (old.outputs, new.outputs)):
                assert len(theirs) <= len(ours)


@pytest.mark.parametrize("target", [0, -1, NEWEST + 1, 2**40, True, "13", 13.0, None])
def test_the_target_must_be_known(target: Any) -> None:
    proto, _ = reduce_model(np.ones(3, np.float32))
    with pytest.raises(halfulp.ArgumentError, match="opset is "):
        convert_opset(proto, target)


def test_an_opset_unknown_to_onnx_is_refused() -> None:
    proto, _ = reduce_model(np.ones(3, np.float32), opset=NEWEST + 1)
    with pytest.raises(halfulp.ModelError, match=f"imports opset {NEWEST + 1}"):
        convert_opset(proto, 18)


def test_the_other_name_of_the_domain() -> None:
    proto, feeds = reduce_model(np.ones((2, 3), np.float32), axes=[1], axes_form="const")
    proto.opset_import[0].domain = proto.graph.node[0].domain = "ai.onnx"
    for target in (11, 13, 17):
        result = convert_opset(proto, target)
        assert [(e.domain, e.version) for e in result.opset_import] == [
            ("ai.onnx", target)
        ]
        want = run_model(proto, feeds)["reduced"]
        assert_same_bits(run_model(result, feeds)["reduced"], want)
    proto.opset_import.add(domain="", version=13)
    with pytest.raises(halfulp.ModelError, match=r"imports \[13, 18\]; allowed: exactly"):
        convert_opset(proto, 13)


def test_models_without_the_operator_or_the_domain() -> None:
    proto = model("(float[2] x) => (float[2] y) { y = Relu(x) }", opset=14)
    result = converted(proto, 13)
    assert result.graph == proto.graph
    bare = model("(float[2] x) => (float[2] y) { y = f.Unknown(x) }")
    del bare.opset_import[:]
    bare.opset_import.add(domain="f", version=1)
    assert convert_opset(bare, 13) == bare
    bare.graph.node[0].domain = ""
    with pytest.raises(halfulp.ModelError, match="no opset import"):
        convert_opset(bare, 13)


def hostile() -> dict[str, Any]:
    proto, _ = reduce_model(np.ones((2, 3), np.float32), axes=[1], axes_form="const")
    negative, cyclic, huge = (onnx.ModelProto() for _ in range(3))
    negative.CopyFrom(proto)
    negative.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -5
    calls = function("b = f.sq(a)", head="sq (a) => (b)", opset=18)
    cyclic = model("(float[2] x) => (y) { y = f.sq(x) }", calls)
    huge.CopyFrom(proto)
    huge.graph.initializer[0].dims[:] = [2**40]
    return {
        "empty": b"",
        "no model": b"xx",
        "truncated": proto.SerializeToString()[:-9],
        "negative size": negative,
        "cyclic function": cyclic,
        "huge claim": huge,
        "no path": "nowhere.onnx",
        "no model at all": 3,
    }


@pytest.mark.parametrize("name", hostile())
@pytest.mark.parametrize("convert", [infer_shapes, lambda m: convert_opset(m, 13)])
def test_what_is_no_model_is_an_error_of_one_line(name: str, convert: Any) -> None:
    with pytest.raises(halfulp.HalfulpError) as caught:
        convert(hostile()[name])
    assert "\n" not in str(caught.value)


def test_training_information_is_refused() -> None:
    proto, _ = reduce_model(np.ones(3, np.float32))
    proto.training_info.add()
    with pytest.raises(halfulp.ModelError, match="training information"):
        convert_opset(proto, 13)


def test_axes_out_of_range_are_an_error_before_anything() -> None:
    proto, _ = reduce_model(np.ones(3, np.float32), axes=[1], axes_form="const")
    with pytest.raises(halfulp.AxesError, match="axis 1 is out of range for rank 1"):
        convert_opset(proto, 13)


@seed(SEED)
@settings(max_examples=60)
@given(st.data())
def test_random_models_keep_every_bit_there_and_back(data: Any) -> None:
    old = data.draw(st.sampled_from([10, 11, 13, 17, 18, NEWEST]))
    new = data.draw(st.sampled_from([10, 11, 13, 17, 18, NEWEST]))
    row = data.draw(st.sampled_from(REDUCTIONS))
    version = row.version_for(old)
    by_input = version.axes == "input"
    forms = ["const", "node", "absent", "empty name"] if by_input else ["attr", "absent"]
    proto = placed(
        data.draw(st.sampled_from(list(PLACES))),
        old,
        axes=data.draw(st.lists(st.integers(-2, 1), max_size=3)),
        form=data.draw(st.sampled_from(forms)),
        row=row,
        keepdims=data.draw(st.sampled_from([None, 0, 1])),
        noop_with_empty_axes=data.draw(st.sampled_from([None, 0, 1]))
        if version.noop_with_empty_axes
        else None,
    )
    there = converted(proto, new)
    back = converted(there, old)
    assert_same_bits(run(there), run(proto))
    assert_same_bits(run(back), run(proto))


def test_verify_tells_what_was_compared() -> None:
    proto = placed("if", 18, axes=[1], form="const")
    facts = compare_models(proto, convert_opset(proto, 13))
    assert facts["runs"] == 6
    assert facts["values"] == ["small integers", "random numbers", "special values"]
    assert facts["inputs"]["x"] == {"type": "float", "shapes": [[2, 3, 4]]}
    assert facts["outputs"]["y"]["agree"] == facts["outputs"]["y"]["of"] == 6 * 8


@pytest.mark.parametrize("change", ["axes", "keepdims", "type", "last bit"])
def test_verify_finds_what_a_conversion_changed(change: str) -> None:
    proto, _ = reduce_model(np.ones((3, 3), np.float32), axes=[1], axes_form="const")
    result = convert_opset(proto, 13)
    node = result.graph.node[0]
    if change == "axes":
        node.attribute[0].ints[:] = [0]
    elif change == "keepdims":
        node.attribute.add(name="keepdims", type="INT", i=0)
    elif change == "type":
        node.output[0] = "r"
        cast = onnx.helper.make_node("Cast", ["r"], ["reduced"], to=11)
        result.graph.node.append(cast)
        result.graph.output[0].type.Clear()
    else:
        # The sum of the squares as onnx rounds it.
        result = convert_opset(
            reduce_model(np.ones((3, 3), np.float32), axes=[1], axes_form="input")[0], 13
        )
        result.graph.input.pop()
        axes = onnx.numpy_helper.from_array(np.array([1]), "axes")
        result.graph.initializer.append(axes)
    with pytest.raises(
        halfulp.ModelError, match=r"the conversion changes the.*'reduced'"
    ):
        compare_models(proto, result)
    if change == "last bit":
        facts = compare_models(proto, result, exact=False)["outputs"]["reduced"]
        assert facts["agree"] < facts["of"]


@pytest.mark.parametrize("form", ["input", "default"])
def test_verify_makes_up_axes_of_run_time(form: str) -> None:
    proto = placed("if", 18, axes=[1], form=form)
    result = convert_opset(proto, 13)
    facts = compare_models(proto, result, exact=False)
    assert facts["runs"] == 6
    assert facts["inputs"]["axes"]["type"] == "int64"


def test_verify_makes_up_every_type() -> None:
    declared = ", ".join(
        f"{name}[N,{i}] x{i}"
        for i, name in enumerate([*DTYPES, "bool", "string", "int8", "float8e5m2"], 1)
    )
    proto = model(f"({declared}) => (y) {{ y = ReduceSumSquare(x3) }}")
    facts = compare_models(proto, convert_opset(proto, 13))
    assert facts["runs"] == 6
    assert len(facts["inputs"]) == 12


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(float[2] x) => (y) { y = RandomNormalLike(x) }", "gives other values of.*'y'"),
        (
            "(float[2] x, int64[1] i) => (y) { k = Sub(i, i) w = Sub(k, i) z = Sub(w, i) "
            "d = Constant<value_ints = [7]>() j = Max(i, d) y = Gather(x, j) }",
            "takes none of the made-up inputs",
        ),
        ("(seq(float[2]) x) => (y) { y = SequenceLength(x) }", "'x' cannot be made up"),
        ("(float[2] x) => (y) { y = f.Unknown(x) }", "operator 'Unknown'.* is unknown"),
    ],
)
def test_verify_says_why_nothing_was_compared(text: str, message: str) -> None:
    proto = model(text)
    with pytest.raises(halfulp.ModelError, match=f"cannot be verified: .*{message}"):
        compare_models(proto, proto)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with models m.onnx and runtime.onnx."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    onnx.save(placed("main", 18, axes=[1], form="const"), "m.onnx")
    onnx.save(placed("main", 18, axes=[1], form="input"), "runtime.onnx")
    return tmp_path


def test_the_command_writes_a_model_and_says_what_it_did(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["convert", "m.onnx", "--opset", "13", "-o", "out.onnx", "--verify"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == "wrote out.onnx\n"
    assert out.splitlines() == [
        "opset 18 to 13, IR version 8",
        "node #0 (output 'y')",
        "  ReduceSumSquare-18 is now ReduceSumSquare-13; axes [1] as an attribute",
        "ran both 6 times in reference on small integers, random numbers, special "
        "values:",
        "  input 'x': float [2, 3, 4]",
        "  input 'c': bool []",
        "  input 'n': int64 []",
        "  output 'y': 48 of 48 elements have the same bits",
    ]
    onnx.checker.check_model(onnx.load("out.onnx"), full_check=True)
    assert sorted(p.name for p in folder.iterdir()) == [
        "m.onnx",
        "out.onnx",
        "runtime.onnx",
    ]


def test_the_command_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["convert", "runtime.onnx", "--opset", "13", "-o", "runtime.onnx"]
    assert main([*arguments, "--verify", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    verified = facts.pop("verified")
    assert verified["runs"] == 6
    assert facts == {
        "model": "runtime.onnx",
        "output": "runtime.onnx",
        "opset": 13,
        "opset_before": 18,
        "ir_version": 8,
        "changes": [
            {
                "node": "node #0 (output 'y')",
                "old": "ReduceSumSquare-18",
                "new": "Mul-13, ReduceSum-13",
                "how": "axes of run time",
                "exact": False,
            }
        ],
        "warnings": [],
        "copied": [],
    }
    assert [n.op_type for n in onnx.load("runtime.onnx").graph.node] == [
        "Mul",
        "ReduceSum",
    ]


def test_the_command_says_what_is_rounded_otherwise(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", "runtime.onnx", "--opset", "13", "-o", "out.onnx"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "warning: terms and sums of 1 are rounded by the runtime now"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runtime.onnx", "--opset", "11", "-o", "out.onnx"], "axes are known only"),
        (["m.onnx", "--opset", "0", "-o", "out.onnx"], "opset is 0; allowed: 1 to"),
        (["m.onnx", "--opset", "x", "-o", "out.onnx"], "Invalid value for '--opset'"),
        (["m.onnx", "--opset", "13", "-o", "no/out.onnx"], "folder of the output"),
        (["none.onnx", "--opset", "13", "-o", "out.onnx"], "cannot be read"),
        (["bad.onnx", "--opset", "13", "-o", "bad.onnx"], "cannot be read"),
        (["random.onnx", "--opset", "13", "-o", "out.onnx", "--verify"], "each time"),
        (["m.onnx", "--opset", "13"], "Missing option"),
    ],
)
def test_a_failure_is_one_line_and_leaves_no_file(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(model("(float[2] x) => (y) { y = RandomNormalLike(x) }"), "random.onnx")
    (folder / "bad.onnx").write_bytes((folder / "m.onnx").read_bytes()[:-9])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["convert", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("halfulp: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_large_external_data_stays_in_its_file(folder: Path) -> None:
    proto = model("(float[2,3] x) => (y) { z = MatMul(x, w) y = ReduceSumSquare(z) }")
    weights = np.arange(3 * 999, dtype=np.float32).reshape(3, 999)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(proto, "external.onnx", save_as_external_data=True, location="w.bin")
    assert main(["convert", "external.onnx", "--opset", "13", "-o", "out.onnx"]) == 0
    assert (folder / "out.onnx").stat().st_size < weights.nbytes
    feeds = {"x": np.ones((2, 3), np.float32)}
    want = run_model(model_with(proto, weights), feeds)["y"]
    assert_same_bits(run_model("out.onnx", feeds)["y"], want)


def model_with(proto: onnx.ModelProto, weights: np.ndarray) -> onnx.ModelProto:
    """The model with its only initializer inside again."""
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "w"))
    return proto
