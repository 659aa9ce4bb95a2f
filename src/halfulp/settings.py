"""How many threads run, and which instruction set: by call and from the environment.

May import errors and the native core only.
"""

from __future__ import annotations

import operator
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from halfulp import _core
from halfulp.errors import ArgumentError, shown

_MOST_THREADS = 2**20


def get_num_threads() -> int:
    """Return the most threads that one call may use.

    Returns
    -------
    int
        At first ``HALFULP_NUM_THREADS``. Where it is not set, the least of the CPUs
        that this process may run on (its affinity mask), the CPU quota of its container
        (control groups, version 1 and 2, rounded up), and ``OMP_NUM_THREADS`` (of a
        list the first).
    """
    return _core.thread_limit()


def set_num_threads(n: int) -> None:
    """Set the most threads that one call may use, in the whole process.

    The result of a call does not depend on it. Only work that is large enough
    to gain is split.

    Parameters
    ----------
    n : int
        At least 1.

    Raises
    ------
    ArgumentError
        If `n` is no such number.
    """
    _core.set_thread_limit(_threads(n, "n"))


@contextmanager
def num_threads(n: int) -> Iterator[None]:
    """Set the number of threads for a ``with`` block, as `set_num_threads` does.

    Parameters
    ----------
    n : int
        At least 1.

    Raises
    ------
    ArgumentError
        If `n` is no such number.

    Examples
    --------
    >>> import halfulp
    >>> with halfulp.num_threads(1):
    ...     print(halfulp.get_num_threads())
    1
    """
    before = get_num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)


def is_command() -> bool:
    """Tell whether this process is the command line, which reports errors by itself."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    return program == "halfulp" or (program == "-m" and "halfulp" in sys.orig_argv)


def check_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Raise if a variable of halfulp's has a value that the core would ignore.

    Raises
    ------
    ArgumentError
        If HALFULP_NUM_THREADS is no positive number, or HALFULP_TARGET no
        instruction set that this processor can run.
    """
    threads = environment.get("HALFULP_NUM_THREADS")
    if threads is not None:
        # The digits that the core reads; others, as Arabic ones, Python would read too.
        digits = re.fullmatch("0*([0-9]{1,7})", threads)
        _threads(int(digits[1]) if digits else threads[:80], "HALFULP_NUM_THREADS")
    target = environment.get("HALFULP_TARGET")
    if target is not None and target not in _core.target_names():
        allowed = ", ".join(_core.target_names())
        raise ArgumentError(f"HALFULP_TARGET is {shown(target)}; allowed here: {allowed}")


def _threads(n: object, what: str) -> int:
    try:
        number = operator.index(n)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if not 1 <= number <= _MOST_THREADS:
        raise ArgumentError(f"{what} is {shown(n)}; allowed: 1 to {_MOST_THREADS}")
    return int(number)
