"""The one way to open a model, whatever for.

`read_model` makes a copy of what is given, a path, bytes or a message; `open_model`
takes it through these steps, of which some depend on what it is opened for:

1. a copy without large tensors, once all are read (`TYPES`);
2. sparse initializers become dense: all (`RUN`), or the small ones;
3. each node is checked by itself, and all are written alike (prepare);
4. the declarations of inputs are checked (structure);
5. each way of calling a function becomes a function (functions);
6. names and operators are checked, of all domains (`RUN`) or of ONNX's (`CHECK`);
7. large tensors become inputs, so that nothing copies them.

Types and values come after that, in the room check.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto

from halfulp.errors import ModelError
from halfulp.faults import OnError, raise_error
from halfulp.files.formats.tensor_proto import read_tensor
from halfulp.onnx.model.files import load_model
from halfulp.onnx.model.functions import specialize_functions
from halfulp.onnx.model.initializers import (
    SMALL_TENSOR,
    overridable,
    skeleton,
    take_large_tensors,
)
from halfulp.onnx.model.order import sort_nodes
from halfulp.onnx.model.prepare import prepare
from halfulp.onnx.model.reduce_nodes import VersionAt
from halfulp.onnx.model.sparse import densify
from halfulp.onnx.model.structure import check_declared, check_structure

# Before IR version 3 models had no opset imports, and opset 1 was meant.
_FIRST_WITH_IMPORTS = 3


class Purpose(enum.Enum):
    """What a model is opened for."""

    RUN = "run"
    """All operators and functions are known, and all tensors are there."""

    CHECK = "check"
    """Domains other than ONNX's may have operators that nobody here knows."""

    TYPES = "types"
    """Types are all that matters, and the caller needs its model as it is."""


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """A model whose nodes obey what can be told without types and values.

    Attributes
    ----------
    proto : onnx.ModelProto
        Prepared, its functions specialized, large tensors taken out. Its nodes, those
        in nested graphs too, stay where they were.
    inputs, outputs : tuple of onnx.ValueInfoProto
        Copies of what the model declares.
    defaults : frozenset of str
        The inputs that may be left out, among other initializers.
    fed : frozenset of str
        The inputs that may yet be fed, so that an initializer says nothing.
    large : dict of str to numpy.ndarray
        The tensors taken out, data in other files aside.
    places : dict of str to VersionAt
        How errors name each node that reduces, in the order of the model, and its
        version and opset.
    """

    proto: ModelProto
    inputs: tuple[ValueInfoProto, ...]
    outputs: tuple[ValueInfoProto, ...]
    defaults: frozenset[str]
    fed: frozenset[str]
    large: dict[str, np.ndarray[Any, Any]]
    places: dict[str, VersionAt]


def read_model(
    model: Any, unsorted: list[str] | None = None, *, largest: int | None = SMALL_TENSOR
) -> ModelProto:
    """Return a model as `load_model` does, as far as runtimes agree on what it means.

    A model without opset imports, of an IR version from before there were any, imports
    opset 1. Nodes of the graph come after those whose outputs they read, if there is such
    an order. In nested graphs and functions no runtime sorts them, and so they stay.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
    unsorted : list of str, optional
        Takes how errors name the first node that came too early, if one did.
    largest : int or None, optional
        As in `load_model`. By default only values that types may depend on are loaded.

    Raises
    ------
    ModelError, ArgumentError
        As `load_model`.
    """
    proto = load_model(model, largest)
    if 1 <= proto.ir_version < _FIRST_WITH_IMPORTS and not proto.opset_import:
        proto.opset_import.append(onnx.helper.make_opsetid("", 1))
    first = sort_nodes(proto.graph)
    if first and unsorted is not None:
        unsorted.append(first)
    return proto


def open_model(
    model: ModelProto,
    purpose: Purpose,
    on_error: OnError = raise_error,
    on_graph_error: OnError = raise_error,
) -> OpenedModel:
    """Check a model as far as no types are needed, and make it ready for `purpose`.

    Parameters
    ----------
    model : onnx.ModelProto
        The caller's own, as `read_model` returns it: changed in place, and in the
        result. To infer types it stays as it is.
    purpose : Purpose
    on_error : callable, optional
        Takes an error of what one node says. Default: raise it.
    on_graph_error : callable, optional
        Takes an error of one node by the rules of ONNX for all nodes: names that are
        not defined, and operators other than ours. Default: raise it.

    Raises
    ------
    HalfulpError
        If the model breaks a rule.
    """
    run = purpose is Purpose.RUN
    if purpose is Purpose.TYPES:
        fed = overridable(model)
        for tensor in model.graph.initializer:
            if tensor.data_location != TensorProto.EXTERNAL:
                read_tensor(tensor, f"initializer {tensor.name!r}")
        model = skeleton(model)
    else:
        fed = {value.name for value in model.graph.input}
    if not model.HasField("graph"):
        raise ModelError("the model has no graph; allowed: exactly one")
    densify(model, None if run else SMALL_TENSOR)
    places = prepare(model, on_error, external=not run)
    inputs, outputs = copies(model.graph.input), copies(model.graph.output)
    defaults = frozenset(tensor.name for tensor in model.graph.initializer)
    check_declared(model.graph)
    specialize_functions(model, on_error)
    if purpose is not Purpose.TYPES:
        check_structure(model, on_graph_error, foreign=not run)
    large = take_large_tensors(model.graph, external=not run)
    return OpenedModel(model, inputs, outputs, defaults, frozenset(fed), large, places)


def copies(values: Iterable[ValueInfoProto]) -> tuple[ValueInfoProto, ...]:
    """Return copies of values, which outlive their model."""
    copied = []
    for value in values:
        copied.append(ValueInfoProto())
        copied[-1].CopyFrom(value)
    return tuple(copied)
