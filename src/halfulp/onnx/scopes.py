"""What is known of the values that each node of a model sees.

May import errors, functions, nodes and tensors only.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
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

from halfulp.onnx.functions import DOMAIN
from halfulp.onnx.nodes import DOMAIN_NAMES, place, subgraphs
from halfulp.onnx.tensors import dtype_code, read_tensor

Array = npt.NDArray[Any]

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
        for node in graph.node:
            # A name of an outer graph may be used again, for a value yet unknown.
            self.types.update(dict.fromkeys(node.output))
            self.constants.update(dict.fromkeys(node.output))
            if node.op_type == "Constant" and node.domain in DOMAIN_NAMES:
                self.constants[node.output[0]] = _constant(node)
        self.constants.update(dict.fromkeys(value.name for value in graph.input))
        for value in (*graph.value_info, *graph.output, *graph.input):
            self.types[value.name] = value.type
        for tensor in graph.initializer:
            self.types[tensor.name] = tensor_type(tensor.data_type, tensor.dims)
            self.constants[tensor.name] = tensor

    def array(self, name: str) -> Array | None:
        """Return the constant called `name`, if it is one."""
        constant = self.constants.get(name)
        if isinstance(constant, TensorProto):
            return read_tensor(constant, f"tensor {name!r}")
        return constant


# What a walk does with a node: it is given the node, what the node sees, the opset of
# ONNX's operators there, and a path to put before the name of the node.
Visit = Callable[[NodeProto, Scope, int, str], None]


def walk_typed(
    model: ModelProto, arrays: Mapping[str, Array | None], visit: Visit
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
    """
    functions = {function.name: function for function in model.functions}
    _Walk(functions, visit).walk_model(model, arrays, "")


class _Walk:
    def __init__(self, functions: Mapping[str, FunctionProto], visit: Visit) -> None:
        self._functions = functions
        self._visit = visit
        # A chain of functions of which each calls the next one twice has
        # exponentially many calls, but few that differ.
        self._seen: set[tuple[object, ...]] = set()

    def walk_model(
        self, model: ModelProto, arrays: Mapping[str, Array | None], path: str
    ) -> None:
        opsets = {entry.domain: entry.version for entry in model.opset_import}
        graph = _inferred(model).graph
        scope = Scope()
        scope.add_graph(graph)
        scope.constants.update(arrays)
        self._walk_nodes(graph.node, scope, opsets.get("", 0), path)

    def _walk_nodes(
        self, nodes: Iterable[NodeProto], scope: Scope, opset: int, path: str
    ) -> None:
        for node in nodes:
            self._visit(node, scope, opset, path)
            if node.domain == DOMAIN:
                self._walk_call(node, scope, path)
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


def tensor_facts(type_: TypeProto | None) -> tuple[str | None, int, int | None]:
    """Return kind, element type and rank; None, 0 and None where not known."""
    kind = type_.WhichOneof("value") if type_ is not None else None
    if type_ is None or kind is None:
        return None, 0, None
    if kind != "tensor_type":
        return kind.removesuffix("_type"), 0, None
    tensor = type_.tensor_type
    rank = len(tensor.shape.dim) if tensor.HasField("shape") else None
    return "tensor", tensor.elem_type, rank


def tensor_type(element_type: int, shape: Iterable[int]) -> TypeProto:
    """Return the type of a tensor."""
    return onnx.helper.make_tensor_type_proto(element_type, list(shape))


def array_type(array: Array) -> TypeProto:
    """Return the type of an array."""
    return tensor_type(dtype_code(array.dtype) or 0, array.shape)


def _constant(node: NodeProto) -> TensorProto | Array | None:
    """Return the value of a Constant node, if it can serve as axes."""
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            return None
        if attribute.name == "value":
            tensor: TensorProto = attribute.t
            return tensor
        if attribute.name == "value_int":
            return np.array(attribute.i, np.int64)
        if attribute.name == "value_ints":
            return np.array(attribute.ints, np.int64)
    return None


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


def _inferred(model: ModelProto) -> ModelProto:
    """Return `model` with the types that can be inferred."""
    try:
        return onnx.shape_inference.infer_shapes(model)
    except Exception:
        # What is not known beforehand is checked when it is: by the operator.
        return model
