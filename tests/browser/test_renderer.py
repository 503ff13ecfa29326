"""What panel.js draws and says; the script runs in a process for them all (see host.py)."""

from __future__ import annotations


def test_what_panels_draw_and_say(run):
    assert len(run("renderer.py")) == 19
