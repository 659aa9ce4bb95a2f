"""Runs cases over a backend.

May import backends, cases and results only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from halfulp.conformance.backends.child import BackendChild
from halfulp.conformance.backends.registry import BACKENDS
from halfulp.conformance.cases.case import Case
from halfulp.conformance.results import Result, Run, result_of

# As many cases are worth a process: starting one takes a second.
_LEAST = 50


def cases_for(backend: str, cases: Sequence[Case]) -> list[Case]:
    """Return the cases that a backend has a say in."""
    left_out = BACKENDS[backend].leaves_out if backend in BACKENDS else ()
    return [case for case in cases if case.class_name not in left_out]


def run_cases(
    backend: str,
    cases: Sequence[Case],
    *,
    time_limit: float = 20.0,
    jobs: int = 1,
    done: Callable[[], None] = lambda: None,
) -> Run:
    """Run cases over a backend, each in a process of the backend's own.

    Parameters
    ----------
    backend : str
    cases : sequence of Case
    time_limit : float, optional
        In seconds, for one case.
    jobs : int, optional
        As many processes run cases, one after another each.
    done : callable, optional
        Called after each case, from any thread.

    Raises
    ------
    ArgumentError
        If the backend cannot be imported.
    """
    asked = cases_for(backend, cases)
    results: list[Result | None] = [None] * len(asked)
    todo = iter(enumerate(asked))
    turn = threading.Lock()
    stop = threading.Event()
    count = min(jobs, 1 + len(asked) // _LEAST)
    children = [BackendChild(backend, time_limit) for _ in range(count)]

    def work(child: BackendChild) -> None:
        with child:
            child.start()
            while not stop.is_set():
                with turn:
                    index, case = next(todo, (None, None))
                if index is None or case is None:
                    return
                outcome = child.run(case)
                if not stop.is_set():
                    results[index] = result_of(backend, case, outcome)
                    done()

    with ThreadPoolExecutor(len(children)) as pool:
        try:
            for future in [pool.submit(work, child) for child in children]:
                future.result()
        except BaseException:  # an interrupt too
            stop.set()
            for child in children:
                child.kill()
            raise
    found = [result for result in results if result is not None]
    assert len(found) == len(asked)
    return Run(backend, children[0].versions, found, len(cases) - len(asked))
