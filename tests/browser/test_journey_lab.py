"""Test the journey through the panels in JupyterLab; the script runs in a shared process (see host.py)."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("how", "look"), [("keyboard", "light"), ("mouse", "dark")])
def test_the_journey_in_jupyterlab(run, tmp_path, how, look):
    run("journey.py", tmp_path, "lab", how, look)
