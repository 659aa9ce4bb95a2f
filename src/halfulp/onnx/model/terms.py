"""What the terms of reductions are in ONNX's other operators, and in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx import NodeProto

from halfulp.reductions import Term


@dataclass(frozen=True, slots=True)
class TermInOnnx:
    """A term as a node of its own.

    Attributes
    ----------
    noun, participle : str
        "square", "squared".
    operator : str
        ONNX's name.
    inputs : callable
        From the name of the data to the inputs of the node.
    """

    noun: str
    participle: str
    operator: str
    inputs: Callable[[str], list[str]]

    def node(
        self, data: str, output: str, domain: str, name: str | None = None
    ) -> NodeProto:
        """Return the node."""
        return NodeProto(
            op_type=self.operator,
            domain=domain,
            name=name,
            input=self.inputs(data),
            output=[output],
        )

    @property
    def text(self) -> str:
        """The node in ONNX's text format, of a value called data."""
        return f"{self.operator}({', '.join(self.inputs('data'))})"


TERMS: dict[Term, TermInOnnx] = {
    "square": TermInOnnx("square", "squared", "Mul", lambda data: [data, data]),
    "magnitude": TermInOnnx("magnitude", "made positive", "Abs", lambda data: [data]),
    "value": TermInOnnx("value", "left as it is", "Identity", lambda data: [data]),
}
