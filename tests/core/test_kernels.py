"""The table of kernels: complete, and nothing outside it."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from halfulp import _core
from oracle import configuration

NATIVE = Path(__file__).parents[2] / "native"
HALVES = ("bfloat16", "float16")
FLOATS = (*HALVES, "float32", "float64")
INTEGERS = ("int32", "int64", "uint32", "uint64")
_ALL = FLOATS + INTEGERS


def _names() -> set[str]:
    methods = {
        "narrow": HALVES,
        "plain": FLOATS[:3],
        "compensated": FLOATS,
        "grid": FLOATS,
        "residue": INTEGERS,
    }
    sums = {
        f"{layout}_{method}_{type_}"
        for layout, (method, types) in itertools.product(
            ("rows", "columns"), methods.items()
        )
        for type_ in types
    }
    sums |= {f"{layout}_exact_{t}" for layout in ("rows", "columns") for t in _ALL}
    return sums | {f"round_{type_}" for type_ in FLOATS}


@pytest.mark.parametrize("target", _core.target_names())
def test_every_instruction_set_has_every_kernel_of_the_table(target: str) -> None:
    with configuration(target, 1):
        names = _core.kernel_names()
    assert len(names) == len(set(names))
    assert set(names) == _names()


def test_the_table_names_what_the_design_names() -> None:
    table = (NATIVE / "kernels/kernels.inc").read_text()
    kernels = re.findall(r"^KERNEL\((\w+), (\w+), (\w+), (\w+)\)$", table, re.MULTILINE)
    exact = re.findall(r"^EXACT\((\w+), (\w+), (\w+)\)$", table, re.MULTILINE)
    rounders = re.findall(r"^ROUNDER\((\w+)\)$", table, re.MULTILINE)
    assert {term for term, *_ in [*kernels, *exact]} == {"square"}
    named = {"_".join(rest) for _, *rest in kernels} | {f"round_{r}" for r in rounders}
    named |= {f"{layout}_exact_{type_}" for _, layout, type_ in exact}
    assert named == _names()


def test_no_instruction_set_has_a_kernel_of_its_own() -> None:
    # Files of instruction sets hold a table and nothing else.
    for file in NATIVE.glob("kernels/target_*.cpp"):
        code = re.sub(r"//.*", "", file.read_text())
        assert '#include "table.h"' in code
        assert len(re.findall(r"\bconst Target target_\w+ =", code)) == 1
        assert "for (" not in code
        assert "(const std::byte*" not in code


def test_every_intrinsic_stands_in_the_few_operations_of_simd_h() -> None:
    for file in [*NATIVE.rglob("*.h"), *NATIVE.rglob("*.cpp")]:
        found = re.findall(r"\b_mm\d*_\w+|\bv\w+q_f\d\d", file.read_text())
        if file.name not in ("simd.h", "round_tile.h", "modes.h"):
            assert not found, file
