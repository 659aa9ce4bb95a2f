"""Seeds: one for each run, printed, set again with HALFULP_SEED; and interrupts."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from hypothesis import settings

from seed import SEED

# Jobs in the background of a shell ignore SIGINT, what `nohup` starts ignores SIGHUP, and
# so would the children to which tests send these.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

settings.register_profile("halfulp", deadline=None, print_blob=True)
settings.load_profile("halfulp")


def pytest_report_header() -> str:
    return f"HALFULP_SEED={SEED}"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator of its own for each test, whatever runs before it."""
    return np.random.default_rng([SEED, *request.node.name.encode()])
