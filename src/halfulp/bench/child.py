"""Starts the process that measures, and reads its answers.

May import errors, children and machine only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from halfulp.bench.machine import SLOWING_VARIABLES
from halfulp.children import Child, ChildEndedError
from halfulp.errors import HalfulpError

_BLAS_THREADS = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def answers(
    kind: str, jobs: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
) -> Iterator[Any]:
    """Yield the answer to each job, in order, from one fresh process.

    Parameters
    ----------
    kind : {"speed", "memory", "accuracy", "onnxruntime"}
    jobs : sequence of dict
    options : dict
        The same for all jobs.

    Raises
    ------
    HalfulpError
        If the process ends early: the job, and the last line that it printed.
    """
    with Child("halfulp.bench.worker", environment=environment(os.environ)) as child:
        for job in jobs:
            try:
                answer, _ = child.ask([kind, job, options])
            except ChildEndedError as end:
                where = " ".join(str(value) for value in job.values())
                raise HalfulpError(
                    f"the measuring process ended at '{where}' with {end}"
                ) from None
            yield answer


def environment(present: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for measuring, from the present one.

    BLAS has one thread, and no setting that would slow it down.
    """
    kept = {k: v for k, v in present.items() if k not in SLOWING_VARIABLES}
    return kept | dict.fromkeys(_BLAS_THREADS, "1")
