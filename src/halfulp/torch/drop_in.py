"""Code that calls PyTorch's own reductions, computed by these instead.

May import torch.library only; and the package torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from halfulp.torch.library import OPERATORS

__all__ = ["exact"]

_FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
_PLAIN = (Tensor, torch.nn.Parameter)

_sum = OPERATORS.sum.default
_mean = OPERATORS.mean.default
_prod = OPERATORS.prod.default
_logsumexp = OPERATORS.log_sum_exp.default
_var = OPERATORS.var.default
_std = OPERATORS.std.default
_NORMS = {
    1: OPERATORS.l1.default,
    2: OPERATORS.l2.default,
    math.inf: OPERATORS.largest.default,
    -math.inf: OPERATORS.smallest.default,
}

# Each of PyTorch's operators, as it calls them below gradients, with what it is here: of
# the same arguments, or None where they ask for what is not here.


def _reduces(operator: Any) -> Callable[..., Any]:
    def reduce(
        x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Any:
        return operator(x, dim, keepdim, dtype=dtype)

    return reduce


def _norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    operator = _NORMS.get(2 if ord is None else ord)
    return None if operator is None else operator(x, dim, keepdim, dtype=dtype)


def _whole(correction: Any) -> int | None:
    """What is taken off the number of terms, if it is an integer."""
    number = 1 if correction is None else correction
    return int(number) if number == int(number) else None


def _spread(operator: Any, with_mean: bool) -> Callable[..., Any]:
    def reduce(
        x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
    ) -> Any:
        number = _whole(correction)
        if number is None:
            return None
        result = operator(x, dim, number, keepdim)
        return (result, _mean(x, dim, keepdim)) if with_mean else result

    return reduce


def _norms(tensors: Any, ord: Any = 2, dtype: Any = None) -> Any:
    if not all(map(_is_ours, tensors)) or ord not in _NORMS:
        return None
    return [_norm(tensor, ord, dtype=dtype) for tensor in tensors]


_aten = torch.ops.aten
_TAKEN: dict[Any, Callable[..., Any]] = {
    _aten.sum.default: _reduces(_sum),
    _aten.sum.dim_IntList: _reduces(_sum),
    _aten.mean.default: _reduces(_mean),
    _aten.mean.dim: _reduces(_mean),
    _aten.logsumexp.default: _reduces(_logsumexp),
    _aten.prod.default: _reduces(_prod),
    _aten.prod.dim_int: _reduces(_prod),
    _aten.var.correction: _spread(_var, False),
    _aten.std.correction: _spread(_std, False),
    _aten.var_mean.correction: _spread(_var, True),
    _aten.std_mean.correction: _spread(_std, True),
    _aten.linalg_vector_norm.default: _norm,
    _aten.norm.Scalar: _norm,
    _aten.norm.ScalarOpt_dim: _norm,
    _aten.norm.ScalarOpt_dtype: _norm,
    _aten.norm.ScalarOpt_dim_dtype: _norm,
    _aten._foreach_norm.Scalar: _norms,
}
# The same with `out`, of which there is one name for each.
_WITH_OUT = {
    _aten.sum.IntList_out: _aten.sum.dim_IntList,
    _aten.mean.out: _aten.mean.dim,
    _aten.logsumexp.out: _aten.logsumexp.default,
    _aten.prod.int_out: _aten.prod.dim_int,
    _aten.var.correction_out: _aten.var.correction,
    _aten.std.correction_out: _aten.std.correction,
    _aten.linalg_vector_norm.out: _aten.linalg_vector_norm.default,
    _aten.norm.out: _aten.norm.ScalarOpt_dim,
    _aten.norm.dtype_out: _aten.norm.ScalarOpt_dim_dtype,
}


def _is_ours(x: Any) -> bool:
    """Whether the kernels take a tensor; others stay PyTorch's."""
    return (
        type(x) in _PLAIN
        and x.device.type == "cpu"
        and x.layout is torch.strided
        and x.dtype in _FLOATS
    )


class _Exact(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        taken = _TAKEN.get(_WITH_OUT.get(func, func))
        if taken is not None and self._may(args, kwargs):
            out = kwargs.get("out")
            given = {name: value for name, value in kwargs.items() if name != "out"}
            result = taken(*args, **given)
            if result is not None:
                return result if out is None else _put(result, out)
        return func(*args, **kwargs)

    @staticmethod
    def _may(args: Any, kwargs: Any) -> bool:
        dtypes = (None, *_FLOATS)
        dtype, out = kwargs.get("dtype"), kwargs.get("out")
        return (
            (isinstance(args[0], list) or _is_ours(args[0]))
            and dtype in dtypes
            and (out is None or out.dtype == (dtype or args[0].dtype))
        )


def _put(result: Tensor, out: Tensor) -> Tensor:
    if out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result)


def exact() -> AbstractContextManager[Any]:
    """Let code that calls PyTorch's own reductions have these instead.

    Within ``with halfulp.torch.exact():`` ``sum``, ``mean``, ``prod``, ``var``, ``std``,
    ``var_mean``, ``std_mean``, ``logsumexp``, ``norm`` and ``linalg.vector_norm``, as
    functions and as methods, also those that derivatives call, are correctly rounded, of
    plain float tensors on the CPU; all else is as without.

    Returns
    -------
    context manager

    Notes
    -----
    What a kernel of PyTorch reduces within itself stays its own: matrix products,
    convolutions, softmax, layer norms, losses as ``mse_loss``. A norm of another order,
    and a correction that is no integer, too. Each operator costs some microseconds more,
    reductions or not; it is for looking at what a model's numbers are.

    Examples
    --------
    >>> import torch
    >>> import halfulp
    >>> x = torch.tensor([3e38, 3e38, -3e38])
    >>> x.sum()
    tensor(inf)
    >>> with halfulp.torch.exact():
    ...     x.sum()
    tensor(3.0000e+38)
    """
    return _Exact()
