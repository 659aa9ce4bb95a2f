"""Makes up inputs for a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from onnx import ModelProto, TypeProto, ValueInfoProto

from halfulp.element_types import is_float
from halfulp.errors import ModelError
from halfulp.faults import model_errors
from halfulp.files.formats.tensor_proto import tensor_dtype
from halfulp.onnx.check.nodes import open_checked
from halfulp.onnx.model.inference import Inference
from halfulp.onnx.model.initializers import constants
from halfulp.onnx.model.nodes import walk
from halfulp.onnx.model.open import Purpose
from halfulp.onnx.model.reduce_nodes import reduction_of
from halfulp.onnx.model.tensors import known_rank

KINDS = ("small integers", "random numbers", "special values")


class Declared(Protocol):
    """What a model declares."""

    @property
    def inputs(self) -> Sequence[ValueInfoProto]:
        """As the model declares them."""

    @property
    def defaults(self) -> frozenset[str]:
        """The inputs that may be left out."""


class InputMaker:
    """Makes up inputs as a model declares them.

    Parameters
    ----------
    model : onnx.ModelProto
    opened : Runnable
        The same.

    Raises
    ------
    ModelError
        If an input is no tensor, or the types of the model contradict each other.
    """

    def __init__(self, model: ModelProto, opened: Declared) -> None:
        fixed = constants(model)
        self._inputs = [v for v in opened.inputs if v.name not in fixed]
        self._defaults = opened.defaults
        for value in self._inputs:
            if value.type.WhichOneof("value") not in ("tensor_type", None):
                raise ModelError(
                    f"values for the input {value.name!r} cannot be made up; allowed: "
                    "tensors"
                )
        with model_errors("inputs cannot be made up"):
            checked = open_checked(model, Purpose.TYPES)
            graph = Inference(checked.proto, checked.fed, strict=True).graph
        types = {v.name: v.type for v in (*graph.input, *graph.value_info)}
        # By name of the input: the rank of what these axes are of.
        self._axes = {
            node.input[1]: _rank(types.get(node.input[0]))
            for _, node in walk(model.graph.node)
            if reduction_of(node) and len(node.input) > 1
        }

    def make(self, kind: str, *seed: int) -> tuple[dict[str, Any], dict[str, int]]:
        """Return inputs, the same for the same arguments, and the sizes with a name.

        Parameters
        ----------
        kind : str
            One of `KINDS`.
        *seed : int
            Not negative; where the last is even, inputs that may be left out are.

        Raises
        ------
        ModelError
            If no array has the shape that an input declares.
        """
        rng = np.random.default_rng([KINDS.index(kind), *seed])
        sizes: dict[str, int] = {}
        feeds: dict[str, Any] = {}
        for value in self._inputs:
            if value.name in self._defaults and seed[-1] % 2 == 0:
                continue
            shape = _shape(value, sizes, rng)
            if value.name in self._axes:
                axes = _axes(value, shape, self._axes[value.name], rng)
                feeds[value.name] = axes
                for dim in value.type.tensor_type.shape.dim:
                    if dim.dim_param:
                        sizes[dim.dim_param] = len(axes)
            else:
                code = value.type.tensor_type.elem_type or 1
                dtype = tensor_dtype(code, f"input {value.name!r}")
                with model_errors(
                    f"values for the input {value.name!r} cannot be made up"
                ):
                    feeds[value.name] = _values(kind, shape, dtype, rng)
        return feeds, sizes


def _rank(type_: TypeProto | None) -> int:
    rank = known_rank(type_)
    return 1 if rank is None else rank


def _shape(
    value: ValueInfoProto, sizes: dict[str, int], rng: np.random.Generator
) -> tuple[int, ...]:
    """Return a shape, the sizes with a name as they are in `sizes` already."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return tuple(rng.integers(1, 5, 2).tolist())
    shape = []
    for dim in tensor.shape.dim:
        size = int(rng.integers(1, 5))
        if dim.HasField("dim_value"):
            size = dim.dim_value
        elif dim.dim_param:
            size = sizes.setdefault(dim.dim_param, size)
        shape.append(size)
    return tuple(shape)


def _axes(
    value: ValueInfoProto, shape: tuple[int, ...], rank: int, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Return different axes, counted from either end, as many as declared."""
    dims = value.type.tensor_type.shape.dim
    fixed = len(dims) == 1 and dims[0].HasField("dim_value")
    count = shape[0] if fixed else int(rng.integers(0, rank + 1))
    axes = rng.permutation(rank)[:count]
    return axes - rank * rng.integers(0, 2, len(axes))


def _values(
    kind: str, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    if dtype.kind == "O":
        return rng.choice(np.array(["", "a", "b c"], object), shape)
    if kind == "small integers" or not (is_float(dtype) or dtype.kind in "iu"):
        return rng.integers(0, 4, shape).astype(dtype)
    if dtype.kind in "iu":
        if kind == "random numbers":
            return rng.integers(0, 100, shape).astype(dtype)
        whole = np.iinfo(dtype)
        return rng.integers(whole.min, whole.max, shape, dtype, endpoint=True)
    numbers = rng.standard_normal(shape).astype(dtype)
    if kind == "special values":
        facts = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        special = [0, -0.0, np.inf, np.nan, facts.max, facts.smallest_subnormal]
        chosen = rng.choice(np.array(special, dtype), shape)
        numbers = np.where(rng.random(shape) < 0.25, chosen, numbers)
    return numbers
