"""A case: one node, its input and the one right result.

May import element_types, exact, reductions, spec, bits, models and why only; in
particular not the kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from halfulp.conformance.bits import Array
from halfulp.conformance.cases.why import explain, reduction
from halfulp.element_types import data_type
from halfulp.exact import exact, round_exact
from halfulp.reductions import Reduction
from halfulp.spec.rules import reduced_axes, reduced_shape

if TYPE_CHECKING:
    from onnx import ModelProto

# The classes of the models that a backend must refuse.
INVALID = "invalid"
WRONG_OPSET = "wrong opset"

# Each class, and what it holds.
CLASSES = {
    "examples": "the examples of the documentation and ONNX's own node tests",
    "axes": "axes absent, empty, negative, unsorted, repeated; in every form",
    "keepdims": "keepdims absent, 0 and 1, over several sets of axes",
    "noop": "noop_with_empty_axes absent, 0 and 1, over every form of empty axes",
    "rank0": "scalars",
    "empty": "dimensions of size 0, reduced and kept",
    "ranks": "one to eight dimensions",
    "opsets": "the last opset that the version serves, and a later one",
    "ties": "exact sums, or products, halfway between two results",
    "near ties": "exact values just beside such a midpoint",
    "twice rounded": "values that the next wider type rounds to a midpoint",
    "absorption": "large terms beside many small ones",
    "cancellation": "terms of both signs, of which little is left",
    "partial overflow": "what overflows or vanishes on the way to a result that need not",
    "signed zero": "zeros of both signs, and results that round to them",
    "overflow": "results around the least one that rounds to infinity",
    "subnormals": "subnormal elements and results, and terms that underflow",
    "inf and nan": "infinities, NaNs and negative zeros",
    "wide integers": "integers that the floating-point types cannot hold",
    "wrap": "integer sums and products modulo 2^N",
    "integer mean": "integer means, of sums that the type does not hold too",
    "integer root": "integer roots, of sums that the type does not hold too",
    "integer log": "integer parts of logarithms, and where there is none",
    "rivals": "a greatest or least element beside another that is nearly so",
    "random": "random bits, normal values, and exponents far apart",
    "long": "up to a million terms",
    "reports": "what was publicly reported about one implementation or another",
    INVALID: "models that no version allows; an error is right",
    WRONG_OPSET: "models that another version allows; an error is right",
}


@dataclass(frozen=True, eq=False)
class Case:
    """One case.

    Attributes
    ----------
    name : str
        It stays, and is a valid name of a folder. ONNX's runner wants it to begin
        with ``test_``.
    reduction : Reduction
    class_name : str
        One of `CLASSES`.
    opset : int
    data : numpy.ndarray
    axes_form : str
        One of `halfulp.conformance.cases.models.AXES_FORMS`.
    axes : list of int, numpy.ndarray or None
        An array where it is not of int64.
    keepdims, noop_with_empty_axes : int or None
        None stands for an absent attribute.
    note : str
        What the case is about, in a sentence or two.
    source : str
        Where to read more.
    kind : str
        Of sum, within the class, where it has several.
    hard : pair of int, optional
        Where in each sum the elements are that make it hard: from the first of them to
        one past the last.
    """

    name: str
    reduction: Reduction
    class_name: str
    opset: int
    data: Array
    axes_form: str = "absent"
    axes: Any = None
    keepdims: int | None = None
    noop_with_empty_axes: int | None = None
    note: str = ""
    source: str = ""
    kind: str = ""
    hard: tuple[int, int] | None = None

    @property
    def version(self) -> int:
        """The version of the operator, by the opset that introduced it."""
        return self.reduction.version_for(self.opset).since

    @property
    def type(self) -> str:
        """The name of the element type in NumPy."""
        return self.data.dtype.name

    @property
    def valid(self) -> bool:
        """Whether there is a result; otherwise an error is right."""
        return self.class_name not in (INVALID, WRONG_OPSET)

    @property
    def attributes(self) -> dict[str, int]:
        """The attributes of the node besides axes."""
        given = {
            "keepdims": self.keepdims,
            "noop_with_empty_axes": self.noop_with_empty_axes,
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def facts(self) -> dict[str, str | int]:
        """What files tell of a case: its name, class, type, version and opset."""
        return {
            "name": self.name,
            "class": self.class_name,
            "type": self.type,
            "version": self.version,
            "opset": self.opset,
        }

    @property
    def node(self) -> str:
        """The node in one line."""
        axes = None if self.axes is None else np.asarray(self.axes).tolist()
        where = {
            "absent": "",
            "empty name": ", axes ''",
            "attr": f", attribute axes {axes}",
            "const": f", initializer axes {axes}",
            "node": f", Constant axes {axes}",
            "input": f", input axes {axes}",
            "default": f", input axes with initializer {axes}",
        }[self.axes_form]
        flags = "".join(f", {name}={value}" for name, value in self.attributes.items())
        shape = ",".join(map(str, self.data.shape))
        return (
            f"{self.reduction.operator}-{self.version} of opset {self.opset}: "
            f"{self.type}[{shape}] data{where}{flags}"
        )

    @cached_property
    def reduced(self) -> tuple[int, ...]:
        """The axes that are reduced, sorted."""
        noop = bool(self.noop_with_empty_axes)
        return reduced_axes(self.axes, self.data.ndim, noop_with_empty_axes=noop)

    @cached_property
    def unrounded(self) -> Array:
        """The exact values, objects as of `exact`, in the shape of the result."""
        shape = reduced_shape(self.data.shape, self.reduced, self.keepdims != 0)
        values = np.empty(shape, object)
        kept = [axis for axis in range(self.data.ndim) if axis not in self.reduced]
        turned = self.data.transpose(*kept, *self.reduced)
        sizes = [self.data.shape[axis] for axis in self.reduced]
        rows = turned.reshape(values.size, math.prod(sizes))
        # Many outputs of a case are of the same elements.
        known: dict[bytes, Any] = {}
        flat = values.reshape(-1)
        for index, row in enumerate(rows):
            key = row.tobytes()
            if key not in known:
                known[key] = exact(self.reduction, row)
            flat[index] = known[key]
        return values

    @cached_property
    def expected(self) -> Array | None:
        """The right result, or None where there is none."""
        if not self.valid:
            return None
        dtype = data_type(self.data.dtype, "data has dtype").dtype
        result = np.empty(self.unrounded.shape, dtype)
        for index, value in np.ndenumerate(self.unrounded):
            result[index] = round_exact(value, dtype)
        alone = self.noop_with_empty_axes and not self.reduced
        if alone and self.reduction.of_one == "value" and dtype.kind not in "iub":
            # An element that is a reduction of itself keeps its zero.
            result[self.data == 0] = self.data[self.data == 0]
        return result

    @cached_property
    def about(self) -> str:
        """What the case is about: its note, and the shape of the result."""
        if self.expected is None:
            return self.note
        keeps = self.keepdims != 0
        shape = reduction(self.data.ndim, self.reduced, keeps, self.expected)
        return f"{self.note} {shape}".strip()

    @cached_property
    def why(self) -> str:
        """Why the right result is right."""
        if self.expected is None:
            return self.about
        why = explain(self.reduction, self.unrounded, self.expected)
        return f"{self.about} {why}"

    def model(self) -> tuple[ModelProto, dict[str, Array]]:
        """Return the model, and the inputs to feed."""
        from halfulp.conformance.cases.models import reduce_model

        shape = None if self.expected is None else self.expected.shape
        return reduce_model(
            self.data,
            opset=self.opset,
            axes=self.axes,
            axes_form=self.axes_form,
            shape=shape,
            operator=self.reduction.operator,
            **self.attributes,
        )
