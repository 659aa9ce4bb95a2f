"""Operators that onnx's reference evaluator lacks, or runs otherwise than specified.

Here are only those that models with reductions often have, and those that crash it
or never end with hostile values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_loop import Loop as _ReferenceLoop
from onnx.reference.ops.op_tfidf_vectorizer import TfIdfVectorizer as _ReferenceTfIdf

from halfulp.errors import ModelError
from halfulp.files.formats.tensor_proto import tensor_dtype
from halfulp.onnx.model.nodes import place

# It is counted up to in Python.
_MOST_COUNTED = 10**7


class Loop(_ReferenceLoop):
    """Loop as ONNX specifies it.

    onnx's evaluator runs no iteration when the condition is left out, stacks
    outputs of iterations along an axis that is there, not along a new one, and
    fails without iterations.
    """

    # OpRun sets both from the attribute `body`.
    body: Any
    _run_body: Callable[..., list[Any]]

    def __init__(self, onnx_node: NodeProto, run_params: dict[str, Any]) -> None:
        super().__init__(onnx_node, run_params)  # type: ignore[no-untyped-call]
        state = len(onnx_node.input) - 2
        inputs, outputs = len(self.body.input_names), len(self.body.output_names)
        if inputs != state + 2 or outputs < state + 1 or outputs <= len(onnx_node.output):
            raise ModelError(
                f"{place(onnx_node)}: the body has {inputs} inputs, {outputs} outputs; "
                f"the node carries {state} values and has {len(onnx_node.output)} outputs"
            )

    def _run(  # type: ignore[override]
        self,
        trip_count: Any,
        condition: Any,
        *initial: Any,
        context: dict[str, Any],
        attributes: Any = None,
        **_: Any,
    ) -> tuple[Any, ...]:
        names = self.body.input_names
        state = list(initial)
        scanned: list[list[Any]] = [[] for _ in self.body.output_names[1 + len(state) :]]
        going = condition is None or bool(condition)
        limit = np.inf if trip_count is None else np.asarray(trip_count).item()
        iteration = 0
        while going and iteration < limit:
            fed = [np.array(iteration, np.int64), np.array(going), *state]
            inputs = {**context, **dict(zip(names, fed, strict=True))}
            kept, *outputs = self._run_body(inputs, attributes=attributes)
            going = bool(kept)
            state = outputs[: len(state)]
            for values, value in zip(scanned, outputs[len(state) :], strict=True):
                values.append(value)
            iteration += 1
        declared = self.body.output_types[1 + len(state) :]
        stacked = [
            np.stack(values) if values else _no_iterations(type_)
            for values, type_ in zip(scanned, declared, strict=True)
        ]
        return self._check_and_fix_outputs((*state, *stacked))


def _no_iterations(declared: onnx.TypeProto) -> np.ndarray[Any, Any]:
    """Return what no iterations stack up to, where unknown dimensions are 0."""
    tensor = declared.tensor_type
    dtype = tensor_dtype(tensor.elem_type, "output of a Loop without iterations")
    return np.empty((0, *(dim.dim_value for dim in tensor.shape.dim)), dtype)


class Tile(OpRun):
    """Tile, of which numpy's crashes where a product of repeats overflows."""

    def _run(self, data: Any, repeats: Any) -> tuple[Any]:
        counts = np.asarray(repeats).reshape(-1).tolist()
        if len(counts) != np.ndim(data) or min(counts, default=0) < 0:
            raise ModelError(
                f"{place(self.onnx_node)}: repeats are {counts}; allowed: for each of "
                f"{np.ndim(data)} axes, 0 or more"
            )
        shape = tuple(n * count for n, count in zip(data.shape, counts, strict=True))
        if math.prod(shape) >= 1 << 62:
            raise ModelError(
                f"{place(self.onnx_node)}: the result has shape {shape}; "
                "allowed: fewer than 2^62 elements"
            )
        if 0 in shape:
            return (np.empty(shape, data.dtype),)
        return (np.tile(data, counts),)


class GatherElements(OpRun):
    """GatherElements; numpy's `choose` steps to indices out of range one by one."""

    def _run(self, data: Any, indices: Any, axis: int = 0) -> tuple[Any]:
        fits = data.ndim == indices.ndim > 0 and -data.ndim <= axis < data.ndim
        if not fits or any(
            n > size and i != axis % data.ndim
            for i, (n, size) in enumerate(zip(indices.shape, data.shape, strict=True))
        ):
            raise ModelError(
                f"{place(self.onnx_node)}: indices of shape {indices.shape} along axis "
                f"{axis} do not fit data of shape {data.shape}"
            )
        within = [slice(n) for n in indices.shape]
        within[axis] = slice(None)
        return (np.take_along_axis(data[tuple(within)], indices, axis),)


class TfIdfVectorizer(_ReferenceTfIdf):
    """TfIdfVectorizer, which onnx's evaluator lets count up to what attributes say."""

    def __init__(self, onnx_node: NodeProto, run_params: dict[str, Any]) -> None:
        given = {attribute.name: attribute for attribute in onnx_node.attribute}

        def values(name: str) -> list[int]:
            return list(given[name].ints) if name in given else []

        strings = given["pool_strings"].strings if "pool_strings" in given else ()
        total = len(strings) or len(values("pool_int64s"))
        skips = given["max_skip_count"].i if "max_skip_count" in given else 0
        counts, indexes = values("ngram_counts"), values("ngram_indexes")
        for name, found, most in (
            ("ngram_counts", counts, total),
            ("ngram_indexes", indexes, _MOST_COUNTED),
            ("max_skip_count", [skips], _MOST_COUNTED),
        ):
            wrong = [n for n in found if not 0 <= n <= most]
            if wrong:
                raise ModelError(
                    f"{place(onnx_node)}: attribute {name!r} has {wrong[0]}; "
                    f"allowed: 0 to {most}"
                )
        super().__init__(onnx_node, run_params)  # type: ignore[no-untyped-call]


class ZipMap(OpRun):
    """ZipMap, which onnx's evaluator lacks: rows of numbers to maps from labels."""

    op_domain = "ai.onnx.ml"

    def _run(
        self,
        rows: Any,
        classlabels_int64s: list[int] | None = None,
        classlabels_strings: list[str] | None = None,
    ) -> tuple[list[dict[int | str, Any]]]:
        labels = classlabels_int64s or classlabels_strings or []
        table = np.atleast_2d(rows)
        if len(labels) != table.shape[1]:
            raise ModelError(
                f"{place(self.onnx_node)}: {len(labels)} labels are given for rows of "
                f"{table.shape[1]} numbers; allowed: as many labels"
            )
        return ([dict(zip(labels, row, strict=True)) for row in table],)
