"""What ONNX says of its operators as data, and the rules of those that reduce.

Public names only. Their modules are loaded when one is first used: ``import halfulp``
needs the rules alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halfulp.spec.differences import Change, Difference, TextDifference, diff
    from halfulp.spec.schemas import (
        Attribute,
        FunctionBody,
        Parameter,
        Schema,
        TypeConstraint,
        schema,
        versions,
    )

__all__ = [
    "Attribute",
    "Change",
    "Difference",
    "FunctionBody",
    "Parameter",
    "Schema",
    "TextDifference",
    "TypeConstraint",
    "diff",
    "schema",
    "versions",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        from halfulp.spec import differences, schemas

        home = schemas if hasattr(schemas, name) else differences
        return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
