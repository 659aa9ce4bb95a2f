"""A node means the same in both engines: onnx's evaluator and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import halfulp
from onnx_models import DATA, DTYPES, reduce_model, report_array, report_model, reports
from oracle import arrays, assert_same_bits, expected

_Run = Callable[[onnx.ModelProto, Mapping[str, Any]], dict[str, Any]]

NEWEST = onnx.defs.onnx_opset_version()
SHAPE = (2, 3, 4)


def in_onnxruntime(proto: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
    session = halfulp.onnxruntime.InferenceSession(proto.SerializeToString())
    return halfulp.onnxruntime.run(session, feeds)


ENGINES: dict[str, _Run] = {
    "reference": halfulp.onnx.run_model,
    "onnxruntime": in_onnxruntime,
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(engine: str) -> _Run:
    return ENGINES[engine]


def needs(engine: str, type_: str) -> None:
    """Skip the type that an old engine takes from no Python."""
    if engine == "onnxruntime" and type_ == "bfloat16":
        release = tuple(int(n) for n in onnxruntime.__version__.split(".")[:2])
        if release < (1, 20):
            pytest.skip("takes no bfloat16 from Python")


@pytest.mark.parametrize("case", reports("run"), ids=lambda case: case["id"])
def test_public_reports_give_the_expected_bits(
    case: dict[str, Any], engine: str, run: _Run
) -> None:
    needs(engine, case["data"]["type"])
    proto, feeds = report_model(case)
    assert_same_bits(run(proto, feeds)["reduced"], report_array(case["expect"]))


@pytest.mark.parametrize("opset", [1, 6, 7, 10, 11, 12, 13, 17, 18, 21, NEWEST])
@pytest.mark.parametrize("name", DTYPES)
def test_every_type_and_opset(
    name: str, opset: int, engine: str, run: _Run, rng: np.random.Generator
) -> None:
    needs(engine, name)
    if name == "bfloat16" and opset < 13 and engine == "reference":
        pytest.skip("not a type of this version; ONNX Runtime does not tell versions")
    data = arrays(rng, DTYPES[name], SHAPE)
    for axes in ([], [1], [-1, 0], [2, 2, -1, 1]):
        form = "attr" if opset < 18 else "input"
        proto, feeds = reduce_model(data, opset=opset, axes=axes, form=form, keepdims=0)
        axis = tuple({a % 3 for a in axes}) or None
        assert_same_bits(run(proto, feeds)["reduced"], expected(data, axis))


@pytest.mark.parametrize("opset", [1, 11, 13, 17])
@pytest.mark.parametrize("axes", [None, [], [1], [-1], [0, 2], [2, 2, -1], [1, 0, 2]])
@pytest.mark.parametrize("keepdims", [None, 0, 1])
def test_axes_as_attribute(
    opset: int, axes: list[int] | None, keepdims: int | None, run: _Run
) -> None:
    data = np.arange(24, dtype=np.float32).reshape(SHAPE)
    form = "absent" if axes is None else "attr"
    proto, feeds = reduce_model(
        data, opset=opset, axes=axes, form=form, keepdims=keepdims
    )
    axis = tuple({a % 3 for a in axes}) if axes else None
    want = expected(data, axis, keepdims=keepdims != 0)
    assert_same_bits(run(proto, feeds)["reduced"], want)


@pytest.mark.parametrize("opset", [18, NEWEST])
@pytest.mark.parametrize("form", ["const", "node", "input", "default"])
@pytest.mark.parametrize("axes", [[], [1], [-1], [0, 2], [2, 2, -1]])
@pytest.mark.parametrize("noop", [None, 0, 1])
def test_axes_as_input(
    opset: int, form: str, axes: list[int], noop: int | None, run: _Run
) -> None:
    data = np.arange(24, dtype=np.float32).reshape(SHAPE)
    axis = tuple({a % 3 for a in axes}) if axes or noop else None
    for keepdims in (0, 1):
        proto, feeds = reduce_model(
            data,
            opset=opset,
            axes=axes,
            form=form,
            keepdims=keepdims,
            noop_with_empty_axes=noop,
        )
        want = expected(data, axis, keepdims=bool(keepdims))
        assert_same_bits(run(proto, feeds)["reduced"], want)


@pytest.mark.parametrize("form", ["absent", "empty name"])
@pytest.mark.parametrize("noop", [0, 1])
def test_absent_axes(form: str, noop: int, run: _Run) -> None:
    proto, feeds = reduce_model(DATA, form=form, keepdims=0, noop_with_empty_axes=noop)
    want = expected(DATA, () if noop else None)
    assert_same_bits(run(proto, feeds)["reduced"], want)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_rank_0_is_squared(name: str, keepdims: int, engine: str, run: _Run) -> None:
    needs(engine, name)
    data = np.array(3, DTYPES[name])
    for form, opset in (("absent", 13), ("absent", 18), ("input", 18)):
        proto, feeds = reduce_model(
            data, opset=opset, axes=[], form=form, keepdims=keepdims
        )
        assert_same_bits(run(proto, feeds)["reduced"], np.array(9, DTYPES[name]))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, None])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_empty_sets_sum_to_0(
    name: str, axis: int | None, keepdims: int, engine: str, run: _Run
) -> None:
    needs(engine, name)
    data = np.zeros((2, 0, 4), DTYPES[name])
    axes = [] if axis is None else [axis]
    proto, feeds = reduce_model(data, axes=axes, form="const", keepdims=keepdims)
    want = expected(data, axis, keepdims=bool(keepdims))
    assert_same_bits(run(proto, feeds)["reduced"], want)
