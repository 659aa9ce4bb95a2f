"""The errors that halfulp raises, one small family.

Imports nothing of halfulp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_LONGEST = 1200  # characters of a message
_LONGEST_VALUE = 80  # of a value in it


class HalfulpError(Exception):
    """Base of every error that halfulp raises on purpose.

    The message is one line. It names what was given, what is allowed and,
    inside a model, the node, operator and version. Where names in a model make it
    longer than 1200 characters, its middle is left out.
    """

    def __init__(self, message: str = "") -> None:
        if len(message) > _LONGEST:
            message = f"{message[: _LONGEST - 200]} … {message[-180:]}"
        super().__init__(message)


def shown(value: object, write: Callable[[Any], str] = repr) -> str:
    """Return how an error names a value: in one line that is not long.

    Whatever the value is: writing it may fail, as of an integer of many digits.
    """
    try:
        text = write(value)
    except Exception:
        return f"a {type(value).__name__} that cannot be shown"
    if not text.isprintable():
        text = " ".join(text.split())
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


class UnsupportedTypeError(HalfulpError, TypeError):
    """The data is not an array of one of the eight element types."""


class AxesError(HalfulpError, ValueError):
    """Axes are out of range, repeated, or not a list of integers."""


class ArgumentError(HalfulpError, ValueError):
    """Another argument has a value that is not allowed."""


class SumOverflowError(HalfulpError, OverflowError):
    """An exact integer result does not fit its type and ``overflow="raise"``."""


class ModelError(HalfulpError, ValueError):
    """A model, a node or an input file cannot be read or breaks its rules."""


class EngineError(HalfulpError, RuntimeError):
    """ONNX Runtime or PyTorch is missing, too old, or does not load halfulp's library."""
