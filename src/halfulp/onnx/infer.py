"""Shape inference: of one ReduceSumSquare, and of whole models.

May import errors, spec.rules, files, faults, functions, inference, inputs, nodes,
prepare, scopes, skeleton, tensors and validate only.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import onnx
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
)
from onnx.defs import OpSchema
from onnx.shape_inference import InferenceContext

from halfulp.errors import ArgumentError
from halfulp.faults import model_errors
from halfulp.onnx.files import load_model
from halfulp.onnx.functions import specialize_functions
from halfulp.onnx.inference import infer_types
from halfulp.onnx.inputs import check_declared
from halfulp.onnx.nodes import (
    axes_values,
    describe,
    is_reduce,
    opset_of,
    subgraphs,
    walk,
)
from halfulp.onnx.prepare import prepare
from halfulp.onnx.scopes import Shape, tensor_facts
from halfulp.onnx.skeleton import constants, skeleton
from halfulp.onnx.tensors import read_tensor
from halfulp.onnx.validate import check_types
from halfulp.spec.rules import (
    OPERATOR,
    VERSIONS,
    axes_error,
    check_flag,
    reduced_axes,
    reduced_shape,
    version_for,
)

# The operator stands here while onnx infers: onnx passes over what it does not know of
# an operator of its own, but asks those of other domains.
_DOMAIN = "halfulp.inference"
# onnx has one registry of operators.
_LOCK = threading.Lock()


def infer_shape(
    shape: Sequence[int | str | None] | None,
    axes: Iterable[int] | Literal["unknown"] | None = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    opset: int = VERSIONS[-1].since,
) -> Shape | None:
    """Return the shape of the result of ReduceSumSquare, as far as it is known.

    Parameters
    ----------
    shape : sequence of int, str or None; or None
        That of the data. A str is the name of a size, None a size not known; None
        in place of all: not even the rank is known.
    axes : iterable of int, "unknown" or None
        As the node has them; None or empty means absent. ``"unknown"``: they are
        computed when the model runs, or are an input of it.
    keepdims, noop_with_empty_axes : {1, 0}
        As the node has them. The second exists from opset 18 on.
    opset : int
        Of the domain ``""``. Default: the newest version.

    Returns
    -------
    tuple of int, str or None; or None
        As `shape`. With axes unknown and `keepdims`, every dimension is unknown
        unless it is 1; without `keepdims`, only the rank 0 is sure to stay.

    Raises
    ------
    AxesError
        If an axis is out of range; for a rank not known none is.
    ArgumentError
        If a flag is not 0 or 1, a dimension is negative or something else, or
        `noop_with_empty_axes` is set before opset 18.
    ModelError
        If `opset` is below 1.

    Examples
    --------
    >>> from halfulp.onnx import infer_shape
    >>> infer_shape((2, "N", None), axes=[-1])
    (2, 'N', 1)
    >>> infer_shape((2, "N", 1), axes="unknown")
    (None, None, 1)
    >>> infer_shape((2, "N"), noop_with_empty_axes=1)
    (2, 'N')
    """
    version = version_for(opset)
    keep = check_flag("keepdims", keepdims)
    noop = check_flag("noop_with_empty_axes", noop_with_empty_axes)
    if noop and not version.noop_with_empty_axes:
        raise ArgumentError(
            f"noop_with_empty_axes is 1, which {version} lacks; allowed: from opset 18 on"
        )
    if isinstance(axes, str) or axes is None:
        wrong = axes not in ("unknown", None)
    else:
        try:
            axes, wrong = tuple(axes), False
        except TypeError:
            wrong = True
    if wrong:
        raise axes_error(axes, "a sequence of integers, 'unknown' or None")
    if shape is not None:
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise ArgumentError(f"shape is {shape!r}; allowed: a sequence or None")
        for size in shape:
            _check_dimension(size)
    return _shape(shape, axes, keep, noop, "")


def _check_dimension(size: object) -> None:
    if not (size is None or isinstance(size, str)) and (
        not isinstance(size, int) or size < 0
    ):
        raise ArgumentError(
            f"a dimension is {size!r}; allowed: an integer of 0 or more, a name or None"
        )


def _shape(
    shape: Sequence[int | str | None] | None,
    axes: Iterable[int] | Literal["unknown"] | None,
    keepdims: bool,
    noop_with_empty_axes: bool,
    where: str,
) -> Shape | None:
    known = None if axes is None or isinstance(axes, str) else tuple(axes)
    if shape is None:
        reduces_all = axes != "unknown" and not known and not noop_with_empty_axes
        return () if reduces_all and not keepdims else None
    if axes != "unknown":
        reduced = reduced_axes(
            known, len(shape), noop_with_empty_axes=noop_with_empty_axes, where=where
        )
        return reduced_shape(shape, reduced, keepdims)
    if keepdims:
        return tuple(1 if size == 1 else None for size in shape)
    # A scalar has no axes that could be removed.
    return None if shape else ()


def infer_shapes(model: str | os.PathLike[str] | bytes | ModelProto) -> ModelProto:
    """Return a copy of a model with the types and shapes that can be inferred.

    onnx infers all operators but ReduceSumSquare, which is inferred as by
    `infer_shape`. onnx itself gives up its rank where the axes are not known
    before the model runs, and with it the ranks of all that follows; it passes
    over axes out of range; and it believes in the default of an input, which a
    caller may override: from IR version 4 on, none is used here.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        Not changed. Large initializers may exceed 2 GiB.

    Returns
    -------
    onnx.ModelProto
        Types are in ``value_info`` and in the outputs, in nested graphs too. In
        functions there are none: they depend on the call.

    Raises
    ------
    ModelError
        If the model cannot be read, breaks a rule, or declares what cannot be.
    UnsupportedTypeError, AxesError, ArgumentError
        If a ReduceSumSquare node breaks the rules of its version.

    Examples
    --------
    >>> import onnx.parser
    >>> from halfulp.onnx import infer_shapes
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 18]>
    ...     agraph (float[2,1] x, int64[K] axes) => (y) { y = ReduceSumSquare(x, axes) }
    ... ''')
    >>> len(infer_shapes(model).graph.output[0].type.tensor_type.shape.dim)
    2
    """
    result = load_model(model)
    with model_errors("the model cannot be used"):
        check_nodes(result)
    with model_errors("the types of the model cannot be inferred"):
        _copy_types(inferred(result).graph, result.graph)
    return result


def check_nodes(model: ModelProto) -> ModelProto:
    """Check each ReduceSumSquare node of any model with what is known beforehand.

    Returns
    -------
    onnx.ModelProto
        The skeleton of `model`, prepared and with its functions specialized.

    Raises
    ------
    ModelError, UnsupportedTypeError, AxesError, ArgumentError
        As `infer_shapes`.
    """
    for tensor in model.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL:
            read_tensor(tensor, f"initializer {tensor.name!r}")
    prepared = skeleton(model)
    prepare(prepared)
    check_declared(prepared.graph.input)
    specialize_functions(prepared)
    check_types(prepared, {}, unknown=overridable(model))
    return prepared


def overridable(model: ModelProto) -> set[str]:
    """Return the names of the initializers that a caller may override."""
    return {tensor.name for tensor in model.graph.initializer} - constants(model)


def inferred(model: ModelProto) -> ModelProto:
    """Return the skeleton of `model`, which obeys the rules, with types inferred."""
    proto = skeleton(model)
    fixed = constants(model)
    kept = [tensor for tensor in proto.graph.initializer if tensor.name in fixed]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    _stand_in(proto, proto.graph.node, "")
    for function in proto.functions:
        _stand_in(function, function.node, f"function {function.name!r} > ")
    with _registered():
        return infer_types(proto)


def _stand_in(
    scope: ModelProto | FunctionProto, nodes: Iterable[NodeProto], path: str
) -> None:
    """Put the operator of `_DOMAIN` in place of each ReduceSumSquare."""
    opset = opset_of(scope) or 0
    for here, node in walk(nodes, path):
        if is_reduce(node):
            node.domain = _DOMAIN
            node.attribute.add(
                name="where", type="STRING", s=describe(here, opset).encode()
            )
    scope.opset_import.append(onnx.helper.make_opsetid(_DOMAIN, 1))


@contextmanager
def _registered() -> Iterator[None]:
    """Let onnx know the operator of `_DOMAIN`, for as long as nobody else looks."""
    with _LOCK:
        onnx.defs.register_schema(_schema())
        try:
            yield
        finally:
            onnx.defs.deregister_schema(OPERATOR, 1, _DOMAIN)


@functools.cache
def _schema() -> OpSchema:
    parameter, attribute = OpSchema.FormalParameter, OpSchema.Attribute
    attributes = {
        "axes": OpSchema.AttrType.INTS,
        "keepdims": OpSchema.AttrType.INT,
        "noop_with_empty_axes": OpSchema.AttrType.INT,
        "where": OpSchema.AttrType.STRING,
    }
    schema = OpSchema(
        OPERATOR,
        _DOMAIN,
        1,
        inputs=[
            parameter("data", "T"),
            parameter(
                "axes",
                "tensor(int64)",
                param_option=OpSchema.FormalParameterOption.Optional,
            ),
        ],
        outputs=[parameter("reduced", "T")],
        type_constraints=[("T", [f"tensor({name})" for name in VERSIONS[-1].types], "")],
        attributes=[attribute(k, v, required=False) for k, v in attributes.items()],
    )
    schema.set_type_and_shape_inference_function(_infer_node)
    return schema


def _infer_node(context: InferenceContext) -> None:
    """Infer the operator of `_DOMAIN`; onnx lets errors of halfulp pass."""
    data = context.get_input_type(0)
    if data is None or data.WhichOneof("value") != "tensor_type":
        return
    attributes = {
        name: context.get_attribute(name)
        for name in ("axes", "keepdims", "noop_with_empty_axes", "where")
    }
    values = {k: onnx.helper.get_attribute_value(v) for k, v in attributes.items() if v}
    where = f"{values['where'].decode()}: "
    axes = values.get("axes")
    if context.get_num_inputs() > 1 and context.has_input(1):
        axes = _axes_input(context, where)
    result = TypeProto()
    result.tensor_type.elem_type = data.tensor_type.elem_type
    shape = _shape(
        tensor_facts(data)[2],
        axes,
        check_flag("keepdims", values.get("keepdims", 1), where),
        check_flag("noop_with_empty_axes", values.get("noop_with_empty_axes", 0), where),
        where,
    )
    if shape is not None:
        result.tensor_type.shape.SetInParent()
    for size in shape or ():
        dim = result.tensor_type.shape.dim.add()
        if isinstance(size, int):
            dim.dim_value = size
        elif size is not None:
            dim.dim_param = size
    context.set_output_type(0, result)


def _axes_input(
    context: InferenceContext, where: str
) -> tuple[int, ...] | Literal["unknown"]:
    data = context.get_input_data(1)
    if data is not None:
        return axes_values(read_tensor(data, f"{where}axes"), where)
    type_ = context.get_input_type(1)
    # Without elements there is nothing to be known.
    return () if type_ is not None and tensor_facts(type_)[2] == (0,) else "unknown"


def _copy_types(typed: GraphProto, graph: GraphProto, nested: bool = False) -> None:
    """Copy the types of `typed` into `graph`, which has the same nodes."""
    for name in ("value_info", "output", *(("input",) if nested else ())):
        values = getattr(graph, name)
        del values[:]
        values.extend(getattr(typed, name))
    for typed_node, node in zip(typed.node, graph.node, strict=True):
        pairs = zip(subgraphs(typed_node), subgraphs(node), strict=True)
        for (_, inner), (_, target) in pairs:
            _copy_types(inner, target, nested=True)
