"""What other runtimes do otherwise with a node that is right."""

from __future__ import annotations

import math
from collections.abc import Iterator

from halfulp.element_types import BY_NAME
from halfulp.onnx.check.facts import known_axes, of_one
from halfulp.onnx.check.findings import raise_opset
from halfulp.onnx.check.nodes import KnownNode
from halfulp.reductions import BY_OPERATOR, Reduction, Term
from halfulp.spec.rules import normalize_axes

# From here on a result is rounded to infinity in float16.
_FLOAT16_OVERFLOW = BY_NAME["float16"].overflow

# How large elements are, that float16 may overflow is told where this is enough.
_LARGE = 16

# By term: what tells how large elements are, and the power of it that a sum grows with.
_SIZES: dict[Term, tuple[str, int]] = {
    "square": ("a root mean square of ", 2),
    "magnitude": ("a mean magnitude of ", 1),
    "value": ("a mean of \N{PLUS-MINUS SIGN}", 1),
}

# What ONNX Runtime's CPU provider lacks, and what to cast it to.
_WIDER = {
    "bfloat16": "to float before the node and back after it",
    "uint32": "to int64 before the node and back after it",
    "uint64": "to int64 and back where the sums stay below 2^63",
}

# By type: what becomes of sums of integers, and of what is made of such sums.
_INTEGERS = {
    "int32": "a sum above 2147483647 wraps here, as in NumPy; ONNX Runtime saturates",
    "int64": "ONNX Runtime computes int64 in double, and loses bits above 2^53",
}
_FINISHED_INTEGERS = {
    "int32": "the sum is exact here; in runtimes that sum in int32, as ONNX's reference "
    "evaluator does, it wraps before the mean or the root is taken",
    "int64": _INTEGERS["int64"],
}

_INTEGER_FIX = (
    "Run it in halfulp (halfulp.onnxruntime.register) to have exact sums, modulo 2^N; "
    "cast to a wider type before the node if sums may not fit."
)


def _count(known: KnownNode) -> int | None:
    """Return how many elements are summed to one, if that is known."""
    reduced = known_axes(known)
    if reduced is None or known.shape is None:
        return None
    sizes = [known.shape[axis] for axis in reduced]
    numbers = [size for size in sizes if isinstance(size, int)]
    return math.prod(numbers) if len(numbers) == len(sizes) else None


def type_warnings(known: KnownNode, opset: int) -> Iterator[tuple[str, str, str]]:
    """Yield code, message and fix of what follows from the element type."""
    name, row = known.element_type, BY_OPERATOR[known.node.version.operator]
    if name in _WIDER:
        yield (
            "no-onnxruntime-kernel",
            f"ONNX Runtime's CPU provider has no kernel for {name}",
            f"Run it in halfulp (halfulp.onnxruntime.register), or cast {_WIDER[name]}.",
        )
    if name == "float16" and opset < 6:
        yield (
            "float16-before-opset-6",
            "ONNX Runtime refuses float16 before opset 6",
            raise_opset(row.all_types_since),
        )
    if name == "float16":
        yield from _float16_warnings(row, _count(known))
    integers = _INTEGERS if row.finish == "none" else _FINISHED_INTEGERS
    if name in integers:
        yield "integer-overflow", integers[name], _INTEGER_FIX


def _float16_warnings(
    row: Reduction, count: int | None
) -> Iterator[tuple[str, str, str]]:
    """Yield what is to be said where so many elements of float16 are summed to one."""
    size, degree = _SIZES[row.term]
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
