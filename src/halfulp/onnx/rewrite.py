"""What fusing and expanding share: the report, and the names in a graph.

May import files, nodes, scopes and survey only.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from halfulp.onnx.files import load_model
from halfulp.onnx.nodes import constant, opset_of, subgraphs
from halfulp.onnx.scopes import inferred
from halfulp.onnx.survey import survey

# Where nodes stand.
Body = GraphProto | FunctionProto


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place in a model that was looked at.

    Attributes
    ----------
    node : str
        The ReduceSum or ReduceSumSquare, named as errors name it.
    done : bool
        Whether it was rewritten.
    reason : str
        Out of which nodes, or into which; or why not.
    """

    node: str
    done: bool
    reason: str


@dataclass(frozen=True, slots=True)
class RewriteReport:
    """What `fuse` or `expand` did; `str` of it can be read, `as_dict` be JSON.

    Attributes
    ----------
    action : {"fused", "expanded"}
    candidates : tuple of Candidate
        In the order of the model.
    """

    action: Literal["fused", "expanded"]
    candidates: tuple[Candidate, ...]

    @property
    def done(self) -> int:
        """How many of the candidates were rewritten."""
        return sum(candidate.done for candidate in self.candidates)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {"done": self.done, **asdict(self)}

    def __str__(self) -> str:
        lines = [f"{self.action} {self.done} of {len(self.candidates)}"]
        for candidate in self.candidates:
            done = self.action if candidate.done else f"not {self.action}"
            lines.append(f"{candidate.node}: {done}, {candidate.reason}")
        return "\n".join(lines)


def typed_bodies(model: ModelProto) -> Iterator[tuple[Body, GraphProto, str, int]]:
    """Yield the graph of `model` and its functions, once the model is checked.

    After each comes a graph with the same nodes and the types that are known, the
    path to its nodes, and the opset: 0 where none of ONNX's operators stands.

    Raises
    ------
    HalfulpError
        If the model breaks a rule.
    """
    checked = load_model(model)
    survey(checked)
    yield model.graph, inferred(checked).graph, "", opset_of(model) or 0
    for function in model.functions:
        typed = GraphProto(node=function.node, value_info=function.value_info)
        typed.input.extend(ValueInfoProto(name=name) for name in function.input)
        yield function, typed, f"function {function.name!r} > ", opset_of(function) or 0


def outputs(body: Body) -> list[str]:
    """Return the names of the outputs."""
    if isinstance(body, FunctionProto):
        return list(body.output)
    return [value.name for value in body.output]


def reads(body: Body) -> Counter[str]:
    """Count how often each name is read, by outputs and nested graphs too."""
    found = Counter(outputs(body))
    for node in body.node:
        found.update(node.input)
        for _, graph in subgraphs(node):
            found.update(reads(graph))
    return found


def replace_nodes(body: Body, nodes: Iterable[NodeProto]) -> None:
    """Let `body` have `nodes`, which may be its own."""
    new = GraphProto(node=nodes)
    del body.node[:]
    body.node.extend(new.node)


def forget_values(body: Body, names: set[str]) -> None:
    """Remove the declared types of values that are gone."""
    kept = GraphProto(value_info=[v for v in body.value_info if v.name not in names])
    del body.value_info[:]
    body.value_info.extend(kept.value_info)


def remove_unread_constants(body: Body, names: set[str]) -> None:
    """Remove those of the constants `names` that nothing reads."""
    for node in body.node:
        for _, graph in subgraphs(node):
            remove_unread_constants(graph, names)
    unread = names - reads(body).keys()
    replace_nodes(
        body,
        [n for n in body.node if constant(n) is None or n.output[0] not in unread],
    )
    if isinstance(body, GraphProto):
        kept = GraphProto(
            initializer=[t for t in body.initializer if t.name not in unread]
        )
        del body.initializer[:]
        body.initializer.extend(kept.initializer)
    forget_values(body, unread)


class FreshNames:
    """Names that a model does not have yet."""

    def __init__(self, model: ModelProto) -> None:
        self._taken: set[str] = set()
        for body in (model.graph, *model.functions):
            self._take(body)

    def _take(self, body: Body) -> None:
        self._taken.update(outputs(body))
        if isinstance(body, FunctionProto):
            self._taken.update(body.input)
        else:
            self._taken.update(value.name for value in body.input)
            self._taken.update(tensor.name for tensor in body.initializer)
            self._taken.update(tensor.values.name for tensor in body.sparse_initializer)
        for node in body.node:
            self._taken.update((node.name, *node.input, *node.output))
            for _, graph in subgraphs(node):
                self._take(graph)

    def fresh(self, wanted: str) -> str:
        """Return `wanted`, with a number if it is taken, and take it."""
        name = wanted
        for number in itertools.count(1):
            if name not in self._taken:
                break
            name = f"{wanted}.{number}"
        self._taken.add(name)
        return name
