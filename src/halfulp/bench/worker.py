"""The process that measures: it answers what child.py asks, a job at a time.

May import children and the modules that measure. BLAS has one thread here.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from halfulp import children
from halfulp.bench.accuracy import errors_of
from halfulp.bench.cells import CELLS
from halfulp.bench.measure import Effort, measure
from halfulp.bench.memory import extra_memory
from halfulp.bench.peers import PEERS


def _speed(job: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    peers = [peer for peer in PEERS if peer.name in options["peers"]]
    effort = Effort(**options["effort"])
    measured = measure(CELLS[job["cell"]], job["type"], job["threads"], peers, effort)
    return [dataclasses.asdict(measured)]


def _memory(job: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    return extra_memory(CELLS[job["cell"]], job["type"], job["threads"])


def _accuracy(job: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    peers = [peer for peer in PEERS if peer.name in options["peers"]]
    rows = errors_of(job["type"], job["values"], job["n"], peers)
    return [dataclasses.asdict(row) for row in rows]


def _onnxruntime(job: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    from halfulp.bench.sessions import measure_sessions

    effort = Effort(**options["effort"])
    measured = measure_sessions(CELLS[job["cell"]], job["type"], job["threads"], effort)
    return [dataclasses.asdict(measured)]


_KINDS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], Any]] = {
    "speed": _speed,
    "memory": _memory,
    "accuracy": _accuracy,
    "onnxruntime": _onnxruntime,
}


def main() -> None:
    """Answer requests."""
    warnings.simplefilter("ignore")
    parent = children.parent()
    for (kind, job, options), _ in parent:
        parent.send(_KINDS[kind](job, options))


if __name__ == "__main__":
    main()
