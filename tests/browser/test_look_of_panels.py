"""How panels look, live and saved; the script runs in a process for them all (see host.py)."""

from __future__ import annotations


def test_contrast_the_saved_face_and_a_kernel_that_is_gone(run, tmp_path):
    assert len(run("look_of_panels.py", tmp_path)) == 5
