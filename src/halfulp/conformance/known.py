"""What is known to be wrong in backends: data/known_failures.json.

May import cases and recorded only.

The file maps each backend to the release that was looked at, and to entries: a reason,
the verdicts that it explains, and for each class the types in which it shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from halfulp.conformance.cases import Case
from halfulp.conformance.recorded import load


def known_failure(backend: str, case: Case, verdict: str) -> str | None:
    """Return the reason why a backend fails a case with a verdict, if it is known."""
    for entry in entries(backend):
        if explains(entry, case, verdict):
            return str(entry["reason"])
    return None


def entries(backend: str) -> list[dict[str, Any]]:
    """Return what is known about a backend, whatever its release."""
    found: list[dict[str, Any]] = load("known_failures").get(backend, {}).get("failures", [])
    return found


def explains(entry: dict[str, Any], case: Case, verdict: str) -> bool:
    """Tell whether an entry explains that a case failed with a verdict."""
    return (
        verdict in entry["verdicts"]
        and case.type in entry["cells"].get(case.class_name, ())
        and case.version in entry.get("versions", (case.version,))
    )


def cells(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each class and type that an entry is about."""
    for class_name, types in entry["cells"].items():
        for type_name in types:
            yield class_name, type_name
