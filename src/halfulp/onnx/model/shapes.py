"""Shape inference of one node that reduces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import onnx
from onnx import NodeProto, TypeProto
from onnx.shape_inference import InferenceContext

from halfulp.errors import ArgumentError, shown
from halfulp.files.formats.tensor_proto import read_tensor
from halfulp.onnx.model.nodes import label, place
from halfulp.onnx.model.reduce_nodes import axes_values, describe, version_at
from halfulp.onnx.model.tensors import Shape, tensor_facts
from halfulp.reductions import BY_OPERATOR, SUM_SQUARE, reduction_named
from halfulp.spec.rules import (
    axes_error,
    check_flag,
    reduced_axes,
    reduced_shape,
)


def infer_shape(
    shape: Sequence[int | str | None] | None,
    axes: Iterable[int] | Literal["unknown"] | None = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    opset: int | None = None,
    *,
    operator: str = SUM_SQUARE.operator,
) -> Shape | None:
    """Return the shape of the result of a reduction, as far as it is known.

    Parameters
    ----------
    shape : sequence of int, str or None; or None
        That of the data. A str is the name of a size, None a size not known; None
        in place of all: not even the rank is known.
    axes : iterable of int, "unknown" or None
        As the node has them; None or empty means absent. ``"unknown"``: they are
        computed when the model runs, or are an input of it.
    keepdims, noop_with_empty_axes : {1, 0}
        As the node has them. The second exists where axes are an input: of ReduceSum
        from opset 13 on, of the others from 18.
    opset : int, optional
        Of the domain ``""``. Default: that of the newest version.
    operator : str, optional
        ONNX's name. Only the opset's version depends on it.

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
        `noop_with_empty_axes` is set in an opset without it; or there is no such
        operator here.
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
    row = reduction_named(operator) if isinstance(operator, str) else None
    if row is None:
        raise ArgumentError(
            f"operator is {shown(operator)}; allowed: {', '.join(BY_OPERATOR)}"
        )
    version = row.newest if opset is None else row.version_for(opset)
    keep = check_flag("keepdims", keepdims)
    noop = check_flag("noop_with_empty_axes", noop_with_empty_axes)
    if noop and not version.noop_with_empty_axes:
        since = row.first(lambda version: version.noop_with_empty_axes)
        raise ArgumentError(
            f"noop_with_empty_axes is 1, which {version} lacks; allowed: from opset "
            f"{since} on"
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
    return result_shape(shape, axes, keep, noop)


def _check_dimension(size: object) -> None:
    if not (size is None or isinstance(size, str)) and (
        not isinstance(size, int) or size < 0
    ):
        raise ArgumentError(
            f"a dimension is {size!r}; allowed: an integer of 0 or more, a name or None"
        )


def result_shape(
    shape: Sequence[int | str | None] | None,
    axes: Iterable[int] | Literal["unknown"] | None,
    keepdims: bool,
    noop_with_empty_axes: bool,
    where: str = "",
) -> Shape | None:
    """Return what `infer_shape` does, of a node of any operator that reduces.

    Raises
    ------
    AxesError
        If an axis is out of range; `where` is put before its message.
    """
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


def infer_node(context: InferenceContext, node: NodeProto, opset: int) -> None:
    """Infer a node that reduces, with what onnx knows in `context`.

    Raises
    ------
    AxesError, ArgumentError
        If the node breaks the rules of its version.
    """
    data = context.get_input_type(0)
    if data is None or data.WhichOneof("value") != "tensor_type":
        return
    values = {
        attribute.name: onnx.helper.get_attribute_value(attribute)
        for attribute in node.attribute
    }
    where = f"{place(node) or describe(label(node), version_at(node, opset))}: "
    axes = values.get("axes")
    if context.get_num_inputs() > 1 and context.has_input(1):
        axes = _axes_input(context, where)
    result = TypeProto()
    result.tensor_type.elem_type = data.tensor_type.elem_type
    shape = result_shape(
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
