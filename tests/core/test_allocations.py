"""Where memory is not to be had, a call raises and nothing has changed, or it is right.

Every allocation of the native code fails in turn, in a process of its own into which
tests/native/failing_allocations.cpp is loaded.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import halfulp
from foreign import Exporter
from halfulp import SumSquare, _core
from halfulp.cli import main
from halfulp.conformance.bits import bits
from oracle import TYPES

NATIVE = Path(__file__).parents[1] / "native"
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")

# Shapes and axes for each way through the core: rows and columns, few and many of both,
# reshaped ones, one number.
LAYOUTS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 40000), (1,)),
    ((4000, 60), (0,)),
    ((4000, 5), (0,)),
    ((40, 600), (0,)),
    ((700, 9), (1,)),
    ((6, 50, 30), (0, 2)),
    ((64,), (0,)),
    ((30, 7), ()),
]


class Allocations:
    """Those of one library, in a process with the preloaded library."""

    def __init__(self, library: str) -> None:
        self._shim = ctypes.CDLL(os.environ["FAILING_ALLOCATIONS"])
        assert self._shim.watch_allocations(library.encode())
        self.failed = 0

    def fail_each(self, call: Callable[[], None], raised: Callable[[], None]) -> None:
        """Let each allocation fail in turn, alone and with all after it.

        `call` raises MemoryError, after which `raised` is called, or checks its result.
        """
        for alone in (True, False):
            n = 0
            while True:
                n += 1
                self._shim.fail_allocations(n, n if alone else 2**31 - 1)
                try:
                    call()
                except MemoryError:
                    self._shim.fail_allocations(0, -1)
                    raised()
                    self.failed += 1
                else:
                    made = self._shim.count_allocations()
                    self._shim.fail_allocations(0, -1)
                    if made < n:
                        break


def same(got: np.ndarray, want: np.ndarray) -> None:
    assert np.array_equal(bits(np.asarray(got)), bits(np.asarray(want)))


def arrays() -> list[tuple[np.ndarray, tuple[int, ...]]]:
    """Arrays of all types, some not readable in place, whose sums need every method."""
    rng = np.random.default_rng(1)
    some = []
    for shape, axes in LAYOUTS:
        for dtype in TYPES:
            # Few bits each: sums that are ties are among them.
            x = rng.integers(0, 2000, shape).astype(dtype)
            some.append((x, axes))
        wide = np.ldexp(rng.random(shape), rng.integers(-100, 100, shape))
        some.append((wide, axes))
        some.append((wide.astype(">f8"), axes))
        some.append((np.repeat(wide.astype("f4"), 2, -1)[..., ::2], axes))
    return some


def fail_in_reductions() -> int:
    allocations = Allocations(_core.__file__)

    def fail_in(x: np.ndarray, axes: tuple[int, ...]) -> None:
        want = halfulp.sum_square(x, axes)
        before = np.zeros_like(np.asarray(want))
        out = before.copy()

        def call() -> None:
            same(halfulp.sum_square(x, axes), want)
            same(halfulp.sum_square(x, axes, out=out), want)
            out[...] = before

        allocations.fail_each(call, lambda: same(out, before))

    for x, axes in arrays():
        fail_in(x, axes)
    x = np.ones((3, 40), "f4")
    allocations.fail_each(
        lambda: same(halfulp.sum_square(Exporter(x)), halfulp.sum_square(x)), lambda: None
    )
    return allocations.failed


def fail_in_sums() -> int:
    allocations = Allocations(_core.__file__)

    def fail_in(x: np.ndarray, axes: tuple[int, ...]) -> None:
        kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
        once = SumSquare(x.dtype.newbyteorder("="), kept).update(x, axes)
        twice = once.copy().update(x, axes)
        rounded = twice.result()
        some = once.copy()

        def update() -> None:
            nonlocal some
            assert some.update(x, axes) == twice
            some = once.copy()

        def merge() -> None:
            nonlocal some
            assert some.merge(once) == twice
            some = once.copy()

        def unchanged() -> None:
            assert some == once

        allocations.fail_each(update, unchanged)
        allocations.fail_each(merge, unchanged)
        allocations.fail_each(lambda: same(twice.result(), rounded), lambda: None)

    for x, axes in arrays():
        fail_in(x, axes)
    return allocations.failed


def fail_in_files() -> int:
    """`halfulp sum` and `merge`, whose errors are one line."""
    allocations = Allocations(_core.__file__)
    x = np.random.default_rng(2).random((300, 40)).astype("f4")
    np.save("x.npy", x)
    assert main(["sum", "x.npy", "--state", "once"]) == 0
    shutil.copy("once", "again")

    def fail_in(*arguments: str) -> None:
        new = Path(arguments[-1])
        assert main(arguments) == 0
        want = new.read_bytes()
        new.unlink()

        def call() -> None:
            try:
                code = main(arguments)
            except MemoryError as error:
                raise AssertionError from error
            assert code in (0, 2)
            assert new.exists() == (code == 0)
            if code == 2:
                raise MemoryError
            assert new.read_bytes() == want
            new.unlink()

        allocations.fail_each(call, lambda: None)

    fail_in("sum", "x.npy", "--state", "new")
    fail_in("sum", "x.npy", "--axis", "0", "--output", "new.npz")
    fail_in("merge", "once", "again", "--state", "new")
    return allocations.failed


def fail_in_onnxruntime() -> int:
    import onnxruntime

    runtime_errors = (
        onnxruntime.capi.onnxruntime_pybind11_state.Fail,
        onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException,
    )

    def fail_in(allocations: Allocations | None, dtype: str) -> None:
        text = f"""<ir_version: 8, opset_import: ["" : 18]>
            agraph ({dtype}[N, M] x, int64[1] axes) => ({dtype}[K] y)
            {{ y = ReduceSumSquare<keepdims = 0>(x, axes) }}"""
        model = onnx.parser.parse_model(text).SerializeToString()
        x = np.arange(120 * 600, dtype=np.dtype(dtype)).reshape(120, 600)
        if dtype == "float":
            x = x.astype(np.float32)
        want = [halfulp.sum_square(x, axis) for axis in (0, 1)]

        def call() -> None:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            try:
                session = halfulp.onnxruntime.InferenceSession(model, options)
                for axis in (0, 1):
                    (y,) = session.run(None, {"x": x, "axes": np.array([axis], np.int64)})
                    same(y, want[axis])
            except (halfulp.EngineError, *runtime_errors) as error:
                raise MemoryError from error

        if allocations is None:
            call()
        else:
            allocations.fail_each(call, lambda: None)

    fail_in(None, "float")  # loads the library
    allocations = Allocations(halfulp.onnxruntime.library_path())
    fail_in(allocations, "float")
    fail_in(allocations, "int64")
    return allocations.failed


CHILDREN = (fail_in_reductions, fail_in_sums, fail_in_files, fail_in_onnxruntime)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("c++")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C++ compiler on Linux")
    library = tmp_path_factory.mktemp("shim") / "failing_allocations.so"
    flags = ["-DONLY_NEW"] if SANITIZED else []
    flags += ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    source = NATIVE / "failing_allocations.cpp"
    subprocess.run([compiler, *flags, source, "-o", library, "-ldl"], check=True)
    return library


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("child", CHILDREN, ids=lambda child: child.__name__)
def test_every_allocation_may_fail(
    child: Callable[[], int], threads: int, shim: Path, tmp_path: Path
) -> None:
    if SANITIZED and child is fail_in_onnxruntime:
        pytest.skip("needs the system's malloc")
    done = subprocess.run(
        [sys.executable, __file__, child.__name__, str(threads)],
        env={
            **os.environ,
            "LD_PRELOAD": f"{shim} {os.environ.get('LD_PRELOAD', '')}",
            "FAILING_ALLOCATIONS": str(shim),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) > 0


if __name__ == "__main__":
    (chosen,) = (child for child in CHILDREN if child.__name__ == sys.argv[1])
    with halfulp.num_threads(int(sys.argv[2])):
        _core.set_bytes_per_thread(1)
        print(chosen())
