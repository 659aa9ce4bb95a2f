"""All cases, in an order and under names that stay.

May import errors, element_types, reductions and the modules beside it that make cases.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

from halfulp.conformance.cases.case import WRONG_OPSET, Case
from halfulp.conformance.cases.drafts import Draft, plain_form, small_values
from halfulp.conformance.cases.floats import DType, hard_floats
from halfulp.conformance.cases.integers import hard_integers
from halfulp.conformance.cases.invalid import invalid
from halfulp.conformance.cases.placements import place
from halfulp.conformance.cases.recorded import reports
from halfulp.conformance.cases.structures import STRUCTURES
from halfulp.element_types import ELEMENT_TYPES
from halfulp.errors import ArgumentError
from halfulp.reductions import BY_OPERATOR, REDUCTIONS, OperatorVersion


@cache
def all_cases() -> tuple[Case, ...]:
    """Return every case; the same ones each time."""
    cases = [
        _case(draft, version, element.dtype)
        for row in REDUCTIONS
        for version in row.versions
        for element in ELEMENT_TYPES
        for draft in _drafts(version, element.dtype, element.name in version.types)
    ]
    cases += reports()
    return tuple(cases)


def quick(cases: Iterable[Case]) -> list[Case]:
    """Return the first case of each kind, type and version, and all reports."""
    first: dict[tuple[Any, ...], Case] = {}
    for case in cases:
        kind = case.name if case.class_name == "reports" else case.kind
        first.setdefault((case.class_name, kind, case.type, case.version), case)
    return list(first.values())


def choose(pattern: str) -> list[Case]:
    """Return the cases whose name has `pattern` in it, where * and ? stand for any text.

    Raises
    ------
    ArgumentError
        If there are none.
    """
    chosen = [
        case for case in all_cases() if fnmatch.fnmatchcase(case.name, f"*{pattern}*")
    ]
    if not chosen:
        raise ArgumentError(
            f"no case has {pattern!r} in its name; allowed: a part of a name, "
            "as --list prints them"
        )
    return chosen


def find(names: Iterable[str]) -> list[Case]:
    """Return the cases of these names.

    Raises
    ------
    ArgumentError
        If there is none of a name.
    """
    cases = {case.name: case for case in all_cases()}
    for name in names:
        if name not in cases:
            raise ArgumentError(
                f"no case is called {name!r}; allowed: a name that --list prints"
            )
    return [cases[name] for name in names]


def _drafts(version: OperatorVersion, dtype: DType, allowed: bool) -> Iterator[Draft]:
    if not allowed:
        data = small_values((2, 3), dtype)
        note = f"{version} does not allow {dtype.name}."
        yield Draft(WRONG_OPSET, "type", data, None, [1], note=note)
        return
    for structure in STRUCTURES:
        yield from structure(version, dtype)
    yield from _numeric(version, dtype)
    yield from invalid(version, dtype)


def _numeric(version: OperatorVersion, dtype: DType) -> Iterator[Draft]:
    """Sums that are hard to get right, each kind in many places."""
    kinds = hard_integers if dtype.kind in "iu" else hard_floats
    seen: Counter[str] = Counter()
    for hard in kinds(dtype):
        yield from place(hard, seen[hard.class_name], version, dtype)
        seen[hard.class_name] += 1
    if version == BY_OPERATOR[version.operator].newest:
        yield from _very_long(dtype)


def _very_long(dtype: DType) -> Iterator[Draft]:
    value, word = (3, "threes") if dtype.kind in "iu" else (0.1, "tenths")
    row = np.full((1, 10**5), value).astype(dtype)
    for detail, data, axes in (("row", row, [1]), ("column", row.T, [0])):
        note = f"100,000 times {value}."
        yield Draft("long", f"{word}_1e5_{detail}", data, None, axes, 0, None, note)
    if dtype.name in ("float16", "float32"):
        ones = np.ones((1, 10**6), dtype)
        yield Draft("long", "ones_1e6", ones, None, [1], 0, None, "A million ones.")


def _case(draft: Draft, version: OperatorVersion, dtype: DType) -> Case:
    words = (version.since, dtype.name, draft.class_name.replace(" ", "_"), draft.detail)
    return Case(
        f"test_{version.operator.lower()}_" + "_".join(map(str, words)),
        version.operator,
        draft.class_name,
        draft.opset or version.since,
        draft.data,
        draft.form or plain_form(version),
        draft.axes,
        draft.keepdims,
        draft.noop_with_empty_axes,
        draft.note,
        kind=draft.kind,
        hard=draft.hard,
    )
