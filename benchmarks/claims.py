"""Write each measured figure and table of the documents from what is in results/.

    python benchmarks/claims.py           writes README.md and what docs/ has of it
    python benchmarks/claims.py --check   writes nothing; exits with 1 if a text differs

Nothing is measured here: `make bench`, `peers`, `models`, `scale` and `conformance` do,
with date, machine and versions.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import conformance
from halfulp.bench import report
from halfulp.bench.goals import LONG_ROWS, OTHER_AXES, SHORT_SUMS, beside_peers
from halfulp.bench.plot import draw
from halfulp.bench.report import span
from halfulp.bench.results import EXACT, Benchmark, load
from halfulp.conformance.report.markdown import markdown as conformance_markdown
from halfulp.report.markdown import table
from what_others_give import AS_ONNX, OURS

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results"


_CLAIM = "<!-- How fast: written by benchmarks/claims.py. -->\n"
_SHORT = "<!-- What others give: written by benchmarks/claims.py. -->\n"
_END = "<!-- end -->"

# Operators as people call them, in the order of the documents.
_WORDS = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceL1": "L1 norm",
    "ReduceL2": "L2 norm",
    "ReduceSumSquare": "sum of squares",
}


def peers_note(result: dict[str, Any]) -> str:
    """When what others give was measured, and with what."""
    libraries = ", ".join(f"{name} {text}" for name, text in result["versions"].items())
    return (
        f"Measured by `make peers` (benchmarks/what_others_give.py) on {result['date']}, "
        f"{result['machine']}: {libraries}."
    )


def wrapped(text: str) -> str:
    """A paragraph in lines."""
    return "\n".join(textwrap.wrap(text, 88, break_on_hyphens=False))


def between(text: str, start: str, inside: str) -> str:
    """A document with what is after a mark, and before the next end, as given."""
    first = text.index(start) + len(start)
    return f"{text[:first]}{inside}\n{text[text.index(_END, first) :]}"


def short_peers(result: dict[str, Any]) -> str:
    """What the README has of what others give."""
    libraries = ["NumPy", "ONNX Runtime", "PyTorch", "halfulp"]
    rows = [
        [_WORDS[row["operation"]], row["input"], *(row["answers"][n] for n in libraries)]
        for row in result["rows"]
        if row["in_short"]
    ]
    shown = "\n".join(table(["", "of", *libraries], rows))
    return f"{shown}\n\n{wrapped(peers_note(result))}"


_PEERS = """\
# What others give

What is printed bold is right: the exact value, rounded once, as halfulp gives it. Shown
is the first element of a result, as NumPy writes it. NumPy, PyTorch and halfulp sum
integers in 64 bits, and means and norms of them are floats; ONNX's operators keep their
type and wrap, and so do `reduce_sum` and its like.

{note}
"""

_EXACT = """
## What else is exact

Of one array of float64, `math.fsum` and the packages xsum and bitrep round the exact sum
once too, bitrep of float32 as well, of which the others' sums are rounded twice. None has
axes or half types. "max" is the greatest float64.
"""


def peers(result: dict[str, Any]) -> str:
    """docs/what-others-give.md: a table for each operation."""
    lines = _PEERS.format(note=wrapped(peers_note(result))).splitlines()
    for operator, words in _WORDS.items():
        rows = [row for row in result["rows"] if row["operation"] == operator]
        if rows:
            lines += ["", f"## {words[0].upper()}{words[1:]}", ""]
            lines += _answers(rows, {"exact": [row["exact"] for row in rows]})
    lines += _EXACT.splitlines()
    return "\n".join([*lines, "", *_answers(result["exact_rows"], {})]) + "\n"


_NO_BREAK = "\N{NO-BREAK SPACE}"

# What a column that is narrow must not break: the elements of an array, or its shape.
_LIST = re.compile(r"[\[(][^])]*")


def _unbroken(found: re.Match[str]) -> str:
    return found[0].replace(" ", _NO_BREAK)


def _answers(rows: list[dict[str, Any]], more: dict[str, list[str]]) -> list[str]:
    """A table of answers, of which the right ones are bold."""
    names = [name for name in rows[0]["answers"] if name not in OURS]

    def cell(answers: dict[str, str], name: str) -> str:
        right = answers["halfulp as ONNX" if name in AS_ONNX else "halfulp"]
        return f"**{right}**" if answers[name] == right else answers[name]

    def ours(answers: dict[str, str]) -> str:
        """Of both faces, where they differ."""
        texts = dict.fromkeys(f"**{answers[name]}**" for name in OURS if name in answers)
        return ", as ONNX ".join(texts)

    texts = [
        [
            _LIST.sub(_unbroken, row["input"]),
            *(cell(row["answers"], name) for name in names),
            ours(row["answers"]),
            *rest,
        ]
        for row, *rest in zip(rows, *more.values(), strict=True)
    ]
    return table(["input", *names, "halfulp", *more], texts)


def listed(words: Iterable[str]) -> str:
    """Words with commas, and the last with an "and"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def speed_claim(benchmark: Benchmark, page: str) -> str:
    """How fast halfulp is, in words that the speed page shows the figures of."""
    one = [row for row in benchmark.rows if row.times and row.threads == 1]

    def of(*cells: str) -> str:
        return span(row.of_limit for row in one if row.cell in cells)

    compared = beside_peers([row for row in benchmark.rows if row.times])
    ratios = [row.ratio_to(row.peers[0]) for row in compared]
    ways = [*chain.from_iterable(benchmark.settings["peers"].values())]
    names = dict.fromkeys(name.split(".")[0] for name in ways if name not in EXACT)
    measured = dict.fromkeys(f"`{row.reduction}`" for row in benchmark.rows)
    text = (
        f"Speed, of {listed(measured)}, is measured against that of `numpy.vdot` "
        f"reading memory: one thread reduces long rows at {of(*LONG_ROWS)} times that, "
        f"along other axes at "
        f"{of(*OTHER_AXES)}, 16 elements to a result at {of(*SHORT_SUMS)}. Of "
        f"{len(ratios)} reductions of 8 MiB or more, {sum(r >= 1 for r in ratios)} are "
        f"at least as fast as in the fastest of {listed(names)}, the worst "
        f"at {min(ratios):.2f} times its speed: [all figures]({page})."
    )
    return wrapped(text)


def with_claim(text: str, benchmark: Benchmark, page: str) -> str:
    """A document with its paragraph on speed as measured."""
    return between(text, _CLAIM, speed_claim(benchmark, page))


def limits(text: str, benchmark: Benchmark) -> str:
    """docs/limits.md with the speed of short sums as measured."""
    short = [
        row
        for row in benchmark.rows
        if row.cell in ("short-rows", "few-rows")
        and row.type in ("float16", "bfloat16")
        and row.threads == 1
    ]
    return re.sub(
        r"run at [\d.]+ to [\d.]+ of",
        f"run at {span(row.of_limit for row in short)} of",
        text,
    )


def of_reductions(benchmark: Benchmark) -> dict[str, Benchmark]:
    """Parts of a benchmark, one for each reduction."""
    names = dict.fromkeys(row.reduction for row in benchmark.rows)
    return {name: _with_rows(benchmark, reduction=name) for name in names}


def _with_rows(benchmark: Benchmark, **wanted: str) -> Benchmark:
    rows = [
        row
        for row in benchmark.rows
        if all(getattr(row, name) == value for name, value in wanted.items())
    ]
    return dataclasses.replace(benchmark, rows=rows)


def speed(benchmark: Benchmark) -> dict[Path, str]:
    """docs/benchmarks.md, what was measured and the notes on it, and a page for each."""
    parts = of_reductions(benchmark)
    pages = {name: f"benchmarks-{name.replace('_', '-')}.md" for name in parts}
    first = report.markdown(benchmark, "benchmarks.svg", pages=pages)
    notes = (ROOT / "benchmarks/notes.md").read_text("utf-8")
    each = {
        pages[name]: report.markdown(
            part, pages[name].replace(".md", ".svg"), title=f"Speed of {name}"
        )
        for name, part in parts.items()
    }
    texts = {"benchmarks.md": first + notes} | each
    return {ROOT / "docs" / name: text for name, text in texts.items()}


_SCALE = """\
# At scale

## {gib} GiB in {limit_gib} GiB

An array of {gib} GiB of float32 in {blocks} blocks, on a Dask `LocalCluster` of two
worker processes with one thread each. No process may have more than {limit_gib} GiB of
addresses (`RLIMIT_AS`, as by `ulimit -v`). Each block is made by the task that reduces
it, so that no disk is measured (benchmarks/larger_than_memory.py).

| | result | exact, rounded once | seconds, blocks made too | most memory of a worker |
|---|---:|---|---:|---:|
{table}

Mean and deviation are of exact sums of elements and of squares, in one pass. Measured by
`make scale` on {machine[date]}, {machine[cores]} cores, halfulp
{machine[halfulp][version]}, numpy {machine[versions][numpy]}, dask
{machine[versions][dask]}.

## A petabyte, on paper

From these rates, 1,000 workers with a petabyte in blocks of {block_mib} MiB:

- At the {rate:.1f} GB/s of a deviation in one worker here, making the blocks included,
  {minutes:.0f} minutes, if the data comes as fast. From storage that gives each worker
  1 GB/s, {storage_minutes:.0f} minutes: reading is what takes the time.
- {states:,} blocks give as many states, of {state_bytes} bytes each as `to_bytes`,
  {pickled_bytes} pickled. If every one were sent, {moved:.1f} GB would move,
  {fraction:.1e} of the data; in fact most merge where they are made.
- A tree that merges 16 at a time (`split_every=16`) is {depth} deep.
- Neither chunks nor tree, nor workers that are lost and blocks that are summed again,
  change a bit of the result. A state holds 2^63 - 1 elements, of which a petabyte of
  float32 has {elements:,}.
"""


def scale(result: dict[str, Any]) -> str:
    """docs/scale.md: an array larger than memory, and a petabyte on paper."""
    petabyte, workers, every = 10**15, 1000, 16
    nbytes = result["gib"] << 30
    block = nbytes // result["blocks"]
    rows = {row["call"]: row for row in result["rows"]}
    rate = nbytes / rows["halfulp.std(x)"]["seconds"] / 1e9 / 2
    states = -(-petabyte // block)
    moved = states * result["pickled_bytes"]
    table = "\n".join(
        f"| `{call}` | {row['result']} | {'yes' if row['is_exact'] else 'no'} | "
        f"{row['seconds']:.0f} | {row['peak_mib']} MiB |"
        for call, row in rows.items()
    )
    return _SCALE.format(
        **result,
        table=table,
        block_mib=block >> 20,
        rate=rate,
        minutes=petabyte / workers / rate / 1e9 / 60,
        storage_minutes=petabyte / workers / 1e9 / 60,
        states=states,
        moved=moved / 1e9,
        fraction=moved / petabyte,
        depth=math.ceil(math.log(states, every)),
        elements=petabyte // 4,
    )


_MODELS = """\
# Real models

What halfulp changes in models as people have them: converted from scikit-learn by
skl2onnx, or exported from PyTorch, at opsets 11 to 21, with random weights. The files are
in tests/stored/models, and tests/stored/exported/make_models.py made them. Each ran in
ONNX Runtime without halfulp's library and [with it](onnxruntime.md), and once more with
it after [`halfulp fuse`](guides/onnx.md), where that made other nodes.

{note}

{same}

- *differs*: the greatest difference of the output with the library from that without, in
  units in the last place (ulps); of labels, how many differ.
- *without*, *with*, *fused*: how far off each is, which is the greatest difference, in
  ulps, from what the same model gives in float64; and how many of the elements are equal
  to that, rounded once. (Not for models that are of float64 themselves.) Of labels, how
  many are scikit-learn's.

What all columns have in common comes from other operators, matrix products above all; an
element near zero may be hundreds of ulps off by them. Where the runtime makes a node of
its own of the means, as of a layer norm, nothing changes; where it makes means of a node,
as of GroupNormalization at opset 21, they are halfulp's.
"""

_HARD = """
## Where the runtime alone is wrong

The same models on vectors of some 10^25, in float64 10^200 (*large*), and on 65,532 rows
(*long*). Shown is the first element of the output; *right* is that in float64.

{table}

With the library a norm or a mean overflows, or vanishes, only if the true one does. What
overflows before it stays: squares that are a node of their own (`rms_norm`), the product
of two sums of squares (`cosine_similarity` below opset 18). A norm that is written in
parts is one node after `halfulp fuse` (`normalizer_l2`), but not where its root is a
power of 0.49999976, as PyTorch's older exporter has it (`pairwise_distance`). And in
`kmeans_far`, above, clusters lie far from the origin: skl2onnx computes distances as
|x|² - 2x·c + |c|², and float32 has no digits left for the difference, however exact |x|²
is.
"""


def models(result: dict[str, Any]) -> str:
    """docs/models.md: what halfulp changes in real models."""
    plain = [row for row in result["rows"] if not row["inputs"]]
    hard = [row for row in result["rows"] if row["inputs"]]
    outputs = [output for row in plain for output in row["outputs"].values()]
    labels = [output for output in outputs if "ulps" not in output["difference"]]
    known = [output for output in labels if "as_sklearn" in output]
    for output in labels:
        assert output["difference"]["agree"] == output["difference"]["of"]
    right = [o for o in known if o["as_sklearn"]["with"] == o["difference"]["of"]]
    same = (
        f"**Labels are the same** without and with, in all {len(labels)} models that "
        f"give some; in {len(right)} of the {len(known)} of scikit-learn they are its "
        "own. Other outputs differ in last bits."
    )
    note = peers_note(result).replace("what_others_give", "real_models")
    note = f"{note} Counted as reductions are {listed(result['operators'])}."
    lines = _MODELS.format(
        note=wrapped(note.replace("make peers", "make models")), same=wrapped(same)
    ).splitlines()
    for title, producer in (("scikit-learn", "skl2onnx"), ("PyTorch", "pytorch")):
        mine = [row for row in plain if row["from"] == producer]
        head = ["model", "reductions", "output", "differs", *_WAYS, "opsets"]
        lines += ["", f"## {title}", "", *_filled(head, _merged(mine, _changes))]
    head = ["model", "inputs", "reductions", *_WAYS, "right", "opsets"]
    shown = "\n".join(_filled(head, _merged(hard, _firsts)))
    return "\n".join(lines) + "\n" + _HARD.format(table=shown)


_WAYS = ("without", "with", "fused")


def _filled(head: list[str], rows: list[list[str]]) -> list[str]:
    """A table without columns that have nothing in any row."""
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    return table([head[i] for i in kept], [[row[i] for i in kept] for row in rows])


def _merged(
    rows: list[dict[str, Any]], cells: Callable[[dict[str, Any], str], list[str]]
) -> list[list[str]]:
    """The rows of a table, one for all opsets at which a model's cells are the same."""
    opsets: dict[tuple[str, ...], list[int]] = {}
    tried: dict[str, list[int]] = {}
    for row in sorted(rows, key=lambda row: (row["model"], row["opset"])):
        nodes = "none"
        if row["nodes"]:
            counted = (f"{count} {name}" for name, count in row["nodes"].items())
            nodes = ", ".join(text.replace(" ", _NO_BREAK) for text in counted)
        inputs = [row["inputs"]] if row["inputs"] else []
        tried.setdefault(row["model"], []).append(row["opset"])
        for output in row["outputs"]:
            key = row["model"], *inputs, nodes, *cells(row, output)
            opsets.setdefault(key, []).append(row["opset"])
    return [[*key, _range(found, tried[key[0]])] for key, found in opsets.items()]


def _range(opsets: list[int], tried: list[int]) -> str:
    """Name opsets, by the first and the last where none is left out."""
    first, last = opsets[0], opsets[-1]
    between = {opset for opset in tried if first < opset < last}
    if len(opsets) > 1 and between <= {*opsets}:
        return f"{first} to {last}"
    return ", ".join(map(str, opsets))


def _changes(row: dict[str, Any], output: str) -> list[str]:
    """How an output differs, and how far it is off in each way."""
    facts = row["outputs"][output]
    difference, off = facts["difference"], facts.get("off", {})
    total = difference["of"]
    if "ulps" not in difference:
        told = facts.get("as_sklearn", {})
        known = [f"{told[way]} of {total}" if way in told else "" for way in _WAYS]
        return [output, f"{total - difference['agree']} of {total}", *known]
    cells = [_off(off[way]) if way in off else "" for way in _WAYS]
    return [output, _ulps(difference["ulps"]), *cells]


def _off(facts: dict[str, Any]) -> str:
    share = 100 * facts["agree"] // facts["of"]
    return f"{_ulps(facts['ulps'])}, {share}{_NO_BREAK}%"


def _ulps(number: int | str) -> str:
    return "NaN" if number == "inf" else f"{number:,}"


def _firsts(row: dict[str, Any], output: str) -> list[str]:
    """The first element of an output in each way."""
    first = row["outputs"][output]["first"]
    return [first.get(way, "") for way in (*_WAYS, "right")]


def verdicts(path: Path) -> str:
    """docs/conformance.md: what backends give on the cases of `halfulp verify`."""
    runs = conformance.load(path)
    command = " ".join(["halfulp verify", *(run.backend for run in runs)])
    return conformance_markdown(runs, command)


def pictures() -> dict[Path, str]:
    """The pictures of docs/, each as wide as its page.

    Of all reductions together, and in the README, the type that most arrays have.
    """
    measured = load(RESULTS / "speed.json")
    accuracy = load(RESULTS / "accuracy.json")
    runs = {
        "benchmarks": _with_rows(measured, type="float32"),
        "benchmarks-onnxruntime": _with_rows(
            load(RESULTS / "onnxruntime.json"), type="float32"
        ),
        "benchmarks-accuracy": _with_rows(accuracy, type="float32"),
        "accuracy-float32": _with_rows(
            accuracy, type="float32", values="normal", reduction="sum"
        ),
    }
    for name, part in of_reductions(measured).items():
        runs[f"benchmarks-{name.replace('_', '-')}"] = part
    return {ROOT / f"docs/{k}.svg": draw(run, "100%") for k, run in runs.items()}


def texts() -> dict[Path, str]:
    """Each document that holds what was measured, as it should be."""
    others = json.loads((RESULTS / "peers.json").read_text("utf-8"))
    path = ROOT / "README.md"
    measured = load(RESULTS / "speed.json")
    index, limit = ROOT / "docs/index.md", ROOT / "docs/limits.md"
    first = between(path.read_text("utf-8"), _SHORT, short_peers(others))
    real = json.loads((RESULTS / "models.json").read_text("utf-8"))
    larger = json.loads((RESULTS / "scale.json").read_text("utf-8"))
    return {
        path: with_claim(first, measured, "docs/benchmarks.md"),
        index: with_claim(index.read_text("utf-8"), measured, "benchmarks.md"),
        limit: limits(limit.read_text("utf-8"), measured),
        **speed(measured),
        ROOT / "docs/what-others-give.md": peers(others),
        ROOT / "docs/benchmarks-onnxruntime.md": report.markdown(
            load(RESULTS / "onnxruntime.json"), "benchmarks-onnxruntime.svg"
        ),
        ROOT / "docs/benchmarks-accuracy.md": report.markdown(
            load(RESULTS / "accuracy.json"), "benchmarks-accuracy.svg"
        ),
        **pictures(),
        ROOT / "docs/models.md": models(real),
        ROOT / "docs/conformance.md": verdicts(RESULTS / "conformance.json.gz"),
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
