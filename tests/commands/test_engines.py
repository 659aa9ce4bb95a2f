"""Models that only ONNX Runtime runs, run in it as any others are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import halfulp
from halfulp.cli import main
from halfulp.commands.rewriting import verified
from oracle import assert_same_bits

QUANTIZED = """<ir_version: 8, opset_import: ["" : 13]>
g (int8[N,3] x) => (int8[N] y)
<float s = {0.5}, int8 z = {-1}, float s2 = {2.0}, int8 z2 = {0}> {
    f = DequantizeLinear(x, s, z)
    r = ReduceSumSquare<axes=[AXIS], keepdims=0>(f)
    y = QuantizeLinear(r, s2, z2)
}"""
CONTRIB = """<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]>
g (float[N,2] x) => (float[N,1] y) <int64[1] ax = {AXIS}> {
    t = com.microsoft.Gelu(x)
    y = ReduceSumSquare(t, ax)
}"""


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with models that the reference evaluator refuses."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"quantized": QUANTIZED, "contrib": CONTRIB}.items():
        for axis, stem in ((1, name), (5, f"{name}_bad")):
            proto = onnx.parser.parse_model(text.replace("AXIS", str(axis)))
            onnx.save(proto, f"{stem}.onnx")
    np.save("quantized.npy", np.int8([[1, 3, -5]]))
    np.save("contrib.npy", np.float32([[1, 2]]))
    return tmp_path


@pytest.mark.parametrize("name", ["quantized", "contrib"])
@pytest.mark.parametrize("options", [[], ["--engine", "onnxruntime"]])
def test_whatever_onnxruntime_runs_is_run(
    name: str, options: list[str], foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feeds = {"x": np.load(f"{name}.npy")}
    (wanted,) = onnxruntime.InferenceSession(f"{name}.onnx").run(None, feeds)
    arguments = ["run", f"{name}.onnx", "--input", f"x={name}.npy", *options]
    assert main([*arguments, "-o", "o.npy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"].startswith("onnxruntime ")
    got = np.load("o.npy")
    # Within an ulp of what the runtime itself computes.
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    # In the format of a text, which that runtime does not read, too.
    onnx.save(onnx.load(f"{name}.onnx"), "m.json")
    assert main(["run", "m.json", *arguments[2:], "-o", "t.npy"]) == 0
    assert_same_bits(np.load("t.npy"), got)


@pytest.mark.parametrize("name", ["quantized", "contrib"])
@pytest.mark.parametrize("options", [[], ["--engine", "onnxruntime"]])
def test_errors_of_our_operator_come_first(
    name: str, options: list[str], foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", f"{name}_bad.onnx", "--input", f"x={name}.npy", *options]
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "axis 5 is out of range for rank 2" in err
    # Nobody knows the shape after com.microsoft's operators before the model runs.
    assert err.startswith("halfulp: error: node #1") == (name == "quantized")


@pytest.mark.parametrize("name", ["quantized", "contrib"])
def test_inputs_are_checked_for_onnxruntime_too(
    name: str, foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("d.npy", np.float64([[1, 2, 3]]))
    for given, words in (
        (["--input", "q=d.npy"], "input 'q' is unknown"),
        (["--input", "x=d.npy"], "input 'x' has type double"),
    ):
        assert main(["run", f"{name}.onnx", *given, "--engine", "onnxruntime"]) == 2
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        "convert quantized.onnx --opset 18",
        "convert contrib.onnx --opset 17",
        "expand quantized.onnx",
        "expand contrib.onnx",
    ],
)
def test_models_that_only_onnxruntime_runs_are_verified(
    command: str, foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "-o", "o.onnx", "--verify", "--json"]) == 0
    verified = json.loads(capsys.readouterr().out)["verified"]
    assert verified["engine"] == "onnxruntime"
    assert verified["runs"] == 6
    assert verified["outputs"]["y"]["agree"] > 0


def test_verifying_finds_a_difference_in_onnxruntime_too(foreign: Path) -> None:
    before = onnx.load("quantized.onnx")
    after = onnx.load("quantized.onnx")
    after.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.float32(0.25), "s")
    )
    with pytest.raises(halfulp.ModelError, match="changes the output 'y'"):
        verified(Path("quantized.onnx"), before, after, True)


def test_models_in_the_own_format_of_onnxruntime_run(
    foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = "contrib.ort"
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession("contrib.onnx", options)
    arguments = ["--input", "x=contrib.npy", "-o"]
    assert main(["run", "contrib.ort", *arguments, "ort.npy"]) == 0
    assert main(["run", "contrib.onnx", *arguments, "onnx.npy"]) == 0
    assert_same_bits(np.load("ort.npy"), np.load("onnx.npy"))
    assert main(["run", "contrib.ort", "--input", "q=contrib.npy"]) == 2
    assert "input 'q' is unknown; allowed: 'x'" in capsys.readouterr().err
