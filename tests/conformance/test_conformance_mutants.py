"""`halfulp verify` finds planted bugs wherever they show, and says what they are."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from halfulp.conformance.backends.outcomes import Answer
from halfulp.conformance.cases.case import Case
from halfulp.conformance.cases.suite import all_cases, quick
from halfulp.conformance.verdicts import EXACT, judge
from halfulp.reductions import SUM_SQUARE
from mutant_backends import CONDITIONS, MUTANTS, Facts, Mutant
from oracle import bits

NEWEST = 18

# What cannot show: a case of the condition is none of the fault.
NEVER = {
    ("takes empty axes for none", "16 outputs"): "all axes reduced give one output",
    ("takes empty axes for none", "innermost kept"): "all axes are reduced",
    ("ignores noop_with_empty_axes", "128 terms"): "each sum is of one term",
    ("ignores noop_with_empty_axes", "innermost reduced"): "no axis is reduced",
    ("repeats an output", "one output"): "there is no other",
    ("gives one output to all", "one output"): "there is no other",
}


@cache
def facts(case: Case) -> Facts:
    return Facts(case)


@cache
def groups() -> dict[tuple[int, str], list[Case]]:
    """The valid cases of each version and type."""
    found: dict[tuple[int, str], list[Case]] = {}
    for case in all_cases([SUM_SQUARE]):
        if case.valid and case.type != "int8":
            found.setdefault((case.version, case.type), []).append(case)
    return found


def finds(case: Case, mutant: Mutant) -> bool:
    """Whether the verdict on a mutant's answer is another than exact."""
    expected = facts(case).expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NaN and overflow, wherever they are made
        got = mutant.answer(facts(case))
    if got.shape == expected.shape and (bits(got) == bits(expected)).all():
        return False
    return judge(case, Answer(1, got.dtype.name, got.shape, got)).word != EXACT


def unfound(
    cases: Iterable[Case], mutant: Mutant, conditions: Iterable[tuple[str, ...]]
) -> set[tuple[str, ...]]:
    """The conditions under which no case both finds a mutant and says what is wrong."""
    todo = set(conditions)
    for case in cases:
        if not mutant.shows_in(case) or not re.search(mutant.says, case.why):
            continue
        met = {
            names
            for names in todo
            if all(CONDITIONS[name](facts(case)) for name in names)
        }
        if met and finds(case, mutant):
            todo -= met
        if not todo:
            break
    return todo


def possible(mutant: Mutant, names: tuple[str, ...]) -> bool:
    return all((mutant.name, name) not in NEVER for name in names)


def shown(mutant: Mutant) -> Iterator[tuple[tuple[int, str], list[Case]]]:
    for key, cases in groups().items():
        if mutant.shows_in(cases[0]):
            yield key, cases


by_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


@by_mutant
def test_each_bug_is_found_in_each_type_and_version_under_each_condition(
    mutant: Mutant,
) -> None:
    conditions = [(name,) for name in CONDITIONS if possible(mutant, (name,))]
    for key, cases in shown(mutant):
        assert unfound(cases, mutant, conditions) == set(), key


@by_mutant
def test_each_bug_is_found_under_two_conditions_at_once(mutant: Mutant) -> None:
    contradictory = (
        {"one output", "16 outputs"},
        {"one output", "innermost kept"},
        {"innermost kept", "innermost reduced"},
    )
    pairs = [
        names
        for names in itertools.combinations(list(CONDITIONS)[1:], 2)
        if possible(mutant, names) and set(names) not in contradictory
    ]
    for key, cases in shown(mutant):
        if key[0] == NEWEST:
            assert unfound(cases, mutant, pairs) == set(), key


@by_mutant
def test_quick_finds_each_bug_that_is_everywhere(mutant: Mutant) -> None:
    some = set(quick(all_cases([SUM_SQUARE])))
    for key, cases in shown(mutant):
        chosen = [case for case in cases if case in some]
        assert unfound(chosen, mutant, [("everywhere",)]) == set(), key


def test_what_is_right_is_no_bug() -> None:
    right = Mutant("right", "fiu", lambda facts: facts.expected, "")
    assert not any(
        finds(case, right) for case in all_cases([SUM_SQUARE])[::10] if case.valid
    )


def test_what_never_shows_never_shows() -> None:
    for mutant in MUTANTS:
        for name in CONDITIONS:
            if (mutant.name, name) in NEVER:
                for case in groups()[NEWEST, "float32"]:
                    if CONDITIONS[name](facts(case)):
                        assert not finds(case, mutant)
