"""Which operators the library takes from ONNX Runtime, whose optimizers still fuse."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import halfulp
from halfulp import ArgumentError
from halfulp.onnxruntime import OPERATORS
from halfulp.reductions import BY_OPERATOR, REDUCTIONS, Reduction
from onnx_models import model
from oracle import assert_same_bits
from runtime_sessions import HOST, LEVELS, RELEASE, each_reduction, quiet, reduced

EXPORTED = Path(__file__).parents[1] / "stored/exported"
ENTRY = "halfulp.operators"
VARIABLE = "HALFULP_ONNXRUNTIME_OPERATORS"
# Where the optimizers find sums and means that the library has taken.
FINDS_ALL = RELEASE >= (1, 32)
DEFAULT = [row.operator for row in REDUCTIONS if FINDS_ALL or row.term != "value"]

# Which the runtime's own kernels get wrong: rounded early, or overflowed.
WITNESSES = {
    "sum_square": [4096, 1, 1],
    "sum": [2**24, 1, 1],
    "mean": [3e38, 3e38, 3e38],
    "l1": [2**24, -1, 1],
    "l2": [3e30, 4e30, 0],
    "max": [1, np.nan, 2],
    "min": [1, np.nan, 2],
    "prod": [1e-30, 1e-30, 1e30],
    "log_sum": [3e38, 3e38, 0],
    "log_sum_exp": [0, -17, -17],
}
BY_NAME = {row.operator: row.name for row in REDUCTIONS}
X = np.array([WITNESSES[row.name] for row in REDUCTIONS], np.float32)
# One node of each operator, of a row of its own.
ALL = model(
    f"(float[{len(REDUCTIONS)},3] x) => ("
    + ", ".join(row.name for row in REDUCTIONS)
    + ") {"
    + "".join(
        f"i{i} = Constant<value_int={i}>() x{i} = Gather(x, i{i})"
        f"{row.name} = {row.operator}(x{i})"
        for i, row in enumerate(REDUCTIONS)
    )
    + "}"
).SerializeToString()


def results(options: onnxruntime.SessionOptions) -> list[np.ndarray]:
    """What the nodes of `ALL` give, in the order of the table."""
    return list(onnxruntime.InferenceSession(ALL, options).run(None, {"x": X}))


def taken(options: onnxruntime.SessionOptions) -> list[str]:
    """Whose results are halfulp's; those of the others must be the runtime's."""
    found = []
    both = results(options), results(quiet())
    for row, x, got, own in zip(REDUCTIONS, X, *both, strict=True):
        right = reduced(row, x)
        assert right.tobytes() != own.tobytes()
        if got.tobytes() == right.tobytes():
            found.append(row.operator)
        else:
            assert_same_bits(got, own)
    return found


def with_entry(value: str) -> onnxruntime.SessionOptions:
    options = quiet()
    options.add_session_config_entry(ENTRY, value)
    return options


CHOICES = [
    "ReduceL2",
    ("ReduceSumSquare", "ReduceL2"),
    ["ReduceMean"],
    ["ReduceL1", "ReduceSum", "ReduceL1"],
    OPERATORS,
]


@pytest.mark.parametrize("operators", CHOICES, ids=str)
def test_only_the_operators_asked_for_are_taken(operators: str | Sequence[str]) -> None:
    options = quiet()
    halfulp.onnxruntime.register(options, operators)
    chosen = [operators] if isinstance(operators, str) else operators
    assert taken(options) == [name for name in OPERATORS if name in chosen]
    # The same of a session; and of an entry, by the library alone.
    live = halfulp.onnxruntime.InferenceSession(ALL, quiet(), operators=operators)
    for got, want in zip(live.run(None, {"x": X}), results(options), strict=True):
        assert_same_bits(got, want)
    options = with_entry(" ,\t".join(chosen))
    options.register_custom_ops_library(halfulp.onnxruntime.library_path())
    assert taken(options) == [name for name in OPERATORS if name in chosen]


def test_the_default_is_all_that_the_optimizers_still_find(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    options = quiet()
    halfulp.onnxruntime.register(options)
    assert taken(options) == DEFAULT
    options = quiet()
    options.register_custom_ops_library(halfulp.onnxruntime.library_path())
    assert taken(options) == DEFAULT


def test_the_environment_chooses_where_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "ReduceL1, ReduceMean")
    options = quiet()
    halfulp.onnxruntime.register(options)
    assert taken(options) == ["ReduceMean", "ReduceL1"]
    halfulp.onnxruntime.register(options)
    options = with_entry("ReduceL2")
    halfulp.onnxruntime.register(options)
    assert taken(options) == ["ReduceL2"]
    options = quiet()
    halfulp.onnxruntime.register(options, "ReduceSum")
    assert taken(options) == ["ReduceSum"]


def test_a_wrong_choice_is_one_error_and_registers_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allowed = f"allowed: {', '.join(OPERATORS)}"
    for wrong in ("ReduceNone", ["ReduceL2", "reducesum"], [5], 5, "", {"x" * 9999}):
        options = quiet()
        with pytest.raises(ArgumentError, match=f"^operators has .*; {allowed}$"):
            halfulp.onnxruntime.register(options, wrong)  # type: ignore[arg-type]
        assert taken(options) == []
    with pytest.raises(ArgumentError, match=f"^operators is empty; {allowed}$"):
        halfulp.onnxruntime.register(quiet(), ())
    for text, name in (
        ("all", "all"),
        ("", ""),
        ("ReduceL2,", ""),
        ("ReduceSum x", None),
    ):
        shown = re.escape(text if name is None else name)
        end = f" has '{shown}'; {allowed}, with commas between$"
        options = with_entry(text)
        with pytest.raises(
            ArgumentError, match=f"^the session config entry {ENTRY}{end}"
        ):
            halfulp.onnxruntime.register(options)
        assert taken(options) == []
        monkeypatch.setenv(VARIABLE, text)
        with pytest.raises(ArgumentError, match=f"^{VARIABLE}{end}"):
            halfulp.onnxruntime.register(quiet())
        monkeypatch.delenv(VARIABLE)


def test_options_keep_the_operators_that_they_have() -> None:
    options = quiet()
    halfulp.onnxruntime.register(options, ("ReduceL2", "ReduceSum"))
    halfulp.onnxruntime.register(options)
    halfulp.onnxruntime.register(options, ["ReduceSum", "ReduceL2"])
    have = "has ReduceSum, ReduceL2 already; allowed: the same, or new options$"
    with pytest.raises(
        ArgumentError, match=f"^operators is 'ReduceL1', and options {have}"
    ):
        halfulp.onnxruntime.register(options, "ReduceL1")
    with pytest.raises(ArgumentError, match=f"^operators is .*, and sess_options {have}"):
        halfulp.onnxruntime.InferenceSession(ALL, options, operators=OPERATORS)
    assert taken(options) == ["ReduceSum", "ReduceL2"]
    # By path, past the checks of Python.
    options.add_session_config_entry(ENTRY, "ReduceL1")
    with pytest.raises(Exception, match="have ReduceSum, ReduceL2 already; allowed: the"):
        options.register_custom_ops_library(halfulp.onnxruntime.library_path())


def test_sessions_of_different_choices_live_side_by_side() -> None:
    sessions = {
        names: halfulp.onnxruntime.InferenceSession(ALL, quiet(), operators=names)
        for names in (("ReduceSum",), ("ReduceL2",), OPERATORS)
    }
    for names, live in sessions.items():
        for row, x, got in zip(REDUCTIONS, X, live.run(None, {"x": X}), strict=True):
            right = reduced(row, x)
            assert (got.tobytes() == right.tobytes()) == (row.operator in names)


@pytest.mark.skipif(sys.platform != "linux", reason="names files as Linux does")
def test_a_program_in_c_chooses_by_entry_or_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    host = tmp_path / "host"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, HOST, "-o", host, "-ldl"], check=True)
    (runtime,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    library = halfulp.onnxruntime.library_path()
    path = tmp_path / "m.onnx"

    def ran(operator: str, chosen: str) -> subprocess.CompletedProcess[str]:
        text = f"(float[3] data) => (float[1] reduced) {{ reduced = {operator}(data) }}"
        onnx.save(model(text), path)
        values = map(str, WITNESSES[BY_NAME[operator]])
        command = [host, runtime, library, path, chosen, *values]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    monkeypatch.delenv(VARIABLE, raising=False)
    for by_entry in (True, False):
        for chosen in ("ReduceSum", "ReduceL1,ReduceMax"):
            if not by_entry:
                monkeypatch.setenv(VARIABLE, chosen)
            every = zip(REDUCTIONS, X, results(quiet()), strict=True)
            for row, x, own in itertools.islice(every, 1, None, 2):
                done = ran(row.operator, chosen if by_entry else "")
                is_taken = row.operator in chosen.split(",")
                want = reduced(row, x) if is_taken else own
                told = f"{int(want.view(np.uint32)[0]):08x}\n"
                assert (done.returncode, done.stdout, done.stderr) == (0, told, "")
    monkeypatch.setenv(VARIABLE, "nonsense")
    done = ran("ReduceSum", "ReduceNone")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"entry {ENTRY} has 'ReduceNone'; allowed: ReduceSumSquare, " in done.stderr
    done = ran("ReduceSum", "")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"halfulp: {VARIABLE} has 'nonsense'; allowed: ReduceSumSquare" in done.stderr


def nodes_left(
    path: Path,
    folder: Path,
    level: Any,
    operators: Sequence[str] | None,
    feeds: Mapping[str, np.ndarray],
) -> tuple[Counter[str], np.ndarray]:
    """The kinds of nodes of the optimized model, and its output."""
    options = quiet(graph_optimization_level=level)
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    if operators != ():
        halfulp.onnxruntime.register(options, operators)
    live = onnxruntime.InferenceSession(str(path), options)
    output = live.run(None, feeds)[0]
    nodes = onnx.load(folder / "optimized.onnx").graph.node
    return Counter(node.op_type for node in nodes), output


# For the transformers.
TOKENS = {
    "x": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "mask": np.array([[1, 1, 1], [1, 1, 0]]),
}
# Made of layer norms of nine nodes, an RMS norm of six, and others.
FUSED = {
    12: ["Attention", "BiasGelu", "SkipLayerNormalization"],
    13: ["Gelu", "SkipLayerNormalization"],
    18: ["Gelu", "SkipLayerNormalization"],
}


@pytest.mark.parametrize("level", LEVELS, ids=str)
@pytest.mark.parametrize("opset", FUSED)
def test_a_transformer_of_torch_fuses_as_without_the_library(
    tmp_path: Path, opset: int, level: Any
) -> None:
    path = EXPORTED / f"transformer_{opset}.onnx"
    plain, own = nodes_left(path, tmp_path, level, (), TOKENS)
    left, got = nodes_left(path, tmp_path, level, None, TOKENS)
    assert left == plain
    assert np.abs(got - own).max() < 1e-5
    if level == LEVELS[-1] and FINDS_ALL:
        assert left["ReduceMean"] == 0
        assert left["ReduceSum"] == left["ReduceL2"] == 1
        fused = {"LayerNormalization", "SimplifiedLayerNormalization", *FUSED[opset]}
        assert fused <= left.keys()


def around(row: Reduction, opset: int) -> onnx.ModelProto:
    """A model of what optimizers change beside nodes of a reduction.

    Transpositions that move past them, one node of a MatMul and an Add, a pair of
    quantizations, and the arithmetic of shapes.
    """
    is_input = row.version_for(opset).axes == "input"

    def node(x: str, y: str, axes: str, keepdims: int = 1) -> str:
        if is_input:
            a = f"a_{y} = Constant<value_ints=[{axes}]>()"
            return f"{a} {y} = {row.operator}<keepdims={keepdims}>({x}, a_{y})"
        return f"{y} = {row.operator}<axes=[{axes}], keepdims={keepdims}>({x})"

    return model(
        "(float[n,3,4,5] x, float[3,6] w, uint8[2,3] q) => (y1, y2, y3, y4, y5) "
        "<int64[1] minus = {-1}, float z = {0.5}, float[6,1] v = {1, 2, 3, 4, 5, 6},"
        " float[1] b = {7}> {"
        f"t1 = Transpose<perm=[0,2,3,1]>(x) {node('t1', 'u1', '1,2')}"
        "y1 = Transpose<perm=[0,3,1,2]>(u1)"
        f"t2 = Relu(t1) {node('t2', 'u2', '3', 0)} y2 = Relu(u2)"
        f"{node('w', 'u3', '0')} t3 = MatMul(u3, v) y3 = Add(t3, b)"
        f"t4 = DequantizeLinear(q, z) {node('t4', 'u4', '1')}"
        "y4 = QuantizeLinear(u4, z)"
        f"t5 = Shape(x) {node('t5', 'u5', '0')} y5 = Concat<axis=0>(u5, minus) }}",
        opset=opset,
    )


@pytest.mark.skipif(not FINDS_ALL, reason="optimizers of older releases know less")
@each_reduction
@pytest.mark.parametrize("opset", [13, 18])
def test_what_is_around_a_node_is_optimized_as_without_the_library(
    tmp_path: Path, row: Reduction, opset: int
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(around(row, opset), path)
    feeds = {
        "x": np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5) / 64,
        "w": np.arange(18, dtype=np.float32).reshape(3, 6),
        "q": np.array([[1, 2, 3], [4, 5, 6]], np.uint8),
    }
    plain, _ = nodes_left(path, tmp_path, LEVELS[-1], (), feeds)
    left, got = nodes_left(path, tmp_path, LEVELS[-1], None, feeds)
    assert left == plain
    # Of both transpositions the second is gone, the first moved past both reductions.
    assert (left["Transpose"], left["Gemm"], left[row.operator]) == (1, 1, 5)
    assert_same_bits(got, reduced(row, feeds["x"], [2, 3]))


@pytest.mark.skipif(FINDS_ALL, reason="the optimizers find all operators")
def test_older_runtimes_no_longer_fuse_means_that_are_asked_for(tmp_path: Path) -> None:
    path = EXPORTED / "transformer_13.onnx"
    left, _ = nodes_left(path, tmp_path, LEVELS[-1], OPERATORS, TOKENS)
    assert left["ReduceMean"] == 7


@each_reduction
@pytest.mark.parametrize("name", ["float32", "int32", "int64", "uint64"])
@pytest.mark.parametrize("opset", [11, 13, 18])
def test_constants_are_reduced_as_inputs_are(row: Any, name: str, opset: int) -> None:
    # Before 1.32, folding constants finds kernels that do not fit the operators.
    w = np.array([[2**24 + 1, 1], [3, 5]], name)
    if name == "int64":
        w[0, 0] = 2**53 + 1
    proto = model("(float[1] x) => (y, c) { y = Identity(x) }", opset=opset)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    node = proto.graph.node.add(op_type=row.operator, input=["w"], output=["c"])
    if row.version_for(opset).axes == "input":
        axes = onnx.numpy_helper.from_array(np.array([1]), "axes")
        proto.graph.initializer.append(axes)
        node.input.append("axes")
    else:
        node.attribute.append(onnx.helper.make_attribute("axes", [1]))
    live = halfulp.onnxruntime.InferenceSession(
        proto.SerializeToString(), quiet(), operators=OPERATORS
    )
    for _ in range(2):
        got = live.run(["c"], {"x": np.ones(1, np.float32)})[0]
        assert_same_bits(got, reduced(row, w, [1]))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1,), (2, 3)])
@each_reduction
def test_a_node_of_constants_is_computed_when_the_session_is_made(
    row: Any, shape: tuple[int, ...]
) -> None:
    w = np.full(shape, 3, np.float32)

    def made(axes: list[int]) -> onnxruntime.InferenceSession:
        proto = model("(float[1] x) => (y, c) { y = Identity(x) }")
        for name, value in (("w", w), ("axes", np.array(axes, np.int64))):
            tensor = onnx.numpy_helper.from_array(value, name)
            proto.graph.initializer.append(tensor)
        node = proto.graph.node.add(op_type=row.operator, output=["c"], name="fold")
        node.input.extend(["w", "axes"])
        return halfulp.onnxruntime.InferenceSession(
            proto.SerializeToString(), quiet(), operators=OPERATORS
        )

    got = made([]).run(["c"], {"x": np.ones(1, np.float32)})[0]
    assert_same_bits(got, reduced(row, w, []))
    # Before any run.
    message = re.escape(f"node 'fold' ({row.operator}): axis 2 is out of range for rank")
    with pytest.raises(Exception, match=message):
        made([2])


def test_the_names_are_those_of_the_table() -> None:
    assert set(OPERATORS) >= BY_OPERATOR.keys()
    assert [row.operator for row in REDUCTIONS] == list(OPERATORS)


BIG, HUGE = 2**31 - 1, 2**63 - 1
OF_SQUARES = [
    ("int32", [46341], BIG),
    ("int64", [94906267, 1], 9007199515875288),
    ("int64", [3037000500, 1], HUGE),
]
OF_SUMS = [
    ("int32", [BIG, 1], BIG),
    ("int64", [2**53 + 1, 0], 2**53),
    ("int64", [HUGE, 1], HUGE),
]
# What the runtime's own kernels make of integers, as docs/onnxruntime.md tells.
OWN = {
    "ReduceSumSquare": OF_SQUARES,
    "ReduceSum": OF_SUMS,
    "ReduceMean": [
        ("int32", [BIG - 1, *[BIG] * 2**23], BIG),
        ("int64", [2**53 + 1], 2**53),
    ],
    "ReduceL1": OF_SUMS,
    "ReduceL2": [
        ("int32", [BIG, BIG], BIG),
        ("int64", [2**53 + 1], 2**53),
        ("int64", [-HUGE - 1], HUGE),
    ],
    "ReduceProd": [
        ("int32", [46341, 46341], BIG),
        ("int64", [94906267, 94906267], 9007199515875288),
        ("int64", [2**32, 2**32], HUGE),
    ],
    "ReduceLogSum": [("int64", [214643579785916], 33)],
    "ReduceLogSumExp": [
        ("int32", [0, *[-1] * 6], 0),
        ("int64", [-1, -2], -1),
        ("int64", [2**53 + 1], 2**53),
        ("uint32", [710, 3], 0),
        ("uint64", [710, 3], 0),
    ],
}


@pytest.mark.skipif(RELEASE != (1, 32), reason="tells of onnxruntime 1.32")
@pytest.mark.parametrize(
    ("operator", "name", "x", "own"),
    [(op, *case) for op, cases in OWN.items() for case in cases],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_integers_that_the_runtime_alone_gets_wrong(
    operator: str, name: str, x: list[int], own: int
) -> None:
    data = np.array(x, name)
    proto = model(f"({name}[n] x) => (y) {{ y = {operator}<keepdims=0>(x) }}")
    given = proto.SerializeToString()
    right = reduced(BY_OPERATOR[operator], data, keepdims=0)
    alone = onnxruntime.InferenceSession(given, quiet()).run(None, {"x": data})[0]
    assert alone == own != right
    live = halfulp.onnxruntime.InferenceSession(given, quiet())
    assert_same_bits(live.run(None, {"x": data})[0], right)
