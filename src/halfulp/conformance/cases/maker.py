"""Makes cases of a version: their names, opsets, and where axes usually stand.

May import element_types, reductions, bits and case only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from halfulp.conformance.bits import Array
from halfulp.conformance.cases.case import Case
from halfulp.element_types import data_type
from halfulp.reductions import OperatorVersion, Reduction


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes cases of a version of a reduction, in an element type."""

    reduction: Reduction
    version: OperatorVersion
    dtype: np.dtype[Any]

    @property
    def is_newest(self) -> bool:
        """Whether no later version takes the type."""
        takes = [v for v in self.reduction.versions if self.type_name in v.types]
        return takes[-1:] == [self.version]

    @property
    def type_name(self) -> str:
        """ONNX's name of the element type."""
        return data_type(self.dtype, "dtype is").name

    def small_values(self, shape: tuple[int, ...]) -> Array:
        """Return an array of small integers, of which all types hold the results."""
        values = small_values(shape, self.dtype)
        if self.reduction.operation == "product":
            index = np.arange(values.size).reshape(shape)
            values = np.where(index % 14 == 5, 2, 1).astype(self.dtype)
            if self.dtype.kind != "u":
                values[index % 5 == 1] *= self.dtype.type(-1)
        elif self.reduction.of_one == "log":  # which sums that are not positive lack
            values = abs(values) + self.dtype.type(1)
        return values

    def __call__(
        self,
        class_name: str,
        detail: str,
        data: Array,
        axes_form: str | None = None,
        axes: Any = None,
        keepdims: int | None = None,
        noop_with_empty_axes: int | None = None,
        note: str = "",
        **others: Any,
    ) -> Case:
        """Return a case.

        Parameters
        ----------
        class_name : str
        detail : str
            The end of the name.
        data : numpy.ndarray
        axes_form : str, optional
            Default: as most nodes of the version have their axes.
        axes, keepdims, noop_with_empty_axes, note, **others
            As of a case. Default of `opset`: the one that introduced the version.
        """
        since, operator = self.version.since, self.reduction.operator
        usual = "attr" if self.version.axes == "attribute" else "const"
        words = (since, self.dtype.name, class_name.replace(" ", "_"), detail)
        return Case(
            f"{prefix(self.reduction)}{'_'.join(map(str, words))}",
            self.reduction,
            class_name,
            others.pop("opset", since),
            data,
            axes_form or usual,
            axes,
            keepdims,
            noop_with_empty_axes,
            note,
            f"https://onnx.ai/onnx/operators/onnx__{operator}.html",
            **others,
        )


def prefix(reduction: Reduction) -> str:
    """Return how the names of all cases of a reduction begin."""
    return f"test_{reduction.operator.lower()}_"


def small_values(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array of small integers, whose sums all types hold, of squares too."""
    index = np.arange(np.prod(shape, dtype=int))
    values = (7 * index * index + 3 * index) % 5
    if dtype.kind != "u":
        values -= 2
    result: Array = values.astype(dtype).reshape(shape)
    return result
