"""A JupyterLab of its own, and a notebook in it driven by chromium. Run by scripts, in processes of their own.

Playwright's sync API keeps an event loop running, which would break every test of the same process that wants one.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
from playwright.sync_api import Locator, Page, expect, sync_playwright

from pipemagic import local

PATIENCE = 60_000  # ms


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """Run JupyterLab over ``folder / "notebooks"`` with a home of its own; gives its address."""
    root, settings = folder / "notebooks", folder / "settings/@jupyterlab/apputils-extension"
    root.mkdir(exist_ok=True)
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    own = {"HOME": "home", "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "share", "JUPYTER_RUNTIME_DIR": "run",
           "IPYTHONDIR": "ipython", "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
           "PIPEMAGIC_DATA": "data"}  # fmt: skip
    environment = {**os.environ, **{name: str(folder / place) for name, place in own.items()}}
    port, log = free_port(), folder / "jupyterlab.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
             f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=",
             f"--ServerApp.root_dir={root}"],
            env=environment, cwd=root, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{address}/api/status", process, log)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        local.stop(folder / "data")


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text('utf-8', 'replace')}")


@contextlib.contextmanager
def browser(chromium: str) -> Iterator[Page]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=chromium, args=["--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield running.new_page(viewport={"width": 1280, "height": 1000})
        running.close()


class Notebook:
    """A notebook that is open in the browser."""

    def __init__(self, page: Page, address: str, folder: Path, cells: list[str], app: str = "lab/tree") -> None:
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}  # without one, Lab asks
        notebook = nbformat.v4.new_notebook(metadata=kernel, cells=list(map(nbformat.v4.new_code_cell, cells)))
        nbformat.write(notebook, folder / "notebooks" / "test.ipynb")
        self.page, self.path = page, folder / "notebooks" / "test.ipynb"
        page.goto(f"{address}/{app}/test.ipynb" + ("?reset" if app.startswith("lab") else ""))
        self.cells = page.locator(".jp-Notebook .jp-CodeCell")
        self.cells.first.wait_for(timeout=PATIENCE)
        # The indicator says "idle" before there is a kernel.
        expect(page.locator(".jp-Toolbar-kernelName").first).not_to_have_text("No Kernel", timeout=PATIENCE)
        self._idle()

    def output(self, number: int) -> Locator:
        return self.cells.nth(number).locator(".jp-OutputArea-output")

    def run(self, number: int) -> None:
        """Run one cell and wait for its end."""
        self.cells.nth(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        prompt = self.cells.nth(number).locator(".jp-InputArea-prompt").first
        expect(prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=PATIENCE)
        self._idle()

    def _idle(self) -> None:
        indicator = self.page.locator(".jp-Notebook-ExecutionIndicator").first
        expect(indicator).to_have_attribute("data-status", "idle", timeout=PATIENCE)

    def save(self) -> str:
        """Save the notebook; gives its text."""
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("Control+s")
        expect(self.page.locator(".jp-mod-dirty")).to_have_count(0, timeout=PATIENCE)
        return self.path.read_text("utf-8")
