"""Within `halfulp.torch.exact()` PyTorch's own reductions are these."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.10")

from halfulp import torch as ht  # noqa: E402


def _x(dtype: Any = torch.float32) -> Any:
    """Of sums that PyTorch's own get wrong, by cancellation."""
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(6, 999, generator=generator, dtype=torch.float64)
    x[:, ::3] = -x[:, 1::3] * (1 + 2.0**-20)
    return (x * 2.0**12).to(dtype)


CALLS: dict[str, tuple[Any, Any]] = {
    "torch.sum": (lambda x: torch.sum(x), ht.sum),
    "sum": (lambda x: x.sum(1, keepdim=True), lambda x: ht.sum(x, 1, True)),
    "sum of dtype": (
        lambda x: x.sum((0, 1), dtype=torch.float64),
        lambda x: ht.sum(x, dtype=torch.float64),
    ),
    "mean": (lambda x: x.mean(), ht.mean),
    "mean of axis": (lambda x: torch.mean(x, dim=0), lambda x: ht.mean(x, 0)),
    "var": (lambda x: x.var(1), lambda x: ht.var(x, 1)),
    "var without bias": (
        lambda x: torch.var(x, 1, unbiased=False),
        lambda x: ht.var(x, 1, correction=0),
    ),
    "std": (lambda x: x.std(), ht.std),
    "std_mean": (
        lambda x: torch.stack(torch.std_mean(x, 1)),
        lambda x: torch.stack([ht.std(x, 1), ht.mean(x, 1)]),
    ),
    "logsumexp": (lambda x: (x / 4096).logsumexp(1), lambda x: ht.logsumexp(x / 4096, 1)),
    "prod": (lambda x: (x / 4096).prod(1), lambda x: ht.prod(x / 4096, 1)),
    "norm": (lambda x: torch.norm(x), ht.vector_norm),
    "norm as a method": (lambda x: x.norm(1, 0), lambda x: ht.vector_norm(x, 1, 0)),
    "linalg.norm": (
        lambda x: torch.linalg.norm(x[0], math.inf),
        lambda x: ht.vector_norm(x[0], math.inf),
    ),
    "vector_norm": (
        lambda x: torch.linalg.vector_norm(x, dim=1),
        lambda x: ht.vector_norm(x, dim=1),
    ),
    "out": (
        lambda x: torch.sum(x, 1, out=torch.empty(0, dtype=x.dtype)),
        lambda x: ht.sum(x, 1),
    ),
    "parameters": (lambda x: torch.nn.Parameter(x).sum(1), lambda x: ht.sum(x, 1)),
    "total norm": (
        lambda x: torch.nn.utils.get_total_norm([x]),
        lambda x: ht.vector_norm(ht.vector_norm(x)[None]),
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_pytorchs_reductions_are_correctly_rounded_within(name: str, dtype: Any) -> None:
    theirs, ours = CALLS[name]
    x = _x(dtype)
    want = ours(x)
    with ht.exact():
        got = theirs(x)
    assert got.dtype == want.dtype
    assert torch.equal(got, want)
    assert torch.equal(theirs(x), theirs(x.clone()))  # as before, outside


def test_without_it_the_sums_of_this_test_are_wrong() -> None:
    x = _x()
    assert not torch.equal(x.sum(1), ht.sum(x, 1))


def test_derivatives_are_pytorchs_with_reductions_that_are_exact() -> None:
    bias = torch.zeros(999, requires_grad=True)
    x = _x()[:, None, :].expand(6, 40, 999).contiguous()
    with ht.exact():
        ((bias + x) * x).sum().backward()
    assert torch.equal(bias.grad, ht.sum(x, (0, 1)))


def test_all_else_is_as_without() -> None:
    x = _x()
    calls = [
        lambda: x.int().sum(1),
        lambda: torch.linalg.vector_norm(x, 3),
        lambda: torch.var(x, 0, correction=0.5),
        lambda: (x * 1j).sum(),
        lambda: x.to_sparse().sum(),
        lambda: torch.empty(3, device="meta").sum().shape,
        lambda: torch.nn.functional.softmax(x, 1),
        lambda: x.amax(1),
        lambda: x @ x.T,
    ]
    for call in calls:
        want = call()
        with ht.exact():
            got = call()
        assert got == want if isinstance(want, tuple) else torch.equal(got, want)
    with ht.exact(), pytest.raises(RuntimeError, match="dtype"):
        x.int().mean()
