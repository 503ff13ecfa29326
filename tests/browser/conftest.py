"""What the tests with a browser share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PATIENCE = 900  # seconds: many times what the longest way takes


@pytest.fixture
def chromium(require_real):
    """The path of a chromium: from PIPEMAGIC_CHROMIUM, or on the PATH."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = os.environ.get("PIPEMAGIC_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        require_real("there is no chromium on the PATH, and PIPEMAGIC_CHROMIUM names none")
    return found


@pytest.fixture
def run(chromium):
    """Run a script of this folder in a process of its own (see lab.py); gives the lines that it prints.

    It gets the path of chromium, then the arguments.
    """

    def ended(script, *arguments):
        done = subprocess.run(
            [sys.executable, str(HERE / script), chromium, *map(str, arguments)],
            capture_output=True, text=True, timeout=PATIENCE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    return ended
