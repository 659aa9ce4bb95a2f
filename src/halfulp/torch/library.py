"""PyTorch's operators of the native library: loaded when this module is.

May import errors and native_library only; and the package torch.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from halfulp.errors import EngineError
from halfulp.native_library import native_library

__all__ = ["OPERATORS", "library_path"]


def library_path() -> str:
    """Return the path of the library, for ``torch.ops.load_library``.

    Returns
    -------
    str
        Absolute. The library depends neither on Python nor on one release of PyTorch:
        a program in C++ may load it after LibTorch, of 2.10 or later.

    Raises
    ------
    EngineError
        If this installation has none.
    """
    return native_library("torch")


def _load() -> Any:
    """Load the library; return the namespace of its operators."""
    path = library_path()
    torch.ops.load_library(path)
    error = ctypes.CDLL(path).halfulp_torch_error
    error.restype = ctypes.c_char_p
    message = error()
    if message is not None:
        raise EngineError(f"torch {torch.__version__}: {message.decode()}")
    return torch.ops.halfulp


#: The namespace ``torch.ops.halfulp``.
OPERATORS: Any = _load()
