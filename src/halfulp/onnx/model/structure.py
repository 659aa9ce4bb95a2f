"""Checks names and nodes of a prepared model: what needs no type and no value."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
)
from onnx.checker import C

from halfulp.errors import HalfulpError, ModelError
from halfulp.faults import OnError, one_line, raise_error
from halfulp.files.formats.tensor_proto import tensor_dtype
from halfulp.onnx.model.functions import DOMAIN
from halfulp.onnx.model.nodes import place, subgraphs
from halfulp.onnx.model.onnx_crashes import check_attributes
from halfulp.onnx.model.tensors import type_name


def check_structure(
    model: ModelProto, on_error: OnError = raise_error, *, foreign: bool = False
) -> None:
    """Check a prepared model whose functions are specialized.

    Parameters
    ----------
    model : onnx.ModelProto
    on_error : callable, optional
        Takes an error that concerns one node. Default: raise it.
    foreign : bool, optional
        Whether operators that the installed onnx does not know are allowed, of
        domains that are not ONNX's.

    Raises
    ------
    ModelError
        If a value is used before it is defined, or defined twice, or if a node
        breaks the rules of its operator.
    """
    checker = _Checker(model.opset_import, on_error, foreign)
    checker.check_graph(model.graph, ())
    for function in model.functions:
        checker = _Checker(function.opset_import, on_error, foreign)
        checker.check_body(function.node, function.output, set(function.input), ())


def check_declared(graph: GraphProto) -> None:
    """Raise a ModelError unless the inputs of a graph are declared as ONNX allows."""
    declared = graph.input
    defaults = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for value in declared:
        what = f"input {value.name!r}"
        tensor = value.type.tensor_type
        if tensor.elem_type:
            tensor_dtype(tensor.elem_type, what)
            default = defaults.get(value.name, tensor.elem_type)
            if default != tensor.elem_type:
                raise ModelError(
                    f"{what} has a default of type {type_name(default)}; "
                    f"allowed: {type_name(tensor.elem_type)}"
                )
        for dim in tensor.shape.dim:
            if dim.dim_value < 0:
                raise ModelError(
                    f"{what} is declared with dimension {dim.dim_value}; "
                    "allowed: 0 or more, or a name"
                )


# The names in each of the graphs around one: copies for each would be too many.
_Outer = tuple[set[str], ...]


def _is_around(name: str, outer: _Outer) -> bool:
    return any(name in names for names in outer)


class _Checker:
    """Checks the nodes that the same opset imports govern."""

    def __init__(
        self, imports: Iterable[OperatorSetIdProto], on_error: OnError, foreign: bool
    ) -> None:
        self._context = checker_context(imports)
        self._on_error = on_error
        self._foreign = foreign

    def check_graph(self, graph: GraphProto, outer: _Outer) -> None:
        known = {value.name for value in graph.input}
        known.update(tensor.name for tensor in graph.initializer)
        known.update(tensor.values.name for tensor in graph.sparse_initializer)
        outputs = [value.name for value in graph.output]
        self.check_body(graph.node, outputs, known, outer)

    def check_body(
        self,
        nodes: Iterable[NodeProto],
        outputs: Iterable[str],
        known: set[str],
        outer: _Outer,
    ) -> None:
        """Check nodes that see the names `known` in their scope, and `outer` around."""
        for node in nodes:
            try:
                self._check_node(node, known, outer)
            except HalfulpError as error:
                self._on_error(place(node), error)
            for _, graph in subgraphs(node):
                self.check_graph(graph, (*outer, known))
            known.update(node.output)
        for name in outputs:
            if name not in known and not _is_around(name, outer):
                raise ModelError(f"output {name!r} of a graph is not defined in it")

    def _check_node(self, node: NodeProto, known: set[str], outer: _Outer) -> None:
        here = f"{place(node)}: "
        for name in node.input:
            if name and name not in known and not _is_around(name, outer):
                raise ModelError(f"{here}input {name!r} is not defined before the node")
        own: set[str] = set()
        for name in node.output:
            if name in known or name in own:
                raise ModelError(f"{here}output {name!r} is defined twice")
            own.add(name)
        if node.domain != DOMAIN and not onnx.defs.has(node.op_type, domain=node.domain):
            if self._foreign and not f"{node.domain}.".startswith((".", "ai.onnx.")):
                return
            raise ModelError(
                f"{here}operator {node.op_type!r} of domain {node.domain!r} is unknown; "
                "allowed: the operators of ONNX and the functions of the model"
            )
        check_attributes(node, here)
        check_node(node, self._context, here)


def checker_context(imports: Iterable[OperatorSetIdProto]) -> C.CheckerContext:
    """Return what onnx's checker of nodes has to know."""
    context = C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    context.opset_imports = {entry.domain: entry.version for entry in imports}
    return context


def check_node(node: NodeProto, context: C.CheckerContext, here: str) -> None:
    """Check a node without the graphs in it, as onnx does.

    Raises
    ------
    ModelError
        If it breaks the rules of its operator.
    """
    try:
        onnx.checker.check_node(_without_graphs(node), context)
    except onnx.checker.ValidationError as error:
        raise ModelError(here + one_line(str(error))) from error


def _without_graphs(node: NodeProto) -> NodeProto:
    """Return `node` with an empty graph for each that it holds.

    onnx's checker wants of nested graphs what no runtime needs, as shapes of outputs. It
    looks for data in other files below the folder of the process: tensors of such are
    empty.
    """
    external = any(_is_external(attribute) for attribute in node.attribute)
    if not external and not any(subgraphs(node)):
        return node
    bare = NodeProto(
        op_type=node.op_type, domain=node.domain, input=node.input, output=node.output
    )
    for attribute in node.attribute:
        if attribute.HasField("g"):
            bare.attribute.append(
                onnx.helper.make_attribute(attribute.name, GraphProto(name="empty"))
            )
        elif _is_external(attribute):
            empty = TensorProto(data_type=attribute.t.data_type, dims=[0])
            bare.attribute.append(onnx.helper.make_attribute(attribute.name, empty))
        else:
            bare.attribute.append(attribute)
    return bare


def _is_external(attribute: AttributeProto) -> bool:
    return attribute.HasField("t") and attribute.t.data_location == TensorProto.EXTERNAL
