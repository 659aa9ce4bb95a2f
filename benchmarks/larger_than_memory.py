"""Sum the squares of an array far larger than memory on two Dask workers; print JSON.

    python benchmarks/larger_than_memory.py [GIB]        (default: 128)

No process may have more than 2 GiB of addresses (RLIMIT_AS, which workers inherit). Each
block is made by the task that sums it, so that no disk is measured. Needs
dask.distributed, which `make scale` installs.
"""

from __future__ import annotations

import json
import pickle
import resource
import sys
import time
from fractions import Fraction
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import halfulp
from halfulp.bench.machine import describe
from halfulp.exact import round_exact

LIMIT = 2 << 30
BLOCK = 32 << 20  # elements of a block: 128 MiB


def values(block: int) -> np.ndarray:
    """The eight values of which a block is made, in no particular order."""
    rng = np.random.default_rng(block)
    return (rng.standard_normal(8) * 2.0 ** rng.integers(-4, 5, 8)).astype(np.float32)


def make(block_id: tuple[int, ...]) -> np.ndarray:
    """One block."""
    return np.tile(values(block_id[0]), BLOCK // 8)


def measure(gib: int) -> dict[str, Any]:
    """Sum, and compare with the exact sum, which eight values a block give at once."""
    blocks = gib * (1 << 30) // (4 * BLOCK)
    x = da.map_blocks(
        make, chunks=((BLOCK,) * blocks,), dtype="f4", meta=np.empty(0, "f4")
    )
    cluster_of = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        LocalCluster(memory_limit=None, **cluster_of) as cluster,
        Client(cluster) as client,
    ):
        start = time.perf_counter()
        result = client.compute(halfulp.sum_square(x)).result()
        seconds = time.perf_counter() - start
        peaks = client.run(_peak)
        start = time.perf_counter()
        ordinary = client.compute((x * x).sum()).result()
        ordinary_seconds = time.perf_counter() - start
    exact = sum(
        (halfulp.exact_sum_square(values(i)) * (BLOCK // 8) for i in range(blocks)),
        Fraction(0),
    )
    state = halfulp.SumSquare("float").update(make((0,)))
    return {
        "command": " ".join(["python", *sys.argv]),
        "machine": describe(["dask", "distributed"]),
        "gib": gib,
        "blocks": blocks,
        "limit_gib": LIMIT >> 30,
        "seconds": seconds,
        "peak_mib": max(peaks.values()) >> 10,
        "is_exact": bool(result == round_exact(exact, "float32")),
        "result": str(result),
        "ordinary": str(ordinary),
        "ordinary_seconds": ordinary_seconds,
        "state_bytes": len(state.to_bytes()),
        "pickled_bytes": len(pickle.dumps(state, protocol=5)),
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    print(json.dumps(measure(int(sys.argv[1]) if sys.argv[1:] else 128), indent=1))
