"""A run in few figures: the matrix of classes and types, and totals.

May import element_types, cases, results and verdicts only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from halfulp.conformance.cases.case import CLASSES
from halfulp.conformance.results import Result, Run
from halfulp.conformance.verdicts import EXACT, ULPS, VERDICTS
from halfulp.element_types import ELEMENT_TYPES

# By name, as heads of narrow columns.
SHORT_TYPES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "int32": "i32",
    "int64": "i64",
    "uint32": "u32",
    "uint64": "u64",
    "int8": "i8",
    "uint8": "u8",
    "bool": "bool",
}
# Those that all reductions have.
_USUAL = tuple(element.numpy_name for element in ELEMENT_TYPES)
# In seven letters: eight of them fit a line.
_SHORT = {
    "accepted": "accepts",
    "wrong value": "value",
    "wrong shape": "shape",
    "wrong type": "type",
}
_ORDER = {word: place for place, word in enumerate(VERDICTS)}
TOLERANCE = "passes at ONNX's rtol 1e-3"
LEGEND = (
    "A figure is the worst error in ulps, 0 where every bit is right; a word the worst "
    "verdict: refused with an error, accepts what is invalid, or a wrong value, shape "
    "or type."
)


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of one class and type.

    Attributes
    ----------
    word : str
        The worst verdict.
    ulps : int
        The greatest error in ulps, of those that have one.
    exact, cases : int
        How many are exact, of how many.
    """

    word: str
    ulps: int
    exact: int
    cases: int

    @property
    def text(self) -> str:
        """The worst, in at most seven letters: ulps, or a word."""
        if self.word in (EXACT, ULPS):
            return _ulps_text(self.ulps)
        return _SHORT.get(self.word, self.word)


def matrix(run: Run) -> dict[tuple[str, str], Summary]:
    """Return the summary of each class and type that has cases."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in run.results:
        key = (result.case.class_name, result.case.type)
        groups.setdefault(key, []).append(result)
    return {key: _summary(results) for key, results in groups.items()}


def operators_in(runs: Sequence[Run]) -> list[str]:
    """Return the operators that have cases, in the order of the table."""
    return list(
        dict.fromkeys(
            result.case.reduction.operator for run in runs for result in run.results
        )
    )


def operator_rows(runs: Sequence[Run]) -> list[list[str]]:
    """Return rows of text: an operator, and how many cases of each run are exact."""
    rows = []
    for operator in operators_in(runs):
        row = [operator]
        for run in runs:
            of_it = [r for r in run.results if r.case.reduction.operator == operator]
            row.append(f"{sum(r.exact for r in of_it)} of {len(of_it)}" if of_it else "")
        rows.append(row)
    return rows


def classes_in(runs: Sequence[Run]) -> list[str]:
    """Return the classes that have cases, in their order."""
    present = {result.case.class_name for run in runs for result in run.results}
    return [name for name in CLASSES if name in present]


def types_in(run: Run) -> list[tuple[str, ...]]:
    """Return the types of a run, as many together as fit a line."""
    valid = {result.case.type for result in run.results if result.case.valid}
    small = tuple(t for t in SHORT_TYPES if t not in _USUAL and t in valid)
    return [_USUAL, small] if small else [_USUAL]


def totals(run: Run) -> dict[str, int]:
    """Return how many cases have each verdict, and how many pass ONNX's tolerance."""
    counts = Counter(result.verdict.word for result in run.results)
    return {word: counts[word] for word in VERDICTS} | {
        TOLERANCE: sum(r.verdict.passes_at_onnx_tolerance for r in run.results)
    }


def totals_rows(runs: Sequence[Run]) -> list[list[str]]:
    """Return rows of text: a verdict, and how many cases of each run have it."""
    columns = [totals(run) for run in runs]
    rows = [[word, *(str(column[word]) for column in columns)] for word in columns[0]]
    rows = [row for row in rows if set(row[1:]) != {"0"}]
    if any(run.left_out for run in runs):
        rows.append(["left out", *(str(run.left_out) for run in runs)])
    return rows


def told(result: Result) -> str:
    """Return the verdict on a case, with its figure and its text."""
    verdict = result.verdict
    plural = "" if verdict.ulps == 1 else "s"
    word = f"off by {verdict.ulps} ulp{plural}" if verdict.word == ULPS else verdict.word
    return f"{word}: {verdict.text}" if verdict.text else word


def _summary(results: Iterable[Result]) -> Summary:
    verdicts = [result.verdict for result in results]
    worst = max(verdicts, key=lambda verdict: _ORDER[verdict.word])
    ulps = max(verdict.ulps or 0 for verdict in verdicts)
    exact = sum(verdict.word == EXACT for verdict in verdicts)
    return Summary(worst.word, ulps, exact, len(verdicts))


def _ulps_text(ulps: int) -> str:
    """A number of ulps in at most seven letters."""
    return str(ulps) if ulps < 10**6 else f"{ulps:.0e}".replace("e+", "e")
