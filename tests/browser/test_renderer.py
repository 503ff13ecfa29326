"""What panel.js draws and says; the script is a process of its own (see lab.py)."""

from __future__ import annotations


def test_what_panels_draw_and_say(run):
    assert len(run("renderer.py")) == 19
