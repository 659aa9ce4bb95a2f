"""Reductions of tensors by the names and arguments that PyTorch uses.

May import errors, spec.rules, torch.library and torch.operators only; and the
package torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, is_grad_enabled
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from halfulp.errors import ArgumentError, shown
from halfulp.spec.rules import norm_of
from halfulp.torch.library import OPERATORS
from halfulp.torch.operators import (
    ROWS,
    SPREADS,
    call,
    check,
    is_real,
    level_of_transforms,
)

__all__ = [
    "amax",
    "amin",
    "logsumexp",
    "mean",
    "prod",
    "std",
    "sum",
    "sum_square",
    "var",
    "vector_norm",
]

_Dim = int | Sequence[int] | None

# What PyTorch itself calls to leave gradients out.
_BelowGradients = torch._C._AutoDispatchBelowAutograd

_sum = OPERATORS.sum.default
_mean = OPERATORS.mean.default
_prod = OPERATORS.prod.default
_sum_square = OPERATORS.sum_square.default
_logsumexp = OPERATORS.log_sum_exp.default
_amax = OPERATORS.max.default
_amin = OPERATORS.min.default
_var = OPERATORS.var.default
_std = OPERATORS.std.default
# Those whose results are real numbers, also of integers.
_REAL = [getattr(OPERATORS, name).default for name in (*ROWS, *SPREADS) if is_real(name)]


def _reduce(operator: Any, dtype: Any, input: Any, dim: Any, *arguments: Any) -> Any:
    """Call an operator; where that fails, tell why in words of our own."""
    try:
        # Below PyTorch's gradients, whose way costs several microseconds, if nothing
        # needs them: of a plain tensor, not within a transform or a compiler.
        if (
            type(input) is Tensor
            and not is_compiling()
            and not (input.requires_grad and is_grad_enabled())
            and level_of_transforms() is None
            and forward_ad._current_level < 0
        ):
            guard = _BelowGradients()
            try:
                if dtype is None:
                    return operator._op(input, dim, *arguments)
                return operator._op(input, dim, *arguments, dtype=dtype)
            finally:
                del guard
        # A compiler must not see a call that fails.
        if dtype is None and operator in _REAL and not input.is_floating_point():
            dtype = torch.get_default_dtype()
        return call(operator, input, dim, *arguments, dtype=dtype)
    except (RuntimeError, ValueError, IndexError, TypeError, AttributeError):
        name = operator._schema.name.partition("::")[2]
        check(name, input, dim, arguments[-1], dtype)
        if dtype is not None or input.is_floating_point() or operator not in _REAL:
            raise
    # Means and norms of integers: real numbers.
    return call(operator, input, dim, *arguments, dtype=torch.get_default_dtype())


def _check_correction(correction: Any) -> None:
    whole = isinstance(correction, int) and not isinstance(correction, bool)
    if not whole or abs(correction) > 2**53:
        raise ArgumentError(
            f"correction is {shown(correction)}; allowed: an integer of at most 2**53 in "
            "size"
        )


def sum(
    input: Tensor, dim: _Dim = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Sum along dimensions, correctly rounded: ``torch.sum``.

    Parameters
    ----------
    input : torch.Tensor
        On the CPU, of dtype bfloat16, float16, float32, float64, int32, int64, uint32,
        uint64, or of the small ones bool, int8, int16, uint8 and uint16; of any shape
        and strides, read in place.
    dim : int or tuple of int, optional
        The dimensions to reduce; None and ``()`` mean all, as in PyTorch.
    keepdim : bool, optional
        Whether reduced dimensions stay, with length one.
    dtype : torch.dtype, optional
        Of the result, none of the small ones; for floats a float dtype. The exact value
        is rounded once to it: `input` is not converted before. Default: that of
        `input`, or int64 for integers, as in PyTorch.

    Returns
    -------
    torch.Tensor
        Contiguous.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        Before any work, if an argument is not allowed.

    Notes
    -----
    The exact sum, rounded once, to nearest, ties to even: the same bits for every layout,
    order, number of threads and processor, as `halfulp.sum`. Integers are exact modulo
    2^64. It has first and second derivatives, works under ``torch.func.vmap`` and
    ``torch.compile``, and runs on PyTorch's threads (``torch.set_num_threads``), at most
    as many as ``halfulp.set_num_threads`` allows.

    Examples
    --------
    >>> import torch
    >>> import halfulp
    >>> x = torch.tensor([3e38, 3e38, -3e38])
    >>> halfulp.torch.sum(x), torch.sum(x)
    (tensor(3.0000e+38), tensor(inf))
    """
    return _reduce(_sum, dtype, input, dim, keepdim)


def mean(
    input: Tensor, dim: _Dim = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Arithmetic mean along dimensions, correctly rounded: ``torch.mean``.

    Parameters
    ----------
    input, dim, keepdim : optional
        As for `sum`.
    dtype : torch.dtype, optional
        As for `sum`; the default of integers is ``torch.get_default_dtype()``, where
        PyTorch refuses.

    Returns
    -------
    torch.Tensor
        Contiguous. Of no elements NaN.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        As `sum` does.
    """
    return _reduce(_mean, dtype, input, dim, keepdim)


def prod(
    input: Tensor, dim: _Dim = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Product along dimensions, correctly rounded: ``torch.prod``.

    Parameters, result and errors are those of `sum`; unlike PyTorch's, it takes several
    dimensions.
    """
    return _reduce(_prod, dtype, input, dim, keepdim)


def sum_square(
    input: Tensor, dim: _Dim = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Sum of squares along dimensions, correctly rounded.

    Parameters, result and errors are those of `sum`. No square is rounded, overflows or
    underflows on the way.
    """
    return _reduce(_sum_square, dtype, input, dim, keepdim)


def logsumexp(
    input: Tensor, dim: _Dim = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Log-sum-exp along dimensions, correctly rounded: ``torch.logsumexp``.

    Parameters, result and errors are those of `mean`.
    """
    return _reduce(_logsumexp, dtype, input, dim, keepdim)


def amax(input: Tensor, dim: _Dim = None, keepdim: bool = False) -> Tensor:
    """Greatest element along dimensions: ``torch.amax``.

    Parameters, result and errors are those of `sum`, without `dtype`; the result has
    that of `input`. A NaN from any place is the result, and -0 is less than +0. Elements
    that are as great share the gradient evenly.
    """
    return _reduce(_amax, None, input, dim, keepdim)


def amin(input: Tensor, dim: _Dim = None, keepdim: bool = False) -> Tensor:
    """Least element along dimensions: ``torch.amin``; see `amax`."""
    return _reduce(_amin, None, input, dim, keepdim)


def vector_norm(
    input: Tensor,
    ord: float = 2,
    dim: _Dim = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """Norm of vectors, correctly rounded: ``torch.linalg.vector_norm``.

    Parameters
    ----------
    input, dim, keepdim, dtype : optional
        As for `mean`.
    ord : {2, 1, inf, -inf}, optional
        Which norm.

    Returns
    -------
    torch.Tensor
        Contiguous.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        As `sum` does, and if `ord` is another.

    Examples
    --------
    >>> import torch
    >>> import halfulp
    >>> x = torch.tensor([3e30, 4e30])
    >>> halfulp.torch.vector_norm(x), torch.linalg.vector_norm(x)
    (tensor(5.0000e+30), tensor(inf))
    """
    operator = getattr(OPERATORS, norm_of(ord).name).default
    return _reduce(operator, dtype, input, dim, keepdim)


def var(
    input: Tensor,
    dim: _Dim = None,
    *,
    correction: int = 1,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tensor:
    """Variance along dimensions, correctly rounded: ``torch.var``.

    Parameters
    ----------
    input, dim, keepdim, dtype : optional
        As for `mean`.
    correction : int, optional
        How many terms fewer than there are the sum of squared deviations is divided by.

    Returns
    -------
    torch.Tensor
        Contiguous.

    Raises
    ------
    UnsupportedTypeError, AxesError, ArgumentError
        As `sum` does, and if `correction` is no integer.
    """
    _check_correction(correction)
    return _reduce(_var, dtype, input, dim, correction, keepdim)


def std(
    input: Tensor,
    dim: _Dim = None,
    *,
    correction: int = 1,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tensor:
    """Standard deviation along dimensions, correctly rounded: ``torch.std``.

    Parameters, result and errors are those of `var`.
    """
    _check_correction(correction)
    return _reduce(_std, dtype, input, dim, correction, keepdim)
