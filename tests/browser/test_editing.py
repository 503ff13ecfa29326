"""Comments, colours of lines and help in a real browser; the script runs in a shared process (see host.py)."""

from __future__ import annotations


def test_comments_colours_and_help(run, tmp_path):
    run("editing.py", tmp_path)
    for picture in ("light.png", "tooltip.png", "types.png", "options.png"):
        assert (tmp_path / picture).stat().st_size > 10_000
