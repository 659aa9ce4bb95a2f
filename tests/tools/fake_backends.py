"""Backends with one fault each, for the tests of halfulp.conformance."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import halfulp.onnx.backend
from oracle import bits, from_bits

# In the command line of the process that `hangs` starts; another in each run of tests,
# whose children inherit it.
MARK = os.environ.setdefault("FAKE_BACKEND_MARK", f"for the tests of {os.getpid()}")


class Fake:
    """A backend whose right outputs a function changes."""

    def __init__(self, change: Callable[[np.ndarray], Any]) -> None:
        self._change = change

    def prepare(self, model: Any, device: str) -> Fake:
        assert device == "CPU"
        self._right = halfulp.onnx.backend.prepare(model)
        return self

    def run(self, inputs: list[Any]) -> Any:
        return self._change(self._right.run(inputs)[0])


def _raise(y: np.ndarray) -> Any:
    raise NotImplementedError("no kernel\nfor this")


def _hang(y: np.ndarray) -> Any:
    # So does a process that it starts, which must end too.
    code = f"import time; time.sleep(600)  # {MARK}"
    subprocess.run([sys.executable, "-c", code], check=False)


def _hang_on_scalars(y: np.ndarray) -> Any:
    if y.ndim == 0:
        time.sleep(600)
    return (y,)


def _crash_on_scalars(y: np.ndarray) -> Any:
    if y.ndim == 0:
        print("about to fall", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    return (y,)


def _print(y: np.ndarray) -> Any:
    print("text among the answers", flush=True)
    os.write(1, b"and more\n")
    return (y,)


right = Fake(lambda y: (y,))
one_ulp_high = Fake(lambda y: (from_bits(bits(y) + 1, y.dtype),))
wrong_value = Fake(lambda y: (y + y.dtype.type(1) if y.dtype.kind in "iu" else -y,))
wrong_shape = Fake(lambda y: (y[np.newaxis],))
wrong_type = Fake(lambda y: (y.astype(np.complex64),))
no_onnx_type = Fake(lambda y: (y.astype(object),))
two_outputs = Fake(lambda y: (y, y))
no_output = Fake(lambda y: ())
raises = Fake(_raise)
exits = Fake(lambda y: sys.exit(7))
hangs = Fake(_hang)
hangs_on_scalars = Fake(_hang_on_scalars)
crashes_on_scalars = Fake(_crash_on_scalars)
prints = Fake(_print)
no_backend = object()
