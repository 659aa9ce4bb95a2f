"""Tests of every row of the table."""

from __future__ import annotations

import pytest

from halfulp.reductions import SUMS

by_row = pytest.mark.parametrize("row", SUMS, ids=lambda row: row.name)
