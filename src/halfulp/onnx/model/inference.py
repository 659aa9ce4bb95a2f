"""Types and shapes of a whole model, inferred by onnx in time linear in the model.

onnx copies all that is known around a nested graph for each such graph, and infers the
body of a function anew for each call, those in functions too: many of either take time
that is quadratic, or exponential. So it is given a model that has neither. A stand-in of
another domain is where a node holds graphs, calls a function, is an operator of ours, or
could crash onnx; when onnx comes to it, it asks here. A node with graphs is then inferred
alone, with the values that it captures as inputs; the body of a function once for each
kind of call.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import onnx
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)
from onnx.defs import OpSchema
from onnx.shape_inference import InferenceContext

from halfulp.errors import HalfulpError, ModelError
from halfulp.files.formats.tensor_proto import read_tensor
from halfulp.onnx.model.functions import DOMAIN as FUNCTIONS
from halfulp.onnx.model.functions import MOST_BYTES
from halfulp.onnx.model.initializers import SMALL_TENSOR
from halfulp.onnx.model.nodes import subgraphs
from halfulp.onnx.model.onnx_crashes import NEED_TYPE, has_safe_attributes
from halfulp.onnx.model.reduce_nodes import reduction_of
from halfulp.onnx.model.shapes import infer_node
from halfulp.onnx.model.tensors import Array, tensor_facts, tensor_type

# onnx passes over what it does not know of a domain of its own, but asks those of others.
_DOMAIN = "halfulp.inference"
_STAND_IN = "StandIn"

# onnx has one registry of operators. An inference asks for others while it runs.
_LOCK = threading.RLock()
_RUNNING: list[Inference] = []

# No array has as many axes. Shapes of more, and longer names of sizes, are not followed,
# since every node could repeat them.
_MOST_AXES = 1024
_LONGEST_SIZE = 256

# Longer constants are not followed into functions; no array has more axes.
_LONGEST_AXES = 64


@dataclass(frozen=True, slots=True)
class _Hidden:
    """A node that another stands in for, and the opset imports that govern it."""

    node: NodeProto
    inputs: Sequence[str]  # those that the graphs in it capture too
    imports: Sequence[OperatorSetIdProto]


class Inference:
    """The types and shapes in a model, and in the functions that it calls.

    Parameters
    ----------
    model : onnx.ModelProto
        Prepared, its functions specialized. It is not changed.
    unknown : collection of str, optional
        Initializers that a caller may override: their values say nothing.
    strict : bool, optional
        Whether to raise what is wrong with a node that reduces, and what onnx raises.
        Default: then nothing is known of the values concerned.

    Attributes
    ----------
    graph : onnx.GraphProto
        That of `model`, each node where it is there, with all types that are known.

    Raises
    ------
    HalfulpError
        If a node that reduces breaks its rules and `strict` is true, or if
        the bodies of functions are out of proportion.
    """

    def __init__(
        self, model: ModelProto, unknown: Collection[str] = (), *, strict: bool = False
    ) -> None:
        self._strict = strict
        self._ir_version = max(model.ir_version, 4)
        self._functions = {function.name: function for function in model.functions}
        self._bodies: dict[tuple[object, ...], GraphProto] = {}
        self._left = MOST_BYTES + 2 * sum(f.ByteSize() for f in model.functions)
        self._hidden: list[_Hidden] = []
        self._store = GraphProto()
        # Of each inference that runs, one in another: its nodes with graphs, by number,
        # as bytes, since every message that onnx returns holds kilobytes.
        self._done: list[dict[int, bytes]] = []
        graph = GraphProto()
        graph.CopyFrom(model.graph)
        _forget(graph, unknown)
        self.graph = self._run(graph, model.opset_import)

    def body(
        self,
        name: str,
        types: Sequence[TypeProto | None],
        values: Sequence[Array | None],
    ) -> tuple[object, GraphProto]:
        """Return what tells a kind of call, and the body of the function for it.

        Parameters
        ----------
        name : str
            Of the function.
        types, values : sequence
            Of the inputs, as far as they are known.

        Raises
        ------
        ModelError
            If the bodies for all kinds of calls are out of proportion.
        """
        function = self._functions[name]
        given = {
            parameter: value
            for parameter, value in zip(function.input, values, strict=True)
            if value is not None and value.size <= _LONGEST_AXES
        }
        kind = (
            name,
            *(t and t.SerializeToString(deterministic=True) for t in types),
            *((k, str(v.dtype), v.shape, v.tobytes()) for k, v in given.items()),
        )
        if kind not in self._bodies:
            self._left -= function.ByteSize()
            if self._left < 0:
                raise ModelError(
                    f"function {name!r} is called with too many kinds of inputs: a body "
                    f"for each would have more than {MOST_BYTES} bytes in all"
                )
            graph = GraphProto(name=function.name, node=function.node)
            graph.value_info.extend(function.value_info)
            for parameter, type_ in zip(function.input, types, strict=True):
                graph.input.append(ValueInfoProto(name=parameter, type=type_))
            for parameter, value in given.items():
                graph.initializer.append(onnx.numpy_helper.from_array(value, parameter))
            graph.output.extend(ValueInfoProto(name=output) for output in function.output)
            self._bodies[kind] = self._run(graph, function.opset_import)
        return kind, self._bodies[kind]

    def _run(
        self, graph: GraphProto, imports: Iterable[OperatorSetIdProto]
    ) -> GraphProto:
        """Return `graph`, which it changes, with all that can be inferred."""
        with_ours = [*imports, onnx.helper.make_opsetid(_DOMAIN, 1)]
        self._hide(graph, with_ours)
        with _LOCK, _registered():
            _RUNNING.append(self)
            try:
                return self._infer_graph(graph, with_ours)
            except HalfulpError:
                raise
            except Exception:
                if self._strict:
                    raise
                self._restore(graph, {})
                return graph
            finally:
                _RUNNING.pop()

    def _hide(self, graph: GraphProto, imports: Sequence[OperatorSetIdProto]) -> None:
        """Put stand-ins into `graph`, and into those nested in it."""
        for value in (*graph.input, *graph.value_info, *graph.output):
            _cut(value.type)
        for node in graph.node:
            captured: dict[str, None] = {}
            nested = False
            for _, inner in subgraphs(node):
                self._hide(inner, imports)
                captured.update(dict.fromkeys(_captured(inner)))
                nested = True
            ours = reduction_of(node) or node.domain == FUNCTIONS
            safe = node.op_type not in NEED_TYPE and has_safe_attributes(node)
            if not nested and not ours and safe:
                continue
            inputs = [*node.input, *(name for name in captured if name not in node.input)]
            hidden = self._store.node.add()
            hidden.CopyFrom(node)
            node.Clear()
            node.domain, node.op_type = _DOMAIN, _STAND_IN
            node.input.extend(inputs)
            node.output.extend(hidden.output)
            node.attribute.add(name="number", type="INT", i=len(self._hidden))
            self._hidden.append(_Hidden(hidden, inputs, imports))

    def _infer_graph(
        self, graph: GraphProto, imports: Sequence[OperatorSetIdProto]
    ) -> GraphProto:
        """Return a graph with stand-ins, in whose place is what they stand for."""
        model = ModelProto(ir_version=self._ir_version, graph=graph, opset_import=imports)
        self._done.append({})
        try:
            typed = onnx.shape_inference.infer_shapes(model).graph
        finally:
            done = self._done.pop()
        self._restore(typed, done)
        return typed

    def _restore(self, graph: GraphProto, done: Mapping[int, bytes]) -> None:
        for node in graph.node:
            if node.domain == _DOMAIN:
                number = node.attribute[0].i
                if number in done:
                    node.ParseFromString(done[number])
                    continue
                node.CopyFrom(self._hidden[number].node)
            for _, inner in subgraphs(node):
                self._restore(inner, done)

    def answer(self, context: InferenceContext) -> None:
        """Infer what a stand-in stands for."""
        number = context.get_attribute("number").i
        hidden = self._hidden[number]
        node = hidden.node
        if reduction_of(node):
            opsets = {entry.domain: entry.version for entry in hidden.imports}
            try:
                infer_node(context, node, opsets.get("", 0))
            except HalfulpError:
                if self._strict:
                    raise
            return
        try:
            if node.domain == FUNCTIONS:
                indices = range(len(node.input))
                types = [_type(context, i) for i in indices]
                values = [_value(context, i) for i in indices]
                typed = self.body(node.op_type, types, values)[1]
            elif not _is_safe(node, context):
                return
            else:
                typed = self._infer_graph(_alone(hidden, context), hidden.imports)
                self._done[-1][number] = typed.node[0].SerializeToString()
        except HalfulpError:
            raise
        except Exception:
            # What is not known beforehand is checked when it is: by the operator.
            return
        for i, (name, output) in enumerate(zip(node.output, typed.output, strict=False)):
            if name and output.type.WhichOneof("value"):
                context.set_output_type(i, output.type)


def _forget(graph: GraphProto, unknown: Collection[str]) -> None:
    """Remove the values, not the types, of the initializers `unknown`."""
    if not unknown:
        return
    kept = GraphProto()
    declared = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if tensor.name not in unknown:
            kept.initializer.append(tensor)
        elif tensor.name not in declared:
            type_ = tensor_type(tensor.data_type, tensor.dims)
            graph.input.append(ValueInfoProto(name=tensor.name, type=type_))
    del graph.initializer[:]
    graph.initializer.extend(kept.initializer)


def _cut(type_: TypeProto) -> None:
    """Forget of a type what every node could repeat."""
    if type_.WhichOneof("value") != "tensor_type":
        return
    tensor = type_.tensor_type
    if len(tensor.shape.dim) > _MOST_AXES:
        tensor.ClearField("shape")
    for dim in tensor.shape.dim if tensor.HasField("shape") else ():
        if len(dim.dim_param) > _LONGEST_SIZE:
            dim.Clear()


def _captured(graph: GraphProto) -> Iterator[str]:
    """Yield the names that a graph, with stand-ins in it, takes from those around."""
    own = {value.name for value in graph.input}
    own.update(tensor.name for tensor in graph.initializer)
    own.update(name for node in graph.node for name in node.output)
    own.add("")
    for node in graph.node:
        yield from (name for name in node.input if name not in own)
    yield from (value.name for value in graph.output if value.name not in own)


def _is_safe(node: NodeProto, context: InferenceContext) -> bool:
    """Tell whether onnx can infer a node without crashing."""
    typed = node.op_type not in NEED_TYPE or _type(context, 0) is not None
    return typed and has_safe_attributes(node)


def _alone(hidden: _Hidden, context: InferenceContext) -> GraphProto:
    """Return a graph of one node, with what is known of all that it sees."""
    graph = GraphProto(name="alone", node=[hidden.node])
    seen = {""}
    for i, name in enumerate(hidden.inputs):
        if name in seen:
            continue
        seen.add(name)
        graph.input.append(ValueInfoProto(name=name, type=_type(context, i)))
        value = _tensor(context, i)
        if value is not None:
            graph.initializer.append(value)
            graph.initializer[-1].name = name
    graph.output.extend(ValueInfoProto(name=name) for name in hidden.node.output)
    return graph


def _type(context: InferenceContext, index: int) -> TypeProto | None:
    return context.get_input_type(index) if context.has_input(index) else None


def _tensor(context: InferenceContext, index: int) -> TensorProto | None:
    """Return the value of an input, if it is known and small."""
    shape = tensor_facts(_type(context, index))[2]
    size = 1
    for dim in shape or ():
        size = size * dim if isinstance(dim, int) else 0
    known = shape is not None and size <= SMALL_TENSOR
    return context.get_input_data(index) if known else None


def _value(context: InferenceContext, index: int) -> Array | None:
    tensor = _tensor(context, index)
    try:
        return None if tensor is None else read_tensor(tensor, "constant")
    except HalfulpError:
        # A walk tells which node has it.
        return None


@contextmanager
def _registered() -> Iterator[None]:
    """Let onnx know the stand-in, for as long as nobody else looks."""
    if _RUNNING:
        yield
        return
    onnx.defs.register_schema(_schema())
    try:
        yield
    finally:
        onnx.defs.deregister_schema(_STAND_IN, 1, _DOMAIN)


@functools.cache
def _schema() -> OpSchema:
    def many(name: str) -> OpSchema.FormalParameter:
        return OpSchema.FormalParameter(
            name,
            "T",
            param_option=OpSchema.FormalParameterOption.Variadic,
            is_homogeneous=False,
            min_arity=0,
        )

    schema = OpSchema(
        _STAND_IN,
        _DOMAIN,
        1,
        inputs=[many("inputs")],
        outputs=[many("outputs")],
        # Nothing checks the types here.
        type_constraints=[("T", ["tensor(float)"], "")],
        attributes=[OpSchema.Attribute("number", OpSchema.AttrType.INT)],
    )
    schema.set_type_and_shape_inference_function(_answer)
    return schema


def _answer(context: InferenceContext) -> None:
    _RUNNING[-1].answer(context)
