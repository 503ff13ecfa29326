"""The site of the documentation, built once for all tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]
BUILD_TIMEOUT = 580  # seconds, with several tests at the same time
DONE = "warnings.txt"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the HTML pages; a file beside it, `DONE`, has the warnings of the build."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    html, done = folder / "site" / "html", folder / "site" / DONE
    with FileLock(folder / "site.lock"):
        if not done.exists():
            build(html, done)
    return html


def build(html: Path, done: Path) -> None:
    """Build the site; raise CalledProcessError if it fails for other reasons than warnings."""
    warnings = done.with_suffix(".new")
    warnings.parent.mkdir(exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "--keep-going",
        "-w",
        str(warnings),
        "-b",
        "html",
        "docs",
        str(html),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, timeout=BUILD_TIMEOUT, check=True)
    warnings.replace(done)
