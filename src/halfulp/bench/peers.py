"""Other libraries that reduce, and how each is asked to.

May import reductions and results only. Each library is imported when it is prepared.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp.bench.results import EXACT
from halfulp.reductions import (
    L1,
    L2,
    LOG_SUM_EXP,
    MAX,
    MEAN,
    MIN,
    PROD,
    REDUCTIONS,
    SUM,
    SUM_SQUARE,
    Reduction,
)

Array = npt.NDArray[Any]
Axes = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Peer:
    """One way of another library.

    Attributes
    ----------
    reduction : Reduction
    name : str
        The library and, where it has several ways, the function.
    library : str
        The name under which it is installed and imported.
    expression : str
        What is timed: it evaluates to the results.
    prepare : callable
        From an array, axes and threads to the names in `expression`.
    applies : callable
        From an array and axes to whether this is a natural way for them. What
        the library refuses on its own need not be excluded.
    """

    reduction: Reduction
    name: str
    library: str
    expression: str
    prepare: Callable[[Array, Axes, int], Mapping[str, Any]]
    applies: Callable[[Array, Axes], bool] = lambda x, axes: True

    @property
    def is_exact(self) -> bool:
        """Whether it is made to round the exact sum once."""
        return self.name in EXACT


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
    return {"torch": torch, "t": as_tensor(x), "axes": axes}


def onnxruntime_names(
    reduction: Reduction,
    x: Array,
    axes: Axes,
    threads: int,
    register: Callable[[Any], None] | None = None,
) -> Mapping[str, Any]:
    """Return what "run(None, feed)[0]" needs; `register` may add to the options."""
    from onnx import TensorProto, helper

    runtime = importlib.import_module("onnxruntime")
    code = helper.np_dtype_to_tensor_dtype(x.dtype)
    given = axes or ()
    graph = helper.make_graph(
        [helper.make_node(reduction.operator, ["x", "axes"], ["y"], keepdims=0)],
        "graph",
        [helper.make_tensor_value_info("x", code, x.shape)],
        [helper.make_tensor_value_info("y", code, None)],
        [helper.make_tensor("axes", TensorProto.INT64, [len(given)], given)],
    )
    opset = helper.make_opsetid("", max(row.newest.since for row in REDUCTIONS))
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


def _xsum(x: Array, axes: Axes, threads: int) -> Mapping[str, Any]:
    xsum = importlib.import_module("xsum")
    return {"Sum": xsum.xsum_small if x.size < _SHORT else xsum.xsum_large, "x": x}


def _bitrep(x: Array, axes: Axes, threads: int) -> Mapping[str, Any]:
    return {"Sum": importlib.import_module("bitrep").FastSumF64, "x": x}


def _scipy(x: Array, axes: Axes, threads: int) -> Mapping[str, Any]:
    special = importlib.import_module("scipy.special")
    return {"logsumexp": special.logsumexp, "x": x, "axes": axes}


def _fsum(x: Array, axes: Axes, threads: int) -> Mapping[str, Any]:
    return {"fsum": math.fsum, "x": x}


# Below it xsum's small accumulator is the faster one.
_SHORT = 1000
# A call of what takes elements one by one takes seconds above it.
_LONG = 1 << 20


def _is_float(x: Array) -> bool:
    return x.dtype.kind not in "iu"


def _is_flat(x: Array) -> bool:
    return x.ndim == 1


def _is_wide_float(x: Array) -> bool:
    return x.dtype.name in ("float32", "float64")


def _has_dot(x: Array) -> bool:
    return _is_flat(x) and x.flags.c_contiguous and _is_float(x)


def _has_bottleneck(x: Array, axes: Axes) -> bool:
    # Of other types it has no compiled loop, of several axes none at all.
    has_loop = x.dtype.name in ("float32", "float64", "int32", "int64")
    return has_loop and (axes is None or len(axes) == 1)


def _floats(x: Array, axes: Axes) -> bool:
    return _is_float(x)


def _integers(x: Array, axes: Axes) -> bool:
    return not _is_float(x)


def _one_axis(x: Array, axes: Axes) -> bool:
    return axes is None or len(axes) == 1


def _flat_doubles(x: Array, axes: Axes) -> bool:
    # xsum reads whatever lies between elements that are apart, and crashes.
    return _is_flat(x) and x.flags.c_contiguous and x.dtype.name == "float64"


def _few_doubles(x: Array, axes: Axes) -> bool:
    return _flat_doubles(x, axes) and x.size <= _LONG


def _runtime(reduction: Reduction) -> Peer:
    """ONNX Runtime, whose means and roots of integers are integers."""

    def applies(x: Array, axes: Axes) -> bool:
        return reduction.finish == "none" or _is_float(x)

    prepare = partial(onnxruntime_names, reduction)
    return Peer(
        reduction, "onnxruntime", "onnxruntime", "run(None, feed)[0]", prepare, applies
    )


PEERS = (
    Peer(SUM_SQUARE, "numpy", "numpy", "np.sum(np.square(x), axis=axes)", _numpy),
    Peer(
        SUM_SQUARE,
        "numpy.vdot",
        "numpy",
        "np.vdot(x, x)",
        _numpy,
        lambda x, axes: _is_flat(x) and _is_wide_float(x),
    ),
    Peer(
        SUM_SQUARE,
        "numpy.einsum",
        "numpy",
        "np.einsum(subscripts, x, x)",
        _einsum,
        lambda x, axes: _is_wide_float(x),
    ),
    Peer(
        SUM_SQUARE,
        "torch.norm",
        "torch",
        "torch.linalg.vector_norm(t, dim=axes).square()",
        _torch,
        _floats,
    ),
    Peer(SUM_SQUARE, "torch.sum", "torch", "t.square().sum(axes)", _torch, _integers),
    _runtime(SUM_SQUARE),
    Peer(
        SUM_SQUARE,
        "numkong.dot",
        "numkong",
        "numkong.dot(x, x)",
        _numkong,
        lambda x, axes: _has_dot(x),
    ),
    Peer(
        SUM_SQUARE,
        "numkong.moments",
        "numkong",
        "numkong.moments(x)[1]",
        _numkong,
        lambda x, axes: _is_flat(x) and not _has_dot(x),
    ),
    Peer(
        SUM_SQUARE,
        "numkong.norm",
        "numkong",
        "np.square(numkong.norm(x, axis=axes))",
        _numkong,
        lambda x, axes: not _is_flat(x),
    ),
    Peer(
        SUM_SQUARE,
        "bottleneck",
        "bottleneck",
        "bn.ss(x, axis)",
        _bottleneck,
        _has_bottleneck,
    ),
    Peer(SUM, "numpy", "numpy", "np.sum(x, axis=axes)", _numpy),
    Peer(SUM, "torch", "torch", "t.sum(axes)", _torch),
    _runtime(SUM),
    Peer(SUM, "numkong", "numkong", "numkong.sum(x, axis=axes)", _numkong),
    Peer(
        SUM,
        "bottleneck",
        "bottleneck",
        "bn.nansum(x, axis)",
        _bottleneck,
        _has_bottleneck,
    ),
    Peer(
        SUM,
        "xsum",
        "xsum",
        "(s := Sum(), s.add(x), s.round())[2]",
        _xsum,
        _flat_doubles,
    ),
    Peer(SUM, "math.fsum", "math", "fsum(x)", _fsum, _few_doubles),
    Peer(
        SUM,
        "bitrep",
        "bitrep",
        "(s := Sum(), s.extend(x), s.finish().value())[2]",
        _bitrep,
        _few_doubles,
    ),
    Peer(MEAN, "numpy", "numpy", "np.mean(x, axis=axes)", _numpy),
    Peer(MEAN, "torch", "torch", "t.mean(axes)", _torch, _floats),
    Peer(
        MEAN,
        "torch.double",
        "torch",
        "t.mean(axes, dtype=torch.float64)",
        _torch,
        _integers,
    ),
    _runtime(MEAN),
    Peer(
        MEAN,
        "bottleneck",
        "bottleneck",
        "bn.nanmean(x, axis)",
        _bottleneck,
        _has_bottleneck,
    ),
    Peer(L1, "numpy", "numpy", "np.linalg.vector_norm(x, ord=1, axis=axes)", _numpy),
    Peer(L1, "numpy.abs", "numpy", "np.sum(np.abs(x), axis=axes)", _numpy),
    Peer(
        L1, "torch", "torch", "torch.linalg.vector_norm(t, 1, dim=axes)", _torch, _floats
    ),
    Peer(L1, "torch.abs", "torch", "t.abs().sum(axes)", _torch, _integers),
    _runtime(L1),
    Peer(L2, "numpy", "numpy", "np.linalg.vector_norm(x, axis=axes)", _numpy),
    Peer(L2, "torch", "torch", "torch.linalg.vector_norm(t, dim=axes)", _torch, _floats),
    _runtime(L2),
    Peer(L2, "numkong", "numkong", "numkong.norm(x, axis=axes)", _numkong),
    *(
        peer
        for row, numpy, torch, call, bottleneck in (
            (MAX, "np.max", "torch.amax", "t.amax", "bn.nanmax"),
            (MIN, "np.min", "torch.amin", "t.amin", "bn.nanmin"),
        )
        for peer in (
            Peer(row, "numpy", "numpy", f"{numpy}(x, axis=axes)", _numpy),
            Peer(row, torch, "torch", f"{call}(axes or ())", _torch),
            Peer(
                row,
                "bottleneck",
                "bottleneck",
                f"{bottleneck}(x, axis)",
                _bottleneck,
                _has_bottleneck,
            ),
        )
    ),
    Peer(PROD, "numpy", "numpy", "np.prod(x, axis=axes)", _numpy),
    Peer(
        PROD,
        "torch",
        "torch",
        "t.prod(axes[0]) if axes else t.prod()",
        _torch,
        _one_axis,
    ),
    Peer(
        LOG_SUM_EXP,
        "torch",
        "torch",
        "t.logsumexp(axes or tuple(range(t.ndim)))",
        _torch,
        _floats,
    ),
    Peer(
        LOG_SUM_EXP,
        "torch.exp",
        "torch",
        "t.exp().sum(axes).log()",
        _torch,
        _floats,
    ),
    Peer(LOG_SUM_EXP, "scipy", "scipy", "logsumexp(x, axis=axes)", _scipy, _floats),
)

LIBRARIES = tuple(dict.fromkeys(peer.library for peer in PEERS))


def peers_of(reduction: str, names: Container[str]) -> list[Peer]:
    """Return the peers of a reduction whose names are among some."""
    return [p for p in PEERS if p.reduction.name == reduction and p.name in names]


def as_tensor(x: Array) -> Any:
    """Return an array as PyTorch's tensor, which lacks bfloat16 from NumPy."""
    torch = importlib.import_module("torch")
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def as_array(value: Any) -> Array:
    """Return what an expression evaluated to as a NumPy array."""
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        value = value.float()
    return np.asarray(value)
