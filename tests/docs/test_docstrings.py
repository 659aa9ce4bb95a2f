"""Every example in a docstring does what it shows."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import halfulp

MODULES = ["halfulp"] + [
    module.name
    for module in pkgutil.walk_packages(halfulp.__path__, "halfulp.")
    if not module.name.endswith(("._core", ".__main__"))
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_public_functions_have_examples() -> None:
    finder = doctest.DocTestFinder()
    for function in (
        halfulp.sum_square,
        halfulp.reduce_sum_square,
        halfulp.exact_sum_square,
    ):
        assert any(test.examples for test in finder.find(function))
