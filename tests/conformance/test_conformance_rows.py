"""Cases of each reduction are what they say, and find what is wrong with others.

A planted bug is a way to reduce that other libraries have; it has to be found by a class
of cases that names it. What is right comes from halfulp.exact through the cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import halfulp
from halfulp.conformance.backends.outcomes import Answer
from halfulp.conformance.cases.case import CLASSES, INVALID, WRONG_OPSET, Case
from halfulp.conformance.cases.maker import prefix
from halfulp.conformance.cases.suite import all_cases, cases_of, quick
from halfulp.conformance.verdicts import EXACT, judge
from halfulp.onnx import run_model
from halfulp.reductions import (
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
    SUMS,
    Reduction,
)
from oracle import assert_same_bits, configuration

OTHERS = [row for row in REDUCTIONS if row is not SUM_SQUARE]
by_row = pytest.mark.parametrize("row", OTHERS, ids=lambda row: row.name)

Array = np.ndarray

# The classes that not each row has cases of, and those that have.
ENDS, LOGS = {MAX, MIN}, {LOG_SUM, LOG_SUM_EXP}
SOME = {
    "ties": {*SUMS, PROD},
    "near ties": {*SUMS, PROD, *LOGS},
    "twice rounded": {*SUMS, PROD},
    "absorption": {*SUMS, *LOGS},
    "cancellation": {SUM, MEAN, *LOGS},
    "partial overflow": {SUM, MEAN, PROD, *LOGS},
    "signed zero": {SUM, MEAN, PROD, *ENDS, LOG_SUM_EXP},
    "overflow": {SUM, L1, L2, SUM_SQUARE, PROD, LOG_SUM_EXP},
    "wide integers": {*SUMS, PROD, *ENDS, LOG_SUM_EXP},
    "wrap": {SUM, L1, SUM_SQUARE, PROD},
    "integer mean": {MEAN},
    "integer root": {L2},
    "integer log": LOGS,
    "rivals": ENDS,
    "examples": {SUM_SQUARE},
    "reports": {SUM_SQUARE},
}


@cache
def some_of(row: Reduction) -> list[Case]:
    """The first case of each kind; but for sums, of the last version of a type."""
    cases = quick(cases_of(row))
    if row in SUMS:
        return cases
    last = {case.type: case.version for case in cases if case.valid}
    return [case for case in cases if case.version == last.get(case.type)]


@by_row
def test_each_row_has_cases_of_each_class_that_it_can_have(row: Reduction) -> None:
    present = {case.class_name for case in cases_of(row)}
    assert present == {name for name in CLASSES if name not in SOME or row in SOME[name]}
    names = [case.name for case in cases_of(row)]
    assert len({*names}) == len(names) > 4000
    assert all(name.startswith(prefix(row)) and len(name) <= 100 for name in names)


def test_names_tell_operators_apart() -> None:
    for row in REDUCTIONS:
        begins = [case for case in all_cases() if case.name.startswith(prefix(row))]
        assert begins == list(cases_of(row))


@pytest.mark.parametrize("target", halfulp._core.target_names())
@by_row
def test_halfulp_is_exact_on_every_kernel(row: Reduction, target: str) -> None:
    reduce = getattr(halfulp, row.onnx_name)
    for case in some_of(row):
        if case.valid:
            with configuration(target, 2):
                got = reduce(case.data, case.axes, **case.attributes)
            assert_same_bits(got, case.expected)


@by_row
def test_halfulp_is_exact_on_models_and_refuses_what_is_invalid(row: Reduction) -> None:
    for case in some_of(row)[::4]:
        model, feeds = case.model()
        if case.valid:
            assert_same_bits(run_model(model, feeds)["reduced"], case.expected)
        else:
            with pytest.raises(halfulp.HalfulpError):
                run_model(model, feeds)


@by_row
def test_each_case_says_why(row: Reduction) -> None:
    for case in some_of(row):
        assert case.why.endswith("."), case.name
        assert case.node.startswith(f"{row.operator}-{case.version} of opset")
        if row.term != "square":
            assert "square" not in case.why, case.why
        if row in ENDS:
            assert " sum" not in case.why, case.why
        if case.valid:
            assert case.class_name not in (INVALID, WRONG_OPSET)


def rows_of(case: Case) -> Array:
    kept = [axis for axis in range(case.data.ndim) if axis not in case.reduced]
    assert case.expected is not None
    turned = case.data.transpose(*kept, *case.reduced)
    return turned.reshape(case.expected.size, -1 if case.expected.size else 0)


Reduce = Callable[[Array], Array]


@dataclass(frozen=True)
class Bug:
    """A wrong way to reduce the rows of a matrix, and the class that names it."""

    name: str
    row: Reduction
    types: tuple[str, ...]
    found_by: str
    reduce: Reduce


HALF = ("float16",)
NARROW = ("float16", "float32")
FLOATS = (*NARROW, "float64")
LONG = ("int64",)
INTEGERS = ("int32", *LONG)


def wide(x: Array) -> Array:
    return x.astype({2: np.float32, 4: np.float64, 8: np.longdouble}[x.itemsize])


def in_turn(x: Array) -> Array:
    """Sums in the type of the elements, from one end to the other."""
    if not x.shape[1]:
        return np.zeros(len(x), x.dtype)
    return np.add.accumulate(x, axis=1, dtype=x.dtype)[:, -1]


def summed(x: Array) -> Array:
    """The right sums of rows."""
    return halfulp.reduce_sum(x, [1], keepdims=0)


def with_negative_zeros(x: Array) -> Array:
    only = np.signbit(x).all(axis=1) & (x == 0).all(axis=1)
    return np.where(only, -0.0, summed(x))


def sums_divided(x: Array) -> Array:
    return summed(x) / x.dtype.type(x.shape[1])


def without_negative_zeros(x: Array) -> Array:
    return halfulp.reduce_mean(x, [1], keepdims=0) + x.dtype.type(0)


def floored(x: Array) -> Array:
    return np.array([sum(row) // len(row) for row in x.tolist()])


def wrapped_and_divided(x: Array) -> Array:
    return in_turn(x) / x.shape[1]


def means_in_double(x: Array) -> Array:
    return x.astype(float).mean(axis=1)


def roots_of_sums(x: Array) -> Array:
    return np.sqrt(halfulp.reduce_sum_square(x, [1], keepdims=0))


def roots_in_turn(x: Array) -> Array:
    return np.sqrt(in_turn(x * x))


def roots_of_wide(x: Array) -> Array:
    return np.sqrt(in_turn(wide(x) * wide(x)))


def roots_of_wrapped(x: Array) -> Array:
    return np.sqrt(np.maximum(in_turn(x * x), 0).astype(float))


def roots_in_double(x: Array) -> Array:
    return np.sqrt((x.astype(float) ** 2).sum(axis=1))


def last_is_kept(worse: Callable[[Array, Array], Array]) -> Reduce:
    """The greatest by a comparison, as of loops that go from one to the next."""

    def reduce(x: Array) -> Array:
        found = x[:, 0]
        for column in x.T[1:]:
            found = np.where(worse(found, column), column, found)
        return found

    return reduce


def from_number(start: Callable[[np.dtype], float], better: Any) -> Reduce:
    """Greatest or least elements, looked for from a number on."""

    def reduce(x: Array) -> Array:
        return better.reduce(x, axis=1, initial=start(x.dtype))

    return reduce


def flushed(x: Array) -> Array:
    least = np.finfo(x.dtype).tiny
    return np.max(np.where(abs(x) < least, 0, x), axis=1)


def multiplied(x: Array) -> Array:
    return np.multiply.accumulate(x, axis=1, dtype=x.dtype)[:, -1]


def multiplied_backwards(x: Array) -> Array:
    return multiplied(x[:, ::-1])


def multiplied_sizes(x: Array) -> Array:
    """Signs are lost where a product is 0."""
    return halfulp.reduce_prod(x, [1], keepdims=0) + x.dtype.type(0)


def logs_of_rounded(x: Array) -> Array:
    return np.log(summed(x))


def logs_in_turn(x: Array) -> Array:
    return np.log(in_turn(x))


def logs_of_wrapped(x: Array) -> Array:
    return np.log(np.maximum(in_turn(x), 1).astype(float))


def exps_in_turn(x: Array) -> Array:
    return np.log(in_turn(np.exp(x)))


def shifted(x: Array) -> Array:
    most = x.max(axis=1, keepdims=True)
    return np.log(in_turn(np.exp(x - most))) + most[:, 0]


def shifted_wide(x: Array) -> Array:
    return shifted(wide(x))


def floored_log_sum_exp(x: Array) -> Array:
    return np.floor(shifted(x.astype(float)))


def not_less(x: Array, y: Array) -> Array:
    return ~(x < y)


def narrow(x: Array) -> Array:
    """A type of fewer bits of the significand; of halves, without their last bit."""
    if x.itemsize > 2:
        return x.astype({4: np.float16, 8: np.float32}[x.itemsize])
    return (x.view(np.uint16) & 0xFFFE).view(x.dtype)


def as_signed(x: Array) -> Array:
    return x.view(f"i{x.itemsize}").max(axis=1).view(x.dtype)


def zero_wins(x: Array) -> Array:
    return np.where((x == 0).any(axis=1), 0, multiplied(x))


def saturated_product(x: Array) -> Array:
    info = np.iinfo(x.dtype)
    return np.array([min(max(math.prod(r), info.min), info.max) for r in x.tolist()])


def least(dtype: np.dtype) -> float:
    return float(np.finfo(dtype).min)


BYTES = ("int8", "int32", "int64")
BUGS = (
    Bug("sums in the type", SUM, FLOATS, "cancellation", in_turn),
    Bug("sums in the type overflow", SUM, FLOATS, "partial overflow", in_turn),
    Bug("sums in a wider type", SUM, FLOATS, "cancellation", lambda x: in_turn(wide(x))),
    Bug("rounds twice", SUM, HALF, "twice rounded", lambda x: in_turn(wide(x))),
    Bug("keeps the sign of zeros", SUM, FLOATS, "inf and nan", with_negative_zeros),
    Bug("rounds sums before dividing", MEAN, FLOATS, "near ties", sums_divided),
    Bug("sums overflow first", MEAN, FLOATS, "partial overflow", sums_divided),
    Bug("loses signs of zeros", MEAN, FLOATS, "signed zero", without_negative_zeros),
    Bug("wraps first", MEAN, INTEGERS, "integer mean", wrapped_and_divided),
    Bug("floors", MEAN, INTEGERS, "integer mean", floored),
    Bug("rounds", MEAN, INTEGERS, "integer mean", lambda x: means_in_double(x).round()),
    Bug("means in double", MEAN, LONG, "integer mean", means_in_double),
    Bug("forgets signs", L1, FLOATS, "random", summed),
    Bug("magnitudes in the type", L1, FLOATS, "absorption", lambda x: in_turn(abs(x))),
    Bug("squares overflow", L2, FLOATS, "overflow", roots_in_turn),
    Bug("squares vanish", L2, FLOATS, "subnormals", roots_in_turn),
    Bug("rounds sums before the root", L2, FLOATS, "near ties", roots_of_sums),
    Bug("roots in a wider type", L2, NARROW, "near ties", roots_of_wide),
    Bug("wraps squares first", L2, INTEGERS, "integer root", roots_of_wrapped),
    Bug("roots in double", L2, LONG, "integer root", roots_in_double),
    Bug("skips NaN", MAX, FLOATS, "inf and nan", lambda x: np.fmax.reduce(x, axis=1)),
    Bug("skips NaN", MIN, FLOATS, "inf and nan", lambda x: np.fmin.reduce(x, axis=1)),
    Bug("NaN only if first", MAX, FLOATS, "inf and nan", last_is_kept(np.less)),
    Bug("NaN only if last", MIN, FLOATS, "inf and nan", last_is_kept(not_less)),
    Bug("zeros are alike", MAX, FLOATS, "signed zero", last_is_kept(np.less)),
    Bug("zeros are alike", MIN, FLOATS, "signed zero", last_is_kept(np.greater)),
    Bug("starts at 0", MAX, FLOATS, "rivals", from_number(lambda t: 0, np.maximum)),
    Bug("starts at 0", MIN, BYTES, "wide integers", from_number(lambda t: 0, np.minimum)),
    Bug(
        "starts at the least", MAX, FLOATS, "inf and nan", from_number(least, np.maximum)
    ),
    Bug("flushes", MAX, FLOATS, "subnormals", flushed),
    Bug("in half the type", MAX, FLOATS, "rivals", lambda x: narrow(x).max(axis=1)),
    Bug("in double", MAX, LONG, "rivals", lambda x: x.astype(float).max(axis=1)),
    Bug("in double", MIN, LONG, "rivals", lambda x: x.astype(float).min(axis=1)),
    Bug("as signed", MAX, ("uint8", "uint64"), "wide integers", as_signed),
    Bug("the other one", MAX, ("bool",), "rivals", lambda x: x.all(axis=1)),
    Bug("overflows on the way", PROD, FLOATS, "partial overflow", multiplied),
    Bug("backwards", PROD, FLOATS, "partial overflow", multiplied_backwards),
    Bug("rounds on the way", PROD, FLOATS, "near ties", multiplied),
    Bug("rounds on the way", PROD, FLOATS, "subnormals", multiplied),
    Bug("in a wider type", PROD, HALF, "twice rounded", lambda x: multiplied(wide(x))),
    Bug("loses signs of zeros", PROD, FLOATS, "signed zero", multiplied_sizes),
    Bug("0 wins over infinity", PROD, FLOATS, "inf and nan", zero_wins),
    Bug("in double", PROD, LONG, "wide integers", lambda x: multiplied(x.astype(float))),
    Bug("saturates", PROD, INTEGERS, "wrap", saturated_product),
    Bug("rounds sums first", LOG_SUM, FLOATS, "near ties", logs_of_rounded),
    Bug("sums in the type", LOG_SUM, FLOATS, "cancellation", logs_in_turn),
    Bug("sums overflow", LOG_SUM, FLOATS, "partial overflow", logs_in_turn),
    Bug("wraps first", LOG_SUM, INTEGERS, "integer log", logs_of_wrapped),
    Bug("has no shift", LOG_SUM_EXP, FLOATS, "partial overflow", exps_in_turn),
    Bug("inf less inf", LOG_SUM_EXP, FLOATS, "inf and nan", shifted),
    Bug("loses what is small", LOG_SUM_EXP, FLOATS, "absorption", shifted),
    Bug("cancels", LOG_SUM_EXP, FLOATS, "cancellation", shifted),
    Bug("in a wider type", LOG_SUM_EXP, NARROW, "near ties", shifted_wide),
    Bug("floors", LOG_SUM_EXP, INTEGERS, "integer log", floored_log_sum_exp),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.row.name}: {bug.name}")
def test_each_bug_is_found_by_the_class_that_names_it(bug: Bug) -> None:
    for type_name in bug.types:
        found = 0
        cases = [
            case
            for case in cases_of(bug.row)
            if (case.type, case.class_name) == (type_name, bug.found_by)
            and case.valid
            and case.reduced
        ]
        last = max(case.version for case in cases)
        cases = [case for case in cases if case.version == last]
        for case in cases:
            assert case.expected is not None
            with np.errstate(all="ignore"):
                wrong = bug.reduce(rows_of(case)).astype(case.data.dtype)
            got = wrong.reshape(case.expected.shape)
            verdict = judge(case, Answer(1, got.dtype.name, got.shape, got))
            found += verdict.word != EXACT
        assert found, type_name
