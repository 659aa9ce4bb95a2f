"""Maxima, minima, their norms and products against plain Python and GMP; `make fuzz`.

    python tests/fuzz/fuzz_joined.py [SECONDS [SEED]]

Random types, kinds of elements, shapes, layouts, masks, kernels and threads. Prints the
seed, what is wrong, and how many results were compared.
"""

from __future__ import annotations

import math
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gmpy2
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import adversarial
import halfulp
from halfulp.conformance.bits import EMAX
from oracle import (
    CONFIGURATIONS,
    FLOATS,
    PRECISION,
    SMALL,
    TYPES,
    bits,
    configuration,
    from_bits,
)

_WIDE = gmpy2.context(precision=1 << 17, emin=-(10**9), emax=10**9)
_LENGTHS = (1, 2, 3, 8, 15, 16, 17, 33, 64, 65, 100, 257, 1000)


def any_kind(rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, int]) -> Any:
    """Elements of one kind: any bits, numbers near 1, far apart, zeros, a rare NaN."""
    kind = int(rng.integers(6))
    if dtype.kind == "b":
        return rng.random(shape) < rng.choice([0.02, 0.5, 0.98])
    if dtype not in FLOATS or kind == 0:
        unsigned = np.dtype(f"u{dtype.itemsize}")
        raw = rng.integers(0, np.iinfo(unsigned).max, shape, unsigned, endpoint=True)
        x = raw.view(dtype) if dtype not in FLOATS else from_bits(raw, dtype)
        few = rng.integers(0, 8 * dtype.itemsize)
        return x if dtype in FLOATS else x >> dtype.type(few)
    with np.errstate(all="ignore"):
        far = rng.choice([0.01, 1, EMAX[dtype.name] / 3])
        x = (rng.normal(size=shape) * 2.0 ** rng.normal(0, far, shape)).astype(dtype)
    if kind == 1:
        return np.copysign(dtype.type(0), x).astype(dtype)
    if kind == 2:
        x.flat[rng.integers(x.size)] = rng.choice([np.inf, -np.inf, np.nan, -np.nan, 0])
    return -np.abs(x) if kind == 3 else x


def extreme(line: Any, dtype: np.dtype, best: Any, sizes: bool) -> Any:
    """The greatest or least element or size: any NaN is one, -0 below +0."""
    if dtype not in FLOATS:
        return best(abs(int(each)) if sizes else int(each) for each in line)
    numbers = [abs(float(each)) if sizes else float(each) for each in line]
    if any(each != each for each in numbers):
        return math.nan
    return best(numbers, key=lambda x: (x, math.copysign(1, x)))


def product(line: Any, dtype: np.dtype, into: np.dtype) -> Any:
    """The product by GMP: modulo 2^N, or rounded once by MPFR."""
    if dtype not in FLOATS:
        total = gmpy2.mpz(1)
        for each in line:
            total *= int(each)
        if into not in FLOATS:
            wrapped = np.array(int(total) % 2 ** (8 * into.itemsize), f"u{into.itemsize}")
            return wrapped.view(into)[()]
    with _WIDE as wide:
        if dtype in FLOATS:
            value = gmpy2.mpfr(1)
            for each in line:
                value = value * gmpy2.mpfr(float(each))
        else:
            value = gmpy2.mpfr(total)
        if wide.inexact and gmpy2.is_finite(value):
            raise AssertionError("the product needs more bits")
    p, emax = PRECISION[into.name], EMAX[into.name]
    # MPFR's exponents are of significands in [1/2, 1).
    target = gmpy2.context(
        precision=p, emax=emax + 1, emin=1 - emax - p + 2, subnormalize=True
    )
    with target:
        return float(gmpy2.mpfr(value))


Case = tuple[Callable[..., Any], dict[str, Any], Callable[[Any], Any], np.dtype]


def random_case(rng: np.random.Generator, dtype: np.dtype) -> Case:
    """A function, its arguments, what it gives of a row, and of which type that is."""
    kind = int(rng.integers(5))
    best = (max, min)[kind % 2]
    if kind < 2:
        function = (halfulp.max, halfulp.min)[kind]
        return function, {}, lambda line: extreme(line, dtype, best, False), dtype
    if kind < 4:
        into = dtype if dtype in FLOATS else np.dtype(float)
        named = {"ord": (math.inf, -math.inf)[kind % 2]}
        return (
            halfulp.vector_norm,
            named,
            lambda line: extreme(line, dtype, best, True),
            into,
        )
    types = FLOATS if dtype in FLOATS else TYPES
    into = types[rng.integers(len(types))]
    return halfulp.prod, {"dtype": into}, lambda line: product(line, dtype, into), into


def main() -> int:
    """Run until the time is over; return 1 if anything differed."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else secrets.randbits(32)
    print(f"seed {seed}", flush=True)
    rng = np.random.default_rng(seed)
    types = [*TYPES, *SMALL]
    compared = wrong = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        dtype = types[rng.integers(len(types))]
        x = any_kind(rng, dtype, (int(rng.integers(1, 60)), int(rng.choice(_LENGTHS))))
        function, named, of_row, into = random_case(rng, dtype)
        layouts = list(adversarial.layouts(rng, x))
        layout, data, axis, more = layouts[rng.integers(len(layouts))]
        if more and function in (halfulp.max, halfulp.min):
            continue  # they need an initial element then
        target, threads = CONFIGURATIONS[rng.integers(len(CONFIGURATIONS))]
        with configuration(target, threads):
            got = np.asarray(function(data, axis, **named, **more))
        axes = axis if isinstance(axis, tuple) else (axis,)
        last = tuple(range(-len(axes), 0))
        counted = np.broadcast_to(more.get("where", True), data.shape)
        lines, counted = (
            np.moveaxis(each, axes, last).reshape(got.size, -1)
            for each in (data.astype(dtype.newbyteorder("=")), counted)
        )
        with np.errstate(all="ignore"):
            rows = zip(lines, counted, strict=True)
            want = np.array([of_row(line[count]) for line, count in rows], into)
        raw = bits(want)
        if into in FLOATS:
            raw[np.isnan(want.astype(float))] = bits(np.abs(np.array([np.nan], into)))[0]
        compared += got.size
        different = np.flatnonzero(bits(got).ravel() != raw)
        wrong += len(different)
        for i in different[:3]:
            where = f"{function.__name__} {named} {dtype} {layout} {data.shape} {axis}"
            print(
                f"{where} {target} {threads}: {got.flat[i]!r}, not {want[i]!r}",
                flush=True,
            )
    print(f"{compared} results, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
