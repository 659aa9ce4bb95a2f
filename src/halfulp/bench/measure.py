"""Times one cell: the limit, halfulp and its peers take turns.

May import halfulp itself, reductions and, of bench, cells, machine, ours, peers,
results and values only.
"""

from __future__ import annotations

import dataclasses
import time
import timeit
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

import halfulp
from halfulp.bench.cells import SMALL_BYTES, TYPES, Cell
from halfulp.bench.machine import memory_bytes
from halfulp.bench.ours import ours
from halfulp.bench.peers import Peer
from halfulp.bench.results import (
    ALL_LIMIT,
    HALFULP,
    LIMIT,
    NO_PEERS,
    ONE_THREAD,
    ORDINARY,
    Measured,
)
from halfulp.bench.values import ordinary
from halfulp.reductions import Reduction

SMALL_CALLS = 20_000
# The array, the buffer of the limit, and a peer's square and its copy.
_ARRAYS_NEEDED = 4
# A peer this many times slower than the fastest one has few turns.
_HOPELESS = 4


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure.

    Attributes
    ----------
    repeats : int
        Turns that each has.
    turn_ns : int
        Nanoseconds that a turn lasts, unless one call lasts longer.
    hopeless_after : int
        Turns of a peer that is much slower than another.
    """

    repeats: int
    turn_ns: int
    hopeless_after: int


FULL = Effort(repeats=7, turn_ns=100_000_000, hopeless_after=2)
QUICK = Effort(repeats=3, turn_ns=25_000_000, hopeless_after=1)

_Time = Callable[[], float]


def measure(
    cell: Cell,
    reduction: Reduction,
    type_name: str,
    threads: int,
    peers: Iterable[Peer],
    effort: Effort,
) -> Measured:
    """Measure one reduction of one cell of one type.

    The limit is ``numpy.vdot`` of as many bytes of float64 with itself, on one
    thread whatever `threads` is; with more, those of as many threads are another. To be
    called where BLAS has one thread.

    Parameters
    ----------
    cell : Cell
    reduction : Reduction
    type_name : str
        The NumPy name of the type.
    threads : int
        For halfulp and for the peers that can be told.
    peers : iterable of Peer
        Those that are not exact are not measured in a cell of updates, nor in one of
        hard values, which is compared with an ordinary cell.
    effort : Effort

    Returns
    -------
    Measured
        A peer that raises is missing in it, with the reason.
    """
    element = TYPES[type_name]
    nbytes = cell.bytes_touched(element)
    result = Measured(cell.name, type_name, threads, nbytes, reduction=reduction.name)
    available = memory_bytes("MemAvailable")
    if available is not None and available < _ARRAYS_NEEDED * nbytes:
        result.skipped = (
            f"needs {_ARRAYS_NEEDED * nbytes >> 20} MiB of memory, "
            f"{available >> 20} MiB are free"
        )
        return result
    x = cell.build(element, reduction)
    calls = SMALL_CALLS if nbytes < SMALL_BYTES else 1
    same_bytes = ordinary(nbytes // 8, TYPES["float64"])
    is_ordinary = cell.values == "ordinary"
    with (
        halfulp.num_threads(threads),
        np.errstate(all="ignore"),
        ThreadPoolExecutor(threads) as pool,
    ):
        contestants = {
            LIMIT: timed("np.vdot(y, y)", {"np": np, "y": same_bytes}, calls),
            HALFULP: timed(*ours(cell, reduction, x), calls),
        }
        if threads > 1:
            contestants[ONE_THREAD] = halfulp.num_threads(1)(contestants[HALFULP])
            if calls == 1:
                parts = np.array_split(same_bytes, threads)
                reads = {"vdot": np.vdot, "parts": parts, "each": pool.map}
                contestants[ALL_LIMIT] = timed("[*each(vdot, parts, parts)]", reads, 1)
        if not is_ordinary:
            usual = dataclasses.replace(cell, values="ordinary").build(element, reduction)
            contestants[ORDINARY] = timed(*ours(cell, reduction, usual), calls)
        for peer in () if cell.update else peers:
            if not (is_ordinary or peer.is_exact) or not peer.applies(x, cell.axes):
                continue
            try:
                names = peer.prepare(x, cell.axes, threads)
                eval(peer.expression, dict(names))
            except Exception as error:  # whatever another library raises
                result.missing[peer.name] = reason(error)
            else:
                contestants[peer.name] = timed(peer.expression, names, calls)
        take_turns(contestants, effort, result.times)
    return result


def reason(error: Exception) -> str:
    """Return the first line of an error, cut to a readable length."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}"[:200]


def timed(expression: str, names: Mapping[str, Any], calls: int) -> _Time:
    """Return what tells the nanoseconds that a call takes, from a batch of calls."""
    timer = timeit.Timer(expression, timer=time.perf_counter_ns, globals=dict(names))
    return lambda: timer.timeit(calls) / calls


def take_turns(
    contestants: Mapping[str, _Time], effort: Effort, times: dict[str, list[float]]
) -> None:
    """Time the contestants in turns; add to `times` what each turn took."""
    for turn in range(effort.repeats):
        peers = times.keys() - NO_PEERS
        fastest = min((min(times[name]) for name in peers), default=0)
        for name, timed in contestants.items():
            if (
                turn >= effort.hopeless_after
                and name in peers
                and min(times[name]) > _HOPELESS * fastest
            ):
                continue
            times.setdefault(name, []).append(_turn(timed, effort.turn_ns))


def _turn(timed: _Time, turn_ns: int) -> float:
    """The best of the calls in one turn."""
    end = time.perf_counter_ns() + turn_ns
    best = timed()
    while time.perf_counter_ns() < end:
        best = min(best, timed())
    return best
