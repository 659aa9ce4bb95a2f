"""Mean and deviation of an array far larger than memory on two Dask workers; print JSON.

    python benchmarks/larger_than_memory.py [GIB]        (default: 64)

No process may have more than 2 GiB of addresses (RLIMIT_AS, which workers inherit). Each
block is made by the task that reduces it, so that no disk is measured. Needs
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
    """Reduce, and compare with what eight values a block give at once, exactly."""
    blocks = gib * (1 << 30) // (4 * BLOCK)
    x = da.map_blocks(
        make, chunks=((BLOCK,) * blocks,), dtype="f4", meta=np.empty(0, "f4")
    )
    calls = {
        "halfulp.mean(x)": halfulp.mean(x),
        "x.mean()": x.mean(),
        "halfulp.std(x)": halfulp.std(x),
    }
    cluster_of = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    rows = []
    for call, lazy in calls.items():
        # A peak never falls, so each call has workers of its own.
        with (
            LocalCluster(memory_limit=None, **cluster_of) as cluster,
            Client(cluster) as client,
        ):
            start = time.perf_counter()
            result = client.compute(lazy).result()
            seconds = time.perf_counter() - start
            peak = max(client.run(_peak).values()) >> 10
        is_exact = (_is_std if "std" in call else _is_mean)(result, blocks)
        facts = {"result": str(result), "is_exact": is_exact, "seconds": seconds}
        rows.append({"call": call, "peak_mib": peak} | facts)
    state = halfulp.Moments("float").update(make((0,)))
    return {
        "command": " ".join(["python", *sys.argv]),
        "machine": describe(["dask", "distributed"]),
        "gib": gib,
        "blocks": blocks,
        "limit_gib": LIMIT >> 30,
        "rows": rows,
        "state_bytes": len(state.to_bytes()),
        "pickled_bytes": len(pickle.dumps(state, protocol=5)),
    }


def _moments(blocks: int) -> tuple[Fraction, Fraction]:
    """Return the exact means of the elements and of their squares."""
    each = [values(i) for i in range(blocks)]
    totals = (
        sum((exact(x) for x in each), Fraction(0))
        for exact in (halfulp.exact_sum, halfulp.exact_sum_square)
    )
    mean, square = (total / (8 * blocks) for total in totals)
    return mean, square


def _is_mean(result: Any, blocks: int) -> bool:
    return bool(result == round_exact(_moments(blocks)[0], "float32"))


def _is_std(result: Any, blocks: int) -> bool:
    """Tell whether the exact deviation lies between the midpoints beside a result."""
    mean, square = _moments(blocks)
    here = np.float32(result)
    beside = (np.nextafter(here, np.float32(end)) for end in (0, np.inf))
    low, high = ((Fraction(float(here)) + Fraction(float(b))) / 2 for b in beside)
    return low**2 < square - mean**2 < high**2


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    print(json.dumps(measure(int(sys.argv[1]) if sys.argv[1:] else 64), indent=1))
