"""fuse and expand keep the meaning of a model, and say what they did not do and why."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from halfulp import ModelError, UnsupportedTypeError
from halfulp.cli import main
from halfulp.onnx import convert_opset, expand, fuse, run_model
from halfulp.onnx.rewrite import RewriteReport
from halfulp.reductions import BY_OPERATOR, L1, L2, SUM_SQUARE, Reduction
from onnx_models import DATA, DTYPES, function, model, reduce_model
from oracle import assert_same_bits, expected

ROOT = Path(__file__).parents[2]
EXPORTED = ROOT / "tests/stored/exported"

OPSETS = (7, 11, 13, 17, 18, 23)
FLOAT, INT32, INT64 = 1, 6, 7
SHAPE = (2, 3, 4)

# How terms are written: an operator, and what is the exponent: attributes of a Constant,
# or type and shape of a tensor.
TERMS: dict[str, tuple[str, Any]] = {
    "mul": ("Mul", None),
    "abs": ("Abs", None),
    "pow, scalar": ("Pow", ("tensor", "float", ())),
    "pow, one element": ("Pow", ("tensor", "float", (1,))),
    "pow, three ones": ("Pow", ("tensor", "float", (1, 1, 1))),
    "pow, Constant": ("Pow", ("node", "float", ())),
    "pow, int64": ("Pow", ("tensor", "int64", ())),
    "pow, bfloat16": ("Pow", ("tensor", "bfloat16", ())),
    "pow, uint8": ("Pow", ("tensor", "uint8", ())),
    "pow, value_float": ("Pow", {"value_float": 2.0}),
    "pow, value_floats": ("Pow", {"value_floats": [2.0]}),
    "pow, value_int": ("Pow", {"value_int": 2}),
    "pow, value_ints": ("Pow", {"value_ints": [2]}),
}

# How roots are written: the nodes after the sum, the first opset that has them, and
# whether integers have them too.
ROOTS: dict[str, tuple[str, int, bool]] = {
    "sqrt": ("{y} = Sqrt(sum)", 1, False),
    "pow half": ("{y} = Pow(sum, half)", 7, False),
    "cast like": ("a = Cast<to=1>(sum) b = Sqrt(a) {y} = CastLike(b, data)", 15, True),
    "casts": ("a = Cast<to=11>(sum) b = Sqrt(a) {y} = Cast<to={to}>(b)", 6, True),
}

# The reductions that are made of others, and how one of each is written.
MADE = {SUM_SQUARE: ("mul", ""), L1: ("abs", ""), L2: ("mul", "sqrt")}

# What ReduceSum is given: where axes are, axes, and noop_with_empty_axes.
AXES: dict[str, tuple[str, list[int] | None, int | None]] = {
    "absent": ("absent", None, None),
    "empty attribute": ("attr", [], None),
    "attribute": ("attr", [0, 2], None),
    "negative attribute": ("attr", [-1], None),
    "initializer": ("const", [1], None),
    "negative initializer": ("const", [-1, -3], None),
    "repeated": ("const", [1, -2], None),
    "Constant": ("node", [0, 1, 2], 0),
    "empty name": ("empty name", None, 0),
    "empty initializer": ("const", [], None),
    "noop, not empty": ("const", [2], 1),
    "noop, empty": ("const", [], 1),
    "noop, absent": ("absent", None, 1),
    "run time": ("input", [1], None),
}


def ops(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


def spelled(
    x: np.ndarray,
    term: str = "mul",
    axes: str = "absent",
    root: str = "",
    *,
    opset: int = 18,
    keepdims: int | None = None,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A term, a ReduceSum and maybe a root in the place of `reduce_model`'s node."""
    form, values, noop = AXES[axes]
    proto, feeds = reduce_model(
        x,
        opset=opset,
        axes=values,
        axes_form=form,
        keepdims=keepdims,
        noop_with_empty_axes=noop,
    )
    graph = proto.graph
    reduce = graph.node[-1]
    reduce.op_type = "ReduceSum"
    reduce.input[0] = "term"
    operator, written = TERMS[term]
    names = ["data"]
    if operator != "Abs":
        names.append("data" if written is None else "two")
    if isinstance(written, dict):
        graph.node.insert(0, onnx.helper.make_node("Constant", [], ["two"], **written))
    elif written:
        where, dtype, shape = written
        array = np.full(shape, 2, DTYPES.get(dtype) or dtype)
        tensor = onnx.numpy_helper.from_array(array, "two")
        if where == "tensor":
            graph.initializer.append(tensor)
        else:
            node = onnx.helper.make_node("Constant", [], ["two"], value=tensor)
            graph.node.insert(0, node)
    node = onnx.helper.make_node(operator, names, ["term"])
    graph.node.insert(len(graph.node) - 1, node)
    if root:
        reduce.output[0] = "sum"
        text, _, _ = ROOTS[root]
        to = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
        text = text.format(y="reduced", to=to)
        graph.node.extend(onnx.parser.parse_graph(f"g () => () {{ {text} }}").node)
        half = onnx.numpy_helper.from_array(np.full((), 0.5, x.dtype), "half")
        if "half" in text:
            graph.initializer.append(half)
    graph.node[-1].name = "the last"
    return proto, feeds


def run_as_onnx_does(proto: onnx.ModelProto, feeds: Any, dtype: Any) -> np.ndarray:
    """What onnx's evaluator gives, which sums integers in a wider type.

    It refuses an axis given twice; ONNX Runtime does not.
    """
    if [1, -2] in [
        onnx.numpy_helper.to_array(tensor).tolist() for tensor in proto.graph.initializer
    ]:
        session = onnxruntime.InferenceSession(proto.SerializeToString())
        return np.asarray(session.run(None, feeds)[0])
    with np.errstate(over="ignore"):
        return np.asarray(ReferenceEvaluator(proto).run(None, feeds)[0]).astype(dtype)


def has_axes(axes: str, opset: int, first: int) -> bool:
    """Whether a node has such axes, where they are an input from opset `first` on."""
    form, _, noop = AXES[axes]
    if form == "absent":
        return noop is None or opset >= first
    return (form == "attr") == (opset < first)


def possible(term: str, axes: str, root: str, opset: int, dtype: str = "float") -> bool:
    """Whether the specification has such nodes."""
    if not has_axes(axes, opset, 13):
        return False
    if dtype == "bfloat16" and opset < 13:
        return False
    if root:
        _, since, integers = ROOTS[root]
        if opset < since or (not integers and "int" in dtype):
            return False
    _, written = TERMS[term]
    if written is None:
        return True
    if isinstance(written, dict):
        return opset >= 12
    if dtype.startswith("uint") or (dtype.startswith("int") and opset < 12):
        return False
    if written[1] == "bfloat16":
        return opset >= 15
    return opset >= 12 or written[1] == dtype


def fusible(axes: str, opset: int) -> bool:
    form, values, noop = AXES[axes]
    if not 13 <= opset < 18:
        return True
    return form != "input" and (bool(values) or not noop)


# How a whole is written: a term and a root.
WHOLES = [*((term, "") for term in TERMS), *(("mul", root) for root in ROOTS)]
CASES = [
    (term, root, axes, opset, "float")
    for opset in OPSETS
    for term, root in WHOLES
    for axes in AXES
    if possible(term, axes, root, opset)
    and (
        (term, root) in MADE.values()
        or axes.endswith("ttribute")
        or axes in ("initializer", "noop, empty")
    )
] + [
    (term, root, axes, opset, dtype)
    for dtype in DTYPES
    for opset in OPSETS
    for term, root in [*MADE.values(), ("pow, int64", ""), ("mul", "casts")]
    for axes in ("negative attribute", "negative initializer")
    if dtype != "float" and possible(term, axes, root, opset, dtype)
]


@pytest.mark.parametrize(("term", "root", "axes", "opset", "dtype"), CASES)
def test_one_node_means_what_its_parts_meant(
    term: str, root: str, axes: str, opset: int, dtype: str, rng: np.random.Generator
) -> None:
    # Numbers whose squares and sums every type has; for integers any that wrap.
    least = 0 if dtype.startswith("uint") else -3
    x = rng.integers(least, 3, SHAPE).astype(DTYPES[dtype])
    if x.dtype.kind in "iu" and not root and not term.startswith("pow"):
        x = rng.integers(least * 2**29, 2**31 - 1, SHAPE).astype(x.dtype)
    keepdims = [None, 0, 1][int(rng.integers(3))]
    proto, feeds = spelled(x, term, axes, root, opset=opset, keepdims=keepdims)
    original = proto.SerializeToString()
    fused, report = fuse(proto)
    assert proto.SerializeToString() == original
    before = run_as_onnx_does(proto, feeds, x.dtype)
    if not fusible(axes, opset):
        assert report.done == 0
        assert fused == proto
        return
    (candidate,) = report.candidates
    assert candidate.done
    left = ["Constant"] * (AXES[axes][0] == "node" and opset >= 18)
    row = L1 if term == "abs" else L2 if root else SUM_SQUARE
    assert ops(fused) == [*left, row.operator]
    node = fused.graph.node[-1]
    assert (node.name, list(node.output)) == ("the last", ["reduced"])
    assert not {"two", "half"} & {tensor.name for tensor in fused.graph.initializer}
    assert_same_bits(run_model(fused, feeds)["reduced"], before)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float", "double"])
@pytest.mark.parametrize(("term", "root"), [*MADE.values(), ("pow, scalar", "pow half")])
def test_the_fused_node_is_correctly_rounded(
    dtype: str, term: str, root: str, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((3, 50)).astype(DTYPES[dtype])
    proto, feeds = spelled(x, term, "initializer", root, keepdims=0)
    fused, _ = fuse(proto)
    (node,) = fused.graph.node
    row = BY_OPERATOR[node.op_type]
    want = expected(x, 1, term=row.term, finish=row.finish)
    assert_same_bits(run_model(fused, feeds)["reduced"], want)


# The body of a graph of x, float[2,3], and y; the opset; words of the reason.
NOT_FUSED = {
    "the square is an output": (
        "(float[2,3] x) => (y, s) { s = Mul(x, x) y = ReduceSum(s) }",
        18,
        "the square 's' is an output of its graph",
    ),
    "the square is read twice": (
        "(float[2,3] x) => (y, z) { s = Mul(x, x) y = ReduceSum(s) z = Neg(s) }",
        18,
        "the square 's' is read elsewhere too",
    ),
    "the square is read in a nested graph": (
        """(float[2,3] x, bool c) => (y, z) { s = Mul(x, x) y = ReduceSum(s)
            z = If (c) < then_branch = t () => (p) { p = Neg(s) },
                         else_branch = e () => (q) { q = Abs(x) }> }""",
        18,
        "the square 's' is read elsewhere too",
    ),
    "the square is an output of a nested graph too": (
        """(float[2,3] x, bool c) => (y, z) { s = Mul(x, x) y = ReduceSum(s)
            z = If (c) < then_branch = t () => (s) { },
                         else_branch = e () => (q) { q = Abs(x) }> }""",
        18,
        "the square 's' is read elsewhere too",
    ),
    "the sum is in a nested graph": (
        """(float[2,3] x, bool c) => (y) { s = Mul(x, x)
            y = If (c) < then_branch = t () => (p) { p = ReduceSum(s) },
                         else_branch = e () => (q) { q = Abs(x) }> }""",
        18,
        "the square is computed in a graph around this one",
    ),
    "the exponent raises the rank": (
        "(float[2,3] x) => (y) <float[1,1,1] e = {2}> { s = Pow(x, e) y = ReduceSum(s) }",
        18,
        "the exponent has shape [1, 1, 1], the data rank 2: Pow may raise the rank",
    ),
    "the rank is not known": (
        "(float x) => (y) <float[1] e = {2}, int64[2] s = {2, 3}> "
        "{ r = com.foo.Bar(x) q = Pow(r, e) y = ReduceSum(q) }",
        18,
        "the exponent has shape [1], the data unknown rank",
    ),
    "the exponent is an input with a default": (
        "(float[2,3] x, float e) => (y) <float e = {2}> "
        "{ s = Pow(x, e) y = ReduceSum(s) }",
        18,
        "the exponent is known at run time only",
    ),
    "axes at run time before 18": (
        "(float[2,3] x, int64[1] a) => (y) { s = Mul(x, x) y = ReduceSum(s, a) }",
        17,
        "the axes are known at run time only, and ReduceSumSquare-13 takes them as an "
        "attribute",
    ),
    "axes with a default before 18": (
        "(float[2,3] x, int64[1] a) => (y) <int64[1] a = {1}> "
        "{ s = Mul(x, x) y = ReduceSum(s, a) }",
        13,
        "the axes are known at run time only",
    ),
    "nothing is reduced before 18": (
        "(float[2,3] x) => (y) { s = Mul(x, x) "
        "y = ReduceSum<noop_with_empty_axes=1>(s) }",
        13,
        "empty axes reduce nothing where noop_with_empty_axes is set",
    ),
    "the data is another value by then": (
        """(float[2,3] x, bool c) => (y) {
            y = If (c) < then_branch = t () => (p) {
                s = Mul(x, x) x = Neg(x) p = ReduceSum(s) },
                         else_branch = e () => (q) { q = Abs(x) }> }""",
        18,
        "'x' is the name of another value later on",
    ),
    "the exponent is another value outside": (
        """(float[2,3] x, bool c) => (y) <float e = {3}> {
            y = If (c) < then_branch = t () => (p) {
                s = Pow(x, e) p = ReduceSum(s) e = Constant<value_float=2.0>() },
                         else_branch = e () => (q) { q = Abs(x) }> }""",
        18,
        "'e' is the name of another value later on",
    ),
    "a mean of squares": (
        "(float[2,3] x) => (y) { s = Mul(x, x) m = ReduceMean(s) y = Sqrt(m) }",
        18,
        "ONNX has no operator for the mean of squares",
    ),
    "a mean of magnitudes": (
        "(float[2,3] x) => (y) { s = Abs(x) y = ReduceMean<axes=[1]>(s) }",
        13,
        "ONNX has no operator for the mean of magnitudes",
    ),
    "the magnitude is an output": (
        "(float[2,3] x) => (y, s) { s = Abs(x) y = ReduceSum(s) }",
        18,
        "the magnitude 's' is an output of its graph",
    ),
    "the sum of squares is an output": (
        "(float[2,3] x) => (y, s) { s = ReduceSumSquare(x) y = Sqrt(s) }",
        18,
        "the sum 's' is an output of its graph",
    ),
    "the sum of squares is read elsewhere": (
        "(float[2,3] x) => (y, z) { s = ReduceSumSquare(x) y = Sqrt(s) z = Neg(s) }",
        18,
        "the sum 's' is read elsewhere too",
    ),
    "the root is in a nested graph": (
        """(float[2,3] x, bool c) => (y) { s = ReduceSumSquare(x)
            y = If (c) < then_branch = t () => (p) { p = Sqrt(s) },
                         else_branch = e () => (q) { q = Abs(x) }> }""",
        18,
        "the sum is computed in a graph around this one",
    ),
    "the cast sum is read elsewhere": (
        "(int32[2,3] x) => (y, z) { s = ReduceSumSquare(x) f = Cast<to=1>(s) "
        "r = Sqrt(f) y = CastLike(r, x) z = Neg(f) }",
        18,
        "the sum 'f' is read elsewhere too",
    ),
    "the root before the cast is read elsewhere": (
        "(int32[2,3] x) => (y, z) { s = ReduceSumSquare(x) f = Cast<to=1>(s) "
        "r = Sqrt(f) y = CastLike(r, x) z = Neg(r) }",
        18,
        "the root 'r' is read elsewhere too",
    ),
    "the type that the cast must give is not known": (
        "(float x) => (y) { b = com.foo.Bar(x) s = ReduceSumSquare(b) "
        "f = Cast<to=1>(s) r = Sqrt(f) y = Cast<to=6>(r) }",
        18,
        "the type of the data is not known",
    ),
    "the root has an exponent of run time": (
        "(float[2,3] x, float e) => (y) { s = ReduceSumSquare(x) y = Pow(s, e) }",
        18,
        "the exponent is known at run time only",
    ),
    "the root raises the rank": (
        "(float[2,3] x) => (y) <float[1] e = {0.5}> "
        "{ s = ReduceSumSquare<keepdims=0>(x) y = Pow(s, e) }",
        18,
        "the exponent has shape [1], the data rank 0: Pow may raise the rank",
    ),
    "the axes are another value by then": (
        """(float[2,3] x, int64[1] a, bool c) => (y) {
            y = If (c) < then_branch = t () => (p) {
                s = ReduceSumSquare(x, a) a = Constant<value_ints=[0]>()
                p = Sqrt(s) },
                         else_branch = e () => (q) { q = Abs(x) }> }""",
        18,
        "'a' is the name of another value later on",
    ),
}


@pytest.mark.parametrize("case", NOT_FUSED)
def test_what_would_mean_something_else_is_not_fused(case: str) -> None:
    text, opset, words = NOT_FUSED[case]
    proto = model(text, opset=opset)
    proto.opset_import.append(onnx.helper.make_opsetid("com.foo", 1))
    fused, report = fuse(proto)
    assert fused == proto
    (candidate,) = report.candidates
    assert not candidate.done
    assert words in candidate.reason


@pytest.mark.parametrize(
    "term",
    [
        "Mul(x, z)",
        "Pow(x, three)",
        "Pow(x, half)",
        "Pow(x, minus)",
        "Pow(x, twos)",
        "Pow(two, x)",
        "com.foo.Mul(x, x)",
        "com.foo.Abs(x)",
        "Add(x, x)",
        "Neg(x)",
        "Sqrt(x)",
        "Identity(x)",
    ],
)
def test_other_sums_are_no_candidates(term: str) -> None:
    proto = model(
        "(float[2,3] x, float[2,3] z) => (y) <float three = {3}, float two = {2}, "
        "float half = {2.5}, float minus = {-2}, "
        f"float[3] twos = {{2, 2, 2}}> {{ s = {term} y = ReduceSum(s) }}"
    )
    proto.opset_import.append(onnx.helper.make_opsetid("com.foo", 1))
    fused, report = fuse(proto)
    assert fused == proto
    assert report.candidates == ()


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Sqrt(x)",
        "s = ReduceSum(x) y = Sqrt(s)",
        "s = ReduceMean(x) y = Sqrt(s)",
        "s = ReduceL1(x) y = Sqrt(s)",
        "s = ReduceL2(x) y = Sqrt(s)",
        "s = ReduceSumSquare(x) y = com.foo.Sqrt(s)",
        "s = ReduceSumSquare(x) y = Pow(s, third)",
        "s = ReduceSumSquare(x) t = Add(s, third) y = Sqrt(t)",
        # Casts that give another type, or that a root may not be taken in.
        "s = ReduceSumSquare(x) f = Cast<to=11>(s) y = Sqrt(f)",
        "s = ReduceSumSquare(x) f = Cast<to=11>(s) r = Sqrt(f) y = Cast<to=6>(r)",
        "s = ReduceSumSquare(x) f = Cast<to=11>(s) r = Sqrt(f) y = CastLike(r, i)",
        "s = ReduceSumSquare(x) f = Cast<to=10>(s) r = Sqrt(f) y = Cast<to=1>(r)",
        "s = ReduceSumSquare(x) f = CastLike(s, x) r = Sqrt(f) y = Cast<to=1>(r)",
        "s = ReduceSumSquare(x) f = Cast<to=11>(s) r = Neg(f) y = Cast<to=1>(r)",
        "f = Cast<to=11>(x) r = Sqrt(f) y = Cast<to=1>(r)",
    ],
)
def test_other_roots_are_no_candidates(nodes: str) -> None:
    proto = model(
        "(float[2,3] x, int32[1] i) => (y) <float[1] third = {0.25}> { " + nodes + " }"
    )
    proto.opset_import.append(onnx.helper.make_opsetid("com.foo", 1))
    fused, report = fuse(proto)
    assert fused == proto
    assert report.candidates == ()


def test_a_sum_that_cannot_take_its_root_takes_its_squares() -> None:
    proto = model(
        "(float[2,3] x) => (y, s) { q = Mul(x, x) [sum] s = ReduceSum(q) y = Sqrt(s) }"
    )
    fused, report = fuse(proto)
    assert ops(fused) == ["ReduceSumSquare", "Sqrt"]
    assert str(report).splitlines() == [
        "fused 1 of 2",
        "node 'sum': fused, Mul and ReduceSum",
        "node #2 (output 'y'): not fused, the sum 's' is an output of its graph",
    ]


def test_nodes_that_are_one_are_one_candidate() -> None:
    proto = model(
        "(float[2,3] x, int32[2,3] i) => (y, z, w) { q = Mul(x, x) s = ReduceSum(q) "
        "[before] w = Neg(x) [root] y = Sqrt(s) t = ReduceSumSquare(i) "
        "d = Cast<to=11>(t) r = Sqrt(d) [cast] z = CastLike(r, i) }"
    )
    fused, report = fuse(proto)
    assert ops(fused) == ["Neg", "ReduceL2", "ReduceL2"]
    assert [node.name for node in fused.graph.node] == ["before", "root", "cast"]
    assert str(report).splitlines() == [
        "fused 2 of 2",
        "node 'root': fused, Mul, ReduceSum and Sqrt",
        "node 'cast': fused, ReduceSumSquare, Cast, Sqrt and CastLike",
    ]


def test_what_a_node_has_besides_is_that_of_the_last_one() -> None:
    proto = model(
        "(float[2,3] x) => (y) "
        "{ q = Mul(x, x) [sum] s = ReduceSum(q) [root] y = Sqrt(s) }"
    )
    for node in proto.graph.node:
        node.metadata_props.add(key="made by", value=node.op_type)
        node.doc_string = node.op_type
    (node,) = fuse(proto)[0].graph.node
    assert (node.name, node.doc_string) == ("root", "Sqrt")
    assert [entry.value for entry in node.metadata_props] == ["Sqrt"]
    *others, last = expand(fuse(proto)[0])[0].graph.node
    assert (last.name, last.doc_string, last.op_type) == ("root", "Sqrt", "Sqrt")
    assert [entry.value for entry in last.metadata_props] == ["Sqrt"]
    assert [node.name for node in others] == ["root.square", "root.sum"]
    assert not any(node.doc_string or node.metadata_props for node in others)


def test_a_cast_back_to_a_type_that_another_value_has() -> None:
    nodes = "s = ReduceSumSquare(x) f = Cast<to=1>(s) r = Sqrt(f) y = CastLike(r, like)"
    proto = model("(int32[2,3] x) => (y) <int32[1] like = {1}> { " + nodes + " }")
    fused, report = fuse(proto)
    assert (report.done, ops(fused)) == (1, ["ReduceL2"])
    assert list(fused.graph.initializer) == []


def test_constants_that_something_else_reads_stay() -> None:
    proto = model(
        "(float[2,3] x, float e) => (y, z, t) "
        "<float two = {2}, int64[1] one = {1}, float e = {2}, float t = {2}, "
        "int64[1] gone = {1}> {"
        "s = Pow(x, two) y = ReduceSum(s, one) z = Pow(x, two)"
        "r = Pow(z, t) w = ReduceSum(r, gone) }",
        opset=13,
    )
    fused, report = fuse(proto)
    assert report.done == 2
    assert ops(fused) == ["ReduceSumSquare", "Pow", "ReduceSumSquare"]
    kept = {tensor.name for tensor in fused.graph.initializer}
    assert kept == {"two", "e", "t"}


def test_initializers_that_are_trained_stay() -> None:
    proto = model(
        "(float[2,3] x) => (y) <float two = {2}> { s = Pow(x, two) y = ReduceSum(s) }"
    )
    proto.training_info.add().initialization_binding.add(key="two", value="two")
    fused, report = fuse(proto)
    assert report.done == 1
    assert fused.graph.initializer == proto.graph.initializer


def test_a_name_in_a_nested_graph_hides_the_square_around_it() -> None:
    proto = model(
        """(float[2,3] x, int64 n, bool c) => (y) { s = Mul(x, x) y = Loop(n, c, x) <
            body = b (int64 i, bool k, float[2,3] s) => (l, r) {
                l = Identity(k) t = ReduceSum(s) r = Add(s, t) }> }"""
    )
    fused, report = fuse(proto)
    assert fused == proto
    assert report.candidates == ()


def test_types_of_values_that_are_gone_are_gone() -> None:
    proto = model(
        "(float[2,3] x) => (y) <float[2,3] s, float two = {2}> "
        "{ s = Pow(x, two) y = ReduceSum(s) }"
    )
    assert [value.name for value in proto.graph.value_info] == ["s"]
    fused, _ = fuse(proto)
    assert list(fused.graph.value_info) == []


def test_nested_graphs_and_functions_are_rewritten() -> None:
    proto = model(
        """(float[2,3] x, bool c) => (y, z) <float two = {2}> { z = f.sq(x)
            y = If (c) < then_branch = t () => (p) {
                s = Pow(x, two) p = ReduceSum<keepdims=0>(s) },
                         else_branch = e () => (q) {
                q = If (c) < then_branch = t () => (v) { v = Identity(x) },
                             else_branch = e () => (w) <int64[1] a = {0}> {
                    s = Mul(x, x) w = ReduceSum(s, a) } > } > }""",
        function(
            "s = Mul(a, a) one = Constant<value=int64[1] {1}>() "
            "b = ReduceSum<keepdims: int = @k>(s, one)",
            head="sq <k> (a) => (b)",
        ),
        opset=13,
    )
    for node in proto.graph.node:
        if node.op_type == "sq":
            node.attribute.append(onnx.helper.make_attribute("k", 0))
    fused, report = fuse(proto)
    assert [candidate.node for candidate in report.candidates] == [
        "node #1 (output 'y') > then_branch > node #1 (output 'p')",
        "node #1 (output 'y') > else_branch > node #0 (output 'q') > else_branch > "
        "node #1 (output 'w')",
        "function 'sq' > node #2 (output 'b')",
    ]
    assert report.done == 3
    assert "ReduceSum " not in str(onnx.printer.to_text(fused)).replace("(", " (")
    assert len(fused.functions[0].node) == 1
    assert list(fused.graph.initializer) == []
    back, report = expand(fused)
    assert report.done == 3
    for condition in (True, False):
        feeds = {"x": DATA, "c": np.array(condition)}
        for after in (fused, back):
            got = run_model(after, feeds)
            for name, want in run_model(proto, feeds).items():
                assert_same_bits(got[name], want)


def test_unknown_types_are_no_risk_as_the_types_are_the_same() -> None:
    for opset in range(1, onnx.defs.onnx_opset_version() + 1):
        types = [
            set(onnx.defs.get_schema(op, opset).type_constraints[0].allowed_type_strs)
            for op in ("ReduceSum", *(row.operator for row in MADE))
        ]
        assert types == types[:1] * len(types)


@pytest.mark.parametrize(("opset", "done"), [(16, 1), (17, 1), (18, 0), (21, 0)])
def test_what_onnx_checks_it_takes_afterwards(opset: int, done: int) -> None:
    body = "q = Mul(a, a) s = ReduceSum(q) b = Sqrt(s)"
    norm = function(body, head="n (a) => (b)", opset=16)
    proto = model("(float[2,3] x) => (float[1,1] y) { y = f.n(x) }", norm, opset=opset)
    fused, report = fuse(proto)
    assert report.done == done
    for each in (proto, fused):
        onnx.checker.check_model(each, full_check=True)
    if not done:
        assert (
            "onnx's checker refuses ReduceSumSquare-13 in a function of a model of opset "
            f"{opset}"
        ) in report.candidates[0].reason


@pytest.mark.parametrize(("opset", "done"), [(18, 0), (19, 0), (21, 1), (22, 1)])
def test_what_onnx_checks_it_takes_as_nodes(opset: int, done: int) -> None:
    # Cast has versions 13, 19, 21 and 23.
    norm = function("b = ReduceL2(a)", head="n (a) => (b)", opset=22)
    proto = model("(float[2,3] x) => (float[1,1] y) { y = f.n(x) }", norm, opset=opset)
    expanded, report = expand(proto)
    assert report.done == done
    for each in (proto, expanded):
        onnx.checker.check_model(each, full_check=True)
    if not done:
        assert (
            f"onnx's checker refuses Cast-21 in a function of a model of opset {opset}"
        ) in report.candidates[0].reason


def test_an_output_without_a_name_is_no_axes() -> None:
    proto = model(
        "(float[2,3] x) => (y, d) { q = Abs(x) y = ReduceSum(q) d, k = Dropout(x) }"
    )
    proto.graph.node[1].input.append("")
    proto.graph.node[2].output[1] = ""
    assert fuse(proto)[1].done == 1


def test_a_type_that_the_sum_lacks_is_refused() -> None:
    proto = model("(int8[2,3] x) => (y) { s = Mul(x, x) y = ReduceSum(s) }")
    with pytest.raises(UnsupportedTypeError, match="int8, not allowed in ReduceSum-"):
        fuse(proto)


# --- expand


def normal(proto: onnx.ModelProto) -> bytes:
    """A model without what an expansion need not keep: the order of attributes, and
    attributes of no axes."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    stack = [copy.graph, *copy.functions]
    for body in stack:
        for node in body.node:
            kept = [
                attribute
                for attribute in node.attribute
                if attribute.name != "axes" or attribute.ints
            ]
            kept.sort(key=lambda attribute: attribute.name)
            sorted_ = onnx.NodeProto(attribute=kept)
            del node.attribute[:]
            node.attribute.extend(sorted_.attribute)
            stack.extend(a.g for a in node.attribute if a.HasField("g"))
    return copy.SerializeToString(deterministic=True)


@pytest.mark.parametrize("row", MADE, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("axes", "opset", "dtype"),
    [
        (axes, opset, dtype)
        for axes in AXES
        for opset in (1, 6, 7, 11, 13, 17, 18, 23)
        for dtype in ("float", "int32", "uint64", "bfloat16")
        if has_axes(axes, opset, 18)
        and (dtype == "float" or axes.endswith(("ttribute", "initializer")))
        and opset >= {"float": 1, "bfloat16": 13}.get(dtype, 6)
    ],
)
def test_fusing_what_was_expanded_gives_the_model_back(
    axes: str, opset: int, dtype: str, row: Reduction, rng: np.random.Generator
) -> None:
    form, values, noop = AXES[axes]
    x = rng.integers(-3 * (dtype != "uint64"), 4, SHAPE).astype(DTYPES[dtype])
    proto, feeds = reduce_model(
        x,
        opset=opset,
        axes=values,
        axes_form=form,
        noop_with_empty_axes=noop,
        operator=row.operator,
    )
    proto.graph.node[-1].name = "the last"
    expanded, report = expand(proto)
    assert report.done == 1
    casts = ["Cast", "Sqrt", "Cast"] if "int" in dtype else ["Sqrt"]
    assert [op for op in ops(expanded) if op != "Constant"] == [
        TERMS[MADE[row][0]][0],
        "ReduceSum",
        *(casts if row is L2 else ()),
    ]
    assert_same_bits(
        run_as_onnx_does(expanded, feeds, x.dtype), run_model(proto, feeds)["reduced"]
    )
    again, report = fuse(expanded)
    assert report.done == 1
    assert normal(again) == normal(proto)


def test_new_names_are_in_the_model_nowhere_yet() -> None:
    proto = model(
        """(float[2,3] x, bool c) => (y, "y.square") {
            [n] y = ReduceSumSquare<axes=[1]>(x) "y.square" = Neg(x)
            ["n.square"] z = If (c) < then_branch = t () => ("y.axes") {
                "y.axes" = ReduceSumSquare(x) },
                         else_branch = e () => (q) { q = Abs(x) }> }""",
        opset=13,
    )
    expanded, report = expand(proto)
    assert report.done == 2
    graph = expanded.graph
    assert [list(node.output) for node in graph.node] == [
        ["y.axes.1"],
        ["y.square.1"],
        ["y"],
        ["y.square"],
        ["z"],
    ]
    assert graph.node[1].name == "n.square.1"
    assert fuse(expanded)[0] == proto


@pytest.mark.parametrize(
    ("text", "opset", "words"),
    [
        (
            "(int32[2,3] x) => (y) { y = ReduceSumSquare(x) }",
            5,
            "Mul-1 has no type int32",
        ),
        (
            "(x) => (y) { y = ReduceSumSquare(x) }",
            1,
            "the type is unknown, and Mul-1 has no type int32 or int64 or uint32",
        ),
        (
            "(int64[2,3] x) => (y) { y = ReduceL1<axes=[0]>(x) }",
            4,
            "Abs-1 has no type int64",
        ),
        (
            "(x) => (y) { y = ReduceL2(x) }",
            14,
            "the type is unknown, and opset 14 has no CastLike",
        ),
        (
            "(float[2,3] x) => (y) { y = ReduceSum(x) }",
            18,
            "ONNX has no function body for ReduceSum",
        ),
        (
            "(float[2,3] x) => (y) { y = ReduceMean(x) }",
            11,
            "ONNX has no function body for ReduceMean",
        ),
    ],
)
def test_what_the_body_lacks_is_not_expanded(text: str, opset: int, words: str) -> None:
    proto = model(text, opset=opset)
    if "(x)" in text[:4]:
        proto.graph.input[0].ClearField("type")
    expanded, report = expand(proto)
    assert expanded == proto
    assert words in report.candidates[0].reason
    assert not report.candidates[0].done


def test_axes_that_a_call_may_leave_out_are_not_expanded() -> None:
    square = function(
        "b = ReduceSumSquare<axes: ints = @k>(a)", head="sq <k> (a) => (b)", opset=13
    )
    proto = model("(float[2,3] x) => (y) { y = f.sq(x) }", square)
    expanded, report = expand(proto)
    assert expanded == proto
    assert "a call, which may leave them out" in str(report)


@pytest.mark.parametrize("dtype", ["float16", "double", "int64", "uint32"])
def test_where_the_type_is_not_known_a_root_is_cast_as_the_data_is(dtype: str) -> None:
    norm = function("b = ReduceL2(a, k)", head="norm (a, k) => (b)", opset=18)
    text = "(x, int64[1] axes) => (y) { y = f.norm(x, axes) }"
    proto = model(text.replace("(x,", f"({dtype}[2,3] x,", 1), norm)
    expanded, _ = expand(proto)
    assert [node.op_type for node in expanded.functions[0].node] == [
        "Mul",
        "ReduceSum",
        "Cast",
        "Sqrt",
        "CastLike",
    ]
    feeds = {"x": np.array([[3, 4, 12], [8, 9, 12]], dtype), "axes": np.array([1])}
    for after in (expanded, fuse(expanded)[0]):
        assert_same_bits(run_model(after, feeds)["y"], np.array([[13], [17]], dtype))
    assert normal(fuse(expanded)[0]) == normal(proto)


def test_an_integer_root_is_the_exact_one_once_it_is_one_node() -> None:
    nodes = "q = Mul(x, x) s = ReduceSum<keepdims=0>(q) f = Cast<to=1>(s) r = Sqrt(f) "
    proto = model("(int32[N] x) => (y) { " + nodes + "y = CastLike(r, x) }")
    fused, report = fuse(proto)
    assert report.done == 1
    for elements, by_nodes, by_one in (
        # The sum wraps.
        ([2**16, 0], 0, 2**16),
        # The cast rounds the sum, 4098^2 - 1, up.
        ([4097, 90, 9, 3, 2], 4098, 4097),
        ([3, -4], 5, 5),
    ):
        x = np.array(elements, np.int32)
        assert run_as_onnx_does(proto, {"x": x}, x.dtype) == by_nodes
        assert run_model(fused, {"x": x})["y"] == by_one


# --- models of exporters


def names_of(pattern: str) -> list[Path]:
    found = sorted(EXPORTED.glob(pattern))
    assert found
    return found


@pytest.mark.parametrize("path", names_of("torch_*.onnx"), ids=lambda path: path.stem)
def test_models_of_pytorch(path: Path) -> None:
    proto = onnx.load(path)
    fused, report = fuse(path)
    onnx.checker.check_model(fused, full_check=True)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    want = run_model(proto, {"x": x})
    if "norm" in path.stem:  # ReduceL2
        assert report.candidates == ()
        return
    assert report.done == ("shared" not in path.stem)
    back, again = expand(fused)
    assert again.done == report.done
    onnx.checker.check_model(back, full_check=True)
    for after in (fused, back):
        for name, value in run_model(after, {"x": x}).items():
            assert_same_bits(value, want[name])


@pytest.mark.parametrize("opset", [11, 13])
def test_models_of_tensorflow(opset: int) -> None:
    # tf2onnx makes Mul(x, x) of Square: tf2onnx/onnx_opset/math.py in
    # github.com/onnx/tensorflow-onnx. Axes are constants before opset 13 and after.
    axes = "<axes=[1], keepdims=0>(s)" if opset < 13 else "<keepdims=0>(s, const_axes)"
    proto = model(
        "(float[2,3] x) => (Identity) <int64[1] const_axes = {1}> "
        f"{{ s = Mul(x, x) sum_0 = ReduceSum{axes} Identity = Identity(sum_0) }}",
        opset=opset,
    )
    fused, report = fuse(proto)
    assert report.done == 1
    assert ops(fused) == ["ReduceSumSquare", "Identity"]
    assert_same_bits(run_model(fused, {"x": DATA})["Identity"], np.float32([5, 50]))


@pytest.mark.parametrize(
    "path",
    [*names_of("skl2onnx_*.onnx"), *sorted((ROOT / "examples").glob("*.onnx"))],
    ids=lambda path: path.stem,
)
def test_models_of_scikit_learn_come_back_the_same(path: Path) -> None:
    proto = onnx.load(path)
    expanded, report = expand(path)
    assert report.done >= 1
    for candidate in report.candidates:
        assert candidate.done or "ONNX has no function body" in candidate.reason
    # Where a sum of squares had a root beside it, that is one node now.
    assert normal(fuse(expanded)[0]) == normal(fuse(proto)[0])
    onnx.checker.check_model(expanded, full_check=True)


# --- any graph


@st.composite
def graphs(draw: st.DrawFn) -> tuple[str, int]:
    """A graph of int64 values where squares, sums and other nodes mix."""
    opset = draw(st.sampled_from([12, 13, 17, 18]))
    values, lines = ["x"], []
    for i in range(draw(st.integers(1, 8))):
        a, b = draw(st.sampled_from(values)), draw(st.sampled_from(values[-2:]))
        one = "<axes=[0]>(" if opset < 13 else "("
        end = ")" if opset < 13 else ", zero)"
        lines.append(
            draw(
                st.sampled_from(
                    [
                        f"v{i} = Mul({a}, {a})",
                        f"v{i} = Pow({b}, two)",
                        f"v{i} = Abs({b})",
                        f"v{i} = Neg({a})",
                        f"v{i} = Add({a}, {b})",
                        f"v{i} = ReduceSum({b})",
                        f"v{i} = ReduceSum{one}{b}{end}",
                    ]
                )
            )
        )
        values.append(f"v{i}")
    outputs = draw(st.sets(st.sampled_from(values[1:]), min_size=1))
    outputs.add(values[-1])
    text = (
        f"(int64[2,3] x) => ({', '.join(sorted(outputs))}) "
        f"<int64 two = {{2}}, int64[1] zero = {{0}}> {{ {' '.join(lines)} }}"
    )
    return text, opset


@settings(max_examples=60)
@given(graphs())
def test_any_graph_means_the_same_afterwards(graph: tuple[str, int]) -> None:
    text, opset = graph
    proto = model(text, opset=opset)
    x = np.array([[3, -1, 2**31], [7, 0, -(2**40)]])
    fused, report = fuse(proto)
    back, again = expand(fused)
    assert again.done == report.done
    assert again.done == sum(ops(fused).count(row.operator) for row in MADE)
    before = run_model(proto, {"x": x})
    for after in (fused, back):
        results = run_model(after, {"x": x})
        assert list(results) == list(before)
        for name, want in before.items():
            assert_same_bits(results[name], want)


@st.composite
def graphs_of_floats(draw: st.DrawFn) -> tuple[str, int]:
    """A graph where all that may become one node mixes, its values none below 0."""
    opset = draw(st.sampled_from([12, 15, 18]))
    axes = "<axes=[0]>({})" if opset < 13 else "({}, zero)"
    parts = ["Mul({0}, {0})", "Abs({0})", "Sqrt({0})", "Add({0}, {1})", "Identity({0})"]
    parts += ["ReduceSum({0})", "ReduceMean({0})", f"ReduceSum{axes.format('{0}')}"]
    parts += ["ReduceSumSquare({0})", "ReduceL1({0})", "ReduceL2({0})"]
    values, lines = ["x"], []
    for i in range(draw(st.integers(1, 10))):
        last = draw(st.sampled_from(values[-2:]))
        part = draw(st.sampled_from(parts)).format(last, draw(st.sampled_from(values)))
        lines.append(f"v{i} = {part}")
        values.append(f"v{i}")
    outputs = draw(st.sets(st.sampled_from(values[1:]), max_size=2)) | {values[-1]}
    text = (
        f"(float[2,3] x) => ({', '.join(sorted(outputs))}) "
        f"<int64[1] zero = {{0}}> {{ {' '.join(lines)} }}"
    )
    return text, opset


@settings(max_examples=60)
@given(graphs_of_floats())
def test_any_graph_is_made_of_the_same_nodes_afterwards(graph: tuple[str, int]) -> None:
    text, opset = graph
    proto = model(text, opset=opset)
    fused, _ = fuse(proto)
    assert not any(candidate.done for candidate in fuse(fused)[1].candidates)
    feeds = {"x": np.float32([[0.3, 1.7, 0], [2.9, 0.01, 11]])}
    before = run_model(expand(proto)[0], feeds)
    after = run_model(expand(fused)[0], feeds)
    assert list(after) == list(before)
    for name, want in before.items():
        assert_same_bits(after[name], want)


# --- report and command line


def test_a_report_can_be_read_and_be_json() -> None:
    proto = model("(float[2,3] x) => (y, s) { s = Mul(x, x) y = ReduceSum(s) }")
    _, report = fuse(proto)
    assert isinstance(report, RewriteReport)
    assert str(report) == (
        "fused 0 of 1\nnode #1 (output 'y'): not fused, the square 's' is an output of "
        "its graph"
    )
    assert json.loads(json.dumps(report.as_dict())) == {
        "action": "fused",
        "done": 0,
        "candidates": [
            {
                "node": "node #1 (output 'y')",
                "done": False,
                "reason": "the square 's' is an output of its graph",
            }
        ],
    }


def test_a_broken_model_is_refused() -> None:
    proto = model("(float[2,3] x) => (y) { s = Mul(z, z) y = ReduceSum(s) }")
    for rewrite in (fuse, expand):
        with pytest.raises(ModelError, match="input 'z' is not defined"):
            rewrite(proto)


def test_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    path = EXPORTED / "torch_shared_18.onnx"
    assert main(["fuse", str(path), "-o", "same.onnx"]) == 0
    out, err = capsys.readouterr()
    assert err == "wrote same.onnx\n"
    assert "node 'node_sum_1'" in out
    assert "is an output of its" in out
    assert "fused 0 of 1\n" in out
    assert onnx.load("same.onnx") == onnx.load(path)
    path = EXPORTED / "torch_pow_13.onnx"
    assert main(["fuse", str(path), "-o", "fused.onnx", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["output"] == "fused.onnx"
    assert (facts["action"], facts["done"]) == ("fused", 1)
    assert onnx.load("fused.onnx") == fuse(path)[0]
    assert main(["expand", "fused.onnx", "-o", "expanded.onnx"]) == 0
    assert "expanded 1 of 1\n" in capsys.readouterr().out
    assert onnx.load("expanded.onnx") == expand("fused.onnx")[0]
    assert main(["fuse", str(path), "-o", "none/x.onnx"]) == 2
    assert "does not exist" in capsys.readouterr().err
    Path("broken.onnx").write_bytes(b"no model")
    assert main(["expand", "broken.onnx", "-o", "x.onnx"]) == 2
    assert not Path("x.onnx").exists()


def test_verifying_roots_of_integers_tells_how_many_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "norm.onnx", tmp_path / "nodes.onnx"
    proto = model("(int32[3,4] x) => (int32[1,4] y) { y = ReduceL2(x, zero) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "zero"))
    onnx.save(proto, path)
    assert main(["expand", str(path), "-o", str(out), "--verify"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Mul, ReduceSum, Cast, Sqrt and Cast" in "\n".join(lines)
    # Their squares wrap where the inputs are as large as can be.
    assert re.fullmatch(r"  output 'y': \d+ of 24 elements have the same bits", lines[-1])


def test_overloads_are_told_apart() -> None:
    head = '<domain: "f", opset_import: ["" : 18], overload: "{}"> n (a) => (b)'
    proto = model(
        "(float[2] x) => (y, z) { y = f.n:one(x) z = f.n:two(x) }",
        head.format("one") + "{ q = Mul(a, a) s = ReduceSum(q) b = Sqrt(s) }",
        head.format("two") + "{ q = Abs(a) b = ReduceSum(q) }",
    )
    proto.ir_version = 10
    fused, report = fuse(proto)
    assert str(report).splitlines() == [
        "fused 2 of 2",
        "function 'n' (overload 'one') > node #2 (output 'b'): fused, Mul, ReduceSum and "
        "Sqrt",
        "function 'n' (overload 'two') > node #1 (output 'b'): fused, Abs and ReduceSum",
    ]
    feeds = {"x": np.float32([3, -4])}
    for after in (proto, fused, expand(fused)[0], convert_opset(fused, 13)):
        got = run_model(after, feeds)
        assert (got["y"], got["z"]) == (5, 7)


def test_what_a_quantization_annotation_names_stays() -> None:
    proto = model(
        """(float[2,3] x) => (y) <float two = {2}, int64[1] last = {-1}> {
            square = Pow(x, two) y = ReduceSum<keepdims=0>(square, last) }"""
    )
    annotation = proto.graph.quantization_annotation.add(tensor_name="y")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="two")
    fused, report = fuse(proto)
    assert report.done == 1
    assert "two" in [tensor.name for tensor in fused.graph.initializer]
    annotation.tensor_name = "square"
    kept, report = fuse(proto)
    assert report.done == 0
    assert [node.op_type for node in kept.graph.node] == ["Pow", "ReduceSum"]
