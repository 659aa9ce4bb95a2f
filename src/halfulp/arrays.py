"""Array-likes to NumPy arrays and back to the caller's library.

May import errors and the native core only.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from halfulp import _core
from halfulp.errors import ArgumentError, UnsupportedTypeError, shown

Array = npt.NDArray[Any]
Restore = Callable[[Array], Any]

_DLPACK_CPU = 1  # kDLCPU

_ALLOWED = "a NumPy array, an object with __dlpack__ on the CPU, nested lists of numbers"

# By what a type decides what NumPy's operations on it mean: units, labels, masks,
# sparsity and laziness are made with these. __dataframe__ is the protocol of tables.
_MEANINGS = ("__array_ufunc__", "__array_function__", "__dataframe__")
_MEANINGS_OF_SUBCLASSES = (*_MEANINGS, "__array_finalize__", "__array_wrap__", "sum")

# What a type has, and the way from it to a plain array.
_WAYS_OUT = (
    (("filled", "mask"), "for a sum or norm pass its filled(0)"),
    (("magnitude", "units"), "pass its magnitude (the result has no unit then)"),
    (("value", "unit"), "pass its value (the result has no unit then)"),
    (("value", "units"), "pass its value (the result has no unit then)"),
    (("data_vars",), "pass its arrays one by one, or the function to its reduce()"),
    (("to_dask_array",), "pass its to_dask_array(lengths=True)"),
    (("to_numpy",), "pass its to_numpy()"),
    (("compute", "__dask_graph__"), "pass its compute()"),
    (("toarray",), "pass its toarray()"),
    (("todense",), "pass its todense()"),
    (("__array__",), "pass numpy.asarray() of it"),
)

_SEQUENCES_OF_ONE_TYPE = (array, bytearray, bytes, memoryview, range, str)

# A nested sequence of more levels is no array of NumPy's.
_MOST_LEVELS = 64


def as_array(x: Any, what: str) -> tuple[Array, Restore | None]:
    """Return `x` as an array, and what turns a result into the library of `x`.

    NumPy arrays and objects with ``__dlpack__`` are viewed, never copied. The
    second value is None where the result stays a NumPy array. `what` names `x` in
    errors, as the signature of the caller does.

    Raises
    ------
    UnsupportedTypeError
        If `x` is no array, or more than one, so that something would be lost.
    ArgumentError
        If it lies on another device or its library does not export it.
    """
    kind = type(x)
    if kind is np.ndarray:
        return x, None
    # As Python does, special methods are looked up on the type: what an object forwards
    # to an array inside it says nothing of the object.
    exports = hasattr(kind, "__dlpack__") and not issubclass(kind, np.ndarray)
    if exports:
        _check_device(x, what)
    if is_more_than_an_array(kind):
        raise _refusal(kind, f"{what} is")
    if exports:
        return _from_dlpack(x, what), _restore_to(x)
    if isinstance(x, np.ndarray | np.generic):
        return np.asarray(x), None
    nested = _is_nested(kind)
    kinds = _kinds_of_elements(x, what) if nested else set()
    try:
        found = np.asanyarray(x)
    except MemoryError:
        raise
    except Exception as error:  # whatever another library raises
        text = " ".join(str(error).split())
        raise UnsupportedTypeError(f"{what} is not an array: {text}") from error
    if is_more_than_an_array(type(found)):
        raise _refusal(type(found), f"{what} holds")
    if found.dtype == object and not hasattr(kind, "__array__"):
        begin = f"{what} holds" if nested else f"{what} is"
        for element in found.flat:
            if not isinstance(element, int | float | np.generic):
                raise _refusal(type(element), begin)
        raise UnsupportedTypeError(
            f"{begin} an integer of more than 64 bits; allowed: of 64 at most"
        )
    if found.dtype == np.float64 and kinds and _are_integers(kinds):
        found = _as_unsigned(x, what)
    return np.asarray(found), None


def is_more_than_an_array(kind: type) -> bool:
    """Tell whether objects of a type mean more than the elements that they hold.

    By the protocols with which a type takes part in NumPy's operations. A memmap is
    an array that lies in a file.
    """
    if issubclass(kind, np.ndarray):
        plain = np.memmap if issubclass(kind, np.memmap) else np.ndarray
        return any(
            getattr(kind, name, None) is not getattr(plain, name, None)
            for name in _MEANINGS_OF_SUBCLASSES
        )
    return any(hasattr(kind, name) for name in _MEANINGS)


def _refusal(kind: type, begin: str) -> UnsupportedTypeError:
    package = kind.__module__.partition(".")[0]
    name = kind.__name__ if package == "builtins" else f"{package}.{kind.__name__}"
    article = "an" if name[0] in "aeioux" else "a"
    ways = [way for has, way in _WAYS_OUT if all(hasattr(kind, name) for name in has)]
    if issubclass(kind, Mapping):
        ways.append("pass its values one by one")
    elif issubclass(kind, Iterable):
        ways.append("pass a list of it")
    way = f"; {ways[0]}" if ways else ""
    return UnsupportedTypeError(f"{begin} {article} {name}; allowed: {_ALLOWED}{way}")


def _is_nested(kind: type) -> bool:
    """Tell whether objects of a type are sequences of elements of any type."""
    return issubclass(kind, Sequence) and not issubclass(kind, _SEQUENCES_OF_ONE_TYPE)


def _are_integers(kinds: set[type]) -> bool:
    return all(issubclass(kind, int | np.integer | np.bool) for kind in kinds)


def _as_unsigned(x: Sequence[Any], what: str) -> Array:
    """Return integers of which some are above all of int64; NumPy would round them."""
    exact = np.asarray(x, object)
    if exact.min() < 0:
        raise UnsupportedTypeError(
            f"{what} holds integers below 0 and above 2**63 - 1; allowed: those that "
            "int64 holds, or uint64"
        )
    return exact.astype(np.uint64)


def _kinds_of_elements(x: Sequence[Any], what: str) -> set[type]:
    """Return the types of the elements of nested sequences.

    Raises
    ------
    UnsupportedTypeError
        If one is more than an array.
    """
    found: set[type] = set()
    sequences = [x]
    for _ in range(_MOST_LEVELS):
        kinds = set(map(type, chain.from_iterable(sequences)))
        for kind in kinds:
            if is_more_than_an_array(kind):
                raise _refusal(kind, f"{what} holds")
        nested = {kind for kind in kinds if _is_nested(kind)}
        found |= kinds - nested
        if not nested:
            break
        elements = chain.from_iterable(sequences)
        sequences = [element for element in elements if type(element) in nested]
    return found


def is_masked_array(x: Any) -> bool:
    """Tell whether `x` is one of numpy.ma, of elements that mean no more."""
    module = sys.modules.get("numpy.ma")
    return (
        module is not None
        and type(x) is module.MaskedArray
        and not is_more_than_an_array(x.baseclass)
    )


def is_dask_array(x: Any) -> bool:
    """Tell whether `x` is a Dask array, without importing dask."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(x, module.Array)


def _check_device(x: Any, what: str) -> None:
    name = type(x).__name__
    try:
        device = int(x.__dlpack_device__()[0])
    except Exception as error:
        raise ArgumentError(
            f"{what}: {name} tells no DLPack device: {shown(error, str)}"
        ) from error
    if device != _DLPACK_CPU:
        raise ArgumentError(
            f"{what}: {name} is on DLPack device {shown(device)}; "
            f"allowed: {_DLPACK_CPU}, the CPU"
        )


def _from_dlpack(x: Any, what: str) -> Array:
    name = type(x).__name__
    try:
        return _core.import_dlpack(_export(x))
    except MemoryError:
        raise
    except Exception as error:  # whatever another library raises
        raise UnsupportedTypeError(
            f"{what}: {name} cannot be read: {shown(error, str)}"
        ) from error


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
