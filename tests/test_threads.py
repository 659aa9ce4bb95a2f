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

import numpy as np
import pytest

import halfulp
from halfulp import _core
from halfulp.settings import check_environment
from oracle import CONFIGURATIONS, assert_same_bits, configuration, expected

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
    ).stdout.strip()


def test_the_environment_sets_the_limit() -> None:
    code = "print(halfulp.get_num_threads())"
    assert _in_child(code, HALFULP_NUM_THREADS="3") == "3"


@linux
def test_the_default_is_the_cpus_that_this_process_may_use() -> None:
    cpu = min(os.sched_getaffinity(0))
    code = "print(halfulp.get_num_threads())"
    assert _in_child(code) == str(len(os.sched_getaffinity(0)))
    pinned = f"import os; os.sched_setaffinity(0, [{cpu}]); import halfulp; {code}"
    output = subprocess.run(
        [sys.executable, "-c", pinned], check=True, capture_output=True, text=True
    ).stdout
    assert output.strip() == "1"


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
    want = expected(LARGE[:, :64], 0)
    with (
        configuration(_core.chosen_target(), 4),
        ThreadPoolExecutor(8) as pool,
    ):
        results = list(
            pool.map(lambda _: halfulp.sum_square(LARGE[:, :64], 0), range(64))
        )
    for result in results:
        assert_same_bits(result, want)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_calls_again() -> None:
    with configuration(_core.chosen_target(), 4):
        want = _sum()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(_sum, range(8)) == [want] * 8
        assert _sum() == want


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
            halfulp.sum_square(x, 1, overflow="raise")


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
