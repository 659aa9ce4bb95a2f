"""Make the example models, their inputs and scikit-learn's own answers.

For each model ``M.onnx`` the folder gets ``M.expected.npz``: for each output of the
model, under its name, what scikit-learn computes for the example's input file.
Each model is then run in ONNX's reference evaluator and in ONNX Runtime, and the
agreement with scikit-learn is printed.

::

    pip install numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 \
        skl2onnx==1.20.0 onnx==1.23.2 onnxruntime==1.32.0
    python examples/make_models.py [FOLDER]

FOLDER is where the files go (default: the folder of this script). A second run on the
same machine writes the same bytes; another machine's linear algebra may train a model
that differs in the last bits.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import Normalizer
from threadpoolctl import threadpool_limits

# The first 500 digits keep digits.npy at 128 kB.
DIGITS_ROWS = 500
ML_OPSETS = {18: 3, 13: 2, 11: 2}
# In units of the type's epsilon: the sums run to 64 terms, in another order or precision
# than scikit-learn's.
TOLERANCE = 100


class Example(NamedTuple):
    """A trained estimator, what goes in and what scikit-learn says comes out.

    ``node`` is the path of operator types that leads to the ReduceSumSquare node.
    """

    stem: str
    opset: int
    estimator: BaseEstimator
    input_file: str
    inputs: np.ndarray
    expected: dict[str, np.ndarray]
    node: str = "ReduceSumSquare"
    options: dict[str, Any] | None = None


def kmeans_digits() -> Iterator[Example]:
    """Cluster the digits: one estimator, converted at three versions of the operator."""
    digits = load_digits().data
    kmeans = KMeans(n_clusters=10, n_init=4, random_state=0).fit(digits)
    rows = digits[:DIGITS_ROWS]
    expected = {
        "label": kmeans.predict(rows).astype(np.int64),
        "scores": kmeans.transform(rows).astype(np.float32),
    }
    for opset in ML_OPSETS:
        yield Example(
            f"kmeans_digits_opset{opset}",
            opset,
            kmeans,
            "digits.npy",
            rows.astype(np.float32),
            expected,
        )


def gaussian_process() -> Example:
    """Interpolate a smooth function of two variables, known on a 5 by 5 grid."""
    known, asked = grid(5), grid(12)
    values = np.sin(3 * known[:, 0]) * np.cos(2 * known[:, 1])
    # A fixed kernel: fitting its length scale would tie the files to an optimizer.
    process = GaussianProcessRegressor(RBF(0.5), alpha=1e-6, optimizer=None)
    process.fit(known, values)
    return Example(
        "gaussian_process_opset18",
        18,
        process,
        "gaussian_process_input.npy",
        asked,
        {"GPmean": process.predict(asked)[:, np.newaxis]},
        node="Scan/ReduceSumSquare",
    )


def grid(points: int) -> np.ndarray:
    """Return the points of a square grid on [-1, 1]², shape (points², 2)."""
    side = np.linspace(-1, 1, points)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


def normalizer_double() -> Example:
    """Scale the wine measurements to unit length, row by row, in double precision.

    For float32 the converter emits one ai.onnx.ml Normalizer. That operator returns only
    float32, so for double it emits ReduceSumSquare, Sqrt and Div. No row here is zero:
    scikit-learn leaves such a row as it is, the graph would divide 0 by 0.
    """
    wine = load_wine().data
    normalizer = Normalizer(norm="l2").fit(wine)
    return Example(
        "normalizer_double_opset18",
        18,
        normalizer,
        "normalizer_input.npy",
        wine,
        {"variable": normalizer.transform(wine)},
    )


def gaussian_mixture() -> Example:
    """Cluster the irises, with one full covariance, so one node, for each component."""
    iris = load_iris().data
    mixture = GaussianMixture(3, covariance_type="full", random_state=0).fit(iris)
    log_densities = mixture.score_samples(iris)[:, np.newaxis]
    return Example(
        "gaussian_mixture_opset18",
        18,
        mixture,
        "gaussian_mixture_input.npy",
        iris.astype(np.float32),
        {
            "label": mixture.predict(iris)[:, np.newaxis].astype(np.int64),
            "probabilities": mixture.predict_proba(iris).astype(np.float32),
            "score_samples": log_densities.astype(np.float32),
        },
        options={"score_samples": True},
    )


def convert(example: Example) -> onnx.ModelProto:
    """Convert the estimator to ONNX and check what the example promises of the model."""
    tensor = FloatTensorType if example.inputs.dtype == np.float32 else DoubleTensorType
    model: onnx.ModelProto = convert_sklearn(
        example.estimator,
        name=example.stem,
        initial_types=[("X", tensor([None, example.inputs.shape[1]]))],
        target_opset={"": example.opset, "ai.onnx.ml": ML_OPSETS[example.opset]},
        options={id(example.estimator): example.options} if example.options else None,
    )
    onnx.checker.check_model(model, full_check=True)
    assert {o.domain: o.version for o in model.opset_import}[""] == example.opset
    assert example.node in node_paths(model.graph)
    assert [output.name for output in model.graph.output] == list(example.expected)
    return model


def node_paths(graph: onnx.GraphProto, parent: str = "") -> Iterator[str]:
    """Yield each node's operator type, after the types of the nodes that contain it."""
    for node in graph.node:
        path = parent + node.op_type
        yield path
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from node_paths(attribute.g, path + "/")


def agreement(expected: np.ndarray, actual: np.ndarray) -> str:
    """Say how far a runtime agrees with scikit-learn; fail where it does not."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind == "i":
        equal = np.count_nonzero(actual == expected)
        assert equal == expected.size
        return f"{equal} of {expected.size} equal"
    difference = np.abs(actual - expected).max() / np.abs(expected).max()
    assert difference <= TOLERANCE * np.finfo(expected.dtype).eps
    return f"greatest difference {difference:.1e} of the largest magnitude"


def write(example: Example, folder: Path) -> None:
    """Write the example's three files, run its model and print the agreement."""
    model = convert(example)
    data = model.SerializeToString(deterministic=True)
    (folder / f"{example.stem}.onnx").write_bytes(data)
    np.savez(
        folder / f"{example.stem}.expected.npz", allow_pickle=False, **example.expected
    )
    np.save(folder / example.input_file, example.inputs)

    print(f"{example.stem}: {', '.join(node_paths(model.graph))}")
    feed = {"X": example.inputs}
    runs = {
        "reference evaluator": ReferenceEvaluator(model).run(None, feed),
        "ONNX Runtime": onnxruntime.InferenceSession(
            data, providers=["CPUExecutionProvider"]
        ).run(None, feed),
    }
    for runtime, outputs in runs.items():
        for (name, expected), actual in zip(
            example.expected.items(), outputs, strict=True
        ):
            print(f"  {runtime}, {name}: {agreement(expected, actual)}")


def main() -> None:
    """Make every example."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    # Threads add in an order that varies, and with it the last bits of a trained model.
    with threadpool_limits(limits=1):
        for example in (
            *kmeans_digits(),
            gaussian_process(),
            normalizer_double(),
            gaussian_mixture(),
        ):
            write(example, folder)


if __name__ == "__main__":
    main()
