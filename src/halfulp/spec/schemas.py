"""What ONNX says of an operator, as plain data: every version of every operator.

May import errors and json_values only, and onnx within functions: the data are those
of the onnx that is installed.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from halfulp.errors import ArgumentError
from halfulp.json_values import plain

if TYPE_CHECKING:
    from onnx.defs import OpSchema

# What JSON has.
Value = int | float | str | list[Any] | None

# Onnx's way to say that a count has no bound.
_UNBOUNDED = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input or an output.

    Attributes
    ----------
    name : str
    type : str
        The name of a type constraint, or one type such as ``tensor(int64)``.
    types : tuple of str
        Every type allowed, sorted.
    option : {"single", "optional", "variadic"}
    homogeneous : bool
        Whether all values of a variadic parameter have one type.
    min_count : int
        How many values a node gives at least: 0 if optional.
    description : str
        Markdown.
    """

    name: str
    type: str
    types: tuple[str, ...]
    option: Literal["single", "optional", "variadic"]
    homogeneous: bool
    min_count: int
    description: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute.

    Attributes
    ----------
    name : str
    type : str
        Such as ``INT`` or ``INTS``.
    required : bool
    default : int, float, str, list or None
        None if there is no default.
    description : str
        Markdown.
    """

    name: str
    type: str
    required: bool
    default: Value
    description: str


@dataclass(frozen=True, slots=True)
class TypeConstraint:
    """A name for a set of types, sorted; parameters of one name share one type."""

    name: str
    types: tuple[str, ...]
    description: str


@dataclass(frozen=True, slots=True)
class FunctionBody:
    """A definition by other operators.

    Attributes
    ----------
    opset : int
        The opset of those operators.
    text : str
        In ONNX's text format.
    node : str
        Empty, or the node whose definition this is, where it depends on the node.
    """

    opset: int
    text: str
    node: str

    @property
    def title(self) -> str:
        """What this is the definition of."""
        of = f", for the node {self.node}" if self.node else ""
        return f"By operators of opset {self.opset}{of}:"


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of one operator; ``dataclasses.asdict`` makes it JSON's.

    Attributes
    ----------
    name, domain : str
        The domain of ONNX's own operators is ``""``.
    since_version : int
        The opset that introduced this version.
    support_level : {"COMMON", "EXPERIMENTAL"}
    deprecated : bool
    shape_inference : bool
        Whether onnx infers types and shapes of the outputs.
    function : bool
        Whether it is defined by other operators.
    function_bodies : tuple of FunctionBody
        That definition, for each opset that has one of its own. Where it depends
        on the node, it is that of a plain node; empty if onnx gives none for such.
    inputs, outputs : tuple of Parameter
    min_inputs, min_outputs : int
    max_inputs, max_outputs : int or None
        None means without bound.
    attributes : tuple of Attribute
        Sorted by name.
    type_constraints : tuple of TypeConstraint
    documentation : str
        Markdown.
    """

    name: str
    domain: str
    since_version: int
    support_level: str
    deprecated: bool
    shape_inference: bool
    function: bool
    function_bodies: tuple[FunctionBody, ...]
    inputs: tuple[Parameter, ...]
    min_inputs: int
    max_inputs: int | None
    outputs: tuple[Parameter, ...]
    min_outputs: int
    max_outputs: int | None
    attributes: tuple[Attribute, ...]
    type_constraints: tuple[TypeConstraint, ...]
    documentation: str


def versions(op: str, domain: str = "") -> tuple[int, ...]:
    """Return the versions of an operator: the opsets that changed it, ascending.

    Parameters
    ----------
    op : str
        Such as ``"ReduceSumSquare"``.
    domain : str
        ``""`` and ``"ai.onnx"`` are the same.

    Raises
    ------
    ArgumentError
        If the installed onnx has no such operator; the message names similar ones.

    Examples
    --------
    >>> versions("ReduceSumSquare")
    (1, 11, 13, 18)
    """
    return tuple(_operator(op, domain))


def schema(op: str, opset: int | None = None, domain: str = "") -> Schema:
    """Return the newest version of an operator that an opset allows.

    Parameters
    ----------
    op, domain : str
        As in `versions`.
    opset : int, optional
        Default: the newest. A later one than any known means the newest, too.

    Raises
    ------
    ArgumentError
        If the operator is unknown, or the opset has none of its versions.

    Examples
    --------
    >>> s = schema("ReduceSumSquare", 17)
    >>> s.since_version, [a.name for a in s.attributes]
    (13, ['axes', 'keepdims'])
    """
    known = _operator(op, domain)
    if opset is None:
        return _schema(known[max(known)])
    if isinstance(opset, bool) or not isinstance(opset, int) or opset < min(known):
        raise ArgumentError(
            f"opset {opset!r} has no {op} of domain {_spoken(domain)!r}; "
            f"allowed: {min(known)} and later"
        )
    return _schema(known[max(v for v in known if v <= opset)])


@functools.cache
def _operators() -> Mapping[tuple[str, str], Mapping[int, OpSchema]]:
    """Return onnx's own objects by (domain, name), then by version, all sorted."""
    import onnx.defs

    found: dict[tuple[str, str], dict[int, OpSchema]] = {}
    everything = onnx.defs.get_all_schemas_with_history()
    for one in sorted(everything, key=lambda s: (s.domain, s.name, s.since_version)):
        found.setdefault((one.domain, one.name), {})[one.since_version] = one
    return found


def _operator(op: str, domain: str) -> Mapping[int, OpSchema]:
    known = _operators()
    domain = "" if domain == "ai.onnx" else domain
    if (domain, op) in known:
        return known[domain, op]
    domains = sorted({_spoken(d) for d, _ in known})
    if _spoken(domain) not in domains:
        close = difflib.get_close_matches(str(domain), domains, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ArgumentError(
            f"domain {domain!r} is unknown{hint or '; known: ' + ', '.join(domains)}"
        )
    elsewhere = [_spoken(d) for d, name in known if name == op]
    if elsewhere:
        hint = f"; domain {elsewhere[0]!r} has one"
    else:
        names = {name.lower(): name for d, name in known if d == domain}
        close = difflib.get_close_matches(str(op).lower(), names, 3)
        hint = "; did you mean " + " or ".join(names[c] for c in close) + "?"
        hint = hint if close else ""
    raise ArgumentError(f"operator {op!r} is unknown in domain {_spoken(domain)!r}{hint}")


def _spoken(domain: str) -> str:
    return domain or "ai.onnx"


@functools.cache
def _schema(one: Any) -> Schema:  # onnx's stub of OpSchema lacks half of it
    function = one.has_function or one.has_context_dependent_function
    return Schema(
        name=one.name,
        domain=one.domain,
        since_version=one.since_version,
        support_level=one.support_level.name,
        deprecated=one.deprecated,
        shape_inference=one.has_type_and_shape_inference_function,
        function=function,
        function_bodies=_bodies(one),
        inputs=tuple(map(_parameter, one.inputs)),
        min_inputs=one.min_input,
        max_inputs=_bound(one.max_input),
        outputs=tuple(map(_parameter, one.outputs)),
        min_outputs=one.min_output,
        max_outputs=_bound(one.max_output),
        attributes=tuple(_attribute(one.attributes[k]) for k in sorted(one.attributes)),
        type_constraints=tuple(
            TypeConstraint(
                t.type_param_str, tuple(sorted(t.allowed_type_strs)), t.description
            )
            for t in one.type_constraints
        ),
        documentation=_text(one.doc),
    )


def _text(text: str) -> str:
    # Some texts are indented but for lines with a break alone.
    return inspect.cleandoc(re.sub(r"(?m)^<br/?>$", "", text))


def _bound(count: int) -> int | None:
    return None if count >= _UNBOUNDED else count


def _parameter(one: Any) -> Parameter:
    return Parameter(
        name=one.name,
        type=one.type_str,
        types=tuple(sorted(one.types)),
        option=one.option.name.lower(),
        homogeneous=one.is_homogeneous,
        min_count=0 if one.option.name == "Optional" else one.min_arity,
        description=_text(one.description),
    )


def _attribute(one: Any) -> Attribute:
    return Attribute(
        name=one.name,
        type=one.type.name,
        required=one.required,
        default=attribute_value(one.default_value),
        description=_text(one.description),
    )


def attribute_value(attribute: Any) -> Value:
    """Return the value of an AttributeProto as JSON has it, None if it has none.

    Floats that JSON lacks become strings, tensors nested lists, graphs text.
    """
    import numpy as np
    from onnx import GraphProto, TensorProto
    from onnx.helper import get_attribute_value
    from onnx.numpy_helper import to_array
    from onnx.printer import to_text

    def readable(value: Any) -> Any:
        if isinstance(value, list):
            return [readable(v) for v in value]
        if isinstance(value, float):
            return np.float32(value)
        if isinstance(value, TensorProto):
            return to_array(value)
        if isinstance(value, GraphProto):
            return to_text(value)
        return value

    return plain(readable(get_attribute_value(attribute))) if attribute.type else None


def _bodies(one: Any) -> tuple[FunctionBody, ...]:
    from onnx import FunctionProto
    from onnx.printer import to_text

    found = [
        (opset, one.get_function_with_opset_version(opset), "")
        for opset in one.function_opset_versions
    ]
    for opset in one.context_dependent_function_opset_versions:
        binary, node = _body_of_plain_node(one, opset)
        if binary:
            found.append((opset, binary, node))
    return tuple(
        FunctionBody(opset, to_text(FunctionProto.FromString(binary)).strip(), node)
        for opset, binary, node in found
    )


def _body_of_plain_node(one: Any, opset: int) -> tuple[bytes, str]:
    """Ask onnx for the body of a node with only the inputs that must be given.

    Returns
    -------
    bytes, str
        A FunctionProto, empty if onnx has none for this node, and the node as text.
    """
    from onnx import NodeProto, TensorProto, TypeProto

    def required(parameters: Any) -> list[Any]:
        return [p for p in parameters if p.option.name == "Single"]

    node = NodeProto(op_type=one.name, domain=one.domain)
    node.output.extend(p.name for p in required(one.outputs))
    types, texts = [], []
    try:
        for p in required(one.inputs):
            name = "tensor(float)" if "tensor(float)" in p.types else min(p.types)
            element = name.removeprefix("tensor(").removesuffix(")").upper()
            tensor = TypeProto.Tensor(elem_type=TensorProto.DataType.Value(element))
            types.append(TypeProto(tensor_type=tensor).SerializeToString())
            texts.append(f"{p.name}: {name}")
            node.input.append(p.name)
        binary = one.get_context_dependent_function_with_opset_version(
            opset, node.SerializeToString(), types
        )
    except ValueError:  # an input is no tensor, or a required attribute is missing
        return b"", ""
    return binary, f"{one.name}({', '.join(texts)})"
