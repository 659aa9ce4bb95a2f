"""What fusing and expanding share: the report, and what they find and leave in a graph.

May import bodies, files, inference, nodes and survey only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from onnx import GraphProto, ModelProto, ValueInfoProto

from halfulp.onnx.check.survey import survey
from halfulp.onnx.model.bodies import (
    Body,
    FreshNames,
    bodies,
    name_of,
    reads,
    remove,
    value_names,
)
from halfulp.onnx.model.files import load_model
from halfulp.onnx.model.inference import Inference
from halfulp.onnx.model.nodes import constant, function_label, opset_of, subgraphs, within


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
    yield model.graph, Inference(checked).graph, "", opset_of(model) or 0
    for function in model.functions:
        typed = GraphProto(node=function.node, value_info=function.value_info)
        typed.input.extend(ValueInfoProto(name=name) for name in function.input)
        path = within(function_label(function))
        yield function, typed, path, opset_of(function) or 0


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


def fresh_names(model: ModelProto) -> FreshNames:
    """Return what makes names that no value and no node of `model` has."""
    taken: set[str] = set()
    for body in (model.graph, *model.functions):
        taken.update(value_names(body))
        taken.update(node.name for each in bodies(body) for node in each.node)
    return FreshNames(taken, ".")
