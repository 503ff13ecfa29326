"""The whole way through the panels in real browsers; each is a process of its own (see lab.py)."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("app", "how", "look"),
    [
        ("lab", "keyboard", "light"),
        ("lab", "mouse", "dark"),
        ("notebook", "keyboard", "light"),
        ("notebook", "mouse", "narrow"),
    ],
)
def test_a_visitors_whole_way(run, tmp_path, app, how, look):
    run("journey.py", tmp_path, app, how, look)
