"""What other runtimes do otherwise with a node that is right."""

from __future__ import annotations

import math
from collections.abc import Iterator

from halfulp.element_types import BY_NAME
from halfulp.onnx.check.facts import known_axes, of_one
from halfulp.onnx.check.findings import raise_opset
from halfulp.onnx.check.nodes import KnownNode
from halfulp.reductions import BY_OPERATOR, Formula, OperatorVersion, Reduction
from halfulp.spec.rules import normalize_axes

# From here on a result is rounded to infinity in float16, and up to the other to zero.
_FLOAT16_OVERFLOW = BY_NAME["float16"].overflow
_FLOAT16_UNDERFLOW = 2.0 ** (BY_NAME["float16"].emin - BY_NAME["float16"].precision)

# How large elements are, that float16 may overflow is told where this is enough.
_LARGE = 16

# Of sums: what tells how large elements are, and the power of it that a sum grows with.
_SIZES: dict[Formula, tuple[str, int]] = {
    ("sum", "square", "none"): ("a root mean square of ", 2),
    ("sum", "square", "root"): ("a root mean square of ", 2),
    ("sum", "magnitude", "none"): ("a mean magnitude of ", 1),
    ("sum", "value", "none"): ("a mean of \N{PLUS-MINUS SIGN}", 1),
    ("sum", "value", "mean"): ("a mean of \N{PLUS-MINUS SIGN}", 1),
    ("sum", "value", "log"): ("a mean of ", 1),
}

# What ONNX Runtime's CPU provider lacks, and what to cast it to.
_WIDER = {
    "bfloat16": "to float before the node and back after it",
    "uint32": "to int64 before the node and back after it",
    "uint64": "to int64 and back where the {}s stay below 2^63",
}

# By type: what becomes of sums or products of integers, and of what is made of such sums.
_INTEGERS = {
    "int32": "a {} above 2147483647 wraps here, as in NumPy; ONNX Runtime saturates",
    "int64": "ONNX Runtime computes int64 in double, and loses bits above 2^53",
}
_FINISHED_INTEGERS = {
    "int32": "the sum is exact here; in runtimes that sum in int32, as ONNX's reference "
    "evaluator does, it wraps before the mean or the root is taken",
    "int64": _INTEGERS["int64"],
}

_INTEGER_FIX = (
    "Run it in halfulp (halfulp.onnxruntime.register) to have exact {0}s, modulo 2^N; "
    "cast to a wider type before the node if {0}s may not fit."
)


def _count(known: KnownNode) -> int | None:
    """Return how many elements are reduced to one, if that is known."""
    reduced = known_axes(known)
    if reduced is None or known.shape is None:
        return None
    sizes = [known.shape[axis] for axis in reduced]
    numbers = [size for size in sizes if isinstance(size, int)]
    return math.prod(numbers) if len(numbers) == len(sizes) else None


def type_warnings(known: KnownNode, opset: int) -> Iterator[tuple[str, str, str]]:
    """Yield code, message and fix of what follows from the element type."""
    version = known.node.version
    name, row = known.element_type, BY_OPERATOR[version.operator]
    if name in _WIDER and not _becomes_others(row, version):
        wider = _WIDER[name].format(_joined(row))
        yield (
            "no-onnxruntime-kernel",
            f"ONNX Runtime's CPU provider has no kernel for {name}",
            f"Run it in halfulp (halfulp.onnxruntime.register), or cast {wider}.",
        )
    if name == "float16" and opset < 6:
        yield (
            "float16-before-opset-6",
            "ONNX Runtime refuses float16 before opset 6",
            raise_opset(row.type_since("bfloat16")),
        )
    if name == "float16" and row.operation == "product":
        yield from _float16_product(_count(known))
    if name == "float16" and row.formula in _SIZES:
        yield from _float16_sum(row, _count(known))
    if name in BY_NAME and BY_NAME[name].kind == "integer":
        yield from _integer_warnings(row, name)


def _joined(row: Reduction) -> str:
    """Return what elements are joined to, in a word."""
    words = {"max": "result", "min": "result", "product": "product"}
    return words.get(row.operation, "sum")


def _becomes_others(row: Reduction, version: OperatorVersion) -> bool:
    """Tell whether runtimes without a kernel have the function body of a version,
    for all types of it: those of log-sum-exp cast to double."""
    return row.operation == "exponentials" and version.axes == "input"


def _integer_warnings(row: Reduction, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield what is to be said where integers of a type are reduced."""
    if row.finish == "log":
        yield (
            "integer-logarithm",
            "the logarithm of integers is cut toward zero; ONNX's reference evaluator "
            f"refuses them, and so does {row.operator} from opset {row.newest.since} on",
            "Cast the data to double before the node, and keep the result in double.",
        )
        return
    integers = _INTEGERS if row.finish == "none" else _FINISHED_INTEGERS
    if name in integers and not row.gives_elements:
        word = _joined(row)
        yield "integer-overflow", integers[name].format(word), _INTEGER_FIX.format(word)


def _float16_product(count: int | None) -> Iterator[tuple[str, str, str]]:
    """Yield what is to be said where so many elements of float16 are multiplied."""
    if count is None:
        many = "an unknown number of elements is"
        high = f"{_FLOAT16_OVERFLOW}^(1 / their number)"
        low = f"{_FLOAT16_UNDERFLOW:.3g}^(1 / their number)"
    elif count * math.log(_LARGE) >= math.log(_FLOAT16_OVERFLOW):
        many = f"{count} elements are"
        high = f"{_FLOAT16_OVERFLOW ** (1 / count):.3g}"
        low = f"{_FLOAT16_UNDERFLOW ** (1 / count):.3g}"
    else:
        return
    yield (
        "float16-overflow",
        f"{many} multiplied in float16: from a geometric mean of {high} on the result "
        f"is infinite, and up to {low} it is zero",
        "Cast the data to float before the node, and keep the result in float.",
    )


def _float16_sum(row: Reduction, count: int | None) -> Iterator[tuple[str, str, str]]:
    """Yield what is to be said where so many elements of float16 are summed to one."""
    size, degree = _SIZES[row.formula]
    if count is None:
        many = "an unknown number of elements is"
        mean = f"{_FLOAT16_OVERFLOW} / their number"
        limit = size + (f"sqrt({mean})" if degree == 2 else mean)
    elif count * _LARGE**degree >= _FLOAT16_OVERFLOW:
        many = f"{count} elements are"
        limit = f"{size}{(_FLOAT16_OVERFLOW / count) ** (1 / degree):.3g}"
    else:
        return
    if row.finish == "none":
        yield (
            "float16-overflow",
            f"{many} summed in float16: from {limit} on the result is infinite",
            "Cast the data to float before the node, and keep the result in float.",
        )
    else:
        yield (
            "float16-intermediate",
            f"{many} summed: from {limit} on, runtimes that keep the sum in float16, as "
            "ONNX's reference evaluator does, give infinity",
            "Cast the data to float before the node, and the result back after it.",
        )


def axes_warnings(known: KnownNode, opset: int) -> Iterator[tuple[str, str, str]]:
    """Yield code, message and fix of what follows from the axes."""
    axes, noop = known.axes, known.node.noop_with_empty_axes
    version, alone = known.node.version, of_one(known)
    row = BY_OPERATOR[version.operator]
    if axes is None:
        yield (
            "runtime-axes",
            "the axes are known at run time only: converters and shape inference of "
            f"many tools need them beforehand, and opsets below {row.axes_input_since} "
            "cannot say it",
            "Make the axes an initializer, if they are always the same.",
        )
    elif min(axes, default=0) < 0 and not version.negative_axes:
        normal = "counted from 0"
        if known.shape is not None:
            normal = str(_normal(axes, len(known.shape)))
        yield (
            "negative-axes",
            f"the axes {list(axes)} are negative, which opset {opset} does not define",
            f"Write {normal}, or: halfulp convert MODEL --opset "
            f"{row.negative_axes_since} -o OUT.",
        )
    distinct = axes and (axes if known.shape is None else known_axes(known))
    if axes and distinct and len(set(distinct)) < len(axes):
        yield (
            "duplicate-axes",
            f"the axes {list(axes)} name an axis twice, which some runtimes refuse",
            f"Write {sorted(set(distinct))}.",
        )
    if noop and not axes and row.of_one != "value":
        yield (
            "noop-with-empty-axes",
            f"with empty axes every element is {alone.participle}, but runtimes from "
            "before the clarification of 2025 may return the data unchanged",
            f"Say it with {alone.text}"
            + (", or make the axes an initializer." if axes is None else "."),
        )


def _normal(axes: tuple[int, ...], rank: int) -> list[int]:
    return list(normalize_axes(axes, rank, repeated="merge"))
