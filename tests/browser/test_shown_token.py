"""Test a displayed token in JupyterLab; the script runs in a shared process (see host.py)."""

from __future__ import annotations


def test_a_displayed_token_is_not_saved(run, tmp_path):
    run("shown_token.py", tmp_path)
