"""Loads pages in Chromium, for the tests of what people look at."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

needs_chromium = pytest.mark.skipif(_CHROMIUM is None, reason="no Chromium")


def dom_of(page: Path, *options: str) -> str:
    """Return the document that a browser makes of a page, once its scripts ran."""
    assert _CHROMIUM is not None
    fixed = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    return subprocess.run(
        [
            *(_CHROMIUM, *fixed, *options),
            *(f"--user-data-dir={page.parent / 'profile'}", page.as_uri()),
        ],
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=60,
    ).stdout
