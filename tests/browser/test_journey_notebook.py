"""Test the journey through the panels in Notebook 7; the script runs in a shared process (see host.py)."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("how", "look"), [("keyboard", "light"), ("mouse", "narrow")])
def test_the_journey_in_notebook(run, tmp_path, how, look):
    run("journey.py", tmp_path, "notebook", how, look)
