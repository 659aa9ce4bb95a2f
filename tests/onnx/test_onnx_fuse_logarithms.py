"""fuse and expand know logarithms of sums, log-sum-exp, and what shifts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from halfulp.onnx import expand, fuse, run_model
from halfulp.reductions import LOG_SUM, LOG_SUM_EXP, MAX, MIN, PROD, Reduction
from onnx_models import DTYPES, model, reduce_model
from oracle import assert_same_bits, expected_of

# Log-sum-exp as people write it: nodes, and the dimensions that the result keeps.
SUMMED = "d = Sub(x, m) e = Exp(d) s = ReduceSum<keepdims={k}>(e, a) l = Log(s)"
WRITTEN = {
    "plain": "e = Exp(x) s = ReduceSum<keepdims=0>(e, a) y = Log(s)",
    "squeezed maximum": "m = ReduceMax(x, a) "
    + SUMMED.format(k=0)
    + " q = Squeeze(m, a) y = Add(l, q)",
    "two maxima": "m = ReduceMax(x, a) "
    + SUMMED.format(k=0)
    + " q = ReduceMax<keepdims=0>(x, a) y = Add(q, l)",
    "unsqueezed maximum": "q = ReduceMax<keepdims=0>(x, a) m = Unsqueeze(q, a) "
    + SUMMED.format(k=0)
    + " y = Add(q, l)",
    "squeezed at last": "m = ReduceMax(x, a) "
    + SUMMED.format(k=1)
    + " w = Add(l, m) y = Squeeze(w, a)",
    "in double": "c = Cast<to=11>(x) e = Exp(c) s = ReduceSum<keepdims=0>(e, a) "
    "l = Log(s) y = CastLike(l, x)",
    "shifted in double": "c = Cast<to=11>(x) m = ReduceMax(c, a) d = Sub(c, m) "
    "e = Exp(d) s = ReduceSum<keepdims=0>(e, a) l = Log(s) q = Squeeze(m, a) "
    "w = Add(l, q) y = Cast<to=1>(w)",
}


def written(nodes: str, opset: int = 18, dtype: str = "float") -> onnx.ModelProto:
    """A model of rows that are reduced along their last axis."""
    text = f"({dtype}[N,4] x) => ({dtype}[N] y) <int64[1] a = {{1}}, int64[1] b = {{0}}>"
    if opset < 13:
        nodes = nodes.replace(", a)", ")").replace(
            "<keepdims=0>(", "<axes=[1],keepdims=0>("
        )
        nodes = nodes.replace("ReduceMax(", "ReduceMax<axes=[1]>(")
        nodes = nodes.replace("Squeeze(", "Squeeze<axes=[1]>(")
    elif opset < 18:
        nodes = nodes.replace("ReduceMax(x, a)", "ReduceMax<axes=[1]>(x)")
        nodes = nodes.replace("ReduceMax(c, a)", "ReduceMax<axes=[1]>(c)")
        old = "ReduceMax<keepdims=0>(x, a)"
        nodes = nodes.replace(old, "ReduceMax<axes=[1],keepdims=0>(x)")
    return model(f"{text} {{ {nodes} }}", opset=opset)


def ops(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


@pytest.mark.parametrize("opset", [13, 17, 18, 28])
@pytest.mark.parametrize("how", WRITTEN)
def test_log_sum_exp_becomes_one_node(
    how: str, opset: int, rng: np.random.Generator
) -> None:
    if "double" in how and opset < 15:
        return  # without CastLike
    proto = written(WRITTEN[how], opset)
    fused, report = fuse(proto)
    last = ["Squeeze"] if how == "squeezed at last" else []
    assert ops(fused) == ["ReduceLogSumExp", *last]
    assert (report.done, len(report.candidates)) == (1, 1)
    onnx.checker.check_model(fused, full_check=True)
    x = np.concatenate([8 * rng.standard_normal((50, 4)), [[300.0] * 4, [-200.0] * 4]])
    x = x.astype(np.float32)
    got = run_model(fused, {"x": x})["y"]
    assert_same_bits(got, expected_of(LOG_SUM_EXP, x, 1))
    some = got[:50]
    nodes = run_model(proto, {"x": x})["y"][:50]
    np.testing.assert_allclose(nodes, some, rtol=1e-6, atol=1e-5)


def test_log_sum_exp_of_old_opsets() -> None:
    for how in ("plain", "squeezed maximum", "two maxima"):
        fused, _ = fuse(written(WRITTEN[how], 11))
        assert ops(fused) == ["ReduceLogSumExp"]
        assert list(fused.graph.node[0].attribute[0].ints or [1]) == [1]


def test_the_report_names_all_nodes() -> None:
    _, report = fuse(written(WRITTEN["squeezed maximum"]))
    said = "ReduceMax, Squeeze, Sub, Exp, ReduceSum, Log and Add"
    assert str(report) == f"fused 1 of 1\nnode #6 (output 'y'): fused, {said}"


# What is nearly log-sum-exp: nodes, operators afterwards, words of a report.
SHIFT = "m = ReduceMax(x, a) "
NEARLY: dict[str, tuple[str, list[str], str]] = {
    "an exponential that is read elsewhere": (
        "e = Exp(x) s = ReduceSum<keepdims=0>(e, a) l = Log(s) "
        "r = ReduceSum<keepdims=0>(e, a) y = Add(l, r)",
        ["Exp", "ReduceLogSum", "ReduceSum", "Add"],
        "fused, ReduceSum and Log",
    ),
    "a difference that is read elsewhere": (
        SHIFT + SUMMED.format(k=0) + " q = Squeeze(m, a) w = Add(l, q) "
        "z = ReduceMin<keepdims=0>(d, a) y = Add(w, z)",
        ["ReduceMax", "Sub", "ReduceLogSumExp", "Squeeze", "Add", "ReduceMin", "Add"],
        "the difference 'd' is read elsewhere too",
    ),
    "a maximum that is read elsewhere stays": (
        SHIFT + SUMMED.format(k=0) + " q = Squeeze(m, a) w = Add(l, q) "
        "z = Neg(q) y = Add(w, z)",
        ["ReduceMax", "Squeeze", "ReduceLogSumExp", "Neg", "Add"],
        "fused, ReduceMax, Squeeze, Sub, Exp, ReduceSum, Log and Add",
    ),
    "a maximum along another axis": (
        "m = ReduceMax(x, b) "
        + SUMMED.format(k=1)
        + " w = Add(l, m) y = ReduceMax<keepdims=0>(w, a)",
        ["ReduceMax", "Sub", "ReduceLogSumExp", "Add", "ReduceMax"],
        "the maximum is perhaps of other axes",
    ),
    "a maximum that keeps what the sum does not": (
        SHIFT + SUMMED.format(k=0) + " w = Add(l, m) y = ReduceMax<keepdims=0>(w, a)",
        ["ReduceMax", "Sub", "ReduceLogSumExp", "Add", "ReduceMax"],
        "the maximum is perhaps of other axes or shape",
    ),
    "the maximum of something else": (
        "n = Neg(x) m = ReduceMax(n, a) "
        + SUMMED.format(k=0)
        + " q = Squeeze(m, a) y = Add(l, q)",
        ["Neg", "ReduceMax", "Sub", "ReduceLogSumExp", "Squeeze", "Add"],
        "fused, Exp, ReduceSum and Log",
    ),
    "the minimum": (
        "m = ReduceMin(x, a) " + SUMMED.format(k=0) + " q = Squeeze(m, a) y = Add(l, q)",
        ["ReduceMin", "Sub", "ReduceLogSumExp", "Squeeze", "Add"],
        "fused, Exp, ReduceSum and Log",
    ),
    "another base": (
        "t = Exp(x) e = Mul(t, t) s = ReduceSum<keepdims=0>(e, a) y = Log(s)",
        ["Exp", "ReduceSumSquare", "Log"],
        "fused, Mul and ReduceSum",
    ),
    "a mean": (
        "e = Exp(x) s = ReduceMean<keepdims=0>(e, a) y = Log(s)",
        ["Exp", "ReduceMean", "Log"],
        "fused 0 of 0",
    ),
    "a maximum of magnitudes": (
        "e = Abs(x) y = ReduceMax<keepdims=0>(e, a)",
        ["Abs", "ReduceMax"],
        "fused 0 of 0",
    ),
    "a product of squares": (
        "e = Mul(x, x) y = ReduceProd<keepdims=0>(e, a)",
        ["Mul", "ReduceProd"],
        "fused 0 of 0",
    ),
}


@pytest.mark.parametrize("case", NEARLY)
def test_what_is_nearly_log_sum_exp_keeps_its_meaning(
    case: str, rng: np.random.Generator
) -> None:
    nodes, after, words = NEARLY[case]
    proto = written(nodes)
    fused, report = fuse(proto)
    assert ops(fused) == after
    assert words in str(report)
    x = rng.standard_normal((4, 4)).astype(np.float32)
    want = run_model(proto, {"x": x})["y"]
    got = run_model(fused, {"x": x})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_an_output_in_between_stays() -> None:
    text = "(float[N,4] x) => (float[N] y, float[N,4] e) <int64[1] a = {1}>"
    proto = model(f"{text} {{ e = Exp(x) s = ReduceSum<keepdims=0>(e, a) y = Log(s) }}")
    fused, _ = fuse(proto)
    assert ops(fused) == ["Exp", "ReduceLogSum"]


def test_two_that_share_a_maximum_are_both_fused() -> None:
    nodes = (
        "m = ReduceMax(x, a) q = Squeeze(m, a) d = Sub(x, m) e = Exp(d) "
        "s = ReduceSum<keepdims=0>(e, a) l = Log(s) v = Add(l, q) "
        "d2 = Sub(x, m) e2 = Exp(d2) s2 = ReduceSum<keepdims=0>(e2, a) l2 = Log(s2) "
        "w = Add(q, l2) y = Add(v, w)"
    )
    fused, report = fuse(written(nodes))
    assert ops(fused) == ["ReduceLogSumExp", "ReduceLogSumExp", "Add"]
    assert report.done == 2


def test_axes_of_run_time_are_the_same_if_their_name_is() -> None:
    text = "(float[N,4] x, int64[1] a) => (float[N] y)"
    nodes = WRITTEN["squeezed maximum"]
    fused, _ = fuse(model(f"{text} {{ {nodes} }}"))
    assert ops(fused) == ["ReduceLogSumExp"]
    assert list(fused.graph.node[0].input) == ["x", "a"]


def test_a_narrowing_cast_is_no_part() -> None:
    text = "(double[N,4] x) => (double[N] y) <int64[1] a = {1}>"
    nodes = (
        "c = Cast<to=1>(x) e = Exp(c) s = ReduceSum<keepdims=0>(e, a) l = Log(s) "
        "y = Cast<to=11>(l)"
    )
    fused, _ = fuse(model(f"{text} {{ {nodes} }}"))
    assert ops(fused) == ["Cast", "ReduceLogSumExp", "Cast"]


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float", "double"])
@pytest.mark.parametrize("opset", [1, 6, 7, 13, 18, 28])
@pytest.mark.parametrize("row", [LOG_SUM, LOG_SUM_EXP], ids=lambda row: row.name)
def test_fusing_what_was_expanded_gives_the_node_back(
    row: Reduction, opset: int, name: str, rng: np.random.Generator
) -> None:
    if name not in row.version_for(opset).types:
        return
    x = rng.uniform(1, 4, (3, 5)).astype(DTYPES[name])
    form = "const" if row.version_for(opset).axes == "input" else "attr"
    proto, feeds = reduce_model(
        x, opset=opset, axes=[1], axes_form=form, keepdims=0, operator=row.operator
    )
    expanded, report = expand(proto)
    if row is LOG_SUM_EXP and opset < 6 and name != "double":
        assert "opset 1 has no Cast to a type told by number" in str(report)
        return
    parts = ["Exp", "ReduceSum", "Log"] if row is LOG_SUM_EXP else ["ReduceSum", "Log"]
    if row is LOG_SUM_EXP and name != "double":
        parts = ["Cast", *parts, "Cast"]
    assert [op for op in ops(expanded) if op != "Constant"] == parts
    if name != "bfloat16" or opset >= 13:
        got = run_model(expanded, feeds)["reduced"].astype(float)
        want = run_model(proto, feeds)["reduced"].astype(float)
        np.testing.assert_allclose(got, want, rtol=2.0**-6)
    again, report = fuse(expanded)
    assert report.done == 1
    assert ops(again) == [row.operator]
    assert_same_bits(
        run_model(again, feeds)["reduced"], run_model(proto, feeds)["reduced"]
    )


@pytest.mark.parametrize(
    ("row", "dtype", "words"),
    [
        (MAX, "float", "ONNX has no function body for ReduceMax"),
        (MIN, "int8", "ONNX has no function body for ReduceMin"),
        (PROD, "double", "ONNX has no function body for ReduceProd"),
        (LOG_SUM, "int32", "int32 has no number for the logarithm of 0"),
        (LOG_SUM_EXP, "uint64", "uint64 has no number for the logarithm of 0"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_what_has_no_body_says_so(row: Reduction, dtype: str, words: str) -> None:
    proto = model(f"({dtype}[2,3] x) => ({dtype}[1,1] y) {{ y = {row.operator}(x) }}")
    expanded, report = expand(proto)
    assert expanded == proto
    assert words in str(report)


def test_a_logarithm_in_a_function_of_unknown_type() -> None:
    for opset, words in ((18, "the type is unknown, and int32"), (28, "expanded 1 of 1")):
        text = f"""<ir_version: 10, opset_import: ["" : {opset}, "f" : 1]>
            g (float[2,3] x) => (y) {{ y = f.l(x) }}
            <domain: "f", opset_import: ["" : {opset}]> l (a) => (b)
            {{ b = ReduceLogSum(a) }}"""
        _, report = expand(onnx.parser.parse_model(text))
        assert words in str(report)


@pytest.mark.parametrize("x", [[-np.inf, -np.inf], [1e4, 1e4], [-1e4, -1e4]])
def test_what_nodes_cannot_hold_one_node_can(x: Any) -> None:
    proto = written(WRITTEN["squeezed maximum"].replace("[N,4]", "[N,2]"))
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2
    data = np.array([x], np.float32)
    fused, _ = fuse(proto)
    got = run_model(fused, {"x": data})["y"]
    assert_same_bits(got, expected_of(LOG_SUM_EXP, data, 1))
    with np.errstate(invalid="ignore"):
        nodes = run_model(proto, {"x": data})["y"]
    assert np.isnan(nodes[0]) == np.isinf(x[0])


# --- models of exporters

STORED = Path(__file__).parents[1] / "stored"
LOGITS = sorted((STORED / "exported").glob("logits_*.onnx"))
TRAINED = [
    path
    for path in sorted((STORED / "models").glob("*.onnx"))
    if "ReduceLogSumExp" in ops(onnx.load(path))
]


@pytest.mark.parametrize("path", LOGITS, ids=lambda path: path.stem)
def test_cross_entropy_and_attention_of_pytorch(path: Path) -> None:
    proto = onnx.load(path)
    fused, report = fuse(path)
    onnx.checker.check_model(fused, full_check=True)
    assert report.done == len(report.candidates) == ("logsumexp" not in path.stem)
    assert ops(fused).count("ReduceLogSumExp") == 1
    assert not {"ReduceMax", "ReduceSum", "Log", "Squeeze"} & {*ops(fused)}
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 16
    wanted = run_model(proto, {proto.graph.input[0].name: x})
    for name, value in run_model(fused, {proto.graph.input[0].name: x}).items():
        np.testing.assert_allclose(value, wanted[name], rtol=2e-6)
        if "partition" in path.stem:
            assert_same_bits(value, expected_of(LOG_SUM_EXP, x, (1, 2)))
    expanded, again = expand(fused)
    assert again.done == 1
    onnx.checker.check_model(expanded, full_check=True)
    assert ops(fuse(expanded)[0]) == ops(fused)


def test_mixtures_and_bayes_of_scikit_learn_come_back_the_same() -> None:
    assert {path.stem.rpartition("_")[0] for path in TRAINED} == {
        "bernoulli_nb",
        "gaussian_mixture",
        "gaussian_nb",
        "multinomial_nb",
    }
    for path in TRAINED:
        expanded, report = expand(path)
        assert "Cast, Exp, ReduceSum, Log and Cast" in str(report)
        onnx.checker.check_model(expanded, full_check=True)
        fused, _ = fuse(expanded)
        assert ops(fused).count("ReduceLogSumExp") == 1
        assert "Log" not in ops(fused) or "bernoulli" in path.stem
