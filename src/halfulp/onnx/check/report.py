"""What `check_model` returns."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

from halfulp.onnx.model.tensors import Shape


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong, or not portable.

    Attributes
    ----------
    node : str
        The node, named as errors name it.
    severity : {"error", "warning"}
    code : str
        One of those that `check_model` lists.
    message : str
    fix : str
        What to do about it.
    """

    node: str
    severity: Literal["error", "warning"]
    code: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node that reduces means.

    Attributes
    ----------
    node : str
        As errors name it, after the calls of functions that lead to it.
    operator : str
        ONNX's name.
    version, opset : int
        The version of the operator, and the opset that decides it.
    element_type : str or None
        ONNX's name. This and what follows is None where it is not known before the
        model runs, or where an error hides it.
    axes : tuple of int or None
        As given.
    axes_meaning : str
        Which axes are reduced, in words.
    keepdims, noop_with_empty_axes : bool or None
    input_shape, output_shape : tuple of int, str or None; or None
        Numbers, symbols, and None for a dimension that is not known.
    """

    node: str
    operator: str
    version: int
    opset: int
    element_type: str | None
    axes: tuple[int, ...] | None
    axes_meaning: str
    keepdims: bool | None
    noop_with_empty_axes: bool | None
    input_shape: Shape | None
    output_shape: Shape | None


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `check_model` found; `str` of it can be read, `as_dict` be JSON.

    Attributes
    ----------
    nodes : tuple of NodeFacts
        In the order of the model.
    findings : tuple of Finding
        Errors first.
    """

    nodes: tuple[NodeFacts, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """The number of warnings."""
        return len(self.findings) - self.errors

    @property
    def operators(self) -> dict[str, int]:
        """How many nodes of each operator there are, in the order of the model."""
        return dict(Counter(node.operator for node in self.nodes))

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {"errors": self.errors, "warnings": self.warnings, **asdict(self)}

    def __str__(self) -> str:
        said = [f"{count} {name}" for name, count in self.operators.items()]
        lines = [
            f"{', '.join(said) or 'nothing reduces'}; errors: {self.errors}, "
            f"warnings: {self.warnings}"
        ]
        for finding in self.findings:
            lines.append(
                f"{finding.severity} {finding.code}: {finding.node}: {finding.message}. "
                f"{finding.fix}"
            )
        return "\n".join(lines)
