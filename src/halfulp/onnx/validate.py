"""Checks the ReduceSumSquare nodes against types, shapes and constants.

May import errors, element_types, spec.rules, faults, functions, nodes and tensors only.

All that is known before the model runs is used: declared and inferred types,
initializers, constants, and the inputs that are fed. What is not known until
then, the operator checks with the same rules.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)

from halfulp.element_types import ALLOWED
from halfulp.errors import HalfulpError, UnsupportedTypeError
from halfulp.onnx.faults import OnError, raise_error
from halfulp.onnx.functions import DOMAIN
from halfulp.onnx.nodes import (
    ReduceNode,
    axes_values,
    check_axes_type,
    constant,
    is_reduce,
    place,
    read_node,
    subgraphs,
)
from halfulp.onnx.tensors import dtype_code, read_tensor, tensor_type, type_name
from halfulp.spec.rules import check_type, normalize_axes

_Array = npt.NDArray[Any]

Shape = tuple[int | str | None, ...]

# Longer constants are not followed into functions; no array has more axes.
_LONGEST_AXES = 64


@dataclass(frozen=True, slots=True)
class Reduction:
    """A ReduceSumSquare node, with what is known of it before the model runs.

    Attributes
    ----------
    path : str
        How errors name the calls of functions around the node; else "".
    place : str
        How errors name the node; `path` comes before.
    node : ReduceNode
    element_type : str or None
        ONNX's name.
    shape : tuple of int, str or None; or None
        Of the data: numbers, symbols, and None for what is not known.
    axes : tuple of int or None
        None: known at run time only.
    """

    path: str
    place: str
    node: ReduceNode
    element_type: str | None
    shape: Shape | None
    axes: tuple[int, ...] | None


def check_types(
    model: ModelProto,
    feeds: Mapping[str, Any],
    unknown: Iterable[str] = (),
    on_error: OnError = raise_error,
) -> list[Reduction]:
    """Check each ReduceSumSquare node with what is known beforehand.

    Parameters
    ----------
    model : onnx.ModelProto
        Prepared, its functions specialized. It is not changed.
    feeds : mapping of str to array
        The values of graph inputs, as far as known.
    unknown : iterable of str, optional
        Graph inputs that may yet be fed, so that an initializer says nothing.
    on_error : callable, optional
        Takes an error that concerns one node. Default: raise it.

    Returns
    -------
    list of Reduction
        The nodes without errors, those of functions once for each kind of call.

    Raises
    ------
    UnsupportedTypeError, AxesError
        If a node's data or axes have a type, rank or value that its version
        does not allow.
    """
    typed = ModelProto()
    typed.CopyFrom(model)
    arrays = {k: v for k, v in feeds.items() if isinstance(v, np.ndarray)}
    for value in typed.graph.input:
        if value.name in arrays:
            array = arrays[value.name]
            value.type.CopyFrom(tensor_type(dtype_code(array.dtype) or 0, array.shape))
    functions = {function.name: function for function in model.functions}
    checker = _Checker(functions, on_error)
    checker.check_model(typed, {**dict.fromkeys(unknown), **arrays}, "")
    return checker.found


class Scope:
    """What is known of the values that a node sees, by name."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.types: ChainMap[str, TypeProto | None]
        self.constants: ChainMap[str, TensorProto | _Array | None]
        self.types = outer.types.new_child() if outer else ChainMap()
        self.constants = outer.constants.new_child() if outer else ChainMap()

    def add_graph(self, graph: GraphProto) -> None:
        # A name of an outer graph may be used again, for a value yet unknown.
        constants = {name: constant(node) for node in graph.node for name in node.output}
        self.constants.update(constants)
        self.types.update(dict.fromkeys(constants))
        for value in (*graph.value_info, *graph.output, *graph.input):
            self.types[value.name] = value.type
        for tensor in graph.initializer:
            self.types[tensor.name] = tensor_type(tensor.data_type, tensor.dims)
            self.constants[tensor.name] = tensor

    def array(self, name: str) -> _Array | None:
        """Return the constant called `name`, if it is one."""
        value = self.constants.get(name)
        if isinstance(value, TensorProto):
            return read_tensor(value, f"tensor {name!r}")
        return value


class _Checker:
    def __init__(self, functions: Mapping[str, FunctionProto], on_error: OnError) -> None:
        self.found: list[Reduction] = []
        self._functions = functions
        self._on_error = on_error
        # A chain of functions of which each calls the next one twice has
        # exponentially many calls, but few that differ.
        self._checked: set[tuple[object, ...]] = set()

    def check_model(
        self, model: ModelProto, arrays: Mapping[str, _Array | None], path: str
    ) -> None:
        """Check the nodes of a model, whose inputs have the values `arrays`.

        None is a value that is not known, even where there is an initializer.
        """
        opsets = {entry.domain: entry.version for entry in model.opset_import}
        graph = inferred(model).graph
        scope = Scope()
        scope.add_graph(graph)
        scope.constants.update(arrays)
        self._check_nodes(graph.node, scope, opsets.get("", 0), path)

    def _check_nodes(
        self, nodes: Iterable[NodeProto], scope: Scope, opset: int, path: str
    ) -> None:
        for node in nodes:
            try:
                if is_reduce(node):
                    self.found.append(_check_reduce(node, scope, opset, path))
                elif node.domain == DOMAIN:
                    self._check_call(node, scope, path)
            except HalfulpError as error:
                self._on_error(place(node), error)
            for _, graph in subgraphs(node):
                inner = Scope(scope)
                inner.add_graph(graph)
                self._check_nodes(graph.node, inner, opset, path)

    def _check_call(self, node: NodeProto, scope: Scope, path: str) -> None:
        function = self._functions[node.op_type]
        types = [scope.types.get(name) for name in node.input]
        arrays = {}
        for parameter, name in zip(function.input, node.input, strict=True):
            array = scope.array(name)
            if array is not None and array.size <= _LONGEST_AXES:
                arrays[parameter] = array
        call = (
            node.op_type,
            *(t and t.SerializeToString(deterministic=True) for t in types),
            *((k, str(v.dtype), v.shape, v.tobytes()) for k, v in arrays.items()),
        )
        if call not in self._checked:
            self._checked.add(call)
            body = _body(function, types, self._functions.values())
            here = f"{path}{place(node)} > "
            self.check_model(body, arrays, here)


def _check_reduce(node: NodeProto, scope: Scope, opset: int, path: str) -> Reduction:
    start = f"{path}{place(node)}: "
    rules = read_node(node, opset, start)
    kind, element_type, shape = tensor_facts(scope.types.get(node.input[0]))
    if kind not in ("tensor", None):
        raise UnsupportedTypeError(
            f"{start}data is a {kind}; allowed: a tensor of {ALLOWED}"
        )
    if element_type:
        check_type(type_name(element_type), rules.version, start)
    axes: tuple[int, ...] | None = rules.axes
    if len(node.input) > 1 and node.input[1]:
        value = scope.array(node.input[1])
        if value is not None:
            axes = axes_values(value, start)
        else:
            axes = None
            _, axes_type, axes_shape = tensor_facts(scope.types.get(node.input[1]))
            if axes_type:
                axes_rank = None if axes_shape is None else len(axes_shape)
                check_axes_type(type_name(axes_type), axes_rank, start)
    if shape is not None and axes is not None:
        normalize_axes(axes, len(shape), repeated="merge", where=start)
    name = type_name(element_type) if element_type else None
    return Reduction(path, place(node), rules, name, shape, axes)


def tensor_facts(type_: TypeProto | None) -> tuple[str | None, int, Shape | None]:
    """Return kind, element type and shape; None, 0 and None where not known."""
    kind = type_.WhichOneof("value") if type_ is not None else None
    if type_ is None or kind is None:
        return None, 0, None
    if kind != "tensor_type":
        return kind.removesuffix("_type"), 0, None
    tensor = type_.tensor_type
    if not tensor.HasField("shape"):
        return "tensor", tensor.elem_type, None
    shape = tuple(
        dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
        for dim in tensor.shape.dim
    )
    return "tensor", tensor.elem_type, shape


def _body(
    function: FunctionProto,
    types: Iterable[TypeProto | None],
    functions: Iterable[FunctionProto],
) -> ModelProto:
    """Return the body of a function, called with `types`, as a model."""
    graph = GraphProto(name=function.name, node=function.node)
    graph.value_info.extend(function.value_info)
    for name, type_ in zip(function.input, types, strict=True):
        graph.input.append(ValueInfoProto(name=name, type=type_))
    return ModelProto(
        ir_version=onnx.IR_VERSION,
        graph=graph,
        opset_import=function.opset_import,
        functions=functions,
    )


def inferred(model: ModelProto) -> ModelProto:
    """Return `model` with the types that can be inferred."""
    try:
        return onnx.shape_inference.infer_shapes(model)
    except Exception:
        # What is not known beforehand is checked when it is: by the operator.
        return model
