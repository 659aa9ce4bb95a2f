"""What is known of the values that each node of a model sees.

May import errors, faults, functions, inference, nodes and tensors only.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

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

from halfulp.errors import HalfulpError
from halfulp.faults import OnError, raise_error
from halfulp.onnx.functions import DOMAIN
from halfulp.onnx.inference import infer_types
from halfulp.onnx.nodes import constant, place, subgraphs
from halfulp.onnx.tensors import read_tensor, tensor_type

Array = npt.NDArray[Any]

Shape = tuple[int | str | None, ...]

# Longer constants are not followed into functions; no array has more axes.
_LONGEST_AXES = 64


class Scope:
    """What is known of the values that a node sees, by name."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.types: ChainMap[str, TypeProto | None]
        self.constants: ChainMap[str, TensorProto | Array | None]
        self.types = outer.types.new_child() if outer else ChainMap()
        self.constants = outer.constants.new_child() if outer else ChainMap()

    def add_graph(self, graph: GraphProto) -> None:
        # A name of an outer graph may be used again, for a value yet unknown.
        constants = {name: constant(node) for node in graph.node for name in node.output}
        self.constants.update(constants)
        self.types.update(dict.fromkeys(constants))
        self.constants.update(dict.fromkeys(value.name for value in graph.input))
        for value in (*graph.value_info, *graph.output, *graph.input):
            self.types[value.name] = value.type
        for tensor in graph.initializer:
            self.types[tensor.name] = tensor_type(tensor.data_type, tensor.dims)
            self.constants[tensor.name] = tensor

    def array(self, name: str) -> Array | None:
        """Return the constant called `name`, if it is one."""
        value = self.constants.get(name)
        if isinstance(value, TensorProto):
            return read_tensor(value, f"tensor {name!r}")
        return value


# What a walk does with a node: it is given the node, what the node sees, the opset of
# ONNX's operators there, and a path to put before the name of the node.
Visit = Callable[[NodeProto, Scope, int, str], None]


def walk_typed(
    model: ModelProto,
    arrays: Mapping[str, Array | None],
    visit: Visit,
    on_error: OnError = raise_error,
) -> None:
    """Visit each node of a prepared model, with all that is known beforehand.

    Parameters
    ----------
    model : onnx.ModelProto
        Its functions specialized: the body of one is visited for each call whose
        types or constants differ.
    arrays : mapping of str to array or None
        Values of graph inputs. None is a value that is not known, even where there
        is an initializer.
    visit : callable
        Nested nodes come after the one that they are nested in.
    on_error : callable, optional
        Takes an error of a visit. Default: raise it.
    """
    functions = {function.name: function for function in model.functions}
    _Walk(functions, visit, on_error).walk_model(model, arrays, "")


class _Walk:
    def __init__(
        self, functions: Mapping[str, FunctionProto], visit: Visit, on_error: OnError
    ) -> None:
        self._functions = functions
        self._visit = visit
        self._on_error = on_error
        # A chain of functions of which each calls the next one twice has
        # exponentially many calls, but few that differ.
        self._seen: set[tuple[object, ...]] = set()

    def walk_model(
        self, model: ModelProto, arrays: Mapping[str, Array | None], path: str
    ) -> None:
        opsets = {entry.domain: entry.version for entry in model.opset_import}
        graph = inferred(model).graph
        scope = Scope()
        scope.add_graph(graph)
        scope.constants.update(arrays)
        self._walk_nodes(graph.node, scope, opsets.get("", 0), path)

    def _walk_nodes(
        self, nodes: Iterable[NodeProto], scope: Scope, opset: int, path: str
    ) -> None:
        for node in nodes:
            try:
                self._visit(node, scope, opset, path)
                if node.domain == DOMAIN:
                    self._walk_call(node, scope, path)
            except HalfulpError as error:
                self._on_error(place(node), error)
            for _, graph in subgraphs(node):
                inner = Scope(scope)
                inner.add_graph(graph)
                self._walk_nodes(graph.node, inner, opset, path)

    def _walk_call(self, node: NodeProto, scope: Scope, path: str) -> None:
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
        if call not in self._seen:
            self._seen.add(call)
            body = _body(function, types, self._functions.values())
            here = f"{path}{place(node)} > "
            self.walk_model(body, arrays, here)


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


def known_rank(type_: TypeProto | None) -> int | None:
    """Return the rank of a tensor, if it is known."""
    shape = tensor_facts(type_)[2]
    return None if shape is None else len(shape)


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
        return infer_types(model)
    except Exception:
        # What is not known beforehand is checked when it is: by the operator.
        return model
