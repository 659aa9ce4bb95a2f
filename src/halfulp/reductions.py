"""The table of reductions: what each is made of, and what ONNX says of its operator.

Whatever differs between operators follows from a row. native/reductions.inc is the same
table for C++; tests/core/test_reductions.py holds both to each other and to onnx.

May import element_types and errors only; in particular not onnx, without which the
functions work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from halfulp.element_types import BY_NAME, ELEMENT_TYPES, ElementType
from halfulp.errors import ModelError

Operation = Literal["sum", "max", "min", "product", "exponentials"]
Term = Literal["square", "magnitude", "value"]
Finish = Literal["none", "mean", "root", "log"]
Formula = tuple[Operation, Term, Finish]
OfOne = Term | Literal["log"]
AxesPlace = Literal["attribute", "input"]


@dataclass(frozen=True, slots=True)
class OperatorVersion:
    """One version of an operator.

    Attributes
    ----------
    operator : str
        ONNX's name of it.
    since : int
        The opset that introduced the version.
    axes : {"attribute", "input"}
        Where a node keeps its axes.
    noop_with_empty_axes : bool
        Whether that attribute exists.
    negative_axes : bool
        Whether the specification promises them; they are taken in any case.
    types : tuple of str
        ONNX's names of the element types allowed.
    """

    operator: str
    since: int
    axes: AxesPlace
    noop_with_empty_axes: bool
    negative_axes: bool
    types: tuple[str, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that a node may have."""
        names = ["keepdims"]
        if self.axes == "attribute":
            names.insert(0, "axes")
        if self.noop_with_empty_axes:
            names.append("noop_with_empty_axes")
        return tuple(names)

    def __str__(self) -> str:
        return f"{self.operator}-{self.since}"


@dataclass(frozen=True, slots=True)
class Reduction:
    """A row of the table.

    Attributes
    ----------
    name : str
        Its own; those of its functions are `numpy_name` and `onnx_name`.
    operator : str
        ONNX's name.
    operation : {"sum", "max", "min", "product", "exponentials"}
        What joins the terms.
    term : {"square", "magnitude", "value"}
        What an element gives.
    finish : {"none", "mean", "root", "log"}
        What becomes of the whole before it is rounded.
    versions : tuple of OperatorVersion
        The oldest first.
    ord : float, optional
        Of the norm that it is, in NumPy's words; None if it is none.
    """

    name: str
    operator: str
    operation: Operation
    term: Term
    finish: Finish
    versions: tuple[OperatorVersion, ...]
    ord: float | None = None

    @property
    def onnx_name(self) -> str:
        """The name of the function with ONNX's face."""
        return f"reduce_{self.name}"

    @property
    def numpy_name(self) -> str | None:
        """The name of the function with NumPy's face; None if there is none."""
        if self.ord is not None:
            return "vector_norm"
        if self.operation == "exponentials":
            return "logsumexp"
        return None if self.finish == "log" else self.name

    @property
    def formula(self) -> Formula:
        """What it computes, which no other row of ONNX's does."""
        return self.operation, self.term, self.finish

    @property
    def of_one(self) -> OfOne:
        """What one element reduces to: the root of a square is a magnitude."""
        if self.finish == "root":
            return "magnitude"
        return "log" if (self.operation, self.finish) == ("sum", "log") else self.term

    @property
    def newest(self) -> OperatorVersion:
        """The newest version."""
        return self.versions[-1]

    @property
    def gives_elements(self) -> bool:
        """Whether results are elements, so that they have the type of these."""
        return self.operation in ("max", "min") and self.term == "value"

    def result_of(self, source: ElementType) -> ElementType:
        """Return the type of results of data of a type, if no other is asked for.

        As NumPy has it: of floats the same; of integers 64 bits or, of means and norms,
        double.
        """
        if self.gives_elements:
            return source
        return result_of(source, is_real=self.finish != "none" or self.ord is not None)

    def version_for(self, opset: int) -> OperatorVersion:
        """Return the newest version that an opset of the domain ``""`` allows.

        An opset later than any known still means the last version.

        Raises
        ------
        ModelError
            If `opset` is below that of the first version.
        """
        for version in reversed(self.versions):
            if version.since <= opset:
                return version
        raise ModelError(
            f"opset {opset} of domain '' is not allowed; allowed: "
            f"{self.versions[0].since} and later"
        )

    def first(self, has: Callable[[OperatorVersion], bool]) -> int:
        """Return the first opset whose version has something that some version has."""
        return next(version.since for version in self.versions if has(version))

    @property
    def axes_input_since(self) -> int:
        """The first opset in which axes are an input."""
        return self.first(lambda version: version.axes == "input")

    @property
    def negative_axes_since(self) -> int:
        """The first opset that promises negative axes."""
        return self.first(lambda version: version.negative_axes)

    def type_since(self, name: str) -> int:
        """Return the first opset that takes the element type called `name` in ONNX."""
        return self.first(lambda version: name in version.types)


@dataclass(frozen=True, slots=True)
class Spread:
    """How far values lie apart: no row of the table, as it is made of two sums.

    Attributes
    ----------
    name : {"var", "std"}
        That of the function.
    ddof : int
        How many terms fewer than there are a variance is divided by.
    """

    name: Literal["var", "std"]
    ddof: int

    def result_of(self, source: ElementType) -> ElementType:
        """Return the type of results of data of a type, if no other is asked for."""
        return result_of(source, is_real=True)


def result_of(source: ElementType, *, is_real: bool) -> ElementType:
    """Return the type of results, as NumPy has it: `is_real` says whether of integers
    they are real numbers, as means and norms are."""
    if source.kind == "float":
        return source
    if is_real:
        return BY_NAME["double"]
    return BY_NAME["int64" if source.is_signed else "uint64"]


_ALL = tuple(t.name for t in ELEMENT_TYPES)
_FLOATS = tuple(t.name for t in ELEMENT_TYPES if t.kind == "float")
_ALL_BUT_BFLOAT16 = tuple(name for name in _ALL if name != "bfloat16")
# Small types that maxima and minima take besides.
_BYTES = ("int8", "uint8")


# The versions of an operator: since, axes, noop_with_empty_axes, negative_axes, types.
_Versions = tuple[tuple[int, AxesPlace, bool, bool, tuple[str, ...]], ...]

_AXES_FROM_18: _Versions = (
    (1, "attribute", False, False, _ALL_BUT_BFLOAT16),
    (11, "attribute", False, True, _ALL_BUT_BFLOAT16),
    (13, "attribute", False, True, _ALL),
    (18, "input", True, True, _ALL),
)
_FLOATS_FROM_28: _Versions = (
    *_AXES_FROM_18,
    (28, "input", True, True, _FLOATS),
)
_AXES_FROM_13: _Versions = (*_AXES_FROM_18[:2], (13, "input", True, True, _ALL))
_BYTES_FROM_12: _Versions = (
    *_AXES_FROM_18[:2],
    (12, "attribute", False, True, (*_ALL_BUT_BFLOAT16, *_BYTES)),
    (13, "attribute", False, True, (*_ALL, *_BYTES)),
    (18, "input", True, True, (*_ALL, *_BYTES)),
    (20, "input", True, True, (*_ALL, *_BYTES, "bool")),
)


def _reduction(
    name: str,
    operator: str,
    operation: Operation,
    term: Term,
    finish: Finish,
    versions: _Versions,
    ord: float | None = None,
) -> Reduction:
    made = tuple(OperatorVersion(operator, *version) for version in versions)
    return Reduction(name, operator, operation, term, finish, made, ord)


SUM_SQUARE = _reduction(
    "sum_square", "ReduceSumSquare", "sum", "square", "none", _AXES_FROM_18
)
SUM = _reduction("sum", "ReduceSum", "sum", "value", "none", _AXES_FROM_13)
MEAN = _reduction("mean", "ReduceMean", "sum", "value", "mean", _AXES_FROM_18)
L1 = _reduction("l1", "ReduceL1", "sum", "magnitude", "none", _AXES_FROM_18, ord=1)
L2 = _reduction("l2", "ReduceL2", "sum", "square", "root", _AXES_FROM_18, ord=2)
MAX = _reduction("max", "ReduceMax", "max", "value", "none", _BYTES_FROM_12)
MIN = _reduction("min", "ReduceMin", "min", "value", "none", _BYTES_FROM_12)
PROD = _reduction("prod", "ReduceProd", "product", "value", "none", _AXES_FROM_18)
LOG_SUM = _reduction("log_sum", "ReduceLogSum", "sum", "value", "log", _FLOATS_FROM_28)
LOG_SUM_EXP = _reduction(
    "log_sum_exp", "ReduceLogSumExp", "exponentials", "value", "log", _FLOATS_FROM_28
)
# What only the NumPy face has: no operators of ONNX, so they have no versions.
LARGEST = _reduction("largest", "", "max", "magnitude", "none", (), ord=math.inf)
SMALLEST = _reduction("smallest", "", "min", "magnitude", "none", (), ord=-math.inf)

# ONNX's reductions, which models may have.
REDUCTIONS = (SUM_SQUARE, SUM, MEAN, L1, L2, MAX, MIN, PROD, LOG_SUM, LOG_SUM_EXP)
NUMPY_REDUCTIONS = (LARGEST, SMALLEST)
# Those that are of an exact sum alone, which `ExactSum` keeps.
SUMS = (SUM_SQUARE, SUM, MEAN, L1, L2)

# The domain of ONNX's own operators has two names.
DOMAIN_NAMES = ("", "ai.onnx")

BY_OPERATOR = {row.operator: row for row in REDUCTIONS}


def reduction_named(operator: str, domain: str = "") -> Reduction | None:
    """Return the row of an operator of a domain, if the table has it."""
    return BY_OPERATOR.get(operator) if domain in DOMAIN_NAMES else None
