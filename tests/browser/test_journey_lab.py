"""Test the journey through the panels in JupyterLab; the script runs in a shared process (see host.py).

The one in Notebook 7 is by mouse and narrow: each application, input and appearance occurs once.
"""

from __future__ import annotations


def test_the_journey_in_jupyterlab(run, tmp_path):
    run("journey.py", tmp_path, "lab", "keyboard", "dark")
