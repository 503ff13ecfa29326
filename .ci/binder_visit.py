"""Test an emulated Binder build: start its server as Binder does, open the notebook, and run it.

Usage: python binder_visit.py VENV HOME. The base address with a prefix and the token catch most mistakes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

NOTEBOOK = "notebooks/quickstart.ipynb"
PREFIX, TOKEN = "/user/someone-repo-x1y2/", "a-token-of-the-hub"
PATIENCE = 180_000  # ms; a Binder has one core at most


@contextmanager
def server(venv: Path, home: Path) -> Iterator[str]:
    """Start the server with the environment of a container: the venv, a home, nothing else."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = home / "binder" / "start"
    command = [*([str(start)] if start.exists() else []), "jupyter", "lab", "--no-browser", "--allow-root"]
    command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command += [f"--ServerApp.base_url={PREFIX}", f"--IdentityProvider.token={TOKEN}"]
    environment = {"PATH": f"{venv}/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", "SHELL": "/bin/bash"}
    log = home.parent / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    address = f"http://127.0.0.1:{port}{PREFIX}"
    try:
        wait_for(f"{address}api/status?token={TOKEN}", process, log)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server responds; raise SystemExit with its log otherwise."""
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"the server did not start:\n{log.read_text('utf-8', 'replace')}")


def run_all(page: Page) -> None:
    """Run All as soon as there is a kernel (before, the indicator also shows idle), and wait for the last prompt."""
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=PATIENCE)
    expect(page.locator(".jp-Toolbar-kernelName").first).not_to_have_text("No Kernel", timeout=PATIENCE)
    indicator = page.locator(".jp-Notebook-ExecutionIndicator").first
    expect(indicator).to_have_attribute("data-status", "idle", timeout=PATIENCE)
    for name in ("Run", "Run All Cells"):
        page.get_by_role("menuitem", name=name, exact=True).click()


def main(venv: Path, home: Path) -> None:
    """Open the notebook, run it, and count the failed cells."""
    cells = [cell for cell in json.loads((home / NOTEBOOK).read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    expected = sum("raises-exception" in cell["metadata"].get("tags", []) for cell in cells)
    chromium = shutil.which("chromium") or sys.exit("there is no chromium")
    with server(venv, home) as address, sync_playwright() as playwright:
        # The proxy that an environment may name is not for a server on this machine.
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(f"{address}?token={TOKEN}")  # no page named: binder/start leads to the notebook
        page.wait_for_url(f"{address}lab/tree/{NOTEBOOK}*", timeout=PATIENCE)
        run_all(page)
        started = time.monotonic()
        # JupyterLab draws only the cells in view, so the file tells what all of them did.
        seen = wait_for_end(page, home / NOTEBOOK, len(cells))
        browser.close()
    errors = [output for cell in seen for output in cell["outputs"] if output["output_type"] == "error"]
    if len(errors) != expected:
        raise SystemExit(f"{len(errors)} cells failed, {expected} should:\n{json.dumps(errors, indent=1)}")
    print(f"{len(seen)} cells ran in {time.monotonic() - started:.0f} s")


def wait_for_end(page: Page, path: Path, count: int) -> list[dict]:
    """Wait until the kernel is idle after the last cell, save, and read the saved notebook."""
    last = page.locator(".jp-Notebook .jp-CodeCell .jp-InputArea-prompt").last
    expect(page.locator(".jp-InputArea-prompt", has_text="[*]:")).to_have_count(0, timeout=PATIENCE)
    expect(last).to_have_text(re.compile(rf"\[{count}\]"), timeout=PATIENCE)
    expect(page.locator(".jp-Notebook-ExecutionIndicator").first).to_have_attribute(
        "data-status", "idle", timeout=PATIENCE
    )
    before = os.stat(path).st_mtime_ns
    page.locator(".jp-Notebook").first.click(position={"x": 2, "y": 2})
    page.keyboard.press("Control+s")
    end = time.monotonic() + 30
    while os.stat(path).st_mtime_ns == before:
        if time.monotonic() > end:
            raise SystemExit("the notebook could not be saved")
        time.sleep(0.1)
    time.sleep(0.5)
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
