"""All cases, in an order and under names that stay.

May import the modules that make cases, element_types and spec.rules only.
"""

from __future__ import annotations

import fnmatch
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

from halfulp.conformance.cases import WRONG_OPSET, Case
from halfulp.conformance.drafts import Draft, plain_form, small_values
from halfulp.conformance.floats import FLOATS, DType
from halfulp.conformance.forms import STRUCTURES
from halfulp.conformance.integers import INTEGERS
from halfulp.conformance.invalid import invalid
from halfulp.conformance.recorded import reports
from halfulp.element_types import ELEMENT_TYPES
from halfulp.errors import ArgumentError
from halfulp.spec.rules import VERSIONS, OperatorVersion


@cache
def all_cases() -> tuple[Case, ...]:
    """Return every case; the same ones each time."""
    cases = [
        _case(draft, version, element.dtype)
        for version in VERSIONS
        for element in ELEMENT_TYPES
        for draft in _drafts(version, element.dtype, element.name in version.types)
    ]
    cases += reports()
    return tuple(cases)


def quick(cases: Iterable[Case]) -> list[Case]:
    """Return the first case of each class, type and version, and all reports."""
    first: dict[tuple[Any, ...], Case] = {}
    for case in cases:
        name = case.name if case.class_name == "reports" else ""
        first.setdefault((case.class_name, case.type, case.version, name), case)
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
    """Rows that are hard to sum, as rows and as columns."""
    generators = INTEGERS if dtype.kind in "iu" else FLOATS
    for make in generators:
        rng = np.random.default_rng(_seed(make.__name__, dtype.name, version.since))
        for class_name, detail, rows, note in make(dtype, rng):
            yield Draft(class_name, f"{detail}_rows", rows, None, [1], 0, None, note)
            if len(rows) > 1:
                columns = np.ascontiguousarray(rows.T)
                detail = f"{detail}_columns"
                yield Draft(class_name, detail, columns, None, [0], 1, None, note)
    if version.since == 18 and dtype.name in ("float16", "float32"):
        ones = np.ones((1, 10**6), dtype)
        note = "A million ones."
        yield Draft("long", "ones_1e6_rows", ones, None, [1], 0, None, note)


def _seed(*words: object) -> int:
    return zlib.crc32(" ".join(map(str, words)).encode())


def _case(draft: Draft, version: OperatorVersion, dtype: DType) -> Case:
    words = (version.since, dtype.name, draft.class_name.replace(" ", "_"), draft.detail)
    return Case(
        "test_reducesumsquare_" + "_".join(map(str, words)),
        draft.class_name,
        draft.opset or version.since,
        draft.data,
        draft.form or plain_form(version),
        draft.axes,
        draft.keepdims,
        draft.noop_with_empty_axes,
        draft.note,
    )
