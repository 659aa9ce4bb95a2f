"""Models of scikit-learn and PyTorch mean with halfulp what they mean without it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import halfulp
import real_models
from halfulp import ModelError
from halfulp.cli import main
from halfulp.onnx import check_model, convert_opset, expand, fuse, infer_shapes, run_model
from halfulp.onnx.model.nodes import walk
from halfulp.onnx.run.outputs import compare_bits
from halfulp.onnxruntime import OPERATORS
from halfulp.reductions import SUMS
from real_models import Case
from runtime_sessions import RELEASE

CASES = list(real_models.cases())
STORED = json.loads(
    (Path(real_models.__file__).parent / "results/models.json").read_text("utf-8")
)
ROWS = {f"{r['model']}-{r['opset']}-{r['inputs']}".rstrip("-"): r for r in STORED["rows"]}
# Those that versions of the five operators come between.
OPSETS = (11, 13, 17, 18, 21, onnx.defs.onnx_opset_version())
# What has one right result in every runtime, beside the reductions.
ARITHMETIC = {
    "Abs", "Add", "Cast", "Clip", "Concat", "Constant", "Div", "Expand", "Gather", "Max",
    "Mul", "ReduceProd", "Reshape", "Shape", "Sqrt", "Sub", "Unsqueeze",
}  # fmt: skip

each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_model = pytest.mark.parametrize(
    "case", [case for case in CASES if not case.inputs_of], ids=str
)


def tables(outputs: dict[str, Any]) -> dict[str, Any]:
    return {name: real_models.as_array(value) for name, value in outputs.items()}


@cache
def own_run(path: Path, inputs_of: str) -> dict[str, Any]:
    """What `run_model` gives of a model, on those of its inputs."""
    (case,) = (c for c in CASES if (c.path, c.inputs_of) == (path, inputs_of))
    return tables(run_model(path, case.inputs))


def assert_equal_bits(case: Case, model: onnx.ModelProto) -> None:
    """That another model gives what that of a case does."""
    wanted = own_run(case.path, case.inputs_of)
    got = tables(run_model(model, case.inputs))
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        facts = compare_bits(got[name], value)
        assert facts["agree"] == facts["of"] == value.size, name


def kinds(case: Case) -> set[str]:
    return {node.op_type for _, node in walk(onnx.load(case.path).graph.node)}


def test_the_document_tells_of_every_model() -> None:
    assert [str(case) for case in CASES] == list(ROWS)
    for case in CASES:
        nodes = [node.op_type for _, node in walk(onnx.load(case.path).graph.node)]
        stored = {name: n for name in STORED["operators"] if (n := nodes.count(name))}
        assert ROWS[str(case)]["nodes"] == stored
    found = {operator for row in ROWS.values() for operator in row["nodes"]}
    assert {row.operator for row in SUMS} <= found <= {*STORED["operators"]}


@each_case
def test_labels_are_the_same_in_onnx_runtime_and_run(case: Case) -> None:
    model = onnx.load(case.path)
    own = own_run(case.path, case.inputs_of)
    outputs = {ours: real_models.run(model, case.inputs, ours) for ours in (False, True)}
    for name, plain in outputs[False].items():
        facts = ROWS[str(case)]["outputs"][name]
        assert outputs[True][name].shape == own[name].shape == plain.shape
        if plain.dtype == np.int64:
            assert np.array_equal(outputs[True][name], plain)
            assert np.array_equal(own[name], plain)
            equal = np.ravel(plain) == case.labels.get(name, np.ravel(plain))
            known = facts.get("as_sklearn", {"with": plain.size})
            assert np.count_nonzero(equal) == known["with"]


CLOSED = [case for case in CASES if kinds(case) <= ARITHMETIC | {*OPERATORS}]


@pytest.mark.skipif(
    RELEASE < (1, 32), reason="ReduceSum and ReduceMean are the runtime's"
)
@pytest.mark.parametrize("case", CLOSED, ids=str)
def test_arithmetic_and_reductions_give_the_bits_of_run(case: Case) -> None:
    got = real_models.run(onnx.load(case.path), case.inputs, True)
    for name, value in own_run(case.path, case.inputs_of).items():
        facts = compare_bits(got[name], value)
        assert facts["agree"] == facts["of"] == value.size


def test_models_of_both_libraries_are_arithmetic_alone() -> None:
    assert {case.name for case in CLOSED} >= {
        "normalizer_l2",
        "normalize_l1",
        "standardize",
    }


MENDED = [
    case
    for case in CASES
    for facts in ROWS[str(case)]["outputs"].values()
    if case.inputs_of and facts.get("off", {}).get("with", {}).get("ulps", "inf") != "inf"
    if facts["off"]["with"]["ulps"] < 1000
]


@pytest.mark.skipif(
    RELEASE < (1, 32), reason="ReduceSum and ReduceMean are the runtime's"
)
@pytest.mark.parametrize("case", MENDED, ids=str)
def test_what_the_runtime_gets_visibly_wrong_is_right(case: Case) -> None:
    model = onnx.load(case.path)
    for name, right in real_models.right(case, model).items():
        plain = real_models.run(model, case.inputs, False)[name]
        got = real_models.run(model, case.inputs, True)[name]
        assert compare_bits(got, right)["ulps"] * 100 < compare_bits(plain, right)["ulps"]


def test_long_and_large_inputs_are_among_what_is_mended() -> None:
    assert {case.name for case in MENDED} == {
        "cosine_similarity",
        "mean_of_tokens",
        "pairwise_distance",
        "standardize",
    }


@each_model
def test_every_opset_that_can_say_it_gives_the_same_bits(case: Case) -> None:
    mine = [c for c in CASES if c.path == case.path]
    for opset in OPSETS:
        try:
            converted = convert_opset(case.path, opset)
        except ModelError as error:
            refused = [said for said in REFUSED if said in str(error)]
            if opset < case.opset and refused:
                continue
            raise
        onnx.checker.check_model(converted, full_check=True)
        for each in mine:
            assert_equal_bits(each, converted)


# Why a real model has no form in an older opset.
REFUSED = (
    "LayerNormalization exists from opset 17 on",
    "Gelu exists from opset 20 on",
    "GroupNormalization-21 to GroupNormalization-18 would change the meaning",
)


@each_model
def test_it_is_checked_inferred_and_rewritten_without_an_error(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    report = check_model(case.path)
    stored = ROWS[str(case)]["nodes"]
    counts = {op: sum(n.operator == op for n in report.nodes) for op in stored}
    assert (report.errors, counts) == (0, stored)
    declared = [value.type for value in onnx.load(case.path).graph.output]
    inferred = [value.type for value in infer_shapes(case.path).graph.output]
    assert len(declared) == len(inferred)
    for rewrite in (fuse, expand):
        model, done = rewrite(case.path)
        onnx.checker.check_model(model, full_check=True)
        wanted = own_run(case.path, "")
        got = tables(run_model(model, case.inputs))
        for name, value in wanted.items():
            assert (got[name].shape, got[name].dtype) == (value.shape, value.dtype)
            if value.dtype == np.int64 or not done.done:
                assert np.array_equal(got[name], value, equal_nan=value.dtype.kind == "f")
    assert main(["run", str(case.path), "--compare"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "another type or shape" not in shown.out


def test_fusing_mends_a_norm_in_parts() -> None:
    (case,) = (c for c in CASES if str(c) == "normalizer_l2-18-large")
    x = case.inputs["X"]
    right = x / halfulp.vector_norm(x, axis=1, keepdims=True)
    assert np.all(own_run(case.path, "large")["variable"] == 0)
    fused, _ = fuse(case.path)
    got = real_models.run(fused, case.inputs, True)["variable"]
    assert np.array_equal(got, right)
