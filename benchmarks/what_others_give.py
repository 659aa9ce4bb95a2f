"""Measure what others give, for the documents' tables "What others give".

Prints one JSON object, which claims.py shows. Needs onnxruntime, torch, xsum and bitrep,
which `make peers` installs, and about 2 GB of memory.
"""

from __future__ import annotations

import importlib
import json
import math
import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import halfulp
from halfulp.bench.ours import expression
from halfulp.bench.peers import as_array, as_tensor
from halfulp.exact import Exact, exact
from halfulp.reductions import L1, L2, MEAN, REDUCTIONS, SUM, SUM_SQUARE, Reduction

BFLOAT16 = ml_dtypes.bfloat16

NUMPY: dict[Reduction, Callable[..., Any]] = {
    SUM: np.sum,
    MEAN: np.mean,
    L1: lambda x, axis: np.linalg.vector_norm(x, ord=1, axis=axis),
    L2: lambda x, axis: np.linalg.vector_norm(x, axis=axis),
    SUM_SQUARE: lambda x, axis: np.sum(np.square(x), axis=axis),
}
TORCH: dict[Reduction, Callable[..., Any]] = {
    SUM: lambda torch, x, axis: torch.sum(x, axis),
    MEAN: lambda torch, x, axis: torch.mean(x, axis),
    L1: lambda torch, x, axis: torch.linalg.vector_norm(x, 1, axis),
    L2: lambda torch, x, axis: torch.linalg.vector_norm(x, 2, axis),
    SUM_SQUARE: lambda torch, x, axis: torch.sum(torch.square(x), axis),
}


@dataclass(frozen=True)
class Input:
    """What is reduced.

    Attributes
    ----------
    reduction : Reduction
    what : str
        The array, in words.
    make : callable
        Returns it. Long ones have one value throughout.
    axis : int, optional
    in_short : bool
        Whether the README shows it.
    """

    reduction: Reduction
    what: str
    make: Callable[[], np.ndarray]
    axis: int | None = None
    in_short: bool = False


def values(dtype: Any, *given: float) -> Callable[[], np.ndarray]:
    """Return what makes an array of some values."""
    return lambda: np.array(given, dtype)


INPUTS = [
    Input(
        SUM,
        "float64 [1e16, 1, -1e16]",
        values(np.float64, 1e16, 1, -1e16),
        in_short=True,
    ),
    Input(SUM, "float32 [2^24, 1, 1]", values(np.float32, 2**24, 1, 1)),
    Input(
        SUM,
        "float32 [3e38, 3e38, -3e38]",
        values(np.float32, 3e38, 3e38, -3e38),
        in_short=True,
    ),
    Input(
        SUM, "float16 [60000, 60000, -60000]", values(np.float16, 60000, 60000, -60000)
    ),
    Input(
        SUM,
        "(2·10^7, 4) of float32 0.1, axis 0",
        lambda: np.full((2 * 10**7, 4), 0.1, np.float32),
        0,
        in_short=True,
    ),
    Input(
        SUM,
        "(5000, 2) of float16 1, axis 0",
        lambda: np.ones((5000, 2), np.float16),
        0,
    ),
    Input(SUM, "1000 of bfloat16 1", lambda: np.ones(1000, BFLOAT16)),
    Input(SUM, "int32 [2^31 - 1, 1]", values(np.int32, 2**31 - 1, 1)),
    Input(
        MEAN,
        "(2^25, 2) of float32 1, axis 0",
        lambda: np.ones((2**25, 2), np.float32),
        0,
        in_short=True,
    ),
    Input(MEAN, "float32 [3e38, 3e38]", values(np.float32, 3e38, 3e38), in_short=True),
    Input(MEAN, "float16 [65504, 65504]", values(np.float16, 65504, 65504)),
    Input(MEAN, "float64 [1e16, 1, -1e16]", values(np.float64, 1e16, 1, -1e16)),
    Input(MEAN, "int32 [2^31 - 1, 2^31 - 1]", values(np.int32, 2**31 - 1, 2**31 - 1)),
    Input(MEAN, "int64 [2^53 + 1, 2^53 + 1]", values(np.int64, 2**53 + 1, 2**53 + 1)),
    Input(MEAN, "int64 [2^62, 1, -2^62]", values(np.int64, 2**62, 1, -(2**62))),
    Input(L1, "float32 [-2^24, 1, -1]", values(np.float32, -(2**24), 1, -1)),
    Input(
        L1,
        "(2·10^7, 4) of float32 -0.1, axis 0",
        lambda: np.full((2 * 10**7, 4), -0.1, np.float32),
        0,
        in_short=True,
    ),
    Input(
        L1,
        "(5000, 2) of float16 -1, axis 0",
        lambda: -np.ones((5000, 2), np.float16),
        0,
    ),
    Input(L1, "int32 [-2^31, -1]", values(np.int32, -(2**31), -1)),
    Input(L2, "float32 [3e30, 4e30]", values(np.float32, 3e30, 4e30), in_short=True),
    Input(L2, "float32 [3e-30, 4e-30]", values(np.float32, 3e-30, 4e-30), in_short=True),
    Input(L2, "float64 [3e300, 4e300]", values(np.float64, 3e300, 4e300)),
    Input(L2, "float16 [300, 400]", values(np.float16, 300, 400)),
    Input(L2, "int32 [70000, 70000]", values(np.int32, 70000, 70000)),
    Input(SUM_SQUARE, "float32 [4096, 1, 1]", values(np.float32, 4096, 1, 1)),
    Input(SUM_SQUARE, "10^8 of float32 0.1", lambda: np.full(10**8, 0.1, np.float32)),
    Input(
        SUM_SQUARE,
        "(2·10^7, 4) of float32 0.1, axis 0",
        lambda: np.full((2 * 10**7, 4), 0.1, np.float32),
        0,
    ),
    Input(SUM_SQUARE, "int32 [70000, 70000]", values(np.int32, 70000, 70000)),
    Input(
        SUM_SQUARE,
        "int64 [94906267, 3]",
        values(np.int64, 94906267, 3),
        in_short=True,
    ),
    Input(SUM_SQUARE, "uint64 [2^32 - 1, 1]", values(np.uint64, 2**32 - 1, 1)),
]


def model_of(reduction: Reduction, x: np.ndarray, axis: int | None) -> onnx.ModelProto:
    """Return a model of one node."""
    code = helper.np_dtype_to_tensor_dtype(x.dtype)
    axes = [] if axis is None else [axis]
    graph = helper.make_graph(
        [helper.make_node(reduction.operator, ["x", "axes"], ["y"], keepdims=0)],
        "graph",
        [helper.make_tensor_value_info("x", code, x.shape)],
        [helper.make_tensor_value_info("y", code, None)],
        [helper.make_tensor("axes", TensorProto.INT64, [len(axes)], axes)],
    )
    opset = helper.make_opsetid("", max(row.newest.since for row in REDUCTIONS))
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def onnx_runtime(reduction: Reduction, x: np.ndarray, axis: int | None) -> Any:
    """What ONNX Runtime's CPU provider gives."""
    onnxruntime = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model_of(reduction, x, axis).SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
    )
    return session.run(None, {"x": x})[0]


def reference(reduction: Reduction, x: np.ndarray, axis: int | None) -> Any:
    """What onnx's ReferenceEvaluator gives."""
    return ReferenceEvaluator(model_of(reduction, x, axis)).run(None, {"x": x})[0]


def in_torch(reduction: Reduction, x: np.ndarray, axis: int | None) -> Any:
    """What PyTorch gives, as a NumPy array."""
    value = TORCH[reduction](importlib.import_module("torch"), as_tensor(x), axis)
    return as_array(value)


def ours(reduction: Reduction, x: np.ndarray, axis: int | None) -> Any:
    """What halfulp gives with NumPy's face."""
    names = {"halfulp": halfulp, "x": x, "axes": axis}
    return eval(expression(reduction), names)


def ours_as_onnx(reduction: Reduction, x: np.ndarray, axis: int | None) -> Any:
    """What halfulp gives with ONNX's face, which keeps the type of integers."""
    axes = None if axis is None else [axis]
    return getattr(halfulp, reduction.onnx_name)(x, axes=axes, keepdims=0)


def exact_of(given: Input, x: np.ndarray) -> Exact:
    """Return the exact result of the first output."""
    one = x if given.axis is None else x[:, 0]
    if len(one) < 1000:
        return exact(given.reduction, one)
    # The oracle would take minutes for 10^8 terms.
    assert (one == one[0]).all()
    assert given.reduction.finish != "root"
    terms = 1 if given.reduction.finish == "mean" else len(one)
    return exact(given.reduction, one[:1]) * terms


def in_words(value: Exact) -> str:
    """Return an exact value in 12 digits, or whole if it is an integer below 2^64."""
    if isinstance(value, tuple):  # the root is between, nearer than a double tells
        value = value[0]
    is_whole = Fraction(value).denominator == 1 and abs(value) < 2**64
    return str(Fraction(value)) if is_whole else f"{float(value):.12g}"


def asked(call: Callable[[], Any]) -> str:
    """Return the first value that a call gives, as NumPy writes it, or why none."""
    try:
        with np.errstate(all="ignore"):
            first = np.ravel(call())[0]
    except Exception as error:  # whatever another library raises
        text = f"{type(error).__name__} {error}".lower()
        return "no kernel" if "implement" in text else type(error).__name__
    return _number(first)


def _number(value: Any) -> str:
    """A number as NumPy writes it, but integers in digits."""
    number = value.item() if isinstance(value, np.integer) else float(value)
    is_whole = math.isfinite(number) and number == int(number)
    return str(int(number)) if is_whole and abs(number) < 2**64 else str(value)


WAYS: dict[str, Callable[[Reduction, np.ndarray, int | None], Any]] = {
    "NumPy": lambda reduction, x, axis: NUMPY[reduction](x, axis=axis),
    "PyTorch": in_torch,
    "ONNX Runtime": onnx_runtime,
    "onnx's reference": reference,
    "halfulp": ours,
    "halfulp as ONNX": ours_as_onnx,
}
# Those whose right answer is that of ONNX's operator.
AS_ONNX = ("ONNX Runtime", "onnx's reference")
OURS = ("halfulp", "halfulp as ONNX")


def answers(given: Input) -> dict[str, Any]:
    """Return a row: what each gives."""
    x = given.make()
    return {
        "operation": given.reduction.operator,
        "input": given.what,
        "in_short": given.in_short,
        "answers": {
            name: asked(lambda way=way: way(given.reduction, x, given.axis))
            for name, way in WAYS.items()
        },
        "exact": in_words(exact_of(given, x)),
    }


GREATEST = float(np.finfo(np.float64).max)
EXACT_INPUTS = [
    ("[1e16, 1, -1e16]", values(np.float64, 1e16, 1, -1e16)),
    ("[max, max, -max]", values(np.float64, GREATEST, GREATEST, -GREATEST)),
    ("[max, 2^970]", values(np.float64, GREATEST, 2.0**970)),
    ("[inf, -inf]", values(np.float64, math.inf, -math.inf)),
    ("[nan, 1]", values(np.float64, math.nan, 1)),
    ("[-0, -0]", values(np.float64, -0.0, -0.0)),
    ("float32 [1, 2^-24, 2^-60]", values(np.float32, 1, 2.0**-24, 2.0**-60)),
]


def exact_answers(what: str, make: Callable[[], np.ndarray]) -> dict[str, Any]:
    """Return a row: what each gives that rounds exact sums once."""
    x = make()

    def by_xsum() -> Any:
        total = importlib.import_module("xsum").xsum_large()
        total.add(x)
        return x.dtype.type(total.round())

    def by_bitrep() -> Any:
        bitrep = importlib.import_module("bitrep")
        total = bitrep.SumF32() if x.dtype == np.float32 else bitrep.SumF64()
        for value in x.tolist():
            total.add(value)
        return x.dtype.type(total.value())

    return {
        "input": what,
        "answers": {
            "math.fsum": asked(lambda: x.dtype.type(math.fsum(x))),
            "xsum": asked(by_xsum),
            "bitrep": asked(by_bitrep),
            "halfulp": asked(lambda: halfulp.sum(x)),
        },
    }


def main() -> None:
    """Print what was measured, when and with what."""
    names = ("onnxruntime", "numpy", "onnx", "torch", "xsum", "bitrep")
    result = {
        "date": date.today().isoformat(),
        "machine": platform.machine(),
        "versions": {n: version(n) for n in names} | {"halfulp": halfulp.__version__},
        "rows": [answers(given) for given in INPUTS],
        "exact_rows": [exact_answers(*given) for given in EXACT_INPUTS],
    }
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
