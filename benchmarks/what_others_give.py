"""Measure the README's table "What others give": five inputs, three answers each.

Prints one JSON object, which claims.py shows as the table. Needs onnxruntime, which
`make peers` installs, and about 2 GB of memory.
"""

from __future__ import annotations

import json
import platform
from datetime import date
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import halfulp


def onnx_runtime(x: np.ndarray, axis: int | None) -> Any:
    """What ONNX Runtime's CPU provider gives, or the reason why it gives nothing."""
    code = helper.np_dtype_to_tensor_dtype(x.dtype)
    axes = [] if axis is None else [axis]
    graph = helper.make_graph(
        [helper.make_node("ReduceSumSquare", ["x", "axes"], ["y"], keepdims=0)],
        "graph",
        [helper.make_tensor_value_info("x", code, x.shape)],
        [helper.make_tensor_value_info("y", code, None)],
        [helper.make_tensor("axes", TensorProto.INT64, [len(axes)], axes)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 10
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return "no kernel"
    return session.run(None, {"x": x})[0]


INPUTS: list[tuple[str, Any, int | None]] = [
    ("`int32 [70000, 70000]`", lambda: np.array([70000, 70000], np.int32), None),
    ("`int64 [94906267, 3]`", lambda: np.array([94906267, 3], np.int64), None),
    ("`uint64 [4294967295, 1]`", lambda: np.array([4294967295, 1], np.uint64), None),
    ("10^8 times `float32 0.1`", lambda: np.full(10**8, 0.1, np.float32), None),
    (
        "(2·10^7, 4) of `float32 0.1`, axis 0",
        lambda: np.full((2 * 10**7, 4), 0.1, np.float32),
        0,
    ),
]


def _show(value: Any) -> str:
    if isinstance(value, str):
        return value
    first = np.ravel(value)[0]
    return f"{first:.2f}" if first.dtype.kind == "f" else str(first)


def _row(name: str, x: np.ndarray, axis: int | None) -> dict[str, str]:
    one = x if axis is None else x[:, 0]
    # Of equal elements: the oracle would take minutes for 10^8 terms.
    exact = halfulp.exact_sum_square(one[:1]) * len(one)
    if not (one == one[0]).all():
        exact = halfulp.exact_sum_square(one)
    with np.errstate(over="ignore"):
        numpy = np.sum(np.square(x), axis=axis)
    return {
        "input": name,
        "ONNX Runtime": _show(onnx_runtime(x, axis)),
        "NumPy": _show(numpy),
        "halfulp": _show(halfulp.sum_square(x, axis)),
        "exact": f"{float(exact):.2f}" if x.dtype.kind == "f" else str(exact),
    }


def main() -> None:
    """Print what was measured, when and with what."""
    modules = {"onnxruntime": onnxruntime, "numpy": np, "onnx": onnx, "halfulp": halfulp}
    result = {
        "date": date.today().isoformat(),
        "machine": platform.machine(),
        "versions": {name: module.__version__ for name, module in modules.items()},
        "rows": [_row(name, make(), axis) for name, make, axis in INPUTS],
    }
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
