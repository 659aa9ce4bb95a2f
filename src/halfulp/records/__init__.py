"""Cases as data, with where they come from: documented examples, public reports, and what
is known to fail elsewhere.

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
    file = importlib.resources.files("halfulp.cases") / f"{name}.json"
    return json.loads(file.read_text("utf-8"))
