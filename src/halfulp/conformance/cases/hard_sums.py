"""A kind of sum that is hard to get right, wherever it lies.

Imports nothing of halfulp but bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from halfulp.conformance.bits import Array

# From random numbers and a number of elements: those that make a sum hard, and the
# others. There are more in all where that many are too few.
Elements = Callable[[np.random.Generator, int], tuple[Array, Array]]


@dataclass(frozen=True, slots=True)
class HardSum:
    """A kind of sum that is hard to get right.

    Attributes
    ----------
    class_name : str
    kind : str
        Within the class.
    elements : Elements
    note : str, optional
    length : int, optional
        The number of elements, if it is always the same.
    """

    class_name: str
    kind: str
    elements: Elements
    note: str = ""
    length: int | None = None
