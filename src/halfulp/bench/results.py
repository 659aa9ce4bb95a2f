"""What was measured, and what follows from it by division; as JSON and back.

May import errors, input, output and reductions only.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from halfulp.errors import ArgumentError
from halfulp.input import read_whole
from halfulp.output import STDIO, read_stdin
from halfulp.reductions import SUM_SQUARE

SCHEMA = 2
_MOST_BYTES = 2**26  # of a benchmark

# Who has times, besides peers: the limit, and that of as many threads; halfulp, and on
# one thread, where it has more; and on ordinary values, where these are hard.
LIMIT = "limit"
ALL_LIMIT = "limit, as many threads"
HALFULP = "halfulp"
ONE_THREAD = "halfulp, one thread"
ORDINARY = "halfulp, ordinary values"
# The peer beside which halfulp runs inside of the same runtime.
RUNTIME = "onnxruntime"
# Peers made to round the exact sum once, which the others need not be as slow as.
EXACT = {"xsum", "math.fsum", "bitrep"}
NO_PEERS = {LIMIT, ALL_LIMIT, HALFULP, ONE_THREAD, ORDINARY}


@dataclass(slots=True)
class Measured:
    """The times of one reduction, cell, type and number of threads.

    Attributes
    ----------
    cell, type : str
    threads : int
    nbytes : int
        Of memory that one call passes over.
    times : dict
        From who was timed, as above or a peer, to nanoseconds per call: one for
        each repeat, the best of the calls in it.
    missing : dict
        From names of peers to the reason why they have no times.
    skipped : str
        Why nothing was measured, if so.
    extra_memory : int, optional
        Bytes beyond the result that one call took.
    reduction : str
    """

    cell: str
    type: str
    threads: int
    nbytes: int
    times: dict[str, list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    skipped: str = ""
    extra_memory: int | None = None
    reduction: str = SUM_SQUARE.name

    def best(self, name: str = HALFULP) -> float:
        """Return the shortest time of a call, in nanoseconds."""
        return min(self.times[name])

    @property
    def speed(self) -> float:
        """Of halfulp, in GB/s."""
        return self.nbytes / self.best()

    @property
    def of_limit(self) -> float:
        """The speed of halfulp, as a fraction of the limit."""
        return self.best(LIMIT) / self.best()

    @property
    def peers(self) -> list[str]:
        """The peers that have times and are not exact, the fastest first."""
        return sorted(self.times.keys() - NO_PEERS - EXACT, key=self.best)

    def ratio_to(self, name: str) -> float:
        """Return how many times faster than another halfulp is."""
        return self.best(name) / self.best()


@dataclass(slots=True)
class Errors:
    """The errors of one way on random arrays of one type and size.

    Attributes
    ----------
    type, values, who : str
        The type, the distribution of the values, and halfulp or a peer.
    n : int
        Elements of an array.
    ulps : list of float
        For each array, the error in units in the last place of the exact sum.
    missing : str
        Why there are no errors, if so.
    reduction : str
    """

    type: str
    values: str
    who: str
    n: int
    ulps: list[float] = field(default_factory=list)
    missing: str = ""
    reduction: str = SUM_SQUARE.name


@dataclass(slots=True)
class Benchmark:
    """All that a run of `halfulp bench` measured.

    Attributes
    ----------
    kind : {"speed", "accuracy", "onnxruntime"}
    command : str
        What to type to run it again.
    machine : dict
        As `machine.describe` returns it.
    settings : dict
        "peers", from reductions to names to what was evaluated; and how long was
        measured.
    rows : list of Measured or Errors
    """

    kind: str
    command: str
    machine: dict[str, Any]
    settings: dict[str, Any]
    rows: list[Any]


_ROWS = {"speed": Measured, "accuracy": Errors, "onnxruntime": Measured}


def to_json(benchmark: Benchmark) -> str:
    """Return a benchmark as one JSON object."""
    content = {"schema": SCHEMA, **dataclasses.asdict(benchmark)}
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def row_from(kind: str, values: Mapping[str, Any]) -> Any:
    """Return the row of a kind of benchmark whose attributes are given."""
    return _ROWS[kind](**values)


def load(path: Path) -> Benchmark:
    """Return the benchmark that `to_json` wrote; of "-", from stdin.

    Raises
    ------
    ModelError
        If the file cannot be read.
    ArgumentError
        If it holds something else.
    """
    text = read_stdin() if path == STDIO else read_whole(path, _MOST_BYTES)
    try:
        content = json.loads(text)
        schema = content.pop("schema")
        if schema not in (1, SCHEMA):
            raise ValueError(f"its schema is not {SCHEMA}")
        benchmark = Benchmark(**content)
        if schema == 1:  # which had no other reduction
            peers = benchmark.settings["peers"]
            benchmark.settings["peers"] = {SUM_SQUARE.name: peers}
        benchmark.rows = [row_from(benchmark.kind, row) for row in benchmark.rows]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ArgumentError(f"{str(path)!r} holds no benchmark run: {error}") from error
    return benchmark


def joined(runs: Sequence[Benchmark]) -> Benchmark:
    """Return one with the rows of several, each with the turns of all: the best of more.

    The machine and how long was measured are those of the first.

    Raises
    ------
    ArgumentError
        If the runs differ in more than when they were made, and how long.
    """
    first, *others = runs
    rows = {_key(row): row for row in first.rows}
    for benchmark in others:
        for name in ("cpu", "python", "versions", "halfulp"):
            ours, theirs = (r.machine.get(name) for r in (first, benchmark))
            if ours != theirs:
                raise ArgumentError(f"runs differ in {name}: {ours} and {theirs}")
        for row in benchmark.rows:
            if rows.setdefault(_key(row), row) is row:
                continue
            known = rows[_key(row)]
            times = known.times
            if known.extra_memory is None:
                known.extra_memory = row.extra_memory
            if times.keys() != row.times.keys():
                raise ArgumentError(
                    f"runs timed {sorted(times)} and {sorted(row.times)}; "
                    "allowed: the same peers"
                )
            for name, turns in row.times.items():
                times[name] = times[name] + turns
    made = [benchmark.machine["date"] for benchmark in runs]
    dates = min(made), max(made)
    peers: dict[str, dict[str, str]] = {}
    for benchmark in runs:
        for name, ways in benchmark.settings["peers"].items():
            peers[name] = peers.get(name, {}) | ways
    return dataclasses.replace(
        first,
        command="; ".join(dict.fromkeys(run.command for run in runs)),
        machine=first.machine | {"date": " to ".join(dict.fromkeys(dates))},
        settings=first.settings | {"peers": peers},
        rows=[*rows.values()],
    )


def _key(row: Measured) -> tuple[str, str, str, int]:
    return row.reduction, row.cell, row.type, row.threads
