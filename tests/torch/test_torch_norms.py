"""The norm of gradients: exact over all tensors, and the same bits for any partition."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfulp

torch = pytest.importorskip("torch", minversion="2.10")

from halfulp import torch as ht  # noqa: E402

DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def _parts(dtype: Any) -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1000, generator=generator, dtype=torch.float64).to(dtype)
    return [x[:1], x[1:1], x[1:502].reshape(3, -1), x[502:].flip(0), x[0].clone() * 0]


def _norm(parts: list[Any], order: float, dtype: Any) -> Any:
    """As NumPy's face has it, of all in one vector, with one rounding."""
    flat = torch.cat([part.flatten().double() for part in parts]).numpy()
    if dtype is torch.bfloat16:
        import ml_dtypes

        return float(halfulp.vector_norm(flat, ord=order, dtype=ml_dtypes.bfloat16))
    name = str(dtype).removeprefix("torch.")
    return float(halfulp.vector_norm(flat, ord=order, dtype=name))


@pytest.mark.parametrize("order", [1, 2, math.inf])
def test_it_is_the_norm_of_all_in_one_vector_rounded_once(order: float) -> None:
    for dtype in DTYPES:
        parts = _parts(dtype)
        for given in (parts, parts[::-1], (part for part in parts)):
            norm = ht.get_total_norm(given, order)
            assert (norm.dtype, norm.dim()) == (dtype, 0)
            assert norm.item() == _norm(parts, order, dtype)
    mixed = [part for dtype in DTYPES for part in _parts(dtype)]
    assert ht.get_total_norm(mixed, order).item() == _norm(mixed, order, torch.float64)
    narrow = ht.get_total_norm(mixed, order, dtype=torch.float32)
    assert narrow.item() == _norm(mixed, order, torch.float32)
    both = [*_parts(torch.float16), *_parts(torch.bfloat16)]
    assert ht.get_total_norm(both, order).dtype == torch.float32


def test_nothing_overflows_or_vanishes_on_the_way() -> None:
    big = [torch.tensor([3e30]), torch.tensor([4e30])]
    assert ht.get_total_norm(big).item() == np.float32(5e30)
    assert torch.nn.utils.get_total_norm(big).item() == math.inf
    small = [torch.full((), 5e-324, dtype=torch.float64)]
    assert ht.get_total_norm(small).item() == 5e-324
    huge = [torch.tensor([1.7e308, 1.7e308], dtype=torch.float64)]
    assert ht.get_total_norm(huge).item() == math.inf


@pytest.mark.parametrize("order", [1, 2, "inf"])
def test_what_is_not_finite_shows(order: Any) -> None:
    nan, inf = torch.tensor(math.nan), torch.tensor(-math.inf)
    assert math.isnan(ht.get_total_norm([nan, inf, torch.ones(3)], order).item())
    assert ht.get_total_norm([inf, torch.ones(3)], order).item() == math.inf
    for parts in ([], [torch.empty(0)], [torch.zeros(3)]):
        assert ht.get_total_norm(parts, order).item() == 0
    with pytest.raises(RuntimeError, match="is inf, so gradients cannot be clipped"):
        ht.get_total_norm([inf], order, error_if_nonfinite=True)


def _model() -> Any:
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Linear(7, 3))
    model.add_module("unused", torch.nn.Linear(2, 2))
    (model[1](model[0](torch.ones(4, 5))) ** 2).sum().backward()
    return model


def test_clipping_does_what_pytorchs_does_with_the_norm_that_is_right() -> None:
    for limit in (0.25, 1e6):
        ours, theirs = _model(), _model()
        before = ht.total_norm(ours.parameters())
        norm = ht.clip_grad_norm_(ours.parameters(), limit)
        assert norm == before
        torch.nn.utils.clip_grads_with_norm_(theirs.parameters(), limit, norm)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert (one.grad is None) == (other.grad is None)
            assert one.grad is None or torch.equal(one.grad, other.grad)
        assert ht.total_norm(ours.parameters()) <= limit
    assert ht.total_norm(torch.ones(3, requires_grad=True)).item() == 0


def test_clipping_leaves_gradients_that_are_not_finite() -> None:
    p = torch.nn.Parameter(torch.ones(2))
    p.grad = torch.tensor([math.inf, 1.0])
    with pytest.raises(RuntimeError, match="is inf"):
        ht.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    assert p.grad.tolist() == [math.inf, 1.0]


def test_errors_name_what_is_allowed() -> None:
    x = torch.ones(3)
    cases: list[tuple[Any, type[Exception], str]] = [
        (
            lambda: ht.get_total_norm(x, 3),
            ValueError,
            "norm_type is 3; allowed: 2, 1, inf",
        ),
        (lambda: ht.get_total_norm(x, "two"), ValueError, "norm_type is 'two'"),
        (lambda: ht.get_total_norm([x.int()]), TypeError, "int32; allowed: .*bfloat16"),
        (lambda: ht.get_total_norm([[1.0]]), TypeError, "a list; allowed: tensors"),
        (lambda: ht.get_total_norm(x.to_sparse()), ValueError, "to_dense"),
        (lambda: ht.get_total_norm(x, dtype=torch.int32), TypeError, "allowed: float"),
    ]
    for call, kind, message in cases:
        with pytest.raises(halfulp.HalfulpError, match=message) as caught:
            call()
        assert isinstance(caught.value, kind)


def test_every_partition_over_processes_has_the_same_bits(tmp_path: Path) -> None:
    """Of 1 to 4 processes: in slices, by tensors, by FSDP2, replicated on a mesh."""
    script = Path(__file__).with_name("over_ranks.py")
    ranks = 4
    processes = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(ranks), tmp_path / "store"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    found = []
    for process in processes:
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        found.append(json.loads(out.splitlines()[-1]))
    first = found[0]
    right = first["slices"]["1"][:3]
    pytorchs = set()
    for each in found:
        for n, (*norms, theirs) in each["slices"].items():
            assert norms == right, n
            pytorchs.add(theirs)
        for n, norms in each["layers"].items():
            assert norms == right, n
        assert each["replicated"] == right
        for norm, _ in each["shards"].values():
            assert norm == first["shards"]["1"][0]
        assert each["odd"] == [
            f"{np.sqrt(np.float32(2)).item()} torch.float32",
            "inf torch.float32",
            "nan torch.float32",
            f"{math.sqrt(3)} torch.float64",
            "0.0 torch.float32",
            "1.0 torch.float32",
            "inf torch.float32",
            "nan torch.float32",
            "1.0 torch.float64",
            "0.0 torch.float32",
        ]
    # What is shown here matters: by PyTorch's own way the norm depends on the partition.
    assert len(pytorchs) > 1
