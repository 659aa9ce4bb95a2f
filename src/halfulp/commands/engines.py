"""Which engine runs a model: ONNX Runtime, or onnx's reference evaluator.

May import errors, faults, spec.rules, the module onnxruntime of halfulp and, of onnx, the
rooms model, check and run. Reductions run in halfulp with either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx import ModelProto, TensorProto, ValueInfoProto
from onnx.helper import make_tensor_value_info

from halfulp.errors import ArgumentError, HalfulpError
from halfulp.faults import model_errors
from halfulp.onnx.check.nodes import check_opened, check_types
from halfulp.onnx.model.files import is_binary, load_model
from halfulp.onnx.model.open import Purpose, copies, open_model
from halfulp.onnx.model.reduce_nodes import names_reduction
from halfulp.onnx.run.evaluate import ReferenceModel
from halfulp.onnx.run.inputs import check_inputs

ENGINES = ("onnxruntime", "reference")

# For ONNX Runtime's log: what is fatal. Errors are raised too.
_FATAL = 4


@dataclass(frozen=True, slots=True)
class ModelRun:
    """What a run of a model gave.

    Attributes
    ----------
    engine : str
        One of `ENGINES`, and the version of what ran.
    inputs : dict of str to numpy.ndarray
        By name: those that the model took.
    outputs : dict of str to numpy.ndarray
        By name, in the order of the model.
    seconds : float
        That the run took, without preparation.
    """

    engine: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    seconds: float


def check_engine(name: str | None) -> None:
    """Raise an ArgumentError unless `name` is that of an engine, or None."""
    if name is not None and name not in ENGINES:
        raise ArgumentError(f"--engine is {name!r}; allowed: {' or '.join(ENGINES)}")


class ReadyModel:
    """A model that is ready to run in an engine.

    Our operator is checked first, whatever the engine; the rest is up to the engine.

    Parameters
    ----------
    model : pathlib.Path, bytes or onnx.ModelProto
    name : str, optional
        Of the engine. Default: ONNX Runtime, unless it is not installed or fails; what it
        refuses, the reference evaluator may run.

    Attributes
    ----------
    inputs, outputs : sequence of onnx.ValueInfoProto
        As the model declares them.
    defaults : frozenset of str
        The inputs that may be left out.

    Raises
    ------
    EngineError
        If ONNX Runtime is asked for and missing.
    ModelError
        If the engine refuses the model.
    UnsupportedTypeError, AxesError, ArgumentError
        If a node that reduces breaks the rules of its version.
    """

    def __init__(self, model: Path | bytes | ModelProto, name: str | None) -> None:
        self._model, self._name = model, name
        self._opened: RuntimeModel | ReferenceModel
        if name == "reference":
            self._opened = ReferenceModel(model)
            return
        try:
            self._opened = RuntimeModel(model)
        except _OurError as error:
            raise error.error from None
        except HalfulpError:
            if name is not None:
                raise
            self._opened = ReferenceModel(model)

    @property
    def inputs(self) -> Sequence[ValueInfoProto]:
        return self._opened.inputs

    @property
    def outputs(self) -> Sequence[ValueInfoProto]:
        return self._opened.outputs

    @property
    def defaults(self) -> frozenset[str]:
        return self._opened.defaults

    def _checked(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._opened.check_inputs(inputs)
        except _OurError as error:
            raise error.error from None

    def run(self, *choices: Callable[[], Mapping[str, Any]]) -> ModelRun:
        """Run the model on the first inputs that it takes.

        Parameters
        ----------
        *choices : callable
            Each returns inputs, as the model declares them.

        Raises
        ------
        ArgumentError
            If an input is missing, unknown, or of another type or shape.
        ModelError
            If the model fails on all.
        """
        try:
            return self._run(choices)
        except ArgumentError:
            raise
        except HalfulpError as error:
            if self._name is not None or isinstance(self._opened, ReferenceModel):
                raise
            try:
                self._opened = ReferenceModel(self._model)
            except HalfulpError:
                raise error from None
        return self._run(choices)

    def _run(self, choices: Sequence[Callable[[], Mapping[str, Any]]]) -> ModelRun:
        engine = getattr(self._opened, "engine", "reference")
        first: HalfulpError | None = None
        for choice in choices:
            feeds = self._checked(choice())
            start = time.perf_counter()
            try:
                outputs = self._opened.run(feeds)
            except HalfulpError as error:
                first = first or error
            else:
                return ModelRun(engine, feeds, outputs, time.perf_counter() - start)
        assert first is not None
        raise first


class _OurError(HalfulpError):
    """Carries an error of a node that reduces, which no other engine would change."""

    def __init__(self, error: HalfulpError) -> None:
        super().__init__(str(error))
        self.error = error


def _raise_ours(place: str, error: HalfulpError) -> None:
    if names_reduction(place):
        raise _OurError(error)


@contextmanager
def _only_ours() -> Iterator[None]:
    """Let the errors of nodes that reduce pass: the others the runtime tells."""
    try:
        yield
    except _OurError:
        raise
    except HalfulpError:
        pass


def _content(model: Path | bytes | ModelProto, proto: ModelProto) -> Path | bytes:
    """Return what the runtime can read: `proto` where `model` is no binary file."""
    if isinstance(model, Path) and is_binary(model):
        return model
    with model_errors("onnxruntime refuses the model"):
        content: bytes = proto.SerializeToString()
        return content


def _declared(argument: Any) -> ValueInfoProto:
    """Return an input or output of a session as a model declares it."""
    value = ValueInfoProto(name=argument.name)
    kind, _, rest = argument.type.partition("(")
    if kind != "tensor":
        return value
    element = TensorProto.DataType.Value(rest.removesuffix(")").upper())
    return make_tensor_value_info(argument.name, element, argument.shape)


class RuntimeModel:
    """A model in ONNX Runtime, which runs whatever that runtime runs.

    Parameters
    ----------
    model : pathlib.Path, bytes or onnx.ModelProto

    Raises
    ------
    EngineError
        If ONNX Runtime is missing.
    ModelError
        If it refuses the model.
    """

    def __init__(self, model: Path | bytes | ModelProto) -> None:
        from halfulp import onnxruntime

        runtime = onnxruntime.load()
        self._runtime = runtime
        self.engine = f"onnxruntime {runtime.__version__}"
        self._proto: ModelProto | None = None
        if isinstance(model, Path | bytes) and onnxruntime.is_in_ort_format(model):
            content = model
        else:
            self._proto = load_model(model)
            # Before the checks, which change the model.
            content = _content(model, self._proto)
            self.inputs: Sequence[ValueInfoProto] = copies(self._proto.graph.input)
            self.outputs: Sequence[ValueInfoProto] = copies(self._proto.graph.output)
            initializers = self._proto.graph.initializer
            self.defaults = frozenset(tensor.name for tensor in initializers)
            with _only_ours(), model_errors("the model cannot be used"):
                opened = open_model(
                    self._proto, Purpose.CHECK, _raise_ours, lambda place, error: None
                )
                check_opened(opened, _raise_ours)
        options = runtime.SessionOptions()
        options.log_severity_level = _FATAL
        onnxruntime.register(options, onnxruntime.OPERATORS)
        with model_errors("onnxruntime refuses the model"):
            self._session = onnxruntime.InferenceSession(content, options)
        if self._proto is None:
            self.inputs = [_declared(each) for each in self._session.get_inputs()]
            self.outputs = [_declared(each) for each in self._session.get_outputs()]
            self.defaults = frozenset()

    def check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return what to feed, after every check that needs no run."""
        given = check_inputs(self.inputs, self.defaults, inputs)
        if self._proto is not None:
            with _only_ours():
                check_types(self._proto, given, on_error=_raise_ours)
        return given

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model on what `check_inputs` returned."""
        from halfulp import onnxruntime

        run_options = self._runtime.RunOptions()
        # In a thread of its own, as an interrupt reaches Python code only.
        with ThreadPoolExecutor(1) as pool, model_errors("the model fails"):
            results = pool.submit(onnxruntime.run, self._session, feeds, run_options)
            try:
                return results.result()
            except KeyboardInterrupt:
                run_options.terminate = True
                raise
