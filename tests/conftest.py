"""Seeds: one for each run, printed, set again with HALFULP_SEED; and interrupts."""

from __future__ import annotations

import os
import secrets
import signal

import numpy as np
import pytest
from hypothesis import settings

SEED = int(os.environ.get("HALFULP_SEED") or secrets.randbits(32))
# The processes that share a run have its seed.
os.environ["HALFULP_SEED"] = str(SEED)

# A shell's background jobs ignore SIGINT, and so would the children that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("halfulp", deadline=None, print_blob=True)
settings.load_profile("halfulp")


def pytest_report_header() -> str:
    return f"HALFULP_SEED={SEED}"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator of its own for each test, whatever runs before it."""
    return np.random.default_rng([SEED, *request.node.name.encode()])
