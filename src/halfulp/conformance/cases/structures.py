"""Cases of structure: axes, flags, ranks, empty dimensions, opsets.

May import reductions, bits, case, maker and recorded only. All types hold the sums, so
that a wrong one has no excuse in rounding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from halfulp.conformance.bits import Array
from halfulp.conformance.cases.case import Case
from halfulp.conformance.cases.maker import Maker, small_values
from halfulp.conformance.cases.recorded import examples
from halfulp.reductions import OfOne, Reduction

_SHAPE = (2, 3, 4)
# Along axis 1 one long sum, and 33 of them, the innermost wide axis reduced or kept.
_LONG_SHAPES = ((1, 129, 1), (33, 128, 1), (3, 130, 11))
_LONGEST_SHAPE = (2, 3, 1, 2, 2, 1, 3, 2)

# Besides the first opset of each version: among them are the last that it serves, and
# later ones than any version.
_OPSETS = (7, 10, 12, 15, 17, 19, 21)

# What becomes of elements of which each is a reduction of itself.
_ALONE: dict[OfOne, str] = {
    "square": "Each element is squared, and no more.",
    "log": "Each element becomes its logarithm, and no more.",
    "magnitude": "Each element loses its sign, and no more.",
    "value": "Each element stays what it is.",
}

_TWICE = (
    "The same axis twice: the specification does not forbid it, and ONNX's shape "
    "inference takes axes as a set."
)


def documented(new: Maker) -> Iterator[Case]:
    """The documented examples; as they are printed those of that type and version."""
    names = f"{new.reduction.operator.lower()}_|{new.reduction.onnx_name}_"
    for name, opset, data, axes, attributes in examples(new.reduction.operator):
        own_version = new.reduction.version_for(opset) is new.version
        as_printed = own_version and new.dtype == data.dtype
        detail = re.sub(f"^test_|{names}", "", name)
        if not as_printed and detail.startswith("cc_"):
            continue  # the values of another one
        axes_form = "absent" if axes is None else None
        note = "" if as_printed else f"A documented example, in {new.dtype.name}."
        yield new(
            "examples",
            detail,
            data.astype(new.dtype),
            axes_form,
            axes,
            attributes["keepdims"],
            attributes.get("noop_with_empty_axes"),
            note,
        )


def axes(new: Maker) -> Iterator[Case]:
    """Every form of axes, and every kind of list."""
    data = new.small_values(_SHAPE)

    def axes_case(
        axes: Any,
        axes_form: str | None = None,
        kind: str = "",
        note: str = "",
        data: Array = data,
    ) -> Case:
        where = f"_{axes_form.replace(' ', '_')}" if axes_form else ""
        size = "" if data.shape == _SHAPE else f"_{_size(data.shape)}"
        detail = f"{_word(axes)}{where}{size}"
        return new("axes", detail, data, axes_form, axes, note=note, kind=kind)

    yield axes_case(None, "absent", "all", "Without axes, all are reduced.")
    empty_note = "Empty axes reduce all axes."
    if new.version.axes == "input":
        note = "The empty name stands for an absent input."
        yield axes_case(None, "empty name", "all", note)
        for axes_form in ("const", "node", "input", "default"):
            yield axes_case([], axes_form, "empty", empty_note)
            yield axes_case([1], axes_form)
    else:
        yield axes_case([], "attr", "empty", empty_note)
    for given in ([0], [1], [2], [0, 2], [1, 2], [0, 1, 2]):
        yield axes_case(given)
    yield axes_case([2, 0], kind="unsorted", note="Axes need not be sorted.")
    if not new.version.negative_axes:
        return
    for given in ([-1], [-3, -1]):
        note = "Negative axes count from the end."
        yield axes_case(given, kind="negative", note=note)
    for array in (data, *(_zeros_and_ones(new, shape) for shape in _LONG_SHAPES)):
        for given in ([1, 1], [1, -2]):
            yield axes_case(given, kind="twice", note=_TWICE, data=array)


def _zeros_and_ones(new: Maker, shape: tuple[int, ...]) -> Array:
    """Of which all types hold the sums; of products, other factors."""
    if new.reduction.operation == "product":
        return new.small_values(shape)
    result: Array = (small_values(shape, np.dtype(int)) != 0).astype(new.dtype)
    return result


def keepdims(new: Maker) -> Iterator[Case]:
    """Each value of keepdims, over several sets of axes."""
    data = new.small_values(_SHAPE)
    for keep in (0, 1, None):
        word = "absent" if keep is None else keep
        note = "keepdims is 1 unless it is given." if keep is None else ""
        for given in (None, [0], [1], [0, 2]):
            axes_form = "absent" if given is None else None
            detail = f"{word}_{_word(given)}"
            yield new("keepdims", detail, data, axes_form, given, keep, None, note)


def noop(new: Maker) -> Iterator[Case]:
    """Each value of noop_with_empty_axes, over every form of empty axes."""
    if not new.version.noop_with_empty_axes:
        return
    data = new.small_values(_SHAPE)
    alone = _ALONE[new.reduction.of_one]
    for flag in (1, 0, None):
        word = "absent" if flag is None else flag
        for axes_form in ("absent", "empty name", "const", "input"):
            for keep in (0, 1):
                given: Any = None if axes_form in ("absent", "empty name") else []
                detail = f"{word}_{axes_form.replace(' ', '_')}_keepdims{keep}"
                note = alone if flag else ""
                yield new("noop", detail, data, axes_form, given, keep, flag, note)
    one = new.small_values((1, 1, 1))
    yield new("noop", "1_one_element_keepdims0", one, "absent", None, 0, 1, alone)
    if new.reduction.of_one == "value" and new.dtype.kind not in "iub":
        zeros = np.array([-0.0, 0.0, -1.0]).astype(new.dtype)
        note = "An element that is a reduction of itself keeps its sign."
        yield new("noop", "1_negative_zero", zeros, "absent", None, 1, 1, note)
    for keep in (0, 1):
        note = "Axes are given, so the flag changes nothing."
        detail = f"1_axis1_keepdims{keep}"
        yield new("noop", detail, data, "const", [1], keep, 1, note)


def rank0(new: Maker) -> Iterator[Case]:
    """Scalars: the result is of one element, of rank 0."""
    data = np.array(3).astype(new.dtype)
    note = "A scalar has no axes; its result has rank 0."
    for keep in (1, 0, None):
        word = "absent" if keep is None else keep
        yield new("rank0", f"keepdims_{word}", data, "absent", None, keep, None, note)
    if new.version.axes == "input":
        yield new("rank0", "empty_name", data, "empty name", None, 0, None, note)
        yield new("rank0", "noop", data, "absent", None, 1, 1, note)
    yield new("rank0", "empty_axes", data, None, [], 1, None, note)


def empty(new: Maker) -> Iterator[Case]:
    """Dimensions of size 0: reduced, they give 0 or no mean; kept, they stay."""
    note = _of_nothing(new.reduction, is_integer=new.dtype.kind in "iub")
    for shape, given in (
        ((2, 0, 4), [1]),
        ((2, 0, 4), [2]),
        ((2, 0, 4), [0, 1]),
        ((2, 0, 4), None),
        ((0,), [0]),
        ((0, 0), [0]),
        ((0, 3), [0]),
    ):
        data = np.zeros(shape, new.dtype)
        axes_form = "absent" if given is None else None
        for keep in (1, 0):
            detail = f"{_size(shape)}_{_word(given)}_keepdims{keep}"
            yield new("empty", detail, data, axes_form, given, keep, None, note)


def _of_nothing(row: Reduction, *, is_integer: bool) -> str:
    if row.finish == "mean":
        return f"The mean of nothing is {'0 in integers' if is_integer else 'NaN'}."
    if row.operation == "product":
        return "The product of nothing is 1."
    word = {"max": "greatest", "min": "least"}.get(row.operation)
    if word:
        end = "least" if row.operation == "max" else "greatest"
        sign = "-" if row.operation == "max" else "+"
        what = f"the {end} value of the type" if is_integer else f"{sign}inf"
        return f"The {word} of no elements is {what}."
    if row.finish == "log":
        what = "the least value of the type" if is_integer else "-inf"
        return f"The logarithm of a sum of nothing is {what}."
    return f"A sum of no {row.term}s is 0."


def ranks(new: Maker) -> Iterator[Case]:
    """One to eight dimensions."""
    for rank in range(8, 0, -1):
        data = new.small_values(_LONGEST_SHAPE[:rank])
        for given in dict.fromkeys([tuple(range(0, rank, 2)), (rank - 1,)]):
            detail = f"{rank}_{_word(given)}"
            yield new("ranks", detail, data, None, list(given), 0)
    data = new.small_values(_LONGEST_SHAPE)
    yield new("ranks", "8_all", data, "absent", None, 1)


def opsets(new: Maker) -> Iterator[Case]:
    """Later opsets that mean the same version."""
    data = new.small_values(_SHAPE)
    for opset in _OPSETS:
        if new.reduction.version_for(opset) is not new.version:
            continue
        note = f"Opset {opset} means version {new.version.since}."
        yield new("opsets", str(opset), data, None, [1], 0, None, note, opset=opset)


STRUCTURES = (documented, axes, keepdims, noop, rank0, empty, ranks, opsets)


def _size(shape: tuple[int, ...]) -> str:
    """A shape as a word of a name."""
    return "x".join(map(str, shape))


def _word(axes: Any) -> str:
    """A list of axes as a word of a name."""
    if axes is None:
        return "all"
    if not axes:
        return "none"
    words = [f"m{-axis}" if axis < 0 else str(axis) for axis in axes]
    return "axis" + "_".join(words)
