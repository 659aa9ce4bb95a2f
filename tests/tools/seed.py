"""The seed of a run: printed at its top, set again with HALFULP_SEED."""

from __future__ import annotations

import os
import secrets

SEED = int(os.environ.get("HALFULP_SEED") or secrets.randbits(32))
# The processes that share a run have its seed.
os.environ["HALFULP_SEED"] = str(SEED)
