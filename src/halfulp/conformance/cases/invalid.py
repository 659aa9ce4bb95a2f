"""Models that break the rules of their version: a backend must refuse them.

May import spec, case and drafts only. Only what the specification itself
forbids is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from halfulp.conformance.cases.case import INVALID, WRONG_OPSET
from halfulp.conformance.cases.drafts import Draft, small_values
from halfulp.spec.rules import OperatorVersion

DType = np.dtype[Any]


def invalid(version: OperatorVersion, dtype: DType) -> Iterator[Draft]:
    """Axes out of range, in the wrong place or of the wrong type, and wrong flags."""
    data = small_values((2, 3), dtype)
    range_note = "Axes are in [-2, 1] for rank 2."
    yield Draft(INVALID, "axis2_of_rank2", data, None, [2], note=range_note)
    yield Draft(INVALID, "axis_m3_of_rank2", data, None, [-3], note=range_note)
    scalar = np.array(3).astype(dtype)
    yield Draft(
        INVALID, "axis0_of_rank0", scalar, None, [0], note="A scalar has no axes."
    )
    if version.axes == "attribute":
        note = f"{version} has one input; axes are an attribute."
        yield Draft(WRONG_OPSET, "axes_as_input", data, "const", [1], note=note)
        note = f"{version} has no attribute noop_with_empty_axes."
        yield Draft(
            WRONG_OPSET, "noop", data, "absent", noop_with_empty_axes=0, note=note
        )
        return
    yield Draft(INVALID, "axis2_at_run_time", data, "input", [2], note=range_note)
    note = f"{version} has no attribute axes; axes are an input."
    yield Draft(WRONG_OPSET, "axes_as_attribute", data, "attr", [1], note=note)
    note = "Axes are a tensor of int64."
    axes = np.array([1], np.int32)
    yield Draft(INVALID, "axes_of_int32", data, "const", axes, note=note)
