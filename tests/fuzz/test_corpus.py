"""No bytes do harm: the seeds of the fuzzers, and what they found before."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import make_corpus
from fuzz_targets import TARGETS
from halfulp.errors import HalfulpError
from halfulp.onnx.run.array_files import load_array

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(path for path in CORPUS.glob("*/*"))

pytestmark = pytest.mark.filterwarnings("ignore:Reading .* Python 2:UserWarning")


def test_every_target_has_seeds_and_all_are_small() -> None:
    assert {path.parent.name for path in FILES} == set(TARGETS) == set(make_corpus.SEEDS)
    assert sum(path.stat().st_size for path in FILES) < 200 * 1024


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_only_errors_of_halfulp_come_out(path: Path) -> None:
    signal.alarm(20)  # ends the run: no input may take long
    try:
        TARGETS[path.parent.name].run(path.read_bytes())
    finally:
        signal.alarm(0)


def test_nothing_is_unpickled() -> None:
    with pytest.raises(HalfulpError, match="it has Python objects"):
        load_array(CORPUS / "npy/pickled")
