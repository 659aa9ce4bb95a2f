"""Gives each call of a model-local function a function of its own.

onnx's evaluator lets a function refer to its attributes, but not from the body
of a Scan, not with defaults, and not to attributes or inputs that the call
leaves out; it knows no overloads, wants functions in the order of their calls,
and none in the domains of ONNX. A copy for each way in which a function is
called, with attributes filled in, has none of these limits, and can be checked
like a graph.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass

import onnx
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto

from halfulp.errors import HalfulpError, ModelError
from halfulp.faults import OnError, raise_error
from halfulp.onnx.model.nodes import place, subgraphs, walk, within
from halfulp.onnx.model.reduce_nodes import read_node, reduction_of

# The domain of the copies; no other operator is in it.
DOMAIN = "halfulp.functions"

# A few functions that call the next one twice each make more calls than a machine
# can run, or check, in a lifetime.
_MOST_CALLS = 100_000

# Functions in functions. Each level takes some calls of Python and of onnx.
_DEEPEST = 100

# Bytes of copies, and of values of attributes filled in, besides twice what there is: a
# megabyte of function called in a thousand ways, or of attribute, would be a gigabyte.
MOST_BYTES = 2**24

_Attributes = MutableMapping[str, AttributeProto]
_Name = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Function:
    """A function, and what is asked of it at each call."""

    proto: FunctionProto
    size: int
    declared: frozenset[str]
    defaults: _Attributes


def _function(proto: FunctionProto) -> _Function:
    defaults = {a.name: a for a in proto.attribute_proto}
    declared = frozenset((*proto.attribute, *defaults))
    return _Function(proto, proto.ByteSize(), declared, defaults)


def specialize_functions(model: ModelProto, on_error: OnError = raise_error) -> None:
    """Replace the functions of `model` by copies without attributes.

    Afterwards no attribute refers to one of a function, and each call passes
    every input. Functions that nothing calls are gone. An operator of ONNX has
    precedence over a function of the same name. `on_error` takes an error that
    concerns one node that reduces.

    Raises
    ------
    ModelError
        If functions are defined twice, call themselves, make more than 100000
        calls in all, are called in so many ways that their copies are out of
        proportion, or are called with what they do not have.
    ModelError, ArgumentError
        If an attribute of a call is not allowed in a node that reduces.
    """
    functions: dict[_Name, _Function] = {}
    for function in model.functions:
        key = (function.domain, function.name, function.overload)
        if key in functions:
            raise ModelError(f"function {function.name!r} is defined twice")
        proto = FunctionProto()
        proto.CopyFrom(function)
        functions[key] = _function(proto)
    del model.functions[:]
    _Specializer(model, functions, on_error).fill(model.graph.node, None)
    model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))


class _Specializer:
    def __init__(
        self,
        model: ModelProto,
        functions: Mapping[_Name, _Function],
        on_error: OnError,
    ) -> None:
        self._model = model
        self._functions = functions
        self._on_error = on_error
        # By function, attributes and inputs of the call: the name of the copy, and
        # the number of calls that a call of it makes, itself included.
        self._copies: dict[tuple[object, ...], tuple[str, int]] = {}
        self._numbers = itertools.count()
        self._open: dict[_Name, None] = {}
        self._left = MOST_BYTES + 2 * sum(f.size for f in functions.values())

    def fill(
        self,
        nodes: Iterable[NodeProto],
        bound: _Attributes | None,
        opset: int = 0,
        path: str = "",
    ) -> int:
        """Fill the attributes `bound` into `nodes`, and redirect the calls there.

        Returns the number of calls of functions, those within functions included.
        """
        calls = 0
        for node in nodes:
            self._fill_attributes(node, bound)
            if bound and reduction_of(node):
                here = place(node)
                try:
                    read_node(node, opset, f"{path}{here}: ")
                except HalfulpError as error:
                    self._on_error(here, error)
            for _, graph in subgraphs(node):
                calls += self.fill(graph.node, bound, opset, path)
            called = (node.domain, node.op_type, node.overload)
            known = onnx.defs.has(node.op_type, domain=node.domain)
            if called in self._functions and not known:
                calls += self._redirect(node, called, path)
        if calls > _MOST_CALLS:
            raise ModelError(f"functions are called more than {_MOST_CALLS} times in all")
        return calls

    def _redirect(self, node: NodeProto, called: _Name, path: str) -> int:
        """Make the call `node` one of a copy of the function `called`."""
        function = self._functions[called]
        _check_call(node, function)
        if called in self._open:
            raise ModelError(f"function {function.proto.name!r} calls itself")
        if len(self._open) >= _DEEPEST:
            raise ModelError(f"functions call each other more than {_DEEPEST} deep")
        given = {a.name: a for a in node.attribute}
        present = tuple(i for i, name in enumerate(node.input) if name)
        if not self._open:
            self._left += 2 * sum(a.ByteSize() for a in given.values())
        values = frozenset(map(_digest, given.values()))
        key = (called, values, present)
        if key not in self._copies:
            self._open[called] = None
            bound = ChainMap(given, function.defaults)
            path = within(f"{path}{place(node)}")
            self._copies[key] = self._copy(function, bound, present, path)
            del self._open[called]
        inputs = [name for name in node.input if name]
        del node.input[:], node.attribute[:]
        node.input.extend(inputs)
        name, calls = self._copies[key]
        node.domain, node.op_type, node.overload = DOMAIN, name, ""
        return calls

    def _copy(
        self,
        function: _Function,
        bound: _Attributes,
        present: tuple[int, ...],
        path: str,
    ) -> tuple[str, int]:
        """Add to the model a copy with `bound` filled in; return name and calls."""
        proto = function.proto
        self._take(function.size, f"the copies of function {proto.name!r}")
        copy = FunctionProto(
            domain=DOMAIN,
            name=f"{proto.name}.{next(self._numbers)}",
            input=[proto.input[i] for i in present],
            output=proto.output,
            node=proto.node,
            value_info=proto.value_info,
            opset_import=[*proto.opset_import, onnx.helper.make_opsetid(DOMAIN, 1)],
        )
        absent = {name for i, name in enumerate(proto.input) if i not in set(present)}
        for _, node in walk(copy.node) if absent else ():
            for i, name in enumerate(node.input):
                if name in absent:
                    node.input[i] = ""
        opsets = {entry.domain: entry.version for entry in copy.opset_import}
        calls = 1 + self.fill(copy.node, bound, opsets.get("", 0), path)
        self._model.functions.append(copy)
        return copy.name, calls

    def _fill_attributes(self, node: NodeProto, bound: _Attributes | None) -> None:
        """Replace each reference to an attribute of the function by its value, if any."""
        for i in reversed(range(len(node.attribute))):
            attribute = node.attribute[i]
            if not attribute.ref_attr_name:
                continue
            if bound is None:
                raise ModelError(
                    f"{place(node)}: attribute {attribute.name!r} refers to an attribute "
                    "of a function; allowed: in a function only"
                )
            value = bound.get(attribute.ref_attr_name)
            if value is None:
                del node.attribute[i]
            else:
                name = attribute.name
                self._take(value.ByteSize(), f"the values of attribute {value.name!r}")
                attribute.CopyFrom(value)
                attribute.name = name

    def _take(self, size: int, what: str) -> None:
        """Count bytes that are copied."""
        self._left -= size
        if self._left < 0:
            raise ModelError(
                f"{what} are too many: where functions are called in several ways, "
                f"allowed are {MOST_BYTES} bytes of them with their attributes"
            )


def _digest(attribute: AttributeProto) -> bytes:
    content = attribute.SerializeToString(deterministic=True)
    return hashlib.blake2b(content, digest_size=16).digest()


def _check_call(node: NodeProto, function: _Function) -> None:
    here = f"{place(node)} (function {function.proto.name!r}): "
    for attribute in node.attribute:
        if attribute.name not in function.declared:
            allowed = ", ".join(map(repr, sorted(function.declared))) or "none"
            raise ModelError(
                f"{here}attribute {attribute.name!r} is not allowed; allowed: {allowed}"
            )
    for what in ("input", "output"):
        given = len(getattr(node, what))
        allowed_number = len(getattr(function.proto, what))
        if given > allowed_number:
            raise ModelError(
                f"{here}has {given} {what}s; allowed: {allowed_number} at most"
            )
