"""Products are the exact ones, rounded once, whatever leaves the range on the way.

The oracle is `halfulp.exact_prod`, in Python's integers; MPFR is a second one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import xarray

import halfulp
from halfulp import _core
from halfulp.errors import SumOverflowError
from halfulp.exact import round_exact
from halfulp.reductions import PROD
from oracle import (
    CONFIGURATIONS,
    FLOATS,
    INTEGERS,
    PRECISION,
    SMALL,
    TYPES,
    assert_reduced,
    assert_same_bits,
    from_bits,
    result_dtype,
    some_configurations,
)


def expected(x: np.ndarray, axis: Any = None, dtype: Any = None, **more: Any) -> Any:
    """The right products by the oracle, by default of the dtype that NumPy gives."""
    native = x.dtype.newbyteorder("=")
    dtype = np.dtype(dtype or (native if native in FLOATS else np.prod(x[:0]).dtype))
    values = np.asarray(halfulp.exact_prod(x, axis, **more), object)
    rounded = np.empty(values.shape, dtype)
    for place in np.ndindex(values.shape):
        rounded[place] = round_exact(values[place], dtype)
    return rounded[()]


def assert_product(x: np.ndarray, axis: Any = None, **arguments: Any) -> None:
    assert_reduced(PROD, expected(x, axis), x, axis, **arguments)


Maker = Callable[[np.random.Generator, np.dtype, int], np.ndarray]


def any_bits(rng: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    """Finite ones: else nearly all would be NaN."""
    x = from_bits(rng.integers(0, 2 ** (8 * dtype.itemsize), n, np.uint64), dtype)
    with np.errstate(invalid="ignore"):  # of signaling NaN
        return np.where(np.isfinite(x.astype(np.float64)), x, dtype.type(1))


def near_one(rng: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    steps = rng.integers(-3, 4, n) * 2.0 ** (1 - PRECISION[dtype.name])
    return (1 + steps).astype(dtype)


def whole(rng: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    return rng.integers(1, 18, n).astype(dtype)


def of_few_bits(rng: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    """Powers of two, but a few: as a rule a tie, or a number of the type."""
    x = 2.0 ** rng.integers(-3, 4, n)
    few = rng.integers(0, n, 3)
    x[few] *= rng.integers(1, 2 ** rng.integers(1, PRECISION[dtype.name] // 2 + 2), 3)
    return x.astype(dtype)


def spread(rng: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    """As far as the type goes; products near 1, though what comes first leaves it."""
    half = n // 2
    most = ml_dtypes.finfo(dtype).maxexp - 3
    x = rng.uniform(1, 2, n) * 2.0 ** np.append(
        np.full(half, most), np.full(n - half, -most)
    )
    return x.astype(dtype)


def signed(rng: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    return rng.standard_normal(n).astype(dtype)


MAKERS: list[Maker] = [any_bits, near_one, whole, of_few_bits, spread, signed]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_products_of_floats_are_rounded_once(
    rng: np.random.Generator, dtype: np.dtype, make: Maker
) -> None:
    for n in (1, 2, 3, 7, 31, 64, 257, 1500):
        x = make(rng, dtype, 11 * n).reshape(11, n)
        some = some_configurations(rng)
        assert_product(x, 1, configurations=some)
        assert_product(np.asarray(x.T, order="C"), 0, configurations=some)
        assert_product(x[:, ::-3], 1, configurations=some)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_any_layout_and_byte_order_gives_the_same(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    x = signed(rng, dtype, 5 * 6 * 70 * 3).reshape(5, 6, 70, 3)
    for axis in [(0,), (1, 2), (0, 2), (2,), (3,), (0, 1, 2), (), None, (1, 3)]:
        assert_product(x, axis, configurations=some_configurations(rng))
    swapped = x.astype(x.dtype.newbyteorder()) if dtype.name != "bfloat16" else x
    got = halfulp.prod(swapped[::-1, :, ::2], (0, 2))
    assert_same_bits(got, expected(x[::-1, :, ::2], (0, 2)))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_long_products_are_joined_from_parts(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    x = near_one(rng, dtype, 6_000)
    for shape in [(6_000,), (3_000, 2), (100, 60), (2, 3_000)]:
        assert_product(x.reshape(shape), 0)


def test_what_leaves_the_range_comes_back() -> None:
    for dtype in FLOATS:
        info = ml_dtypes.finfo(dtype)
        for power in (info.smallest_subnormal, info.smallest_normal):
            small = np.array(power, dtype)
            large = np.array(1 / np.float64(info.smallest_normal), dtype)
            x = np.array([small] * 5 + [large] * 5)
            assert_product(x)
            assert_product(x[::-1])
    assert halfulp.prod(np.float32([1e-30, 1e-30, 1e30, 1e30])) == 1
    x = np.float64([1e-308, 1e-308, 1e308, 1e308])
    assert halfulp.prod(x) == halfulp.prod(x[::-1]) == 0.9999999999999999


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_both_ends_of_the_range_are_exact(dtype: np.dtype) -> None:
    info = ml_dtypes.finfo(dtype)
    least, most = np.array(info.smallest_subnormal), np.array(info.max)
    ulp = 2.0 ** (1 - PRECISION[dtype.name])
    # Halves of the least number, and of what lies between the greatest and the next.
    for factors in [
        (least, 0.5),
        (least, 0.5 * (1 + ulp)),
        (least, 0.5 * (1 - ulp)),
        (least, 1.5),
        (least, 0.25),
        (most, 1 + ulp),
        (most, 1 + ulp, 1 - ulp / 2),
        (most, 2, 0.5),
        (most, most, least),
        (np.array(info.smallest_normal), 1 - ulp / 2),
    ]:
        for sign in (1, -1):
            assert_product(np.array([*factors, sign], dtype))


def factors_of_a_power(k: int, more: int) -> list[int]:
    """Factors of 2^k - 1, or of 2^k + 1: values of cyclotomic polynomials."""
    values: dict[int, int] = {}
    for d in range(1, 2 * k + 1):
        if 2 * k % d == 0:
            below = math.prod(v for e, v in values.items() if d % e == 0)
            values[d] = (2**d - 1) // below
    wanted = [v for d, v in values.items() if (k % d == 0) == (more < 0)]
    if more > 0 and k % 4 == 2:  # Aurifeuille's two factors
        half = k // 2
        two = [2**half + sign * 2 ** (half // 2 + 1) + 1 for sign in (1, -1)]
        wanted = [math.gcd(v, part) for v in wanted for part in two]
    assert math.prod(wanted) == 2**k + more
    return wanted


def halves_of_ties(precision: int) -> Iterator[tuple[int, int]]:
    """Two numbers whose product is odd and has a bit too much."""
    for a in (3, 5, 7, 13):
        for b in range((2**precision + a) // a | 1, 2 ** (precision + 1) // a, 2):
            yield a, b
            break


@pytest.mark.parametrize(
    ("dtype", "powers"),
    [
        (np.dtype(np.float64), (10, 60, 90, 180, 210)),
        (np.dtype(np.float32), (10, 30, 60)),
        (np.dtype(np.float16), (4, 12)),
    ],
    ids=str,
)
def test_ties_and_what_lies_next_to_them_are_told_apart(
    dtype: np.dtype, powers: tuple[int, ...]
) -> None:
    for a, b in halves_of_ties(PRECISION[dtype.name]):
        tie = np.array([a, b, 2.0**-5, 2], dtype)
        assert_product(tie)
        assert_product(-np.repeat(tie, 1)[::-1])
        for k in powers:
            for more in (-1, 1):
                factors = factors_of_a_power(k, more)
                if max(factors) >= 2 ** PRECISION[dtype.name]:
                    continue
                near = np.array([a, b, *factors], np.float64) / 2.0**4
                assert_product(near.astype(dtype))
                ones = np.ones((3, 500), dtype)
                ones[1, 7 : 7 + len(near)] = near
                assert_product(ones, 1, configurations=CONFIGURATIONS[::5])
                assert_product(ones.T, 0, configurations=CONFIGURATIONS[::5])


def test_long_products_next_to_ties_are_told_apart() -> None:
    # Their errors add up to more than what rounding allows for besides the bound.
    for a, b in halves_of_ties(53):
        for more in (-1, 1):
            factors = np.array(factors_of_a_power(210, more), np.float64)
            x = np.append(np.tile(factors, 500), [a, b])
            assert_product(x, configurations=CONFIGURATIONS[::4])
            few = np.stack([x[-402:], x[:402]])
            assert_product(few.T, 0, configurations=CONFIGURATIONS[::4])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_zeros_infinities_and_nan_follow_ieee_from_any_position(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    rows = []
    for special in [
        (0.0,),
        (-0.0,),
        (-0.0, -0.0),
        (np.inf,),
        (-np.inf,),
        (-np.inf, -np.inf),
        (np.inf, 0.0),
        (-0.0, np.inf),
        (np.nan,),
        (np.nan, np.inf, 0.0),
        (np.nan, 0.0),
    ]:
        for n in (len(special), 9, 100, 700):
            for sign in (1, -1):
                x = np.ones(1400)
                x[:n] = rng.uniform(0.5, 2, n)
                x[rng.permutation(n)[: len(special)]] *= special
                x[1399] = sign
                rows.append(x)
    x = np.array(rows).astype(dtype)
    some = some_configurations(rng)
    assert_product(x, 1, configurations=some)
    assert_product(np.ascontiguousarray(x.T), 0, configurations=some)
    assert_product(x[:, :3], 1, configurations=some)
    for row in x[::7]:
        assert_product(row, configurations=some)


@pytest.mark.parametrize("dtype", [*SMALL, *TYPES], ids=str)
def test_an_empty_product_is_one(dtype: np.dtype) -> None:
    for axis, shape in ((0, (4,)), (1, (0,)), (None, ())):
        got = halfulp.prod(np.empty((0, 4), dtype), axis)
        want = np.ones(shape, result_dtype(PROD, dtype))
        assert_same_bits(got, want)


@pytest.mark.parametrize("dtype", [*SMALL, *INTEGERS], ids=str)
def test_products_of_integers_are_exact_modulo_a_power_of_two(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    for n in (1, 2, 5, 17, 40, 300):
        if dtype.kind == "b":
            x = rng.random((9, n)) < 0.9
        else:
            info = np.iinfo(dtype)
            x = rng.integers(info.min, info.max, (9, n), dtype, endpoint=True) | 1
            x[::3] = rng.integers(0, 7, (3, n)).astype(dtype)
        some = some_configurations(rng)
        for given, axis in ((x, 1), (np.ascontiguousarray(x.T), 0), (x[:, ::2], 1)):
            assert_product(given, axis, configurations=some)
            assert_same_bits(halfulp.prod(given, axis), np.prod(given, axis))
        for target in TYPES:
            got = halfulp.prod(x, 1, dtype=target)
            assert_same_bits(got, expected(x, 1, target))


def test_floats_go_to_any_type_of_floats(rng: np.random.Generator) -> None:
    for source in FLOATS:
        for target in FLOATS:
            for make in (of_few_bits, spread, any_bits):
                x = make(rng, source, 700).reshape(50, 14)
                got = halfulp.prod(x, 1, dtype=target)
                assert_same_bits(got, expected(x, 1, target))


@pytest.mark.parametrize(
    ("x", "dtype", "what"),
    [
        ([2] * 63, np.int64, "2**63 or more; int64"),
        ([-2] * 63 + [2], np.int64, "-2**64 or less; int64"),
        ([2**32, 2**32], np.uint64, "2**64 or more; uint64"),
        ([2**16, -(2**15)], np.int64, None),
        ([-2] * 63, np.int64, None),
        ([2**62] * 9 + [0], np.int64, None),
        ([3] * 41, np.uint64, "2**64 or more; uint64"),
        ([3] * 40, np.uint64, None),
        ([3] * 39, np.int64, None),
        ([3] * 40, np.int64, "2**63 or more; int64"),
        ([-1] * 7, np.int64, None),
        ([10**18] * 1000, np.int64, "2**59794 or more; int64"),
    ],
)
def test_overflow_raises_where_asked(x: list[int], dtype: Any, what: str | None) -> None:
    data = np.array(x, dtype)
    if what is None:
        assert halfulp.prod(data, overflow="raise") == math.prod(x)
        return
    with pytest.raises(SumOverflowError) as caught:
        halfulp.prod(data, overflow="raise")
    assert str(caught.value) == f"the exact product is {what} cannot hold it"
    with pytest.raises(SumOverflowError, match=r"of output \[1\] is"):
        halfulp.prod(np.stack([data * 0, data]), 1, overflow="raise")


@pytest.mark.parametrize("dtype", [*SMALL, *TYPES], ids=str)
def test_what_does_not_count_is_as_if_it_were_one(
    rng: np.random.Generator, dtype: np.dtype
) -> None:
    x = rng.integers(0, 2, (40, 30)).astype(dtype)
    if dtype in FLOATS:
        x = signed(rng, dtype, 1200).reshape(40, 30)
        x[3, 4], x[5, 6], x[7, 8] = np.nan, np.inf, 0
    for axis in (0, 1, None):
        where = (rng.random(x.shape) < 0.6) & (np.isfinite(x.astype(float)))
        counted = np.where(where, x, x.dtype.type(1))
        assert_same_bits(halfulp.prod(x, axis, where=where), expected(counted, axis))
        masked = halfulp.prod(np.ma.MaskedArray(x, ~where), axis)
        assert_same_bits(np.ma.getdata(masked), expected(counted, axis))
    got = halfulp.prod(x, 1, where=np.zeros(30, bool))
    assert_same_bits(got, np.ones(40, got.dtype))


def test_mpfr_gives_the_same(rng: np.random.Generator) -> None:
    gmpy2 = pytest.importorskip("gmpy2")
    with gmpy2.context(gmpy2.ieee(64), precision=53) as ieee:
        exact = gmpy2.context(precision=64 * 53, emax=10**8, emin=-(10**8))
        for _ in range(300):
            x = (signed, near_one, whole)[rng.integers(3)](rng, np.dtype(float), 60)
            with exact:
                product = gmpy2.mpfr(1)
                for factor in x.tolist():
                    product *= gmpy2.mpfr(factor)
            with ieee:
                want = float(+product)
            assert_same_bits(halfulp.prod(x), np.float64(want))


def test_onnx_face_keeps_the_type_and_signs_of_zeros() -> None:
    x = np.array([[-0.0, 3], [2, -4]])
    assert_same_bits(halfulp.reduce_prod(x, [1]), np.array([[-0.0], [-8]]))
    assert_same_bits(halfulp.reduce_prod(x, noop_with_empty_axes=1), x)
    assert_same_bits(halfulp.reduce_prod(x, keepdims=0), np.array(0.0))
    whole = np.int32([7] * 30)
    want = np.array([7**30 % 2**32], np.uint32).view(np.int32)
    assert_same_bits(halfulp.reduce_prod(whole), want)


def test_out_keepdims_and_labels_are_those_of_sums(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 5))
    out = np.empty((4, 1))
    assert halfulp.prod(x, 1, out=out, keepdims=True) is out
    assert_same_bits(out, expected(x, 1, keepdims=True))
    labelled = xarray.DataArray(x, dims=("a", "b"))
    got = halfulp.prod(labelled, 1)
    assert got.dims == ("a",)
    assert_same_bits(got.values, expected(x, 1))
    x[:, 0] = halfulp.prod(x, 1)
    halfulp.prod(x, 1, out=x[:, 0])


def test_threads_and_instruction_sets_give_the_same_bits(
    rng: np.random.Generator,
) -> None:
    x = rng.lognormal(0, 1e-3, (3, 100_001))
    for axis in (0, 1, None):
        products = []
        for target in _core.target_names():
            _core.choose_target(target)
            for threads in (1, 2, 5):
                with halfulp.num_threads(threads):
                    products.append(np.asarray(halfulp.prod(x, axis)).tobytes())
        _core.choose_target(None)
        assert len({*products}) == 1
