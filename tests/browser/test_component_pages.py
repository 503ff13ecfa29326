"""Test the components of panels in a real browser; the script runs in a shared process (see host.py)."""

from __future__ import annotations


def test_components(run):
    assert len(run("component_pages.py")) == 12
