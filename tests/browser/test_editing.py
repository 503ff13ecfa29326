"""Comments and the colours of lines in a real browser; the script runs in a process for them all (see host.py)."""

from __future__ import annotations


def test_comments_leave_the_magic_line_alone_and_lines_have_colours(run, tmp_path):
    run("editing.py", tmp_path)
    for picture in ("light.png", "dark.png"):
        assert (tmp_path / picture).stat().st_size > 10_000
