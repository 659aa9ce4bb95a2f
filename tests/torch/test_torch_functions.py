"""Reductions of PyTorch's tensors: bits, gradients, transforms, errors."""

from __future__ import annotations

import math
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

import halfulp

torch = pytest.importorskip("torch", minversion="2.10")

from halfulp import torch as ht  # noqa: E402

FLOATS = ("bfloat16", "float16", "float32", "float64")
INTEGERS = ("int32", "int64", "uint32", "uint64")
SMALL = ("bool", "int8", "int16", "uint8", "uint16")

# Each function of PyTorch's face, the same with NumPy's, and PyTorch's own.
FUNCTIONS: dict[str, tuple[Any, Any, Any]] = {
    "sum": (ht.sum, halfulp.sum, torch.sum),
    "mean": (ht.mean, halfulp.mean, torch.mean),
    "prod": (ht.prod, halfulp.prod, None),
    "sum_square": (ht.sum_square, halfulp.sum_square, None),
    "logsumexp": (ht.logsumexp, halfulp.logsumexp, torch.logsumexp),
    "amax": (ht.amax, halfulp.max, torch.amax),
    "amin": (ht.amin, halfulp.min, torch.amin),
    "l1": (
        partial(ht.vector_norm, ord=1),
        partial(halfulp.vector_norm, ord=1),
        partial(torch.linalg.vector_norm, ord=1),
    ),
    "l2": (ht.vector_norm, halfulp.vector_norm, torch.linalg.vector_norm),
    "inf": (
        partial(ht.vector_norm, ord=math.inf),
        partial(halfulp.vector_norm, ord=math.inf),
        partial(torch.linalg.vector_norm, ord=math.inf),
    ),
    "-inf": (
        partial(ht.vector_norm, ord=-math.inf),
        partial(halfulp.vector_norm, ord=-math.inf),
        partial(torch.linalg.vector_norm, ord=-math.inf),
    ),
    "var": (ht.var, partial(halfulp.var, ddof=1), torch.var),
    "std": (ht.std, partial(halfulp.std, ddof=1), torch.std),
}
EVERY = pytest.mark.parametrize("name", FUNCTIONS)


def _tensor(dtype: str, shape: tuple[int, ...] = (4, 3, 5)) -> Any:
    rng = np.random.default_rng(7)
    if dtype in FLOATS:
        return torch.from_numpy(rng.normal(size=shape)).to(getattr(torch, dtype))
    if dtype == "bool":
        return torch.from_numpy(rng.integers(0, 2, shape).astype(bool))
    info = np.iinfo(dtype)
    return torch.from_numpy(rng.integers(info.min, info.max, shape, dtype, endpoint=True))


def _bits(tensor: Any) -> tuple[Any, bytes]:
    flat = tensor.detach().contiguous().reshape(-1)
    return tuple(tensor.shape), flat.view(torch.uint8).numpy().tobytes()


def _same(got: Any, want: Any) -> bool:
    """Whether a tensor has the bits of NumPy's face, which keeps kinds of arrays."""
    want = np.asarray(want)
    shape, data = _bits(got)
    return bool(shape == want.shape and data == want.tobytes())


def _numpy(tensor: Any) -> Any:
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


@EVERY
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_have_the_bits_of_numpys_face(name: str, dtype: str) -> None:
    ours, theirs, _ = FUNCTIONS[name]
    x = _tensor(dtype)
    for dim in (None, 0, 1, -1, (0, 2), (1,)):
        for keep in (False, True):
            got = ours(x, dim=dim, keepdim=keep)
            assert got.dtype == x.dtype
            assert got.is_contiguous()
            assert _same(got, theirs(_numpy(x), axis=dim, keepdims=keep))


@EVERY
@pytest.mark.parametrize("dtype", [*INTEGERS, *SMALL])
def test_integers_are_exact_in_the_dtypes_that_pytorch_gives(
    name: str, dtype: str
) -> None:
    ours, theirs, _ = FUNCTIONS[name]
    x = _tensor(dtype)
    got = ours(x, dim=1)
    if name in ("amax", "amin"):
        assert got.dtype == x.dtype
        assert _same(got, theirs(x.numpy(), axis=1))
    elif name in ("sum", "prod", "sum_square"):
        assert got.dtype == torch.int64
        assert _same(got, theirs(x.numpy(), axis=1, dtype=np.int64))
    else:
        assert got.dtype == torch.float32
        assert _same(got, theirs(x.numpy(), axis=1, dtype=np.float32))


@EVERY
def test_layouts_are_read_in_place(name: str) -> None:
    ours, theirs, _ = FUNCTIONS[name]
    base = _tensor("float32", (6, 8, 10))
    views = [
        base.permute(2, 0, 1),
        base[::2, 1::3, 2:9:2],
        base[0, 0, 3],  # a scalar inside
        base[:, :0],
        base[:1].expand(5, 8, 10),
        base.to(memory_format=torch.contiguous_format)[None].transpose(1, 3),
    ]
    for view in views:
        if view.numel() == 0 and name in ("amax", "amin"):
            continue
        assert _same(ours(view), theirs(view.numpy()))
    cow = torch._lazy_clone(base)
    assert _same(ours(cow), theirs(base.numpy()))
    assert torch._C._is_cow_tensor(cow)
    negated = torch.view_as_complex(_tensor("float32", (4, 2))).conj().imag
    assert negated.is_neg()
    assert _same(ours(negated), theirs(negated.resolve_neg().numpy()))


def test_dtype_is_rounded_to_once() -> None:
    half = torch.tensor([60000, 60000, 1], dtype=torch.float16)
    assert ht.sum(half, dtype=torch.float32).item() == 120001
    double = torch.tensor([1 + 2**-24, 2**-60], dtype=torch.float64)
    assert ht.sum(double, dtype=torch.float32).item() == 1 + 2**-23
    assert torch.sum(double, dtype=torch.float32).item() == 1
    big = torch.tensor([2**24 + 1, 2**60], dtype=torch.int64)
    assert ht.sum(big, dtype=torch.float64).item() == float(2**60 + 2**24 + 1)
    assert ht.mean(big, dtype=torch.float64).item() == (2**60 + 2**24 + 1) / 2


def test_no_dimensions_mean_all_as_in_pytorch() -> None:
    x = _tensor("float32")
    assert torch.equal(ht.sum(x, ()), ht.sum(x))
    scalar = torch.tensor(3.0)
    for dim in (None, 0, -1, ()):
        assert ht.sum(scalar, dim).item() == torch.sum(scalar, dim).item() == 3


@EVERY
@pytest.mark.parametrize("dim", [None, 1, (0, -1)])
def test_derivatives_are_those_of_finite_differences(name: str, dim: Any) -> None:
    ours, _, theirs = FUNCTIONS[name]
    x = _tensor("float64", (3, 2, 2)).requires_grad_()
    for keep in (False, True):
        f = partial(ours, dim=dim, keepdim=keep)
        assert torch.autograd.gradcheck(f, x)
        assert torch.autograd.gradgradcheck(f, x)
    if theirs is not None:
        dims = (0, 1, 2) if dim is None and name == "logsumexp" else dim
        (got,) = torch.autograd.grad(ours(x, dim=dim).sum(), x)
        (want,) = torch.autograd.grad(theirs(x, dim=dims).sum(), x)
        torch.testing.assert_close(got, want)


def test_derivatives_at_corners_are_pytorchs() -> None:
    zeros = torch.zeros(3, requires_grad=True)
    for ours, theirs in [
        (ht.vector_norm, torch.linalg.vector_norm),
        (partial(ht.vector_norm, ord=1), partial(torch.linalg.vector_norm, ord=1)),
        (ht.amax, torch.amax),
        (ht.std, torch.std),
        (ht.prod, torch.prod),
    ]:
        (got,) = torch.autograd.grad(ours(zeros), zeros)
        (want,) = torch.autograd.grad(theirs(zeros), zeros)
        assert torch.equal(got, want), theirs
    for values in ([0.0, 3, 5], [0.0, 0, 5]):
        x = torch.tensor(values, requires_grad=True)
        (got,) = torch.autograd.grad(ht.prod(x), x)
        (want,) = torch.autograd.grad(torch.prod(x), x)
        assert torch.equal(got, want)


def test_gradients_have_the_dtype_of_the_input() -> None:
    for dtype in FLOATS:
        x = _tensor(dtype).requires_grad_()
        ht.vector_norm(x, dtype=torch.float64).backward()
        assert x.grad.dtype == x.dtype
    whole = torch.arange(3)
    assert not ht.sum(whole).requires_grad


@EVERY
def test_vmap_reduces_each_as_alone(name: str) -> None:
    ours, _, _ = FUNCTIONS[name]
    x = _tensor("float32", (4, 3, 5))
    for in_dim in (0, 2, -2):
        for dim in (None, 0, -1):
            for keep in (False, True):
                f = partial(ours, dim=dim, keepdim=keep)
                got = torch.vmap(f, in_dims=in_dim)(x)
                want = torch.stack([f(each) for each in x.unbind(in_dim)])
                assert _bits(got) == _bits(want)
    if name not in ("var", "std"):
        scalars = torch.vmap(partial(ours, keepdim=True))(x[0, 0])
        assert _bits(scalars) == _bits(torch.stack([ours(each) for each in x[0, 0]]))
    # A gradient for each, and a batch within a gradient.
    each = torch.vmap(torch.func.grad(ours))(x.flatten(1).double())
    both = torch.func.grad(lambda y: torch.vmap(ours)(y).sum())(x.flatten(1).double())
    torch.testing.assert_close(each, both)


@EVERY
def test_compilers_see_one_operator(name: str) -> None:
    ours, _, _ = FUNCTIONS[name]
    x = _tensor("float32")

    def f(y: Any) -> Any:
        return ours(y * 2, dim=1) + 1

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    assert _bits(compiled(x)) == _bits(f(x))
    leaf = x.clone().requires_grad_()
    compiled(leaf).sum().backward()
    (want,) = torch.autograd.grad(f(y := x.clone().requires_grad_()).sum(), y)
    assert torch.equal(leaf.grad, want)
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@EVERY
def test_derivatives_in_forward_mode_are_those_of_backward_mode(name: str) -> None:
    ours, _, _ = FUNCTIONS[name]
    x, v = _tensor("float64", (3, 4)), _tensor("float64", (4, 3)).T
    f = partial(ours, dim=1)
    _, got = torch.func.jvp(f, (x,), (v,))
    torch.testing.assert_close(got, torch.func.jacrev(f)(x).mul(v).sum((1, 2)))
    with torch.autograd.forward_ad.dual_level():
        dual = f(torch.autograd.forward_ad.make_dual(x, v))
        tangent = torch.autograd.forward_ad.unpack_dual(dual).tangent
    torch.testing.assert_close(tangent, got)
    hessian = torch.func.hessian(lambda y: ours(y))(x[0])
    torch.testing.assert_close(hessian, torch.func.jacrev(torch.func.jacrev(ours))(x[0]))


def test_the_greatest_of_nothing_is_an_error_but_not_where_nothing_is_asked() -> None:
    assert ht.amax(torch.ones(0, 3), 1).shape == (0,)
    assert ht.amin(torch.ones(0, 0), 1).shape == (0,)
    with torch.inference_mode(), pytest.raises(ValueError, match="no elements"):
        torch.ops.halfulp.max(torch.ones(0))


def test_compilers_take_means_of_integers() -> None:
    x = torch.arange(6).reshape(2, 3)
    for f in (lambda y: ht.mean(y, 1), lambda y: ht.std(y, 1), ht.vector_norm):
        compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
        assert _bits(compiled(x)) == _bits(f(x))
        torch._dynamo.reset()
    program = torch.export.export(_Means(), (x,))
    assert _bits(program.module()(x)) == _bits(ht.mean(x, 1))


class _Means(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return ht.mean(x, 1)


def test_compilers_take_sizes_that_are_not_known() -> None:
    compiled = torch.compile(
        lambda x: ht.mean(x, -1), fullgraph=True, backend="aot_eager", dynamic=True
    )
    for n in (3, 7):
        x = torch.arange(2.0 * n).reshape(2, n)
        assert torch.equal(compiled(x), ht.mean(x, -1))
    torch._dynamo.reset()


@pytest.mark.parametrize("name", [*ht.operators.ROWS, *ht.operators.SPREADS])
def test_opcheck_finds_nothing(name: str) -> None:
    operator = getattr(torch.ops.halfulp, name).default
    x = _tensor("float32").abs()
    for args in [
        (x,),
        (x.clone().requires_grad_(), [0, 2]),
        (x.transpose(0, 2), [1]),
        (x.to(torch.bfloat16),),
    ]:
        torch.library.opcheck(operator, args)


def test_meta_tensors_give_shapes_and_dtypes() -> None:
    for name, (ours, _, _) in FUNCTIONS.items():
        for dtype in (torch.float16, torch.int32):
            meta = torch.empty(4, 3, 5, dtype=dtype, device="meta")
            got = ours(meta, dim=(0, 2), keepdim=True)
            want = ours(torch.ones(4, 3, 5, dtype=dtype), dim=(0, 2), keepdim=True)
            assert got.device.type == "meta", name
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            assert got.stride() == want.stride()


def test_threads_are_pytorchs_and_bits_do_not_depend_on_them() -> None:
    x = torch.randn(3_000_000, generator=torch.Generator().manual_seed(1))
    before = torch.get_num_threads()
    try:
        results = set()
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.add(ht.sum(x).item())
    finally:
        torch.set_num_threads(before)
    assert results == {halfulp.sum(x.numpy()).item()}


def test_deterministic_algorithms_are_these() -> None:
    x = _tensor("float32").requires_grad_()
    torch.use_deterministic_algorithms(True)
    try:
        for ours, _, _ in FUNCTIONS.values():
            ours(x, dim=0).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)


def test_errors_name_what_is_allowed_and_the_way_out() -> None:
    x = torch.ones(2, 3)
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: ht.sum([1.0]), halfulp.ArgumentError, "a list; allowed: a torch.Tensor"),
        (lambda: ht.sum(x.to_sparse()), halfulp.ArgumentError, "input.to_dense()"),
        (lambda: ht.sum(x, 2), halfulp.AxesError, r"dim 2 .* \[-2, 1\]"),
        (lambda: ht.var(x, (0, -2)), halfulp.AxesError, "dim -2 is given twice"),
        (lambda: ht.sum(x, "a"), halfulp.AxesError, "dim is 'a'; allowed: an int"),
        (lambda: ht.sum(x * 1j), halfulp.UnsupportedTypeError, "view_as_real"),
        (
            lambda: ht.mean(x, dtype=torch.int32),
            halfulp.UnsupportedTypeError,
            "dtype is torch.int32; allowed: bfloat16, float16, float32, float64$",
        ),
        (lambda: ht.sum(x.int(), dtype=torch.int8), TypeError, "int8; .*int32"),
        (lambda: ht.vector_norm(x, 3), halfulp.ArgumentError, "ord is 3; allowed: 1"),
        (lambda: ht.var(x, correction=0.5), halfulp.ArgumentError, "correction is 0.5"),
        (lambda: ht.std(x, correction=2**60), halfulp.ArgumentError, "correction is 1"),
        (lambda: ht.sum(x, 0, "a"), halfulp.ArgumentError, "keepdim is 'a'; allowed"),
        (lambda: ht.amax(x[:0], 0), halfulp.ArgumentError, "max of no elements"),
        (lambda: ht.sum(torch.ones([1] * 65)), halfulp.ArgumentError, "65 dimensions"),
    ]
    for call, kind, message in cases:
        with pytest.raises(kind, match=message.replace("()", r"\(\)")) as caught:
            call()
        assert "\n" not in str(caught.value)
    fake = torch._subclasses.FakeTensorMode()
    with fake:
        elsewhere = torch.empty(3, device="cuda")
        with pytest.raises(halfulp.ArgumentError, match=r"'cuda:0'.*input\.cpu\(\)"):
            ht.sum(elsewhere)


def test_the_kernels_themselves_check_what_they_get() -> None:
    operators = torch.ops.halfulp
    x = torch.ones(2, 3)
    for call in [
        lambda: operators.sum(x, [5]),
        lambda: operators.sum(x, [0, 0]),
        lambda: operators.sum(x, dtype=torch.complex64),
        lambda: operators.sum(x, dtype=torch.int64),
        lambda: operators.sum(x.int(), dtype=torch.int8),
        lambda: operators.mean(x.int()),
        lambda: operators.var(x.int(), dtype=torch.int64),
        lambda: operators.add_squares(x, [x]),
        lambda: operators.add_squares(torch.zeros(3, dtype=torch.int64), [x]),
        lambda: operators.add_squares(torch.zeros(10, dtype=torch.int64), [x, x.int()]),
    ]:
        with torch.inference_mode(), pytest.raises((ValueError, IndexError)):
            call()


def test_import_halfulp_does_not_import_torch() -> None:
    code = "import sys, halfulp; assert 'torch' not in sys.modules; halfulp.torch.sum"
    subprocess.run([sys.executable, "-c", code], check=True)
