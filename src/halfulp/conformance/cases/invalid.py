"""Models that break the rules of their version: a backend must refuse them.

May import case and maker only. Only what the specification itself forbids is here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from halfulp.conformance.cases.case import INVALID, WRONG_OPSET, Case
from halfulp.conformance.cases.maker import Maker


def invalid(new: Maker) -> Iterator[Case]:
    """Axes out of range, in the wrong place or of the wrong type, and wrong flags."""
    data = new.small_values((2, 3))
    range_note = "Axes are in [-2, 1] for rank 2."
    yield new(INVALID, "axis2_of_rank2", data, None, [2], note=range_note)
    yield new(INVALID, "axis_m3_of_rank2", data, None, [-3], note=range_note)
    scalar, note = np.array(3).astype(new.dtype), "A scalar has no axes."
    yield new(INVALID, "axis0_of_rank0", scalar, None, [0], note=note)
    if new.version.axes == "attribute":
        note = f"{new.version} has one input; axes are an attribute."
        yield new(WRONG_OPSET, "axes_as_input", data, "const", [1], note=note)
        note = f"{new.version} has no attribute noop_with_empty_axes."
        yield new(WRONG_OPSET, "noop", data, "absent", None, None, 0, note)
        return
    yield new(INVALID, "axis2_at_run_time", data, "input", [2], note=range_note)
    note = f"{new.version} has no attribute axes; axes are an input."
    yield new(WRONG_OPSET, "axes_as_attribute", data, "attr", [1], note=note)
    note = "Axes are a tensor of int64."
    axes = np.array([1], np.int32)
    yield new(INVALID, "axes_of_int32", data, "const", axes, note=note)
