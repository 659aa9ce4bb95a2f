"""check_model lists every node, every error that a run would raise, and what to fix."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from bad_nodes import NODES
from halfulp import HalfulpError, ModelError
from halfulp.cli import main
from halfulp.onnx import check_model, expand, fuse, run_model
from halfulp.onnx.check import findings
from halfulp.onnx.model_check import CheckReport
from halfulp.reductions import BY_OPERATOR, LOG_SUM, SUMS, Reduction
from onnx_models import (
    DATA,
    DTYPES,
    function,
    model,
    reduce_model,
    report_model,
    reports,
)


def codes(report: CheckReport) -> list[str]:
    return [finding.code for finding in report.findings]


def messages(report: CheckReport, severity: str = "error") -> list[str]:
    return [f.message for f in report.findings if f.severity == severity]


# Shape, opset, axes, where they are, noop; the meaning, and the shape of the output.
MEANINGS: list[tuple[list[Any], int, Any, str, int | None, str, Any]] = [
    ([2, 3, 4], 18, None, "absent", None, "reduces axes 0, 1, 2 of rank 3, all", [1] * 3),
    ([2, 3, 4], 18, [], "const", 1, "reduces none: every element is squared", [2, 3, 4]),
    ([2, 3, 4], 13, [-1], "attr", None, "reduces axis 2 of rank 3", [2, 3, 1]),
    (["N", None], 18, [-2], "node", 1, "reduces axis 0 of rank 2", [1, None]),
    (["N", 1], 18, [1], "input", None, "known at run time only; empty ones reduce all",
     [None, 1]),
    (["N", 1], 18, [1], "default", 1, "known at run time only; empty ones reduce none",
     [None, 1]),
    ([], 11, None, "absent", None, "reduces none: a scalar is squared", []),
]  # fmt: skip


@pytest.mark.parametrize("case", MEANINGS, ids=lambda case: f"{case[2:5]}")
def test_what_axes_mean_in_words(case: Any) -> None:
    shape, opset, axes, form, noop, meaning, output = case
    proto, _ = reduce_model(
        np.zeros((1,) * len(shape), np.float32),
        opset=opset,
        axes=axes,
        axes_form=form,
        noop_with_empty_axes=noop,
    )
    declared = onnx.helper.make_tensor_value_info("data", 1, shape)
    proto.graph.input[0].CopyFrom(declared)
    (facts,) = check_model(proto).nodes
    assert facts.axes_meaning == meaning
    assert facts.input_shape == tuple(shape)
    assert facts.output_shape == tuple(output)
    assert facts.element_type == "float"
    assert facts.opset == opset
    assert facts.axes == (None if form in ("input", "default") else tuple(axes or ()))


def test_axes_of_unknown_rank() -> None:
    for axes, meaning in (
        ("[0, 1]", "reduces axes 0, 1 of unknown rank"),
        ("[-1]", "reduces axis -1 of unknown rank, negative ones from the end"),
        ("[]", "reduces all"),
    ):
        proto = model("(float x) => (y) { r = com.foo.Bar(x) y = ReduceSumSquare(r) }")
        proto.opset_import[0].version = 13
        proto.opset_import.append(onnx.helper.make_opsetid("com.foo", 1))
        values = json.loads(axes)
        proto.graph.node[1].attribute.add(name="axes", type="INTS", ints=values)
        (facts,) = check_model(proto).nodes
        assert facts.axes_meaning == meaning
        assert (facts.element_type, facts.input_shape) == (None, None)
        assert facts.output_shape is None


@pytest.mark.parametrize("case", NODES)
def test_the_errors_are_those_of_a_run(case: str) -> None:
    node, opset, error, _ = NODES[case]
    proto = model(
        "(float[2,3] x) => (y) <int64[1] a = {1}, int64[1] far = {-3}, "
        f"int32[1] short = {{1}}, int64 scalar = {{1}}> {{ i = Identity(x) y = {node} }}",
        opset=opset,
    )
    with pytest.raises(error) as info:
        run_model(proto, {"x": DATA})
    if opset == 0:
        with pytest.raises(ModelError, match="opset 0"):
            check_model(proto)
        return
    report = check_model(proto)
    assert report.errors == 1
    (finding,) = (f for f in report.findings if f.severity == "error")
    assert str(info.value).startswith(finding.node)
    assert str(info.value).endswith(f": {finding.message}")
    (facts,) = report.nodes
    assert facts.node == finding.node == "node #1 (output 'y')"


@pytest.mark.parametrize("case", reports("reject"), ids=lambda case: case["id"])
def test_public_reports_are_errors(case: dict[str, Any]) -> None:
    proto, _ = report_model(case)
    report = check_model(proto)
    want = {
        "ort14678_rank0_axis0": "axes",
        "pt104190_axes_attr_at_18": "node-form",
        "ort2848_bool_or_int8": "element-type",
    }
    assert codes(report) == [want[case["id"]]]
    assert report.errors == 1


@pytest.mark.parametrize("case", reports("run"), ids=lambda case: case["id"])
def test_public_reports_that_run_have_no_errors(case: dict[str, Any]) -> None:
    proto, feeds = report_model(case)
    report = check_model(proto)
    assert report.errors == 0
    (result,) = run_model(proto, feeds).values()
    output = report.nodes[0].output_shape
    assert output is None or len(output) == result.ndim
    for known, size in zip(output or (), result.shape, strict=False):
        assert known in (None, size)


# A node of the input x, of a type and shape; the opset, and the warnings.
WARNINGS = {
    "none": ("float[2,3]", "ReduceSumSquare(x, one)", 18, []),
    "bfloat16": ("bfloat16[2]", "ReduceSumSquare(x)", 13, ["no-onnxruntime-kernel"]),
    "uint32": ("uint32[2]", "ReduceSumSquare(x)", 13, ["no-onnxruntime-kernel"]),
    "uint64": ("uint64[2]", "ReduceSumSquare(x)", 1, ["no-onnxruntime-kernel"]),
    "int32": ("int32[2]", "ReduceSumSquare(x)", 18, ["integer-overflow"]),
    "int64": ("int64[2]", "ReduceSumSquare(x)", 18, ["integer-overflow"]),
    "float16 at 5": ("float16[2]", "ReduceSumSquare(x)", 5, ["float16-before-opset-6"]),
    "float16 at 6": ("float16[2]", "ReduceSumSquare(x)", 6, []),
    "few float16": ("float16[2,255]", "ReduceSumSquare(x, one)", 18, []),
    "many float16": (
        "float16[2,256]",
        "ReduceSumSquare(x, one)",
        18,
        ["float16-overflow"],
    ),
    "all float16": ("float16[16,16]", "ReduceSumSquare(x)", 18, ["float16-overflow"]),
    "any float16": ("float16[2,N]", "ReduceSumSquare(x, one)", 18, ["float16-overflow"]),
    "known float16": ("float16[N,2]", "ReduceSumSquare(x, one)", 18, []),
    "negative at 10": (
        "float[2,3]",
        "ReduceSumSquare<axes=[-1]>(x)",
        10,
        ["negative-axes"],
    ),
    "negative at 11": ("float[2,3]", "ReduceSumSquare<axes=[-1]>(x)", 11, []),
    "repeated": ("float[2,3]", "ReduceSumSquare<axes=[1,1]>(x)", 13, ["duplicate-axes"]),
    "repeated from the end": (
        "float[2,3]",
        "ReduceSumSquare<axes=[1,0,-1]>(x)",
        13,
        ["duplicate-axes"],
    ),
    "noop": (
        "float[2,3]",
        "ReduceSumSquare<noop_with_empty_axes=1>(x)",
        18,
        ["noop-with-empty-axes"],
    ),
    "noop with axes": (
        "float[2,3]",
        "ReduceSumSquare<noop_with_empty_axes=1>(x, one)",
        18,
        [],
    ),
    "run time": ("float[2,3]", "ReduceSumSquare(x, a)", 18, ["runtime-axes"]),
    "noop at run time": (
        "float[2,3]",
        "ReduceSumSquare<noop_with_empty_axes=1>(x, a)",
        18,
        ["runtime-axes", "noop-with-empty-axes"],
    ),
}
for _operator, _few, _code in (
    ("ReduceSum", 4094, "float16-overflow"),
    ("ReduceMean", 4094, "float16-intermediate"),
    ("ReduceL1", 4094, "float16-overflow"),
    ("ReduceL2", 255, "float16-intermediate"),
):
    _noop = [] if BY_OPERATOR[_operator].term == "value" else ["noop-with-empty-axes"]
    WARNINGS |= {
        f"{_operator} {name}": (type_, f"{_operator}{node}", opset, codes)
        for name, type_, node, opset, codes in (
            ("few float16", f"float16[2,{_few}]", "(x, one)", 18, []),
            ("many float16", f"float16[2,{_few + 1}]", "(x, one)", 18, [_code]),
            ("any float16", "float16[2,N]", "(x, one)", 18, [_code]),
            ("float16 at 5", "float16[2]", "(x)", 5, ["float16-before-opset-6"]),
            ("bfloat16", "bfloat16[2]", "(x)", 13, ["no-onnxruntime-kernel"]),
            ("int32", "int32[2]", "(x)", 11, ["integer-overflow"]),
            ("int64", "int64[2]", "(x)", 18, ["integer-overflow"]),
            ("negative", "float[2,3]", "<axes=[-1]>(x)", 10, ["negative-axes"]),
            ("repeated", "float[2,3]", "<axes=[1,-1]>(x)", 11, ["duplicate-axes"]),
            ("run time", "float[2,3]", "(x, a)", 18, ["runtime-axes"]),
            ("noop", "float[2,3]", "<noop_with_empty_axes=1>(x)", 18, _noop),
        )
    }
WARNINGS |= {
    f"{operator} {name}": (type_, f"{operator}{node}", opset, codes)
    for operator, name, type_, node, opset, codes in (
        ("ReduceProd", "few float16", "float16[2,3]", "(x, one)", 18, []),
        ("ReduceProd", "many", "float16[2,4]", "(x, one)", 18, ["float16-overflow"]),
        ("ReduceProd", "any", "float16[2,N]", "(x, one)", 18, ["float16-overflow"]),
        ("ReduceProd", "int64", "int64[2]", "(x)", 13, ["integer-overflow"]),
        ("ReduceLogSum", "int32", "int32[2]", "(x)", 18, ["integer-logarithm"]),
        ("ReduceLogSumExp", "int64", "int64[2]", "(x)", 18, ["integer-logarithm"]),
        ("ReduceLogSumExp", "bfloat16", "bfloat16[2]", "(x)", 18, []),
        ("ReduceMax", "int64", "int64[2]", "(x)", 18, []),
        ("ReduceMin", "bool", "bool[2]", "(x)", 20, []),
        ("ReduceMax", "bfloat16", "bfloat16[2]", "(x)", 13, ["no-onnxruntime-kernel"]),
    )
}


def warned(case: str) -> CheckReport:
    type_, node, opset, _ = WARNINGS[case]
    text = f"({type_} x, int64[K] a) => (y) <int64[1] one = {{1}}> {{ y = {node} }}"
    return check_model(model(text, opset=opset))


@pytest.mark.parametrize("case", WARNINGS)
def test_what_is_not_portable_is_a_warning(case: str) -> None:
    report = warned(case)
    assert codes(report) == WARNINGS[case][3]
    assert (report.errors, report.warnings) == (0, len(WARNINGS[case][3]))
    for finding in report.findings:
        assert finding.severity == "warning"
        assert finding.node == report.nodes[0].node
        assert finding.fix.endswith(".")


def test_warnings_say_what_to_write() -> None:
    (finding,) = warned("many float16").findings
    assert "from a root mean square of 16 on the result is infinite" in finding.message
    (finding,) = warned("ReduceL2 many float16").findings
    assert "from a root mean square of 16 on, runtimes that keep the" in finding.message
    (finding,) = warned("ReduceMean any float16").findings
    assert "from a mean of ±65520 / their number on, runtimes" in finding.message
    (finding,) = warned("ReduceL1 noop").findings
    assert finding.message.startswith("with empty axes every element is made positive")
    assert finding.fix == "Say it with Abs(data)."
    (finding,) = warned("negative at 10").findings
    assert finding.fix == "Write [1], or: halfulp convert MODEL --opset 11 -o OUT."
    (finding,) = warned("repeated from the end").findings
    assert finding.fix == "Write [0, 1]."


@pytest.mark.parametrize("row", [*SUMS, LOG_SUM], ids=lambda row: row.name)
def test_float16_overflows_where_the_warning_begins(row: Reduction) -> None:
    """In the result, or in onnx's evaluator where that keeps the sum in float16."""
    warned_from = 256 if row.term == "square" else 4095
    for count in (warned_from - 1, warned_from):
        data = np.full((1, count), 16, np.float16)
        proto, feeds = reduce_model(data, operator=row.operator, opset=11)
        with np.errstate(over="ignore"):
            plain = ReferenceEvaluator(proto).run(None, feeds)[0].item()
        (ours,) = run_model(proto, feeds).values()
        assert np.isinf(plain) == (count == warned_from)
        assert np.isinf(ours.item()) == (np.isinf(plain) and row.finish == "none")


def test_the_codes_are_documented() -> None:
    text = check_model.__doc__ or ""
    documented = re.findall(r"^ {4}([a-z0-9]+(?:-[a-z0-9]+)+|axes) ", text, re.M)
    found = {code for case in WARNINGS.values() for code in case[3]}
    found |= {"element-type", "axes", "attribute-value", "node-form", "invalid-node"}
    found.add("unsorted-nodes")
    assert set(documented) == found
    room = Path(findings.__file__).parent
    source = "".join(file.read_text() for file in room.glob("*.py"))
    assert all(source.count(f'"{code}"') for code in found)


def test_every_error_is_listed() -> None:
    proto = model(
        """(float[2,3] x, bfloat16[2] h, int8[2] i) => (a, b, c, d, e, g, j)
            <int64[1] far = {5}> {
            a = ReduceSumSquare<keepdims=2>(x)
            b = ReduceSumSquare(x, far)
            c = ReduceSumSquare(i)
            d = ReduceSumSquare(gone)
            e = Relu<beta=1>(x)
            g = f.sq(h)
            j = If (k) < then_branch = t () => (p) { p = ReduceSumSquare<axes=[1]>(x) },
                         else_branch = l () => (q) { q = ReduceSumSquare(x) }> }""",
        function("b = ReduceSumSquare(a)", head="sq (a) => (b)", opset=11),
    )
    report = check_model(proto)
    assert [(f.node, f.code) for f in report.findings if f.severity == "error"] == [
        ("node #0 (output 'a')", "attribute-value"),
        ("node #6 (output 'j') > then_branch > node #0 (output 'p')", "node-form"),
        ("node #1 (output 'b')", "axes"),
        ("node #2 (output 'c')", "element-type"),
        ("node #5 (output 'g') > function 'sq' > node #0 (output 'b')", "element-type"),
        ("node #3 (output 'd')", "invalid-node"),
        ("node #4 (output 'e')", "invalid-node"),
        ("node #6 (output 'j')", "invalid-node"),
    ]
    assert [facts.node for facts in report.nodes] == [
        "node #0 (output 'a')",
        "node #1 (output 'b')",
        "node #2 (output 'c')",
        "node #3 (output 'd')",
        "node #6 (output 'j') > then_branch > node #0 (output 'p')",
        "node #6 (output 'j') > else_branch > node #0 (output 'q')",
        "node #5 (output 'g') > function 'sq' > node #0 (output 'b')",
    ]
    fix = {finding.code: finding.fix for finding in report.findings}
    assert fix["element-type"] == (
        "Raise the opset: halfulp convert MODEL --opset 13 -o OUT."
    )


def test_a_broken_constant_hides_no_other_error() -> None:
    proto = model(
        """(float[2,3] x) => (y, z) { k = Constant<value=float {1}>()
            y = f.sq(x, k) z = ReduceSumSquare<keepdims=4>(x) }""",
        function("b = ReduceSumSquare(a, k)", head="sq (a, k) => (b)", opset=18),
    )
    proto.graph.node[0].attribute[0].t.dims.append(5)
    found = [(f.node, f.code) for f in check_model(proto).findings]
    assert found == [
        ("node #0 (output 'k')", "invalid-node"),
        ("node #2 (output 'z')", "attribute-value"),
        ("node #1 (output 'y')", "invalid-node"),
    ]


def test_graphs_nested_too_deep_are_refused() -> None:
    proto = model(
        """(float[2,3] x, bool c) => (y) { y = If (c) <
            then_branch = t () => (p) { p = ReduceSumSquare(x) },
            else_branch = e () => (q) { q = ReduceSumSquare(x) }> }"""
    )
    for _ in range(1000):
        inner = onnx.GraphProto()
        inner.CopyFrom(proto.graph)
        inner.ClearField("input")
        proto.graph.node[0].attribute[0].g.CopyFrom(inner)
    for use in (check_model, fuse, expand):
        with pytest.raises(ModelError, match="nested more than 100 deep"):
            use(proto)


def test_nodes_of_one_name_are_told_apart() -> None:
    proto = model(
        "(float[2,3] x) => (y, z) { [n] y = ReduceSumSquare<keepdims=2>(x) "
        "[n] z = ReduceSumSquare<axis=1>(x) }"
    )
    found = [(f.node, f.code) for f in check_model(proto).findings]
    assert found == [("node 'n'", "attribute-value"), ("node 'n' #1", "node-form")]


def test_a_function_is_listed_once_for_each_kind_of_call() -> None:
    square = function("b = ReduceSumSquare<axes=[0]>(a)", head="sq (a) => (b)")
    unused = function("b = ReduceSumSquare<keepdims=0>(a)", head="no (a) => (b)")
    proto = model(
        "(float[2,3] x, double[N] z) => (y, w, v) "
        "{ y = f.sq(x) w = f.sq(x) v = f.sq(z) }",
        square,
        unused,
    )
    nodes = [
        (facts.node, facts.element_type, facts.output_shape)
        for facts in check_model(proto).nodes
    ]
    inner = "function 'sq' > node #0 (output 'b')"
    assert nodes == [
        (f"node #0 (output 'y') > {inner}", "float", (1, 3)),
        (f"node #2 (output 'v') > {inner}", "double", (1,)),
        ("function 'no' > node #0 (output 'b')", None, None),
    ]


def test_a_model_is_not_changed() -> None:
    proto, _ = reduce_model(DATA, axes=[-1], axes_form="const")
    before = proto.SerializeToString()
    check_model(proto)
    assert proto.SerializeToString() == before


@settings(max_examples=80)
@given(
    dtype=st.sampled_from(list(DTYPES)),
    shape=st.lists(st.integers(0, 3), max_size=3),
    opset=st.sampled_from([1, 6, 11, 12, 13, 17, 18, 25]),
    axes=st.lists(st.integers(-4, 3), max_size=3),
    form=st.sampled_from(["absent", "empty name", "attr", "const", "node", "input"]),
    keepdims=st.sampled_from([None, 0, 1, 2]),
    noop=st.sampled_from([None, None, 0, 1]),
)
def test_errors_are_found_exactly_where_a_run_refuses(
    dtype: str,
    shape: list[int],
    opset: int,
    axes: list[int],
    form: str,
    keepdims: int | None,
    noop: int | None,
) -> None:
    proto, feeds = reduce_model(
        np.ones(shape, DTYPES[dtype]),
        opset=opset,
        axes=axes,
        axes_form=form,
        keepdims=keepdims,
        noop_with_empty_axes=noop,
    )
    report = check_model(proto)
    if report.errors:
        with pytest.raises(HalfulpError) as info:
            run_model(proto, feeds)
        assert str(info.value).endswith(messages(report)[0])
        return
    try:
        result = run_model(proto, feeds)["reduced"]
    except HalfulpError:
        # The values of axes that are fed are known then only.
        assert form == "input"
        return
    (facts,) = report.nodes
    if facts.axes is not None:
        assert facts.output_shape == result.shape
    elif facts.output_shape is not None:
        for known, size in zip(facts.output_shape, result.shape, strict=True):
            assert known in (None, size)


# --- report and command line


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model with a warning, and one with an error beside it."""
    monkeypatch.setenv("COLUMNS", "80")
    text = "(float16[N,512] x) => (y) <int64[1] last = {-1}> { [norm] y = NODE(x, last) }"
    good = model(text.replace("NODE", "ReduceSumSquare<keepdims=0>"))
    onnx.save(good, tmp_path / "good.onnx")
    onnx.save(
        model(text.replace("NODE", "ReduceSumSquare<keepdims=3>")),
        tmp_path / "bad.onnx",
    )
    return tmp_path / "good.onnx"


def test_the_command_shows_nodes_findings_and_fixes(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines == [
        "node 'norm'",
        "  ReduceSumSquare-18, opset 18; float16, [N, 512] -> [N]",
        "  axes [-1]: reduces axis 1 of rank 2; keepdims 0",
        "  warning float16-overflow",
        "    512 elements are summed in float16: from a root mean square of 11.3 on the "
        "result is infinite",
        "    fix: Cast the data to float before the node, and keep the result in float.",
        "",
        "1 ReduceSumSquare node, no errors, 1 warning",
    ]


def test_the_exit_code_is_1_for_errors_and_2_for_no_model(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(path.parent / "bad.onnx")]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert "error attribute-value" in out
    assert "1 ReduceSumSquare node, 1 error, no warnings" in out
    assert main(["check", str(path.parent / "none.onnx")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "No such file" in err
    assert main(["check"]) == 2


def test_the_command_as_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {
        "model": str(path),
        "errors": 0,
        "warnings": 1,
        "nodes": [
            {
                "node": "node 'norm'",
                "operator": "ReduceSumSquare",
                "version": 18,
                "opset": 18,
                "element_type": "float16",
                "axes": [-1],
                "axes_meaning": "reduces axis 1 of rank 2",
                "keepdims": False,
                "noop_with_empty_axes": False,
                "input_shape": ["N", 512],
                "output_shape": ["N"],
            }
        ],
        "findings": [
            {
                "node": "node 'norm'",
                "severity": "warning",
                "code": "float16-overflow",
                "message": facts["findings"][0]["message"],
                "fix": facts["findings"][0]["fix"],
            }
        ],
    }
    first = str(check_model(path)).partition("\n")[0]
    assert first == "1 ReduceSumSquare; errors: 0, warnings: 1"


def test_nodes_are_counted_by_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = model(
        "(float[2] x, int8[2] i) => (a, b, c, d) "
        "{ a = ReduceMean(x) b = ReduceSum(x) c = ReduceMean(b) d = ReduceL1(i) }"
    )
    onnx.save(proto, tmp_path / "m.onnx")
    assert main(["check", str(tmp_path / "m.onnx")]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    counts = "2 ReduceMean nodes, 1 ReduceSum node, 1 ReduceL1 node"
    assert last == f"{counts}, 1 error, no warnings"
    report = check_model(proto)
    assert str(report).startswith("2 ReduceMean, 1 ReduceSum, 1 ReduceL1; errors: 1, ")
    assert [each.operator for each in report.nodes] == [
        "ReduceMean", "ReduceSum", "ReduceMean", "ReduceL1",
    ]  # fmt: skip
    assert [each["operator"] for each in report.as_dict()["nodes"]][1] == "ReduceSum"


def test_a_model_without_the_operator_is_fine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(model("(float[2] x) => (y) { y = Relu(x) }"), tmp_path / "m.onnx")
    assert main(["check", str(tmp_path / "m.onnx")]) == 0
    out = capsys.readouterr().out
    assert out.strip() == "no node that reduces, no errors, no warnings"


# --- what is known of a node in error


@pytest.mark.parametrize(
    ("node", "known"),
    [
        (
            "ReduceSumSquare<keepdims=0>(x, far)",
            {"element_type": "float16", "axes": (5,), "keepdims": False},
        ),
        ("ReduceSumSquare<keepdims=3>(x)", {"element_type": "float16", "keepdims": None}),
        ("ReduceSumSquare(x, far, far)", {"element_type": "float16", "axes": None}),
        (
            "ReduceSumSquare(b)",
            {"element_type": "bool", "axes": (), "output_shape": (1, 1)},
        ),
    ],
)
def test_what_is_known_of_a_node_in_error_is_kept(
    node: str, known: dict[str, Any]
) -> None:
    proto = model(
        f"(float16[N,3] x, bool[N,3] b) => (y) <int64[1] far = {{5}}> {{ y = {node} }}"
    )
    report = check_model(proto)
    (facts,) = report.nodes
    assert report.errors == 1
    assert report.findings[0].node == facts.node
    assert facts.input_shape == ("N", 3)
    for name, value in known.items():
        assert getattr(facts, name) == value


# --- several models


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with models in folders, good and bad ones."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all/below").mkdir(parents=True)
    text = "(float[2,3] x) => (y) { y = ReduceSumSquare<keepdims=FLAG>(x) }"
    for name, flag in {"all/good": 0, "all/below/bad": 3, "one": 1}.items():
        onnx.save(model(text.replace("FLAG", str(flag))), f"{name}.onnx")
    Path("all/below/note.txt").write_text("no model")
    return tmp_path


def test_many_models_and_folders_are_checked(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "one.onnx", "all", "all/good.onnx"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    paths = ["one.onnx", "all/good.onnx", "all/below/bad.onnx"]
    assert [line for line in lines if line.startswith("# ")] == [f"# {p}" for p in paths]
    assert lines[-1] == "3 models: 1 with errors, 0 that cannot be checked"
    assert main(["check", "one.onnx", "all/good.onnx"]) == 0
    capsys.readouterr()
    assert main(["check", "one.onnx", "all", "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert [(each["model"], each["errors"]) for each in facts] == [
        *(("one.onnx", 0), ("all/good.onnx", 0), ("all/below/bad.onnx", 1)),
    ]
    # One model is no list; a folder is.
    assert main(["check", "one.onnx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "one.onnx"
    Path("all/below/bad.onnx").unlink()
    assert main(["check", "all", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1


def test_a_model_that_cannot_be_read_does_not_end_the_others(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("all/broken.onnx").write_bytes(b"\xff garbage")
    assert main(["check", "all", "one.onnx"]) == 2
    out, err = capsys.readouterr()
    assert "# one.onnx" in out
    assert err.count("\n") == 1
    assert "'all/broken.onnx' cannot be read" in err
    assert main(["check", "all", "one.onnx", "--json"]) == 2
    facts = json.loads(capsys.readouterr().out)
    assert [each["model"] for each in facts if "error" in each] == ["all/broken.onnx"]
    assert len(facts) == 4


def test_a_folder_without_models_is_told(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty").mkdir()
    assert main(["check", "empty"]) == 2
    assert "'empty' has no files to take; allowed: .onnx" in capsys.readouterr().err


def test_names_of_models_mean_what_names_of_files_to_sum_do(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("all/.cache").mkdir()
    Path("all/.cache/old.onnx").write_bytes(b"\xff garbage")
    Path("empty").mkdir()
    assert main(["check", "all/*.onnx", "o[mn]e.onnx", "one.onnx"]) == 0
    assert "2 models: 0 with errors, 0 that" in capsys.readouterr().out
    assert main(["check", "all", "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)) == 2
    assert main(["check", "empty", "*.none", "one.onnx"]) == 2
    out, err = capsys.readouterr()
    assert "3 models: 0 with errors, 2 that cannot be checked" in out
    assert err.splitlines() == [
        "halfulp: error: the folder 'empty' has no files to take; allowed: .onnx",
        "halfulp: error: '*.none' matches no file",
    ]
