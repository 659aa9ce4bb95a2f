"""Seeds: one for each run, printed, set again with HALFULP_SEED; and interrupts."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from hypothesis import settings

from seed import SEED

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
