"""Where an installation has the libraries that other programs load.

May import errors and the native core only.
"""

from __future__ import annotations

from pathlib import Path

from halfulp import _core
from halfulp.errors import EngineError


def native_library(program: str) -> str:
    """Return the path of the library for a program: "onnxruntime" or "torch".

    Raises
    ------
    EngineError
        If this installation has none.
    """
    path = Path(_core.__file__).resolve().parent / f"lib/libhalfulp_{program}.so"
    if not path.is_file():
        raise EngineError(f"the library {str(path)!r} does not exist")
    return str(path)
