"""Reductions as operators of onnx's reference evaluator."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnx
from onnx import NodeProto
from onnx.reference.op_run import OpRun

from halfulp.element_types import ALLOWED
from halfulp.errors import UnsupportedTypeError
from halfulp.faults import halfulp_error
from halfulp.onnx.model.nodes import label, place
from halfulp.onnx.model.reduce_nodes import axes_values, describe, read_node, version_at
from halfulp.onnx.model.tensors import dtype_name
from halfulp.onnx_functions import reduce_as_onnx
from halfulp.reductions import (
    L1,
    L2,
    LOG_SUM,
    LOG_SUM_EXP,
    MAX,
    MEAN,
    MIN,
    PROD,
    SUM,
    SUM_SQUARE,
    Reduction,
)
from halfulp.spec.rules import check_flag, check_type, reduced_axes


class _Reduce(OpRun):
    """An operator of the table, whose name that of the class is."""

    row: ClassVar[Reduction]

    op_domain = ""

    def __init__(self, onnx_node: NodeProto, run_params: dict[str, Any]) -> None:
        opset = run_params["opsets"][onnx_node.domain]
        at = version_at(onnx_node, opset)
        self._where = f"{place(onnx_node) or describe(label(onnx_node), at)}: "
        self._version = read_node(onnx_node, opset, self._where).version
        # Without a schema OpRun would take the defaults of the newest version.
        schema = onnx.defs.get_schema(self.row.operator, self._version.since, "")
        super().__init__(onnx_node, run_params, schema)

    def run(self, *args: Any, **context: Any) -> Any:
        try:
            return super().run(*args, **context)  # type: ignore[no-untyped-call]
        except TypeError as error:
            # OpRun wraps every TypeError, and UnsupportedTypeError is one.
            known = halfulp_error(error)
            if known is None:
                raise
            raise known from None

    def _run(
        self,
        data: Any,
        axes: Any = None,
        keepdims: Any = 1,
        noop_with_empty_axes: Any = 0,
    ) -> tuple[Any]:
        keep = check_flag("keepdims", keepdims, self._where)
        noop = check_flag("noop_with_empty_axes", noop_with_empty_axes, self._where)
        # Scan passes scalars, not arrays, where it scans along the only axis.
        if not isinstance(data, np.ndarray | np.generic):
            raise UnsupportedTypeError(
                f"{self._where}data is a {type(data).__name__}; "
                f"allowed: a tensor of {ALLOWED}"
            )
        check_type(dtype_name(data.dtype), self._version, self._where)
        if axes is not None and self._version.axes == "input":
            axes = axes_values(np.asarray(axes), self._where)
        reduced = reduced_axes(
            axes, data.ndim, noop_with_empty_axes=noop, where=self._where
        )
        return (reduce_as_onnx(self.row, data, reduced, keep, noop),)


class ReduceSumSquare(_Reduce):
    """ReduceSumSquare of ONNX, every version, correctly rounded.

    For ``onnx.reference.ReferenceEvaluator(model, new_ops=[ReduceSumSquare])``, or
    with the other reductions: `new_ops`. The version follows from the opset of the
    model or function that the node is in. `halfulp.onnx.run_model` does more: it
    checks a whole model beforehand, and replaces the operator in functions too.

    Raises
    ------
    ModelError, ArgumentError
        When the evaluator is made: the node breaks the rules of its version.
    UnsupportedTypeError, AxesError, ArgumentError
        When the node runs: data, axes or an attribute of a function do.
        In nested graphs the evaluator may wrap it in a TypeError.

    Examples
    --------
    >>> import numpy as np
    >>> import onnx.parser
    >>> from onnx.reference import ReferenceEvaluator
    >>> from halfulp.onnx import ReduceSumSquare
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 13]>
    ...     agraph (float[N] x) => (float[1] y) { y = ReduceSumSquare(x) }
    ... ''')
    >>> evaluator = ReferenceEvaluator(model, new_ops=[ReduceSumSquare])
    >>> evaluator.run(None, {"x": np.array([4096, 1, 1], np.float32)})
    [array([1.6777218e+07], dtype=float32)]
    """

    row = SUM_SQUARE


class ReduceSum(_Reduce):
    """ReduceSum of ONNX, every version, correctly rounded: see `ReduceSumSquare`."""

    row = SUM


class ReduceMean(_Reduce):
    """ReduceMean of ONNX, every version, correctly rounded: see `ReduceSumSquare`."""

    row = MEAN


class ReduceL1(_Reduce):
    """ReduceL1 of ONNX, every version, correctly rounded: see `ReduceSumSquare`."""

    row = L1


class ReduceL2(_Reduce):
    """ReduceL2 of ONNX, every version, correctly rounded: see `ReduceSumSquare`."""

    row = L2


class ReduceMax(_Reduce):
    """ReduceMax of ONNX, every version: see `ReduceSumSquare`."""

    row = MAX


class ReduceMin(_Reduce):
    """ReduceMin of ONNX, every version: see `ReduceSumSquare`."""

    row = MIN


class ReduceProd(_Reduce):
    """ReduceProd of ONNX, every version, correctly rounded: see `ReduceSumSquare`."""

    row = PROD


class ReduceLogSum(_Reduce):
    """ReduceLogSum of ONNX, every version, correctly rounded: see `ReduceSumSquare`."""

    row = LOG_SUM


class ReduceLogSumExp(_Reduce):
    """ReduceLogSumExp of ONNX, every version, correctly rounded.

    See `ReduceSumSquare`.
    """

    row = LOG_SUM_EXP


OPERATORS = (
    ReduceSumSquare,
    ReduceSum,
    ReduceMean,
    ReduceL1,
    ReduceL2,
    ReduceMax,
    ReduceMin,
    ReduceProd,
    ReduceLogSum,
    ReduceLogSumExp,
)


def new_ops() -> list[type[OpRun]]:
    """Return the reductions, as operators of onnx's reference evaluator.

    Returns
    -------
    list of class
        All ten, in the order of the table of reductions.

    Examples
    --------
    >>> import numpy as np
    >>> import onnx.parser
    >>> import halfulp
    >>> from onnx.reference import ReferenceEvaluator
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 13]>
    ...     agraph (float[N] x) => (float[1] y, float[1] z) {
    ...         y = ReduceSum(x)
    ...         z = ReduceMean(x)
    ...     }
    ... ''')
    >>> evaluator = ReferenceEvaluator(model, new_ops=halfulp.onnx.new_ops())
    >>> evaluator.run(None, {"x": np.array([2**24, 1, 1], np.float32)})
    [array([1.6777218e+07], dtype=float32), array([5.592406e+06], dtype=float32)]
    """
    return [*OPERATORS]
