"""An exercise in a real browser; the script runs in a shared process (see host.py)."""

from __future__ import annotations


def test_a_student_solves_an_exercise(run, tmp_path):
    run("exercise.py", tmp_path)
