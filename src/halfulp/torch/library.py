"""PyTorch's operators of the native library: loaded when this module is.

May import errors and the native core only; and the package torch.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch

from halfulp import _core
from halfulp.errors import EngineError

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
    path = Path(_core.__file__).resolve().parent / "lib/libhalfulp_torch.so"
    if not path.is_file():
        raise EngineError(f"the library {str(path)!r} does not exist")
    return str(path)


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
