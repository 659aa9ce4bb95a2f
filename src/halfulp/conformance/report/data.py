"""Runs as JSON and as CSV.

May import terminal and results only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from halfulp.conformance.results import Result, Run
from halfulp.terminal import csv_text


def to_json(runs: list[Run]) -> str:
    """Return one run as an object, or several as a list of such objects."""
    objects = [_run_object(run) for run in runs]
    return json.dumps(objects[0] if len(objects) == 1 else objects, indent=1) + "\n"


def to_csv(runs: Sequence[Run]) -> str:
    """Return a row for each backend and case."""
    rows = [
        (
            *(run.backend, r.case.name, r.case.class_name, r.case.type, r.case.version),
            *(r.verdict.word, r.verdict.ulps, r.verdict.text, r.known),
        )
        for run in runs
        for r in run.results
    ]
    head = ("backend", "case", "class", "type", "version")
    return csv_text((*head, "verdict", "ulps", "text", "known_failure"), rows)


def _run_object(run: Run) -> dict[str, Any]:
    return {
        "backend": run.backend,
        "date": run.date,
        "machine": run.machine,
        "versions": run.versions,
        "exact": sum(result.exact for result in run.results),
        "left_out": run.left_out,
        "cases": [_case_object(result) for result in run.results],
    }


def _case_object(result: Result) -> dict[str, Any]:
    verdict = result.verdict
    return result.case.facts | {
        "verdict": verdict.word,
        "ulps": verdict.ulps,
        "passes_at_onnx_tolerance": verdict.passes_at_onnx_tolerance,
        "text": verdict.text,
        "known_failure": result.known,
    }
