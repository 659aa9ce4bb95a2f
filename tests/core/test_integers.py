"""Small integers are taken as they are; sums of integers are rounded once to floats."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import halfulp
from adversarial import border_integers
from halfulp.exact import FINISHES, TERMS, round_exact
from halfulp.reductions import (
    L1,
    L2,
    MEAN,
    SUM,
    SUM_SQUARE,
    SUMS,
    Reduction,
)
from oracle import (
    FLOATS,
    INTEGERS,
    SMALL,
    TYPES,
    assert_reduced,
    assert_same_bits,
    exact_function_of,
    expected_of,
    function_of,
    some_configurations,
)
from rows import by_row

ALL = SMALL + INTEGERS
by_small = pytest.mark.parametrize("dtype", SMALL, ids=str)
by_float = pytest.mark.parametrize("target", FLOATS, ids=str)


def values(
    rng: np.random.Generator, dtype: np.dtype, shape: int | tuple[int, ...]
) -> np.ndarray:
    """Values of all of the type."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


@by_small
@by_row
def test_every_value_is_reduced_exactly(row: Reduction, dtype: np.dtype) -> None:
    every = np.arange(2 ** (8 * dtype.itemsize if dtype.kind != "b" else 1))
    x = every.astype(f"u{dtype.itemsize}").view(dtype)
    of_each = {"square": np.square, "magnitude": np.abs, "value": np.positive}
    terms = of_each[row.term](x.astype(np.int64))
    alone = np.sqrt(terms) if row.finish == "root" else terms
    assert_reduced(row, alone.astype(function_of(row)(x).dtype), x, ())
    total = FINISHES[row.finish](int(terms.sum()), len(x))
    assert exact_function_of(row)(x) == total
    assert_same_bits(function_of(row)(x, dtype="f8"), round_exact(total, "f8"))


@by_small
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((70_000,), None),
        ((3, 4097), 1),
        ((4097, 3), 0),
        ((5000, 7), 1),
        ((40, 300), 0),
        ((7, 5000), 0),
        ((6, 5, 300), (0, 2)),
    ],
    ids=str,
)
def test_small_integers_of_every_layout_and_byte_order(
    rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...], axis: Any
) -> None:
    x = values(rng, dtype, shape)
    # Two rows of the table, by chance; all of them in test_adversarial.py.
    rows = [SUMS[i] for i in rng.choice(len(SUMS), 2, replace=False)]
    wants = [(row, expected_of(row, x, axis)) for row in rows]
    memory = np.empty(x.nbytes + 1, np.uint8)
    unaligned = memory[1:].view(dtype).reshape(shape)
    unaligned[...] = x
    for same in (
        x,
        np.asfortranarray(x),
        x.astype(dtype.newbyteorder()),
        np.repeat(x, 4, axis=-1)[..., ::4],
        np.ascontiguousarray(x[::-1])[::-1],
        unaligned,
    ):
        for row, want in wants:
            assert_reduced(row, want, same, axis, some_configurations(rng))


def test_any_byte_but_0_of_a_bool_is_true() -> None:
    x = np.array([0, 1, 2, 128, 255], np.uint8).view(bool)
    for row, want in ((SUM_SQUARE, 4), (SUM, 4), (MEAN, 0.8), (L1, 4), (L2, 2)):
        assert function_of(row)(x) == want
        assert function_of(row)(x, ()).tolist() == [0, 1, 1, 1, 1]


@by_small
@pytest.mark.parametrize("target", INTEGERS, ids=lambda t: f"to_{t}")
@by_row
def test_small_integers_go_to_any_integer_type(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype, target: np.dtype
) -> None:
    x = values(rng, dtype, (5, 1000))
    want = expected_of(row, x, 1, target)
    reduce = function_of(row)
    assert_reduced(row, want, x, 1, some_configurations(rng), dtype=target)
    out = np.empty(5, target)
    assert_same_bits(reduce(x, 1, out=out), want)
    low, high = int(np.iinfo(target).min), int(np.iinfo(target).max)
    exact = [
        int(total[0] if isinstance(total, tuple) else total)
        for total in exact_function_of(row)(x, 1).tolist()
    ]
    if all(low <= total <= high for total in exact):
        assert_same_bits(reduce(x, 1, dtype=target, overflow="raise"), want)
    else:
        with pytest.raises(
            halfulp.SumOverflowError, match=rf"\[\d\] is .*; {target} cann"
        ):
            reduce(x, 1, dtype=target, overflow="raise")


@by_float
@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((33,), None), ((5, 300), 1), ((300, 5), 0), ((7, 3), ())],
    ids=str,
)
def test_results_of_integers_are_rounded_once_to_floats(
    rng: np.random.Generator,
    dtype: np.dtype,
    shape: tuple[int, ...],
    axis: Any,
    target: np.dtype,
) -> None:
    x = values(rng, dtype, shape)
    for row in SUMS:
        reduce, some = function_of(row), some_configurations(rng)
        want = expected_of(row, x, axis, target)
        assert_reduced(row, want, x, axis, some, dtype=target)
        assert_same_bits(reduce(np.asfortranarray(x), axis, dtype=target), want)
        swapped = x.astype(dtype.newbyteorder())
        assert_same_bits(reduce(swapped, axis, dtype=target), want)
        out = np.empty(want.shape, target)
        assert_same_bits(reduce(x, axis, out=out, overflow="raise"), want)
    want = expected_of(SUM_SQUARE, x, axis, target)
    if dtype in INTEGERS and dtype.itemsize == 4:
        state = halfulp.SumSquare(dtype, want.shape).update(x, axis)
        assert_same_bits(state.result(target), want)


def squares_that_sum_to(total: int, largest: int) -> list[int]:
    """Numbers up to `largest` whose squares have this sum."""
    roots = []
    while total:
        root = min(int(total**0.5) + 1, largest)
        while root**2 > total:
            root -= 1
        roots.append(root)
        total -= root**2
    return roots


@by_float
@pytest.mark.parametrize(
    "dtype", ["int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_ties_and_their_neighbours(dtype: str, target: np.dtype) -> None:
    precision = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}[target.name]
    for low in (2 ** (precision - 1), 2**precision - 1, 2 ** (precision - 1) + 5):
        middle = 2 * low + 1  # between two numbers of the type
        for scale in {1, 2**6, 2**40} if dtype[-2:] == "64" else {1}:
            for near in (-1, 0, 1):
                total = middle * scale**2 + near
                largest = int(np.iinfo(dtype).max)
                if total > 10**4 * largest**2:
                    continue
                roots = squares_that_sum_to(total, largest)
                got = halfulp.sum_square(np.array(roots, dtype), dtype=target)
                assert_same_bits(got, round_exact(Fraction(total), target))


@by_float
def test_sums_above_every_integer_type_are_rounded_too(target: np.dtype) -> None:
    for dtype, value, counts in (
        ("int32", -(2**31), (3, 4, 5)),  # around 2^64
        ("uint32", 2**32 - 1, (1, 2, 3)),
        ("int64", -(2**63), (1, 2, 3, 5)),  # around 2^127 and 2^128
        ("uint64", 2**64 - 1, (1, 2, 3, 70)),
    ):
        for count in counts:
            x = np.full(count, value, dtype)
            wide = np.broadcast_to(x[:, None], (count, 5))
            for row in SUMS:
                total = count * TERMS[row.term][0](value)
                want = round_exact(FINISHES[row.finish](total, count), target)
                assert_reduced(row, want, x, dtype=target)
                assert_reduced(row, np.full(5, want), wide, 0, dtype=target)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@by_row
def test_numbers_at_the_borders_of_types(
    rng: np.random.Generator, row: Reduction, dtype: np.dtype
) -> None:
    """The least int64, which has no opposite; roots of sums above 2^64, and the like."""
    for n in (1, 2, 3, 4, 5, 100):
        x = border_integers(rng, dtype, 30, n)
        for target in TYPES:
            want = expected_of(row, x, 1, target)
            some = some_configurations(rng)
            assert_reduced(row, want, x, 1, some, dtype=target)
            columns = np.ascontiguousarray(x.T)
            assert_reduced(row, want, columns, 0, some, dtype=target)


def test_what_numpy_gets_wrong_of_integers() -> None:
    least, most = np.full(2, -(2**63)), np.full(3, 2**64 - 1, np.uint64)
    assert halfulp.mean(least) == -(2.0**63)
    assert halfulp.mean(most, dtype="u8") == 2**64 - 1
    assert halfulp.vector_norm(least[:1], ord=1) == 2.0**63
    assert halfulp.vector_norm(least, ord=1, dtype="u8") == 0  # modulo 2^64
    assert halfulp.sum(least, dtype="f8") == -(2.0**64)
    assert halfulp.vector_norm(most[:1], dtype="u8") == 2**64 - 1
    assert halfulp.mean(np.full(2, 2**53 + 1), dtype="i8") == 2**53 + 1
    assert halfulp.mean(np.int64([-3, 0]), dtype="i8") == -1


def test_overflow_to_infinity_begins_at_the_threshold() -> None:
    for total, want in ((65519, 65504), (65520, np.inf), (65536, np.inf)):
        for dtype in ("uint8", "int16", "int32", "uint64"):
            largest = int(np.iinfo(dtype).max)
            x = np.array(squares_that_sum_to(total, largest), dtype)
            result = halfulp.sum_square(x, dtype=np.float16, overflow="raise")
            assert_same_bits(result, np.float16(want))


def test_a_state_beyond_2_to_the_127_has_no_float() -> None:
    state = halfulp.SumSquare("int64", 2).update(np.int64([[3], [-(2**63)]]), 1)
    assert state.result("float32").tolist() == [9.0, 2.0**126]
    state.update(np.int64([[4], [-(2**63)]]), 1)
    with pytest.raises(
        halfulp.SumOverflowError,
        match=r"of output \[1\] is 2\*\*127 or more; allowed for float32: bel",
    ):
        state.result("float32")
    assert state.result().tolist() == [25, 0]


def test_dask_arrays_of_small_integers(rng: np.random.Generator) -> None:
    da = pytest.importorskip("dask.array")
    for dtype in SMALL:
        x = values(rng, dtype, (30, 7))
        for chunks in ((7, 3), (30, 7)):
            for i, target in enumerate((None, "uint32", "float16", "float64", "int32")):
                row = SUMS[i]
                lazy = function_of(row)(da.from_array(x, chunks=chunks), 0, dtype=target)
                want = expected_of(row, x, 0, target)
                assert lazy.dtype == want.dtype
                assert_same_bits(lazy.compute(scheduler="sync"), want)


def test_labels_of_small_integers() -> None:
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame({"a": [True, False], "b": [True, True]})
    assert halfulp.sum_square(x, 0).to_dict() == {"a": 1, "b": 2}
