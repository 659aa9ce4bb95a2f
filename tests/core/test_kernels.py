"""The table of kernels: complete, and nothing outside it."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from halfulp import _core
from halfulp.element_types import ELEMENT_TYPES, SMALL_TYPES
from halfulp.exact import TERMS
from halfulp.reductions import SUMS
from oracle import FLOATS, assert_same_bits, configuration, function_of

NATIVE = Path(__file__).parents[2] / "native"
TABLE = (NATIVE / "kernels/kernels.inc").read_text()
CPU = Path("/proc/cpuinfo")
LAYOUTS = ("rows", "columns")


def in_table(macro: str) -> list[tuple[str, ...]]:
    """The arguments of each line of a macro in the table."""
    lines = re.findall(rf"^{macro}\((.*)\)$", TABLE, re.MULTILINE)
    return [tuple(line.split(", ")) for line in lines]


def names_of_table() -> list[str]:
    names = ["_".join(line) for line in in_table("KERNEL")]
    names += ["{}_{}_exact_{}".format(*line) for line in in_table("EXACT")]
    names = [name.removeprefix("square_") for name in names]
    names += ["_".join(line) for line in in_table("MAX_MIN")]
    return names + [f"round_{type_}" for (type_,) in in_table("ROUNDER")]


@pytest.mark.parametrize("target", _core.target_names())
def test_every_instruction_set_has_every_kernel_of_the_table(target: str) -> None:
    with configuration(target, 1):
        names = _core.kernel_names()
    assert len(names) == len(set(names))
    assert set(names) == set(names_of_table())


def test_the_table_has_each_method_for_the_types_whose_bounds_allow_it() -> None:
    wanted = {
        "narrow": [
            t for t in ELEMENT_TYPES if t.kind == "float" and t.dtype.itemsize == 2
        ],
        "plain": [t for t in ELEMENT_TYPES if t.kind == "float"],
        "compensated": [t for t in ELEMENT_TYPES if t.kind == "float"],
        "units": [t for t in ELEMENT_TYPES if t.kind == "float"],
        "residue": [t for t in ELEMENT_TYPES if t.kind == "integer"],
    }
    kernels = [
        (term, layout, method, type_.numpy_name)
        for term, (_, degree) in TERMS.items()
        for layout in LAYOUTS
        for method, types in wanted.items()
        for type_ in types
        # Terms are exact in binary64; of signed ones the mass comes in binary32 only.
        if method != "plain"
        or (degree * type_.precision <= 53 and (term, type_.name) != ("value", "double"))
    ]
    kernels += [
        ("value", layout, method, type_.numpy_name)
        for layout in LAYOUTS
        for kind, method in (("float", "product"), ("integer", "residue_product"))
        for type_ in ELEMENT_TYPES
        if type_.kind == kind
    ]
    assert sorted(in_table("KERNEL")) == sorted(kernels)
    every = [
        (t, lay, e.numpy_name) for t in TERMS for lay in LAYOUTS for e in ELEMENT_TYPES
    ]
    assert sorted(in_table("EXACT")) == sorted(every)
    assert in_table("ROUNDER") == [(t.numpy_name,) for t in wanted["units"]]


def test_no_instruction_set_has_a_kernel_of_its_own() -> None:
    # Files of instruction sets hold a table and nothing else.
    for file in NATIVE.glob("kernels/target_*.cpp"):
        code = re.sub(r"//.*", "", file.read_text())
        assert '#include "table.h"' in code
        assert len(re.findall(r"\bconst Target target_\w+ =", code)) == 1
        assert "for (" not in code
        assert "(const std::byte*" not in code


def test_every_intrinsic_stands_in_one_of_few_files() -> None:
    for file in [*NATIVE.rglob("*.h"), *NATIVE.rglob("*.cpp")]:
        found = re.findall(r"\b_mm\d*_\w+|\bv\w+q_f\d\d", file.read_text())
        few = ("simd", "round_tile", "modes", "inexact", "unrounded", "exponentials")
        if file.stem not in few:
            assert not found, file


def test_the_table_has_maxima_and_minima_of_all_orders() -> None:
    lines = in_table("MAX_MIN")
    orders = [t.numpy_name for t in (*ELEMENT_TYPES, *SMALL_TYPES) if t.name != "bool"]
    wanted = product(("max", "min"), ("magnitude", "value"), orders)
    assert sorted(lines) == sorted(wanted)


@pytest.mark.parametrize("distance", [64, 4096, 2**40])
@pytest.mark.parametrize("target", _core.target_names())
def test_memory_may_be_fetched_any_distance_ahead(target: str, distance: int) -> None:
    before = _core.prefetch_distance()
    try:
        for dtype in FLOATS:
            x = np.ones((3, 5000), dtype)
            for row in SUMS:
                _core.set_prefetch_distance(before)
                with configuration(target, 1):
                    want = function_of(row)(x, axis=1)
                    _core.set_prefetch_distance(distance)
                    assert_same_bits(function_of(row)(x, axis=1), want)
    finally:
        _core.set_prefetch_distance(before)


@pytest.mark.skipif(not CPU.exists(), reason="the system does not tell its processor")
def test_the_distance_is_as_the_processor_wants_it() -> None:
    is_intel = "GenuineIntel" in CPU.read_text()
    assert _core.prefetch_distance() == (4096 if is_intel else 0)
    with pytest.raises(ValueError, match="negative"):
        _core.set_prefetch_distance(-1)
