"""In ONNX Runtime, the reductions have the bits that they have in Python."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import shutil
import subprocess
import sys
import types
import unittest
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.backend.test
import onnxruntime
import pytest

import halfulp
from examples import EXAMPLES, INPUTS
from halfulp import ArgumentError, AxesError, EngineError
from halfulp.element_types import ELEMENT_TYPES
from halfulp.onnx.model.nodes import walk
from halfulp.onnxruntime import OPERATORS
from halfulp.reductions import SUM_SQUARE, Reduction
from halfulp.spec.rules import normalize_axes
from node_tests import NODE_TESTS, node_tests_of
from onnx_models import DATA, DTYPES, EXACT, WITNESS, model, reduce_model
from oracle import assert_same_bits, expected
from runtime_sessions import HOST, LEVELS, RELEASE, each_reduction, quiet, reduced

# What this release can be fed from Python.
NAMES = [name for name in DTYPES if name != "bfloat16" or RELEASE >= (1, 20)]


def session(proto: onnx.ModelProto, **settings: Any) -> onnxruntime.InferenceSession:
    """A session in which halfulp computes every reduction that it has."""
    return halfulp.onnxruntime.InferenceSession(
        proto.SerializeToString(), quiet(**settings), operators=OPERATORS
    )


def run(proto: onnx.ModelProto, feeds: Mapping[str, Any], **settings: Any) -> Any:
    """The outputs, by name."""
    return halfulp.onnxruntime.run(session(proto, **settings), feeds)


@each_reduction
@pytest.mark.parametrize("opset", [1, 7, 11, 13, 18, 21])
def test_every_type_in_every_version_and_form_of_axes(
    row: Reduction, opset: int, rng: np.random.Generator
) -> None:
    version = row.version_for(opset)
    forms = ("attr",) if version.axes == "attribute" else ("const", "input")
    for element in ELEMENT_TYPES:
        if element.name not in version.types or element.name not in NAMES:
            continue
        if element.kind == "float":
            x = rng.standard_normal((3, 4, 5)).astype(element.dtype)
            x[0, 1] = -x[0, 0]  # cancels
        else:
            dtype, bounds = element.dtype, np.iinfo(element.dtype)
            x = rng.integers(bounds.min, bounds.max, (3, 4, 5), dtype, endpoint=True)
        for axes, keepdims in (([0], 0), ([1, -1], 1), ([], 0)):
            for form in forms:
                proto, feeds = reduce_model(
                    x,
                    opset=opset,
                    axes=axes,
                    axes_form=form,
                    operator=row.operator,
                    keepdims=keepdims,
                )
                got = run(proto, feeds)["reduced"]
                assert_same_bits(got, reduced(row, x, axes, keepdims=keepdims))


@each_reduction
@pytest.mark.parametrize("name", ["float16", "float", "double", "int32"])
def test_with_no_axis_each_element_is_a_reduction_of_itself(
    row: Reduction, name: str
) -> None:
    x = np.array([[-0.0, -3, 0], [1, 2, -2]]).astype(DTYPES[name])
    if name != "int32":
        x[1] = np.nan, -np.inf, -x[0, 1]
        x = np.copysign(x, np.array([[-1, -1, 1], [-1, -1, 1]], x.dtype))
    for form in ("absent", "input"):
        proto, feeds = reduce_model(
            x,
            axes=[],
            axes_form=form,
            operator=row.operator,
            noop_with_empty_axes=1,
        )
        want = reduced(row, x, noop_with_empty_axes=1)
        assert_same_bits(run(proto, feeds)["reduced"], want)
        if row.of_one == "value" and name != "int32":
            assert np.signbit(want[0]).tolist() == [True, True, False]
    # Of an axis of length 1 a sum is +0.
    column = x[:, :1]
    proto, feeds = reduce_model(
        column, axes=[1], axes_form="const", operator=row.operator
    )
    assert_same_bits(run(proto, feeds)["reduced"], reduced(row, column, [1]))


@each_reduction
def test_sums_of_nothing(row: Reduction) -> None:
    for name in ("float32", "int64"):
        empty = np.empty((0, 2), name)
        is_input = row.version_for(13).axes == "input"
        proto, feeds = reduce_model(
            empty,
            opset=13,
            axes=[0],
            axes_form="const" if is_input else "attr",
            operator=row.operator,
        )
        assert_same_bits(run(proto, feeds)["reduced"], reduced(row, empty, [0]))


@each_reduction
def test_shapes_and_axes_may_change_from_run_to_run(
    row: Reduction, rng: np.random.Generator
) -> None:
    proto = model(f"(float[N,M] x, int64[K] a) => (y) {{ y = {row.operator}(x, a) }}")
    live = session(proto)
    for shape in ((1, 1), (3, 5), (0, 4), (700, 900), (5, 1), (2, 300000)):
        x = rng.standard_normal(shape).astype(np.float32)
        for axes in ([0], [1], [0, 1], []):
            got = live.run(None, {"x": x, "a": np.array(axes, np.int64)})[0]
            assert_same_bits(got, reduced(row, x, axes))


@pytest.mark.parametrize("level", LEVELS, ids=str)
@pytest.mark.parametrize("opset", [13, 18])
@each_reduction
def test_every_level_of_graph_optimization(
    row: Reduction, opset: int, level: Any
) -> None:
    # Transpositions move past reductions, constants are folded, pairs are fused.
    is_input = row.version_for(opset).axes == "input"
    axes = ", axes" if is_input else ""
    attribute = "" if is_input else "axes=[1], "
    proto = model(
        "(float[2,3] x) => (y, z, c) "
        "<int64[1] axes = {1}, float[1,3] w = {4096, 1, 1}> {"
        "t = Transpose<perm=[1,0]>(x)"
        f"u = {row.operator}<{attribute}keepdims=1>(t{axes})"
        "y = Transpose<perm=[1,0]>(u)"
        f"s = {row.operator}<{attribute}keepdims=0>(x{axes}) z = Sqrt(s)"
        f"c = {row.operator}<{attribute}keepdims=0>(w{axes}) }}",
        opset=opset,
    )
    got = run(proto, {"x": WITNESS}, graph_optimization_level=level)
    assert_same_bits(got["y"], reduced(row, WITNESS, [0]))
    assert_same_bits(got["z"], np.sqrt(reduced(row, WITNESS, [1], keepdims=0)))
    assert_same_bits(got["c"], reduced(row, WITNESS[:1], [1], keepdims=0))
    if row is SUM_SQUARE:
        assert got["c"] == EXACT


needs_shapes = pytest.mark.skipif(RELEASE < (1, 24), reason="tells operators no shapes")


@needs_shapes
@pytest.mark.parametrize(
    ("opset", "node"),
    [
        (13, "o = ReduceSumSquare<axes=[-1], keepdims=0>(e)"),
        (18, "o = ReduceSumSquare<keepdims=0>(e)"),
        (18, "a = Constant<value_ints=[0]>() o = ReduceSumSquare<keepdims=0>(e, a)"),
        (18, "a = Constant<value_ints=[0, -1]>() o = ReduceSumSquare(e, a)"),
    ],
)
def test_in_the_body_of_scan_that_declares_no_shape(opset: int, node: str) -> None:
    proto = model(
        f"""(float[2,3] x) => (y) {{ y = Scan <num_scan_inputs = 1,
            body = b (e) => (o) {{ {node} }}> (x) }}""",
        opset=opset,
    )
    got = run(proto, {"x": WITNESS})["y"]
    assert_same_bits(got, np.full(got.shape, EXACT))


@needs_shapes
@pytest.mark.parametrize(
    ("opset", "node", "shape"),
    [
        (13, "ReduceSum<keepdims=0>(x, one)", [None, None]),
        (18, "ReduceMean(x, two)", [None, None, 1]),
        (13, "ReduceMean<axes=[1], keepdims=0>(x)", ["N", 1]),
        (18, "ReduceL2<noop_with_empty_axes=1>(x)", ["N", "M", 1]),
        (13, "ReduceSumSquare(x)", [1, 1, 1]),
        (13, "ReduceSumSquare<axes=[0, -3]>(x)", [1, "M", 1]),
        (13, "ReduceSumSquare<axes=[1], keepdims=0>(x)", ["N", 1]),
        (18, "ReduceSumSquare<noop_with_empty_axes=1>(x)", ["N", "M", 1]),
        (18, "ReduceSumSquare<noop_with_empty_axes=1>(x, none)", ["N", "M", 1]),
        (18, "ReduceSumSquare<keepdims=0>(x, none)", []),
        (18, "ReduceSumSquare(x, two)", [None, None, 1]),
        (18, "ReduceSumSquare<keepdims=0>(x, one)", [None, None]),
        # Both may be the same axis: the rank is not known, which reads as no dimension.
        (18, "ReduceSumSquare<keepdims=0>(x, two)", []),
        (18, "ReduceSumSquare<keepdims=0>(u, one)", []),
    ],
)
def test_shapes_follow_from_what_is_known(opset: int, node: str, shape: Any) -> None:
    proto = model(
        f"""(float[N,M,1] x, float u, int64[0] none, int64[1] one, int64[2] two) => (y)
            {{ y = {node} }}""",
        opset=opset,
    )
    if "(u" in node:
        proto.graph.input[1].type.tensor_type.ClearField("shape")
    found = session(proto).get_outputs()[0].shape
    unknown = [n for n in found if str(n).startswith("halfulp_unknown")]
    assert [None if n in unknown else n for n in found] == shape
    assert len(set(unknown)) == len(unknown)


def with_reductions_as_outputs(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Make outputs of what goes into the reductions of the graph, and comes out."""
    nodes = [n for n in proto.graph.node if n.op_type == "ReduceSumSquare"]
    present = {value.name for value in (*proto.graph.output, *proto.graph.input)}
    for node in nodes:
        for name in (node.input[0], node.output[0]):
            if name not in present:
                present.add(name)
                proto.graph.output.add(name=name)
    return nodes


def assert_reductions_are_right(proto: onnx.ModelProto, feeds: dict[str, Any]) -> int:
    """Compare the reductions of the graph; return how many they are."""
    proto = onnx.ModelProto.FromString(proto.SerializeToString())
    nodes = with_reductions_as_outputs(proto)
    values = feeds | run(proto, feeds)
    for node in nodes:
        want = halfulp.reduce_sum_square(values[node.input[0]], [1], keepdims=1)
        got = values[node.output[0]]
        assert_same_bits(got, want.reshape(got.shape))
    return len(nodes)


@pytest.mark.parametrize("name", INPUTS)
def test_example_models(name: str) -> None:
    path = EXAMPLES / f"{name}.onnx"
    feeds = {"X": np.load(EXAMPLES / INPUTS[name])}
    got = halfulp.onnxruntime.run(
        halfulp.onnxruntime.InferenceSession(path, quiet()), feeds
    )
    stored = np.load(EXAMPLES / f"{name}.expected.npz")
    for key, value in got.items():
        if value.dtype.kind == "i":
            assert_same_bits(value, stored[key])
            continue
        # As in test_examples.py.
        limit = 100 * np.finfo(value.dtype).eps * np.abs(stored[key]).max()
        assert np.abs(value.astype(float) - stored[key]).max() <= limit
    found = assert_reductions_are_right(onnx.load(path), feeds)
    assert (found == 0) == (name == "gaussian_process_opset18")


def estimators() -> Iterator[tuple[str, Any, str]]:
    """Names of scikit-learn's estimators, and the method whose values to compare."""
    from sklearn.cluster import KMeans
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.mixture import GaussianMixture
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import Normalizer

    yield "KMeans", KMeans(3, n_init=1, random_state=0), "transform"
    yield "KNeighborsClassifier", KNeighborsClassifier(3), "predict_proba"
    yield "GaussianProcessRegressor", GaussianProcessRegressor(alpha=0.1), "predict"
    yield "GaussianMixture", GaussianMixture(2, random_state=0), "predict_proba"
    yield "Normalizer", Normalizer(), "transform"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_models_of_skl2onnx(name: str, opset: int, rng: np.random.Generator) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    x = rng.standard_normal((40, 4))
    y = (x[:, 0] > 0).astype(np.int64)
    kind = {"float32": FloatTensorType, "float64": DoubleTensorType}[name]
    # Some of these subtract squares and take roots: half of the digits are left, and of a
    # distance of 0, as from a cluster of one point, the root of 0 or of less.
    tolerance = {"float32": 1e-2, "float64": 1e-6}[name]
    given = x.astype(name)
    for label, estimator, method in estimators():
        estimator.fit(x, y)
        proto = skl2onnx.convert_sklearn(
            estimator,
            initial_types=[("X", kind([None, 4]))],
            # Its GaussianMixture of double takes but a number.
            target_opset=opset,
            options={id(estimator): {"zipmap": False}} if "Classifier" in label else None,
        )
        has_it = any(n.op_type == "ReduceSumSquare" for _, n in walk(proto.graph.node))
        # For float32 this converter has an operator of its own.
        assert has_it or (label, name) == ("Normalizer", "float32")
        assert_reductions_are_right(proto, {"X": given})
        got = np.nan_to_num(session(proto).run(None, {"X": given})[-1])
        want = getattr(estimator, method)(given.astype(float))
        assert np.allclose(got.reshape(want.shape), want, rtol=tolerance, atol=tolerance)


def test_a_session_without_the_library_is_as_ever() -> None:
    # 94906267^2 + 9 is odd, of 54 bits.
    proto, feeds = reduce_model(np.array([94906267, 3], np.int64), keepdims=0)
    data = proto.SerializeToString()
    alone = onnxruntime.InferenceSession(data, quiet()).run(None, feeds)[0]
    own = onnxruntime.InferenceSession(data, quiet())
    ours = halfulp.onnxruntime.InferenceSession(data, quiet())
    for _ in range(2):
        assert ours.run(None, feeds)[0] == 9007199515875298
        assert own.run(None, feeds)[0] == alone
    if RELEASE >= (1, 32):
        assert alone == 9007199515875296  # through float64


def test_many_threads_may_call_one_session(rng: np.random.Generator) -> None:
    proto = model("(float[N,M] x, int64[1] a) => (y) { y = ReduceSumSquare(x, a) }")
    live = session(proto)
    large = rng.standard_normal((1024, 1024)).astype(np.float32)
    inputs = [(x, axis) for x in (large, large[:300, :500].copy()) for axis in (0, 1)]
    want = [halfulp.reduce_sum_square(x, [axis]) for x, axis in inputs]

    def call(i: int) -> np.ndarray:
        x, axis = inputs[i % 4]
        return live.run(None, {"x": x, "a": np.array([axis])})[0]

    with ThreadPoolExecutor(8) as pool:
        for i, got in enumerate(pool.map(call, range(200))):
            assert_same_bits(got, want[i % 4])


@pytest.mark.parametrize("threads", [1, 2, 4, 7])
@pytest.mark.parametrize("mode", ["ORT_SEQUENTIAL", "ORT_PARALLEL"])
def test_bits_do_not_depend_on_the_threads(
    threads: int, mode: str, rng: np.random.Generator
) -> None:
    settings = {
        "intra_op_num_threads": threads,
        "execution_mode": getattr(onnxruntime.ExecutionMode, mode),
    }
    for shape, axis in (((2048, 1024), 0), ((1024, 2048), 1), ((1 << 21,), 0)):
        x = rng.standard_normal(shape).astype(np.float32)
        proto, feeds = reduce_model(x, axes=[axis], axes_form="const", keepdims=0)
        got = run(proto, feeds, **settings)["reduced"]
        assert_same_bits(got, halfulp.sum_square(x, axis))


def test_more_workers_than_threads_of_the_session() -> None:
    # As on a machine of many processors, in a session of one thread.
    code = (
        "import numpy as np, onnxruntime, halfulp, onnx_models;"
        "x = np.arange(1 << 21, dtype=np.float32).reshape(2048, 1024) % 1000;"
        "options = onnxruntime.SessionOptions();"
        "options.intra_op_num_threads = 1\n"
        "for axis in (0, 1):\n"
        "    proto, feeds = onnx_models.reduce_model(x, axes=[axis], axes_form='const')\n"
        "    proto = proto.SerializeToString()\n"
        "    live = halfulp.onnxruntime.InferenceSession(proto, options)\n"
        "    want = halfulp.sum_square(x, axis, keepdims=True)\n"
        "    assert live.run(None, feeds)[0].tobytes() == want.tobytes()\n"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ
        | {"HALFULP_NUM_THREADS": "13", "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        timeout=60,
    )


def test_subnormals_count_where_the_session_flushes_them() -> None:
    data = np.array([2.0**-70, 2.0**-70], np.float32)
    proto, feeds = reduce_model(data, keepdims=0)
    options = quiet()
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    live = halfulp.onnxruntime.InferenceSession(proto.SerializeToString(), options)
    assert_same_bits(live.run(None, feeds)[0], np.array(2.0**-139, np.float32))


class _Rep:
    def __init__(self, proto: onnx.ModelProto) -> None:
        self._session = session(proto)

    def run(self, inputs: Any) -> Any:
        names = [value.name for value in self._session.get_inputs()]
        return self._session.run(None, dict(zip(names, inputs, strict=True)))


class _Backend(onnx.backend.base.Backend):
    @classmethod
    def prepare(cls, proto: onnx.ModelProto, device: str = "CPU", **_: Any) -> Any:
        return _Rep(proto)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


@pytest.fixture(scope="module")
def node_tests() -> type[unittest.TestCase]:
    return node_tests_of(_Backend, __name__)


@pytest.mark.parametrize("name", NODE_TESTS)
def test_node_test_of_onnx(name: str, node_tests: type[unittest.TestCase]) -> None:
    getattr(node_tests(name), name)()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"keepdims": 2}, "keepdims is 2; allowed: 0 or 1"),
        ({"keepdims": -1}, "keepdims is -1; allowed: 0 or 1"),
        ({"keepdims": 1.0}, "attribute keepdims has another type; allowed: INT"),
        ({"keepdims": "1"}, "attribute keepdims has another type; allowed: INT"),
        ({"keepdims": [1]}, "attribute keepdims has another type; allowed: INT"),
        ({"noop_with_empty_axes": 7}, "noop_with_empty_axes is 7; allowed: 0 or 1"),
        ({"axes": 1}, "attribute axes has another type; allowed: INTS"),
        ({"axes": 1.0}, "attribute axes has another type; allowed: INTS"),
        ({"axes": [1.0]}, "attribute axes has another type; allowed: INTS"),
    ],
)
@each_reduction
def test_a_bad_attribute_refuses_the_session(
    row: Reduction, attributes: dict[str, Any], message: str
) -> None:
    proto, _ = reduce_model(DATA, operator=row.operator)
    node = proto.graph.node[-1]
    for key, value in attributes.items():
        node.attribute.append(onnx.helper.make_attribute(key, value))
    for name, label in (("", "node (output 'reduced')"), ("my node", "node 'my node'")):
        node.name = name
        with pytest.raises(
            Exception, match=re.escape(f"{label} ({row.operator}): {message}")
        ):
            session(proto)


@each_reduction
def test_axes_twice_refuse_the_session(row: Reduction) -> None:
    proto, _ = reduce_model(DATA, axes=[1], axes_form="const", operator=row.operator)
    proto.graph.node[-1].attribute.append(onnx.helper.make_attribute("axes", [1]))
    message = f"({row.operator}): axes is given as attribute and as input; allowed: one"
    with pytest.raises(Exception, match=re.escape(message)):
        session(proto)


@pytest.mark.parametrize("axes", [[2], [-3], [0, 2**62], [-(2**63)], [1, 5, 0]])
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("form", ["attr", "const", "input"])
def test_an_axis_out_of_range_is_the_error_that_it_is_in_python(
    axes: list[int], rank: int, form: str
) -> None:
    data = np.ones((2,) * rank, np.float32)
    opset = 11 if form == "attr" else 18
    with pytest.raises(AxesError) as refused:
        normalize_axes(axes, rank, repeated="merge")
    for operator in OPERATORS:
        proto, feeds = reduce_model(
            data, opset=opset, axes=axes, axes_form=form, operator=operator
        )
        message = re.escape(f"({operator}): {refused.value}")
        with pytest.raises(Exception, match=message):
            run(proto, feeds)


def test_axes_that_are_no_list_are_an_error() -> None:
    for shape in ((), (1, 1)):
        proto, feeds = reduce_model(
            DATA, axes=np.zeros(shape, np.int64), axes_form="const"
        )
        message = f"of rank {len(shape)}; allowed: a 1-D tensor"
        with pytest.raises(Exception, match=re.escape(message)):
            run(proto, feeds)


def test_more_axes_than_any_array_has_are_an_error() -> None:
    proto = model(
        f"(float[1] x) => (y) <int64[65] shape = {{{', '.join(['1'] * 65)}}}> "
        "{ r = Reshape(x, shape) y = ReduceSumSquare<keepdims=0>(r) }"
    )
    with pytest.raises(Exception, match="data has rank 65; allowed: up to 64"):
        run(proto, {"x": np.float32([1])})


def test_a_session_survives_a_failed_run() -> None:
    proto, feeds = reduce_model(DATA, axes=[0], axes_form="input", keepdims=0)
    live = session(proto)
    for _ in range(100):
        with pytest.raises(Exception, match="axis 9 is out of range"):
            live.run(None, feeds | {"axes": np.array([9])})
        assert live.run(None, feeds)[0].tolist() == [9, 17, 29]


@pytest.mark.skipif(RELEASE >= (1, 20), reason="this onnxruntime takes bfloat16")
def test_bfloat16_is_one_error_where_onnxruntime_takes_none() -> None:
    proto, feeds = reduce_model(np.array([3, 4], ml_dtypes.bfloat16))
    with pytest.raises(EngineError, match=r"takes no bfloat16 .* allowed: 1\.20"):
        run(proto, feeds)


@pytest.mark.skipif("bfloat16" not in NAMES, reason="this onnxruntime takes none")
def test_bfloat16_through_ort_values() -> None:
    data = np.array([[3, 4], [256, 1]], ml_dtypes.bfloat16)
    proto, feeds = reduce_model(data, axes=[1], axes_form="input", keepdims=0)
    for given in (data, data[:, ::-1], np.asfortranarray(data)):
        got = run(proto, feeds | {"data": given})["reduced"]
        assert_same_bits(got, expected(data, 1))
    gc.collect()
    assert_same_bits(got, expected(data, 1))


def test_registering_again_changes_nothing() -> None:
    options = quiet()
    for _ in range(3):
        halfulp.onnxruntime.register(options)
        proto, feeds = reduce_model(WITNESS[0], keepdims=0)
        live = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        assert live.run(None, feeds)[0] == EXACT


def test_the_path_is_one_that_onnxruntime_takes() -> None:
    options = quiet()
    options.register_custom_ops_library(halfulp.onnxruntime.library_path())
    proto, feeds = reduce_model(WITNESS[0], keepdims=0)
    live = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    assert live.run(None, feeds)[0] == EXACT
    # Nothing breaks where it is registered again, by path or by function.
    options.register_custom_ops_library(halfulp.onnxruntime.library_path())
    live = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    assert live.run(None, feeds)[0] == EXACT
    live = halfulp.onnxruntime.InferenceSession(proto.SerializeToString(), options)
    assert live.run(None, feeds)[0] == EXACT


def test_options_freed_and_made_anew_are_not_taken_for_registered() -> None:
    proto, feeds = reduce_model(WITNESS[0], keepdims=0)
    for _ in range(50):
        options = quiet()
        halfulp.onnxruntime.register(options)
        live = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        assert live.run(None, feeds)[0] == EXACT
        del options, live
        assert quiet().log_severity_level == 4  # may lie where the others lay


def test_registering_in_a_session_says_what_to_pass_instead() -> None:
    proto, _ = reduce_model(WITNESS[0])
    live = session(proto)
    options = "allowed: onnxruntime.SessionOptions"
    way = f"{options} from which .*, or halfulp.onnxruntime.InferenceSession\\(model\\)"
    with pytest.raises(ArgumentError, match=f"^options is an InferenceSession; {way}"):
        halfulp.onnxruntime.register(live)
    with pytest.raises(ArgumentError, match=f"^sess_options is an Infer.*; {way}"):
        halfulp.onnxruntime.InferenceSession(proto.SerializeToString(), live)
    for other in (None, "m.onnx", proto):
        with pytest.raises(ArgumentError, match=f"^options is an? .*; {options}$"):
            halfulp.onnxruntime.register(other)


def saved_in_ort_format(
    model: str | bytes, path: Path, options: onnxruntime.SessionOptions
) -> str:
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(model, options)
    return str(path)


@pytest.mark.parametrize("level", LEVELS, ids=str)
@pytest.mark.parametrize("name", sorted(INPUTS))
def test_an_ort_file_of_a_plain_runtime_runs_in_halfulp(
    tmp_path: Path, name: str, level: Any
) -> None:
    path = str(EXAMPLES / f"{name}.onnx")
    feeds = {"X": np.load(EXAMPLES / INPUTS[name])}
    want = halfulp.onnxruntime.InferenceSession(path, quiet()).run(None, feeds)
    saved = saved_in_ort_format(
        path, tmp_path / "m.ort", quiet(graph_optimization_level=level)
    )
    before = Path(saved).read_bytes()
    for given in (saved, Path(saved), before):
        live = halfulp.onnxruntime.InferenceSession(given, quiet())
        for got, right in zip(live.run(None, feeds), want, strict=True):
            assert_same_bits(got, right)
    assert [file.name for file in tmp_path.iterdir()] == ["m.ort"]
    assert Path(saved).read_bytes() == before


def test_an_ort_file_with_the_node_in_a_nested_graph(tmp_path: Path) -> None:
    proto = model(
        """(bool c, float[2,3] x) => (y) { y = If (c) <
            then_branch = t () => (a) { a = ReduceSumSquare<keepdims=0>(x) },
            else_branch = e () => (b) { b = ReduceSumSquare<keepdims=1>(x) }> }"""
    )
    saved = saved_in_ort_format(proto.SerializeToString(), tmp_path / "m.ort", quiet())
    live = halfulp.onnxruntime.InferenceSession(saved, quiet())
    got = live.run(None, {"c": np.array(True), "x": WITNESS})[0]
    assert_same_bits(got, expected(WITNESS))


def test_an_ort_file_saved_with_the_library_needs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto, feeds = reduce_model(WITNESS[0], keepdims=0)
    options = quiet()
    halfulp.onnxruntime.register(options)
    saved = saved_in_ort_format(proto.SerializeToString(), tmp_path / "m.ort", options)
    monkeypatch.setattr(halfulp.onnxruntime, "_as_onnx", None)
    live = halfulp.onnxruntime.InferenceSession(saved, quiet())
    assert live.run(None, feeds)[0] == EXACT


def test_an_ort_file_that_cannot_be_turned_back_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto, _ = reduce_model(WITNESS[0])
    saved = saved_in_ort_format(proto.SerializeToString(), tmp_path / "m.ort", quiet())

    class Nowhere:
        def __enter__(self) -> str:
            return str(tmp_path / "no/folder")

        def __exit__(self, *arguments: Any) -> None:
            pass

    monkeypatch.setattr(halfulp.onnxruntime, "TemporaryDirectory", Nowhere)
    with pytest.raises(
        EngineError,
        match=r"model is in ONNX Runtime's own format and was "
        "saved without .* cannot turn it back into ONNX: .*; allowed: an ONNX model, or "
        "a file saved with the library registered$",
    ) as caught:
        halfulp.onnxruntime.InferenceSession(saved, quiet())
    assert "\n" not in str(caught.value)


def test_a_missing_onnxruntime_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EngineError, match="install halfulp with the extra 'onnxruntime'"):
        halfulp.onnxruntime.InferenceSession("m.onnx")


def test_an_onnxruntime_too_old_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    old = types.SimpleNamespace(__version__="1.16.3")
    monkeypatch.setitem(sys.modules, "onnxruntime", old)
    with pytest.raises(EngineError, match=r"is 1\.16\.3; allowed: 1\.17 and later"):
        halfulp.onnxruntime.register(None)


def test_a_runtime_too_old_for_the_library_gets_one_error() -> None:
    told = []
    address = ctypes.c_void_p

    @ctypes.CFUNCTYPE(address, ctypes.c_int, ctypes.c_char_p)
    def create_status(code: int, message: bytes) -> int:
        told.append((code, message.decode()))
        return 1

    functions = (address * 1)(ctypes.cast(create_status, address))
    version = ctypes.create_string_buffer(b"1.16.3")

    @ctypes.CFUNCTYPE(address, ctypes.c_uint32)
    def get_api(wanted: int) -> int | None:
        return ctypes.addressof(functions) if wanted <= 16 else None

    @ctypes.CFUNCTYPE(address)
    def get_version_string() -> int:
        return ctypes.addressof(version)

    base = (address * 2)(
        *(ctypes.cast(f, address) for f in (get_api, get_version_string))
    )
    register = ctypes.CDLL(halfulp.onnxruntime.library_path()).RegisterCustomOps
    register.restype = address
    assert register(None, base) == 1
    assert told == [(1, "halfulp: onnxruntime is 1.16.3; allowed: 1.17 and later")]


def test_a_library_that_cannot_be_loaded_is_one_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(halfulp._core, "__file__", str(tmp_path / "_core.so"))
    with pytest.raises(EngineError, match="does not exist"):
        halfulp.onnxruntime.register(quiet())
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libhalfulp_onnxruntime.so").write_text("no library")
    with pytest.raises(EngineError, match=r"does not load '.*libhalfulp_onnxruntime.so'"):
        halfulp.onnxruntime.register(quiet())


@pytest.mark.skipif(sys.platform != "linux", reason="names files as Linux does")
def test_a_program_in_c_uses_the_library(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    host = tmp_path / "host"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, HOST, "-o", host, "-ldl"], check=True)
    (runtime,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")

    def ran(**attributes: int) -> subprocess.CompletedProcess[str]:
        proto, _ = reduce_model(WITNESS[0], **attributes)
        onnx.save(proto, tmp_path / "m.onnx")
        library = halfulp.onnxruntime.library_path()
        values = map(str, WITNESS[0].tolist())
        command = [host, runtime, library, tmp_path / "m.onnx", "", *values]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = ran()
    assert (done.returncode, done.stdout, done.stderr) == (0, "4b800001\n", "")
    done = ran(keepdims=2)
    assert (done.returncode, done.stdout) == (3, "")
    assert "(ReduceSumSquare): keepdims is 2; allowed: 0 or 1" in done.stderr


@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("nm"), reason="needs nm for ELF"
)
def test_the_library_exports_one_function_and_needs_no_python() -> None:
    path = halfulp.onnxruntime.library_path()

    def symbols(*options: str) -> list[str]:
        done = subprocess.run(
            ["nm", "-D", *options, path], check=True, capture_output=True, text=True
        )
        return [line.split()[-1] for line in done.stdout.splitlines()]

    assert symbols("--defined-only") == ["RegisterCustomOps"]
    needed = " ".join(symbols("--undefined-only"))
    assert not re.search(r"\bPy|\bOrt|std::|_ZS", needed)


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_does_not_grow() -> None:
    # HALFULP_INFERENCES=100000 for a long run.
    inferences = int(os.environ.get("HALFULP_INFERENCES", "20000"))
    proto, feeds = reduce_model(DATA, axes=[0], axes_form="input")
    live = session(proto, intra_op_num_threads=1)
    bad = feeds | {"axes": np.array([9])}

    def some(n: int) -> None:
        for i in range(n):
            live.run(None, feeds)
            # Before 1.23 the runtime loses every error that an operator returns.
            if i % 10 == 0 and RELEASE >= (1, 23):
                with pytest.raises(Exception, match="out of range"):
                    live.run(None, bad)
            if i % 200 == 0:
                session(proto, intra_op_num_threads=1).run(None, feeds)
        gc.collect()

    # A leak grows in every round; arenas and logs grow in some.
    growth = []
    for _ in range(6):
        before = resident_bytes()
        some(inferences // 6)
        growth.append(resident_bytes() - before)
    assert min(growth) < 8 * inferences // 6
