"""What PyTorch has to know of the operators beside their kernels.

Shapes and dtypes without data (fake kernels), gradients, and batches of vmap, for the
rows of the table and for variances. May import errors, reductions and torch.library only;
and the package torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from halfulp.errors import ArgumentError, AxesError, UnsupportedTypeError, shown
from halfulp.reductions import (
    NUMPY_REDUCTIONS,
    REDUCTIONS,
    Reduction,
)
from halfulp.torch.library import OPERATORS

__all__ = [
    "ROWS",
    "SPREADS",
    "call",
    "check",
    "dims_of",
    "is_real",
    "level_of_transforms",
]

ROWS = {row.name: row for row in (*REDUCTIONS, *NUMPY_REDUCTIONS)}
SPREADS = ("var", "std")

_FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
_INTEGERS = (torch.int32, torch.int64, torch.uint32, torch.uint64)
_SMALL = (torch.bool, torch.int8, torch.int16, torch.uint8, torch.uint16)

_MOST_DIMENSIONS = 64  # of the core

_Dims = int | Sequence[int] | None


def _names(dtypes: Sequence[Any]) -> str:
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)


def dims_of(dim: _Dims, rank: int) -> list[int]:
    """Return the dimensions that `dim` names, in [0, rank): all where it names none.

    Raises
    ------
    AxesError
        If one is out of range or named twice.
    """
    dims = () if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    most = max(1, rank)  # a scalar may be said to have one
    found = set()
    for each in dims:
        if not -most <= each < most:
            raise AxesError(f"dim {each} is out of range; allowed: [{-most}, {most - 1}]")
        if each % most in found:
            raise AxesError(f"dim {each} is given twice; allowed: each once")
        found.add(each % most)
    return sorted(found) if rank and found else list(range(rank))


def check(
    name: str, input: Any, dim: Any = None, keepdim: Any = False, dtype: Any = None
) -> list[int]:
    """Check the arguments of an operator; return the dimensions to reduce.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        If one is not allowed.
    """
    if not isinstance(input, Tensor):
        raise ArgumentError(f"input is a {type(input).__name__}; allowed: a torch.Tensor")
    if input.dim() > _MOST_DIMENSIONS:
        raise ArgumentError(
            f"input has {input.dim()} dimensions; allowed: up to {_MOST_DIMENSIONS}"
        )
    if input.device.type not in ("cpu", "meta"):
        raise ArgumentError(
            f"input is on device {str(input.device)!r}; allowed: 'cpu': write "
            "input.cpu() and move the result back"
        )
    if input.layout is not torch.strided:
        raise ArgumentError(
            f"input has layout {input.layout}; allowed: strided: write input.to_dense()"
        )
    if input.dtype not in (*_FLOATS, *_INTEGERS, *_SMALL):
        hint = ": write torch.view_as_real(input)" if input.is_complex() else ""
        raise UnsupportedTypeError(
            f"input has dtype {_names([input.dtype])}; allowed: "
            f"{_names((*_FLOATS, *_INTEGERS, *_SMALL))}{hint}"
        )
    try:
        dims = dims_of(dim, input.dim())
    except TypeError:
        raise AxesError(
            f"dim is {shown(dim)}; allowed: an int, a sequence of them, or None"
        ) from None
    if not isinstance(keepdim, bool):
        raise ArgumentError(f"keepdim is {shown(keepdim)}; allowed: True or False")
    row = ROWS.get(name)
    gives_elements = row is not None and row.gives_elements
    if gives_elements and 0 in input.shape and 0 not in _left(input.shape, dims):
        raise ArgumentError(
            f"input has shape {tuple(input.shape)}, and the {name} of no elements is not "
            "defined; allowed: at least one"
        )
    allowed: tuple[Any, ...] = _FLOATS
    if not input.is_floating_point() and name not in SPREADS:
        allowed += _INTEGERS
    if dtype is not None and dtype not in allowed:
        raise UnsupportedTypeError(
            f"dtype is {shown(dtype, str)}; allowed: {_names(allowed)}"
        )
    return dims


def _left(shape: Sequence[Any], dims: Sequence[int]) -> list[Any]:
    """The sizes that are not reduced."""
    return [size for i, size in enumerate(shape) if i not in dims]


def is_real(name: str) -> bool:
    """Whether results are real numbers, also of integers."""
    row = ROWS.get(name)
    return row is None or row.finish != "none" or row.ord is not None


def _result_dtype(name: str, input: Tensor, dtype: Any) -> Any:
    """The dtype of results, as the kernel has it."""
    if dtype is not None:
        return dtype
    row = ROWS.get(name)
    if input.is_floating_point() or (row is not None and row.gives_elements):
        return input.dtype
    if is_real(name):
        raise UnsupportedTypeError("dtype is None; allowed of integers: a float dtype")
    return torch.int64


def _fake(name: str, input: Tensor, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    """A result without data: contiguous, of the shape and dtype of the kernel's."""
    dims = set(check(name, input, dim, dtype=dtype))
    sizes = [
        1 if i in dims else size
        for i, size in enumerate(input.shape)
        if keepdim or i not in dims
    ]
    return input.new_empty(sizes, dtype=_result_dtype(name, input, dtype))


# Each operator as PyTorch's transforms of functions (torch.func) and derivatives in
# forward mode take it, which do not know what is registered for an operator.
_TRANSFORMED: dict[Any, Any] = {}

level_of_transforms = torch._C._functorch.maybe_current_level  # None outside


def call(operator: Any, input: Tensor, *arguments: Any, dtype: Any = None) -> Any:
    """Call an operator, within transforms and outside."""
    if level_of_transforms() is not None or forward_ad._current_level >= 0:
        return _TRANSFORMED[operator].apply(input, dtype, *arguments)
    if dtype is None:
        return operator(input, *arguments)
    return operator(input, *arguments, dtype=dtype)


class _Case:
    """What the gradient of a reduction is made of, in the dtype of the result."""

    def __init__(self, ctx: Any, grad: Tensor) -> None:
        saved = ctx.saved_tensors
        self.dims = ctx.dims
        self.correction = ctx.correction
        self.shape = ctx.shape
        self.terms = math.prod(ctx.shape[i] for i in ctx.dims)
        self._restored = not ctx.keepdim
        self.grad = self.restored(grad)
        if saved:
            self.input = saved[0].to(grad.dtype)
            self.result = self.restored(saved[1])

    def restored(self, tensor: Tensor) -> Tensor:
        """With the reduced dimensions, of length one."""
        if self._restored:
            for i in self.dims:
                tensor = tensor.unsqueeze(i)
        return tensor

    def sum(self, terms: Tensor) -> Tensor:
        return call(OPERATORS.sum.default, terms, self.dims, True) if self.dims else terms


def _of_sum(case: _Case) -> Tensor:
    return case.grad.expand(case.shape)


def _of_mean(case: _Case) -> Tensor:
    return (case.grad / case.terms).expand(case.shape)


def _of_sum_square(case: _Case) -> Tensor:
    return 2 * case.grad * case.input


def _of_magnitudes(case: _Case) -> Tensor:
    return case.grad * case.input.sign()


def _of_norm(case: _Case) -> Tensor:
    # At 0 as PyTorch has it: 0.
    scale = (case.grad / case.result).masked_fill(case.result == 0, 0)
    return scale * case.input


def _of_log_sum(case: _Case) -> Tensor:
    return (case.grad / case.sum(case.input)).expand(case.shape)


def _of_log_sum_exp(case: _Case) -> Tensor:
    return case.grad * (case.input - case.result).exp()


def _of_product(case: _Case) -> Tensor:
    """Of each element the product of the others, which zeros do not hinder."""
    rank = len(case.shape)
    kept = [i for i in range(rank) if i not in case.dims]
    order = [*kept, *case.dims]
    ordered = case.input.double().permute(order)
    flat = ordered.reshape(*ordered.shape[: len(kept)], -1)
    ones = torch.ones_like(flat[..., :1])
    before = torch.cat([ones, flat[..., :-1]], -1).cumprod(-1)
    after = torch.cat([ones, flat.flip(-1)[..., :-1]], -1).cumprod(-1).flip(-1)
    others = (before * after).reshape(ordered.shape)
    back = sorted(range(rank), key=order.__getitem__)
    return case.grad * others.permute(back).to(case.grad.dtype)


def _of_extreme(case: _Case) -> Tensor:
    """Shared out evenly among those that are as great."""
    is_it = (case.input == case.result).to(case.grad.dtype)
    return case.grad * is_it / case.sum(is_it)


def _of_extreme_magnitude(case: _Case) -> Tensor:
    is_it = (case.input.abs() == case.result).to(case.grad.dtype)
    return case.grad * is_it * case.input.sign() / case.sum(is_it)


def _deviations(case: _Case) -> Tensor:
    if not case.dims:
        return case.input - case.input
    return case.input - call(OPERATORS.mean.default, case.input, case.dims, True)


def _of_variance(case: _Case) -> Tensor:
    free = max(0, case.terms - case.correction)
    scale = 2 * case.grad / free if free else case.grad * math.inf
    return scale * _deviations(case)


def _of_deviation(case: _Case) -> Tensor:
    free = max(0, case.terms - case.correction)
    scale = case.grad / (case.result * free if free else 0 * case.result)
    return scale.masked_fill(case.result == 0, 0) * _deviations(case)


def _gradient_of(row: Reduction) -> Callable[[_Case], Tensor]:
    """By what the row says of terms and finish."""
    if row.operation in ("max", "min"):
        return _of_extreme if row.term == "value" else _of_extreme_magnitude
    if row.operation == "product":
        return _of_product
    if row.operation == "exponentials":
        return _of_log_sum_exp
    return {
        ("value", "none"): _of_sum,
        ("value", "mean"): _of_mean,
        ("value", "log"): _of_log_sum,
        ("magnitude", "none"): _of_magnitudes,
        ("square", "none"): _of_sum_square,
        ("square", "root"): _of_norm,
    }[row.term, row.finish]


# Gradients that the elements do not matter to.
_LINEAR = (_of_sum, _of_mean)


def _register(
    name: str, gradient: Callable[[_Case], Tensor], has_correction: bool, has_dtype: bool
) -> None:
    operator = getattr(OPERATORS, name).default
    qualname = f"halfulp::{name}"

    def parted(args: Sequence[Any], dtype: Any = None) -> tuple[Any, ...]:
        input, *rest = args
        defaults: list[Any] = [None, 1, False] if has_correction else [None, False]
        dim, *middle, keepdim = rest + defaults[len(rest) :]
        return input, dim, tuple(middle), keepdim, dtype

    def fake(*args: Any, dtype: Any = None) -> Tensor:
        input, dim, _, keepdim, _ = parted(args)
        return _fake(name, input, dim, keepdim, dtype)

    def keep(ctx: Any, args: Sequence[Any], output: Tensor, forward: bool) -> None:
        input, dim, middle, keepdim, _ = parted(args)
        ctx.shape, ctx.dtype = input.shape, input.dtype
        ctx.dims, ctx.keepdim = dims_of(dim, input.dim()), keepdim
        ctx.correction = middle[0] if middle else 0
        ctx.arguments = len(args)
        ctx.result_shape, ctx.result_dtype = output.shape, output.dtype
        if gradient not in _LINEAR:
            ctx.save_for_backward(input, output)
            if forward:
                ctx.save_for_forward(input, output)

    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        keep(ctx, inputs, output, False)

    def setup_context_with_dtype(
        ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Tensor
    ) -> None:
        keep(ctx, inputs, output, False)

    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        result = gradient(_Case(ctx, grad)).to(ctx.dtype)
        return result, *([None] * (ctx.arguments - 1))

    def batched(in_dims: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments that reduce a batch, which is the first dimension then."""
        input, dim, middle, keepdim, _ = parted(args)
        input = input.movedim(in_dims[0], 0)
        if input.dim() == 1:  # of scalars: none named would be all
            return input.unsqueeze(1), [1], *middle, False
        dims = [1 + i for i in dims_of(dim, input.dim() - 1)]
        return input, dims, *middle, keepdim

    def vmap(info: Any, in_dims: Any, *args: Any, **keywords: Any) -> Any:
        return operator(*batched(in_dims, args), **keywords), 0

    class Transformed(torch.autograd.Function):
        @staticmethod
        def forward(input: Tensor, dtype: Any, *rest: Any) -> Any:
            return operator(input, *rest, **({} if dtype is None else {"dtype": dtype}))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            input, _, *rest = inputs
            keep(ctx, (input, *rest), output, True)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return *backward(ctx, grad), None

        @staticmethod
        def jvp(ctx: Any, tangent: Any, *rest: Any) -> Any:
            # Each result depends on elements of its own: what the gradient takes each
            # of them times is its derivative by them.
            ones = torch.ones((), dtype=tangent.dtype).expand(ctx.result_shape)
            case = _Case(ctx, ones.to(ctx.result_dtype))
            terms = gradient(case) * tangent.to(ctx.result_dtype)
            result = case.sum(terms)
            return result.reshape(ctx.result_shape)

        @staticmethod
        def vmap(info: Any, in_dims: Any, input: Tensor, dtype: Any, *rest: Any) -> Any:
            each, *others = batched(in_dims, (input, *rest))
            return Transformed.apply(each, dtype, *others), 0

    _TRANSFORMED[operator] = Transformed
    torch.library.register_fake(qualname, fake)
    torch.library.register_autograd(
        qualname,
        backward,
        setup_context=setup_context_with_dtype if has_dtype else setup_context,
    )
    torch.library.register_vmap(qualname, vmap)


for _name, _row in ROWS.items():
    _register(_name, _gradient_of(_row), False, not _row.gives_elements)
_register("var", _of_variance, True, True)
_register("std", _of_deviation, True, True)
