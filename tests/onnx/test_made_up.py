"""Runs on made-up inputs, and two engines compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from halfulp.cli import main
from halfulp.onnx.run.outputs import compare_bits
from onnx_models import model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with models."""
    monkeypatch.chdir(tmp_path)
    models = {
        "m": "(float[N,M,5] x, float[M] w) => (y) { t = Mul(x, x) y = MatMul(w, t) }",
        "axes": "(float[N,3] x, int64[K] a) => (y) { y = ReduceSumSquare(x, a) }",
        "text": "(string[N] x, bool[2] b) => (y, z) { y = Identity(x) z = Not(b) }",
        "fits": "(float[A,B] x, float[C,D] w) => (y) { y = MatMul(x, w) }",
        "none": "() => (y) { y = Constant<value_float=1.0>() }",
        "never": "(float[3] x, float[4] w) => (y) { y = Add(x, w) }",
        "erf": "(float[1000] x) => (y, i) { y = Erf(x) i = Cast<to=7>(x) }",
    }
    for name, text in models.items():
        onnx.save(model(text), f"{name}.onnx")
    return tmp_path


def facts(arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*arguments.split(), "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    result.pop("seconds")
    return result


@pytest.mark.parametrize("engine", ["", "--engine reference", "--engine onnxruntime"])
def test_inputs_are_made_up_as_declared(
    engine: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = facts(f"run m.onnx {engine}", capsys)
    made = result["made_up"]
    sizes = made["sizes"]
    assert made["seed"] == 0
    assert made["inputs"] == {
        "x": {"type": "float", "shape": [sizes["N"], sizes["M"], 5]},
        "w": {"type": "float", "shape": [sizes["M"]]},
    }
    assert result["outputs"][0]["shape"] == [sizes["N"], 5]
    # The same again, of the same seed only.
    assert facts(f"run m.onnx --seed 0 {engine}", capsys) == result
    again = [facts(f"run m.onnx --seed {n} {engine}", capsys) for n in (1, 2)]
    assert again[0]["outputs"] != again[1]["outputs"] != result["outputs"]


def test_made_up_inputs_are_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "m.onnx", "--seed", "7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    sizes = facts("run m.onnx --seed 7", capsys)["made_up"]["sizes"]
    n, m = sizes["N"], sizes["M"]
    assert f"made up, seed 7: x float [{n}, {m}, 5]" in lines
    assert f"made up, seed 7: w float [{m}]" in lines
    assert f"sizes chosen: N = {n}, M = {m}" in lines
    assert main(["run", "m.onnx", "--csv"]) == 0
    out, err = capsys.readouterr()
    assert "made up" not in out
    assert "made up, seed 0: x" in err


def test_axes_and_every_type_are_made_up(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(5):
        made = facts(f"run axes.onnx --seed {seed}", capsys)["made_up"]
        assert made["inputs"]["a"]["shape"] == [made["sizes"]["K"]]
        facts(f"run text.onnx --seed {seed}", capsys)


def test_sizes_that_the_model_does_not_take_are_tried_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for engine in ("reference", "onnxruntime"):
        result = facts(f"run fits.onnx --engine {engine}", capsys)
        made = result["made_up"]["sizes"]
        assert made["B"] == made["C"]
        assert result["engine"].startswith(engine)
    result = facts("run fits.onnx", capsys)
    # A size that does not fit is no reason to change the engine.
    assert result["engine"].startswith("onnxruntime")
    assert main(["run", "never.onnx"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_types_that_contradict_each_other_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Runtimes go by the value itself; onnx's inference compares it with what is said.
    proto = model("(float[2,3] x) => (y) { y = ReduceSumSquare(x, axes) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "axes"))
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("axes", 7, []))
    onnx.save(proto, "contradiction.onnx")
    assert main(["run", "contradiction.onnx"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "inputs cannot be made up: " in err
    np.savez("in.npz", x=np.ones((2, 3), np.float32))
    assert main(["run", "contradiction.onnx", "--input", "in.npz"]) == 0


@pytest.mark.parametrize("size", [2**63 - 1, -2])
def test_shapes_that_no_array_has_are_one_line(
    size: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = model("(float[N,3] x) => (y) { y = ReduceSumSquare(x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = size
    onnx.save(proto, "huge.onnx")
    assert main(["run", "huge.onnx"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_a_model_without_inputs_has_none_made_up(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "made_up" not in facts("run none.onnx", capsys)


def test_made_up_inputs_are_not_compared_with_what_is_expected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("m.expected.npz", y=np.float32([1]))
    assert "expected" not in facts("run m.onnx", capsys)


def test_two_engines_are_compared_in_ulps(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "erf.onnx", "--engine", "reference", "-o", "y.npz"]) == 0
    wanted = np.load("y.npz")["y"]
    capsys.readouterr()
    result = facts("run erf.onnx --compare", capsys)
    assert result["engine"].startswith("onnxruntime ")
    assert result["compared_with"] == "reference"
    y, i = (output["compared"] for output in result["outputs"])
    assert (y["of"], i) == (1000, {"agree": 1000, "of": 1000})
    assert main(["run", "erf.onnx", "--engine", "onnxruntime", "-o", "t.npz"]) == 0
    got = np.load("t.npz")["y"]
    assert y["agree"] == np.count_nonzero(got.view("i4") == wanted.view("i4"))
    # Of one sign, the bits count the steps.
    steps = np.abs(got.view("i4").astype(np.int64) - wanted.view("i4"))
    assert y["ulps"] == np.max(steps) > 0
    capsys.readouterr()
    assert main(["run", "erf.onnx", "--compare"]) == 0
    assert (
        f"y: {y['agree']} of 1000 elements have the bits of reference, "
        f"greatest difference {y['ulps']} ulp"
    ) in capsys.readouterr().out
    result = facts("run erf.onnx --compare --engine reference", capsys)
    assert result["compared_with"].startswith("onnxruntime ")
    assert result["outputs"][0]["compared"] == y


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]
)
def test_ulps_are_steps_from_number_to_number(dtype: Any) -> None:
    least = ml_dtypes.finfo(dtype).smallest_subnormal
    one = np.array(1, dtype)
    pairs = {
        (0.0, -0.0): (0, 0),
        (float(least), -float(least)): (0, 2),
        (1.0, float(np.nextafter(one, np.array(2, dtype)))): (0, 1),
        (float(ml_dtypes.finfo(dtype).max), np.inf): (0, 1),
        (np.nan, np.nan): (1, 0),
        (np.nan, 1.0): (0, "inf"),
    }
    for (a, b), (agree, ulps) in pairs.items():
        x, y = np.array([a], dtype), np.array([b], dtype)
        for both in ((x, y), (y, x)):
            assert compare_bits(*both) == {"agree": agree, "of": 1, "ulps": ulps}
    assert compare_bits(np.zeros(0, dtype), np.zeros(0, dtype))["ulps"] == 0
    assert compare_bits(np.zeros(2, dtype), np.zeros(3, dtype)) == {}
    far = np.array([-np.inf], dtype), np.array([np.inf], dtype)
    bits = np.dtype(dtype).itemsize * 8
    assert compare_bits(*far)["ulps"] == 2 * int(far[1].view(f"u{bits // 8}")[0])


def test_sequences_are_compared() -> None:
    x = np.float32([1, 2])
    assert compare_bits([x, x], [x, -x])["agree"] == 2
    assert compare_bits([x, x], [x]) == {}
    assert compare_bits({"a": x}, {"a": x})["ulps"] == 0
