"""Runs a backend in a process of its own, which may crash or hang.

May import errors, children, cases, outcomes and registry only; and onnx.
"""

from __future__ import annotations

from typing import Any

from onnx import TensorProto
from onnx.numpy_helper import from_array, to_array

from halfulp.children import Child, ChildEndedError
from halfulp.conformance.backends.outcomes import (
    Answer,
    Crashed,
    Hung,
    Outcome,
    Refused,
    one_line,
)
from halfulp.conformance.backends.registry import BACKENDS
from halfulp.conformance.cases.case import Case
from halfulp.errors import ArgumentError

# For importing a backend, in seconds.
_START_LIMIT = 120.0


class BackendChild:
    """A backend in a process, started when first asked and again after its end.

    Parameters
    ----------
    backend : str
    time_limit : float
        In seconds, for one case.
    """

    def __init__(self, backend: str, time_limit: float) -> None:
        self.versions: dict[str, str] = {}
        self._backend = backend
        self._limit = time_limit
        self._child: Child | None = None

    def __enter__(self) -> BackendChild:
        return self

    def __exit__(self, *error: object) -> None:
        if self._child is not None:
            self._child.end()

    def start(self) -> Child:
        """Start the process, unless it runs.

        Raises
        ------
        ArgumentError
            If the backend cannot be imported.
        """
        if self._child is not None:
            return self._child
        # What is not known by name may lie in the working folder; the rest must not.
        child = Child(
            "halfulp.conformance.backends.worker", safe=self._backend in BACKENDS
        )
        self._child = child
        try:
            facts, _ = child.ask(self._backend, limit=_START_LIMIT)
        except ChildEndedError as end:
            how = "in time" if end.hung else end
            raise ArgumentError(
                f"backend {self._backend!r} did not start: {how}"
            ) from None
        if "error" in facts:
            raise ArgumentError(facts["error"])
        self.versions = facts["versions"]
        return child

    def run(self, case: Case) -> Outcome:
        """Run a case."""
        child = self.start()
        model, feeds = case.model()
        tensors = [from_array(array).SerializeToString() for array in feeds.values()]
        contents = [model.SerializeToString(), *tensors]
        try:
            answer = child.ask(list(feeds), contents, self._limit)
        except ChildEndedError as end:
            self._child = None
            if end.hung:
                return Hung(f"no answer within {self._limit:g} s")
            return Crashed(one_line(str(end)))
        return _outcome(*answer)

    def kill(self) -> None:
        """End the process at once, from any thread; what it was asked ends as a crash."""
        child = self._child
        if child is not None:
            child.kill()


def _outcome(facts: dict[str, Any], contents: list[bytes]) -> Outcome:
    if "refused" in facts:
        return Refused(facts["refused"])
    if facts["outputs"] != 1:
        return Answer(facts["outputs"], "", (), None)
    arrays = [to_array(TensorProto.FromString(content)) for content in contents]
    return Answer(1, facts["type"], tuple(facts["shape"]), next(iter(arrays), None))
