"""How the operators become ONNX's, for ``torch.onnx.export``.

May import element_types, reductions, torch.library and torch.operators only; and the
packages torch and, when the table is asked for, onnxscript.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import torch

from halfulp.element_types import ELEMENT_TYPES
from halfulp.reductions import Reduction
from halfulp.torch.library import OPERATORS
from halfulp.torch.operators import ROWS, SPREADS, is_real

__all__ = ["onnx_translation_table"]

# ONNX's names of the dtypes that results may be asked for in.
_NAMES = {getattr(torch, t.numpy_name): t.name.upper() for t in ELEMENT_TYPES}
# Those whose greatest and least elements ONNX had not in all versions.
_WITHOUT_ORDER = ("BOOL", "INT16", "UINT16")


def onnx_translation_table() -> dict[Any, Callable[..., Any]]:
    """Return what ``torch.onnx.export`` needs to know of the operators.

    Returns
    -------
    dict
        For its argument ``custom_translation_table``, with ``dynamo=True``: each
        reduction becomes one of ONNX's own reduction nodes, which every runtime has.

    Raises
    ------
    ImportError
        If onnxscript is missing, which such an export needs anyway.

    Notes
    -----
    Where the model then runs in ONNX Runtime with `halfulp.onnxruntime.register`, its
    nodes give the same bits as in PyTorch. Exceptions: with a `dtype` narrower than that
    of the input, and of integers as real numbers, the node computes in float64, which is
    rounded once more; ``var`` and ``std`` have no node of ONNX and become some, in
    float64.

    Examples
    --------
    >>> import torch
    >>> import halfulp
    >>> table = halfulp.torch.onnx_translation_table()
    >>> len(table)
    14
    """
    from onnxscript import opset18

    types = _Types()
    table: dict[Any, Callable[..., Any]] = {
        getattr(OPERATORS, name).default: _reduction(opset18, types, row)
        for name, row in ROWS.items()
    }
    for name in SPREADS:
        table[getattr(OPERATORS, name).default] = _spread(opset18, types, name == "std")
    return table


def _axes(op: Any, input: Any, dim: Any) -> list[Any]:
    """The axes as an input that is a constant; none for all of them, and of a scalar."""
    if dim is None or len(dim) == 0 or len(input.shape) == 0:
        return []
    return [op.Constant(value_ints=[int(each) for each in dim])]


class _Types:
    """ONNX's types, by the package that onnxscript has them from."""

    def __init__(self) -> None:
        self.of = importlib.import_module("onnx_ir").DataType

    def result(self, dtype: Any) -> Any:
        """The type of a dtype, which may be ONNX's number already."""
        return self.of[_NAMES[dtype]] if dtype in _NAMES else self.of(dtype)

    def computed_in(self, name: str, source: Any, result: Any) -> Any:
        """The type in which a node gives what is nearest to the exact result."""
        if source.is_floating_point():
            narrow = result == self.of.FLOAT and source != self.of.DOUBLE
            return result if narrow or result == source else self.of.DOUBLE
        real = is_real(name) or result.is_floating_point()
        return self.of.DOUBLE if real else self.of.INT64


def _cast(op: Any, input: Any, from_: Any, to: Any) -> Any:
    return input if from_ == to else op.Cast(input, to=int(to))


def _reduction(op: Any, types: _Types, row: Reduction) -> Callable[..., Any]:
    if row.operation in ("max", "min"):
        node = op.ReduceMax if row.operation == "max" else op.ReduceMin
    else:
        node = getattr(op, row.operator)

    def translate(
        input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> Any:
        source = input.dtype
        if row.gives_elements:
            result = source
            inner = types.of.INT32 if source.name in _WITHOUT_ORDER else source
        else:
            result = source if source.is_floating_point() else types.of.INT64
            result = result if dtype is None else types.result(dtype)
            inner = types.computed_in(row.name, source, result)
        terms = _cast(op, input, source, inner)
        if math.isinf(row.ord or 0):
            terms = op.Abs(terms)
        axes = _axes(op, input, dim)
        reduced = node(terms, *axes, keepdims=int(keepdim))
        return _cast(op, reduced, inner, result)

    return translate


def _spread(op: Any, types: _Types, is_deviation: bool) -> Callable[..., Any]:
    def translate(
        input: Any,
        dim: Any = None,
        correction: int = 1,
        keepdim: bool = False,
        dtype: Any = None,
    ) -> Any:
        source, double = input.dtype, types.of.DOUBLE
        wide = _cast(op, input, source, double)
        axes = _axes(op, input, dim)
        mean = op.ReduceMean(wide, *axes, keepdims=1)
        square = op.ReduceSumSquare(op.Sub(wide, mean), *axes, keepdims=int(keepdim))
        terms = op.Div(op.Size(input), op.Max(op.Size(mean), op.Constant(value_int=1)))
        free = op.Sub(terms, op.Constant(value_int=int(correction)))
        free = op.Max(free, op.Constant(value_int=0))
        spread = op.Div(square, op.Cast(free, to=int(double)))
        if is_deviation:
            spread = op.Sqrt(spread)
        return _cast(op, spread, double, source if dtype is None else types.result(dtype))

    return translate
