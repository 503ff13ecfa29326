"""A token that is shown in JupyterLab; the script is a process of its own (see lab.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_a_token_that_people_look_at_is_saved_nowhere(chromium, tmp_path):
    run = subprocess.run(
        [sys.executable, str(HERE / "shown_token.py"), chromium, str(tmp_path)],
        capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
