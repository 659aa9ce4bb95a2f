"""The process that measures: it answers what child.py asks, a job at a time.

May import children, reductions and the modules that measure. BLAS has one thread here.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from halfulp import children
from halfulp.bench.accuracy import errors_of
from halfulp.bench.cells import CELLS, ROWS, Cell
from halfulp.bench.measure import Effort, measure
from halfulp.bench.memory import extra_memory
from halfulp.bench.peers import peers_of
from halfulp.reductions import Reduction


def _of(job: Mapping[str, Any]) -> tuple[Cell, Reduction, str, int]:
    return CELLS[job["cell"]], ROWS[job["reduction"]], job["type"], job["threads"]


def _speed(job: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    peers = peers_of(job["reduction"], options["peers"])
    measured = measure(*_of(job), peers, Effort(**options["effort"]))
    return [dataclasses.asdict(measured)]


def _memory(job: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    return extra_memory(*_of(job))


def _accuracy(job: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    peers = peers_of(job["reduction"], options["peers"])
    rows = errors_of(ROWS[job["reduction"]], job["type"], job["values"], job["n"], peers)
    return [dataclasses.asdict(row) for row in rows]


def _onnxruntime(job: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    from halfulp.bench.sessions import measure_sessions

    measured = measure_sessions(*_of(job), Effort(**options["effort"]))
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
