"""halfulp.spec agrees with onnx.defs, and tells what breaks a model.

The oracles are onnx's own objects, read here once more, and onnx's checker.
"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.defs
import onnx.helper
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import halfulp
from halfulp import spec
from halfulp.reductions import REDUCTIONS, Reduction
from halfulp.spec.decisions import decisions
from halfulp.spec.differences import compare
from onnx_models import reduce_model

OPERATOR = "ReduceSumSquare"
SCHEMAS = sorted(
    onnx.defs.get_all_schemas_with_history(),
    key=lambda s: (s.domain, s.name, s.since_version),
)
STEPS = [
    (a, b)
    for a, b in pairwise(SCHEMAS)
    if (a.domain, a.name) == (b.domain, b.name)
]  # fmt: skip


def test_every_opset_means_the_version_that_onnx_says() -> None:
    for opset in range(1, onnx.defs.onnx_opset_version() + 1):
        theirs = onnx.defs.get_schema(OPERATOR, opset, "").since_version
        assert spec.schema(OPERATOR, opset).since_version == theirs
    assert (
        spec.schema(OPERATOR, 1000) == spec.schema(OPERATOR) == spec.schema(OPERATOR, 18)
    )


# Schemas of every operator.


def test_every_schema_says_what_onnx_says() -> None:
    assert len(SCHEMAS) > 600
    for theirs in SCHEMAS:
        ours = spec.schema(theirs.name, theirs.since_version, theirs.domain)
        assert ours.since_version == theirs.since_version
        assert ours.domain == theirs.domain
        assert ours.deprecated == theirs.deprecated
        assert f"SupportType.{ours.support_level}" == str(theirs.support_level)
        assert ours.shape_inference == theirs.has_type_and_shape_inference_function
        defined = theirs.has_function or theirs.has_context_dependent_function
        assert ours.function == defined
        assert bool(ours.function_bodies) >= theirs.has_function
        assert ours.documentation.split() == _without_breaks(theirs.doc)
        for mine, parameters in (
            (ours.inputs, theirs.inputs),
            (ours.outputs, theirs.outputs),
        ):
            assert [p.name for p in mine] == [p.name for p in parameters]
            for p, q in zip(mine, parameters, strict=True):
                assert (p.type, {*p.types}) == (q.type_str, q.types)
                assert f"FormalParameterOption.{p.option.title()}" == str(q.option)
                assert p.homogeneous == q.is_homogeneous
                assert p.description.split() == _without_breaks(q.description)
        counts = (ours.min_inputs, ours.max_inputs, ours.min_outputs, ours.max_outputs)
        for count, q in zip(
            counts,
            (theirs.min_input, theirs.max_input, theirs.min_output, theirs.max_output),
            strict=True,
        ):
            assert count == (None if q == 2**31 - 1 else q)
        assert {a.name for a in ours.attributes} == {*theirs.attributes}
        for a in ours.attributes:
            b = theirs.attributes[a.name]
            assert f"AttrType.{a.type}" == str(b.type)
            assert a.required == b.required
            assert (a.default is None) == (not b.default_value.type)
            if a.default is not None:
                made = onnx.helper.make_attribute(a.name, a.default)
                assert made == b.default_value
        assert {t.name: {*t.types} for t in ours.type_constraints} == {
            t.type_param_str: {*t.allowed_type_strs} for t in theirs.type_constraints
        }


def _without_breaks(text: str) -> list[str]:
    lines = text.splitlines()
    return " ".join(line for line in lines if line not in ("<br>", "<br/>")).split()


def test_bodies_that_depend_on_the_node_are_those_of_a_plain_one() -> None:
    body, other = spec.schema("LayerNormalization", 17).function_bodies
    assert (body.opset, other.opset) == (17, 18)
    assert body.node == "LayerNormalization(X: tensor(float), Scale: tensor(float))"
    assert "ReduceMean <axes: ints" in body.text
    assert body.title == f"By operators of opset 17, for the node {body.node}:"
    assert spec.schema("SequenceMap").function
    assert spec.schema("SequenceMap").function_bodies == ()


def test_schemas_are_json_and_cannot_be_changed() -> None:
    for theirs in SCHEMAS[::7]:
        ours = spec.schema(theirs.name, theirs.since_version, theirs.domain)
        data = json.loads(json.dumps(dataclasses.asdict(ours), allow_nan=False))
        assert data["name"] == theirs.name
        assert len(data["inputs"]) == len(theirs.inputs)
    with pytest.raises(dataclasses.FrozenInstanceError):
        ours.name = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: spec.versions("ReduceSumSqare"), "did you mean ReduceSumSquare"),
        (lambda: spec.schema("reducesumsquare"), "did you mean ReduceSumSquare"),
        (lambda: spec.schema("Zyzzyva"), "operator 'Zyzzyva' is unknown in domain"),
        (lambda: spec.schema("Normalizer"), "domain 'ai.onnx.ml' has one"),
        (lambda: spec.versions("Abs", "ai.onnx.mll"), "did you mean 'ai.onnx.ml'?"),
        (lambda: spec.versions("Abs", "x"), "'x' is unknown; known: ai.onnx, ai.onnx.ml"),
        (lambda: spec.schema("CastLike", 14), "opset 14 has no CastLike"),
        (lambda: spec.schema(OPERATOR, 0), "opset 0 has no.*allowed: 1 and later"),
        (lambda: spec.schema(OPERATOR, True), "opset True"),
        (lambda: spec.schema(OPERATOR, "18"), "opset '18'"),  # type: ignore[arg-type]
        (lambda: spec.diff(OPERATOR, -1, 18), "opset -1"),
        (lambda: spec.diff("", 1, 2), "operator '' is unknown"),
    ],
)
def test_what_is_unknown_is_one_clear_error(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(halfulp.ArgumentError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_the_two_names_of_the_domain_are_one() -> None:
    assert spec.schema("Abs", domain="ai.onnx") == spec.schema("Abs", domain="")


def test_importing_halfulp_loads_neither_onnx_nor_the_schemas() -> None:
    code = (
        "import sys, halfulp; halfulp.spec; "
        "assert not {'onnx', 'difflib', 'halfulp.spec.schemas'} & {*sys.modules}; "
        "halfulp.spec.schema; assert 'onnx' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# Differences.


def test_from_13_to_18() -> None:
    change = spec.diff(OPERATOR, 13, 18)
    assert (change.old, change.new, change.breaking) == (13, 18, True)
    assert change.reasons == (
        "input 'axes' (added): at position 1; option=optional; type=tensor(int64); "
        "was an attribute",
        "attribute 'axes' (removed): type=INTS; required=no; now an input",
    )
    (axes,) = change.inputs
    assert (axes.name, axes.kind, axes.position) == ("axes", "added", 1)
    removed, noop = change.attributes
    assert (removed.name, removed.kind, removed.breaking) == ("axes", "removed", True)
    assert (noop.name, noop.kind, noop.breaking) == (
        "noop_with_empty_axes",
        "added",
        False,
    )
    assert noop.details == ("type=INT", "required=no", "default=0")
    assert (change.outputs, change.type_constraints) == ((), ())
    assert str(change).startswith(
        "ReduceSumSquare (domain ai.onnx), version 13 -> 18\nbreaking: yes\n"
    )


def test_the_other_steps_break_nothing_and_steps_back_do() -> None:
    assert not spec.diff(OPERATOR, 1, 11).breaking
    assert not spec.diff(OPERATOR, 11, 13).breaking
    assert spec.diff(OPERATOR, 18, 13).breaking
    back = spec.diff(OPERATOR, 13, 11)
    assert back.reasons == (
        "type constraint 'T' (changed): types removed: tensor(bfloat16)",
    )
    assert spec.diff(OPERATOR, 17, 99) == spec.diff(OPERATOR, 13, 18)
    same = spec.diff(OPERATOR, 18, 18)
    assert (same.sections, same.reasons) == ({}, ())
    assert same.documentation.similarity == 1


def test_texts_are_compared_by_line() -> None:
    old = dataclasses.replace(spec.schema(OPERATOR), documentation="a\nb\nc\n\nd")
    new = dataclasses.replace(old, documentation="a\nB\nc\n\nd\n--- e")
    text = compare(old, new).documentation
    assert (text.added, text.removed) == (("B", "--- e"), ("b",))
    assert text.similarity == 2 * 4 / 11
    assert text.unified[3:] == (" a", "-b", "+B", " c", " ", " d", "+--- e")
    assert not compare(old, new).breaking


X = spec.schema("Clip", 13)  # three inputs, of which two are optional
A = spec.Attribute("a", "INT", False, 0, "")
R = dataclasses.replace


def _with(index: int, **changes: Any) -> dict[str, Any]:
    inputs = [*X.inputs]
    inputs[index] = R(inputs[index], **changes)
    return {"inputs": tuple(inputs)}


T = X.type_constraints[0]
LESS = R(T, types=T.types[1:])
U = spec.TypeConstraint("U", T.types, "")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        # What breaks.
        ({}, {"inputs": X.inputs[:2]}, "input 'max' (removed)"),
        ({}, {"outputs": ()}, "output 'output' (removed)"),
        ({}, {"inputs": (X.inputs[0], *X.inputs[:0:-1])}, "moved from position"),
        ({}, _with(1, name="low"), "renamed from 'min'"),
        ({}, _with(1, option="single", min_count=1), "option: optional -> single"),
        (_with(2, option="variadic", min_count=0), {}, "variadic -> optional"),
        (
            _with(2, option="variadic", min_count=1),
            _with(2, option="variadic", min_count=2),
            "values at least: 1 -> 2",
        ),
        (
            _with(2, option="variadic", homogeneous=False),
            _with(2, option="variadic"),
            "homogeneous: no -> yes",
        ),
        (
            {"inputs": X.inputs[:1]},
            {"inputs": (X.inputs[0], R(X.inputs[0], name="n"))},
            "n",
        ),
        ({}, _with(0, type="tensor(float)", types=("tensor(float)",)), "types removed"),
        ({}, {"type_constraints": (LESS,)}, "type constraint 'T' (changed)"),
        (_with(1, type="U"), {}, "'min' (changed): type: U -> T; must now have the type"),
        ({"attributes": (A,)}, {}, "attribute 'a' (removed)"),
        ({}, {"attributes": (R(A, required=True, default=None),)}, "'a' (added)"),
        ({"attributes": (R(A, name="b"),)}, {"attributes": (A,)}, "'b' (removed)"),
        ({"attributes": (A,)}, {"attributes": (R(A, default=1),)}, "default: 0 -> 1"),
        (
            {"attributes": (A,)},
            {"attributes": (R(A, default=None),)},
            "default: 0 -> none",
        ),
        ({"attributes": (A,)}, {"attributes": (R(A, type="FLOAT"),)}, "INT -> FLOAT"),
        (
            {"attributes": (R(A, default=None),)},
            {"attributes": (R(A, default=None, required=True),)},
            "required: no -> yes",
        ),
        (
            {"attributes": (R(A, name="max"),), "inputs": X.inputs[:2]},
            {},
            "input 'max' (added): at position 2; option=optional; type=T; was an attr",
        ),
        ({"min_inputs": 1}, {"min_inputs": 2}, "'inputs at least' (changed): 1 -> 2"),
        ({}, {"deprecated": True}, "operator 'deprecated' (changed): no -> yes"),
        # What does not.
        ({"inputs": X.inputs[:2]}, {}, None),
        (_with(1, option="single", min_count=1), {}, None),
        (_with(2, min_count=1), _with(2, option="variadic", min_count=1), None),
        ({"type_constraints": (LESS,)}, {}, None),
        ({"type_constraints": (T, U)}, _with(1, type="U"), None),
        ({}, {"attributes": (A,)}, None),
        ({}, {"attributes": (R(A, default=None),)}, None),
        (
            {"attributes": (R(A, default=None, required=True),)},
            {"attributes": (R(A, default=None),)},
            None,
        ),
        ({}, _with(1, description="x"), None),
        ({"deprecated": True}, {}, None),
        ({}, {"support_level": "EXPERIMENTAL", "shape_inference": False}, None),
        ({}, {"function": False, "function_bodies": ()}, None),
        ({}, {"documentation": "x"}, None),
    ],
)
def test_what_breaks_a_model_and_what_does_not(
    old: dict[str, Any], new: dict[str, Any], reason: str | None
) -> None:
    change = compare(R(X, **old), R(X, **new))
    assert change.breaking == (reason is not None) == bool(change.reasons)
    if reason is not None:
        assert any(reason in r for r in change.reasons), change.reasons
    assert change.sections or change.documentation.unified


def test_inputs_and_outputs_of_one_name_are_not_confused() -> None:
    # BatchNormalization 9 has "mean" and "var" as inputs and as outputs.
    change = spec.diff("BatchNormalization", 9, 14)
    assert [c.name for c in change.inputs] == ["input_mean", "input_var"]
    assert not any("must now" in reason for reason in change.reasons)


def test_every_step_of_every_operator() -> None:
    assert len(STEPS) > 400
    breaking = 0
    for a, b in STEPS:
        change = spec.diff(a.name, a.since_version, b.since_version, a.domain)
        breaking += change.breaking
        assert change.breaking == bool(change.reasons)
        assert max(map(len, str(change).splitlines())) <= 80
        data = json.loads(json.dumps(dataclasses.asdict(change), allow_nan=False))
        assert data["documentation"]["similarity"] <= 1
        added = {c.name for c in change.attributes if c.kind == "added"}
        assert added == {*b.attributes} - {*a.attributes}
    assert 50 < breaking < len(STEPS) / 2


def _dummy(attribute: Any) -> Any:
    values = {
        "INT": 1,
        "FLOAT": 1.0,
        "STRING": "x",
        "INTS": [1],
        "FLOATS": [1.0],
        "STRINGS": ["x"],
        "TENSOR": onnx.helper.make_tensor("t", 1, [1], [1.0]),
    }
    return values.get(attribute.type.name)


def test_the_checker_takes_at_the_new_version_what_breaks_nothing() -> None:
    """Nodes with every input, output and attribute; and with the fewest."""
    checked = 0
    for a, b in STEPS:
        if spec.diff(a.name, a.since_version, b.since_version, a.domain).breaking:
            continue
        for full in (True, False):
            attributes = {
                x.name: _dummy(x)
                for x in a.attributes.values()
                if (full or x.required) and _dummy(x) is not None
            }
            inputs = [p.name for p in a.inputs][: None if full else a.min_input]
            outputs = [p.name for p in a.outputs][: None if full else a.min_output]
            node = onnx.helper.make_node(
                a.name, inputs, outputs, domain=a.domain, **attributes
            )
            if _accepts(node, a):
                assert _accepts(node, b), (a.name, a.since_version, b.since_version)
                checked += 1
    assert checked > 600


def _accepts(node: onnx.NodeProto, schema: Any) -> bool:
    context = onnx.checker.C.CheckerContext()
    context.ir_version = 10
    context.opset_imports = {schema.domain: schema.since_version}
    try:
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError:
        return False
    return True


# Of each published decision, the tests that try it on the code.
TESTS = {
    "Which version": ("test_1_every_type_and_opset", "test_onnx_has_the_same_versions"),
    "Empty axes": ("test_2_and_3_axes_as_input", "test_2_absent_axes"),
    "Negative axes": (
        "test_2_and_3_axes_as_attribute",
        "test_3_axes_out_of_range_are_errors",
    ),
    "The same axis twice": (
        "test_2_and_3_axes_as_input",
        "test_3_the_same_axis_twice_is_a_set_for_onnx_and_an_error_for_numpy",
    ),
    "Axes as an input": ("test_3_axes_of_another_rank_or_type_are_errors",),
    "Flags": ("test_4_flags_are_0_or_1", "test_4_flags_are_integers"),
    "Rank 0": ("test_5_rank_0_is_one_element", "test_5_rank_0_has_no_axes"),
    "Empty sets": ("test_6_empty_sets",),
    "Shape inference": (
        "test_known_axes_give_the_shape_of_the_result",
        "test_unknown_axes_give_what_all_axes_have_in_common",
        "test_symbols_and_unknown_sizes_pass",
    ),
    "Rounding": (
        "test_hard_rows_are_correctly_rounded",
        "test_7_overflow_is_decided_by_the_exact_sum",
    ),
    "NaN, infinities, zeros": (
        "test_7_any_nan_gives_the_canonical_quiet_nan",
        "test_7_infinities_of_one_sign_are_theirs",
        "test_7_a_zero_result_is_positive",
        "test_7_what_rounds_to_zero_keeps_its_sign",
        "test_2_an_element_that_is_not_reduced_keeps_its_zero",
    ),
    "The same bits everywhere": (
        "test_every_layout_and_axes",
        "test_one_multiset_has_one_result_in_every_layout",
        "test_8_modes_left_in_the_thread_change_no_bit_and_are_put_back",
    ),
    "Integers": (
        "test_9_integers_are_exact_modulo_2_to_the_n",
        "test_9_the_opt_in_raises_instead_of_wrapping",
    ),
    "The result": ("test_10_the_result_is_new_contiguous_and_of_the_same_type",),
    "Errors": ("test_errors_at_run_time",),
}


@pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)
def test_every_decision_has_tests(row: Reduction) -> None:
    assert [d.title for d in decisions(row)] == [*TESTS]
    names = {
        name
        for file in Path(__file__).parents[1].rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    for tests in TESTS.values():
        assert names.issuperset(tests)


# What the reasons say of others: operator, data, what onnx's evaluator gives, what ONNX
# Runtime gives, and what halfulp does.
I32, I64 = np.iinfo(np.int32), np.iinfo(np.int64)
NAN, INF = np.nan, np.inf
OTHERS: list[tuple[str, Any, Any, Any, Any]] = [
    ("ReduceSum", np.float64([1e16, 1, -1e16]), 0, 0, 1),
    ("ReduceSum", np.float32([3e38, 3e38, -3e38]), INF, INF, 3e38),
    ("ReduceSum", np.float32([-0.0, -0.0]), "0.0", "-0.0", "0.0"),
    ("ReduceSum", np.int32([I32.max, I32.max]), -2, I32.max, -2),
    ("ReduceSum", np.int64([2**53 + 1, 0]), 2**53 + 1, 2**53, 2**53 + 1),
    ("ReduceMean", np.float16([65504, 65504]), INF, 65504, 65504),
    ("ReduceMean", np.float32([-0.0, -0.0]), "0.0", "-0.0", "0.0"),
    ("ReduceMean", np.zeros(0, np.float32), NAN, 0, NAN),
    ("ReduceMean", np.zeros(0, np.int32), I32.min, 0, 0),
    ("ReduceMean", np.zeros(0, np.int64), I64.min, 0, 0),
    ("ReduceMean", np.int32([I32.max, I32.max]), -1, I32.max, I32.max),
    ("ReduceMean", np.int64([2**53 + 1] * 2), 2**53, 2**53, 2**53 + 1),
    ("ReduceMean", np.int32([-7, 2]), -2, -2, -2),
    ("ReduceL1", np.int32([I32.min, 0]), I32.min, I32.max, I32.min),
    ("ReduceL2", np.float32([3e30, 4e30]), INF, INF, 5e30),
    ("ReduceL2", np.float32([3e-30, 4e-30]), 0, 0, 5e-30),
    ("ReduceL2", np.int32([46341]), I32.min, 46341, 46341),
    ("ReduceSumSquare", np.float32([4096, 1, 1]), 16777216, 16777216, 16777218),
]


@pytest.mark.parametrize("case", OTHERS, ids=lambda case: f"{case[0]} {case[1]}")
def test_what_decisions_say_of_others(case: tuple[str, Any, Any, Any, Any]) -> None:
    operator, data, by_evaluator, by_runtime, ours = case
    proto, feeds = reduce_model(data, operator=operator, opset=12, keepdims=0)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the mean of nothing
        (evaluated,) = ReferenceEvaluator(proto).run(None, feeds)
    (run,) = session.run(None, feeds)
    (right,) = halfulp.onnx.run_model(proto, feeds).values()
    for got, want in ((evaluated, by_evaluator), (run, by_runtime), (right, ours)):
        if isinstance(want, str):
            assert str(got.item()) == want
        else:
            assert np.array_equal(got, np.array(want, data.dtype), equal_nan=want != want)
