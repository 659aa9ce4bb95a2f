"""The contract's decisions about a node, by number, on every face that takes one."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import onnx
import pytest

from faces import ENGINES, FACES, Reduce, needs
from halfulp.reductions import REDUCTIONS, Reduction
from onnx_models import DATA, DTYPES, report_array, report_model, reports
from oracle import FLOATS, arrays, assert_same_bits, expected_of

NEWEST = onnx.defs.onnx_opset_version()
SHAPE = (2, 3, 4)
# From which opset on axes are an input.
AXES_INPUT = dict.fromkeys((row.operator for row in REDUCTIONS), 18) | {"ReduceSum": 13}


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reduce(face: str) -> Reduce:
    return FACES[face]


by_row = pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)


@pytest.fixture
def some_row(request: pytest.FixtureRequest) -> Reduction:
    """One row or another, by the name of the test: many cases have each of them."""
    return REDUCTIONS[crc32(request.node.name.encode()) % len(REDUCTIONS)]


def right(
    row: Reduction, data: np.ndarray, axis: Any = None, keepdims: bool = False
) -> np.ndarray:
    """What a node of a row gives: the type of the data."""
    return expected_of(row, data, axis, data.dtype, keepdims)


def neutral(row: Reduction, dtype: np.dtype) -> float:
    """What joins no elements."""
    if dtype in FLOATS:
        least, greatest, unknown = -np.inf, np.inf, np.nan
    else:
        least, greatest, unknown = np.iinfo(dtype).min, np.iinfo(dtype).max, 0
    others = {"max": least, "min": greatest, "prod": 1, "mean": unknown}
    others |= dict.fromkeys(("log_sum", "log_sum_exp"), least)
    return others.get(row.name, 0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", reports("run"), ids=lambda case: case["id"])
def test_public_reports_give_the_expected_bits(case: dict[str, Any], engine: str) -> None:
    needs(engine, case["data"]["type"], case["opset"])
    got = ENGINES[engine](*report_model(case))["reduced"]
    assert_same_bits(got, report_array(case["expect"]))


@by_row
@pytest.mark.parametrize("name", DTYPES)
def test_1_every_type_and_opset(
    row: Reduction, name: str, face: str, reduce: Reduce, rng: np.random.Generator
) -> None:
    data = arrays(rng, DTYPES[name], SHAPE)
    for axes in ([], [1], [-1, 0], [2, 2, -1, 1]):
        want = right(row, data, tuple({a % 3 for a in axes}) or None)
        for opset in (1, 6, 10, 11, 12, 13, 17, 18, NEWEST):
            if name not in row.version_for(opset).types:
                continue
            needs(face, name, opset)
            form = "attr" if opset < AXES_INPUT[row.operator] else "input"
            node = {"opset": opset, "axes": axes, "axes_form": form, "keepdims": 0}
            assert_same_bits(reduce(data, row, **node), want)


@pytest.mark.parametrize("opset", [1, 11, 12, 13, 17])
@pytest.mark.parametrize("axes", [None, [], [1], [-1], [0, 2], [2, 2, -1], [1, 0, 2]])
@pytest.mark.parametrize("keepdims", [None, 0, 1])
def test_2_and_3_axes_as_attribute(
    opset: int,
    axes: list[int] | None,
    keepdims: int | None,
    some_row: Reduction,
    reduce: Reduce,
) -> None:
    opset = min(opset, AXES_INPUT[some_row.operator] - 1)
    data = np.arange(24, dtype=np.float32).reshape(SHAPE)
    form = "absent" if axes is None else "attr"
    node = {"opset": opset, "axes": axes, "axes_form": form, "keepdims": keepdims}
    axis = tuple({a % 3 for a in axes}) if axes else None
    want = right(some_row, data, axis, keepdims != 0)
    assert_same_bits(reduce(data, some_row, **node), want)


@pytest.mark.parametrize("opset", [13, 18, NEWEST])
@pytest.mark.parametrize("form", ["const", "node", "input", "default"])
@pytest.mark.parametrize("axes", [[], [1], [-1], [0, 2], [2, 2, -1]])
@pytest.mark.parametrize("noop", [None, 0, 1])
def test_2_and_3_axes_as_input(
    opset: int,
    form: str,
    axes: list[int],
    noop: int | None,
    some_row: Reduction,
    face: str,
    reduce: Reduce,
) -> None:
    if form == "default" and face == "evaluator":
        pytest.skip("onnx's evaluator wants a value for each input")
    opset = max(opset, AXES_INPUT[some_row.operator])
    data = np.arange(-9, 15, dtype=np.float32).reshape(SHAPE)
    axis = tuple({a % 3 for a in axes}) if axes or noop else None
    flags = {"noop_with_empty_axes": noop}
    for keepdims in (0, 1):
        node = {"opset": opset, "axes": axes, "axes_form": form, "keepdims": keepdims}
        want = right(some_row, data, axis, bool(keepdims))
        assert_same_bits(reduce(data, some_row, **node, **flags), want)


@by_row
@pytest.mark.parametrize("form", ["absent", "empty name"])
@pytest.mark.parametrize("noop", [None, 0, 1])
def test_2_absent_axes(
    row: Reduction, form: str, noop: int | None, reduce: Reduce
) -> None:
    for keepdims in (None, 0, 1):
        flags = {"keepdims": keepdims, "noop_with_empty_axes": noop}
        got = reduce(DATA, row, axes_form=form, **flags)
        assert_same_bits(got, right(row, DATA, () if noop else None, keepdims != 0))


@by_row
@pytest.mark.parametrize("name", [name for name in DTYPES if "float" in name])
def test_2_an_element_that_is_not_reduced_keeps_its_zero(
    row: Reduction, name: str, face: str, reduce: Reduce
) -> None:
    """One that is a sum of itself does not: exactly zero is +0 then."""
    needs(face, name)
    data = np.array([-0.0, 0, -np.nan, -np.inf, np.inf, -4], DTYPES[name])
    alone = {
        "value": data,
        "magnitude": abs(data),
        "square": data * data,
        "log": right(row, data, ()),
    }
    kept = alone[row.of_one]
    kept[2] = np.nan
    assert_same_bits(reduce(data, row, noop_with_empty_axes=1), kept)
    joined = reduce(data[:, None], row, axes=[1], axes_form="const", keepdims=0)
    if row.operation in ("sum", "exponentials") and row.of_one != "log":
        kept[0] = 0
    assert_same_bits(joined, kept)
    for scalar in (data[:1].reshape(()), data[:1]):
        assert_same_bits(reduce(scalar, row, keepdims=0), kept[0])


@by_row
@pytest.mark.parametrize("name", DTYPES)
def test_5_rank_0_is_one_element(
    row: Reduction, name: str, face: str, reduce: Reduce
) -> None:
    since = AXES_INPUT[row.operator]
    for form, opset in (("absent", 1), ("absent", 13), ("absent", 18), ("input", since)):
        if name == "bfloat16" and opset < 13:
            continue
        needs(face, name)
        data, axes = np.array(-3).astype(DTYPES[name]), [] if form == "input" else None
        for keepdims in (0, 1):
            node = {"opset": opset, "axes": axes, "axes_form": form, "keepdims": keepdims}
            assert_same_bits(reduce(data, row, **node), right(row, data))


@by_row
@pytest.mark.parametrize("name", DTYPES)
def test_6_empty_sets(row: Reduction, name: str, face: str, reduce: Reduce) -> None:
    """What joins nothing is neutral; the mean of no floats is NaN."""
    needs(face, name)
    data = np.zeros((2, 0, 4), DTYPES[name])
    empty = np.full((), neutral(row, data.dtype), DTYPES[name])
    for keepdims in (0, 1):
        for axis, shape in (
            (0, (1, 0, 4) if keepdims else (0, 4)),
            (1, (2, 1, 4) if keepdims else (2, 4)),
            (2, (2, 0, 1) if keepdims else (2, 0)),
            (None, (1, 1, 1) if keepdims else ()),
        ):
            axes = [] if axis is None else [axis]
            got = reduce(data, row, axes=axes, axes_form="const", keepdims=keepdims)
            assert_same_bits(got, np.broadcast_to(empty, shape))


@pytest.mark.parametrize(("opset", "form"), [(1, "attr"), (13, "attr"), (18, "const")])
@pytest.mark.parametrize("axis", [2, -3, 2**40, -(2**63)])
def test_3_axes_out_of_range_are_errors(
    opset: int, form: str, axis: int, reduce: Reduce
) -> None:
    message = rf"axis {axis} is out of range for rank 2; allowed: \[-2, 1\]"
    with pytest.raises(Exception, match=message):
        reduce(DATA, opset=opset, axes=[axis], axes_form=form)


@pytest.mark.parametrize("form", ["const", "input"])
@pytest.mark.parametrize(
    "axes", [np.array(1), np.array([[1]]), np.array([1], np.int32)], ids=repr
)
def test_3_axes_of_another_rank_or_type_are_errors(
    axes: np.ndarray, form: str, reduce: Reduce
) -> None:
    with pytest.raises(Exception, match="axes"):
        reduce(DATA, axes=axes, axes_form=form)


@pytest.mark.parametrize("flag", ["keepdims", "noop_with_empty_axes"])
@pytest.mark.parametrize("value", [2, -1])
def test_4_flags_are_0_or_1(flag: str, value: int, reduce: Reduce) -> None:
    with pytest.raises(Exception, match=f"{flag} is {value}; allowed: 0 or 1"):
        reduce(DATA, **{flag: value})


@pytest.mark.parametrize(("opset", "form"), [(1, "attr"), (18, "const"), (18, "input")])
def test_5_rank_0_has_no_axes(opset: int, form: str, reduce: Reduce) -> None:
    message = "rank 0; allowed: none, a scalar has no axes"
    with pytest.raises(Exception, match=message):
        reduce(np.array(3, np.float32), opset=opset, axes=[0], axes_form=form)
