"""reduce_sum_square on the worked examples of the operator's documentation.

seed_examples.json of halfulp.records holds the sixteen examples that two documentation
sites show for version 18, as printed there: float32 in NumPy's shortest form, which
reads back exactly.
"""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

import halfulp
from halfulp.exact import exact, round_exact
from halfulp.records import load
from halfulp.reductions import REDUCTIONS, SUMS, Reduction
from oracle import FLOATS, assert_same_bits, expected

EXAMPLES = load("seed_examples")

# Computed by NumPy, which rounds each square and each sum: one ulp off in one element.
SHOWN_WRONG = {
    "test_reduce_sum_square_default_axes_keepdims_random",
    "test_reduce_sum_square_do_not_keepdims_random",
    "test_reduce_sum_square_keepdims_random",
    "test_reduce_sum_square_negative_axes_keepdims_random",
}


def _array(tensor: dict[str, Any]) -> np.ndarray:
    return np.array(tensor["values"], tensor["dtype"]).reshape(tensor["shape"])


def test_there_are_sixteen_examples() -> None:
    assert len({example["name"] for example in EXAMPLES}) == 16


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e["name"])
def test_documented_examples(example: dict[str, Any]) -> None:
    inputs = {name: _array(tensor) for name, tensor in example["inputs"].items()}
    attributes = example["attributes"]
    result = halfulp.reduce_sum_square(inputs["data"], inputs.get("axes"), **attributes)
    shown = _array(example["outputs"]["reduced"])
    if example["name"] not in SHOWN_WRONG:
        assert_same_bits(result, shown)
        return
    axes = inputs.get("axes")
    axis = None if axes is None else tuple(axes.tolist())
    right = expected(inputs["data"], axis, keepdims=bool(attributes["keepdims"]))
    assert_same_bits(result, right)
    assert np.count_nonzero(result != shown) == 1
    np.testing.assert_array_max_ulp(result, shown, maxulp=1)


def test_axes_are_a_sequence_or_an_int64_array() -> None:
    x = np.arange(6.0).reshape(1, 2, 3)
    want = expected(x, (0, 2), keepdims=True)
    for axes in (
        [0, 2],
        (0, -1),
        np.array([0, 2]),
        np.array([2, 0])[::-1],
        range(0, 3, 2),
    ):
        assert_same_bits(halfulp.reduce_sum_square(x, axes), want)
    for none in (None, [], (), np.zeros(0, np.int64)):
        assert_same_bits(halfulp.reduce_sum_square(x, none), expected(x, keepdims=True))
        squares = halfulp.reduce_sum_square(x, none, noop_with_empty_axes=1)
        assert_same_bits(squares, x * x)


def test_flags_are_integers_or_bools() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert halfulp.reduce_sum_square(x, [0], keepdims=True).shape == (1, 3)
    assert halfulp.reduce_sum_square(x, [0], keepdims=np.int64(0)).shape == (3,)


def test_the_result_of_rank_0_is_an_array() -> None:
    result = halfulp.reduce_sum_square(np.float32([3]), keepdims=0)
    assert type(result) is np.ndarray
    assert result.shape == ()


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(">f4")], ids=str)
@pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)
def test_2_an_element_that_is_a_reduction_of_itself_keeps_its_zero(
    row: Reduction, dtype: np.dtype
) -> None:
    reduce = getattr(halfulp, row.onnx_name)
    x = np.array([-0.0, 0.0, np.nan, -np.inf, -5, 0.25], dtype)
    with np.errstate(invalid="ignore"):
        alone = {"value": x, "magnitude": abs(x), "square": x * x}[row.term]
        alone = np.sqrt(alone) if row.finish == "root" else alone
        if row.of_one == "log":
            native = dtype.newbyteorder("=")
            alone = np.array([round_exact(exact(row, each), native) for each in x])
    want = alone.astype(dtype.newbyteorder("="))
    want[2] = np.nan
    for lazy in (x, da.from_array(x, chunks=4)) if row in SUMS else (x,):
        for axes in (None, [], np.zeros(0, np.int64)):
            got = reduce(lazy, axes, noop_with_empty_axes=1)
            assert_same_bits(np.asarray(got), want)
    assert_same_bits(reduce(x[0], noop_with_empty_axes=1), want[0])
    # A sum that is exactly zero is +0, also that of one element.
    if row.operation not in ("sum", "exponentials") or row.of_one == "log":
        return
    zero = np.zeros(1, dtype.newbyteorder("="))
    assert_same_bits(reduce(x[:1], [0]), zero)
    assert_same_bits(reduce(x[0]), zero[0])
