"""Arrays of other libraries, which halfulp reads through DLPack."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from halfulp import _core
from oracle import BFLOAT16


class Exporter:
    """An array that another library only gives, on top of NumPy's DLPack."""

    def __init__(self, array: np.ndarray, device: int = 1) -> None:
        self.array = array
        self.device = device

    def __dlpack__(self, **arguments: Any) -> Any:
        if self.array.dtype == BFLOAT16:  # NumPy exports no bfloat16
            return _core.export_dlpack(self.array).__dlpack__(**arguments)
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)


class Foreign(Exporter):
    """An array of another library, which takes arrays too."""

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(
            from_dlpack=lambda x: Foreign(_core.import_dlpack(x.__dlpack__()))
        )
