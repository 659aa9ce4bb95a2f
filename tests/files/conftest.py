"""Few and small files, and small pieces of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from halfulp.files.sums import along, summing


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pieces, blocks and threads for a few elements."""
    for module in (summing, along):
        monkeypatch.setattr(module, "PIECE", 80)
    monkeypatch.setattr(along, "_EXACT_SUMS", 2000)
    monkeypatch.setattr(summing, "get_num_threads", lambda: 3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    np.save("x.npy", np.float32([[3, 4], [0, 12]]))
    return tmp_path
