"""Test the journey through the panels in Notebook 7; the script runs in a shared process (see host.py)."""

from __future__ import annotations


def test_the_journey_in_notebook(run, tmp_path):
    run("journey.py", tmp_path, "notebook", "mouse", "narrow")
