"""Starts the process that measures, and reads its answers.

May import errors, processes and machine only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from halfulp.bench.machine import SLOWING_VARIABLES
from halfulp.errors import HalfulpError
from halfulp.processes import ending

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
        If the process ends early: the job, and the last line of its stderr.
    """
    command = [sys.executable, "-P", "-m", "halfulp.bench.worker"]
    with (
        tempfile.TemporaryFile() as stderr,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(os.environ),
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            request = {"kind": kind, "jobs": list(jobs), "options": dict(options)}
            process.stdin.write(json.dumps(request).encode())
            process.stdin.close()
            for job in jobs:
                line = process.stdout.readline()
                if not line:
                    raise HalfulpError(_failure(job, process.wait(), stderr))
                yield json.loads(line)
        finally:
            process.kill()


def environment(present: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for measuring, from the present one.

    BLAS has one thread, and no setting that would slow it down.
    """
    kept = {k: v for k, v in present.items() if k not in SLOWING_VARIABLES}
    return kept | dict.fromkeys(_BLAS_THREADS, "1")


def _failure(job: Mapping[str, Any], code: int, stderr: IO[bytes]) -> str:
    where = " ".join(str(value) for value in job.values())
    return f"the measuring process ended at '{where}' with {ending(code, stderr)}"
