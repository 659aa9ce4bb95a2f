"""The cases of halfulp.conformance are what they say, and verdicts mean what they say."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import halfulp
from halfulp.conformance.backends.outcomes import Answer, Crashed, Hung, Outcome, Refused
from halfulp.conformance.cases.case import CLASSES, INVALID, WRONG_OPSET, Case
from halfulp.conformance.cases.hard_floats import hard_floats
from halfulp.conformance.cases.preimages import INVERSES, Inverse
from halfulp.conformance.cases.suite import all_cases, choose, quick
from halfulp.conformance.verdicts import VERDICTS, judge
from halfulp.errors import ArgumentError
from halfulp.exact import round_exact
from halfulp.onnx import run_model
from halfulp.reductions import SUM_SQUARE
from onnx_models import REPORTS, report_array
from oracle import (
    FLOATS,
    PRECISION,
    TYPES,
    assert_same_bits,
    bits,
    configuration,
    from_bits,
)

CASES = all_cases([SUM_SQUARE])
NAMED = {case.name: case for case in CASES}
FLOATS_ONLY = {
    "ties",
    "near ties",
    "twice rounded",
    "absorption",
    "overflow",
    "subnormals",
    "inf and nan",
}
INTEGERS_ONLY = {"wide integers", "wrap"}
OTHERS_ONLY = {
    "cancellation",
    "partial overflow",
    "signed zero",
    "integer mean",
    "integer root",
    "integer log",
    "rivals",
}


def named(*words: str) -> list[Case]:
    return [case for case in CASES if all(word in case.name for word in words)]


def test_there_are_thousands_of_cases_under_names_for_folders() -> None:
    assert len(CASES) >= 6000
    assert len(NAMED) == len(CASES)
    for name in NAMED:
        assert re.fullmatch(r"test_reducesumsquare_[a-z0-9_]+", name)
        assert len(name) <= 100


def test_readme_says_how_many_cases_there_are() -> None:
    readme = Path(__file__).parents[2] / "README.md"
    assert f"runs {len(all_cases()):,} hard cases" in readme.read_text("utf-8")


def test_every_class_has_cases_of_every_version_and_type_that_it_can() -> None:
    present = {(case.class_name, case.version, case.type) for case in CASES}
    types = {dtype.name: dtype.kind in "iu" for dtype in TYPES}
    for version in SUM_SQUARE.versions:
        for name, is_integer in types.items():
            if (version.since, name) in ((1, "bfloat16"), (11, "bfloat16")):
                assert (WRONG_OPSET, version.since, name) in present
                continue
            wanted = (
                set(CLASSES)
                - OTHERS_ONLY
                - (FLOATS_ONLY if is_integer else INTEGERS_ONLY)
            )
            wanted -= {"reports"} | ({"noop"} if version.since < 18 else set())
            for class_name in wanted:
                assert (class_name, version.since, name) in present


def test_the_cases_stay_the_same() -> None:
    # Another digest: cases were changed, or NumPy draws other random numbers.
    digest = hashlib.sha256()
    for case in CASES:
        digest.update(case.name.encode())
        digest.update(bits(case.data).tobytes())
        if case.expected is not None:
            digest.update(bits(case.expected).tobytes())
    assert digest.hexdigest()[:16] == "ff0ca6baf40272e4"


def test_quick_is_a_part_with_every_class_type_and_version() -> None:
    some = quick(CASES)
    assert len(some) < len(CASES) / 5

    def key(case: Case) -> tuple[Any, ...]:
        return (case.class_name, case.type, case.version)

    assert {key(case) for case in some} == {key(case) for case in CASES}
    reports = [case for case in CASES if case.class_name == "reports"]
    assert set(reports) <= set(some)


def test_cases_are_chosen_by_a_part_of_their_name() -> None:
    assert len(choose("")) == len(all_cases())
    chosen = choose("_18_float16_ties*_first2_", [SUM_SQUARE])
    assert [case.name.rpartition("ties_")[2] for case in chosen] == [
        "up_first2_3x1000_end",
        "down_first2_33x129_front",
        "subnormal_first2_200x9_end",
    ]
    with pytest.raises(ArgumentError, match="no case has 'float17' in its name"):
        choose("float17")


def test_the_public_reports_are_cases_with_their_links() -> None:
    for report in REPORTS:
        if report["check"] in ("speed", "memory"):
            continue
        name = f"_reports_{report['id']}".lower()
        (case,) = [case for case in CASES if case.name.endswith(name)]
        assert case.source == report["source"]
        assert_same_bits(case.data, report_array(report["data"]))
        assert case.valid == (report["check"] != "reject")
        if "expect" in report:
            assert case.expected is not None
            assert_same_bits(case.expected, report_array(report["expect"]))


def test_the_sixteen_documented_examples_are_cases() -> None:
    assert len(named("_18_float32_examples_")) == 16


def test_onnx_node_tests_are_cases() -> None:
    module = importlib.import_module("onnx.backend.test.case.node.reducesumsquare")
    assert module.ReduceSumSquare
    from onnx.backend.test.case.node import _NodeTestCases

    found = 0
    for test in _NodeTestCases:
        name = test.name.removeprefix("test_reduce_sum_square_")
        if name == test.name or name.endswith("_expanded"):
            continue
        found += 1
        case = NAMED[f"test_reducesumsquare_18_float32_examples_{name}"]
        inputs, outputs = test.data_sets[0]
        assert_same_bits(case.data, inputs[0])
        model, _ = case.model()
        assert list(model.graph.node[0].attribute) == list(
            test.model.graph.node[0].attribute
        )
        assert case.expected is not None
        np.testing.assert_array_max_ulp(case.expected, outputs[0], maxulp=1)
    assert found == 9


def assert_rounded(exact: Fraction, result: Any) -> None:
    """Check a finite result against its neighbours, by fractions alone."""
    pattern = int(bits(result))
    distance = abs(Fraction(float(result)) - exact)
    for other in (pattern - 1, pattern + 1):
        if other < 0:
            continue
        neighbour = from_bits(other, result.dtype)[()]
        if np.isinf(neighbour):
            neighbour = 2.0 * float(from_bits(pattern & ~1, result.dtype)[()])
            continue
        away = abs(Fraction(float(neighbour)) - exact)
        assert distance < away or (distance == away and pattern % 2 == 0)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_expected_values_by_a_second_method(dtype: np.dtype) -> None:
    checked = 0
    for case in named(f"_{dtype.name}_"):
        if case.data.size > 300 or case.expected is None:
            continue
        kept = [axis for axis in range(case.data.ndim) if axis not in case.reduced]
        rows = case.data.transpose(*kept, *case.reduced)
        rows = rows.reshape(case.expected.size, -1 if case.expected.size else 0)
        for row, result in zip(rows, case.expected.reshape(-1), strict=True):
            with np.errstate(invalid="ignore"):  # signalling NaNs
                values = row.astype(float if dtype.kind not in "iu" else dtype).tolist()
            if dtype.kind in "iu":
                total = sum(value * value for value in values)
                assert (total - int(result)) % 2 ** (8 * dtype.itemsize) == 0
            elif any(np.isnan(values)):
                assert np.isnan(result)
            elif any(np.isinf(values)):
                assert result == np.inf
            elif np.isfinite(result):
                assert_rounded(sum(Fraction(v) ** 2 for v in values), result)
            else:
                largest = Fraction(float(from_bits(int(bits(result)) - 1, dtype)))
                ulp = largest / (2 ** PRECISION[dtype.name] - 1)
                assert sum(Fraction(v) ** 2 for v in values) >= largest + ulp / 2
            checked += 1
    assert checked > 300


def test_ties_are_midpoints_and_near_ties_are_not() -> None:
    for case in (*named("_ties_"), *named("_least_")):
        if case.class_name in ("ties", "near ties"):
            for exact, result in zip(
                case.unrounded.reshape(-1), case.expected.reshape(-1), strict=True
            ):
                up = from_bits(
                    int(bits(result)) + (exact > Fraction(float(result))), result.dtype
                )
                down = from_bits(int(bits(up)) - 1, result.dtype)
                middle = (Fraction(float(up)) + Fraction(float(down))) / 2
                assert (exact == middle) == (case.class_name == "ties")


@pytest.mark.parametrize(
    ("name", "wider"),
    [("bfloat16", "float32"), ("float16", "float32"), ("float32", "float64")],
)
def test_sums_rounded_twice_are_wrong(name: str, wider: str) -> None:
    for case in named(f"_{name}_twice_rounded"):
        once = [halfulp.exact.round_exact(e, wider) for e in case.unrounded.reshape(-1)]
        twice = np.array(once, wider).astype(case.data.dtype)
        assert case.expected is not None
        assert (bits(twice) != bits(case.expected.reshape(-1))).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_hard_sums_follow_from_the_term(
    dtype: np.dtype, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a term that no row has yet: the midpoints of its results and their neighbours.
    whole = Inverse(degree=1, of=lambda n: n, largest=lambda n: n)
    monkeypatch.setitem(INVERSES, "value", whole)
    row = dataclasses.replace(SUM_SQUARE, term="value")
    classes = {"ties", "near ties"}
    for hard in hard_floats(row, dtype):
        if hard.class_name not in classes:
            continue
        parts = hard.elements(rng, 40)
        total = sum((Fraction(float(x)) for part in parts for x in part), Fraction(0))
        result = Fraction(float(round_exact(total, dtype)))
        exponent = total.numerator.bit_length() - total.denominator.bit_length()
        ulp = Fraction(2) ** (exponent + 1 - PRECISION[dtype.name])
        off = abs(total - result) / ulp
        if hard.class_name == "ties":
            assert off == Fraction(1, 2)
        else:
            assert 0 < abs(off - Fraction(1, 2)) < Fraction(1, 2)


def test_integers_wrap_or_exceed_floating_point() -> None:
    for case in CASES:
        if case.class_name == "wrap":
            pairs = zip(case.unrounded.flat, case.expected.flat, strict=True)
            fits = [int(e) == int(x) for e, x in pairs]
            assert not all(fits)
        if case.class_name == "wide integers":
            assert (case.unrounded == case.expected).all()
            through = np.array(case.unrounded, f"f{case.data.dtype.itemsize}")
            assert [int(v) for v in through.flat] != [int(v) for v in case.unrounded.flat]


def test_the_models_of_valid_cases_pass_onnx_checker() -> None:
    for case in CASES[::7]:
        if case.valid:
            model, _ = case.model()
            onnx.checker.check_model(model, full_check=True)


def test_each_case_says_why() -> None:
    for case in CASES:
        assert case.why.endswith("."), case.name
        assert case.source.startswith("https://")
        assert case.node.startswith(
            f"ReduceSumSquare-{case.version} of opset {case.opset}"
        )
    (tie,) = named("_18_float32_reports_f32_double_rounding_via_f64")
    assert "above their midpoint" in tie.why
    (tie,) = named("_18_float16_absorption_few_ones_first2_")
    assert tie.why == (
        "One 64, and ones whose squares are at most half an ulp of its square. The hard "
        "terms are at the end of each 1000. Axis 0 of 2 is reduced and kept with size "
        "1: the result has shape [1, 3]. The exact sum of element [0, 0] is 4098, "
        "between 4096 and 4100 of float16: a tie, and 4096 is the even one."
    )


LAYOUTS = {
    "all": "r+",
    "last": "k+r",
    "first": "rk+",
    "middle": "k+r+k+",
    "mixed": "(rk)+r|(kr)+kr",
}
HARD = (FLOATS_ONLY | INTEGERS_ONLY | {"random"}) & set(CLASSES)


def layout(case: Case) -> tuple[str, int]:
    rank = case.data.ndim
    pattern = "".join("r" if axis in case.reduced else "k" for axis in range(rank))
    return next(w for w, p in LAYOUTS.items() if re.fullmatch(p, pattern)), rank


def length(case: Case) -> int:
    return case.data.size // case.expected.size if case.expected is not None else 0


@pytest.mark.parametrize("name", sorted(HARD))
def test_each_hard_class_comes_in_every_place(name: str) -> None:
    for dtype in TYPES:
        cases = [
            case
            for case in CASES
            if (case.class_name, case.version, case.type) == (name, 18, dtype.name)
        ]
        if not cases:
            assert name in (FLOATS_ONLY if dtype.kind in "iu" else INTEGERS_ONLY)
            continue
        layouts = {layout(case) for case in cases}
        for word in LAYOUTS:
            assert {rank for other, rank in layouts if other == word} & {3, 4, 5}
        assert {rank for _, rank in layouts} >= {1, 2, 3, 4, 5}
        outputs = {case.expected.size for case in cases if case.expected is not None}
        assert outputs >= {1, 3, 33, 200}
        lengths = {length(case) for case in cases}
        assert lengths >= {7, 8, 9, 16, 17, 64, 65, 128, 129, 1000, 1001}
        for kind in {case.kind for case in cases}:
            words = " ".join(case.note for case in cases if case.kind == kind)
            for place in ("at the front", "in the middle", "at the end"):
                assert place in words or "terms counts" in words
            some = [case for case in cases if case.kind == kind]
            assert {layout(case)[0] for case in some} == set(LAYOUTS)
            assert {1000, 1001} <= {length(case) for case in some}


@pytest.mark.parametrize("target", halfulp._core.target_names())
def test_halfulp_is_exact_on_every_kernel(target: str) -> None:
    for case in CASES:
        if case.valid:
            with configuration(target, 2):
                got = halfulp.reduce_sum_square(case.data, case.axes, **case.attributes)
            assert_same_bits(got, case.expected)


def test_halfulp_is_exact_on_models() -> None:
    for case in CASES[::3]:
        if case.valid:
            model, feeds = case.model()
            assert_same_bits(run_model(model, feeds)["reduced"], case.expected)


def test_halfulp_refuses_every_invalid_case() -> None:
    for case in CASES:
        if not case.valid:
            assert case.class_name in (INVALID, WRONG_OPSET)
            model, feeds = case.model()
            with pytest.raises(halfulp.HalfulpError):
                run_model(model, feeds)


def case_of(values: Any, dtype: Any = np.float32, **facts: Any) -> Case:
    return Case("test_x", SUM_SQUARE, "ties", 18, np.array(values, dtype), **facts)


def answered(case: Case, values: Any, dtype: Any = None) -> Answer:
    array = np.array(values, dtype or case.data.dtype)
    return Answer(1, array.dtype.name, array.shape, array)


def inf_of(dtype: Any) -> Case:
    return case_of([np.inf, 1], dtype)


SQUARES = case_of([3.0, 4.0], noop_with_empty_axes=1)  # [9, 16]
TINY = float(np.finfo(np.float32).smallest_subnormal)


@pytest.mark.parametrize(
    ("case", "outcome", "word", "ulps", "passes"),
    [
        (SQUARES, answered(SQUARES, [9, 16]), "exact", 0, True),
        (
            SQUARES,
            answered(SQUARES, [9, np.nextafter(np.float32(16), 0)]),
            "ulps",
            1,
            True,
        ),
        (SQUARES, answered(SQUARES, [9, 16.5]), "ulps", 2**18, False),
        (SQUARES, answered(SQUARES, [9, 33]), "wrong value", None, False),
        (SQUARES, answered(SQUARES, [9, -16]), "wrong value", None, False),
        (SQUARES, answered(SQUARES, [np.nan, 16]), "wrong value", None, False),
        (SQUARES, answered(SQUARES, [9, np.inf]), "wrong value", None, False),
        (SQUARES, answered(SQUARES, [[9, 16]]), "wrong shape", None, False),
        (SQUARES, answered(SQUARES, [9, 16], float), "wrong type", None, False),
        (SQUARES, Answer(2, "", (), None), "wrong shape", None, False),
        (SQUARES, Answer(1, "object", (2,), None), "wrong type", None, False),
        (SQUARES, Refused("no kernel"), "refused", None, False),
        (SQUARES, Crashed("signal 11"), "crashed", None, False),
        (SQUARES, Hung("no answer"), "hung", None, False),
        (case_of([0.0]), answered(SQUARES, [0.0]), "exact", 0, True),
        (case_of([0.0]), answered(SQUARES, [-0.0]), "wrong value", None, True),
        (case_of([0.0]), answered(SQUARES, [TINY]), "ulps", 1, True),
        (inf_of("f4"), answered(SQUARES, [np.inf]), "exact", 0, True),
        (
            inf_of("f4"),
            answered(SQUARES, [np.finfo("f4").max]),
            "wrong value",
            None,
            False,
        ),
        (case_of([np.nan]), answered(SQUARES, [-np.nan]), "exact", 0, True),
        (case_of([np.nan]), answered(SQUARES, [np.inf]), "wrong value", None, False),
        (case_of([3], "i8"), answered(SQUARES, [9], "i8"), "exact", 0, True),
        (case_of([3], "i8"), answered(SQUARES, [10], "i8"), "wrong value", None, False),
        (
            case_of([2000], "i8"),
            answered(SQUARES, [4000001], "i8"),
            "wrong value",
            None,
            True,
        ),
    ],
)
def test_verdicts(
    case: Case, outcome: Outcome, word: str, ulps: int | None, passes: bool
) -> None:
    verdict = judge(case, outcome)
    assert (verdict.word, verdict.ulps) == (word, ulps)
    assert verdict.passes_at_onnx_tolerance == passes


def test_verdicts_of_bfloat16_allow_two_ulps_as_onnx_does() -> None:
    case = case_of([1.0], ml_dtypes.bfloat16)
    for pattern, ulps, passes in (
        (0x3F80, 0, True),
        (0x3F82, 2, True),
        (0x3F83, 3, False),
    ):
        got = from_bits([pattern], case.data.dtype)
        verdict = judge(case, Answer(1, "bfloat16", (1,), got))
        assert (verdict.ulps, verdict.passes_at_onnx_tolerance) == (ulps, passes)


def test_verdicts_on_invalid_models() -> None:
    case = Case("test_x", SUM_SQUARE, INVALID, 18, np.ones(3, np.float32), "const", [1])
    assert judge(case, Refused("out of range")).word == "exact"
    assert judge(case, answered(case, [3.0])).word == "accepted"
    assert judge(case, Crashed("signal 11")).word == "crashed"


def test_the_worst_element_is_named() -> None:
    verdict = judge(SQUARES, answered(SQUARES, [9, -16]))
    assert verdict.worst == (1,)
    assert verdict.text == "element [1] is worst"


def test_each_verdict_has_its_test() -> None:
    marks = test_verdicts.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {mark[2] for mark in marks} | {"accepted"} == set(VERDICTS)
