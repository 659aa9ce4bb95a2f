"""The backends that `halfulp verify` knows, and how each is asked.

May import errors, bits, cases and, within a function, the rest of halfulp; each library
is imported when it is asked for, in the worker's process.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from halfulp.conformance.bits import Array
from halfulp.conformance.cases.case import INVALID, WRONG_OPSET
from halfulp.errors import ArgumentError, HalfulpError

if TYPE_CHECKING:
    from onnx import ModelProto

    from halfulp.reductions import Reduction

# From a model and its inputs to its outputs.
RunModel = Callable[["ModelProto", Mapping[str, Array]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend that is known by name.

    Attributes
    ----------
    packages : tuple of str
        Whose versions decide the results; the first is imported to run it.
    what : str
        What is run, in a sentence.
    prepare : callable
        Imports the packages and returns how models are run.
    leaves_out : tuple of str
        The classes of cases in which it has no say; `what` tells why.
    """

    packages: tuple[str, ...]
    what: str
    prepare: Callable[[], RunModel]
    leaves_out: tuple[str, ...] = ()


def _halfulp() -> RunModel:
    return _of_backend("halfulp", importlib.import_module("halfulp.onnx.backend"))


def _reference() -> RunModel:
    from onnx.reference import ReferenceEvaluator

    def run(model: ModelProto, feeds: Mapping[str, Array]) -> Sequence[Any]:
        return list(ReferenceEvaluator(model).run(None, dict(feeds)))

    return run


def _onnxruntime(wish: Callable[[Any], None] = lambda options: None) -> RunModel:
    import halfulp.onnxruntime

    runtime = halfulp.onnxruntime.load()

    def run(model: ModelProto, feeds: Mapping[str, Array]) -> Sequence[Any]:
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        wish(options)
        session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return list(halfulp.onnxruntime.run(session, feeds).values())

    return run


def _onnxruntime_with_halfulp() -> RunModel:
    from halfulp.onnxruntime import OPERATORS, register

    return _onnxruntime(lambda options: register(options, OPERATORS))


def _openvino() -> RunModel:
    openvino = importlib.import_module("openvino")
    core = openvino.Core()
    settings = {"EXECUTION_MODE_HINT": "ACCURACY"}

    def run(model: ModelProto, feeds: Mapping[str, Array]) -> Sequence[Any]:
        read = core.read_model(model.SerializeToString())
        request = core.compile_model(read, "CPU", settings).create_infer_request()
        request.infer({name: tensor(array) for name, array in feeds.items()})
        return [array_of(request.get_output_tensor(0))]

    # Its Python arrays know no bfloat16.
    def tensor(array: Array) -> Any:
        if array.dtype.name != "bfloat16":
            return openvino.Tensor(array)
        return openvino.Tensor(array.view(np.uint16), array.shape, openvino.Type.bf16)

    def array_of(tensor: Any) -> Array:
        data: Array = tensor.data
        return _as_bfloat16(data) if tensor.element_type == openvino.Type.bf16 else data

    return run


def _torch() -> RunModel:
    torch = importlib.import_module("torch")
    from halfulp.files.formats.tensor_proto import read_tensor
    from halfulp.onnx.model.reduce_nodes import read_node
    from halfulp.reductions import BY_OPERATOR
    from halfulp.spec.rules import reduced_axes

    def run(model: ModelProto, feeds: Mapping[str, Array]) -> Sequence[Any]:
        node = model.graph.node[-1]
        says = read_node(node, model.opset_import[0].version, "")
        known = {t.name: read_tensor(t, t.name) for t in model.graph.initializer}
        for other in model.graph.node[:-1]:
            known[other.output[0]] = read_tensor(other.attribute[0].t, "axes")
        known |= feeds
        data = feeds["data"]
        axes = says.axes
        if len(node.input) == 2 and node.input[1]:
            axes = tuple(known[node.input[1]].tolist())
        axes = reduced_axes(
            axes, data.ndim, noop_with_empty_axes=says.noop_with_empty_axes
        )
        reduce = _in_torch(torch, BY_OPERATOR[node.op_type])
        x = to_torch(data)
        if not axes:  # of which torch would reduce all
            x, axes = x.unsqueeze(0), (0,)
            return [from_torch(reduce(x, axes, False))]
        return [from_torch(reduce(x, axes, says.keepdims))]

    def to_torch(array: Array) -> Any:
        if array.dtype.name != "bfloat16":
            return torch.from_numpy(array.copy())
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)

    def from_torch(tensor: Any) -> Array:
        if tensor.dtype != torch.bfloat16:
            return np.asarray(tensor.numpy())
        return _as_bfloat16(tensor.view(torch.int16).numpy())

    return run


def _in_torch(torch: Any, row: Reduction) -> Callable[..., Any]:
    """How torch reduces a tensor, from axes and whether they stay, to its own type."""
    terms = {"value": lambda x: x, "magnitude": torch.abs, "square": torch.square}
    whole = {
        "max": torch.amax,
        "min": torch.amin,
        "product": _torch_product,
        "exponentials": torch.logsumexp,
    }
    finishes = {"mean": torch.mean, "root": torch.linalg.vector_norm}

    def reduce(x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
        known = whole.get(row.operation) or finishes.get(row.finish)
        if known:
            return known(x, dim=axes, keepdim=keepdim)
        total = torch.sum(terms[row.term](x), dim=axes, keepdim=keepdim, dtype=x.dtype)
        return torch.log(total) if row.finish == "log" else total

    return reduce


def _torch_product(x: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    """A product along several axes, which torch has along one only: from the last on."""
    for axis in sorted(dim, reverse=True):
        x = x.prod(dim=axis, keepdim=keepdim, dtype=x.dtype)
    return x


BACKENDS = {
    "halfulp": Backend(
        ("halfulp", "onnx"), "`halfulp.onnx.backend`, on the CPU", _halfulp
    ),
    "reference": Backend(
        ("onnx", "numpy"), "`onnx.reference.ReferenceEvaluator`", _reference
    ),
    "onnxruntime": Backend(
        ("onnxruntime",),
        "`InferenceSession` with its defaults, on `CPUExecutionProvider`",
        _onnxruntime,
    ),
    "onnxruntime+halfulp": Backend(
        ("onnxruntime", "halfulp"),
        "`InferenceSession` with `halfulp.onnxruntime.register`; left out is what the "
        "runtime does not tell the operators of a library, the opset",
        _onnxruntime_with_halfulp,
        leaves_out=(WRONG_OPSET,),
    ),
    "openvino": Backend(
        ("openvino",),
        "`Core().compile_model` for the CPU, with the hint ACCURACY, which keeps the "
        "types of the model",
        _openvino,
    ),
    "torch": Backend(
        ("torch",),
        "`torch.sum(f(x), dim, keepdim, dtype=x.dtype)` for f nothing, abs or square, "
        "`torch.log` of that, `torch.mean`, `torch.linalg.vector_norm`, `torch.amax`, "
        "`torch.amin`, `torch.prod` and `torch.logsumexp`, as torch reads no ONNX; "
        "halfulp reads axes and flags for it, and invalid models are left out",
        _torch,
        leaves_out=(INVALID, WRONG_OPSET),
    ),
}


def check_backend(name: str) -> None:
    """Raise an ArgumentError unless `name` can be that of a backend."""
    module, colon, attribute = name.partition(":")
    if name not in BACKENDS and not (module and colon and attribute):
        raise ArgumentError(
            f"no backend {name!r}; allowed: {', '.join(BACKENDS)}, or module:attribute "
            "of an onnx.backend.base.Backend"
        )


def describe(name: str) -> str:
    """Return what is run under a name, in a sentence."""
    known = BACKENDS.get(name)
    return known.what if known else f"the ONNX backend `{name}`, on the CPU"


def prepare(name: str) -> tuple[dict[str, str], RunModel]:
    """Import a backend; return its versions, and how models are run.

    Raises
    ------
    ArgumentError, EngineError
        If it cannot be imported.
    """
    known = BACKENDS.get(name)
    try:
        if known is None:
            module, _, attribute = name.partition(":")
            loaded = importlib.import_module(module)
            for part in attribute.split("."):
                loaded = getattr(loaded, part)
            run = _of_backend(name, loaded)
            packages: tuple[str, ...] = (module.partition(".")[0],)
        else:
            run = known.prepare()
            packages = known.packages
    except HalfulpError:
        raise
    except Exception as error:  # whatever the import of a library raises
        hint = f"; install {known.packages[0]}" if known else ""
        cause = f"{type(error).__name__}: {error}"
        raise ArgumentError(
            f"backend {name!r} cannot be imported{hint}: {cause}"
        ) from error
    versions = {package: _version(package) for package in packages}
    if "halfulp" in packages:
        versions["kernels"] = importlib.import_module("halfulp._core").chosen_target()
    return versions, run


def _of_backend(name: str, backend: Any) -> RunModel:
    """How models are run by an onnx.backend.base.Backend, or a module like it."""
    if not callable(getattr(backend, "prepare", None)):
        raise ArgumentError(f"backend {name!r} has no prepare(model, device)")

    def run(model: ModelProto, feeds: Mapping[str, Array]) -> Sequence[Any]:
        prepared = backend.prepare(model, "CPU")
        if prepared is None:
            raise NotImplementedError("prepare returned None")
        outputs: Sequence[Any] = prepared.run(list(feeds.values()))
        return outputs

    return run


def _version(package: str) -> str:
    module = importlib.import_module(package)
    return str(getattr(module, "__version__", "unknown"))


def _as_bfloat16(array: Array) -> Array:
    import ml_dtypes

    return array.view(ml_dtypes.bfloat16)
