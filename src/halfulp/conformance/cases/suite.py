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
from halfulp.conformance.cases.hard_extremes import hard_extremes
from halfulp.conformance.cases.hard_floats import hard_floats
from halfulp.conformance.cases.hard_integers import hard_integers
from halfulp.conformance.cases.hard_logarithms import hard_logarithms
from halfulp.conformance.cases.hard_products import hard_products
from halfulp.conformance.cases.hard_sums import HardSum
from halfulp.conformance.cases.invalid import invalid
from halfulp.conformance.cases.maker import Maker, prefix
from halfulp.conformance.cases.placements import placed
from halfulp.conformance.cases.recorded import reports
from halfulp.conformance.cases.structures import STRUCTURES
from halfulp.element_types import ELEMENT_TYPES, SMALL_TYPES
from halfulp.errors import ArgumentError
from halfulp.reductions import REDUCTIONS, Reduction


@cache
def cases_of(reduction: Reduction) -> tuple[Case, ...]:
    """Return every case of a reduction; the same ones each time."""
    cases: list[Case] = []
    small = (t for t in SMALL_TYPES if any(t.name in v.types for v in reduction.versions))
    types = (*ELEMENT_TYPES, *small)
    for version in reduction.versions:
        for element in types:
            allowed = element.name in version.types
            cases += _cases(Maker(reduction, version, element.dtype), allowed)
    cases += reports(reduction)
    return tuple(cases)


def all_cases(reductions: Iterable[Reduction] = REDUCTIONS) -> tuple[Case, ...]:
    """Return every case of some reductions, in their order."""
    return tuple(case for reduction in reductions for case in cases_of(reduction))


def quick(cases: Iterable[Case]) -> list[Case]:
    """Return the first case of each kind, type and version, and all reports."""
    first: dict[tuple[Any, ...], Case] = {}
    for case in cases:
        kind = case.name if case.class_name == "reports" else case.kind
        of = (case.reduction.name, case.class_name, kind, case.type, case.version)
        first.setdefault(of, case)
    return list(first.values())


def choose(pattern: str, reductions: Iterable[Reduction] = REDUCTIONS) -> list[Case]:
    """Return the cases of some reductions whose name has `pattern` in it.

    There * and ? stand for any text.

    Raises
    ------
    ArgumentError
        If there are none.
    """
    # Names of cases begin with that of their operator, and have none elsewhere.
    named = [row for row in reductions if row.operator.lower() in pattern]
    chosen = [
        case
        for case in all_cases(named or reductions)
        if fnmatch.fnmatchcase(case.name, f"*{pattern}*")
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
    names = list(names)
    asked = (row for row in REDUCTIONS if any(n.startswith(prefix(row)) for n in names))
    cases = {case.name: case for case in all_cases(asked)}
    for name in names:
        if name not in cases:
            raise ArgumentError(
                f"no case is called {name!r}; allowed: a name that --list prints"
            )
    return [cases[name] for name in names]


def _cases(new: Maker, allowed: bool) -> Iterator[Case]:
    if not allowed:
        data = new.small_values((2, 3))
        note = f"{new.version} does not allow {new.dtype.name}."
        yield new(WRONG_OPSET, "type", data, None, [1], note=note)
        return
    for structure in STRUCTURES:
        yield from structure(new)
    yield from _hard_sums(new)
    yield from invalid(new)


def _hard_sums(new: Maker) -> Iterator[Case]:
    """Sums that are hard to get right, each kind in many places."""
    seen: Counter[str] = Counter()
    for hard in _kinds(new.reduction, new.dtype):
        yield from placed(new, hard, seen[hard.class_name])
        seen[hard.class_name] += 1
    if new.is_newest:
        yield from _very_long(new)


def _kinds(reduction: Reduction, dtype: np.dtype[Any]) -> Iterator[HardSum]:
    if reduction.operation in ("max", "min"):
        return hard_extremes(reduction, dtype)
    if reduction.operation == "product":
        return hard_products(reduction, dtype)
    if reduction.finish == "log":
        return hard_logarithms(reduction, dtype)
    kinds = hard_integers if dtype.kind in "iu" else hard_floats
    return kinds(reduction, dtype)


def _very_long(new: Maker) -> Iterator[Case]:
    value, word = (3, "threes") if new.dtype.kind in "iub" else (0.1, "tenths")
    if new.reduction.operation == "product" and word == "tenths":
        value, word = -1, "signs"
    row = np.full((1, 10**5), value).astype(new.dtype)
    for detail, data, axes in (("row", row, [1]), ("column", row.T, [0])):
        name, note = f"{word}_1e5_{detail}", f"100,000 times {value}."
        yield new("long", name, data, None, axes, 0, None, note)
    if new.dtype.name in ("float16", "float32"):
        ones = np.ones((1, 10**6), new.dtype)
        yield new("long", "ones_1e6", ones, None, [1], 0, None, "A million ones.")
