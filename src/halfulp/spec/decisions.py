"""What halfulp does where ONNX's texts on an operator that reduces are silent or
contradict each other, and why.

May import element_types and reductions. tests/spec/test_spec.py names the tests of each.
"""

from __future__ import annotations

from dataclasses import dataclass

from halfulp.element_types import BY_NAME
from halfulp.reductions import Formula, Reduction


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
    by_numpy = f"`{row.numpy_name}`" if row.numpy_name else ""
    texts = _TEXTS[row.formula]
    refuses = f" {by_numpy} raises an error." if by_numpy else ""
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
            f"and {texts.alone}.",
            texts.alone_why,
        ),
        Decision(
            "Negative axes",
            "They count from the end, in every version; the range is [-r, r-1].",
            "Version 1 does not mention them, but shape inference and runtimes take "
            "them.",
        ),
        Decision(
            "The same axis twice",
            f"In a model, and in {by_onnx}, axes are a set: once or twice is the same."
            + refuses,
            "ONNX's shape inference and ONNX Runtime take them so; NumPy refuses.",
        ),
        Decision(
            "Axes as an input",
            f"They are one from version {row.axes_input_since} on: a tensor of rank 1 "
            "and type int64. Any other is an error.",
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
            f"A scalar is valid: the result is {texts.scalar}. It has no axes, so "
            "that any axis given is out of range.",
            "Version 11 does not say so, the others do; a product over no axes is 1, and "
            "so a scalar is one element, not none.",
        ),
        Decision(
            "Empty sets",
            f"{texts.empty} A kept dimension of size 0 stays 0: shape (2, 0, 4) "
            "over axis 1 gives a result of shape (2, 1, 4), and over axis 2 one of shape "
            "(2, 0, 1).",
            texts.empty_why,
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
        Decision("Rounding", _rounding(row, texts), texts.rounding_why),
        Decision("NaN, infinities, zeros", texts.special, texts.special_why),
        Decision(
            "The same bits everywhere",
            "The result does not depend on threads, instruction set, memory layout, "
            "order of the elements, or on rounding and flush-to-zero modes that other "
            "code has set.",
            "It is the correctly rounded one, of which there is only one.",
        ),
        Decision("Integers", texts.integers, texts.integers_why),
        Decision(
            "The result",
            f"It has the type of the data{_type_by_numpy(row, by_numpy)}. It is a new "
            "array in C order that shares no memory with the data, which are never "
            "written.",
            "A caller may then change either without thinking of the other.",
        ),
        Decision(
            "Errors",
            "What breaks a rule is one error, before any work is done; the message names "
            "the value, what is allowed and, in a model, the node and its version.",
            "A wrong model should fail where it is wrong, not later.",
        ),
    )


@dataclass(frozen=True, slots=True)
class _Texts:
    """What differs between rows: decisions, and reasons for them.

    Attributes
    ----------
    alone, alone_why
        What becomes of an element where no axis is reduced.
    scalar
        What the result of a scalar is.
    empty, empty_why
    exact
        What a float result is, in words; empty if nothing is rounded.
    range
        What is not rounded, and how far.
    rounding_why
    special, special_why
        On NaN, infinities and zeros.
    integers, integers_why
    """

    alone: str
    alone_why: str
    scalar: str
    empty: str
    empty_why: str
    exact: str
    range: str
    rounding_why: str
    special: str
    special_why: str
    integers: str
    integers_why: str


def _rounding(row: Reduction, texts: _Texts) -> str:
    if row.gives_elements:
        return texts.range
    return (
        f"A float result is {texts.exact}, rounded once to its type: to nearest, ties to "
        f"even. {texts.range}, and subnormal numbers count."
    )


def _type_by_numpy(row: Reduction, by_numpy: str) -> str:
    if not by_numpy:
        return ""
    if row.gives_elements:
        return f", of {by_numpy} too"
    is_double = row.result_of(BY_NAME["int64"]).kind == "float"
    of_integers = "double" if is_double else "64 bits"
    return (
        f"; of {by_numpy} the one asked for, or that of NumPy's function: for integers "
        f"{of_integers}"
    )


_UNCHANGED = "Some descriptions say that the input is returned unchanged. "
_STAYS = "every element stays: -0 is -0 then, and a NaN the canonical one"
_STAYS_WHY = (
    "Today's specification calls it a no-op, the identity, which does not tell what "
    "becomes of NaNs."
)
_OTHERWISE_ZERO = "the same scalar, but +0 of -0"
_NEUTRAL = "Zero is the neutral element of a sum"
_UNROUNDED = "ONNX does not say how to round. "
_UNIQUE = " The exact result is the one that does not depend on how it is computed."
_NAN = "A set with a NaN gives the one canonical quiet NaN, also beside infinities; "
_NAN_WHY = "A NaN's payload and sign depend on the order and on the processor otherwise."
_NO_SIGN = _NAN + "else one with an infinity gives +inf. A zero result is +0."
_SIGNED = _NAN + (
    "so does one with infinities of both signs, and infinities of one sign give that "
    "one. A result that is exactly zero is +0, whatever signs its zeros have; one "
    "that is not zero but rounds to it keeps its sign."
)
_SIGNED_WHY = _NAN_WHY + (
    " NumPy and ONNX's reference evaluator give +0 for zeros that are all -0, ONNX "
    "Runtime -0: with +0 the result is that of any sum that is exactly zero."
)
_WIDTH = (
    "This is what {} gives in arithmetic of fixed width, and NumPy too. Others saturate, "
    "or go through floats."
)
_MODULO = (
    "{} modulo 2^32 or 2^64, in two's complement. "
    '`overflow="raise"` of the NumPy face makes what does not fit an error.'
)
_LOG_INTEGERS = (
    "Versions below 28 take them: the logarithm of {} is cut toward zero. Where there is "
    "none{}, the result is the least number of the type"
)
_LOG_INTEGERS_WHY = (
    "A result of the type of the data must lose the fraction, as ONNX's Cast does toward "
    "zero; it has no infinity and no NaN, and the texts leave the logarithm of 0 "
    "undefined. Version 28 takes none."
)
_LOG_EMPTY = (
    "The logarithm of a sum of no elements is -inf; of integers, which have none, the "
    "least number of the type."
)
_LOG_EMPTY_WHY = (
    "A sum of no elements is 0. The texts say so of floats, and call it undefined for "
    "integers: the least number is what comes next to -inf."
)


def _extreme(
    extreme: str, empty: str, of_integers: str, of_bool: str, of_zeros: str
) -> _Texts:
    """The texts of maxima or minima."""
    return _Texts(
        _STAYS,
        _STAYS_WHY,
        "the same scalar",
        f"The {extreme} of no elements is {empty}; of integers the {of_integers} number "
        f"of their type, of bool {of_bool}.",
        "That is the neutral element, so that parts may be joined; the texts say so from "
        "version 18 on. ONNX Runtime refuses an empty set of bool.",
        "",
        "A result is an element, and nothing is rounded: subnormal numbers stay, also "
        "where other code has them flushed to zero.",
        "An element has the type of the result.",
        "Any NaN, wherever it stands, gives the one canonical quiet NaN. -0 is below +0, "
        f"so that the {extreme} of both is {of_zeros}. "
        "Infinities are numbers as others.",
        "Comparing tells neither of NaNs nor of signs of zeros, so that what comes of "
        "both depends on the order otherwise: of nan, 1 and 2 ONNX Runtime gives nan as "
        "the maximum, and of 1, nan and 2 it gives 2. IEEE 754's maximum and minimum "
        "give NaN and order zeros; NumPy's do the former.",
        "An element, in whole: none goes through floats.",
        "Elements of 64 bits have more of them than any float.",
    )


_TEXTS: dict[Formula, _Texts] = {
    ("sum", "square", "none"): _Texts(
        "every element is squared",
        _UNCHANGED + "The function body, the node tests and today's specification "
        "square it.",
        "its square, a scalar",
        "A sum of no elements is +0.",
        f"{_NEUTRAL}.",
        "the exact sum of the exact squares",
        "Only a sum that itself is too large is infinite, whatever partial sums are",
        _UNROUNDED + "The function body rounds every square, so its last bits can "
        "differ, and small squares vanish in it." + _UNIQUE,
        _NO_SIGN,
        _NAN_WHY,
        _MODULO.format("Squares and sums are exact"),
        _WIDTH.format("the function body"),
    ),
    ("sum", "value", "none"): _Texts(
        _STAYS,
        _STAYS_WHY,
        _OTHERWISE_ZERO,
        "A sum of no elements is +0.",
        f"{_NEUTRAL}.",
        "the exact sum",
        "Only a sum that itself is too large is infinite, whatever partial sums are",
        _UNROUNDED + "Runtimes round whenever they add, each in its own order: of "
        "1e16, 1 and -1e16 some give 0, and of 3e38, 3e38 and -3e38 as float infinity."
        + _UNIQUE,
        _SIGNED,
        _SIGNED_WHY,
        _MODULO.format("Sums are exact"),
        _WIDTH.format("addition"),
    ),
    ("sum", "value", "mean"): _Texts(
        _STAYS,
        _STAYS_WHY,
        _OTHERWISE_ZERO,
        "A mean of no elements is NaN, of integers 0.",
        "The texts call it undefined. Zero divided by zero is NaN, which NumPy and "
        "ONNX's reference evaluator give too. Integers have none; the evaluator gives "
        "the least of them, ONNX Runtime 0, of floats too.",
        "the exact sum, divided by the number of elements",
        "However large the sum is, a mean of finite elements is finite",
        _UNROUNDED + "Runtimes round whenever they add, and some sums overflow: of two "
        "float16 65504 some give infinity." + _UNIQUE,
        _SIGNED,
        _SIGNED_WHY,
        "The exact sum, which does not wrap, is divided by the number of elements "
        "and cut toward zero. It always fits.",
        "A result of the type of the data must lose the fraction, as ONNX's "
        "Div and Cast do toward zero. ONNX's reference evaluator lets the sum wrap, so "
        "that the mean of two large integers is negative; ONNX Runtime loses bits above "
        "2^53.",
    ),
    ("sum", "magnitude", "none"): _Texts(
        "every element is made positive",
        _UNCHANGED + "The function body and today's specification still do what "
        "is not reducing.",
        "its magnitude, a scalar",
        "A sum of no elements is +0.",
        f"{_NEUTRAL}.",
        "the exact sum of the magnitudes",
        "Only a sum that itself is too large is infinite, whatever partial sums are",
        _UNROUNDED + "The function body rounds whenever it adds, in an order that "
        "nobody says." + _UNIQUE,
        _NO_SIGN,
        _NAN_WHY,
        _MODULO.format("Magnitudes and sums are exact, that of the least integer too,"),
        _WIDTH.format("the function body"),
    ),
    ("sum", "square", "root"): _Texts(
        "every element is made positive",
        _UNCHANGED + "The function body and today's specification still do what "
        "is not reducing.",
        "its magnitude, a scalar",
        "A norm of no elements is +0.",
        f"{_NEUTRAL}, and its own root.",
        "the square root of the exact sum of the exact squares",
        "Squares may be too large or too small for the type where the norm is not",
        _UNROUNDED + "The function body rounds every square and every sum, and takes "
        "the root as float, which would leave 24 bits of a double; of 3e30 and 4e30 as "
        "float it gives infinity, of 3e-30 and 4e-30 zero." + _UNIQUE,
        _NO_SIGN,
        _NAN_WHY,
        "The square root of the exact sum of the exact squares, which do not wrap, "
        "is rounded down; what does not fit is taken modulo 2^32 or 2^64. The NumPy "
        "face gives the norm as double, rounded once.",
        "In the function body squares and sums wrap, so that of int32 an "
        "element of 46341 has a norm that is not a number, and the root is one of float. "
        "The cast at its end cuts, which of a root is rounding down.",
    ),
    ("max", "value", "none"): _extreme("greatest", "-inf", "least", "False", "+0"),
    ("min", "value", "none"): _extreme("least", "+inf", "greatest", "True", "-0"),
    ("product", "value", "none"): _Texts(
        _STAYS,
        _STAYS_WHY,
        "the same scalar",
        "A product of no elements is 1.",
        "One is the neutral element of a product.",
        "the exact product",
        "Only a product that itself is too large is infinite, or too small is zero, "
        "whatever products of some elements are",
        _UNROUNDED + "Runtimes round whenever they multiply, so that a product that "
        "leaves the range and comes back is infinite or zero, depending on the order: of "
        "1e-30, 1e-30, 1e30 and 1e30 as float ONNX's reference evaluator gives 0, and "
        "infinity of the same backwards." + _UNIQUE,
        _NAN + "so does one with an infinity and a zero, whatever stands between them; "
        "else one with an infinity is infinite. The sign is negative if an odd number of "
        "signs are, those of zeros and infinities too.",
        _NAN_WHY + " These are IEEE 754's rules for two factors, which give the same in "
        "any order.",
        _MODULO.format("Products are exact"),
        _WIDTH.format("multiplication"),
    ),
    ("sum", "value", "log"): _Texts(
        "every element is replaced by its logarithm",
        _UNCHANGED + "The function body and today's specification still do what is not "
        "reducing.",
        "its logarithm, a scalar",
        _LOG_EMPTY,
        _LOG_EMPTY_WHY,
        "the natural logarithm of the exact sum",
        "A sum may be too large or too small for the type where its logarithm is not",
        _UNROUNDED + "The function body rounds whenever it adds, and a logarithm next to "
        "that of 1 makes much of little: of 3e38 and 3e38 as float it gives infinity, "
        "where the logarithm is 89.29." + _UNIQUE,
        _NAN + "so does one with infinities of both signs, and a sum below 0. A sum of 0 "
        "gives -inf, +inf gives +inf, and the logarithm of 1 is +0.",
        _NAN_WHY + " The others are IEEE 754's rules for logarithms, by which that of -0 "
        "is -inf too.",
        _LOG_INTEGERS.format("the exact sum", ", as that is 0 or below")
        + ". The sum does not wrap.",
        _LOG_INTEGERS_WHY,
    ),
    ("exponentials", "value", "log"): _Texts(
        _STAYS,
        _UNCHANGED + "That it is, as the logarithm of the exponential of one element is "
        "the element; only NaNs become the canonical one.",
        _OTHERWISE_ZERO,
        _LOG_EMPTY,
        _LOG_EMPTY_WHY,
        "the natural logarithm of the exact sum of the exact exponentials",
        "Exponentials may be too large or too small for any type where the result is not",
        _UNROUNDED + "The function body adds exponentials as double, which are infinite "
        "from 709.8 on and zero below -745: of 1000 and 1000 it gives infinity."
        + _UNIQUE,
        _NAN + "else one with +inf gives +inf. Elements of -inf add nothing, and alone "
        "give -inf. A result that is exactly zero is +0.",
        _NAN_WHY + " The exponential of -inf is 0, whose logarithm is -inf: ways that "
        "subtract the greatest element first, as ONNX's reference evaluator does, give "
        "NaN.",
        _LOG_INTEGERS.format("the exact sum of exponentials", ", of no elements")
        + "; one that does not fit, next to the greatest number, is taken modulo 2^32 or "
        "2^64. The NumPy face gives it as double, rounded once.",
        _LOG_INTEGERS_WHY,
    ),
}
