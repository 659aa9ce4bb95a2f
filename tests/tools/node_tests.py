"""Names of ONNX's own node tests of the operator."""

from __future__ import annotations

KINDS = [
    f"{axes}keepdims_{values}"
    for axes in ("default_axes_", "do_not_", "", "negative_axes_")
    for values in ("example", "random")
]


NODE_TESTS = [
    f"test_reduce_sum_square_{kind}{expanded}_cpu"
    for kind in [*KINDS, "empty_set"]
    for expanded in ("", "_expanded")
]
