"""Models that crash onnx's C++ or hang its evaluator do not so in Python's functions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from halfulp.errors import ModelError
from halfulp.onnx import check_model, infer_shapes, run_model
from onnx_models import DATA, model

# Runs each function on each model in a process of its own, and prints how it ended.
PROGRAM = """
import json, os, signal, sys
import numpy as np, onnx
from halfulp import HalfulpError
import halfulp.onnx as h

x = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
functions = {
    "check": lambda m: "; ".join(f.message for f in h.check_model(m).findings),
    "infer": lambda m: h.infer_shapes(m) and "",
    "run": lambda m: h.run_model(m, x) and "",
    "fuse": lambda m: h.fuse(m) and "",
    "expand": lambda m: h.expand(m) and "",
    "convert": lambda m: h.convert_opset(m, 21) and "",
}
for path in sys.argv[1:]:
    for name, function in functions.items():
        sys.stdout.flush()
        child = os.fork()
        if child:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if status:
                print(json.dumps([path, name, f"ended with {status}"]))
            continue
        signal.alarm(20)
        proto = onnx.load(path)
        try:
            said = function(proto)
        except HalfulpError as error:
            said = str(error)
        print(json.dumps([path, name, said]), flush=True)
        os._exit(0)
"""

HEAD = '<ir_version: 8, opset_import: ["" : 20, "ai.onnx.ml": {}, "c": 1]> g '

# A model, and words of what every function says of it; none where it is valid, and only
# the run refuses the operator c.Foo.
CRASHING = {
    "batch_dims below 0": (
        """(float[2,3] x) => (y) <int64[0] i = {}>
        { z = GatherND<batch_dims=-1>(x, i) y = ReduceSumSquare(z) }""",
        "attribute 'batch_dims' is -1; allowed: 0 to 2147483647",
    ),
    "an axis beyond 32 bits": (
        """(float[2,3] x) => (y) { z, m = LayerNormalization<axis=2147483648>(x, x)
        y = ReduceSumSquare(z) }""",
        "attribute 'axis' is 2147483648; allowed: -2147483648 to 2147483647",
    ),
    "an axis beyond 32 bits, nested": (
        """(float[2,3] x, bool c) => (y) { y = If (c) <
            then_branch = t () => (p)
                { p, m = LayerNormalization<axis=4294967295>(x, x) },
            else_branch = e () => (q) { q = Neg(x) }> }""",
        "attribute 'axis' is 4294967295",
    ),
    "more outputs than num_outputs": (
        "(float[2,3] x) => (y) { z, m, n = Split<num_outputs=1>(x) "
        "y = ReduceSumSquare(z) }",
        "attribute 'num_outputs' is 1; allowed: 3 to 2147483647",
    ),
    "10^9 inputs to scan": (
        """(float[2,3] x) => (y) { z = Scan<num_scan_inputs=1000000000,
            body = b (float[3] i) => (float[3] o) { o = Identity(i) }>(x)
        y = ReduceSumSquare(z) }""",
        "attribute 'num_scan_inputs' is 1000000000; allowed: 1 to 1",
    ),
    "EyeLike of an unknown type": (
        """(float[2,3] x) => (y) { a = c.Foo(x) z = EyeLike<dtype=1>(a)
        y = ReduceSumSquare(z) }""",
        "",
    ),
    "EyeLike of an unknown type that hides a known one": (
        """(float[2,3] x, bool c) => (y) { a = Neg(x) y = If (c) <
            then_branch = t () => (p) { a = c.Foo(x) p = EyeLike<dtype=1>(a) },
            else_branch = e () => (q) { q = Neg(x) }> }""",
        "",
    ),
    "RegexFullMatch of an unknown type": (
        """(float[2,3] x) => (y, z) { a = c.Foo(x) z = RegexFullMatch<pattern="a">(a)
        y = ReduceSumSquare(x) }""",
        "",
    ),
    "DictVectorizer of an unknown type": (
        """(float[2,3] x) => (y, z) { a = c.Foo(x)
        z = ai.onnx.ml.DictVectorizer<int64_vocabulary=[1]>(a)
        y = ReduceSumSquare(x) }""",
        "",
    ),
    "LabelEncoder of an unknown type": (
        """(float[2,3] x) => (y, z) { a = c.Foo(x)
        z = ai.onnx.ml.LabelEncoder<keys_int64s=[1], values_int64s=[1]>(a)
        y = ReduceSumSquare(x) }""",
        "",
    ),
}


def parse(text: str, ml: int = 2) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD.format(ml) + text)


def attributes_of_calls() -> onnx.ModelProto:
    """A model whose function has an attribute that crashes, which the call gives."""
    return model(
        "(float[2,3] x, int64[0] i) => (y) { y = f.g<k=-1>(x, i) }",
        '<domain: "f", opset_import: ["" : 18]> g <k> (a, i) => (b) '
        "{ c = GatherND<batch_dims: int = @k>(a, i) b = ReduceSumSquare(c) }",
    )


def test_no_function_crashes(tmp_path: Path) -> None:
    paths = {}
    for name, (text, _) in CRASHING.items():
        path = tmp_path / f"{name}.onnx"
        paths[str(path)] = name
        path.write_bytes(parse(text).SerializeToString())
    call = tmp_path / "call.onnx"
    call.write_bytes(attributes_of_calls().SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *paths, str(call)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == 6 * (1 + len(paths))
    for path, function, words in said:
        if path == str(call):
            assert not words.startswith("ended"), (function, words)
            continue
        expected = CRASHING[paths[path]][1]
        if not expected and function == "run":
            expected = "operator 'Foo' of domain 'c' is unknown"
        if expected:
            assert expected in words, (path, function)
        else:
            assert not words, (path, function)


def test_other_nodes_keep_their_types() -> None:
    # EyeLike is inferred where the type of its input is, by the model or by onnx.
    text = """(float[2,3] x) => (y, z, u) { a = Neg(x) y = EyeLike(a) z = EyeLike(x)
        b = c.Foo(x) u = EyeLike(b) }"""
    typed = infer_shapes(parse(text)).graph
    sizes = [
        [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in typed.output
    ]
    assert sizes == [[2, 3], [2, 3], []]
    assert [node.op_type for node in typed.node].count("EyeLike") == 3
    assert check_model(parse(text)).errors == 0


def evaluate(text: str, **inputs: Any) -> Any:
    return run_model(model(text), inputs)["y"]


def test_tile() -> None:
    text = "(float[N,M] x, int64[K] r) => (y) { y = Tile(x, r) }"
    assert np.array_equal(evaluate(text, x=DATA, r=[2, 3]), np.tile(DATA, (2, 3)))
    assert evaluate(text, x=DATA, r=[0, 3]).shape == (0, 9)
    assert evaluate(text, x=DATA[:0], r=[2, 3]).shape == (0, 9)
    for repeats in ([1], [1, 1, 1], [-1, 1]):
        with pytest.raises(ModelError, match="repeats are"):
            evaluate(text, x=DATA, r=repeats)
    # These make numpy crash.
    for repeats in ([1 << 20, 1 << 45], [1 << 31, 1 << 33], [1 << 62, 1 << 62]):
        with pytest.raises(ModelError, match=r"fewer than 2\^62 elements"):
            evaluate(text, x=DATA, r=repeats)
    with pytest.raises(ModelError):
        evaluate(text, x=DATA[:, :0], r=[1 << 62, 1 << 62])


def test_gather_elements() -> None:
    text = "(float[N,M] x, int64[K,L] i) => (y) { y = GatherElements<axis=A>(x, i) }"
    rng = np.random.default_rng()
    data = rng.random((40, 50), np.float32)
    for axis in (0, 1, -1):
        indices = rng.integers(-data.shape[axis], data.shape[axis], (40, 50))
        expected = np.take_along_axis(data, indices, axis)
        here = text.replace("A", str(axis))
        assert np.array_equal(evaluate(here, x=data, i=indices), expected)
    # As many along the other axis as there are indices.
    text = text.replace("A", "1")
    got = evaluate(text, x=data, i=[[0, 49, -1]])
    assert np.array_equal(got, data[:1, [0, 49, -1]])
    for index in (50, -51, -(1 << 63), (1 << 63) - 1):
        with pytest.raises(ModelError, match="out of bounds"):
            evaluate(text, x=data, i=[[index]])
    with pytest.raises(ModelError, match="do not fit"):
        evaluate(text, x=data, i=np.zeros((41, 1), np.int64))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("ngram_counts", [0, 1 << 62]),
        ("ngram_counts", [-(1 << 63)]),
        ("ngram_indexes", [0, -(1 << 63)]),
        ("ngram_indexes", [1 << 62, 0]),
        ("max_skip_count", 1 << 62),
    ],
)
def test_tfidf_vectorizer(attribute: str, value: Any) -> None:
    fields: dict[str, Any] = {
        "max_gram_length": 1,
        "max_skip_count": 0,
        "min_gram_length": 1,
        "mode": "TF",
        "ngram_counts": [0],
        "ngram_indexes": [0, 1],
        "pool_int64s": [1, 2],
    }
    proto = model("(int64[N] x) => (y) { y = Identity(x) }")
    names = ["x"], ["y"]
    node = onnx.helper.make_node("TfIdfVectorizer", *names, **fields)
    proto.graph.node[0].CopyFrom(node)
    counts = run_model(proto, {"x": [2, 1, 2, 3]})["y"]
    assert np.array_equal(counts, np.float32([1, 2]))
    fields[attribute] = value
    node = onnx.helper.make_node("TfIdfVectorizer", *names, **fields)
    proto.graph.node[0].CopyFrom(node)
    with pytest.raises(ModelError, match=f"attribute '{attribute}' has "):
        run_model(proto, {"x": [2, 1, 2, 3]})
