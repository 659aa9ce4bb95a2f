"""Threads: how many, and that nothing else depends on them.

That results do not depend on them is what test_exactness.py and test_layouts.py
check with every reduction.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import halfulp
from halfulp import _core
from halfulp.reductions import SUMS
from halfulp.settings import check_environment
from oracle import (
    CONFIGURATIONS,
    assert_same_bits,
    configuration,
    expected_of,
    function_of,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")

LARGE = np.random.default_rng(5).standard_normal((512, 2048)).astype(np.float32)


def test_the_limit_is_set_and_got() -> None:
    before = halfulp.get_num_threads()
    try:
        halfulp.set_num_threads(3)
        assert halfulp.get_num_threads() == 3
        with halfulp.num_threads(5):
            assert halfulp.get_num_threads() == 5
        assert halfulp.get_num_threads() == 3
        with pytest.raises(RuntimeError), halfulp.num_threads(2):
            raise RuntimeError
        assert halfulp.get_num_threads() == 3
    finally:
        halfulp.set_num_threads(before)


@pytest.mark.parametrize("n", [0, -1, 1.5, "2", None, 2**40])
def test_other_limits_are_refused(n: object) -> None:
    with pytest.raises(halfulp.ArgumentError, match=r"^n is .*; allowed: 1 to 1048576"):
        halfulp.set_num_threads(n)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("HALFULP_NUM_THREADS", "0", "HALFULP_NUM_THREADS is 0; allowed: 1 to"),
        ("HALFULP_NUM_THREADS", "-3", "HALFULP_NUM_THREADS is '-3'; allowed: 1 to"),
        ("HALFULP_NUM_THREADS", "many", "HALFULP_NUM_THREADS is 'many'; allowed: 1 to"),
        ("HALFULP_TARGET", "mmx", "HALFULP_TARGET is 'mmx'; allowed here: .*portable"),
    ],
)
def test_a_bad_environment_is_an_error(variable: str, value: str, message: str) -> None:
    with pytest.raises(halfulp.ArgumentError, match=message):
        check_environment({variable: value})


def _in_child(code: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", f"import halfulp; {code}"],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout.strip()


SHOWN = "print(halfulp.get_num_threads())"


def test_the_environment_sets_the_limit() -> None:
    assert _in_child(SHOWN, HALFULP_NUM_THREADS="3") == "3"


@linux
def test_the_default_is_the_cpus_that_this_process_may_use() -> None:
    cpu = min(os.sched_getaffinity(0))
    most = len(os.sched_getaffinity(0))
    quota = _core.processor_quota("") or most
    assert _in_child(SHOWN, OMP_NUM_THREADS="") == str(min(most, quota))
    pinned = f"import os; os.sched_setaffinity(0, [{cpu}]); import halfulp; {SHOWN}"
    output = subprocess.run(
        [sys.executable, "-c", pinned], check=True, capture_output=True, text=True
    ).stdout
    assert output.strip() == "1"


V2 = "30 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
MEMORY = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"


@linux
@pytest.mark.parametrize(
    ("groups", "mounts", "files", "quota"),
    [
        # Version 2: the group's own, those around it, none, and parts of a processor.
        ("0::/a/b", V2, {"a/b/cpu.max": "200000 100000"}, 2),
        ("0::/a/b", V2, {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, 3),
        ("0::/a/b", V2, {"a/b/cpu.max": "800000 100000", "cpu.max": "9 1"}, 8),
        ("0::/a/b", V2, {"a/b/cpu.max": "9 1", "a/cpu.max": "1 1", "cpu.max": "8 1"}, 1),
        ("0::/", V2, {"cpu.max": "50000 100000"}, 1),
        ("0::/", V2, {"cpu.max": "150000 100000"}, 2),
        ("0::/", V2, {"cpu.max": "400000 200000"}, 2),
        ("0::/a", V2, {"a/cpu.max": "max 100000"}, 0),
        ("0::/a", V2, {}, 0),
        # A group whose path is not what is mounted in the container.
        ("0::/docker/1", V2, {"cpu.max": "200000 100000"}, 2),
        ("0::/d/1", V2.replace(" / ", " /d/1 "), {"cpu.max": "2 1"}, 2),
        ("0::/d/1/x", V2.replace(" / ", " /d/1 "), {"x/cpu.max": "2 1"}, 2),
        ("0::/d/12", V2.replace(" / ", " /d/1 "), {"2/cpu.max": "2 1"}, 0),
        ("0::/../..", V2, {"cpu.max": "2 1"}, 2),
        # Version 1, and both at once.
        (
            "4:cpu,cpuacct:/a\n3:memory:/m",
            f"{V1}\n{MEMORY}",
            {
                "cpu,cpuacct/a/cpu.cfs_quota_us": "250000",
                "cpu,cpuacct/a/cpu.cfs_period_us": "100000",
                "cpu,cpuacct/cpu.cfs_quota_us": "-1",
                "cpu,cpuacct/cpu.cfs_period_us": "100000",
                "memory/m/cpu.cfs_quota_us": "1",
                "memory/m/cpu.cfs_period_us": "1",
            },
            3,
        ),
        (
            "4:cpu:/",
            V1,
            {
                "cpu,cpuacct/cpu.cfs_quota_us": "-1",
                "cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            0,
        ),
        (
            "4:cpu:/a\n0::/b",
            f"{V1}\n{V2.replace('/sys/fs/cgroup', '/sys/fs/cgroup/unified')}",
            {
                "cpu,cpuacct/a/cpu.cfs_quota_us": "500000",
                "cpu,cpuacct/a/cpu.cfs_period_us": "100000",
                "unified/b/cpu.max": "max 100000",
            },
            5,
        ),
        ("4:cpuset:/", V1, {"cpu,cpuacct/cpu.cfs_quota_us": "1"}, 0),
        # What no kernel writes.
        ("0::/", V2, {"cpu.max": ""}, 0),
        ("0::/", V2, {"cpu.max": "many 1"}, 0),
        ("0::/", V2, {"cpu.max": "100000 0"}, 0),
        ("0::/", V2, {"cpu.max": "-5 100"}, 0),
        ("0::/", V2, {"cpu.max": "1e300 1"}, 0),
        ("0::/", V2, {"cpu.max": "0 100"}, 0),
        ("", "", {}, 0),
        ("nonsense\n0:\n::::", "- - -\n\n" + "x" * 9999, {"cpu.max": "1 1"}, 0),
    ],
)
def test_the_quota_of_a_container_is_that_of_its_control_groups(
    tmp_path: Path, groups: str, mounts: str, files: dict[str, str], quota: int
) -> None:
    process = tmp_path / "proc/self"
    process.mkdir(parents=True)
    (process / "cgroup").write_text(f"{groups}\n")
    (process / "mountinfo").write_text(f"22 1 0:1 / / rw - overlay none rw\n{mounts}\n")
    for name, content in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")
    assert _core.processor_quota(str(tmp_path)) == quota


def test_no_control_groups_are_no_quota(tmp_path: Path) -> None:
    assert _core.processor_quota(str(tmp_path)) == 0


@linux
def test_openmp_s_variable_limits_the_threads_where_ours_is_not_set() -> None:
    most = int(_in_child(SHOWN, OMP_NUM_THREADS=""))
    assert 1 <= most <= len(os.sched_getaffinity(0))
    for value, limit in [
        ("1", 1),
        ("1,8", 1),
        (" 1 , 8", 1),
        ("1000000", most),
        ("1000", most),
        *((bad, most) for bad in ("", "0", "-2", "many", "1.5", "1x", ",1", "9" * 30)),
    ]:
        assert _in_child(SHOWN, OMP_NUM_THREADS=value) == str(limit), value
    assert _in_child(SHOWN, OMP_NUM_THREADS="1", HALFULP_NUM_THREADS="7") == "7"


@pytest.mark.parametrize("target", _core.target_names())
def test_the_environment_chooses_the_kernels(target: str) -> None:
    code = "print(halfulp.build_info()['target'])"
    assert _in_child(code, HALFULP_TARGET=target) == target


@linux
def test_one_thread_starts_no_other() -> None:
    code = (
        "import numpy as np, threading, os;"
        "halfulp.set_num_threads(1);"
        "x = np.ones(2**22, np.float32);"
        "halfulp.sum_square(x);"
        "before = len(os.listdir('/proc/self/task'));"
        "halfulp.sum_square(x);"
        "print(len(os.listdir('/proc/self/task')) - before)"
    )
    assert _in_child(code) == "0"


def _sum(_: int = 0) -> bytes:
    return halfulp.sum_square(LARGE, 0).tobytes()


def test_many_python_threads_may_call_at_once() -> None:
    x = LARGE[:, :64]
    want = [expected_of(row, x, 0) for row in SUMS]
    functions = [function_of(row) for row in SUMS]
    with (
        configuration(_core.chosen_target(), 4),
        ThreadPoolExecutor(8) as pool,
    ):
        results = list(pool.map(lambda i: functions[i % 5](x, 0), range(100)))
    for i, result in enumerate(results):
        assert_same_bits(result, want[i % 5])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_calls_again() -> None:
    with configuration(_core.chosen_target(), 4):
        want = _sum()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(_sum, range(8)) == [want] * 8
        assert _sum() == want


def test_sums_are_changed_by_one_thread_at_a_time() -> None:
    """Else digits would be lost: every update that is not refused is whole."""
    x = np.ones((3000, 64))
    sums = halfulp.SumSquare("double", 64)
    refusals = []

    def update(_: int) -> None:
        for _ in range(50):
            try:
                sums.update(x, axis=0)
            except halfulp.ArgumentError as error:
                refusals.append(str(error))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(update, range(4)))
    done = 200 - len(refusals)
    assert sums.count == 3000 * done
    assert set(sums.exact()) == {3000 * done}
    assert all(text.startswith("the sums are being changed") for text in refusals)


def test_the_environment_is_read_when_halfulp_is_imported() -> None:
    """Not by the first call: a fork meanwhile would leave its child waiting for ever."""
    code = (
        "import os, halfulp; os.environ['HALFULP_NUM_THREADS'] = '7'; "
        "os.environ['HALFULP_TARGET'] = 'portable'; "
        "print(halfulp.get_num_threads(), halfulp.build_info()['target'])"
    )
    environment = {**os.environ, "HALFULP_NUM_THREADS": "5"}
    environment.pop("HALFULP_TARGET", None)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"5 {_core.target_names()[0]}\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_the_child_of_a_fork_during_the_first_call_calls_too() -> None:
    """By chance: of 400 such forks 19 left a child that waited for ever."""
    code = """
import os, random, signal, sys, threading, time
import numpy as np
x = np.ones((3000, 300), "f4")
for _ in range(60):
    if pid := os.fork():
        assert os.waitpid(pid, 0)[1] == 0
        continue
    import halfulp
    go = []
    def first():
        while not go:
            pass
        halfulp.sum_square(x)
    sys.setswitchinterval(1e-5)
    threading.Thread(target=first).start()
    go.append(1)
    end = time.perf_counter() + random.uniform(0, 8e-4)
    while time.perf_counter() < end:
        pass
    if pid := os.fork():
        os._exit(os.waitpid(pid, 0)[1] != 0)
    signal.alarm(10)
    halfulp.sum_square(x)
    os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_an_object_that_computes_when_it_is_deleted_at_exit_does_so() -> None:
    """As late as that nothing can be imported, to ask whether Ctrl-C would be heard."""
    code = """
import sys
import numpy as np
import halfulp

class Last:
    def __del__(self, x=np.ones(5_000_001, "f4"), call=halfulp.sum_square, say=print,
                sums=halfulp.SumSquare("float"), modules=sys.modules):
        say(float(call(x)), sums.update(x).count, modules.get("threading"))

sys.modules["last"] = Last()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[:2] == ["5000001.0", "5000001"], done.stderr


def test_a_call_at_interpreter_exit_works() -> None:
    code = (
        "import atexit, numpy as np;"
        "x = np.ones(2**23, np.float32);"
        "atexit.register(lambda: print(int(halfulp.sum_square(x))))"
    )
    assert _in_child(code, HALFULP_NUM_THREADS="4") == "8388608"


def test_checked_overflow_in_a_thread_is_an_error_of_the_call() -> None:
    x = np.ones((64, 64), np.int32)
    x[40:, 40] = 2**31 - 1
    for target, threads in CONFIGURATIONS:
        with (
            configuration(target, threads),
            pytest.raises(
                halfulp.SumOverflowError, match=r"output \[40\] is .*int32 cannot hold it"
            ),
        ):
            halfulp.sum_square(x, 1, dtype=np.int32, overflow="raise")


def test_checked_overflow_ends_a_long_call_whichever_thread_finds_it() -> None:
    code = """
import numpy as np
x = np.zeros((512, 1 << 14), np.int32)
halfulp.set_num_threads(2)
for row in range(0, 512, 16):
    x[row] = 2**31 - 1
    try:
        halfulp.sum_square(x, 1, overflow="raise")
    except halfulp.SumOverflowError as error:
        assert f"[{row}]" in str(error)
        x[row] = 0
print("ended")"""
    assert _in_child(code) == "ended"


# What daemon threads do without end, while the interpreter exits.
ENDLESS = {
    "columns": "halfulp.sum_square(x, 0)",
    "rows": "halfulp.sum_square(x, 1)",
    "short calls": "halfulp.sum_square(x[:3])",
    "out": "halfulp.sum_square(x, 1, out=np.empty(3000, 'f4'))",
    "overflow": "overflow()",
    "update": "halfulp.SumSquare('float').update(x)",
    "merge and round": "(sums + sums).result()",
    "foreign array": "halfulp.reduce_sum_square(Foreign())",
    "other arithmetic": "halfulp.set_num_threads(3); halfulp.get_num_threads()",
}
EXIT = """
import threading, time, numpy as np, halfulp
x = np.ones((3000, 3000), 'f4')
sums = halfulp.SumSquare('float', 9000000 // 30).update(x.reshape(30, -1), 0)
class Foreign:
    def __dlpack__(self, **arguments):
        return x.__dlpack__(**arguments)
    def __dlpack_device__(self):
        return x.__dlpack_device__()
def overflow():
    try:
        halfulp.sum_square(np.full(3, 2**30, 'i4'), overflow='raise')
    except halfulp.SumOverflowError:
        pass
def work():
    while True:
        CALL
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""


def _assert_exits(code: str) -> None:
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("call", ENDLESS.values(), ids=ENDLESS)
def test_the_interpreter_exits_while_daemon_threads_compute(call: str) -> None:
    _assert_exits(EXIT.replace("CALL", call))


def test_the_interpreter_exits_while_daemon_threads_run_sessions() -> None:
    pytest.importorskip("onnxruntime")
    session = """
import onnx.parser
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 18]>'
    'agraph (float[N, M] x) => (float[1, 1] y) { y = ReduceSumSquare(x) }'
).SerializeToString()
session = halfulp.onnxruntime.InferenceSession(model)
"""
    code = EXIT.replace("def work()", f"{session}def work()")
    _assert_exits(code.replace("CALL", "halfulp.onnxruntime.run(session, {'x': x})"))
