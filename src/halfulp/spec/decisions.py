"""What halfulp does where ONNX's texts on ReduceSumSquare are silent or contradict
each other, and why.

Imports nothing of halfulp. tests/spec/test_spec.py names the tests of each decision.
"""

from __future__ import annotations

from dataclasses import dataclass


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


DECISIONS = (
    Decision(
        "Which version",
        "A node has the newest version that the opset of its model allows. "
        'Domain `"ai.onnx"` is the same as `""`. An opset later than any known means '
        "version 18.",
        "An operator gets a new version only when it changes, so a later opset alone "
        "changes nothing.",
    ),
    Decision(
        "Empty axes",
        'Axes are empty if they are absent, if the input has the empty name `""`, if '
        "their tensor has shape (0,), or if the attribute is an empty list: all mean the "
        "same. Then all axes are reduced; with `noop_with_empty_axes` 1 none is, and "
        "every element is squared.",
        "Some descriptions of version 18 say that the input is returned unchanged. "
        "The function body, the node tests and today's specification square it.",
    ),
    Decision(
        "Negative axes",
        "They count from the end, in every version; the range is [-r, r-1].",
        "Version 1 does not mention them, but shape inference and runtimes take them.",
    ),
    Decision(
        "The same axis twice",
        "In a model, and in `reduce_sum_square`, axes are a set: once or twice is the "
        "same. `sum_square` raises an error.",
        "ONNX's shape inference and ONNX Runtime take them so; NumPy refuses.",
    ),
    Decision(
        "Axes as an input",
        "They are a tensor of rank 1 and type int64. Any other is an error.",
        "A single number would be convenient, but no other runtime need take it.",
    ),
    Decision(
        "Flags",
        "In a model, and in `reduce_sum_square`, `keepdims` and `noop_with_empty_axes` "
        "are 0 or 1. Any other value is an error.",
        "The texts speak of true and false; a 2 is a mistake, not a third meaning.",
    ),
    Decision(
        "Rank 0",
        "A scalar is valid: the result is its square, a scalar. It has no axes, so that "
        "any axis given is out of range.",
        "Version 11 does not say so, the others do; a product over no axes is 1, and so "
        "a scalar is one element, not none.",
    ),
    Decision(
        "Empty sets",
        "A sum of no elements is +0. A kept dimension of size 0 stays 0: shape (2, 0, 4) "
        "over axis 1 gives zeros of shape (2, 1, 4), and over axis 2 shape (2, 0, 1).",
        "Zero is the neutral element of a sum.",
    ),
    Decision(
        "Shape inference",
        "Where the axes are known only when the model runs, `keepdims` 1 keeps the rank, "
        "and each dimension is unknown unless it is 1; `keepdims` 0 leaves the rank "
        "unknown. Symbols and unknown dimensions pass where they are not reduced. Axes "
        "out of range are an error.",
        "ONNX's shape inference gives up the rank in both cases, and with it the ranks "
        "of all that follows.",
    ),
    Decision(
        "Rounding",
        "A float result is the exact sum of the exact squares, rounded once to its type: "
        "to nearest, ties to even. Only a sum that itself is too large is infinite, and "
        "subnormal numbers count.",
        "ONNX does not say how to round. The function body rounds every square, so its "
        "last bits can differ, and small squares vanish in it; the exact sum is the one "
        "result that does not depend on how it is computed.",
    ),
    Decision(
        "NaN, infinities, zeros",
        "A set with a NaN gives the one canonical quiet NaN, also beside infinities; "
        "else one with an infinity gives +inf. A zero result is +0.",
        "A NaN's payload and sign depend on the order and on the processor otherwise.",
    ),
    Decision(
        "The same bits everywhere",
        "The result does not depend on threads, instruction set, memory layout, order of "
        "the elements, or on rounding and flush-to-zero modes that other code has set.",
        "It is the correctly rounded one, of which there is only one.",
    ),
    Decision(
        "Integers",
        "Squares and sums are exact modulo 2^32 or 2^64, in two's complement. "
        '`overflow="raise"` of the NumPy face makes what does not fit an error.',
        "This is what the function body gives in arithmetic of fixed width, and NumPy "
        "too. Others saturate, or go through floats.",
    ),
    Decision(
        "The result",
        "It has the type of the data; of `sum_square` the one asked for, or of NumPy's "
        "sums: 64 bits for integers. It is a new array in C order that shares no memory "
        "with the data, which are never written.",
        "A caller may then change either without thinking of the other.",
    ),
    Decision(
        "Errors",
        "What breaks a rule is one error, before any work is done; the message names the "
        "value, what is allowed and, in a model, the node and its version.",
        "A wrong model should fail where it is wrong, not later.",
    ),
)
