"""tests/native/mutants.py breaks the native core as it is now, not as it once was."""

from __future__ import annotations

import pytest

from mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_mutant_breaks_one_place(mutant: Mutant) -> None:
    text = (ROOT / "native" / mutant.file).read_text()
    assert text.count(mutant.original) == 1
    assert mutant.mutated != mutant.original
