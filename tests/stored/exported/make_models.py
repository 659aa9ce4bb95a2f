"""Makes tests/stored/models: models as users of scikit-learn and PyTorch have them.

Run it in a scratch environment with scikit-learn 1.9, skl2onnx 1.20, torch 2.13 and
onnxscript 0.7: ``python make_models.py [FOLDER]``. Each NAME_OPSET.onnx runs on NAME.npz,
which has the inputs by name and, as ``label of NAME``, the labels of scikit-learn; more
inputs of the same model are in NAME.CASE.npz. benchmarks/real_models.py runs them; tests
need the files only.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from skl2onnx import to_onnx
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import Normalizer, StandardScaler
from threadpoolctl import threadpool_limits
from torch import nn
from torch.nn import functional

FOLDER = Path(sys.argv[1] if sys.argv[1:] else Path(__file__).parents[1] / "models")

IRIS, SPECIES = load_iris(return_X_y=True)
WINE, _ = load_wine(return_X_y=True)
# Where the type is the model's, its opsets; versions of the reductions change between.
SKLEARN_OPSETS = {11: 2, 13: 3, 18: 3, 21: 3}
float32, float64 = np.float32, np.float64

# Of what torch's models take.
TOKENS, WIDTH = 12, 16

# By name: what is trained, on what, and the type of the model.
ESTIMATORS: dict[str, tuple[BaseEstimator, np.ndarray, type]] = {
    "kmeans": (KMeans(3, n_init=1, random_state=0), IRIS, float32),
    # Far from the origin, as positions or times are: squares are large, distances small.
    "kmeans_far": (KMeans(3, n_init=1, random_state=0), IRIS + 1000, float32),
    "knn": (KNeighborsClassifier(3), IRIS, float32),
    "gaussian_process": (
        GaussianProcessRegressor(RBF(1.0), alpha=1e-3, optimizer=None),
        IRIS,
        float64,
    ),
    "gaussian_mixture": (GaussianMixture(3, random_state=0), IRIS, float32),
    "normalizer_l1": (Normalizer("l1"), WINE, float64),
    "normalizer_l2": (Normalizer("l2"), WINE, float64),
    "normalizer_max": (Normalizer("max"), WINE, float32),
    "pca": (PCA(2), IRIS, float32),
    "scaler": (StandardScaler(), IRIS, float32),
    "gaussian_nb": (GaussianNB(), IRIS, float32),
    "multinomial_nb": (MultinomialNB(), IRIS, float32),
    "bernoulli_nb": (BernoulliNB(binarize=1.5), IRIS, float32),
}


def make_estimators() -> None:
    for name, (estimator, data, dtype) in ESTIMATORS.items():
        # What the model is given is what scikit-learn is: every number is one of float32.
        x = data.astype(float32).astype(float64)
        estimator.fit(x[::5], SPECIES[::5] if len(x) == len(SPECIES) else None)
        arrays = {"X": x.astype(dtype)}
        tensor = FloatTensorType if dtype is float32 else DoubleTensorType
        for opset, ml in SKLEARN_OPSETS.items():
            # Rows of probabilities but for one, which has maps of labels.
            is_classifier = hasattr(estimator, "classes_") and name != "knn"
            model = to_onnx(
                estimator,
                initial_types=[("X", tensor([None, x.shape[1]]))],
                target_opset={"": opset, "ai.onnx.ml": ml},
                options={id(estimator): {"zipmap": False}} if is_classifier else None,
            )
            onnx.save(model, FOLDER / f"{name}_{opset}.onnx")
        if hasattr(estimator, "predict") and not name.startswith("gaussian_process"):
            label = next(v.name for v in model.graph.output if "label" in v.name)
            arrays[f"label of {label}"] = estimator.predict(x).astype(np.int64)
        store(name, arrays)
    store("normalizer_l2.large", {"X": WINE[::9] * 1e200})


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def mean_of_tokens(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The embedding of a text: the mean of its tokens' as a unit vector."""
    weights = mask.unsqueeze(-1).to(x.dtype)
    mean = (x * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
    return functional.normalize(mean, dim=1)


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    """RMS norm in its parts, as many models write it."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Classifier(nn.Module):
    """A layer of a transformer, with two heads; the class of a text and its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        heads = self.qkv(x).reshape(-1, TOKENS, 3, 2, WIDTH // 2).permute(2, 0, 3, 1, 4)
        q, k, v = heads[0], heads[1], heads[2]
        weights = torch.softmax(q @ k.transpose(-1, -2) / (WIDTH / 2) ** 0.5, -1)
        mixed = (weights @ v).transpose(1, 2).reshape(-1, TOKENS, WIDTH)
        x = self.norms[0](x + self.mix(mixed))
        x = self.norms[1](x + self.down(functional.gelu(self.up(x))))
        logits = self.head(x.mean(1))
        return logits.argmax(-1), logits


class Exported(NamedTuple):
    """A module, its inputs, the exporter for each opset, and names.

    ``axes`` are those of sizes that are not fixed, the first ones.
    """

    module: nn.Module
    inputs: dict[str, torch.Tensor]
    exporters: dict[int, str]
    outputs: tuple[str, ...] = ("y",)
    axes: str = "N"


# TorchScript's exporter does not change a model after opset 18, the other starts there.
OLD = dict.fromkeys((11, 13, 17), "torchscript")
NEW = dict.fromkeys((18, 21), "dynamo")


def modules() -> dict[str, Exported]:
    """What is exported, by name."""
    torch.manual_seed(0)
    tokens, other = torch.randn(2, 4, TOKENS, WIDTH)
    lengths = torch.tensor([[TOKENS], [7], [3], [1]])
    mask = (torch.arange(TOKENS) < lengths).long()
    affine = nn.LayerNorm(WIDTH)
    nn.init.normal_(affine.weight)
    # What TorchScript's exporter folds below opset 18, and the other at any.
    weight_norm = nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, 8))
    x, both = {"x": tokens}, {"x": tokens, "y": other}
    return {
        "layer_norm": Exported(affine, {"x": 3 * tokens + 50}, OLD | NEW, ("z",)),
        "rms_norm": Exported(Function(rms_norm), x, OLD | NEW),
        "group_norm": Exported(nn.GroupNorm(2, TOKENS), x, OLD | NEW),
        "weight_norm": Exported(weight_norm, x, OLD | NEW | {18: "torchscript"}),
        "cosine_similarity": Exported(nn.CosineSimilarity(-1), both, OLD | NEW, ("z",)),
        "pairwise_distance": Exported(nn.PairwiseDistance(), both, OLD | NEW, ("z",)),
        "normalize_l1": Exported(
            Function(lambda x: functional.normalize(x, 1.0, -1)), x, OLD | NEW
        ),
        "standardize": Exported(
            Function(lambda x: (x - x.mean(0)) / x.std(0)), {"x": tokens[0]}, OLD | NEW
        ),
        "mean_of_tokens": Exported(
            Function(mean_of_tokens), {"x": tokens, "mask": mask}, OLD | NEW, axes="NT"
        ),
        "transformer": Exported(Classifier(), x, OLD | NEW, ("label", "logits")),
    }


def export(it: Exported, opset: int, exporter: str) -> onnx.ModelProto:
    module, inputs = it.module.eval(), tuple(it.inputs.values())
    axes = dict(enumerate(it.axes))
    names = {"input_names": [*it.inputs], "output_names": [*it.outputs]}
    if exporter == "torchscript":
        buffer = io.BytesIO()
        torch.onnx.export(
            module,
            inputs,
            buffer,
            dynamo=False,
            opset_version=opset,
            dynamic_axes=dict.fromkeys(it.inputs, axes),
            **names,
        )
        return onnx.load_from_string(buffer.getvalue())
    shapes: tuple[Any, ...] = (axes,) * len(inputs)
    if isinstance(module, Function):
        shapes = (shapes,)
    program = torch.onnx.export(
        module,
        inputs,
        dynamo=True,
        opset_version=opset,
        dynamic_shapes=shapes,
        verbose=False,
        **names,
    )
    model = program.model_proto
    # Traces with paths of files.
    graph = model.graph
    for part in (graph, *graph.node, *graph.value_info, *graph.input, *graph.output):
        del part.metadata_props[:]
    for tensor in graph.initializer:
        del tensor.metadata_props[:]
    return model


def make_modules() -> None:
    for name, it in modules().items():
        for opset, exporter in it.exporters.items():
            onnx.save(export(it, opset, exporter), FOLDER / f"{name}_{opset}.onnx")
        store(name, {key: value.numpy() for key, value in it.inputs.items()})
    vectors = np.random.default_rng(0).standard_normal((2, 4, TOKENS, WIDTH))
    x, y = (1e25 * vectors).astype(float32)
    store("cosine_similarity.large", {"x": x, "y": y})
    store("pairwise_distance.large", {"x": x, "y": y})
    store("rms_norm.large", {"x": x})
    # A long text, and a long series: the same numbers again and again, in small files.
    long = np.tile((1 + vectors[0, 0] / 4).astype(float32), (2**16 // TOKENS, 1))
    mask = np.ones((1, len(long)), np.int64)
    store("mean_of_tokens.long", {"x": long[None], "mask": mask})
    store("standardize.long", {"x": long})


def store(name: str, arrays: dict[str, np.ndarray]) -> None:
    np.savez_compressed(FOLDER / f"{name}.npz", allow_pickle=False, **arrays)


def main() -> None:
    warnings.simplefilter("ignore")
    FOLDER.mkdir(exist_ok=True)
    # Threads add in an order that varies, and with it the last bits of a trained model.
    with threadpool_limits(limits=1):
        make_estimators()
        make_modules()


if __name__ == "__main__":
    main()
