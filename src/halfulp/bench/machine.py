"""What a measurement depends on: the machine, its settings, and versions.

May import halfulp itself only.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import halfulp

# Settings of BLAS that slow down some versions of NumPy.
SLOWING_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def describe(libraries: Iterable[str]) -> dict[str, Any]:
    """Return the machine, the date and the versions of libraries.

    Parameters
    ----------
    libraries : iterable of str
        Names of distributions; those that are not installed are left out.

    Returns
    -------
    dict
        Only of what JSON has. What the system does not tell is left out.
    """
    facts = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor(),
        "architecture": platform.machine(),
        "cores": core_count(),
        "caches": _caches(),
        "memory_bytes": memory_bytes("MemTotal"),
        "load_average": os.getloadavg()[0],
        "system": _system(),
        "python": platform.python_version(),
        "versions": _versions(["numpy", *libraries]),
        "blas": _blas(),
        "halfulp": halfulp.build_info(),
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name in SLOWING_VARIABLES or name.startswith("HALFULP_")
        },
    }
    return {name: value for name, value in facts.items() if value}


def core_count() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes(name: str, path: str = "/proc/meminfo") -> int | None:
    """Return a figure that the system tells in KiB, in bytes; None where it does not."""
    text = _field(path, name)
    return int(text.split()[0]) * 1024 if text else None


def _field(path: str, name: str) -> str:
    """The first value of a field in a file of lines "name: value"."""
    for line in _read(Path(path)).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _caches() -> dict[str, str]:
    caches = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_read(folder / n) for n in ("level", "type", "size"))
        if size and kind != "Instruction":
            caches[f"L{level}"] = size
    return caches


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform()
    return f"{name}, {platform.system()} {platform.release()}"


def _versions(names: Iterable[str]) -> dict[str, str]:
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _blas() -> str:
    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', '')} {blas.get('version', '')}".strip()
