"""Compares two models by running both on made-up inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from onnx import ModelProto

from halfulp.errors import HalfulpError, ModelError
from halfulp.onnx.model.tensors import dtype_name
from halfulp.onnx.run.evaluate import ReferenceModel
from halfulp.onnx.run.made_up import KINDS, Declared, InputMaker
from halfulp.onnx.run.outputs import compare, pairs, same_bits, same_kind

# Each kind of values that many times, out of some more trials: random sizes or indices
# may not fit what the model does with them.
_RUNS = 2
_TRIALS = 10

_Feeds = dict[str, Any]


class Runnable(Declared, Protocol):
    """A model that an engine runs."""

    def run(self, inputs: Mapping[str, Any], /) -> dict[str, Any]:
        """Run it."""


class NotComparableError(ModelError):
    """Nothing could be compared: another engine may be able to."""


def compare_models(
    model: ModelProto,
    converted: ModelProto,
    *,
    exact: bool = True,
    engine: Callable[[ModelProto], Runnable] = ReferenceModel,
) -> dict[str, Any]:
    """Run two models on the same inputs, and compare all outputs bit for bit.

    Parameters
    ----------
    model, converted : onnx.ModelProto
    exact : bool
        False: bits may differ, types and shapes may not.
    engine : callable, optional
        Makes of a model what runs it, as `ReferenceModel`, the default, does.

    Returns
    -------
    dict
        ``runs``, a number; ``values``, the kinds of values fed; ``inputs``, by name
        the type and the shapes fed; ``outputs``, by name ``agree`` and ``of``,
        numbers of elements, where NaN agrees with NaN; and for floats
        ``greatest_difference``, relative to the largest magnitude of a run.

    Raises
    ------
    NotComparableError
        If nothing could be compared.
    ModelError
        If a result differs.
    """
    what = "the conversion cannot be verified"
    try:
        before, after = engine(model), engine(converted)
    except HalfulpError as error:
        raise NotComparableError(f"{what}: {error}") from error
    try:
        maker = InputMaker(model, before)
    except ModelError as error:
        raise ModelError(f"{what}: {error}") from error
    facts: dict[str, Any] = {"runs": 0, "values": [], "inputs": {}, "outputs": {}}
    failure = ""
    for kind in KINDS:
        done = 0
        for trial in range(_TRIALS):
            feeds, _ = maker.make(kind, trial)
            try:
                wanted = before.run(feeds)
            except HalfulpError as error:
                failure = str(error)
                continue
            try:
                got = after.run(feeds)
            except HalfulpError as error:
                raise ModelError(f"{what}: the converted model fails: {error}") from error
            _compare(got, wanted, before, feeds, exact, facts)
            _note_inputs(feeds, facts)
            done += 1
            if done == _RUNS:
                break
        if done:
            facts["runs"] += done
            facts["values"].append(kind)
    if not facts["runs"]:
        raise NotComparableError(
            f"{what}: the model takes none of the made-up inputs: {failure}"
        )
    return facts


def _note_inputs(feeds: _Feeds, facts: dict[str, Any]) -> None:
    for name, array in feeds.items():
        noted = facts["inputs"].setdefault(
            name, {"type": dtype_name(array.dtype), "shapes": []}
        )
        if list(array.shape) not in noted["shapes"]:
            noted["shapes"].append(list(array.shape))


def _compare(
    got: _Feeds,
    wanted: _Feeds,
    before: Runnable,
    feeds: _Feeds,
    exact: bool,
    facts: dict[str, Any],
) -> None:
    """Add to the facts about outputs what one run gave."""
    for name, value in wanted.items():
        noted = facts["outputs"].setdefault(name, {"agree": 0, "of": 0})
        if not same_kind(got[name], value):
            raise ModelError(
                f"the conversion changes the type or the shape of the output {name!r}"
            )
        both = list(pairs(got[name], value))
        for a, b in both:
            noted["agree"] += int(np.count_nonzero(same_bits(a, b)))
            noted["of"] += b.size
            difference = compare(a, b).get("greatest_difference")
            if difference is not None:
                known = noted.get("greatest_difference", difference)
                noted["greatest_difference"] = max(difference, known, key=float)
        if exact and not all(np.all(same_bits(a, b)) for a, b in both):
            again = list(pairs(before.run(feeds)[name], value))
            if not all(np.all(same_bits(a, b)) for a, b in again):
                raise ModelError(
                    "the conversion cannot be verified: the model itself gives other "
                    f"values of the output {name!r} each time"
                )
            raise ModelError(f"the conversion changes the output {name!r}")
