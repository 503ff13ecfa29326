"""Test the labels of the map in a real browser; the script runs in a shared process (see host.py)."""

from __future__ import annotations


def test_labels_cover_no_other_label(run):
    assert len(run("labels_of_map.py")) == 8
