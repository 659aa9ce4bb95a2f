"""The names that pickles of version 0.1 hold: sums were in a module of this name.

May import exact_sums only. Nothing here imports it.
"""

from __future__ import annotations

from halfulp.exact_sums import SumSquare
from halfulp.exact_sums import _loaded as _from_bytes

__all__ = ["SumSquare", "_from_bytes"]
