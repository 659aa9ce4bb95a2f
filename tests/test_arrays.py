"""Objects with __dlpack__: read in place, and the result comes back as theirs."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import halfulp
from halfulp import _core
from halfulp.arrays import as_array
from oracle import BFLOAT16, SMALL, TYPES, assert_same_bits, expected


class Foreign:
    """An array of another library, on top of NumPy's DLPack."""

    def __init__(self, array: np.ndarray, device: int = 1) -> None:
        self.array = array
        self.device = device

    def __dlpack__(self, **arguments: Any) -> Any:
        if self.array.dtype == BFLOAT16:  # NumPy exports no bfloat16
            return _core.export_dlpack(self.array).__dlpack__(**arguments)
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(
            from_dlpack=lambda x: Foreign(_core.import_dlpack(x.__dlpack__()))
        )


@pytest.mark.parametrize("dtype", TYPES + SMALL, ids=str)
def test_a_foreign_array_gives_a_foreign_result(dtype: np.dtype) -> None:
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for face, axis, keepdims in (
        (halfulp.sum_square, 1, False),
        (halfulp.reduce_sum_square, [1], True),
    ):
        if dtype in SMALL and face is halfulp.reduce_sum_square:
            continue
        result = face(Foreign(x), axis)
        assert isinstance(result, Foreign)
        assert_same_bits(result.array, expected(x, 1, keepdims=keepdims))
    assert halfulp.sum_square(Foreign(x)).array.shape == ()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_foreign_array_is_viewed_not_copied(dtype: np.dtype) -> None:
    x = np.ones((4, 6), dtype)
    view, _ = as_array(Foreign(x), "x")
    assert np.shares_memory(view, x)
    assert view.dtype == dtype
    if dtype != BFLOAT16:
        strided, _ = as_array(Foreign(x.T[::2, ::-1]), "x")
        assert np.shares_memory(strided, x)
        assert strided.strides == x.T[::2, ::-1].strides


def test_the_producer_lives_as_long_as_the_view() -> None:
    view, _ = as_array(Foreign(np.full(10_000, 3.0)), "x")
    assert halfulp.sum_square(view) == 90_000


def test_read_only_producers_are_read() -> None:
    x = np.arange(4.0)
    x.flags.writeable = False
    assert halfulp.sum_square(Foreign(x)).array == 14


def test_axes_may_be_foreign_too() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert halfulp.reduce_sum_square(x, Foreign(np.array([1]))).tolist() == [
        [5.0],
        [50.0],
    ]


def test_a_library_without_from_dlpack_gets_a_numpy_array() -> None:
    class Exporter:
        array = np.arange(4.0)

        def __dlpack__(self, **arguments: Any) -> Any:
            return self.array.__dlpack__(**arguments)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    assert halfulp.sum_square(Exporter()) == 14


def test_another_device_is_refused() -> None:
    with pytest.raises(
        halfulp.ArgumentError, match="Foreign is on DLPack device 2; allowed: 1, the CPU"
    ):
        halfulp.sum_square(Foreign(np.ones(3), device=2))


def test_a_library_of_version_0_of_the_protocol_is_read() -> None:
    class Old(Foreign):
        def __dlpack__(self) -> Any:
            return self.array.__dlpack__()

    assert halfulp.sum_square(Old(np.arange(4.0))).array == 14


def test_a_device_that_is_not_told_is_an_error() -> None:
    class Lost(Foreign):
        def __dlpack_device__(self) -> tuple[int, int]:
            raise RuntimeError("no device")

    with pytest.raises(halfulp.ArgumentError, match="Lost tells no DLPack device: no"):
        halfulp.sum_square(Lost(np.ones(3)))


def test_what_the_library_refuses_is_told() -> None:
    class Refusing(Foreign):
        def __dlpack__(self, **arguments: Any) -> Any:
            raise BufferError("it requires grad")

    with pytest.raises(
        halfulp.UnsupportedTypeError, match="Refusing cannot be read: it requires"
    ):
        halfulp.sum_square(Refusing(np.ones(3)))


def test_foreign_arrays_of_other_types_are_refused() -> None:
    for face, dtype in (
        (halfulp.sum_square, "complex64"),
        (halfulp.reduce_sum_square, "int8"),
        (halfulp.reduce_sum_square, "bool"),
    ):
        with pytest.raises(
            halfulp.UnsupportedTypeError, match=f"dtype {dtype}; allowed: bfloat16"
        ):
            face(Foreign(np.ones(3, dtype)))


def _run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_importing_halfulp_imports_no_integration() -> None:
    code = (
        "import sys, halfulp;"
        "print([m for m in ('onnx', 'typer', 'rich') if m in sys.modules])"
    )
    assert _run(code).strip() == "[]"


def test_the_core_refuses_what_would_corrupt_memory() -> None:
    x = np.ones((2, 3))
    for axes in ((2,), (-1,)):
        with pytest.raises(ValueError, match="axis out of range"):
            _core.reduce(x, axes, False, 11, False, None)
    with pytest.raises(TypeError, match="no such pair"):
        _core.reduce(x, None, False, 6, False, None)
    with pytest.raises(TypeError, match="no such element type"):
        _core.reduce(x.astype("c8"), None, False, 6, False, None)
    for out in (np.ones(3), np.ones(2, np.float32), np.ones((2, 2))[:, 0]):
        with pytest.raises(ValueError, match="out does not fit"):
            _core.reduce(x, (1,), False, 11, False, out)
