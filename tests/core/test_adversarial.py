"""Rows made to be rounded wrong, for every row of the table, type, layout and kernel.

A sample of what `make compare` compares.
"""

from __future__ import annotations

import numpy as np
import pytest

import adversarial
import signed_rows
from halfulp.reductions import Reduction
from oracle import (
    FLOATS,
    SMALL,
    TYPES,
    assert_reduced,
    expected_of,
    result_dtype,
    some_configurations,
)
from rows import by_row


@pytest.mark.parametrize("dtype", [*TYPES, *SMALL], ids=str)
@by_row
def test_hard_rows_in_every_layout(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> None:
    own = result_dtype(row, dtype)
    others = FLOATS if dtype in FLOATS else TYPES
    for into in (own, others[rng.integers(len(others))]):
        n = int(rng.choice([1, 2, 3, 8, 17, 33, 64, 65, 130]))
        for name, x in adversarial.rows_for(rng, row, dtype, into, 12, n):
            want = expected_of(row, x, 1, into)
            # Of all families, types and reductions together every layout many times.
            layouts = [*adversarial.layouts(rng, x)]
            for at in rng.choice(len(layouts), 5, replace=False):
                layout, same, axis, more = layouts[at]
                shape = shape_left(same, axis)
                try:
                    assert_reduced(
                        row,
                        want.reshape(shape),
                        same,
                        axis,
                        some_configurations(rng),
                        dtype=into,
                        **more,
                    )
                except AssertionError as error:
                    error.add_note(f"{name}, {n} elements, to {into}, {layout}")
                    raise


def shape_left(x: np.ndarray, axis: int | tuple[int, ...]) -> tuple[int, ...]:
    axes = (axis,) if isinstance(axis, int) else axis
    return tuple(n for i, n in enumerate(x.shape) if i not in axes)


@pytest.mark.parametrize(
    "family",
    [signed_rows.huge_pair_in_every_place, signed_rows.special_in_every_place],
    ids=lambda family: family.__name__,
)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@by_row
def test_what_is_hard_is_so_in_every_place(
    rng: np.random.Generator,
    row: Reduction,
    dtype: np.dtype,
    family: signed_rows.Family,
) -> None:
    # About as long as vectors of lanes, and as blocks.
    for n in (19, 67, int(rng.choice([129, 257]))):
        x = family(rng, dtype, n, n)
        want = expected_of(row, x, 1)
        assert_reduced(row, want, x, 1, some_configurations(rng))
        columns = np.ascontiguousarray(x.T)
        assert_reduced(row, want, columns, 0, some_configurations(rng))
