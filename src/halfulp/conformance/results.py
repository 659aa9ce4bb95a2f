"""The results of a run of cases, as data.

May import bits, cases, backends.outcomes, known_failures and verdicts only.
"""

from __future__ import annotations

import itertools
import json
import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from halfulp.conformance.backends.outcomes import Answer, Outcome
from halfulp.conformance.bits import Array, bits_text
from halfulp.conformance.cases.case import Case
from halfulp.conformance.known_failures import known_failure
from halfulp.conformance.verdicts import EXACT, Verdict, judge

# As many elements of an array are shown.
SHOWN = 8


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What a backend did with a case, and the verdict on it."""

    case: Case
    verdict: Verdict
    got: Array | None
    known: str | None

    @property
    def exact(self) -> bool:
        """Whether every bit is right."""
        return self.verdict.word == EXACT


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _machine() -> str:
    return f"{platform.machine()}, Python {platform.python_version()}"


@dataclass(frozen=True, slots=True)
class Run:
    """The results of one backend.

    Attributes
    ----------
    backend : str
    versions : dict of str to str
        Of the packages that decide the results.
    results : list of Result
        In the order of the cases.
    left_out : int
        Cases that the backend has no say in.
    date : str
        Of the run, as ISO 8601 writes it, in UTC.
    machine : str
        Its architecture, and the version of Python.
    """

    backend: str
    versions: dict[str, str]
    results: list[Result]
    left_out: int = 0
    date: str = field(default_factory=_today)
    machine: str = field(default_factory=_machine)

    @property
    def title(self) -> str:
        """The backend, with its versions."""
        versions = ", ".join(f"{k} {v}" for k, v in self.versions.items())
        return f"{self.backend} ({versions})"

    @property
    def exact(self) -> bool:
        """Whether every case is exact."""
        return all(result.exact for result in self.results)


def result_of(backend: str, case: Case, outcome: Outcome) -> Result:
    """Judge what a backend did with a case."""
    verdict = judge(case, outcome)
    got = outcome.array if isinstance(outcome, Answer) else None
    known = None if verdict.word == EXACT else known_failure(backend, case, verdict.word)
    return Result(case, verdict, got, known)


def to_json(runs: list[Run]) -> str:
    """Return one run as an object, or several as a list of such objects."""
    objects = [_run_object(run) for run in runs]
    return json.dumps(objects[0] if len(objects) == 1 else objects, indent=1) + "\n"


def first_values(array: Array, worst: tuple[int, ...] | None = None) -> list[list[str]]:
    """Return the first elements, and one more: index, value in decimal, bits in hex."""
    places = list(itertools.islice(np.ndindex(array.shape), SHOWN))
    if worst is not None and worst not in places:
        places[SHOWN - 1 :] = [worst]
    return [[str(list(i)), str(array[i]), bits_text(array, i)] for i in places]


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
    case, verdict = result.case, result.verdict
    return {
        "name": case.name,
        "class": case.class_name,
        "type": case.type,
        "version": case.version,
        "opset": case.opset,
        "verdict": verdict.word,
        "ulps": verdict.ulps,
        "passes_at_onnx_tolerance": verdict.passes_at_onnx_tolerance,
        "text": verdict.text,
        "known_failure": result.known,
    }
