"""Compares two models by running both on made-up inputs.

May import errors, evaluate, infer, nodes, report, skeleton and tensors only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from onnx import ModelProto, TypeProto, ValueInfoProto

from halfulp.errors import HalfulpError, ModelError
from halfulp.onnx.evaluate import PreparedModel
from halfulp.onnx.infer import check_nodes, inferred, overridable
from halfulp.onnx.nodes import is_reduce, walk
from halfulp.onnx.report import compare
from halfulp.onnx.skeleton import constants
from halfulp.onnx.tensors import dtype_name, known_rank, tensor_dtype

# Each kind of values that many times, out of some more trials: random sizes or indices
# may not fit what the model does with them.
_KINDS = ("small integers", "random numbers", "special values")
_RUNS = 2
_TRIALS = 10

_Feeds = dict[str, Any]


class Runnable(Protocol):
    """A model that an engine runs."""

    @property
    def inputs(self) -> Sequence[ValueInfoProto]:
        """As the model declares them."""

    @property
    def defaults(self) -> frozenset[str]:
        """The inputs that may be left out."""

    def run(self, inputs: Mapping[str, Any], /) -> dict[str, Any]:
        """Run it."""


class NotComparableError(ModelError):
    """Nothing could be compared: another engine may be able to."""


def verify(
    model: ModelProto,
    converted: ModelProto,
    *,
    exact: bool = True,
    open_model: Callable[[ModelProto], Runnable] = PreparedModel,
) -> dict[str, Any]:
    """Run two models on the same inputs, and compare all outputs bit for bit.

    Parameters
    ----------
    model, converted : onnx.ModelProto
    exact : bool
        False: bits may differ, types and shapes may not.
    open_model : callable, optional
        Makes of a model what runs it, as `PreparedModel`, the default, does.

    Returns
    -------
    dict
        ``runs``, a number; ``values``, the kinds of values fed; ``inputs``, by name
        the type and the shapes fed; ``outputs``, by name ``agree`` and ``of``,
        numbers of elements, where NaN agrees with NaN; and for floats
        ``greatest_difference``, relative to the largest magnitude of a run.

    Raises
    ------
    NotComparableError
        If nothing could be compared.
    ModelError
        If a result differs.
    """
    what = "the conversion cannot be verified"
    try:
        before, after = open_model(model), open_model(converted)
    except HalfulpError as error:
        raise NotComparableError(f"{what}: {error}") from error
    maker = _Maker(model, before)
    facts: dict[str, Any] = {"runs": 0, "values": [], "inputs": {}, "outputs": {}}
    failure = ""
    for kind in _KINDS:
        done = 0
        for trial in range(_TRIALS):
            feeds = maker.make(kind, trial)
            try:
                wanted = before.run(feeds)
            except HalfulpError as error:
                failure = str(error)
                continue
            try:
                got = after.run(feeds)
            except HalfulpError as error:
                raise ModelError(f"{what}: the converted model fails: {error}") from error
            _compare(got, wanted, before, feeds, exact, facts)
            _note_inputs(feeds, facts)
            done += 1
            if done == _RUNS:
                break
        if done:
            facts["runs"] += done
            facts["values"].append(kind)
    if not facts["runs"]:
        raise NotComparableError(
            f"{what}: the model takes none of the made-up inputs: {failure}"
        )
    return facts


class _Maker:
    """Makes up inputs as the model declares them."""

    def __init__(self, model: ModelProto, prepared: Runnable) -> None:
        fixed = constants(model)
        self._inputs = [v for v in prepared.inputs if v.name not in fixed]
        self._defaults = prepared.defaults
        for value in self._inputs:
            if value.type.WhichOneof("value") not in ("tensor_type", None):
                raise ModelError(
                    "the conversion cannot be verified: values for the input "
                    f"{value.name!r} cannot be made up; allowed: tensors"
                )
        graph = inferred(check_nodes(model), overridable(model))
        types = {v.name: v.type for v in (*graph.input, *graph.value_info)}
        # By name of the input: the rank of what these axes are of.
        self._axes = {
            node.input[1]: _rank(types.get(node.input[0]))
            for _, node in walk(model.graph.node)
            if is_reduce(node) and len(node.input) > 1
        }

    def make(self, kind: str, trial: int) -> _Feeds:
        rng = np.random.default_rng([_KINDS.index(kind), trial])
        sizes: dict[str, int] = {}
        feeds = {}
        for value in self._inputs:
            if value.name in self._defaults and trial % 2 == 0:
                continue
            shape = _shape(value, sizes, rng)
            if value.name in self._axes:
                feeds[value.name] = _axes(value, shape, self._axes[value.name], rng)
            else:
                code = value.type.tensor_type.elem_type or 1
                dtype = tensor_dtype(code, f"input {value.name!r}")
                feeds[value.name] = _values(kind, shape, dtype, rng)
        return feeds


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
    is_float = dtype.kind == "f" or dtype.name == "bfloat16"
    if kind == "small integers" or not (is_float or dtype.kind in "iu"):
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


def _note_inputs(feeds: _Feeds, facts: dict[str, Any]) -> None:
    for name, array in feeds.items():
        noted = facts["inputs"].setdefault(
            name, {"type": dtype_name(array.dtype), "shapes": []}
        )
        if list(array.shape) not in noted["shapes"]:
            noted["shapes"].append(list(array.shape))


def _compare(
    got: _Feeds,
    wanted: _Feeds,
    before: Runnable,
    feeds: _Feeds,
    exact: bool,
    facts: dict[str, Any],
) -> None:
    """Add to the facts about outputs what one run gave."""
    for name, value in wanted.items():
        noted = facts["outputs"].setdefault(name, {"agree": 0, "of": 0})
        if not _same_kind(got[name], value):
            raise ModelError(
                f"the conversion changes the type or the shape of the output {name!r}"
            )
        pairs = list(_pairs(got[name], value))
        for a, b in pairs:
            noted["agree"] += int(np.count_nonzero(_same_bits(a, b)))
            noted["of"] += b.size
            difference = compare(a, b).get("greatest_difference")
            if difference is not None:
                known = noted.get("greatest_difference", difference)
                noted["greatest_difference"] = max(difference, known, key=float)
        if exact and not all(np.all(_same_bits(a, b)) for a, b in pairs):
            again = list(_pairs(before.run(feeds)[name], value))
            if not all(np.all(_same_bits(a, b)) for a, b in again):
                raise ModelError(
                    "the conversion cannot be verified: the model itself gives other "
                    f"values of the output {name!r} each time"
                )
            raise ModelError(f"the conversion changes the output {name!r}")


def _pairs(a: Any, b: Any) -> Iterable[tuple[np.ndarray[Any, Any], ...]]:
    """Yield the arrays at the same places of two values of one kind."""
    if isinstance(b, list):
        for x, y in zip(a, b, strict=True):
            yield from _pairs(x, y)
    elif isinstance(b, dict):
        for key in b:
            yield from _pairs(a[key], b[key])
    else:
        yield np.asarray(a), np.asarray(b)


def _same_kind(a: Any, b: Any) -> bool:
    if isinstance(b, list):
        return isinstance(a, list) and len(a) == len(b) and all(map(_same_kind, a, b))
    if isinstance(b, dict):
        return (
            isinstance(a, dict)
            and a.keys() == b.keys()
            and all(_same_kind(a[key], b[key]) for key in b)
        )
    x, y = np.asarray(a), np.asarray(b)
    return x.dtype == y.dtype and x.shape == y.shape


def _same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
    """Tell for each element whether its bits agree, NaN with NaN."""
    if a.dtype.kind == "f" or a.dtype.name == "bfloat16":
        both_nan = np.isnan(a) & np.isnan(b)
        return ((a == b) & (np.signbit(a) == np.signbit(b))) | both_nan
    return a == b
