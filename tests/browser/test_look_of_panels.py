"""Test the appearance of live and saved panels; the script runs in a shared process (see host.py)."""

from __future__ import annotations


def test_contrast_dates_static_html_and_a_kernel_that_has_ended(run, tmp_path):
    assert len(run("look_of_panels.py", tmp_path)) == 7
