"""Turns whatever goes wrong below into one error of halfulp, of one line.

May import errors and limits only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from halfulp import limits
from halfulp.errors import HalfulpError, ModelError

# What to do with an error of a node, given how errors name the node.
OnError = Callable[[str, HalfulpError], None]

# Messages of onnx may quote a whole model.
_LONGEST = 300


def raise_error(place: str, error: HalfulpError) -> None:
    """Raise `error`: the first error of a model is its last."""
    raise error


def one_line(text: str) -> str:
    """Return `text` as one line of printable characters, cut where it is long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"


def shortened(text: str, most: int) -> str:
    """Return `text`; if it has more than `most` characters, what differs from others."""
    if len(text) <= most:
        return text
    mark = hashlib.blake2b(text.encode(errors="replace"), digest_size=4).hexdigest()
    return f"{text[: most // 2]}…{mark}…{text[-most // 4 :]}"


def reason(error: BaseException) -> str:
    """Say in one line why `error` was raised: what its first cause says."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, MemoryError):
        what = one_line(str(error))
        return f"not enough memory{what and f': {what}'}{limits.memory_allowed()}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return one_line(f"{type(error).__name__}: {error}")


def halfulp_error(error: BaseException) -> HalfulpError | None:
    """Return the error of halfulp that `error` is, or that caused it."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, HalfulpError):
        cause = cause.__cause__
    return cause


@contextmanager
def model_errors(what: str) -> Iterator[None]:
    """Raise a ModelError "`what`: reason" for any exception of the block.

    An error of halfulp passes, out of exceptions that onnx wrapped around it too.
    """
    try:
        yield
    except HalfulpError:
        raise
    except Exception as error:
        known = halfulp_error(error)
        if known is not None:
            raise known from None
        raise ModelError(f"{what}: {reason(error)}") from error
