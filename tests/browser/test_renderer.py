"""What panel.js draws and says; the script is a process of its own (see lab.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_what_panels_draw_and_say(chromium):
    run = subprocess.run(
        [sys.executable, str(HERE / "renderer.py"), chromium], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(run.stdout.splitlines()) == 19
