"""What is fed to a model is checked: each error names input, given and allowed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from halfulp import ArgumentError, HalfulpError
from halfulp.onnx import run_model
from onnx_models import DATA, model, reduce_model
from oracle import assert_same_bits

PROTO = model(
    "(float[2,N] x, int64[K] axes, string[1] s) => (y, z) <int64[1] axes = {1}> "
    "{ y = ReduceSumSquare<keepdims=0>(x, axes) z = Identity(s) }"
)
GOOD: dict[str, Any] = {"x": DATA, "s": np.array(["a"])}


def test_good_inputs() -> None:
    assert run_model(PROTO, GOOD)["y"].tolist() == [5, 50]
    assert run_model(PROTO, GOOD)["z"].tolist() == ["a"]
    assert run_model(PROTO, GOOD | {"axes": [0]})["y"].tolist() == [9, 17, 29]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": None}, ["input 'x' is missing", "'x', 'axes', 's'"]),
        ({"q": DATA}, ["input 'q' is unknown", "allowed: 'x', 'axes', 's'"]),
        ({3: DATA}, ["input 3 is unknown"]),
        ({"x": DATA.astype("f8")}, ["input 'x' has type double", "allowed: float"]),
        ({"x": DATA.astype("i4")}, ["input 'x' has type int32", "allowed: float"]),
        ({"x": DATA.astype("V4")}, ["input 'x' has type |V4", "allowed: float"]),
        ({"x": ["a", "b"]}, ["input 'x' has type string", "allowed: float"]),
        ({"axes": [1.5]}, ["input 'axes' has type double", "allowed: int64"]),
        ({"axes": [2**70]}, ["input 'axes'"]),
        ({"x": [[1, 2], [3]]}, ["input 'x' is not an array"]),
        ({"x": DATA[0]}, ["input 'x' has shape [3]", "allowed: [2, N]"]),
        ({"x": DATA.T}, ["input 'x' has shape [3, 2]", "allowed: [2, N]"]),
        ({"axes": 1}, ["input 'axes' has shape []", "allowed: [K]"]),
        ({"s": DATA}, ["input 's' has type float", "allowed: string"]),
    ],
)
def test_bad_inputs(change: dict[Any, Any], words: list[str]) -> None:
    feeds = {k: v for k, v in (GOOD | change).items() if v is not None}
    with pytest.raises(HalfulpError) as info:
        run_model(PROTO, feeds)
    message = str(info.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_inputs_are_a_mapping() -> None:
    with pytest.raises(ArgumentError, match="inputs is a list; allowed: a mapping"):
        run_model(PROTO, [DATA])  # type: ignore[arg-type]


def test_numbers_without_a_dtype_take_the_declared_one() -> None:
    for name, dtype in (("bfloat16", ml_dtypes.bfloat16), ("uint64", "u8")):
        proto = model(f"({name}[N] x) => (y) {{ y = ReduceSumSquare(x) }}")
        assert_same_bits(run_model(proto, {"x": [3, 4]})["y"], np.array([25], dtype))
    proto = model("(float16[N] x) => (y) { y = ReduceSumSquare(x) }")
    assert_same_bits(run_model(proto, {"x": (0.5, 1)})["y"], np.float16([1.25]))
    assert_same_bits(run_model(proto, {"x": []})["y"], np.float16([0]))


def test_negative_numbers_are_no_unsigned_ones() -> None:
    proto = model("(uint32[N] x) => (y) { y = ReduceSumSquare(x) }")
    with pytest.raises(ArgumentError, match="input 'x' is no array"):
        run_model(proto, {"x": [-1]})


def test_any_byte_order_and_layout() -> None:
    swapped = DATA.astype(">f4").T.copy().T
    assert run_model(PROTO, GOOD | {"x": swapped})["y"].tolist() == [5, 50]


def test_bfloat16_as_numpy_saves_it() -> None:
    proto = model("(bfloat16[N] x) => (y) { y = ReduceSumSquare(x) }")
    data = np.array([3, 4], ml_dtypes.bfloat16)
    assert_same_bits(run_model(proto, {"x": data.view("V2")})["y"], data[1:] * 6 + 1)
    proto, _ = reduce_model(np.ones(2, np.float16))
    with pytest.raises(ArgumentError, match=r"has type \|V2; allowed: float16"):
        run_model(proto, {"data": data.view("V2")})


def test_an_input_of_undeclared_type_takes_any() -> None:
    proto, _ = reduce_model(DATA)
    proto.graph.input[0].ClearField("type")
    assert run_model(proto, {"data": DATA})["reduced"].tolist() == [[55]]
    assert run_model(proto, {"data": [1, 2]})["reduced"].tolist() == [5]
    with pytest.raises(ArgumentError, match="'data' has type datetime64"):
        run_model(proto, {"data": np.array(["2024-01-01"], "M8[D]")})
