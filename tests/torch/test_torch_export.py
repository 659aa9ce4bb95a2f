"""From PyTorch to ONNX Runtime: ONNX's own nodes, and the same bits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfulp

torch = pytest.importorskip("torch", minversion="2.10")
pytest.importorskip("onnxscript")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from halfulp import torch as ht  # noqa: E402

# PyTorch's exporter and what it uses warn of themselves.
pytestmark = pytest.mark.filterwarnings("ignore")


class Model(torch.nn.Module):
    """A few layers whose numbers cancel, and then reductions of each kind."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.scale = torch.nn.Parameter(torch.randn(50))

    def forward(self, x: Any) -> Any:
        y = x * self.scale
        return {
            "sum": ht.sum(y, -1),
            "all": ht.sum(y),
            "wide": ht.sum(y, 1, dtype=torch.float64),
            "mean": ht.mean(y, (0, 2), True),
            "square": ht.sum_square(y, 0),
            "l1": ht.vector_norm(y, 1, dim=-1),
            "l2": ht.vector_norm(y, dim=(1, 2)),
            "count": ht.sum((y > 0).to(torch.int32), 1),
            "logsumexp": ht.logsumexp(y, 1),
            "prod": ht.prod(y[..., :9], -1),
            "largest": ht.vector_norm(y, math.inf, dim=1),
            "amax": ht.amax(y, 1),
            "amin": ht.amin(y, -1, True),
            "var": ht.var(y, 1),
            "std": ht.std(y, correction=0),
        }


def _x(n: int) -> Any:
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(n, 3, 50, generator=generator) * 1e4
    return torch.cat([x, -x * (1 + 2.0**-18), torch.full((n, 1, 50), 1e-3)], 1)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "model.onnx"
    program = torch.onnx.export(
        Model().eval(),
        (_x(4),),
        dynamo=True,
        verbose=False,
        custom_translation_table=ht.onnx_translation_table(),
        dynamic_shapes={"x": {0: torch.export.Dim("n", min=2)}},
    )
    program.save(path)
    return path


def test_reductions_become_onnxs_own_nodes(exported: Path) -> None:
    model = onnx.load(exported)
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} == {""}
    kinds = {node.op_type for node in model.graph.node}
    assert kinds >= {
        "ReduceSum",
        "ReduceMean",
        "ReduceSumSquare",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSumExp",
        "ReduceProd",
        "ReduceMax",
        "ReduceMin",
    }


@pytest.mark.parametrize("n", [4, 7])
def test_onnx_runtime_gives_the_bits_of_pytorch(exported: Path, n: int) -> None:
    options = onnxruntime.SessionOptions()
    halfulp.onnxruntime.register(options, halfulp.onnxruntime.OPERATORS)
    session = onnxruntime.InferenceSession(
        str(exported), options, providers=["CPUExecutionProvider"]
    )
    x = _x(n)
    want = Model()(x)
    got = dict(zip(want, session.run(None, {"x": x.numpy()}), strict=True))
    plain = onnxruntime.InferenceSession(
        str(exported), providers=["CPUExecutionProvider"]
    ).run(None, {"x": x.numpy()})
    # Those of operators that the library does not have are ONNX Runtime's own.
    own = {
        "logsumexp": "ReduceLogSumExp",
        "prod": "ReduceProd",
        "largest": "ReduceMax",
        "amax": "ReduceMax",
        "amin": "ReduceMin",
    }
    for name, value in want.items():
        theirs = got[name]
        assert theirs.dtype == value.detach().numpy().dtype, name
        if name in ("var", "std"):  # no node of ONNX: several, in float64
            np.testing.assert_allclose(theirs, value.detach().numpy(), rtol=1e-6)
        elif own.get(name, "ReduceSum") in halfulp.onnxruntime.OPERATORS:
            assert theirs.tobytes() == value.detach().numpy().tobytes(), name
        else:
            np.testing.assert_allclose(theirs, value.detach().numpy(), rtol=1e-5)
    # It matters here: without the library the sums are others.
    assert not np.array_equal(plain[0], got["sum"])


class Types(torch.nn.Module):
    """Dtypes that nodes of ONNX do not take or give as they are."""

    def forward(self, x: Any, whole: Any, small: Any) -> Any:
        half = x.to(torch.float16)
        return {
            "half": ht.sum(half, 1),
            "wider": ht.mean(half, 1, dtype=torch.float32),
            "narrower": ht.sum(x, 1, dtype=torch.float16),
            "int32 as int64": ht.sum(whole, 0),
            "modulo 2^32": ht.sum_square(whole, 0, dtype=torch.int32),
            "mean of integers": ht.mean(whole, 1),
            "norm of integers": ht.vector_norm(whole, 1, dtype=torch.float64),
            "uint8": ht.sum(small, 1),
            "bool": ht.sum(x > 0),
            "greatest of bool": ht.amax(x > 0, 1),
            "none named": ht.sum(x, ()),
            "scalar": ht.sum(x[0, 0], 0),
        }


def test_types_are_those_of_pytorch_and_so_are_the_bits(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 40, generator=generator)
    whole = torch.randint(
        -(2**31), 2**31 - 1, (3, 40), generator=generator, dtype=torch.int32
    )
    small = torch.randint(0, 255, (3, 40), generator=generator, dtype=torch.uint8)
    path = tmp_path / "types.onnx"
    table = ht.onnx_translation_table()
    torch.onnx.export(
        Types().eval(),
        (x, whole, small),
        dynamo=True,
        verbose=False,
        custom_translation_table=table,
    ).save(path)
    options = onnxruntime.SessionOptions()
    halfulp.onnxruntime.register(options, halfulp.onnxruntime.OPERATORS)
    session = onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )
    feeds = {"x": x.numpy(), "whole": whole.numpy(), "small": small.numpy()}
    want = Types()(x, whole, small)
    for (name, value), got in zip(want.items(), session.run(None, feeds), strict=True):
        assert got.dtype == value.numpy().dtype, name
        assert got.tobytes() == value.numpy().tobytes(), name
