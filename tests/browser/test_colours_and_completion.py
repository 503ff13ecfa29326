"""Colours and Tab in a real browser; the script is a process of its own (see lab.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_sql_cells_have_colours_and_completion(chromium, tmp_path):
    run = subprocess.run(
        [sys.executable, str(HERE / "colours_and_completion.py"), chromium, str(tmp_path)],
        capture_output=True, text=True, timeout=900,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    for picture in ("lab.png", "tab.png", "notebook.png"):
        assert (tmp_path / picture).stat().st_size > 10_000
