"""Objects with __dlpack__: read in place, and the result comes back as theirs."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import halfulp
from foreign import Exporter, Foreign
from halfulp import _core
from halfulp.arrays import as_array
from halfulp.reductions import Reduction
from oracle import (
    BFLOAT16,
    SMALL,
    TYPES,
    assert_same_bits,
    expected_of,
    function_of,
)
from rows import by_row


@pytest.mark.parametrize("dtype", TYPES + SMALL, ids=str)
@by_row
def test_a_foreign_array_gives_a_foreign_result(row: Reduction, dtype: np.dtype) -> None:
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    reduce = function_of(row)
    strided = x[::-1, :, ::2] if dtype != BFLOAT16 else x
    for same in (x, strided):
        result = reduce(Foreign(same), 1)
        assert isinstance(result, Foreign)
        assert_same_bits(result.array, expected_of(row, same, 1))
    assert reduce(Foreign(x)).array.shape == ()
    where = np.arange(24).reshape(2, 3, 4) % 3 == 1
    masked = reduce(Foreign(x), 2, where=Foreign(where), dtype="f4", keepdims=True)
    assert_same_bits(masked.array, expected_of(row, x, 2, "f4", True, where))
    out = np.empty((2, 4), np.float32)
    assert reduce(Foreign(x), 1, out=out) is out
    assert_same_bits(out, expected_of(row, x, 1, "f4"))
    if dtype not in SMALL:
        result = getattr(halfulp, row.onnx_name)(Foreign(x), [1])
        assert isinstance(result, Foreign)
        assert_same_bits(result.array, expected_of(row, x, 1, dtype, True))


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
    assert halfulp.sum_square(Exporter(np.arange(4.0))) == 14


class Tensor(ctypes.Structure):
    """DLPack's."""

    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    """DLPack's, of version 0."""

    _fields_: ClassVar = [
        ("tensor", Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class Versioned(ctypes.Structure):
    """DLPack's, of version 1."""

    _fields_: ClassVar = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


class Producer:
    """A library that says that its array is on the CPU, whatever its capsule says."""

    def __init__(
        self,
        data: int | None = None,
        device: int = 1,
        rank: int = 1,
        shape: tuple[int, ...] | None = (4,),
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
        name: bytes = b"dltensor",
        version: int | None = None,
        **arguments: Any,
    ) -> None:
        self.memory = np.arange(4, dtype="f4")
        address = self.memory.ctypes.data if data is None else data
        lists = [
            None if n is None else (ctypes.c_int64 * 100)(*n) for n in (shape, strides)
        ]
        pointers = [
            ctypes.cast(n, ctypes.POINTER(ctypes.c_int64)) if n else None for n in lists
        ]
        kind = {"code": 2, "bits": 32, "lanes": 1, **arguments}
        tensor = Tensor(address, (device, 0), rank, *kind.values(), *pointers, offset)
        self.managed: Any = Managed(tensor)
        if version is not None:
            self.managed = Versioned((version, 0), None, None, 0, tensor)
        self.lists = lists
        self.name = name

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **arguments: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), self.name, None)


@pytest.mark.parametrize(
    ("producer", "expected"),
    [
        (Producer(), 14),
        (Producer(name=b"dltensor_versioned", version=1), 14),
        (Producer(shape=(2, 2), strides=(-1, -2), rank=2, offset=12), 14),
        (Producer(shape=(3,), offset=4), 14),
        (Producer(shape=(0,), data=0), 0),
        (Producer(shape=None, rank=0, offset=8), 4),
        (Producer(shape=(1,) * 64, rank=64, offset=8), 4),
    ],
)
def test_capsules_are_read(producer: Producer, expected: int) -> None:
    assert halfulp.sum_square(producer) == expected


@pytest.mark.parametrize(
    ("producer", "message"),
    [
        (Producer(device=2, data=4096), "not in the memory of the CPU"),
        (Producer(name=b"dltensor_versioned", version=2, data=8), "version other than 1"),
        (Producer(name=b"used_dltensor"), "not a DLPack capsule"),
        (Producer(data=0), "no memory"),
        (Producer(shape=None), "no shape"),
        (Producer(shape=(-3,)), "negative"),
        (Producer(shape=(2**62,), strides=(0,)), "too big"),
        (Producer(shape=(2,), strides=(2**62,)), "too long strides"),
        (Producer(rank=-1), "too many axes"),
        (Producer(shape=(1,) * 65, rank=65), "too many axes"),
        (Producer(lanes=4), "element type"),
        (Producer(lanes=0), "element type"),
        (Producer(bits=0), "element type"),
        (Producer(code=200), "element type"),
    ],
)
def test_wrong_capsules_are_refused(producer: Producer, message: str) -> None:
    for call in (halfulp.sum_square, halfulp.SumSquare("float").update):
        with pytest.raises(
            halfulp.UnsupportedTypeError, match=f"Producer cannot be read: .*{message}"
        ) as caught:
            call(producer)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", [None, 7, b"abcd", np.ones(3, "f4")])
def test_what_is_no_capsule_is_refused(given: object) -> None:
    foreign = Foreign(np.ones(3))
    foreign.array = SimpleNamespace(dtype=None, __dlpack__=lambda **_: given)
    with pytest.raises(halfulp.UnsupportedTypeError, match="not a DLPack capsule"):
        halfulp.sum_square(foreign)


@pytest.mark.parametrize("version", [None, 1])
def test_the_producer_s_memory_is_freed_once(version: int | None) -> None:
    freed = []
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(freed.append)
    name = b"dltensor" if version is None else b"dltensor_versioned"
    producer = Producer(name=name, version=version)
    producer.managed.deleter = ctypes.cast(deleter, ctypes.c_void_p).value
    capsule = producer.__dlpack__()
    view = _core.import_dlpack(capsule)
    with pytest.raises(TypeError, match="nobody has taken"):
        _core.import_dlpack(capsule)
    part = view[1:]
    del view, capsule
    gc.collect()
    assert freed == []
    assert halfulp.sum_square(part) == 14
    del part
    gc.collect()
    assert freed == [ctypes.addressof(producer.managed)]


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
            _core.reduce("sum_square", x, axes, False, 11, False, None, None, True, False)
    with pytest.raises(TypeError, match="no such pair"):
        _core.reduce("sum_square", x, None, False, 6, False, None, None, True, False)
    with pytest.raises(TypeError, match="no such element type"):
        _core.reduce(
            "sum_square", x.astype("c8"), None, False, 6, False, None, None, True, False
        )
    for out in (np.ones(3), np.ones(2, np.float32), np.ones((2, 2))[:, 0]):
        with pytest.raises(ValueError, match="out does not fit"):
            _core.reduce("sum_square", x, (1,), False, 11, False, out, None, True, False)
    for mask in (np.ones(x.shape), np.ones(x.shape[:1], bool), np.ones((9, 9), bool)):
        with pytest.raises(ValueError, match="mask does not fit"):
            _core.reduce("sum_square", x, None, False, 11, False, None, mask, True, False)
