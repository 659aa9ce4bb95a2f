"""The library of operators, where PyTorch is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from halfulp import _core

LIBRARY = Path(_core.__file__).parent / "lib/libhalfulp_torch.so"


def test_without_pytorch_it_loads_and_says_what_is_missing() -> None:
    code = f"""
import ctypes
error = ctypes.CDLL({str(LIBRARY)!r}).halfulp_torch_error
error.restype = ctypes.c_char_p
print(error().decode())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "PyTorch has no libtorch_cpu loaded; allowed: PyTorch 2.10 and later\n"
    )
