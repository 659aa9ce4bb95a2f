"""Gives each call of a model-local function a function of its own.

May import errors, faults and nodes only.

onnx's evaluator lets a function refer to its attributes, but not from the body
of a Scan, not with defaults, and not to attributes or inputs that the call
leaves out; it knows no overloads, wants functions in the order of their calls,
and none in the domains of ONNX. A copy for each way in which a function is
called, with attributes filled in, has none of these limits, and can be checked
like a graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import onnx
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto

from halfulp.errors import HalfulpError, ModelError
from halfulp.faults import OnError, raise_error
from halfulp.onnx.nodes import is_reduce, place, read_node, subgraphs, walk

# The domain of the copies; no other operator is in it.
DOMAIN = "halfulp.functions"

# A few functions that call the next one twice each make more calls than a machine
# can run, or check, in a lifetime.
_MOST_CALLS = 100_000

_Attributes = Mapping[str, AttributeProto]


def specialize_functions(model: ModelProto, on_error: OnError = raise_error) -> None:
    """Replace the functions of `model` by copies without attributes.

    Afterwards no attribute refers to one of a function, and each call passes
    every input. Functions that nothing calls are gone. An operator of ONNX has
    precedence over a function of the same name. `on_error` takes an error that
    concerns one ReduceSumSquare node.

    Raises
    ------
    ModelError
        If functions are defined twice, call themselves, make more than 100000
        calls in all, or are called with inputs, outputs or attributes that they
        do not have.
    ModelError, ArgumentError
        If an attribute of a call is not allowed in a ReduceSumSquare node.
    """
    functions: dict[tuple[str, str, str], FunctionProto] = {}
    for function in model.functions:
        key = (function.domain, function.name, function.overload)
        if key in functions:
            raise ModelError(f"function {function.name!r} is defined twice")
        functions[key] = FunctionProto()
        functions[key].CopyFrom(function)
    del model.functions[:]
    _Specializer(model, functions, on_error).fill(model.graph.node, None)
    model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))


class _Specializer:
    def __init__(
        self,
        model: ModelProto,
        functions: Mapping[tuple[str, str, str], FunctionProto],
        on_error: OnError,
    ) -> None:
        self._model = model
        self._functions = functions
        self._on_error = on_error
        # By function, attributes and inputs of the call: the name of the copy, and
        # the number of calls that a call of it makes, itself included.
        self._copies: dict[tuple[object, ...], tuple[str, int]] = {}
        self._numbers = itertools.count()
        self._open: list[tuple[str, str, str]] = []

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
            _fill_attributes(node, bound)
            if bound and is_reduce(node):
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

    def _redirect(self, node: NodeProto, called: tuple[str, str, str], path: str) -> int:
        """Make the call `node` one of a copy of the function `called`."""
        function = self._functions[called]
        _check_call(node, function)
        if called in self._open:
            raise ModelError(f"function {function.name!r} calls itself")
        bound = {a.name: a for a in (*function.attribute_proto, *node.attribute)}
        absent = frozenset(
            name
            for i, name in enumerate(function.input)
            if i >= len(node.input) or not node.input[i]
        )
        values = frozenset(
            a.SerializeToString(deterministic=True) for a in bound.values()
        )
        key = (called, values, absent)
        if key not in self._copies:
            self._open.append(called)
            path += f"{place(node)} > "
            self._copies[key] = self._copy(function, bound, absent, path)
            self._open.pop()
        inputs = [name for name in node.input if name]
        del node.input[:], node.attribute[:]
        node.input.extend(inputs)
        name, calls = self._copies[key]
        node.domain, node.op_type, node.overload = DOMAIN, name, ""
        return calls

    def _copy(
        self,
        function: FunctionProto,
        bound: _Attributes,
        absent: frozenset[str],
        path: str,
    ) -> tuple[str, int]:
        """Add to the model a copy with `bound` filled in; return name and calls."""
        copy = FunctionProto()
        copy.CopyFrom(function)
        copy.domain, copy.overload = DOMAIN, ""
        copy.name = f"{function.name}.{next(self._numbers)}"
        copy.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
        del copy.attribute[:], copy.attribute_proto[:], copy.input[:]
        copy.input.extend(name for name in function.input if name not in absent)
        for _, node in walk(copy.node):
            for i, name in enumerate(node.input):
                if name in absent:
                    node.input[i] = ""
        opsets = {entry.domain: entry.version for entry in copy.opset_import}
        calls = 1 + self.fill(copy.node, bound, opsets.get("", 0), path)
        self._model.functions.append(copy)
        return copy.name, calls


def _fill_attributes(node: NodeProto, bound: _Attributes | None) -> None:
    """Replace each reference to an attribute of the function by its value, if any."""
    for i in reversed(range(len(node.attribute))):
        attribute = node.attribute[i]
        if not attribute.ref_attr_name:
            continue
        if bound is None:
            raise ModelError(
                f"{place(node)}: attribute {attribute.name!r} refers to an attribute of "
                "a function; allowed: in a function only"
            )
        value = bound.get(attribute.ref_attr_name)
        if value is None:
            del node.attribute[i]
        else:
            name = attribute.name
            attribute.CopyFrom(value)
            attribute.name = name


def _check_call(node: NodeProto, function: FunctionProto) -> None:
    declared = [*function.attribute, *(a.name for a in function.attribute_proto)]
    here = f"{place(node)} (function {function.name!r}): "
    for attribute in node.attribute:
        if attribute.name not in declared:
            raise ModelError(
                f"{here}attribute {attribute.name!r} is not allowed; "
                f"allowed: {', '.join(map(repr, declared)) or 'none'}"
            )
    for what in ("input", "output"):
        given, allowed = len(getattr(node, what)), len(getattr(function, what))
        if given > allowed:
            raise ModelError(f"{here}has {given} {what}s; allowed: {allowed} at most")
