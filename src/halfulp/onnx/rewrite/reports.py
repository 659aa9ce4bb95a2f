"""What rewriting a model tells of what it did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from onnx import ModelProto


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place in a model that was looked at.

    Attributes
    ----------
    node : str
        The last of the nodes that were, or could have been, replaced; named as errors
        name it.
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


def said_together(names: Iterable[str]) -> str:
    """Return several names as text has them."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


@dataclass(frozen=True, slots=True)
class ConvertedNode:
    """What became of one node.

    Attributes
    ----------
    node : str
        How errors name it.
    old, new : str
        Operators with their versions.
    how : str
        What is written otherwise; empty where nothing is.
    exact : bool
        False if terms and their sum are now rounded by whatever runs the model.
    """

    node: str
    old: str
    new: str
    how: str = ""
    exact: bool = True


@dataclass(slots=True)
class Conversion:
    """A converted model, and what was done.

    Attributes
    ----------
    model : onnx.ModelProto
    opsets : tuple of int or None
        Those of ONNX's domain before and after; None where the model imports none.
    changes : list of ConvertedNode
        A line for each node that has another version now.
    warnings : list of str
    """

    model: ModelProto
    opsets: tuple[int | None, int]
    changes: list[ConvertedNode] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
