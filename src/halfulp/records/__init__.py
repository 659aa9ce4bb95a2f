"""What others wrote and showed, as data with its sources: documented texts and examples,
public reports, and what is known to fail in other backends.

Imports nothing of halfulp.
"""

from __future__ import annotations

import importlib.resources
import json
from functools import cache
from typing import Any


@cache
def load(name: str) -> Any:
    """Return the content of a file here, given without its suffix .json."""
    file = importlib.resources.files("halfulp.records") / f"{name}.json"
    return json.loads(file.read_text("utf-8"))
