"""The sdist and the wheel that `make wheel` leaves in dist/: what they hold and do.

`make test-wheel` makes them, then runs this; other runs skip it, as it takes minutes.
"""

from __future__ import annotations

import calendar
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
KINDS = (".py", ".pyi", ".so", "py.typed", ".json", ".css", ".js")

pytestmark = pytest.mark.skipif(
    not os.environ.get("HALFULP_TEST_WHEEL"), reason="make test-wheel runs it"
)

# In a folder of its own, where nothing but the installed package can be imported.
# Gets the number of kernels in the table.
SMOKE = """
import ctypes, sys
import numpy as np
import halfulp
assert halfulp.__file__.startswith(sys.prefix), halfulp.__file__
x = np.array([4096, 1, 1], np.float32)
for target in halfulp.build_info()["targets"]:
    halfulp._core.choose_target(target)
    assert len(halfulp.build_info()["kernels"]) == int(sys.argv[1])
    assert halfulp.sum_square(x) == 16777218
ctypes.CDLL(halfulp.onnxruntime.library_path()).RegisterCustomOps
"""


@pytest.fixture(scope="module")
def wheel() -> Path:
    (path,) = DIST.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    entries = zipfile.ZipFile(wheel).infolist()
    return [entry.filename for entry in entries if not entry.is_dir()]


@pytest.fixture(scope="module")
def sdist() -> Path:
    (path,) = DIST.glob("*.tar.gz")
    return path


def _run(*command: Any, **options: Any) -> str:
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_all_that_an_installation_needs(
    wheel: Path, names: list[str]
) -> None:
    libraries = {PurePosixPath(n).name.partition(".")[0] for n in names if ".so" in n}
    assert libraries == {"_core", "libhalfulp_onnxruntime", "libhalfulp_torch"}
    assert {"halfulp/_core.pyi", "halfulp/py.typed"} <= set(names)
    modules = {
        path.relative_to(ROOT / "src").as_posix() for path in ROOT.glob("src/**/*.py")
    }
    assert modules <= set(names)
    (licence,) = (n for n in names if n.endswith(".dist-info/licenses/LICENSE"))
    assert zipfile.ZipFile(wheel).read(licence) == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_holds_nothing_else(names: list[str]) -> None:
    for name in names:
        top, _, rest = name.partition("/")
        assert top == "halfulp" or top.endswith(".dist-info"), name
        assert top != "halfulp" or rest.endswith(KINDS), name


def test_the_wheel_is_small_and_says_where_it_runs(wheel: Path) -> None:
    assert wheel.stat().st_size < 5 * 2**20
    _, _, python, abi, platform = wheel.stem.split("-")
    assert platform.startswith("manylinux_")
    here = f"cp3{sys.version_info.minor}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert (python, abi) == (here, f"{here}t")
    elif sys.version_info < (3, 12):
        assert (python, abi) == (here, here)
    else:
        assert (python, abi) == ("cp312", "abi3")


def test_the_sdist_holds_the_source_and_nothing_else(sdist: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs git")
    tracked = _run("git", "ls-files", "-z", cwd=ROOT).split("\0")[:-1]
    source = {n for n in tracked if not n.startswith((".ci/", ".github/"))}
    with tarfile.open(sdist) as archive:
        held = {n.partition("/")[2] for n in archive.getnames()}
    assert held == source | {"PKG-INFO"}


def test_the_installed_wheel_works(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv/bin"
    _run(binaries / "python", "-m", "pip", "install", f"{wheel}[onnxruntime]")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")

    def halfulp(*arguments: str) -> str:
        return _run(binaries / "halfulp", *arguments, cwd=tmp_path)

    table = (ROOT / "native/kernels/kernels.inc").read_text()
    kernels = len(re.findall(r"^(?:KERNEL|EXACT|ROUNDER)\(", table, re.MULTILINE))
    smoke = (binaries / "python", "-I", "-W", "error", "-c", SMOKE, kernels)
    _run(*smoke, cwd=tmp_path)
    assert "portable" in halfulp("info")
    model = ("examples/kmeans_digits_opset18.onnx", "--input", "X=examples/digits.npy")
    for engine in ("onnxruntime", "reference"):
        assert "[500, 10]" in halfulp("run", *model, "--engine", engine)


def test_the_sdist_gives_the_wheel_again_bit_for_bit(
    wheel: Path, sdist: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "elsewhere", filter="data")
    (source,) = (tmp_path / "elsewhere").iterdir()
    date = zipfile.ZipFile(wheel).infolist()[0].date_time
    env = {
        **os.environ,
        "SOURCE_DATE_EPOCH": str(calendar.timegm(date)),
        "TZ": "Pacific/Chatham",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    built = tmp_path / "built"
    python = sys.executable
    _run(python, "-m", "build", "--wheel", "--outdir", built, source, env=env)
    (unrepaired,) = built.iterdir()
    repair = (python, "-m", "auditwheel", "repair", "--wheel-dir", tmp_path)
    _run(*repair, unrepaired, env=env)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()
