"""Which engine runs a model: ONNX Runtime, or onnx's reference evaluator.

May import errors, faults, onnx.evaluate and the module onnxruntime of halfulp.
ReduceSumSquare runs in halfulp with either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfulp.errors import ArgumentError, HalfulpError
from halfulp.faults import model_errors
from halfulp.onnx.evaluate import PreparedModel

ENGINES = ("onnxruntime", "reference")

# For ONNX Runtime's log: what is fatal. Errors are raised too.
_FATAL = 4


_Run = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave.

    Attributes
    ----------
    engine : str
        One of `ENGINES`, and the version of what ran.
    outputs : dict of str to numpy.ndarray
        By name, in the order of the model.
    seconds : float
        That the run took, without preparation.
    """

    engine: str
    outputs: dict[str, Any]
    seconds: float


def check_engine(name: str | None) -> None:
    """Raise an ArgumentError unless `name` is that of an engine, or None."""
    if name is not None and name not in ENGINES:
        raise ArgumentError(f"--engine is {name!r}; allowed: {' or '.join(ENGINES)}")


def run_in_engine(
    model: Path | bytes,
    prepared: PreparedModel,
    feeds: Mapping[str, Any],
    name: str | None,
) -> Outcome:
    """Run a model.

    Parameters
    ----------
    model : pathlib.Path or bytes
        For ONNX Runtime.
    prepared : PreparedModel
        The same, for the reference evaluator.
    feeds : mapping of str to array
        As `prepared.check_inputs` returns them.
    name : str, optional
        Default: ONNX Runtime, unless it is not installed or fails; what it refuses,
        the reference evaluator may run.

    Raises
    ------
    EngineError
        If ONNX Runtime is asked for and missing.
    ModelError
        If the engine refuses the model, or fails.
    """
    if name != "reference":
        try:
            engine, run = _onnxruntime(model)
            return _timed(engine, run, feeds)
        except HalfulpError:
            if name == "onnxruntime":
                raise
    return _timed("reference", prepared.run, feeds)


def _timed(engine: str, run: _Run, feeds: Mapping[str, Any]) -> Outcome:
    start = time.perf_counter()
    outputs = run(feeds)
    return Outcome(engine, outputs, time.perf_counter() - start)


def _onnxruntime(model: Path | bytes) -> tuple[str, _Run]:
    from halfulp import onnxruntime

    runtime = onnxruntime.load()
    options = runtime.SessionOptions()
    options.log_severity_level = _FATAL
    onnxruntime.register(options)
    with model_errors("onnxruntime refuses the model"):
        session = onnxruntime.InferenceSession(model, options)

    def run(feeds: Mapping[str, Any]) -> dict[str, Any]:
        run_options = runtime.RunOptions()
        # In a thread of its own, as an interrupt reaches Python code only.
        with ThreadPoolExecutor(1) as pool, model_errors("the model fails"):
            results = pool.submit(onnxruntime.run, session, feeds, run_options)
            try:
                return results.result()
            except KeyboardInterrupt:
                run_options.terminate = True
                raise

    return f"onnxruntime {runtime.__version__}", run
