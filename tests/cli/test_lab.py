"""`pipemagic lab` with the real JupyterLab: what it opens, and that nothing is left when it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.helpers.waiting import until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WAIT = 60  # seconds; a few are usual


def processes_with(mark: str) -> list[str]:
    """Return the command lines of the processes with a mark in their environment."""
    commands = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                commands.append((folder / "cmdline").read_text("utf-8", "replace").replace("\0", " "))
        except OSError:  # it has ended, or belongs to another user
            continue
    return list(filter(None, commands))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_lab_opens_the_quick_start_and_sigterm_ends_it_with_its_kernels(tmp_path):
    browser, opened, log = tmp_path / "browser", tmp_path / "opened", tmp_path / "log"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.new && mv {opened}.new {opened}\n')
    browser.chmod(0o755)
    mark = f"LAB_OF_THIS_TEST={tmp_path}"
    own = {
        "HOME": str(tmp_path),
        "BROWSER": f"{browser} %s",
        "PYTHONPATH": str(ROOT),
        "LAB_OF_THIS_TEST": str(tmp_path),
    }
    others = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "XDG"))}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "pipemagic", "lab", "--allow-root", "--ServerApp.port=0"],
            env={**others, **own}, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        until(lambda: opened.exists() or process.poll() is not None, seconds=WAIT)
        assert opened.exists(), log.read_text()
        page = Path(opened.read_text().strip().removeprefix("file://")).read_text()
        address, token = re.search(r"url=(http://[^/]+)/lab/tree/quickstart\.ipynb\?token=(\w+)", page).groups()
        assert f"{address}/lab/tree/quickstart.ipynb?token=" in log.read_text()
        with httpx.Client(base_url=address, headers={"Authorization": f"token {token}"}, trust_env=False) as lab:
            assert lab.get("/api/contents/quickstart.ipynb?content=0").raise_for_status().json()["type"] == "notebook"
            lab.post("/api/kernels", json={"name": "python3"}).raise_for_status()
        assert sum("ipykernel" in command for command in processes_with(mark)) == 1
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT)
        until(lambda: not processes_with(mark), seconds=WAIT)
    finally:
        process.kill()
        process.wait()
