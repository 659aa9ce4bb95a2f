"""The results of a run of cases, as data.

May import bits, cases, backends.outcomes, known_failures and verdicts only.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime

from halfulp.conformance.backends.outcomes import Answer, Outcome
from halfulp.conformance.bits import Array
from halfulp.conformance.cases.case import Case
from halfulp.conformance.known_failures import known_failure
from halfulp.conformance.verdicts import EXACT, Verdict, judge


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
