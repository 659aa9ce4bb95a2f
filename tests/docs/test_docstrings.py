"""Every example in a docstring does what it shows."""

from __future__ import annotations

import doctest
import importlib.util
import pkgutil
import re

import pytest

import halfulp

MODULES = ["halfulp"] + [
    module.name
    for module in pkgutil.walk_packages(halfulp.__path__, "halfulp.")
    if not module.name.endswith(("._core", ".__main__"))
    # Which need PyTorch.
    and (importlib.util.find_spec("torch") or not module.name.startswith("halfulp.torch"))
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_public_functions_that_reduce_have_examples() -> None:
    finder = doctest.DocTestFinder()
    names = [
        name
        for name in halfulp.__all__
        if re.match(r"(reduce|exact)_|(sum|mean|vector_norm|sum_square)$", name)
    ]
    assert len(names) >= 13
    for name in names:
        assert any(test.examples for test in finder.find(getattr(halfulp, name))), name
