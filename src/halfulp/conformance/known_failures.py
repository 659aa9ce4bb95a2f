"""What is known to be wrong in backends: known_failures.json of halfulp.records.

May import records and cases only.

The file maps each backend to the release that was looked at and to what fails in it: a
reason, the verdicts that it explains, the types in which it shows, and the operators,
classes and versions, if not all.
"""

from __future__ import annotations

from typing import Any

from halfulp.conformance.cases.case import Case
from halfulp.records import load


def known_failure(backend: str, case: Case, verdict: str) -> str | None:
    """Return the reason why a backend fails a case with a verdict, if it is known."""
    for entry in load("known_failures").get(backend, {}).get("failures", ()):
        if explains(entry, case, verdict):
            return str(entry["reason"])
    return None


def explains(entry: dict[str, Any], case: Case, verdict: str) -> bool:
    """Tell whether an entry explains that a case failed with a verdict."""
    return (
        verdict in entry["verdicts"]
        and case.type in entry["types"]
        and case.reduction.operator in entry.get("operators", (case.reduction.operator,))
        and case.class_name in entry.get("classes", (case.class_name,))
        and case.version in entry.get("versions", (case.version,))
    )
