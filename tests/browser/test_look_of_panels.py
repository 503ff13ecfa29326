"""Test the appearance of panels; the script runs in a shared process (see host.py)."""

from __future__ import annotations


def test_contrast_dates_and_static_html(run, tmp_path):
    assert len(run("look_of_panels.py", tmp_path)) == 5
