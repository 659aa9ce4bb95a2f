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
    for name, (function, how, opsets) in MODULES.items():
        for opset in opsets:
            path = HERE / f"torch_{name}_{opset}.onnx"
            path.write_bytes(export(function, how, opset))
    # Scan, with ReduceSumSquare in its body.
    data = np.arange(12, dtype=np.float32).reshape(6, 2)
    neighbours = KNeighborsRegressor(2).fit(data, data[:, 0])
    for opset in (12, 18):
        proto = to_onnx(neighbours, data[:1], target_opset={"": opset, "ai.onnx.ml": 3})
        onnx.save(proto, HERE / f"skl2onnx_knn_{opset}.onnx")


if __name__ == "__main__":
    main()
