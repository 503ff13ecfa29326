"""Test a panel in Voila; the script runs in a shared process (see host.py)."""

from __future__ import annotations


def test_a_panel_is_an_application_in_voila(run, tmp_path):
    run("in_voila.py", tmp_path)
