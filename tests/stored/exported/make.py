"""Makes the models beside this file, with torch 2.13, onnxscript 0.7 and skl2onnx 1.20.

Run it in a scratch environment with these packages: ``python make.py``. The tests need
the models only.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
from skl2onnx import to_onnx
from sklearn.neighbors import KNeighborsRegressor

HERE = Path(__file__).parent

X = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
WIDTH = X.shape[-1]


class LayerNorm(torch.nn.Module):
    """Layer norm in its parts, as many models write it: two means, at any opset."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.linspace(0.5, 1.5, WIDTH))
        self.bias = torch.nn.Parameter(torch.linspace(-1, 1, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.pow(2).mean(-1, keepdim=True)
        return self.scale * (centred / torch.sqrt(variance + 1e-5)) + self.bias


class RMSNorm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.linspace(0.5, 1.5, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Linear(torch.nn.Module):
    """A linear layer that adds its bias last, as ONNX Runtime looks for it."""

    def __init__(self, inputs: int = WIDTH, outputs: int = WIDTH) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(inputs, outputs))
        self.bias = torch.nn.Parameter(torch.randn(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


def split(x: torch.Tensor) -> torch.Tensor:
    """Part the features of each token among two heads."""
    return x.reshape(x.shape[0], x.shape[1], 2, WIDTH // 2).transpose(1, 2)


class Transformer(torch.nn.Module):
    """A layer of a transformer, summed over the tokens and made unit vectors."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.heads = torch.nn.ModuleList(Linear() for _ in range(4))
        norms = [LayerNorm(), LayerNorm(), LayerNorm(), RMSNorm()]
        self.norms = torch.nn.ModuleList(norms)
        self.up = Linear(WIDTH, 2 * WIDTH)
        self.down = Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norms[0](x)
        q, k, v = (split(head(x)) for head in self.heads[:3])
        unseen = (1 - mask.unsqueeze(1).unsqueeze(2).float()) * -10000
        weights = torch.softmax(q @ k.transpose(-1, -2) / (WIDTH / 2) ** 0.5 + unseen, -1)
        mixed = (weights @ v).transpose(1, 2)
        mixed = mixed.reshape(mixed.shape[0], mixed.shape[1], WIDTH)
        x = self.norms[1](self.heads[3](mixed) + x)
        x = self.norms[2](self.down(torch.nn.functional.gelu(self.up(x))) + x)
        pooled = self.norms[3](x).sum(1)
        return pooled / torch.linalg.vector_norm(pooled, dim=-1, keepdim=True)


def export_transformer(opset: int) -> bytes:
    buffer = io.BytesIO()
    torch.onnx.export(
        Transformer(),
        (X, torch.ones(X.shape[:2], dtype=torch.int64)),
        buffer,
        dynamo=False,
        opset_version=opset,
        input_names=["x", "mask"],
        # Of several batches and lengths at opset 12, where attention fuses.
        dynamic_axes={"x": [0, 1], "mask": [0, 1]} if opset == 12 else None,
    )
    return buffer.getvalue()


# By name: what is exported, by which exporter of torch, and at which opsets.
MODULES: dict[str, tuple[Callable[[torch.Tensor], object], str, list[int]]] = {
    "pow": (lambda x: (x**2).sum(1), "torchscript", [9, 11, 13, 17, 18]),
    "square": (lambda x: torch.square(x).sum((0, 2), True), "torchscript", [11, 13]),
    "mul": (lambda x: (x * x).sum(), "torchscript", [13, 18]),
    "cdist": (lambda x: torch.cdist(x, x), "torchscript", [17]),
    "shared": (lambda x: (x.square().sum(1), x.square()), "dynamo", [18]),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=-1), "dynamo", [18]),
    "dynamo_square": (lambda x: torch.square(x).sum(-1), "dynamo", [18]),
    "dynamo_mul": (lambda x: (x * x).sum((0, 2), True), "dynamo", [18]),
}


def cross_entropy(x: torch.Tensor) -> torch.Tensor:
    """The cross entropy of logits, with the class 0 for each: a shifted log-sum-exp."""
    most = x.amax(-1, keepdim=True)
    return (x - most).exp().sum(-1).log() + most.squeeze(-1) - x[..., 0]


def attention(x: torch.Tensor) -> torch.Tensor:
    """Attention whose weights are exponentials of logits less their log-sum-exp."""
    logits = x @ x.transpose(-1, -2)
    most = logits.amax(-1, keepdim=True)
    total = (logits - most).exp().sum(-1, keepdim=True).log() + most
    return (logits - total).exp() @ x


def partition(x: torch.Tensor) -> torch.Tensor:
    """The logarithm of a sum of exponentials, without any shift."""
    return x.exp().sum((1, 2)).log()


# The same of those that take logarithms; exp, log and their sums are no bits of theirs.
LOGITS: dict[str, tuple[Callable[[torch.Tensor], object], str, list[int]]] = {
    "cross_entropy": (cross_entropy, "torchscript", [11, 13, 17]),
    "attention": (attention, "torchscript", [13]),
    "partition": (partition, "torchscript", [11]),
    "logsumexp": (lambda x: x.logsumexp(1), "torchscript", [13]),
    "dynamo_cross_entropy": (cross_entropy, "dynamo", [18]),
    "dynamo_attention": (attention, "dynamo", [18]),
    "dynamo_partition": (partition, "dynamo", [18]),
    "dynamo_logsumexp": (lambda x: x.logsumexp(1), "dynamo", [18]),
}


class Module(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(x)


def export(function: Callable[[torch.Tensor], object], how: str, opset: int) -> bytes:
    module = Module(function)
    if how == "dynamo":
        program = torch.onnx.export(module, (X,), dynamo=True, opset_version=opset)
        proto = program.model_proto
        # Traces with paths of files.
        for node in proto.graph.node:
            del node.metadata_props[:]
        return proto.SerializeToString()
    buffer = io.BytesIO()
    torch.onnx.export(module, (X,), buffer, dynamo=False, opset_version=opset)
    return buffer.getvalue()


def main() -> None:
    warnings.simplefilter("ignore")
    for kind, exported in (("torch", MODULES), ("logits", LOGITS)):
        for name, (function, how, opsets) in exported.items():
            for opset in opsets:
                path = HERE / f"{kind}_{name}_{opset}.onnx"
                path.write_bytes(export(function, how, opset))
    for opset in (12, 13, 18):
        path = HERE / f"transformer_{opset}.onnx"
        path.write_bytes(export_transformer(opset))
    # Scan, with ReduceSumSquare in its body.
    data = np.arange(12, dtype=np.float32).reshape(6, 2)
    neighbours = KNeighborsRegressor(2).fit(data, data[:, 0])
    for opset in (12, 18):
        proto = to_onnx(neighbours, data[:1], target_opset={"": opset, "ai.onnx.ml": 3})
        onnx.save(proto, HERE / f"skl2onnx_knn_{opset}.onnx")


if __name__ == "__main__":
    main()
