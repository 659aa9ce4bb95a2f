"""What is known of the values that each node of a model sees."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from halfulp.errors import HalfulpError
from halfulp.faults import OnError, raise_error
from halfulp.files.formats.tensor_proto import read_tensor
from halfulp.onnx.model.functions import DOMAIN
from halfulp.onnx.model.inference import Inference
from halfulp.onnx.model.nodes import constant, opset_of, place, subgraphs, within
from halfulp.onnx.model.tensors import Array, tensor_type


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
            if value.data_location == TensorProto.EXTERNAL:
                return None
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
        types or constants differ. It is not changed.
    arrays : mapping of str to array or None
        Values of graph inputs. None is a value that is not known, even where there
        is an initializer.
    visit : callable
        Nested nodes come after the one that they are nested in.
    on_error : callable, optional
        Takes an error of a visit. Default: raise it.
    """
    unknown = {name for name, array in arrays.items() if array is None}
    inference = Inference(model, unknown)
    scope = Scope()
    scope.add_graph(inference.graph)
    scope.constants.update(arrays)
    opsets = {function.name: opset_of(function) or 0 for function in model.functions}
    walk = _Walk(inference, opsets, visit, on_error)
    walk.walk_nodes(inference.graph.node, scope, opset_of(model) or 0, "")


class _Walk:
    def __init__(
        self,
        inference: Inference,
        opsets: Mapping[str, int],
        visit: Visit,
        on_error: OnError,
    ) -> None:
        self._inference = inference
        self._opsets = opsets
        self._visit = visit
        self._on_error = on_error
        # A chain of functions of which each calls the next one twice has
        # exponentially many calls, but few that differ.
        self._seen: set[object] = set()

    def walk_nodes(
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
                self.walk_nodes(graph.node, inner, opset, path)

    def _walk_call(self, node: NodeProto, scope: Scope, path: str) -> None:
        types = [scope.types.get(name) for name in node.input]
        values = [scope.array(name) for name in node.input]
        kind, graph = self._inference.body(node.op_type, types, values)
        if kind not in self._seen:
            self._seen.add(kind)
            inner = Scope()
            inner.add_graph(graph)
            opset = self._opsets[node.op_type]
            self.walk_nodes(graph.node, inner, opset, within(f"{path}{place(node)}"))
