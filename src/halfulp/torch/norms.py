"""The norm of many tensors, exact over all of them, and over the ranks of a group.

May import element_types, errors, exact_sums, torch.library and torch.operators only; and
the package torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfulp.element_types import BY_NAME, ELEMENT_TYPES
from halfulp.errors import ArgumentError, UnsupportedTypeError, shown
from halfulp.exact_sums import ExactSum
from halfulp.reductions import Term
from halfulp.torch.library import OPERATORS
from halfulp.torch.operators import check

__all__ = ["clip_grad_norm_", "get_total_norm", "total_norm"]

# The dtypes of gradients, with the names of their exact sums.
_FLOATS = {
    getattr(torch, t.numpy_name): t.name for t in ELEMENT_TYPES if t.kind == "float"
}
# The term of each norm that is a sum, and what adds it to one.
_SUMS: dict[float, tuple[Term, Any]] = {
    2: ("square", OPERATORS.add_squares.default),
    1: ("magnitude", OPERATORS.add_magnitudes.default),
}
_largest = OPERATORS.largest.default
_max = OPERATORS.max.default

# Sums travel as integers of so many bits in int64: those of 2^31 ranks do not overflow,
# so that adding them up is exact in any order.
_BITS = 32

_Tensors = Any  # a tensor or an iterable of them


def get_total_norm(
    tensors: _Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
    *,
    group: Any = None,
    dtype: Any = None,
) -> Tensor:
    """Norm of all elements of tensors, as of one vector, correctly rounded.

    ``torch.nn.utils.get_total_norm``, but exact over all tensors and all ranks, and
    rounded once: the same bits however the elements are parted.

    Parameters
    ----------
    tensors : torch.Tensor or iterable of them
        On the CPU, of float dtypes, read in place. Of DTensors (of FSDP2 and tensor
        parallelism) each element counts once, whatever mesh they are on and however they
        are sharded or replicated; every rank of the mesh has to call this.
    norm_type : {2, 1, inf}, optional
        Which norm.
    error_if_nonfinite : bool, optional
        Whether a norm that is NaN or infinite is an error.
    foreach : bool, optional
        As PyTorch has it; without effect.
    group : torch.distributed.ProcessGroup, optional
        Whose ranks have the other parts of what is one vector, as with ZeRO or
        pipelines: all of its ranks have to call this, with as many tensors as each has,
        even none. Its backend has to take tensors on the CPU, as gloo does. None means
        that `tensors` are all, but for DTensors, whose mesh tells.
    dtype : torch.dtype, optional
        Of the result: a float dtype. Default: what the dtypes of all tensors promote to.

    Returns
    -------
    torch.Tensor
        Without dimensions and gradient; 0 if there are no elements.

    Raises
    ------
    ArgumentError, UnsupportedTypeError
        If an argument is not allowed.
    RuntimeError
        With `error_if_nonfinite`, as in PyTorch.

    Notes
    -----
    One all_reduce of a little more than a kilobyte for a group, and for each dimension of
    a mesh.

    Examples
    --------
    >>> import torch
    >>> import halfulp
    >>> parts = [torch.tensor([3e30]), torch.tensor([4e30])]
    >>> halfulp.torch.get_total_norm(parts), torch.nn.utils.get_total_norm(parts)
    (tensor(5.0000e+30), tensor(inf))
    """
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    order = _order(norm_type)
    for tensor in given:
        if not isinstance(tensor, Tensor) or tensor.dtype not in _FLOATS:
            what = getattr(tensor, "dtype", f"a {type(tensor).__name__}")
            raise UnsupportedTypeError(
                f"tensors has {str(what).removeprefix('torch.')}; allowed: tensors of "
                f"{', '.join(str(each).removeprefix('torch.') for each in _FLOATS)}"
            )
    if dtype is not None and dtype not in _FLOATS:
        raise UnsupportedTypeError(f"dtype is {shown(dtype, str)}; allowed: float dtypes")
    with torch.no_grad():
        total = (_SumOfRanks if order in _SUMS else _MaxOfRanks)(order)
        for groups, local in _parts(given, group):
            total.add(local, groups)
        result = total.result(dtype)
    if error_if_nonfinite and not math.isfinite(result.item()):
        raise RuntimeError(
            f"the total norm of order {norm_type} is {result.item()}, so gradients "
            "cannot be clipped; allowed: finite, or error_if_nonfinite=False"
        )
    return result


def total_norm(
    parameters: _Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
    *,
    group: Any = None,
    dtype: Any = None,
) -> Tensor:
    """Norm of the gradients of parameters, correctly rounded.

    Parameters
    ----------
    parameters : torch.Tensor or iterable of them
        Those without a gradient do not count.
    norm_type, error_if_nonfinite, foreach, group, dtype : optional
        As for `get_total_norm`.

    Returns
    -------
    torch.Tensor
        As of `get_total_norm`.

    Raises
    ------
    ArgumentError, UnsupportedTypeError, RuntimeError
        As `get_total_norm` does.

    Examples
    --------
    >>> import torch
    >>> import halfulp
    >>> layer = torch.nn.Linear(2, 1)
    >>> layer(torch.tensor([3.0, 4.0])).sum().backward()
    >>> halfulp.torch.total_norm(layer.parameters())
    tensor(5.0990)
    """
    return get_total_norm(
        _gradients(parameters),
        norm_type,
        error_if_nonfinite,
        foreach,
        group=group,
        dtype=dtype,
    )


def clip_grad_norm_(
    parameters: _Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
    *,
    group: Any = None,
) -> Tensor:
    """Scale gradients in place so that their norm is at most `max_norm`.

    ``torch.nn.utils.clip_grad_norm_``, by the norm that `total_norm` gives: the factor
    has the same bits for every partition, and so have the gradients.

    Parameters
    ----------
    parameters : torch.Tensor or iterable of them
        Those without a gradient stay as they are.
    max_norm : float
        What gradients whose norm is greater are scaled to.
    norm_type, error_if_nonfinite, foreach, group : optional
        As for `get_total_norm`.

    Returns
    -------
    torch.Tensor
        The norm before.

    Raises
    ------
    ArgumentError, UnsupportedTypeError, RuntimeError
        As `get_total_norm` does; the gradients stay as they were.
    """
    gradients = _gradients(parameters)
    limit = float(max_norm)
    norm = get_total_norm(gradients, norm_type, error_if_nonfinite, foreach, group=group)
    factor = torch.clamp(limit / (norm + 1e-6), max=1.0)
    with torch.no_grad():
        for gradient in gradients:
            mesh = getattr(gradient, "device_mesh", None)
            (gradient if mesh is None else gradient.to_local()).mul_(factor)
    return norm


def _gradients(parameters: _Tensors) -> list[Tensor]:
    each = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in each if p.grad is not None]


def _order(norm_type: Any) -> float:
    try:
        order = float(norm_type)  # "inf" too, as PyTorch has it
    except (TypeError, ValueError):
        order = math.nan
    if order not in (*_SUMS, math.inf):
        raise ArgumentError(f"norm_type is {shown(norm_type)}; allowed: 2, 1, inf")
    return order


def _parts(tensors: Sequence[Tensor], group: Any) -> list[tuple[list[Any], list[Tensor]]]:
    """Part tensors by the groups over which what they are is one vector.

    Each with the elements that this rank counts: those of a DTensor that are replicated
    count on the first rank alone.
    """
    plain: list[Tensor] = []
    by_mesh: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        mesh = getattr(tensor, "device_mesh", None)
        if mesh is None:
            plain.append(tensor)
            continue
        local = by_mesh.setdefault(mesh, [])
        placements = tensor.placements
        if any(placement.is_partial() for placement in placements):
            raise ArgumentError(
                f"a DTensor has placements {shown(placements)}; allowed: sharded and "
                "replicated ones: write redistribute() before"
            )
        place = mesh.get_coordinate()
        counts = place is not None and all(
            placement.is_shard() or at == 0
            for placement, at in zip(placements, place, strict=True)
        )
        if counts:
            local.append(tensor.to_local())
        else:  # its dtype still has to be known
            local.append(tensor.to_local()[:0] if tensor.dim() else _nothing(tensor))
    parts = [([] if group is None else [group], plain)]
    parts += [
        ([mesh.get_group(i) for i in range(mesh.ndim)], local)
        for mesh, local in by_mesh.items()
    ]
    for _, local in parts:
        for tensor in local:
            check("l2", tensor)
    return parts


def _nothing(tensor: Any) -> Tensor:
    return torch.empty(0, dtype=tensor.dtype)


class _OverRanks:
    """A norm of tensors, some of them over ranks, and which dtypes these have."""

    def __init__(self, order: float) -> None:
        self._order = order
        self._dtypes: set[Any] = set()

    def add(self, tensors: Sequence[Tensor], groups: Sequence[Any]) -> None:
        """Add tensors, and those of the other ranks of groups, one after another."""
        found = [int(any(t.dtype is dtype for t in tensors)) for dtype in _FLOATS]
        numbers = torch.tensor([*found, *self._numbers(tensors)], dtype=torch.int64)
        for group in groups:
            self._over(numbers, group)
        (*given,) = numbers.tolist()
        self._dtypes |= {d for d, n in zip(_FLOATS, given, strict=False) if n}
        self._take(given[len(_FLOATS) :])

    def result(self, dtype: Any) -> Tensor:
        if dtype is None:
            found = sorted(self._dtypes, key=str)
            dtype = found[0] if found else torch.get_default_dtype()
            for more in found:
                dtype = torch.promote_types(dtype, more)
        return torch.tensor(self._rounded(_FLOATS[dtype]), dtype=dtype)

    def _numbers(self, tensors: Sequence[Tensor]) -> list[int]:
        """What tensors are, in integers that `_over` joins."""
        raise NotImplementedError

    def _over(self, numbers: Tensor, group: Any) -> None:
        raise NotImplementedError

    def _take(self, numbers: list[int]) -> None:
        raise NotImplementedError

    def _rounded(self, name: str) -> float:
        raise NotImplementedError


class _SumOfRanks(_OverRanks):
    """A norm that is a sum, or the root of one: exact sums of binary64, which merge."""

    def __init__(self, order: float) -> None:
        super().__init__(order)
        self._term, self._operator = _SUMS[order]
        self._sum = ExactSum("double", term=self._term)
        self._words = self._sum.nbytes * 8 // _BITS
        # The weight of a digit of the least place: a double's least, squared or not.
        self._scale = 1074 * (2 if self._term == "square" else 1)
        self._flags = [0, 0]  # how many parts are NaN, and infinite
        self._number = 0

    def _numbers(self, tensors: Sequence[Tensor]) -> list[int]:
        total = ExactSum("double", term=self._term)
        for dtype, name in _FLOATS.items():
            same = [tensor for tensor in tensors if tensor.dtype is dtype]
            if not same:
                continue
            size = ExactSum(name, term=self._term).nbytes // 8
            digits = self._operator(torch.zeros(size, dtype=torch.int64), same)
            count = sum(tensor.numel() for tensor in same)
            part = ExactSum._of_digits(
                self._term, BY_NAME[name], count, digits.numpy().view(np.uint64)
            )
            total.merge(part.astype("double"))
        exact = total.exact()
        if not isinstance(exact, Fraction):
            return [int(math.isnan(exact)), int(math.isinf(exact)), *[0] * self._words]
        number = exact.numerator * 2**self._scale // exact.denominator
        data = number.to_bytes(self._words * _BITS // 8, "little")
        return [0, 0, *np.frombuffer(data, "<u4").tolist()]

    def _over(self, numbers: Tensor, group: Any) -> None:
        torch.distributed.all_reduce(numbers, group=group)
        # Carries: room for the next group.
        numbers[-self._words :] = torch.tensor(self._words_of(numbers.tolist()))

    def _words_of(self, numbers: list[int]) -> list[int]:
        words, carry = [], 0
        for each in numbers[-self._words :]:
            carry += each
            words.append(carry & 2**_BITS - 1)
            carry >>= _BITS
        return words

    def _take(self, numbers: list[int]) -> None:
        self._flags = [a + b for a, b in zip(self._flags, numbers, strict=False)]
        self._number += sum(
            word << _BITS * i for i, word in enumerate(numbers[-self._words :])
        )

    def _rounded(self, name: str) -> float:
        if any(self._flags):
            return math.nan if self._flags[0] else math.inf
        data = self._number.to_bytes(self._words * _BITS // 8, "little")
        digits = np.frombuffer(data, "<u8").astype(np.uint64)
        exact = ExactSum._of_digits(self._term, BY_NAME["double"], 1, digits)
        return float(exact.norm(BY_NAME[name].dtype))


class _MaxOfRanks(_OverRanks):
    """The greatest magnitude, by its bits: those of doubles without sign are in order,
    NaN above all."""

    def __init__(self, order: float) -> None:
        super().__init__(order)
        self._bits = 0

    def _numbers(self, tensors: Sequence[Tensor]) -> list[int]:
        each = [
            _largest(tensor, dtype=torch.float64) for tensor in tensors if tensor.numel()
        ]
        if not each:
            return [0]
        return [int(_max(torch.stack(each)).view(torch.int64).item())]

    def _over(self, numbers: Tensor, group: Any) -> None:
        torch.distributed.all_reduce(numbers, torch.distributed.ReduceOp.MAX, group=group)

    def _take(self, numbers: list[int]) -> None:
        self._bits = max(self._bits, *numbers)

    def _rounded(self, name: str) -> float:
        return torch.tensor(self._bits).view(torch.float64).item()  # type: ignore[no-any-return]
