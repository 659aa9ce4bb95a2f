"""Array-likes to NumPy arrays and back to the caller's library.

May import errors and the native core only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp import _core
from halfulp.errors import ArgumentError, UnsupportedTypeError

Array = npt.NDArray[Any]
Restore = Callable[[Array], Any]

_DLPACK_CPU = 1  # kDLCPU


def as_array(x: Any, what: str) -> tuple[Array, Restore | None]:
    """Return `x` as an array, and what turns a result into the library of `x`.

    `what` names `x` in errors, as the signature of the caller does.

    NumPy arrays and objects with ``__dlpack__`` are viewed, never copied. The
    second value is None where the result stays a NumPy array.

    Raises
    ------
    UnsupportedTypeError
        If `x` is no array, or one that halfulp would misread.
    ArgumentError
        If it lies on another device or its library does not export it.
    """
    if type(x) is np.ndarray:
        return x, None
    if isinstance(x, np.ma.MaskedArray):
        raise UnsupportedTypeError(
            f"{what} is a masked array; allowed: an array without a mask, as from "
            "its filled(0)"
        )
    if isinstance(x, np.ndarray | np.generic):
        return np.asarray(x), None
    if hasattr(x, "__dlpack__"):
        return _from_dlpack(x, what), _restore_to(x)
    try:
        return np.asarray(x), None
    except (TypeError, ValueError, OverflowError) as error:
        raise UnsupportedTypeError(f"{what} is not an array: {error}") from error


def is_dask_array(x: Any) -> bool:
    """Tell whether `x` is a Dask array, without importing dask."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(x, module.Array)


def _from_dlpack(x: Any, what: str) -> Array:
    name = type(x).__name__
    try:
        device = int(x.__dlpack_device__()[0])
    except Exception as error:
        raise ArgumentError(f"{what}: {name} tells no DLPack device: {error}") from error
    if device != _DLPACK_CPU:
        raise ArgumentError(
            f"{what}: {name} is on DLPack device {device}; "
            f"allowed: {_DLPACK_CPU}, the CPU"
        )
    try:
        return _core.import_dlpack(_export(x))
    except MemoryError:
        raise
    except Exception as error:  # whatever another library raises
        raise UnsupportedTypeError(f"{what}: {name} cannot be read: {error}") from error


def _export(x: Any) -> Any:
    """The capsule, by version 1 of the protocol (which knows read-only) or version 0."""
    try:
        return x.__dlpack__(max_version=(1, 0))
    except TypeError:
        return x.__dlpack__()


def _restore_to(x: Any) -> Restore | None:
    if hasattr(x, "__array_namespace__"):
        namespace = x.__array_namespace__()
    else:
        namespace = sys.modules.get(type(x).__module__.partition(".")[0])
    from_dlpack = getattr(namespace, "from_dlpack", None)
    if from_dlpack is None:
        return None
    return lambda result: from_dlpack(_core.export_dlpack(result))
