"""Write each measured figure and table of the documents from what is in results/.

    python benchmarks/claims.py           writes README.md and what docs/ has of it
    python benchmarks/claims.py --check   writes nothing; exits with 1 if a text differs

Nothing is measured here: `make bench`, `peers`, `scale` and `conformance` do, with date,
machine and versions.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import conformance
from halfulp.bench import report
from halfulp.bench.plot import draw
from halfulp.bench.results import Benchmark, Measured, load
from halfulp.conformance.report.markdown import markdown as conformance_markdown
from halfulp.report.markdown import table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results"


_CLAIM = "<!-- How fast: written by benchmarks/claims.py. -->\n"


def peers_table(result: dict[str, Any]) -> str:
    """The README's table of what others give."""
    rows = result["rows"]
    return "\n".join(table([*rows[0]], [[*row.values()] for row in rows]))


def peers_note(result: dict[str, Any]) -> str:
    """When the table was measured, and with what."""
    versions = result["versions"]
    return (
        f"Measured by `make peers` (benchmarks/what_others_give.py) on {result['date']}, "
        f"{result['machine']},\nonnxruntime {versions['onnxruntime']}, "
        f"numpy {versions['numpy']}."
    )


def readme(text: str, result: dict[str, Any]) -> str:
    """README.md with its table of what others give as measured."""
    table = peers_table(result)
    start = text.index(table.split("\n", 1)[0])
    end = text.index("A sum that does not fit", start)
    return f"{text[:start]}{table}\n\n{peers_note(result)} {text[end:]}"


_LARGE = 8 << 20


def _span(rows: Iterable[Measured]) -> str:
    found = [row.of_limit for row in rows]
    return f"{min(found):.2f} to {max(found):.2f}"


def speed_claim(benchmark: Benchmark, page: str) -> str:
    """How fast halfulp is, in words that the speed page shows the figures of."""
    one = [row for row in benchmark.rows if row.times and row.threads == 1]

    def of(*cells: str) -> str:
        return _span(row for row in one if row.cell in cells)

    compared = [r for r in benchmark.rows if r.times and r.peers and r.nbytes >= _LARGE]
    ratios = [row.ratio_to(row.peers[0]) for row in compared]
    peers = dict.fromkeys(name.split(".")[0] for name in benchmark.settings["peers"])
    *first, last = peers
    text = (
        f"Speed is measured against that of `numpy.vdot` reading memory: one thread sums "
        f"long rows at {of('flat', 'rows', 'fortran-0')} times that, along other axes at "
        f"{of('columns', 'middle', 'channels', 'fortran-1')}, sums of 16 elements at "
        f"{of('short-rows', 'few-rows')}. Of {len(ratios)} reductions of 8 MiB or more, "
        f"{sum(ratio >= 1 for ratio in ratios)} are at least as fast as in the fastest "
        f"of {', '.join(first)} and {last}, the worst at {min(ratios):.2f} times its "
        f"speed: [all figures]({page})."
    )
    return "\n".join(textwrap.wrap(text, 88, break_on_hyphens=False))


def with_claim(text: str, benchmark: Benchmark, page: str) -> str:
    """A document with its paragraph on speed as measured."""
    start = text.index(_CLAIM) + len(_CLAIM)
    end = text.index("<!-- end -->", start)
    return f"{text[:start]}{speed_claim(benchmark, page)}\n{text[end:]}"


def limits(text: str, benchmark: Benchmark) -> str:
    """docs/limits.md with the speed of short sums as measured."""
    short = [
        row
        for row in benchmark.rows
        if row.cell in ("short-rows", "few-rows")
        and row.type in ("float16", "bfloat16")
        and row.threads == 1
    ]
    return re.sub(r"run at [\d.]+ to [\d.]+ of", f"run at {_span(short)} of", text)


def speed(benchmark: Benchmark) -> str:
    """docs/benchmarks.md: what was measured, and the notes on it."""
    notes = (ROOT / "benchmarks/notes.md").read_text("utf-8")
    return report.markdown(benchmark, "benchmarks.svg") + notes


_SCALE = """\
# At scale

## {gib} GiB in {limit_gib} GiB

An array of {gib} GiB of float32 in {blocks} blocks, on a Dask `LocalCluster` of two
worker processes with one thread each. No process may have more than {limit_gib} GiB of
addresses (`RLIMIT_AS`, as by `ulimit -v`). Each block is made by the task that sums it,
so that no disk is measured (benchmarks/larger_than_memory.py).

| | `halfulp.sum_square(x)` | `(x * x).sum()` |
|---|---:|---:|
| result | {result} | {ordinary} |
| the exact sum, rounded once | {is_exact} | {ordinary_is_exact} |
| seconds, making the blocks included | {seconds:.0f} | {ordinary_seconds:.0f} |

The most memory that a worker had with halfulp: {peak_mib} MiB. Measured by `make scale`
on {machine[date]}, {machine[cores]} cores, halfulp {machine[halfulp][version]}, numpy
{machine[versions][numpy]}, dask {machine[versions][dask]}.

## A petabyte, on paper

From these rates, 1,000 workers with a petabyte in blocks of {block_mib} MiB:

- At the {rate:.1f} GB/s of one worker here, making the blocks included, {minutes:.0f}
  minutes, if the data comes as fast. From storage that gives each worker 1 GB/s,
  {storage_minutes:.0f} minutes: reading is what takes the time.
- {states:,} blocks give as many states, of {state_bytes} bytes each as `to_bytes`,
  {pickled_bytes} pickled. If every one were sent, {moved:.1f} GB would move,
  {fraction:.1e} of the data; in fact most merge where they are made.
- A tree that merges 16 at a time (`split_every=16`) is {depth} deep.
- Neither chunks nor tree, nor workers that are lost and blocks that are summed again,
  change a bit of the result. A state holds 2^63 - 1 squares, of which a petabyte of
  float32 has {squares:,}.
"""


def scale(result: dict[str, Any]) -> str:
    """docs/scale.md: an array larger than memory, and a petabyte on paper."""
    petabyte, workers, every = 10**15, 1000, 16
    nbytes = result["gib"] << 30
    block = nbytes // result["blocks"]
    rate = nbytes / result["seconds"] / 1e9 / 2
    states = -(-petabyte // block)
    moved = states * result["pickled_bytes"]
    return _SCALE.format(
        **result | {"is_exact": "yes" if result["is_exact"] else "no"},
        ordinary_is_exact="yes" if result["ordinary"] == result["result"] else "no",
        block_mib=block >> 20,
        rate=rate,
        minutes=petabyte / workers / rate / 1e9 / 60,
        storage_minutes=petabyte / workers / 1e9 / 60,
        states=states,
        moved=moved / 1e9,
        fraction=moved / petabyte,
        depth=math.ceil(math.log(states, every)),
        squares=petabyte // 4,
    )


def verdicts(path: Path) -> str:
    """docs/conformance.md: what backends give on the cases of `halfulp verify`."""
    runs = conformance.load(path)
    command = " ".join(["halfulp verify", *(run.backend for run in runs)])
    return conformance_markdown(runs, command)


def pictures() -> dict[Path, str]:
    """The pictures of docs/, each as wide as its page."""
    runs = {
        "benchmarks": load(RESULTS / "speed.json"),
        "benchmarks-onnxruntime": load(RESULTS / "onnxruntime.json"),
        "benchmarks-accuracy": load(RESULTS / "accuracy.json"),
    }
    # The README has the panel of the type that most arrays have.
    accuracy = runs["benchmarks-accuracy"]
    rows = [r for r in accuracy.rows if (r.type, r.values) == ("float32", "normal")]
    runs["accuracy-float32"] = dataclasses.replace(accuracy, rows=rows)
    return {ROOT / f"docs/{k}.svg": draw(run, "100%") for k, run in runs.items()}


def texts() -> dict[Path, str]:
    """Each document that holds what was measured, as it should be."""
    peers = json.loads((RESULTS / "peers.json").read_text("utf-8"))
    path = ROOT / "README.md"
    measured = load(RESULTS / "speed.json")
    index, limit = ROOT / "docs/index.md", ROOT / "docs/limits.md"
    with_table = readme(path.read_text("utf-8"), peers)
    larger = json.loads((RESULTS / "scale.json").read_text("utf-8"))
    return {
        path: with_claim(with_table, measured, "docs/benchmarks.md"),
        index: with_claim(index.read_text("utf-8"), measured, "benchmarks.md"),
        limit: limits(limit.read_text("utf-8"), measured),
        ROOT / "docs/benchmarks.md": speed(measured),
        ROOT / "docs/benchmarks-onnxruntime.md": report.markdown(
            load(RESULTS / "onnxruntime.json"), "benchmarks-onnxruntime.svg"
        ),
        ROOT / "docs/benchmarks-accuracy.md": report.markdown(
            load(RESULTS / "accuracy.json"), "benchmarks-accuracy.svg"
        ),
        **pictures(),
        ROOT / "docs/conformance.md": verdicts(RESULTS / "conformance.json"),
        ROOT / "docs/scale.md": scale(larger),
    }


def main() -> int:
    """Write the documents, or tell which differ."""
    wanted = texts()
    if sys.argv[1:] == ["--check"]:
        found = [p for p, text in wanted.items() if p.read_text("utf-8") != text]
        for path in found:
            print(f"{path.relative_to(ROOT)} differs from benchmarks/results")
        return bool(found)
    for path, text in wanted.items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
