"""A model that breaks a rule is refused, in one clear line, before any of it runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.reference.ops.op_identity import Identity

from bad_nodes import NODES
from halfulp import (
    ArgumentError,
    AxesError,
    HalfulpError,
    ModelError,
    UnsupportedTypeError,
)
from halfulp.onnx import backend, run_model
from onnx_models import (
    DATA,
    function,
    model,
    nested_graphs,
    reduce_model,
    report_model,
    reports,
)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The outputs of the Identity nodes that have run."""
    outputs: list[str] = []
    original = Identity._run

    def record(self: Any, *args: Any, **kwargs: Any) -> Any:
        outputs.extend(self.onnx_node.output)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Identity, "_run", record)
    return outputs


def refuse(
    proto: Any, feeds: dict[str, Any], error: type[HalfulpError], *words: str
) -> None:
    """Check that a model is refused by an error of one line with these words."""
    with pytest.raises(error) as info:
        run_model(proto, feeds)
    assert type(info.value) is error
    message = str(info.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


def test_the_recording_identity_records(ran: list[str]) -> None:
    proto = model("(float[2,3] x) => (y) { i = Identity(x) y = ReduceSumSquare(i) }")
    run_model(proto, {"x": DATA})
    assert ran == ["i"]


WORDS = {
    "ort14678_rank0_axis0": (AxesError, "axis 0 is out of range", "scalar has no axes"),
    "pt104190_axes_attr_at_18": (
        ModelError,
        "from opset 18 axes is an input of ReduceSumSquare, not an attribute",
        "convert the node or import opset 17",
    ),
    "ort2848_bool_or_int8": (
        UnsupportedTypeError,
        "ReduceSumSquare-18",
        "opset 18",
        "int8",
        "bfloat16, float16, float, double, int32, int64, uint32, uint64",
    ),
}


@pytest.mark.parametrize("case", reports("reject"), ids=lambda case: case["id"])
def test_public_reports_are_refused(case: dict[str, Any]) -> None:
    proto, feeds = report_model(case)
    refuse(proto, feeds, *WORDS[case["id"]])


# The node, the opset, the error and words of it. Each node reads "i", the output
# of an Identity of the input "x", float[2,3].


@pytest.mark.parametrize("case", NODES)
def test_a_node_is_refused_before_anything_runs(case: str, ran: list[str]) -> None:
    node, opset, error, words = NODES[case]
    proto = model(
        "(float[2,3] x) => (y) <int64[1] a = {1}, int64[1] far = {-3}, "
        f"int32[1] short = {{1}}, int64 scalar = {{1}}> {{ i = Identity(x) y = {node} }}",
        opset=opset,
    )
    operator = case.partition(":")[0]
    place = [] if opset == 0 else [f"node #1 (output 'y') ({operator}-"]
    refuse(proto, {"x": DATA}, error, *words, *place)
    assert ran == []
    with pytest.raises(error):
        backend.prepare(proto)


def test_axes_as_an_input_without_name_are_refused_before_18() -> None:
    proto, feeds = reduce_model(DATA, opset=11, axes_form="empty name")
    words = "ReduceSumSquare-11", "has 2 inputs", "before opset 18 axes is an attribute"
    refuse(proto, feeds, ModelError, *words)


@pytest.mark.parametrize("opset", [1, 10, 11, 12])
def test_bfloat16_is_refused_before_13(opset: int, ran: list[str]) -> None:
    proto = model("(bfloat16[N] x) => (y) { y = ReduceSumSquare(x) }", opset=opset)
    data = np.ones(2, ml_dtypes.bfloat16)
    words = "bfloat16", "allowed: float16, float, double", f"opset {opset}"
    refuse(proto, {"x": data}, UnsupportedTypeError, *words)


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "bool", "string"])
@pytest.mark.parametrize("opset", [1, 11, 13, 18])
def test_other_types_are_refused(name: str, opset: int, ran: list[str]) -> None:
    proto = model(
        f"({name}[N] x) => (y) {{ i = Identity(x) y = ReduceSumSquare(i) }}", opset=opset
    )
    data = np.zeros(2, object if name == "string" else name)
    words = f"data has type {name}", "allowed: "
    refuse(proto, {"x": data}, UnsupportedTypeError, *words)
    assert ran == []


def test_a_sequence_is_refused(ran: list[str]) -> None:
    proto = model(
        "(float[2,3] x) => (y) { i = Identity(x) s = SequenceConstruct(i) "
        "y = ReduceSumSquare(s) }"
    )
    words = "data is a sequence", "allowed: a tensor"
    refuse(proto, {"x": DATA}, UnsupportedTypeError, *words)
    assert ran == []


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        (np.array([2]), ["axis 2 is out of range for rank 2"]),
        (np.array([0], np.int32), ["input 'axes' has type int32", "allowed: int64"]),
        (np.array(0), ["input 'axes' has shape []", "allowed: [N]"]),
    ],
)
def test_fed_axes_are_checked_before_anything_runs(
    axes: np.ndarray, words: list[str], ran: list[str]
) -> None:
    proto = model(
        "(float[2,3] x, int64[N] axes) => (y) "
        "{ i = Identity(x) y = ReduceSumSquare(i, axes) }"
    )
    backend.prepare(proto)
    error = AxesError if "axis" in words[0] else ArgumentError
    refuse(proto, {"x": DATA, "axes": axes}, error, *words)
    assert ran == []


def test_the_rank_of_a_fed_input_is_used(ran: list[str]) -> None:
    proto = model(
        "(float[2,3] x) => (y) { i = Identity(x) y = ReduceSumSquare<axes=[2]>(i) }",
        opset=13,
    )
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    backend.prepare(proto)
    run_model(proto, {"x": np.ones((1, 2, 3), np.float32)})
    assert ran == ["i"]
    refuse(proto, {"x": DATA}, AxesError, "axis 2 is out of range for rank 2")
    assert ran == ["i"]


def test_a_default_that_may_be_replaced_does_not_refuse_a_model() -> None:
    proto, feeds = reduce_model(DATA, axes=[5], axes_form="default")
    rep = backend.prepare(proto)
    assert rep.run({"data": DATA, "axes": [1]})[0].tolist() == [[5], [50]]
    refuse(proto, feeds, AxesError, "axis 5 is out of range")


NESTED = {
    "if": (
        """(float[2,3] x, bool c) => (y) { i = Identity(x) [choose] y = If (c) <
            then_branch = t () => (o) { o = Identity(i) },
            else_branch = e () => (o2) { [rss] o2 = ReduceSumSquare<ATTRIBUTE>(i) }> }""",
        "node 'choose' > else_branch > node 'rss' (ReduceSumSquare-13, opset 13): ",
    ),
    "scan": (
        """(float[2,3] x, bool c) => (y) { i = Identity(x)
            [scan] y = Scan <num_scan_inputs = 1,
            body = b (e) => (o) { [rss] o = ReduceSumSquare<ATTRIBUTE>(e) }> (i) }""",
        "node 'scan' > body > node 'rss' (ReduceSumSquare-13, opset 13): ",
    ),
    "if in scan": (
        """(float[2,3] x, bool c) => (y) { i = Identity(x)
            [scan] y = Scan <num_scan_inputs = 1, body = b (e) => (o) {
                o = If (c) <then_branch = t () => (p) { p = Identity(e) },
                    else_branch = f () => (q) { q = ReduceSumSquare<ATTRIBUTE>(e) }> }
            > (i) }""",
        "node 'scan' > body > node #0 (output 'o') > else_branch > node #0 (output 'q')",
    ),
    "function": (
        "(float[2,3] x, bool c) => (y) { i = Identity(x) [call] y = f.sq(i) }",
        "node 'call' > function 'sq' > node 'rss' (ReduceSumSquare-13, opset 13): ",
    ),
}


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize(
    ("attribute", "error", "words"),
    [
        ("keepdims=3", ArgumentError, "keepdims is 3"),
        ("axes=[4]", AxesError, "axis 4 is out of range"),
    ],
)
def test_nested_nodes_are_refused_before_anything_runs(
    nested: str, attribute: str, error: type[HalfulpError], words: str, ran: list[str]
) -> None:
    text, place = NESTED[nested]
    square = function("[rss] b = ReduceSumSquare<ATTRIBUTE>(a)", head="sq (a) => (b)")
    proto = model(
        text.replace("ATTRIBUTE", attribute),
        square.replace("ATTRIBUTE", attribute),
        opset=13,
    )
    if nested == "function" and error is ArgumentError:
        # Wrong whoever calls it.
        place = place.removeprefix("node 'call' > ")
    refuse(proto, {"x": DATA, "c": np.array(True)}, error, place, f": {words}")
    assert ran == []


FUNCTION_CALLS = {
    "keepdims of the call": (
        "f.sq<k=2>(i)",
        ArgumentError,
        ["node 'call' > function 'sq' > node 'rss' (", "keepdims is 2"],
    ),
    "type of the call": (
        "f.sq<k=1.0>(i)",
        ModelError,
        ["node 'call' > function 'sq' > node 'rss' (", "has type FLOAT", "INT"],
    ),
    "through another function": (
        "f.outer(i)",
        AxesError,
        ["node 'call' > function 'outer' > node #1 (output 'b') > function 'axes' > "],
    ),
    "constant axes of the call": (
        "f.axes(i, far)",
        AxesError,
        [
            "node 'call' > function 'axes' > node #0 (output 'b')",
            "axis 9 is out of range",
        ],
    ),
    "type of the data of the call": (
        "f.axes(m)",
        UnsupportedTypeError,
        ["node 'call' > function 'axes' > node #0 (output 'b')", "int8"],
    ),
    "unknown attribute": (
        "f.sq<q=1>(i)",
        ModelError,
        ["node 'call' (function 'sq')", "attribute 'q'", "allowed: 'k'"],
    ),
    "too many inputs": (
        "f.sq(i, i)",
        ModelError,
        ["node 'call' (function 'sq')", "2 inputs", "allowed: 1 at most"],
    ),
    "a function that calls itself": (
        "f.loop(i)",
        ModelError,
        ["function 'loop' calls itself"],
    ),
    "a function that is not there": (
        "f.other(i)",
        ModelError,
        ["node 'call'", "operator 'other' of domain 'f' is unknown"],
    ),
}


@pytest.mark.parametrize("case", FUNCTION_CALLS)
def test_calls_of_functions_are_checked_before_anything_runs(
    case: str, ran: list[str]
) -> None:
    call, error, words = FUNCTION_CALLS[case]
    proto = model(
        "(float[2,3] x, int8[2] m) => (y) <int64[1] far = {9}> "
        f"{{ i = Identity(x) [call] y = {call} }}",
        function("[rss] b = ReduceSumSquare<keepdims : int = @k>(a)"),
        function(
            "c = Constant<value_ints=[7]>() b = f.axes(a, c)", head="outer (a) => (b)"
        ),
        function("b = ReduceSumSquare(a, c)", head="axes (a, c) => (b)", opset=18),
        function("b = f.loop2(a)", head="loop (a) => (b)"),
        function("b = f.loop(a)", head="loop2 (a) => (b)"),
    )
    refuse(proto, {"x": DATA, "m": np.zeros(2, np.int8)}, error, *words)
    assert ran == []


def test_functions_that_nothing_calls_are_checked_too() -> None:
    square = function("b = ReduceSumSquare<axes=[0], keepdims : int = @k>(a)", opset=18)
    proto = model("(float[2,3] x) => (y) { y = ReduceSumSquare(x) }", square)
    words = "function 'sq' > node #0 (output 'b')", "axes is given as an attribute"
    refuse(proto, {"x": DATA}, ModelError, *words)


COMPUTED = {
    "axes out of range": (
        "(float[2,3] x, int64[1] a) => (y) { i = Mul(a, a) y = ReduceSumSquare(x, i) }",
        {"x": DATA, "a": [3]},
        AxesError,
        ["node #1 (output 'y') (ReduceSumSquare-18, opset 18): axis 9 is out of range"],
    ),
    "axes of another rank": (
        "(float[2,3] x, int64[N,M] a) => (y) "
        "{ s = Shape(a) i = Reshape(a, s) y = ReduceSumSquare(x, i) }",
        {"x": DATA, "a": [[1]]},
        AxesError,
        ["node #2 (output 'y')", "axes is a tensor(int64) of rank 2"],
    ),
    "data of another type, nested": (
        """(float[2,3] x, bool c) => (y) {
            s = SequenceEmpty() i = SequenceInsert(s, x)
            [choose] y = If (c) <then_branch = t () => (o) { k = Constant<value_int=0>()
                e = SequenceAt(i, k) g = Cast<to=3>(e) h = Identity(g)
                [rss] o = ReduceSumSquare(h) },
                else_branch = e () => (p) { p = Identity(x) }> }""",
        {"x": DATA, "c": True},
        UnsupportedTypeError,
        ["node 'choose' > then_branch > node 'rss' (ReduceSumSquare-18", "int8"],
    ),
}


@pytest.mark.parametrize("case", COMPUTED)
def test_what_only_the_run_tells_is_checked_with_the_same_words(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no shape inference in this test")

    text, feeds, error, words = COMPUTED[case]
    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", fail)
    refuse(model(text), feeds, error, *words)


STRUCTURE = {
    "undefined input": (
        "(float[2,3] x) => (y) { y = ReduceSumSquare(q) }",
        ["node #0 (output 'y')", "input 'q' is not defined"],
    ),
    "cycle": (
        "(float[2,3] x) => (y) { y = Add(x, z) z = ReduceSumSquare(y) }",
        ["node #0 (output 'y')", "input 'z' is not defined before"],
    ),
    "cycle of one": (
        "(float[2,3] x) => (y) { y = ReduceSumSquare(y) }",
        ["input 'y' is not defined before"],
    ),
    "twice defined": (
        "(float[2,3] x) => (y) { y = Neg(x) y = ReduceSumSquare(x) }",
        ["node #1 (output 'y')", "output 'y' is defined twice"],
    ),
    "undefined output": (
        "(float[2,3] x) => (y, z) { y = ReduceSumSquare(x) }",
        ["output 'z' of a graph is not defined"],
    ),
    "undefined output of a body": (
        "(float[2,3] x) => (y) { y = Scan <num_scan_inputs = 1, "
        "body = b (e) => (o) { p = ReduceSumSquare(e) }> (x) }",
        ["output 'o' of a graph is not defined"],
    ),
    "unknown operator": (
        "(float[2,3] x) => (y) { y = ReduceSumSquares(x) }",
        ["node #0 (output 'y')", "operator 'ReduceSumSquares' of domain ''"],
    ),
    "unknown domain": (
        "(float[2,3] x) => (y) { y = com.microsoft.Gelu(x) }",
        ["node #0 (output 'y')", "operator 'Gelu' of domain 'com.microsoft'"],
    ),
    "an attribute of another operator": (
        "(float[2,3] x) => (y) { y = Neg<axis=1>(x) }",
        ["node #0 (output 'y')", "axis"],
    ),
    "an If of one branch": (
        "(float[2,3] x, bool c) => (y) "
        "{ y = If (c) <then_branch = t () => (o) { o = ReduceSumSquare(x) }> }",
        ["node #0 (output 'y')", "else_branch"],
    ),
    "a reference outside of functions": (
        "(float[2,3] x) => (y) { y = ReduceSumSquare<keepdims : int = @k>(x) }",
        ["node #0 (output 'y')", "'keepdims' refers to an attribute of a function"],
    ),
    "a Loop that does not fit its body": (
        "(float[2,3] x, int64 M) => (y) { y = Loop<body = b (i, c) => (c, o) "
        "{ o = ReduceSumSquare(x) }>(M, , x) }",
        ["node #0 (output 'y')", "body has 2 inputs, 2 outputs", "carries 1 values"],
    ),
    "a negative dimension": (
        "(float[2,-3] x) => (y) { y = ReduceSumSquare(x) }",
        ["input 'x' is declared with dimension -3", "allowed: 0 or more, or a name"],
    ),
}


@pytest.mark.parametrize("case", STRUCTURE)
def test_a_broken_graph_is_refused(case: str, ran: list[str]) -> None:
    text, words = STRUCTURE[case]
    if case == "a negative dimension":
        proto = model(text.replace("-3", "3"))
        proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -3
    else:
        proto = model(text)
    refuse(proto, {"x": DATA, "c": True, "M": 1}, ModelError, *words)
    with pytest.raises(ModelError):
        backend.prepare(proto)


def _two_opsets(proto: onnx.ModelProto) -> None:
    proto.opset_import.append(onnx.helper.make_opsetid("ai.onnx", 13))


def _weights(proto: onnx.ModelProto, **fields: Any) -> None:
    proto.graph.initializer.add(name="w", **fields)


BROKEN: dict[str, tuple[Callable[[onnx.ModelProto], object], list[str]]] = {
    "no graph": (lambda m: m.ClearField("graph"), ["the model has no graph"]),
    "no opset import": (
        lambda m: m.ClearField("opset_import"),
        ["node #0 (output 'reduced')", "no opset import", "allowed: opset 1 and later"],
    ),
    "two opsets": (_two_opsets, ["domain ''", "[13, 18]", "allowed: exactly one"]),
    "negative opset": (
        lambda m: setattr(m.opset_import[0], "version", -1),
        ["opset -1 of domain ''", "allowed: 1 and later"],
    ),
    "more data claimed than there": (
        lambda m: _weights(m, data_type=1, dims=[1 << 40], raw_data=b"1234"),
        ["initializer 'w' cannot be read"],
    ),
    "less data claimed than there": (
        lambda m: _weights(m, data_type=1, dims=[1], float_data=[1, 2]),
        ["initializer 'w' cannot be read"],
    ),
    "negative dimension": (
        lambda m: _weights(m, data_type=1, dims=[2, -1], float_data=[1, 2]),
        ["initializer 'w' has dimension -1", "allowed: 0 or more"],
    ),
    "dimensions that overflow": (
        lambda m: _weights(m, data_type=1, dims=[1 << 62, 1 << 62], raw_data=b""),
        ["initializer 'w' cannot be read"],
    ),
    "no element type": (
        lambda m: _weights(m, dims=[1], raw_data=b"1234"),
        ["initializer 'w' has element type 0"],
    ),
    "unknown element type": (
        lambda m: _weights(m, data_type=99, dims=[1], raw_data=b"1234"),
        ["initializer 'w' has element type 99"],
    ),
    "unknown element type of an input": (
        lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 99),
        ["input 'data' has element type 99"],
    ),
    "no output of the node": (
        lambda m: m.graph.node[0].ClearField("output"),
        ["has outputs []", "allowed: exactly one"],
    ),
    "constant with too little data": (
        lambda m: m.graph.node.add(
            op_type="Constant",
            output=["k"],
            attribute=[
                onnx.helper.make_attribute(
                    "value",
                    onnx.TensorProto(data_type=1, dims=[5], float_data=[1]),
                )
            ],
        ),
        ["node #1 (output 'k')", "attribute 'value' cannot be read"],
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_proto_is_refused(case: str) -> None:
    change, words = BROKEN[case]
    proto, feeds = reduce_model(DATA)
    change(proto)
    refuse(proto, feeds, ModelError, *words)
    refuse(proto.SerializeToString(), feeds, ModelError, *words)


def test_external_data_comes_from_the_folder_of_the_model_only(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 24)
    folder = tmp_path / "model"
    folder.mkdir()
    for location in ("missing", "../secret", str(tmp_path / "secret"), ""):
        proto, _ = reduce_model(DATA)
        proto.graph.initializer.add(
            name="data", data_type=1, dims=[2, 3], data_location="EXTERNAL"
        ).external_data.add(key="location", value=location)
        path = folder / "model.onnx"
        path.write_bytes(proto.SerializeToString())
        refuse(path, {}, ModelError, "'data'", location)
        if location:
            words = repr(location), "allowed: data inside, or the model given as a path"
            refuse(proto, {}, ModelError, "initializer 'data'", *words)


def test_external_data_of_a_constant_is_not_read_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").write_bytes(b"\0" * 8)
    monkeypatch.chdir(tmp_path)
    proto = model("(float[2,3] x) => (y) { k = Constant<value=float {1}>() y = Neg(k) }")
    tensor = proto.graph.node[0].attribute[0].t
    tensor.CopyFrom(onnx.TensorProto(data_type=1, dims=[2], data_location="EXTERNAL"))
    tensor.external_data.add(key="location", value="here")
    refuse(proto, {"x": DATA}, ModelError, "attribute 'value' has its data in the file")


def test_files_that_are_no_model(tmp_path: Path) -> None:
    refuse(tmp_path / "none.onnx", {}, ModelError, "none.onnx", "No such file")
    refuse(tmp_path, {}, ModelError, str(tmp_path), "directory")
    for name, content in (("a.onnx", b"garbage"), ("b.json", b"{"), ("c.onnx", b"")):
        (tmp_path / name).write_bytes(content)
        refuse(tmp_path / name, {}, ModelError)
    refuse(7, {}, ArgumentError, "model is a int", "path, bytes or onnx.ModelProto")


@pytest.mark.parametrize("depth", [3, 200])
def test_graphs_nested_too_deep_are_refused(depth: int) -> None:
    proto = nested_graphs(depth)
    feeds = {"x": DATA, "c": True}
    if depth < 10:
        assert run_model(proto, feeds)["y"] == 55
    else:
        refuse(proto, feeds, ModelError)


@pytest.mark.parametrize("depth", [3, 3000])
def test_functions_nested_too_deep_are_refused(depth: int) -> None:
    chain = [
        function(f"b = f.f{i}(a)", head=f"f{i - 1} (a) => (b)") for i in range(1, depth)
    ]
    last = function("b = ReduceSumSquare<keepdims=0>(a)", head=f"f{depth - 1} (a) => (b)")
    proto = model("(float[2,3] x) => (y) { y = f.f0(x) }", *chain, last)
    if depth < 10:
        assert run_model(proto, {"x": DATA})["y"] == 55
    else:
        refuse(proto, {"x": DATA}, ModelError, "more than 100 deep")


def test_random_bytes_and_damaged_models_give_errors_of_halfulp_only() -> None:
    random_ = random.Random(20240229)
    protos = [reduce_model(DATA, axes=[1], axes_form="const")[0]]
    feeds: dict[str, Any] = {"x": DATA, "c": np.array(True)}
    for text, _ in NESTED.values():
        square = function("b = ReduceSumSquare<axes=[1]>(a)", head="sq (a) => (b)")
        text = text.replace("<ATTRIBUTE>", "")
        protos.append(model(text, square, opset=13))
    originals = [proto.SerializeToString() for proto in protos]
    messages = []
    for _ in range(400):
        damaged = bytearray(random_.choice(originals))
        kind = random_.randrange(10)
        if kind == 0:
            damaged = bytearray(random_.randbytes(random_.randrange(80)))
        elif kind == 1:
            del damaged[random_.randrange(len(damaged)) :]
        else:
            for _ in range(random_.choice([1, 1, 2, 5])):
                damaged[random_.randrange(len(damaged))] = random_.randrange(256)
        try:
            run_model(bytes(damaged), feeds)
        except HalfulpError as error:
            messages.append(str(error))
    assert 300 < len(messages) < 400
    assert not any("\n" in message for message in messages)
