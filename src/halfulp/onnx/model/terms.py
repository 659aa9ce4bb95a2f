"""Terms, and what single elements reduce to, as ONNX's other operators, and in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx import NodeProto

from halfulp.reductions import SUM, OfOne, Reduction


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


TERMS: dict[OfOne, TermInOnnx] = {
    "square": TermInOnnx("square", "squared", "Mul", lambda data: [data, data]),
    "magnitude": TermInOnnx("magnitude", "made positive", "Abs", lambda data: [data]),
    "log": TermInOnnx(
        "logarithm", "replaced by its logarithm", "Log", lambda data: [data]
    ),
    "value": TermInOnnx("value", "left as it is", "Identity", lambda data: [data]),
}

EXPONENTIAL = TermInOnnx("exponential", "raised", "Exp", lambda data: [data])


def summed_by(row: Reduction) -> TermInOnnx | None:
    """Return what a sum is of, as a node before a plain one; None: of the elements."""
    if row.operation == "exponentials":
        return EXPONENTIAL
    return None if row.term == SUM.term else TERMS[row.term]
