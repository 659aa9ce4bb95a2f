"""The reductions inside ONNX Runtime.

May import arrays, element_types, errors, native_library and reductions only; and the
package onnxruntime, onnx and onnx.model, when a function needs them.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from halfulp.arrays import as_array
from halfulp.element_types import BY_NAME
from halfulp.errors import ArgumentError, EngineError, shown
from halfulp.native_library import native_library
from halfulp.reductions import REDUCTIONS

__all__ = ["OPERATORS", "InferenceSession", "library_path", "register", "run"]

#: ONNX's names of the reductions that the library has.
OPERATORS = tuple(row.operator for row in REDUCTIONS)

# The first that has the interface which native/onnxruntime/abi.h declares.
_OLDEST = (1, 17)

_BFLOAT16 = BY_NAME["bfloat16"]
_TENSOR_OF_BFLOAT16 = f"tensor({_BFLOAT16.name})"

# Entries of a session's options, as native/onnxruntime/library.cpp has them: which
# operators to take, and which are taken.
_CHOSEN = "halfulp.operators"
_REGISTERED = "halfulp.registered"

# Where ONNX Runtime's own format has it, after the place of the root table.
_ORT_FORMAT = b"ORTM"

# Daemon threads with a run under way. No lock: a forked child might find it taken.
_daemons: set[threading.Thread] = set()
_exiting = threading.Event()


def __dir__() -> list[str]:
    return sorted(__all__)


def library_path() -> str:
    """Return the path of the library, for ``register_custom_ops_library``.

    Returns
    -------
    str
        Absolute. The library depends neither on Python nor on onnxruntime; any
        language that registers libraries of operators can use it.

    Raises
    ------
    EngineError
        If this installation has none.
    """
    return native_library("onnxruntime")


def register(options: Any, operators: str | Sequence[str] | None = None) -> None:
    """Let halfulp compute reductions in every session made with `options`.

    In the graph and in nested ones, of every opset, for all their types; models
    and other operators stay as they are. Doing it again changes nothing, also where
    the library was registered by its path.

    Parameters
    ----------
    options : onnxruntime.SessionOptions
        From which sessions will be made.
    operators : str or sequence of str, optional
        Which reductions to take, by ONNX's names: any of
        `halfulp.onnxruntime.OPERATORS`. Default: what the entry ``halfulp.operators``
        of `options` names or else the environment variable
        ``HALFULP_ONNXRUNTIME_OPERATORS``, with commas between; where neither is, all
        of them, but in runtimes older than 1.32, whose optimizers would no longer find
        sums and means, those alone that add squares or magnitudes.

    Raises
    ------
    ArgumentError
        If `options` are none, as a session that is made already; if `operators` has
        other names, none, or not those that `options` have already.
    EngineError
        If onnxruntime is missing, older than 1.17, or does not load the library.

    Notes
    -----
    An operator is taken with all its types. What optimizers make of nodes before the
    session runs them stays the runtime's: a layer norm of nine nodes becomes one.
    Results are those of `halfulp.reduce_sum_square` and its like, bit for bit. The
    threads are those of the session. What is wrong with a node, onnxruntime reports
    when it makes the session, or runs it where only the data tells.

    Examples
    --------
    >>> import numpy as np
    >>> import onnx.parser
    >>> import onnxruntime
    >>> import halfulp
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 18]>
    ...     agraph (float[N] x) => (float[1] y) { y = ReduceSumSquare(x) }
    ... ''').SerializeToString()
    >>> options = onnxruntime.SessionOptions()
    >>> halfulp.onnxruntime.register(options)
    >>> session = onnxruntime.InferenceSession(model, options)
    >>> session.run(None, {"x": np.array([4096, 1, 1], np.float32)})
    [array([1.6777218e+07], dtype=float32)]
    """
    _register(load(), options, "options", operators)


def _register(
    runtime: Any, options: Any, what: str, operators: str | Sequence[str] | None
) -> None:
    if not isinstance(options, runtime.SessionOptions):
        way = ""
        if isinstance(options, runtime.InferenceSession):
            way = (
                " from which the session is made, or halfulp.onnxruntime."
                "InferenceSession(model) in its place"
            )
        name = type(options).__name__
        article = "an" if name[0] in "AEIOaeio" else "a"
        raise ArgumentError(
            f"{what} is {article} {name}; allowed: onnxruntime.SessionOptions{way}"
        )
    if operators is not None:
        _choose(options, operators, what)
    path = library_path()
    try:
        options.register_custom_ops_library(path)
    except Exception as error:  # onnxruntime has no family of its own
        line = _line(error)
        _, from_us, told = line.partition(" halfulp: ")
        if from_us:
            raise ArgumentError(told) from error
        raise EngineError(
            f"onnxruntime {runtime.__version__} does not load {path!r}: {line}"
        ) from error


def _choose(options: Any, operators: str | Sequence[str], what: str) -> None:
    """Write down in options which operators to take."""
    try:
        names: list[Any] = [operators] if isinstance(operators, str) else [*operators]
    except TypeError:
        names = [operators]  # which is none of them
    wrong = [name for name in names if name not in OPERATORS]
    if wrong or not names:
        given = f"has {shown(wrong[0])}" if wrong else "is empty"
        raise ArgumentError(f"operators {given}; allowed: {', '.join(OPERATORS)}")
    chosen = ", ".join(name for name in OPERATORS if name in names)
    registered = _entry(options, _REGISTERED)
    if registered not in (None, chosen):
        raise ArgumentError(
            f"operators is {shown(operators)}, and {what} has {registered} already; "
            "allowed: the same, or new options"
        )
    if _entry(options, _CHOSEN) != chosen:
        options.add_session_config_entry(_CHOSEN, chosen)


def _entry(options: Any, name: str) -> str | None:
    """Return the value of an entry of options, None if there is none."""
    try:
        value: str = options.get_session_config_entry(name)
    except RuntimeError:
        return None
    return value


def InferenceSession(  # noqa: N802
    model: Any,
    sess_options: Any = None,
    providers: Sequence[Any] | None = None,
    *,
    operators: str | Sequence[str] | None = None,
    **kwargs: Any,
) -> Any:
    """Make a session of ONNX Runtime in which halfulp computes the reductions.

    Parameters
    ----------
    model : str, os.PathLike or bytes
        An ONNX model, or one in ONNX Runtime's own format, ``.ort``. One that was
        saved without halfulp's library is turned back into ONNX first, in a
        temporary folder, which takes the time of another session.
    sess_options : onnxruntime.SessionOptions, optional
        halfulp is registered in it.
    providers : sequence, optional
        Default: the CPU.
    operators : str or sequence of str, optional
        Which reductions, as for `register`.
    **kwargs
        For ``onnxruntime.InferenceSession``.

    Returns
    -------
    onnxruntime.InferenceSession

    Raises
    ------
    ArgumentError, EngineError
        As `register`; the second also if a model in ONNX Runtime's own format cannot
        be turned back. What else onnxruntime raises about the model passes.
    """
    runtime = load()
    options = runtime.SessionOptions() if sess_options is None else sess_options
    _register(runtime, options, "sess_options", operators)
    if isinstance(model, os.PathLike):
        model = os.fspath(model)
    providers = providers or ["CPUExecutionProvider"]
    try:
        return runtime.InferenceSession(model, options, providers=providers, **kwargs)
    except Exception as error:  # onnxruntime has no family of its own
        ours = any(operator in str(error) for operator in OPERATORS)
        if not ours or not is_in_ort_format(model):
            raise
    with TemporaryDirectory() as folder:
        path = _as_onnx(runtime, model, folder)
        return runtime.InferenceSession(path, options, providers=providers, **kwargs)


def is_in_ort_format(model: Any) -> bool:
    """Tell whether a file, or bytes, are a model in ONNX Runtime's own format."""
    if isinstance(model, bytes):
        return model[4:8] == _ORT_FORMAT
    if not isinstance(model, str | os.PathLike) or not os.path.isfile(model):
        return False
    with open(model, "rb") as file:
        return file.read(8)[4:] == _ORT_FORMAT


def _as_onnx(runtime: Any, model: str | bytes, folder: str) -> str:
    """Write a model in ONNX Runtime's own format as ONNX, and return the path.

    Saved without the library, such a file tells how to find the runtime's kernels
    only: by versions and types under which those of the library do not go. ONNX
    tells neither, so the runtime that reads it looks anew.
    """
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # fatal: errors are raised
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.save_model_format", "ONNX")
    options.optimized_model_filepath = path = os.path.join(folder, "model.onnx")
    try:
        runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        _name_nested_graphs(path)
    except Exception as error:
        raise EngineError(
            "model is in ONNX Runtime's own format and was saved without halfulp's "
            f"library, and onnxruntime {runtime.__version__} cannot turn it back into "
            f"ONNX: {_line(error)}; allowed: an ONNX model, or a file saved with the "
            "library registered"
        ) from error
    return path


def _name_nested_graphs(path: str) -> None:
    """Name those of an ONNX file: the runtime's format loses names that ONNX needs."""
    import onnx

    from halfulp.onnx.model.nodes import subgraphs, walk

    model = onnx.load(path, load_external_data=False)
    for _, node in walk(model.graph.node):
        for name, graph in subgraphs(node):
            graph.name = graph.name or name
    onnx.save(model, path)


def run(
    session: Any, inputs: Mapping[str, Any], run_options: Any = None
) -> dict[str, Any]:
    """Run a session on arrays, bfloat16 among them.

    The method ``run`` of a session knows no bfloat16, as NumPy has none of its own;
    its OrtValues do, and share the memory of the arrays. Nor may an interpreter exit
    while a daemon thread is in it: up to CPython 3.13 onnxruntime aborts the process
    then. For this function the exit waits.

    Parameters
    ----------
    session : onnxruntime.InferenceSession
    inputs : mapping of str to array_like
        By name; bfloat16 as of ml_dtypes.
    run_options : onnxruntime.RunOptions, optional

    Returns
    -------
    dict of str to numpy.ndarray
        The outputs by name, in the order of the model.

    Raises
    ------
    EngineError
        For bfloat16 inputs, if onnxruntime is older than 1.20. What else
        onnxruntime raises passes.

    Examples
    --------
    >>> import ml_dtypes
    >>> import numpy as np
    >>> import onnx.parser
    >>> import halfulp
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 18]>
    ...     agraph (bfloat16[N] x) => (bfloat16[1] y) { y = ReduceSumSquare(x) }
    ... ''').SerializeToString()
    >>> session = halfulp.onnxruntime.InferenceSession(model)
    >>> x = np.array([3, 4], ml_dtypes.bfloat16)
    >>> y = halfulp.onnxruntime.run(session, {"x": x})["y"]
    >>> y.dtype.name, y.astype(float)
    ('bfloat16', array([25.]))
    """
    names = [value.name for value in session.get_outputs()]
    values = (
        *session.get_inputs(),
        *session.get_overridable_initializers(),
        *session.get_outputs(),
    )
    if all(value.type != _TENSOR_OF_BFLOAT16 for value in values):
        with _exit_waits():
            results = session.run(names, dict(inputs), run_options)
        return dict(zip(names, results, strict=True))
    # Values share the memory of arrays, and do not keep it.
    arrays = {
        name: _contiguous(array, f"input {name!r}") for name, array in inputs.items()
    }
    given = {name: _to_value(array) for name, array in arrays.items()}
    with _exit_waits():
        results = session.run_with_ort_values(names, given, run_options)
    return dict(zip(names, map(_from_value, results), strict=True))


@contextmanager
def _exit_waits() -> Iterator[None]:
    """Let the interpreter exit only when a daemon thread has left the block."""
    thread = threading.current_thread()
    if not thread.daemon:
        yield
        return
    _daemons.add(thread)
    try:
        if _exiting.is_set():
            _daemons.discard(thread)
            while True:  # until the interpreter ends it
                time.sleep(3600)
        yield
    finally:
        _daemons.discard(thread)


@atexit.register
def _wait_for_daemons() -> None:
    _exiting.set()
    while any(thread.is_alive() for thread in list(_daemons)):
        time.sleep(0.001)


def _contiguous(array: Any, what: str) -> Any:
    given, _ = as_array(array, what)
    return np.ascontiguousarray(given).reshape(given.shape)


def _to_value(array: Any) -> Any:
    runtime = load()
    if array.dtype.name != "bfloat16":
        return runtime.OrtValue.ortvalue_from_numpy(array)
    try:
        typed = runtime.OrtValue.ortvalue_from_numpy_with_onnx_type
    except AttributeError:
        raise EngineError(
            f"onnxruntime {runtime.__version__} takes no bfloat16 from Python; "
            "allowed: 1.20 and later"
        ) from None
    return typed(array.view(np.uint16), _BFLOAT16.code)


def _from_value(value: Any) -> Any:
    if value.data_type() != _TENSOR_OF_BFLOAT16:
        return value.numpy()
    shape = value.shape()
    nbytes = _BFLOAT16.dtype.itemsize * math.prod(shape)
    content = bytearray(ctypes.string_at(value.data_ptr(), nbytes))
    return np.frombuffer(content, _BFLOAT16.dtype).reshape(shape)


def load() -> Any:
    """Return the package onnxruntime.

    Raises
    ------
    EngineError
        If it is missing or too old.
    """
    try:
        onnxruntime: Any = importlib.import_module("onnxruntime")
    except Exception as error:  # a release for another NumPy fails in several ways
        raise EngineError(
            "onnxruntime cannot be imported; install halfulp with the extra "
            f"'onnxruntime': {_line(error)}"
        ) from error
    release = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    if release < _OLDEST:
        raise EngineError(
            f"onnxruntime is {onnxruntime.__version__}; allowed: 1.17 and later"
        )
    return onnxruntime


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
