"""Pages of other sites, in a real browser; the script is a process of its own (see lab.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from served import serve

SCRIPT = Path(__file__).parent / "page_of_another_site.py"


@pytest.mark.parametrize(
    ("options", "expected"),
    [([], "kept-out"), (["--cors", "*"], "let-in"), (["--cors", "https://app.example.org"], "kept-out")],
)
def test_a_page_of_another_site_is_let_in_only_if_its_origin_is(chromium, tmp_path, options, expected):
    with serve(tmp_path / "data", "--port", "0", *options) as service:
        service.create("flights")
        run = subprocess.run(
            [sys.executable, str(SCRIPT), chromium, service.url, service.token("flights"), expected],
            capture_output=True, text=True, timeout=900,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
