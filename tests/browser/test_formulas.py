"""Names and values with $...$ in a real browser; the script runs in a shared process (see host.py)."""

from __future__ import annotations


def test_names_and_values_are_no_formulas(run, tmp_path):
    run("formulas.py", tmp_path)
    for picture in ("lab.png", "notebook.png"):
        assert (tmp_path / picture).stat().st_size > 10_000
