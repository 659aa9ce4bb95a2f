"""Sums of groups: each has the bits of its elements alone, in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import halfulp
import halfulp.groups
from adversarial import rows_for
from halfulp import _core
from halfulp.element_types import BY_NAME
from halfulp.groups import GroupSums
from halfulp.reductions import SUM, Reduction
from oracle import (
    SMALL,
    TYPES,
    assert_same_bits,
    bits,
    expected,
    expected_of,
    function_of,
    result_dtype,
)
from rows import by_row
from seed import SEED

ROWS = 5


def rng_of(*salt: object) -> np.random.Generator:
    return np.random.default_rng([SEED, *(sum(map(ord, str(each))) for each in salt)])


def apart(
    rng: np.random.Generator, rows: np.ndarray, order: str
) -> tuple[np.ndarray, np.ndarray]:
    """The elements of rows and the row of each, with some that are of none."""
    count, n = rows.shape
    others = rng.permutation(rows.reshape(-1))[: 2 * count]
    x = np.concatenate([rows.reshape(-1), others])
    codes = np.concatenate([np.repeat(np.arange(count), n), np.full(len(others), -1)])
    if order == "sorted":
        return x, codes
    some = rng.permutation(len(x)) if order == "shuffled" else np.arange(len(x))[::-1]
    return x[some], codes[some]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@by_row
def test_groups_of_hard_elements_are_correctly_rounded(
    row: Reduction, dtype: np.dtype
) -> None:
    rng = rng_of(row, dtype)
    into = result_dtype(row, dtype)
    for n in (2, 40):
        for name, rows in rows_for(rng, row, dtype, into, ROWS, n):
            want = expected_of(row, rows, 1)
            for order in ("sorted", "shuffled", "backwards"):
                x, codes = apart(rng, rows, order)
                got = function_of(row)(x, by=codes)
                assert bits(got).tolist() == bits(want).tolist(), (name, order)


@by_row
def test_ties_and_sums_of_two_need_no_second_pass(
    row: Reduction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two numbers the sum is often a tie; squares of 27 bits have none."""
    monkeypatch.setattr(_core, "add_groups_exactly", None)
    if row.finish == "root":
        return  # of which the root of an exact square is decided by its digits alone
    x = np.float64([1, 2.0**53, 3, 5, 0, -0.0, 2.0**53, 1 + 2.0**-52])
    if row.term == "square":
        x = np.sqrt(abs(x)).astype(np.float32).astype(np.float64)
    codes = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    want = np.stack([expected_of(row, x[codes == g]) for g in range(4)])
    assert_same_bits(function_of(row)(x, by=codes), want)


def test_many_open_groups_are_summed_again_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = rng_of("open")
    monkeypatch.setattr(halfulp.groups, "_EXACT_BYTES", 1)
    x = np.repeat(np.float64([1e300, 1e-300, -1e300]), 400)
    codes = np.tile(np.arange(400), 3)
    some = rng.permutation(len(x))
    assert_same_bits(halfulp.sum(x[some], by=codes[some]), np.full(400, 1e-300))


def test_codes_are_those_of_unique_factorize_and_of_any_integers() -> None:
    names = ["b", "a", None, "b", "c", "a"]
    x = np.float32([1, 2, 99, 4, 8, 16])
    codes, found = pd.factorize(np.array(names, object))
    assert codes[2] == -1
    assert dict(zip(found, halfulp.sum(x, by=codes).tolist(), strict=True)) == {
        "b": 5.0,
        "a": 18.0,
        "c": 8.0,
    }
    _, codes = np.unique([str(name) for name in names], return_inverse=True)
    want = halfulp.sum(x, by=codes)
    assert want.tolist() == [99.0, 18.0, 5.0, 8.0]
    for dtype in ("i1", "u1", ">i2", "<u4", ">i8", "u8"):
        assert_same_bits(halfulp.sum(x, by=codes.astype(dtype)), want)
    apart = np.repeat(codes, 2)[::2]
    for by in (codes.tolist(), apart, codes[::-1]):
        given = x[::-1] if by is not apart and not isinstance(by, list) else x
        assert_same_bits(halfulp.sum(given, by=by), want)


@by_row
def test_groups_without_elements_are_those_of_nothing(row: Reduction) -> None:
    reduce = function_of(row)
    nothing = expected_of(row, np.zeros(0, np.float32))
    got = reduce(np.float32([3, np.nan]), by=[1, -1], minlength=4)
    one = expected_of(row, np.float32([3]))
    assert_same_bits(got, np.stack([nothing, one, nothing, nothing]))
    assert_same_bits(reduce(np.float32([]), by=[], minlength=1), nothing.reshape(1))
    assert reduce(np.float32([]), by=np.zeros(0, int)).shape == (0,)
    assert reduce(np.float32([1]), by=[-1]).shape == (0,)
    assert reduce(np.zeros((3, 0)), axis=0, by=[0, 1, 1]).shape == (2, 0)
    integers = reduce(np.int64([7]), by=[1])
    assert_same_bits(integers[:1], expected_of(row, np.zeros((1, 0), np.int64), 1))


@pytest.mark.parametrize("axis", [0, 1, -1, (0,)], ids=str)
@by_row
def test_groups_stand_where_their_axis_was(row: Reduction, axis: Any) -> None:
    rng = rng_of(row, axis)
    place = axis if isinstance(axis, int) else axis[0]
    x = rng.standard_normal((7, 4, 5))
    codes = rng.integers(-1, 3, x.shape[place])
    for data in (x, np.asfortranarray(x), x[::-1, :, ::-1], x.astype(">f8")):
        want = [
            expected_of(row, np.compress(codes == g, data, axis=place), place)
            for g in range(3)
        ]
        got = function_of(row)(data, axis, by=codes, minlength=3)
        assert_same_bits(got, np.stack(want, axis=place))


@pytest.mark.parametrize("dtype", SMALL, ids=str)
@by_row
def test_small_integers_are_read_as_numbers(row: Reduction, dtype: np.dtype) -> None:
    x = np.frombuffer(bytes(range(240)), np.uint8).view(dtype)
    codes = np.arange(len(x)) % 7
    want = np.stack([expected_of(row, x[codes == g]) for g in range(7)])
    assert_same_bits(function_of(row)(x, by=codes), want)


@by_row
def test_where_dtype_and_out_mean_what_they_mean_without_groups(row: Reduction) -> None:
    rng = rng_of(row, "where")
    x = rng.standard_normal((50, 3)).astype(np.float32)
    where = rng.random((50, 3)) < 0.7
    codes = rng.integers(-1, 4, 50)
    reduce = function_of(row)
    out = np.full((4, 6), np.nan)[:, ::2]
    got = reduce(x, 0, by=codes, where=where, out=out, minlength=4)
    assert got is out
    for g in range(4):
        inside = codes == g
        want = expected_of(row, x[inside], 0, np.float64, where=where[inside])
        assert_same_bits(out[g], want)
    column = reduce(x, 0, by=codes, dtype="f8", where=where[:, :1], minlength=4)
    some = np.where(where[:, 0], codes, -1)
    assert_same_bits(column, reduce(x, 0, by=some, dtype="f8", minlength=4))


def test_integer_results_wrap_or_raise_with_their_place() -> None:
    x = np.array([[1, 2**62], [3, 2**62]], np.int64)
    assert halfulp.sum(x, 0, by=[1, 1]).tolist() == [[0, 0], [4, -(2**63)]]
    for axis, data, place in ((0, x, "[1, 1]"), (1, x.T, "[1, 1]")):
        with pytest.raises(
            halfulp.SumOverflowError, match=r"9223372036854775808"
        ) as told:
            halfulp.sum(data, axis, by=[1, 1], overflow="raise")
        assert place in str(told.value)
    assert_same_bits(halfulp.sum(x, 0, by=[0, 0], dtype="f8"), np.float64([[4, 2**63]]))
    assert_same_bits(
        halfulp.mean(x, 0, by=[0, 0]), expected(x, 0, "f8", True, "value", "mean")
    )


def test_more_elements_than_a_block_are_one_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    x = rng_of("blocks").standard_normal((300, 5))
    codes = np.arange(300) % 11
    want = halfulp.mean(x, 0, by=codes)
    monkeypatch.setattr(halfulp.groups, "_BLOCK", 16)
    assert_same_bits(halfulp.mean(x, 0, by=codes), want)
    assert_same_bits(halfulp.mean(x[::-1], 0, by=codes[::-1]), want)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": [0, 1]}, r"by has shape \(2,\); allowed: \(3,\)"),
        ({"by": [[0, 1, 2]]}, r"by has shape \(1, 3\)"),
        ({"by": [0, 1.5, 2]}, "by has dtype float64; allowed: integers"),
        ({"by": [True, False, True]}, "by has dtype bool; allowed: integers"),
        ({"by": [0, -2, -3]}, r"by has code -3 at \[2\]; allowed: -1 to"),
        ({"by": np.uint64([0, 2**63, 1])}, rf"by has code {2**63} at \[1\]"),
        ({"by": [0, 1, 2**61]}, "by makes 2305843009213693953 results; allowed"),
        ({"by": [0, 0, 0], "minlength": -1}, "minlength is -1; allowed: 0 and up"),
        ({"by": [0, 0, 0], "minlength": 1.5}, "minlength is 1.5"),
        ({"minlength": 3}, "minlength is given without by"),
        ({"by": [0, 0, 0], "keepdims": True}, "keepdims is given with by"),
        ({"by": [0, 0, 0], "axis": ()}, r"axis is \(\), so that by is along 0 axes"),
        ({"by": [0, 0, 0], "split_every": 2}, "by is given with split_every"),
        ({"by": [0, 0, 1], "out": np.zeros(3)}, r"out has shape \(3,\); allowed: \(2,\)"),
    ],
)
def test_bad_arguments_are_told_before_any_work(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(halfulp.HalfulpError, match=message):
        halfulp.sum(np.float64([1, 2, 3]), **arguments)


def test_groups_are_of_plain_arrays_and_of_sums_alone() -> None:
    for x in (pd.Series([1.0, 2.0]), np.ma.array([1.0, 2.0], mask=[0, 1])):
        with pytest.raises(halfulp.UnsupportedTypeError, match="by is given with a"):
            halfulp.sum(x, by=[0, 1])
    with pytest.raises(halfulp.ArgumentError, match="norm of ord inf; allowed: with 1"):
        halfulp.vector_norm([1.0, 2.0], ord=np.inf, by=[0, 1])
    with pytest.raises(halfulp.ArgumentError, match="by is along 2 axes of x"):
        halfulp.sum(np.ones((2, 2)), by=[0, 1])


@pytest.mark.parametrize("name", ["float", "int64", "uint64", "bfloat16"])
@by_row
def test_sums_that_grow_by_batches_are_those_of_all(row: Reduction, name: str) -> None:
    kind = BY_NAME[name]
    rng = rng_of(row, name)
    x = (100 * rng.random(90)).astype(kind.dtype)
    codes = np.sort(rng.integers(-1, 12, 90))
    sums = GroupSums(row.term, kind)
    for part in range(0, 90, 7):
        some = slice(part, part + 7)
        sums.update(x[some], codes[some], int(codes[: part + 7].max()) + 1)
    into = row.result_of(kind)
    assert_same_bits(sums.result(row.finish, into), function_of(row)(x, by=codes))
    assert sums.counts.tolist() == np.bincount(codes[codes >= 0]).tolist()


def test_the_core_writes_to_no_group_that_there_is_not() -> None:
    groups = np.zeros(8, np.uint64)
    x = np.ones(2)
    for codes in ([0, 2], [2**62, 0], [2**59, 2**59]):
        with pytest.raises(ValueError, match="no such group"):
            _core.add_groups(SUM.term, groups, x, np.array(codes))
    with pytest.raises(ValueError, match="do not fit"):
        _core.add_groups(SUM.term, groups, x, np.zeros(3, np.int64))
    size = _core.exact_group_size(SUM.term, BY_NAME["double"].code)
    sums = np.zeros(size, np.uint64)
    for codes in ([1, 0], [-1, 2**60]):
        with pytest.raises(ValueError, match="no such group"):
            _core.add_groups_exactly(SUM.term, sums, x, np.array(codes), None)
    places = np.array([1])
    with pytest.raises(ValueError, match="no such place"):
        _core.add_groups_exactly(SUM.term, sums, x, np.zeros(2, np.int64), places)
