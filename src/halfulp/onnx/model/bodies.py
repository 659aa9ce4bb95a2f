"""Graphs and functions as bodies of nodes: their names, and changing what they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onnx import FunctionProto, GraphProto

from halfulp.onnx.model.nodes import constant, subgraphs

# Where nodes stand.
Body = GraphProto | FunctionProto


def bodies(body: Body) -> Iterator[Body]:
    """Yield `body` and the graphs nested in it."""
    yield body
    for node in body.node:
        for _, graph in subgraphs(node):
            yield from bodies(graph)


def outputs(body: Body) -> list[str]:
    """Return the names of the outputs."""
    if isinstance(body, FunctionProto):
        return list(body.output)
    return [value.name for value in body.output]


def leaving(body: Body) -> Iterator[str]:
    """Yield each name that `body` itself gives away or annotates, nested graphs aside."""
    yield from outputs(body)
    if isinstance(body, GraphProto):
        for annotation in body.quantization_annotation:
            yield annotation.tensor_name
            yield from (e.value for e in annotation.quant_parameter_tensor_names)


def reads(body: Body) -> Counter[str]:
    """Count how often each name is read, by what leaves and in nested graphs too."""
    found: Counter[str] = Counter()
    for each in bodies(body):
        found.update(leaving(each))
        for node in each.node:
            found.update(node.input)
    return found


def value_names(body: Body) -> Iterator[str]:
    """Yield every name of a value, in nested graphs too."""
    yield from reads(body)
    for each in bodies(body):
        for node in each.node:
            yield from node.output
        yield from (value.name for value in each.value_info)
        if isinstance(each, FunctionProto):
            yield from each.input
        else:
            yield from (value.name for value in each.input)
            yield from (tensor.name for tensor in each.initializer)
            yield from (tensor.values.name for tensor in each.sparse_initializer)


class FreshNames:
    """Makes names that no value and no node of a body has, nor any nested there.

    Parameters
    ----------
    body : Body
    separator : str
        Between a name and what tells it from others.
    """

    def __init__(self, body: Body, separator: str) -> None:
        self._taken = set(value_names(body))
        self._taken.update(node.name for each in bodies(body) for node in each.node)
        self._separator = separator
        # By name wanted, the last number tried: the same may be wanted often.
        self._last: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        """Return `wanted`, with a number if it is taken, and take it."""
        name = wanted
        while name in self._taken:
            self._last[wanted] = self._last.get(wanted, 0) + 1
            name = f"{wanted}{self._separator}{self._last[wanted]}"
        self._taken.add(name)
        return name

    def derived(self, name: str, noun: str) -> str:
        """Return a fresh name for the `noun` of what is called `name`."""
        return self.fresh(f"{name}{self._separator}{noun}")


def replace(field: Any, new: Sequence[Any]) -> None:
    """Make `new`, some of which may be in it already, the content of a repeated field."""
    del field[:]
    field.extend(new)


def remove(field: Any, names: set[str], name: Callable[[Any], str | None]) -> set[str]:
    """Remove from a repeated field what has one of `names`; return those found."""
    found = names.intersection(map(name, field))
    if found:
        replace(field, [value for value in field if name(value) not in found])
    return found


def name_of(message: Any) -> str:
    """Return the name of a value, a tensor or a node."""
    return str(message.name)


def forget_values(body: Body, names: set[str]) -> None:
    """Remove the declared types of values that are gone."""
    remove(body.value_info, names, name_of)


def remove_unread_constants(body: Body, names: set[str]) -> None:
    """Remove those of the constants `names` that nothing reads."""
    for node in body.node:
        for _, graph in subgraphs(node):
            remove_unread_constants(graph, names)
    held = {
        name for node in body.node if constant(node) is not None for name in node.output
    }
    if isinstance(body, GraphProto):
        held.update(tensor.name for tensor in body.initializer)
    unread = (held & names) - reads(body).keys()
    remove(body.node, unread, lambda n: None if constant(n) is None else n.output[0])
    if isinstance(body, GraphProto):
        remove(body.initializer, unread, name_of)
    forget_values(body, unread)
