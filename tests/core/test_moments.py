"""Variances and deviations are the exact ones rounded once, of arrays and of moments."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import dask.array
import numpy as np
import pytest
import xarray

import adversarial
import halfulp
from halfulp import Moments
from halfulp.exact import round_exact
from oracle import (
    BFLOAT16,
    CONFIGURATIONS,
    FLOATS,
    SMALL,
    TYPES,
    assert_same_bits,
    configuration,
    some_configurations,
)

F2, F4, F8 = map(np.dtype, ("float16", "float32", "float64"))
PLACES = 1200  # of roots: further than those of half the least number of any type


def fractions(x: np.ndarray) -> list[Fraction] | None:
    """The elements; None if one is not finite."""
    if x.dtype.kind in "iub":
        return [Fraction(int(each)) for each in x]
    wide = x.astype(np.float64)
    return [*map(Fraction, wide.tolist())] if np.isfinite(wide).all() else None


def exact_spread(name: str, x: np.ndarray, ddof: int) -> Any:
    """The exact variance; of a deviation two fractions next to it, or it itself."""
    elements = fractions(x)
    n = len(x)
    if elements is None or n <= max(0, ddof):
        return math.nan
    mean = sum(elements, Fraction(0)) / n
    variance = sum(((e - mean) ** 2 for e in elements), Fraction(0)) / (n - ddof)
    if name == "var":
        return variance
    scaled, rest = divmod(variance.numerator << 2 * PLACES, variance.denominator)
    root = math.isqrt(scaled)
    below = Fraction(root, 1 << PLACES)
    if rest == 0 and root * root == scaled:
        return below
    return below, Fraction(root + 1, 1 << PLACES)


def expected(name: str, rows: np.ndarray, ddof: int, into: np.dtype) -> np.ndarray:
    """What each row should give."""
    found = [round_exact(exact_spread(name, row, ddof), into) for row in rows]
    return np.array(found, into)


def families(rng: np.random.Generator, n: int) -> Iterator[tuple[str, np.ndarray]]:
    """Rows of float64, each of another difficulty."""
    normal = rng.standard_normal((9, n))
    yield "normal", normal
    yield "far from 0", normal + 2.0 ** rng.integers(3, 30, (9, 1))
    yield "equal", np.repeat(rng.standard_normal((9, 1)), n, axis=1)
    one_off = np.full((9, n), 1000.0)
    one_off[:, rng.integers(n)] += rng.choice([2.0**-40, 2.0**-8, 1], 9)
    yield "one apart", one_off
    yield "small integers", rng.integers(-5, 6, (9, n)).astype(float)
    yield "of all sizes", normal * 2.0 ** rng.integers(-60, 60, (9, n))
    yield "huge", normal * 2.0**1010
    yield "tiny", normal * 2.0**-1060
    two = np.where(rng.random((9, n)) < 0.5, 1.0, 1 + 2.0**-11)
    yield "two neighbours", two
    special = normal.copy()
    at = (np.arange(9), rng.integers(n, size=9))
    special[at] = rng.choice([np.nan, np.inf, -np.inf, -0.0], 9)
    yield "not finite", special


FUNCTIONS: dict[str, Callable[..., Any]] = {"var": halfulp.var, "std": halfulp.std}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [*FLOATS], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 17, 64, 130, 700])
def test_floats_are_rounded_once_in_every_layout(
    rng: np.random.Generator, name: str, dtype: np.dtype, n: int
) -> None:
    for family, values in families(rng, n):
        with np.errstate(all="ignore"):
            x = values.astype(dtype)
        into, ddof = FLOATS[rng.integers(4)], int(rng.choice([0, 0, 1, 2, -3]))
        want = expected(name, x, ddof, into)
        layouts = [*adversarial.layouts(rng, x)]
        for at in rng.choice(len(layouts), 4, replace=False):
            layout, same, axis, more = layouts[at]
            for target, threads in some_configurations(rng):
                with configuration(target, threads):
                    got = FUNCTIONS[name](same, axis, dtype=into, ddof=ddof, **more)
                try:
                    assert_same_bits(np.ravel(got), want)
                except AssertionError as error:
                    error.add_note(f"{family}, {layout}, to {into}, ddof {ddof}")
                    error.add_note(f"kernels: {target}, threads: {threads}")
                    raise


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [*TYPES[4:], *SMALL], ids=str)
def test_integers_are_rounded_once(
    rng: np.random.Generator, name: str, dtype: np.dtype
) -> None:
    kind = np.iinfo(dtype) if dtype.kind in "iu" else None
    least, most = (kind.min, kind.max) if kind else (0, 1)
    for n, of_all_sizes in itertools.product((1, 2, 16, 70, 3000), (False, True)):
        ends = (least, most) if of_all_sizes else (max(least, -3), min(most, 5))
        x = rng.integers(*ends, (7, n), np.int64 if dtype.kind == "b" else dtype, True)
        x = x.astype(dtype)
        if of_all_sizes:
            x[0], x[1, ::2] = most, least
        for into, ddof in ((F8, 0), (FLOATS[rng.integers(4)], 1)):
            want = expected(name, x, ddof, into)
            for target, threads in some_configurations(rng):
                with configuration(target, threads):
                    for same, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
                        got = FUNCTIONS[name](same, axis, dtype=into, ddof=ddof)
                        assert_same_bits(got, want)


@pytest.mark.parametrize("into", FLOATS, ids=str)
def test_variances_between_two_numbers_go_to_even(into: np.dtype) -> None:
    # Of m - d and m + d the variance is d^2, and of so many times each.
    precision = {BFLOAT16: 8, F2: 11, F4: 24, F8: 53}[into]
    first = math.isqrt(2**precision) + 1 | 1
    for d in range(first, first + 40, 2):
        # Odd, and of one bit more than a number of the result has.
        assert (d * d).bit_length() == precision + 1 or precision < 24
        want = round_exact(Fraction(d * d), into)
        for m, n in ((0, 1), (2**20, 9), (-3, 300)):
            x = np.repeat([float(m - d), float(m + d)], n)
            assert_same_bits(halfulp.var(x, dtype=into), want)
            assert_same_bits(halfulp.var(x[:, None], 0, dtype=into)[0], want)


@pytest.mark.parametrize(
    ("name", "into", "distance"),
    [("var", F4, 4097), ("var", F8, 94906267), ("std", F2, 2049), ("std", F4, 2**24 + 1)],
)
def test_what_lies_next_to_the_middle_of_two_numbers_is_above_it(
    rng: np.random.Generator, name: str, into: np.dtype, distance: int
) -> None:
    # Sums of squares that need more than 106 bits, and leave of these 2^-50 and less
    # above a midpoint: two elements of opposite rests of 2^-12.
    for _ in range(15):
        d, n = distance + 2 * int(rng.integers(4)), int(rng.integers(2, 200))
        m = int(rng.integers(2**39, 2**40))
        x = np.repeat(np.float64([m - d, m + d]), n)
        x[0] += 2.0**-12
        x[1] -= 2.0**-12
        want = round_exact(exact_spread(name, x, 0), into)
        assert_same_bits(FUNCTIONS[name](x, dtype=into), want)
        assert_same_bits(FUNCTIONS[name](x[:, None], 0, dtype=into)[0], want)


@pytest.mark.parametrize(("into", "a"), [(F4, 4097), (F8, 94906267)])
def test_the_least_square_counts(into: np.dtype, a: int) -> None:
    # Of a, a, t and -t the variance is a^2 / 4, a midpoint, and t^2 / 2.
    for t in (0.0, 2.0**-100, 2.0**-300, 2.0**-1074):
        x = np.float64([a, a, t, -t])
        want = round_exact(exact_spread("var", x, 0), into)
        assert_same_bits(halfulp.var(x, dtype=into), want)
        assert_same_bits(halfulp.var(x[:, None], 0, dtype=into)[0], want)
        assert (want > a * a / 4) == (t > 0) or into == F8


@pytest.mark.parametrize("dtype", FLOATS[1:], ids=str)
def test_deviations_between_two_numbers_go_to_even(dtype: np.dtype) -> None:
    # Of m - d and m + d it is d itself, here the middle of two numbers of the result.
    less = {F2: BFLOAT16, F4: F2, F8: F4}[dtype]
    precision = {BFLOAT16: 8, F2: 11, F4: 24}[less]
    for d in (2**precision + 1, 2**precision + 3):
        for n in (1, 40, 2000):
            scale = 2.0 ** -(precision - 3)
            x = np.repeat(np.array([-d, d]) * scale, n).astype(dtype)
            assert fractions(x[:1]) == [Fraction(-d) * Fraction(scale)]
            want = round_exact(Fraction(d) * Fraction(scale), less)
            assert_same_bits(halfulp.std(x, dtype=less), want)
            assert_same_bits(halfulp.std(x[:, None], 0, dtype=less)[0], want)


def test_what_numpy_gives_where_it_rounds_nothing(rng: np.random.Generator) -> None:
    x = rng.integers(-8, 9, (4, 8, 16)).astype(np.float64)
    for axis, keepdims, ddof in itertools.product(
        (None, 0, -1, (0, 2), ()), (False, True), (0, 1)
    ):
        arguments: Any = {"axis": axis, "keepdims": keepdims, "ddof": ddof}
        with warnings.catch_warnings(action="ignore"):
            want = np.var(x, **arguments)
        got = halfulp.var(x, **arguments)
        assert type(got) is type(want)
        assert np.shape(got) == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=1e-14)
    out = np.empty(8, np.float32)
    assert halfulp.std(x, (0, 2), out=out) is out
    assert_same_bits(out, halfulp.std(x, (0, 2), dtype="f4"))
    assert halfulp.var([]) is not None
    assert np.isnan(halfulp.var(np.empty((0, 3)), 0)).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ddof": 1.5}, "ddof is 1.5; allowed: an integer of at most"),
        ({"ddof": True}, "ddof is True"),
        ({"ddof": 2**53 + 1}, "ddof is 9007199254740993"),
        ({"dtype": "i8"}, "allowed"),
        ({"out": np.zeros((), "i4")}, "out has dtype int32"),
        ({"out": np.zeros(3)}, "out has shape"),
        ({"where": [1, 0, 1, 0]}, "where"),
        ({"axis": 4}, "axis|axes"),
    ],
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bad_arguments_are_one_error(
    name: str, arguments: dict[str, Any], message: str
) -> None:
    for x in (np.arange(4), np.arange(4.0)):
        with pytest.raises(halfulp.HalfulpError, match=message):
            FUNCTIONS[name](x, **arguments)


def test_an_integer_dtype_is_refused_of_integers_too() -> None:
    with pytest.raises(halfulp.UnsupportedTypeError, match=r"of var; allowed: float"):
        halfulp.var(np.arange(4), dtype="i8")


def test_masked_arrays_have_the_masks_of_numpy(rng: np.random.Generator) -> None:
    for ddof in (0, 1, 2):
        x = np.ma.MaskedArray(rng.standard_normal((5, 30)), rng.random((5, 30)) < 0.8)
        x[:, 0] = np.ma.masked
        got, want = halfulp.var(x, 0, ddof=ddof), np.ma.var(x, 0, ddof=ddof)
        assert (np.ma.getmaskarray(got) == np.ma.getmaskarray(want)).all()
        assert np.ma.allclose(got, want, rtol=1e-13, atol=0)


@pytest.mark.parametrize("dtype", [*TYPES, *SMALL], ids=str)
def test_dask_arrays_of_any_chunks_give_the_same_bits(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    x = rng.integers(0, 2 if dtype.kind == "b" else 100, (60, 7)).astype(dtype)
    for chunks, axis in (((7, 3), 0), ((60, 1), 1), ((11, 7), None)):
        lazy = dask.array.from_array(x, chunks)
        for function in FUNCTIONS.values():
            want = function(x, axis, ddof=1)
            got = function(lazy, axis, ddof=1)
            assert isinstance(got, dask.array.Array)
            assert_same_bits(got.compute(scheduler="synchronous"), want)


def test_labels_stay() -> None:
    x = xarray.DataArray(np.arange(6.0).reshape(2, 3), dims=("a", "b"))
    got = halfulp.std(x, 0)
    assert got.dims == ("b",)
    assert (got.values == 1.5).all()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_moments_of_parts_in_any_order_are_those_of_all(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    with np.errstate(all="ignore"):
        x = rng.standard_normal((90, 5)) * 50
        x = (abs(x) if dtype.kind == "u" else x).astype(dtype)
    whole = Moments(dtype, 5).update(x, 0)
    parts = [Moments(dtype, 5).update(part, 0) for part in np.array_split(x, 7)]
    shuffled = [parts[i] for i in rng.permutation(7)]
    merged = sum(shuffled[:3]) + sum(shuffled[3:])
    assert merged == whole
    assert merged.to_bytes() == whole.to_bytes()
    assert whole.count == 90
    for ddof in (0, 1, 90):
        assert_same_bits(merged.var(ddof=ddof), halfulp.var(x, 0, ddof=ddof))
        assert_same_bits(merged.std(ddof=ddof), halfulp.std(x, 0, ddof=ddof))
    assert_same_bits(merged.mean(), halfulp.mean(x, 0))
    assert_same_bits(merged.sum(), halfulp.sum(x, 0))
    assert_same_bits(merged.norm(), halfulp.vector_norm(x, 0))
    assert_same_bits(merged.var("f2"), halfulp.var(x, 0, dtype="f2"))
    rms = [exact_rms(column) for column in x.T]
    into = dtype if dtype in FLOATS else F8
    assert_same_bits(merged.rms(), np.array([round_exact(r, into) for r in rms]))
    assert merged.values == halfulp.ExactSum(dtype, 5).update(x, 0)
    assert merged.squares == halfulp.ExactSum(dtype, 5, term="square").update(x, 0)


def exact_rms(x: np.ndarray) -> Any:
    elements = fractions(x)
    assert elements is not None
    square = sum((e * e for e in elements), Fraction(0)) / len(x)
    scaled = (square.numerator << 2 * PLACES) // square.denominator
    root = math.isqrt(scaled)
    return Fraction(root, 1 << PLACES), Fraction(root + 1, 1 << PLACES)


def test_moments_of_what_is_not_finite() -> None:
    for values, rms in (([1, np.inf], np.inf), ([np.nan, 1], np.nan), ([], np.nan)):
        moments = Moments("float").update(np.array(values, np.float32))
        assert np.isnan(moments.var())
        assert_same_bits(moments.rms(), np.float32(rms))
    # The norm overflows, the mean square root of the squares does not.
    huge = Moments("double").update(np.full(100, 1.5e308))
    assert (huge.norm(), huge.rms(), huge.std()) == (np.inf, 1.5e308, 0)


def test_moments_serialize_and_copy(rng: np.random.Generator) -> None:
    moments = Moments("float", (2, 3)).update(rng.random((4, 2, 3), np.float32), 0)
    again = [
        Moments.from_bytes(moments.to_bytes()),
        pickle.loads(pickle.dumps(moments)),
        copy.copy(moments),
        copy.deepcopy(moments),
        0 + moments,
    ]
    for other in again:
        assert other == moments
        other.update(np.ones((1, 2, 3), np.float32), 0)
        assert other != moments
    assert repr(moments) == "<Moments: float, shape (2, 3), count 4>"
    assert moments.nbytes == moments.values.nbytes + moments.squares.nbytes


def test_damaged_moments_are_refused(rng: np.random.Generator) -> None:
    one, other = Moments("float", 2), Moments("float", 2)
    one.update(np.ones((3, 2), np.float32), 0)
    other.update(np.ones((2, 2), np.float32), 0)
    data = one.to_bytes()
    for i in range(len(data)):
        damaged = bytearray(data)
        damaged[i] ^= 1 << int(rng.integers(8))
        with pytest.raises(halfulp.ArgumentError):
            Moments.from_bytes(damaged)
    for bad in (b"", data[:-1], data + b"\0", data[:20], 3, [1], one.values.to_bytes()):
        with pytest.raises(halfulp.ArgumentError):
            Moments.from_bytes(bad)
    # Sums of a different number of elements, whole each.
    split = 16 + int.from_bytes(data[8:16], "little")
    with pytest.raises(halfulp.ArgumentError, match="of one type, shape and count"):
        Moments.from_bytes(data[:split] + other.to_bytes()[split:])


def test_moments_that_do_not_fit_do_not_merge() -> None:
    moments = Moments("float", 2)
    for other in (Moments("double", 2), Moments("float", 3), moments.values, 1):
        with pytest.raises(halfulp.ArgumentError, match=r"allowed|other"):
            moments.merge(other)  # type: ignore[arg-type]
    with pytest.raises(halfulp.HalfulpError):
        moments.update(np.ones((2, 3), np.float32), 0)
    full = Moments("uint64").update(np.full(6, 2**63, np.uint64))
    with pytest.raises(halfulp.SumOverflowError, match=r"2\*\*127"):
        full.var()
    with pytest.raises(halfulp.UnsupportedTypeError):
        moments.std("i4")


def test_one_change_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = Moments("float")
    with (
        moments._change(),
        pytest.raises(halfulp.ArgumentError, match="being changed by another call"),
    ):
        moments.update(np.ones(3, np.float32))
    # What is interrupted between the two sums leaves both as they were.
    moments.update(np.ones(3, np.float32))
    before = moments.to_bytes()
    update = halfulp.ExactSum.update

    def interrupted(sums: halfulp.ExactSum, *arguments: Any) -> halfulp.ExactSum:
        if sums.term == "square":
            raise KeyboardInterrupt
        return update(sums, *arguments)

    monkeypatch.setattr(halfulp.ExactSum, "update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        moments.update(np.ones(3, np.float32))
    assert moments.to_bytes() == before
    monkeypatch.undo()
    assert moments.update(np.ones(3, np.float32)).count == 6


def test_threads_that_update_lose_nothing() -> None:
    moments = Moments("float")
    added = []

    def add() -> None:
        for _ in range(300):
            try:
                moments.update(np.ones(5, np.float32))
                added.append(5)
            except halfulp.ArgumentError:
                continue

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert moments.count == sum(added) == moments.sum()


def test_every_number_of_threads_gives_the_same_bits(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 50_000)).astype(np.float32) + 100
    want = expected("std", x, 0, F4)
    for target, threads in CONFIGURATIONS:
        with configuration(target, threads):
            assert_same_bits(halfulp.std(x, 1), want)
            assert_same_bits(halfulp.std(x.T, 0), want)
            assert_same_bits(halfulp.std(x[0]), want[0])
