"""The command ``halfulp info``: show versions, instruction sets and threads.

May import terminal.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform

import halfulp
from halfulp.terminal import AsJson


def info(as_json: AsJson = False) -> None:
    """Show versions, instruction sets and threads."""
    build = halfulp.build_info()
    facts = {
        "halfulp": build["version"],
        "kernels_chosen": build["target"],
        "kernels_available": build["targets"],
        "prefetch_distance": build["prefetch_distance"],
        "threads": build["threads"],
        "onnx": importlib.metadata.version("onnx"),
        "onnxruntime": _version("onnxruntime"),
        "numpy": importlib.metadata.version("numpy"),
        "python": platform.python_version(),
    }
    if as_json:
        print(json.dumps(facts))
        return
    for key, value in facts.items():
        text = ", ".join(value) if isinstance(value, list) else value
        print(f"{key.replace('_', ' '):18} {text}")


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
