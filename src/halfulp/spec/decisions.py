"""What halfulp does where ONNX's texts on an operator that reduces are silent or
contradict each other, and why.

May import element_types and reductions. tests/spec/test_spec.py names the tests of each.
"""

from __future__ import annotations

from dataclasses import dataclass

from halfulp.element_types import BY_NAME
from halfulp.reductions import Finish, Reduction, Term


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision, in Markdown.

    Attributes
    ----------
    title, decision, reason : str
    """

    title: str
    decision: str
    reason: str


def decisions(row: Reduction) -> tuple[Decision, ...]:
    """Return the decisions on the operator of a row; of all rows those have one order."""
    by_onnx = f"`{row.onnx_name}`"
    by_numpy = f"`{row.name if row.ord is None else 'vector_norm'}`"
    input_since = row.axes_input_since
    is_double = row.result_of(BY_NAME["int64"]).kind == "float"
    of_integers = "double" if is_double else "64 bits"
    return (
        Decision(
            "Which version",
            "A node has the newest version that the opset of its model allows. "
            'Domain `"ai.onnx"` is the same as `""`. An opset later than any known means '
            f"version {row.newest.since}.",
            "An operator gets a new version only when it changes, so a later opset alone "
            "changes nothing.",
        ),
        Decision(
            "Empty axes",
            'Axes are empty if they are absent, if the input has the empty name `""`, if '
            "their tensor has shape (0,), or if the attribute is an empty list: all mean "
            "the same. Then all axes are reduced; with `noop_with_empty_axes` 1 none is, "
            f"and {_ALONE[row.of_one]}.",
            _ALONE_WHY[row.of_one],
        ),
        Decision(
            "Negative axes",
            "They count from the end, in every version; the range is [-r, r-1].",
            "Version 1 does not mention them, but shape inference and runtimes take "
            "them.",
        ),
        Decision(
            "The same axis twice",
            f"In a model, and in {by_onnx}, axes are a set: once or twice is the same. "
            f"{by_numpy} raises an error.",
            "ONNX's shape inference and ONNX Runtime take them so; NumPy refuses.",
        ),
        Decision(
            "Axes as an input",
            f"They are one from version {input_since} on: a tensor of rank 1 and type "
            "int64. Any other is an error.",
            "A single number would be convenient, but no other runtime need take it.",
        ),
        Decision(
            "Flags",
            f"In a model, and in {by_onnx}, `keepdims` and `noop_with_empty_axes` are 0 "
            "or 1. Any other value is an error.",
            "The texts speak of true and false; a 2 is a mistake, not a third meaning.",
        ),
        Decision(
            "Rank 0",
            f"A scalar is valid: the result is {_SCALAR[row.of_one]}. It has no axes, so "
            "that any axis given is out of range.",
            "Version 11 does not say so, the others do; a product over no axes is 1, and "
            "so a scalar is one element, not none.",
        ),
        Decision(
            "Empty sets",
            f"{_EMPTY[row.finish]} A kept dimension of size 0 stays 0: shape (2, 0, 4) "
            "over axis 1 gives a result of shape (2, 1, 4), and over axis 2 one of shape "
            "(2, 0, 1).",
            _EMPTY_WHY[row.finish],
        ),
        Decision(
            "Shape inference",
            "Where the axes are known only when the model runs, `keepdims` 1 keeps the "
            "rank, and each dimension is unknown unless it is 1; `keepdims` 0 leaves the "
            "rank unknown. Symbols and unknown dimensions pass where they are not "
            "reduced. Axes out of range are an error.",
            "ONNX's shape inference gives up the rank in both cases, and with it the "
            "ranks of all that follows.",
        ),
        Decision(
            "Rounding",
            f"A float result is {_exact(row)}, rounded once to its type: to nearest, "
            f"ties to even. {_RANGE[row.finish]}, and subnormal numbers count.",
            f"ONNX does not say how to round. {_ROUNDED_ELSEWHERE[row.term, row.finish]} "
            "The exact result is the one that does not depend on how it is computed.",
        ),
        Decision("NaN, infinities, zeros", *_special(row)),
        Decision(
            "The same bits everywhere",
            "The result does not depend on threads, instruction set, memory layout, "
            "order of the elements, or on rounding and flush-to-zero modes that other "
            "code has set.",
            "It is the correctly rounded one, of which there is only one.",
        ),
        Decision("Integers", _integers(row), _INTEGERS_WHY[row.term, row.finish]),
        Decision(
            "The result",
            f"It has the type of the data; of {by_numpy} the one asked for, or that of "
            f"NumPy's function: for integers {of_integers}. It is a new array in C order "
            "that shares no memory with the data, which are never written.",
            "A caller may then change either without thinking of the other.",
        ),
        Decision(
            "Errors",
            "What breaks a rule is one error, before any work is done; the message names "
            "the value, what is allowed and, in a model, the node and its version.",
            "A wrong model should fail where it is wrong, not later.",
        ),
    )


_UNCHANGED = "Some descriptions say that the input is returned unchanged. "

_ALONE: dict[Term, str] = {
    "square": "every element is squared",
    "magnitude": "every element is made positive",
    "value": "every element stays: -0 is -0 then, and a NaN the canonical one",
}
_ALONE_WHY: dict[Term, str] = {
    "square": _UNCHANGED + "The function body, the node tests and today's specification "
    "square it.",
    "magnitude": _UNCHANGED + "The function body and today's specification still do what "
    "is not reducing.",
    "value": "Today's specification calls it a no-op, the identity, which does not tell "
    "what becomes of NaNs.",
}

_SCALAR: dict[Term, str] = {
    "square": "its square, a scalar",
    "magnitude": "its magnitude, a scalar",
    "value": "the same scalar, but +0 of -0",
}

_NEUTRAL = "Zero is the neutral element of a sum"
_EMPTY: dict[Finish, str] = {
    "none": "A sum of no elements is +0.",
    "mean": "A mean of no elements is NaN, of integers 0.",
    "root": "A norm of no elements is +0.",
}
_EMPTY_WHY: dict[Finish, str] = {
    "none": f"{_NEUTRAL}.",
    "mean": "The texts call it undefined. Zero divided by zero is NaN, which NumPy and "
    "ONNX's reference evaluator give too. Integers have none; the evaluator gives the "
    "least of them, ONNX Runtime 0, of floats too.",
    "root": f"{_NEUTRAL}, and its own root.",
}

_SUMS: dict[Term, str] = {
    "square": "the exact sum of the exact squares",
    "magnitude": "the exact sum of the magnitudes",
    "value": "the exact sum",
}
_FINISHED: dict[Finish, str] = {
    "none": "{}",
    "mean": "{}, divided by the number of elements",
    "root": "the square root of {}",
}


def _exact(row: Reduction) -> str:
    return _FINISHED[row.finish].format(_SUMS[row.term])


_RANGE: dict[Finish, str] = {
    "none": "Only a sum that itself is too large is infinite, whatever partial sums are",
    "mean": "However large the sum is, a mean of finite elements is finite",
    "root": "Squares may be too large or too small for the type where the norm is not",
}
_ROUNDED_ELSEWHERE: dict[tuple[Term, Finish], str] = {
    ("square", "none"): "The function body rounds every square, so its last bits can "
    "differ, and small squares vanish in it.",
    ("magnitude", "none"): "The function body rounds whenever it adds, in an order that "
    "nobody says.",
    ("value", "none"): "Runtimes round whenever they add, each in its own order: of "
    "1e16, 1 and -1e16 some give 0, and of 3e38, 3e38 and -3e38 as float infinity.",
    ("value", "mean"): "Runtimes round whenever they add, and some sums overflow: of two "
    "float16 65504 some give infinity.",
    ("square", "root"): "The function body rounds every square and every sum, and takes "
    "the root as float, which would leave 24 bits of a double; of 3e30 and 4e30 as float "
    "it gives infinity, of 3e-30 and 4e-30 zero.",
}


def _special(row: Reduction) -> tuple[str, str]:
    """Return decision and reason on NaN, infinities and zeros."""
    decision = (
        "A set with a NaN gives the one canonical quiet NaN, also beside infinities; "
    )
    reason = (
        "A NaN's payload and sign depend on the order and on the processor otherwise."
    )
    if row.term != "value":
        return (
            decision + "else one with an infinity gives +inf. A zero result is +0.",
            reason,
        )
    decision += (
        "so does one with infinities of both signs, and infinities of one sign give that "
        "one. A result that is exactly zero is +0, whatever signs its zeros have; one "
        "that is not zero but rounds to it keeps its sign."
    )
    reason += (
        " NumPy and ONNX's reference evaluator give +0 for zeros that are all -0, ONNX "
        "Runtime -0: with +0 the result is that of any sum that is exactly zero."
    )
    return decision, reason


def _integers(row: Reduction) -> str:
    if row.finish == "mean":
        return (
            "The exact sum, which does not wrap, is divided by the number of elements "
            "and cut toward zero. It always fits."
        )
    if row.finish == "root":
        return (
            "The square root of the exact sum of the exact squares, which do not wrap, "
            "is rounded down; what does not fit is taken modulo 2^32 or 2^64. The NumPy "
            "face gives the norm as double, rounded once."
        )
    what = {
        "square": "Squares and sums are exact",
        "magnitude": "Magnitudes and sums are exact, that of the least integer too,",
        "value": "Sums are exact",
    }
    return (
        f"{what[row.term]} modulo 2^32 or 2^64, in two's complement. "
        '`overflow="raise"` of the NumPy face makes what does not fit an error.'
    )


_WIDTH = (
    "This is what {} gives in arithmetic of fixed width, and NumPy too. Others saturate, "
    "or go through floats."
)
_INTEGERS_WHY: dict[tuple[Term, Finish], str] = {
    ("square", "none"): _WIDTH.format("the function body"),
    ("magnitude", "none"): _WIDTH.format("the function body"),
    ("value", "none"): _WIDTH.format("addition"),
    (
        "value",
        "mean",
    ): "A result of the type of the data must lose the fraction, as ONNX's "
    "Div and Cast do toward zero. ONNX's reference evaluator lets the sum wrap, so that "
    "the mean of two large integers is negative; ONNX Runtime loses bits above 2^53.",
    ("square", "root"): "In the function body squares and sums wrap, so that of int32 an "
    "element of 46341 has a norm that is not a number, and the root is one of float. The "
    "cast at its end cuts, which of a root is rounding down.",
}
