"""Judges what a backend did with a case.

May import bits, cases and backends.outcomes only; in particular not the kernels.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from halfulp.conformance.backends.outcomes import Answer, Crashed, Outcome, Refused
from halfulp.conformance.bits import PRECISION, Array, bits
from halfulp.conformance.cases.case import Case

EXACT = "exact"
ULPS = "ulps"
REFUSED = "refused"
ACCEPTED = "accepted"
WRONG_VALUE = "wrong value"
WRONG_SHAPE = "wrong shape"
WRONG_TYPE = "wrong type"
HUNG = "hung"
CRASHED = "crashed"

# From the best to the worst, each with what it means.
VERDICTS = {
    EXACT: "Every bit is right. Where NaN is right, any NaN is: neither ONNX nor IEEE "
    "754 says which. For an invalid model: an error.",
    ULPS: "A number off by some units in the last place: as many steps from the right "
    "one, from each number of the type to the next.",
    REFUSED: "An error where there is a result.",
    ACCEPTED: "A result where an error is right.",
    WRONG_VALUE: "A wrong integer; NaN or infinity in place of a number, or the reverse; "
    "a number or zero of the other sign; or a number off by more than 2^(p-1) ulps in a "
    "type of p bits, which is about a factor of two.",
    WRONG_SHAPE: "Another shape, or more or fewer outputs than one.",
    WRONG_TYPE: "Another element type.",
    HUNG: "No answer within the time limit.",
    CRASHED: "The process of the backend ended.",
}

# What ONNX's own runner of backend tests allows; of bfloat16, two ulps relatively.
ONNX_RTOL = 1e-3
ONNX_ATOL = 1e-7
ONNX_RTOL_BFLOAT16 = 2.0**-6


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict on one case.

    Attributes
    ----------
    word : str
        One of `VERDICTS`.
    ulps : int or None
        The greatest error of an element: 0 where exact; None where it has no meaning.
    passes_at_onnx_tolerance : bool
        Whether ONNX's own runner would pass the answer.
    text : str
        The error, or which element is worst.
    worst : tuple of int or None
        The index of the element that is worst.
    """

    word: str
    ulps: int | None
    passes_at_onnx_tolerance: bool
    text: str = ""
    worst: tuple[int, ...] | None = None


def judge(case: Case, outcome: Outcome) -> Verdict:
    """Return the verdict on what a backend did with a case."""
    if isinstance(outcome, Answer):
        if case.expected is None:
            return Verdict(ACCEPTED, None, False, "an answer where an error is right")
        return _judge_answer(case.expected, outcome)
    if isinstance(outcome, Refused):
        if case.expected is None:
            return Verdict(EXACT, 0, True, outcome.text)
        return Verdict(REFUSED, None, False, outcome.text)
    word = CRASHED if isinstance(outcome, Crashed) else HUNG
    return Verdict(word, None, False, outcome.text)


def _judge_answer(expected: Array, answer: Answer) -> Verdict:
    if answer.count != 1:
        return Verdict(WRONG_SHAPE, None, False, f"{answer.count} outputs, not 1")
    if answer.shape != expected.shape:
        text = f"shape {list(answer.shape)}, not {list(expected.shape)}"
        return Verdict(WRONG_SHAPE, None, False, text)
    if answer.type != expected.dtype.name or answer.array is None:
        text = f"type {answer.type}, not {expected.dtype.name}"
        return Verdict(WRONG_TYPE, None, False, text)
    got = answer.array
    passes = _passes(expected, got)
    pairs = zip(expected.reshape(-1), got.reshape(-1), strict=True)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        errors = [_error(right, given) for right, given in pairs]
    # A wrong value is worse than any number of ulps.
    greatest = max(errors, key=lambda error: (error is None, error or 0), default=0)
    if greatest == 0:
        return Verdict(EXACT, 0, passes)
    place = tuple(int(i) for i in np.unravel_index(errors.index(greatest), got.shape))
    text = f"element {list(place)} is worst" if got.size > 1 else ""
    word = WRONG_VALUE if greatest is None else ULPS
    return Verdict(word, greatest, passes, text, place)


def _error(expected: Any, got: Any) -> int | None:
    """The error of an element in ulps, or None where its value is wrong."""
    if expected.dtype.kind in "iub":
        return 0 if got == expected else None
    if np.isnan(expected) or np.isnan(got):
        return 0 if np.isnan(expected) and np.isnan(got) else None
    if np.isinf(expected) != np.isinf(got) or np.signbit(got) != np.signbit(expected):
        return None
    # The bits of numbers of one sign are in the order of their sizes.
    ulps = abs(int(bits(got)) - int(bits(expected)))
    return ulps if ulps <= 2 ** (PRECISION[expected.dtype.name] - 1) else None


def _passes(expected: Array, got: Array) -> bool:
    """Whether ONNX's runner passes the values: as it does, with NumPy's comparison."""
    rtol = ONNX_RTOL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if expected.dtype.name == "bfloat16":
            rtol = ONNX_RTOL_BFLOAT16
            expected, got = expected.astype(np.float32), got.astype(np.float32)
        try:
            np.testing.assert_allclose(got, expected, rtol=rtol, atol=ONNX_ATOL)
        except AssertionError:
            return False
    return True
