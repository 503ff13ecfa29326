"""The focus, where one panel is on several pages; the script is a process of its own (see lab.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_the_focus_goes_to_the_page_that_acted(chromium):
    run = subprocess.run(
        [sys.executable, str(HERE / "focus_of_pages.py"), chromium],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.splitlines() == ["one INPUT", "one BUTTON", "two INPUT", "two BUTTON", "TEXTAREA", "BODY"]
