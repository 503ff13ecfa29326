"""The whole way through the panels in real browsers; each is a process of its own (see lab.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("app", "how", "look"),
    [
        ("lab", "keyboard", "light"),
        ("lab", "mouse", "dark"),
        ("notebook", "keyboard", "light"),
        ("notebook", "mouse", "narrow"),
    ],
)
def test_a_visitors_whole_way(chromium, tmp_path, app, how, look):
    run = subprocess.run(
        [sys.executable, str(HERE / "journey.py"), chromium, str(tmp_path), app, how, look],
        capture_output=True, text=True, timeout=900,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
