"""Tests of every row of the table."""

from __future__ import annotations

import pytest

from halfulp.reductions import REDUCTIONS

by_row = pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)
