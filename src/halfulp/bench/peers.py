"""Other libraries that compute sums of squares, and how each is asked to.

May import reductions only. Each library is imported when it is prepared.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp.reductions import SUM_SQUARE

Array = npt.NDArray[Any]
Axes = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Peer:
    """One way of another library.

    Attributes
    ----------
    name : str
        The library and, where it has several ways, the function.
    library : str
        The name under which it is installed and imported.
    expression : str
        What is timed: it evaluates to the sums.
    prepare : callable
        From an array, axes and threads to the names in `expression`.
    applies : callable
        From an array and axes to whether this is a natural way for them. What
        the library refuses on its own need not be excluded.
    """

    name: str
    library: str
    expression: str
    prepare: Callable[[Array, Axes, int], Mapping[str, Any]]
    applies: Callable[[Array, Axes], bool] = lambda x, axes: True


def _numpy(x: Array, axes: Axes, threads: int) -> Mapping[str, Any]:
    return {"np": np, "x": x, "axes": axes}


def _einsum(x: Array, axes: Axes, threads: int) -> Mapping[str, Any]:
    letters = "ijkl"[: x.ndim]
    summed = range(x.ndim) if axes is None else axes
    kept = "".join(letters[i] for i in range(x.ndim) if i not in summed)
    return {"np": np, "x": x, "subscripts": f"{letters},{letters}->{kept}"}


def _torch(x: Array, axes: Axes, threads: int) -> Mapping[str, Any]:
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    if x.dtype.name == "bfloat16":
        tensor = torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(x)
    return {"torch": torch, "t": tensor, "axes": axes}


def onnxruntime_names(
    x: Array, axes: Axes, threads: int, register: Callable[[Any], None] | None = None
) -> Mapping[str, Any]:
    """Return what "run(None, feed)[0]" needs; `register` may add to the options."""
    from onnx import TensorProto, helper

    runtime = importlib.import_module("onnxruntime")
    code = helper.np_dtype_to_tensor_dtype(x.dtype)
    given = axes or ()
    graph = helper.make_graph(
        [helper.make_node(SUM_SQUARE.operator, ["x", "axes"], ["y"], keepdims=0)],
        "graph",
        [helper.make_tensor_value_info("x", code, x.shape)],
        [helper.make_tensor_value_info("y", code, None)],
        [helper.make_tensor("axes", TensorProto.INT64, [len(given)], given)],
    )
    opset = helper.make_opsetid("", SUM_SQUARE.newest.since)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    if register is not None:
        register(options)
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return {"run": session.run, "feed": {"x": x}}


def _numkong(x: Array, axes: Axes, threads: int) -> Mapping[str, Any]:
    numkong = importlib.import_module("numkong")
    return {"numkong": numkong, "np": np, "x": x, "axes": axes}


def _bottleneck(x: Array, axes: Axes, threads: int) -> Mapping[str, Any]:
    bottleneck = importlib.import_module("bottleneck")
    return {"bn": bottleneck, "x": x, "axis": None if axes is None else axes[0]}


def _is_float(x: Array) -> bool:
    return x.dtype.kind not in "iu"


def _is_flat(x: Array) -> bool:
    return x.ndim == 1


def _is_wide_float(x: Array) -> bool:
    return x.dtype.name in ("float32", "float64")


def _has_dot(x: Array) -> bool:
    return _is_flat(x) and x.flags.c_contiguous and _is_float(x)


PEERS = (
    Peer("numpy", "numpy", "np.sum(np.square(x), axis=axes)", _numpy),
    Peer(
        "numpy.vdot",
        "numpy",
        "np.vdot(x, x)",
        _numpy,
        lambda x, axes: _is_flat(x) and _is_wide_float(x),
    ),
    Peer(
        "numpy.einsum",
        "numpy",
        "np.einsum(subscripts, x, x)",
        _einsum,
        lambda x, axes: _is_wide_float(x),
    ),
    Peer(
        "torch.norm",
        "torch",
        "torch.linalg.vector_norm(t, dim=axes).square()",
        _torch,
        lambda x, axes: _is_float(x),
    ),
    Peer(
        "torch.sum",
        "torch",
        "t.square().sum(axes)",
        _torch,
        lambda x, axes: not _is_float(x),
    ),
    Peer("onnxruntime", "onnxruntime", "run(None, feed)[0]", onnxruntime_names),
    Peer(
        "numkong.dot",
        "numkong",
        "numkong.dot(x, x)",
        _numkong,
        lambda x, axes: _has_dot(x),
    ),
    Peer(
        "numkong.moments",
        "numkong",
        "numkong.moments(x)[1]",
        _numkong,
        lambda x, axes: _is_flat(x) and not _has_dot(x),
    ),
    Peer(
        "numkong.norm",
        "numkong",
        "np.square(numkong.norm(x, axis=axes))",
        _numkong,
        lambda x, axes: not _is_flat(x),
    ),
    Peer(
        "bottleneck",
        "bottleneck",
        "bn.ss(x, axis)",
        _bottleneck,
        # Of other types it has no compiled loop, of several axes none at all.
        lambda x, axes: (
            x.dtype.name in ("float32", "float64", "int32", "int64")
            and (axes is None or len(axes) == 1)
        ),
    ),
)

LIBRARIES = tuple(dict.fromkeys(peer.library for peer in PEERS))


def as_array(value: Any) -> Array:
    """Return what an expression evaluated to as a NumPy array."""
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        value = value.float()
    return np.asarray(value)
