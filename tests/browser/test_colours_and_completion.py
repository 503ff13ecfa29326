"""Colours and Tab in a real browser; the script runs in a shared process (see host.py)."""

from __future__ import annotations


def test_sql_cells_have_colours_and_completion(run, tmp_path):
    run("colours_and_completion.py", tmp_path)
    for picture in ("lab.png", "tab.png", "connect.png", "notebook.png"):
        assert (tmp_path / picture).stat().st_size > 10_000
