"""Amounts in words."""

from __future__ import annotations

import pytest

from pipemagic import counts


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_960, "1.0 MB"), (5 * 10**12, "5.0 TB"),
     (5 * 10**16, "50000.0 TB")],
)  # fmt: skip
def test_sizes(size, words):
    assert counts.size(size) == words
