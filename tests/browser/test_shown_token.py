"""Test a displayed token in JupyterLab; the script runs in a shared process (see host.py)."""

from __future__ import annotations


def test_a_token_that_people_look_at_is_saved_nowhere(run, tmp_path):
    run("shown_token.py", tmp_path)
