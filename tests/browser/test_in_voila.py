"""A panel in Voila; the script is a process of its own (see lab.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_a_panel_is_an_application_in_voila(chromium, tmp_path):
    run = subprocess.run(
        [sys.executable, str(HERE / "in_voila.py"), chromium, str(tmp_path)],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
