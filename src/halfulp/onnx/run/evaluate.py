"""Runs a model: onnx's reference evaluator, with halfulp's reductions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from onnx import GraphProto, ModelProto
from onnx.reference import ReferenceEvaluator

from halfulp.faults import model_errors
from halfulp.onnx.check.nodes import check_opened, check_types
from halfulp.onnx.model.bodies import reads
from halfulp.onnx.model.open import Purpose, open_model, read_model
from halfulp.onnx.ops import OPERATORS
from halfulp.onnx.run.gaps import GatherElements, Loop, TfIdfVectorizer, Tile, ZipMap
from halfulp.onnx.run.inputs import check_inputs

_OPERATORS = [*OPERATORS, GatherElements, Loop, TfIdfVectorizer, Tile, ZipMap]


def run_model(
    model: str | os.PathLike[str] | bytes | ModelProto, inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """Run an ONNX model, with each node that reduces correctly rounded.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        Not changed. External data is read only with a path, and only from the
        folder of the model.
    inputs : mapping of str to array_like
        By name, of the types and shapes that the model declares. An input with
        an initializer may be left out. Python numbers take the declared type.

    Returns
    -------
    dict of str to numpy.ndarray
        The outputs by name, in the order of the model. Sequences and maps come
        as lists and dicts.

    Raises
    ------
    ModelError
        If the model cannot be read, breaks a rule or fails.
    ArgumentError
        If an input is missing, unknown, or of another type or shape.
    UnsupportedTypeError, AxesError, ArgumentError
        If a node that reduces breaks the rules of its version; the message
        names node, version, what is given and what is allowed. Nothing of the
        model has run then, where this is known beforehand.

    Notes
    -----
    ReduceSum, ReduceMean, ReduceL1, ReduceL2 and ReduceSumSquare run in halfulp, in
    the graph, in nested graphs and in functions; a node has the newest version that
    the opset around it allows, and a later opset than any known means the last
    version. Other operators run in onnx's reference evaluator, except for Loop, which
    it runs otherwise than specified, and ZipMap, which it lacks.

    Examples
    --------
    >>> import numpy as np
    >>> import onnx.parser
    >>> from halfulp.onnx import run_model
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 18]>
    ...     agraph (float[N] x) => (float[1] y) { y = ReduceSumSquare(x) }
    ... ''')
    >>> run_model(model, {"x": [4096, 1, 1]})
    {'y': array([1.6777218e+07], dtype=float32)}
    """
    return ReferenceModel(model).run(inputs)


class ReferenceModel:
    """A model that is read and checked, to run any number of times.

    Attributes
    ----------
    inputs, outputs : tuple of onnx.ValueInfoProto
        As the model declares them.
    defaults : frozenset of str
        The inputs that may be left out.
    """

    def __init__(self, model: Any) -> None:
        proto = read_model(model, largest=None)
        with model_errors("the model cannot be used"):
            self._opened = open_model(proto, Purpose.RUN)
            self._evaluator = _evaluator(proto)
        self.inputs = self._opened.inputs
        self.outputs = self._opened.outputs
        self.defaults = self._opened.defaults

    def check(self) -> None:
        """Check the nodes that reduce with what is known without inputs."""
        with model_errors("the model cannot be used"):
            check_opened(self._opened)

    def check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return what to feed, after every check that needs no run."""
        given = check_inputs(self.inputs, self.defaults, inputs)
        with model_errors("the model cannot be used"):
            check_types(self._opened.proto, {**self._opened.large, **given})
        return given

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model as `run_model` does."""
        feeds = {**self._opened.large, **self.check_inputs(inputs)}
        # ONNX's operators give infinities and NaNs without a word.
        with model_errors("the model fails"), np.errstate(all="ignore"):
            results = self._evaluator.run(None, feeds)
        return dict(zip(self._evaluator.output_names, results, strict=True))


class _Functions(dict[tuple[str, str], ReferenceEvaluator]):
    """Functions that all evaluators of a model share.

    onnx's evaluator copies them for each function and each nested graph, where it asks
    for a copy or for all values.
    """

    def copy(self) -> _Functions:
        return self

    def values(self) -> Any:
        return ()


class _Evaluator(ReferenceEvaluator):
    """onnx's evaluator, with the operators here in nested graphs and functions too."""

    shared: ClassVar[_Functions]

    def __init__(self, proto: Any, **options: Any) -> None:
        super().__init__(proto, **{**options, "new_ops": _OPERATORS})
        # A nested graph is fed all values around it, of which it takes those it reads;
        # its own initializers have precedence over those of the same name.
        fed = set(reads(proto)) if isinstance(proto, GraphProto) else set()
        self._fed = fed.difference(self.rt_inits_).union(self.input_names_)

    @property  # type: ignore[override]
    def functions_(self) -> _Functions:
        return self.shared

    @functions_.setter
    def functions_(self, functions: Any) -> None:
        """Leave the functions to `_evaluator`."""

    def run(self, output_names: Any, feed_inputs: Any, *args: Any, **options: Any) -> Any:
        feeds = {name: feed_inputs[name] for name in self._fed if name in feed_inputs}
        return super().run(output_names, feeds, *args, **options)


def _evaluator(model: ModelProto) -> ReferenceEvaluator:
    """Return an evaluator of a prepared model, its functions specialized."""
    functions = _Functions()
    kind: Any = type("_EvaluatorOfModel", (_Evaluator,), {"shared": functions})
    for function in model.functions:
        functions[function.domain, function.name] = kind(function)
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    evaluator: ReferenceEvaluator = kind(model.graph, opsets=opsets)
    return evaluator
