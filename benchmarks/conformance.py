"""The verdicts of `halfulp verify` in few lines, and back.

    python benchmarks/conformance.py VERIFY.json

writes results/conformance.json.gz: of each run all but the exact cases, compressed, as
these are some megabytes of names.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from halfulp.conformance.cases.suite import all_cases
from halfulp.conformance.known_failures import known_failure
from halfulp.conformance.results import Result, Run
from halfulp.conformance.runner import cases_for
from halfulp.conformance.verdicts import EXACT, Verdict
from halfulp.reductions import BY_OPERATOR, REDUCTIONS

RESULTS = Path(__file__).resolve().parent / "results"
_FACTS = ("backend", "date", "machine", "versions", "left_out")
_FIELDS = ("verdict", "ulps", "passes_at_onnx_tolerance")
_EXACT = (EXACT, 0, True)


def shorten(runs: list[dict[str, Any]]) -> str:
    """Return JSON with a line for each case that is not exact."""
    objects = []
    for run in runs:
        verdicts = {c["name"]: tuple(c[name] for name in _FIELDS) for c in run["cases"]}
        others = [
            f"{json.dumps(name)}: {json.dumps(verdict)}"
            for name, verdict in verdicts.items()
            if verdict != _EXACT
        ]
        told = {name: run[name] for name in _FACTS} | {
            "operators": operators_of(verdicts)
        }
        facts = [
            f"{json.dumps(name)}: {json.dumps(value)}" for name, value in told.items()
        ]
        lines = [*facts, '"not_exact": {' + "\n ,".join(others) + "}"]
        objects.append("{" + "\n,".join(lines) + "}")
    return "[" + "\n,".join(objects) + "]\n"


def operators_of(names: Iterable[str]) -> list[str]:
    """Return the operators that cases of some names are of."""
    kept = {name.split("_")[1] for name in names}
    return [row.operator for row in REDUCTIONS if row.operator.lower() in kept]


def store(runs: list[dict[str, Any]], path: Path) -> None:
    """Write runs, shortened: the same runs as the same bytes."""
    path.write_bytes(gzip.compress(shorten(runs).encode(), mtime=0))


def load(path: Path) -> list[Run]:
    """Return the runs that were stored, over the cases of today."""
    runs = []
    for stored in json.loads(gzip.decompress(path.read_bytes())):
        backend, others = stored["backend"], stored["not_exact"]
        rows = [BY_OPERATOR[name] for name in stored["operators"]]
        cases = cases_for(backend, all_cases(rows))
        if not others.keys() <= {case.name for case in cases}:
            raise ValueError(f"{path} is of other cases: run `make conformance`")
        results = []
        for case in cases:
            verdict = Verdict(*others.get(case.name, _EXACT))
            known = None
            if verdict.word != EXACT:
                known = known_failure(backend, case, verdict.word)
            results.append(Result(case, verdict, None, known))
        facts = {name: stored[name] for name in _FACTS}
        runs.append(Run(results=results, **facts))
    return runs


if __name__ == "__main__":
    _runs = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    store(_runs, RESULTS / "conformance.json.gz")
