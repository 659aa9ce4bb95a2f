"""The contract's decisions about a node, by number, on every face that takes one."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from faces import ENGINES, FACES, Reduce, needs
from onnx_models import DATA, DTYPES, report_array, report_model, reports
from oracle import arrays, assert_same_bits, expected

NEWEST = onnx.defs.onnx_opset_version()
SHAPE = (2, 3, 4)


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reduce(face: str) -> Reduce:
    return FACES[face]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", reports("run"), ids=lambda case: case["id"])
def test_public_reports_give_the_expected_bits(case: dict[str, Any], engine: str) -> None:
    needs(engine, case["data"]["type"], case["opset"])
    got = ENGINES[engine](*report_model(case))["reduced"]
    assert_same_bits(got, report_array(case["expect"]))


@pytest.mark.parametrize("opset", [1, 6, 7, 10, 11, 12, 13, 17, 18, 21, NEWEST])
@pytest.mark.parametrize("name", DTYPES)
def test_1_every_type_and_opset(
    name: str, opset: int, face: str, reduce: Reduce, rng: np.random.Generator
) -> None:
    needs(face, name, opset)
    data = arrays(rng, DTYPES[name], SHAPE)
    for axes in ([], [1], [-1, 0], [2, 2, -1, 1]):
        form = "attr" if opset < 18 else "input"
        got = reduce(data, opset=opset, axes=axes, axes_form=form, keepdims=0)
        assert_same_bits(got, expected(data, tuple({a % 3 for a in axes}) or None))


@pytest.mark.parametrize("opset", [1, 11, 13, 17])
@pytest.mark.parametrize("axes", [None, [], [1], [-1], [0, 2], [2, 2, -1], [1, 0, 2]])
@pytest.mark.parametrize("keepdims", [None, 0, 1])
def test_2_and_3_axes_as_attribute(
    opset: int, axes: list[int] | None, keepdims: int | None, reduce: Reduce
) -> None:
    data = np.arange(24, dtype=np.float32).reshape(SHAPE)
    form = "absent" if axes is None else "attr"
    got = reduce(data, opset=opset, axes=axes, axes_form=form, keepdims=keepdims)
    axis = tuple({a % 3 for a in axes}) if axes else None
    assert_same_bits(got, expected(data, axis, keepdims=keepdims != 0))


@pytest.mark.parametrize("opset", [18, 21, NEWEST])
@pytest.mark.parametrize("form", ["const", "node", "input", "default"])
@pytest.mark.parametrize("axes", [[], [1], [-1], [0, 2], [2, 2, -1]])
@pytest.mark.parametrize("noop", [None, 0, 1])
def test_2_and_3_axes_as_input(
    opset: int, form: str, axes: list[int], noop: int | None, face: str, reduce: Reduce
) -> None:
    if form == "default" and face == "evaluator":
        pytest.skip("onnx's evaluator wants a value for each input")
    data = np.arange(24, dtype=np.float32).reshape(SHAPE)
    axis = tuple({a % 3 for a in axes}) if axes or noop else None
    flags = {"noop_with_empty_axes": noop}
    for keepdims in (0, 1):
        node = {"opset": opset, "axes": axes, "axes_form": form, "keepdims": keepdims}
        want = expected(data, axis, keepdims=bool(keepdims))
        assert_same_bits(reduce(data, **node, **flags), want)


@pytest.mark.parametrize("form", ["absent", "empty name"])
@pytest.mark.parametrize("noop", [None, 0, 1])
@pytest.mark.parametrize("keepdims", [None, 0, 1])
def test_2_absent_axes(
    form: str, noop: int | None, keepdims: int | None, reduce: Reduce
) -> None:
    got = reduce(DATA, axes_form=form, keepdims=keepdims, noop_with_empty_axes=noop)
    want = expected(DATA, () if noop else None, keepdims=keepdims != 0)
    assert_same_bits(got, want)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_5_rank_0_is_squared(name: str, keepdims: int, face: str, reduce: Reduce) -> None:
    for form, opset in (("absent", 1), ("absent", 13), ("absent", 18), ("input", 18)):
        if name == "bfloat16" and opset < 13:
            continue
        needs(face, name)
        data, axes = np.array(-3).astype(DTYPES[name]), [] if form == "input" else None
        got = reduce(data, opset=opset, axes=axes, axes_form=form, keepdims=keepdims)
        assert_same_bits(got, data * data)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, None])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_6_empty_sets_sum_to_0(
    name: str, axis: int | None, keepdims: int, face: str, reduce: Reduce
) -> None:
    needs(face, name)
    data = np.zeros((2, 0, 4), DTYPES[name])
    axes = [] if axis is None else [axis]
    got = reduce(data, axes=axes, axes_form="const", keepdims=keepdims)
    assert_same_bits(got, expected(data, axis, keepdims=bool(keepdims)))


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
