"""Other processes than this one."""

from __future__ import annotations

import time
from pathlib import Path


def children(pid: int) -> list[int]:
    """The children of a process."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def ended(pid: int) -> bool:
    """Wait a while for the end of a process that is no child of this one."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        # Nobody has waited for it yet.
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False
