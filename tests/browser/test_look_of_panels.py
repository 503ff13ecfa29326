"""How panels look, live and saved; the script is a process of its own (see lab.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_contrast_the_saved_face_and_a_kernel_that_is_gone(chromium, tmp_path):
    run = subprocess.run(
        [sys.executable, str(HERE / "look_of_panels.py"), chromium, str(tmp_path)],
        capture_output=True, text=True, timeout=900,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(run.stdout.splitlines()) == 5
