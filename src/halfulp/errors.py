"""The errors that halfulp raises, one small family.

Imports nothing of halfulp.
"""

from __future__ import annotations

_LONGEST = 1200  # characters of a message


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
    """ONNX Runtime is missing, too old, or does not load halfulp's library."""
