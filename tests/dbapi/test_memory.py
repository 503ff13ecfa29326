"""A cursor with ``stream=True`` holds only the rows that have arrived and were not fetched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import memory


@pytest.mark.slow
def test_ten_million_streamed_cells_need_less_memory_than_a_million_fetched_at_once():
    streamed, at_once = memory.measured(2_000_000, "fetchmany"), memory.measured(200_000, "fetchall")
    assert streamed["cells"] == 10 * at_once["cells"]
    assert streamed["growth"] < at_once["growth"] / 2
