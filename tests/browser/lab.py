"""A JupyterLab (or Voila) of its own, and a notebook in it driven by chromium; for scripts in processes of their own.

Playwright's sync API keeps an event loop running, which would break every test of the same process that wants one.
"""

from __future__ import annotations

import contextlib
import itertools
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
from urllib.parse import urlsplit

import nbformat
from playwright.sync_api import Locator, Page, expect, sync_playwright

from pipemagic import local

PATIENCE = 60_000  # ms


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def jupyterlab(folder: Path, *, dark: bool = False) -> Iterator[str]:
    """Run JupyterLab, which serves Notebook 7 too, over ``folder / "notebooks"`` in a home of its own."""
    root, settings = folder / "notebooks", folder / "settings/@jupyterlab/apputils-extension"
    root.mkdir(exist_ok=True)
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    if dark:
        (settings / "themes.jupyterlab-settings").write_text('{"theme": "JupyterLab Dark"}')
    port = free_port()
    command = ["jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}",
               "--ServerApp.port_retries=0", "--IdentityProvider.token=", f"--ServerApp.root_dir={root}"]  # fmt: skip
    with _running(command, folder, root, f"http://127.0.0.1:{port}/api/status"):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def voila(folder: Path, cells: list[str]) -> Iterator[str]:
    """Run Voila, which shows what the cells of a notebook show, without the cells."""
    path, port = folder / "app.ipynb", free_port()
    write(path, cells)
    command = ["voila", str(path), "--no-browser", "--Voila.ip=127.0.0.1", f"--port={port}", "--port_retries=0"]
    with _running(command, folder, folder, f"http://127.0.0.1:{port}/voila/static/voila.js"):
        yield f"http://127.0.0.1:{port}"


def write(path: Path, cells: list[str]) -> None:
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}  # without one, Lab asks
    nbformat.write(nbformat.v4.new_notebook(metadata=kernel, cells=list(map(nbformat.v4.new_code_cell, cells))), path)


@contextlib.contextmanager
def _running(command: list[str], folder: Path, root: Path, ready: str) -> Iterator[None]:
    """Run a server, whose home is a folder, until its time is over; ``ready`` answers once it is there."""
    own = {"HOME": "home", "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "share", "JUPYTER_RUNTIME_DIR": "run",
           "IPYTHONDIR": "ipython", "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
           "PIPEMAGIC_DATA": "data"}  # fmt: skip
    environment = {**os.environ, **{name: str(folder / place) for name, place in own.items()}}
    log = folder / f"{command[0]}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env=environment, cwd=root, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        _wait_for(ready, process, log)
        yield
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
    raise RuntimeError(f"{log.stem} did not start:\n{log.read_text('utf-8', 'replace')}")


@contextlib.contextmanager
def browser(chromium: str, *, width: int = 1280, height: int = 1000) -> Iterator[Page]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=chromium, args=["--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield running.new_page(viewport={"width": width, "height": height})
        running.close()


class Watch:
    """What a page should not do: raise errors, complain, ask other hosts than this machine."""

    def __init__(self, page: Page) -> None:
        self.errors: list[str] = []
        self.strangers: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("request", lambda request: self._ask(request.url))
        page.on("websocket", lambda socket: self._ask(socket.url))

    def _ask(self, url: str) -> None:
        at = urlsplit(url)
        if at.scheme not in ("data", "blob", "about") and at.hostname not in ("127.0.0.1", "localhost"):
            self.strangers.append(url)

    def check(self, *not_ours: str) -> None:
        """Assert that nothing of that happened, but for errors that hold one of some texts."""
        ours = [error for error in self.errors if not any(text in error for text in not_ours)]
        assert not ours, ours
        assert not self.strangers, self.strangers


class Album:
    """Numbered pictures of a way through a page, in PIPEMAGIC_SCREENSHOTS if that is set, else in a folder."""

    def __init__(self, page: Page, name: str, folder: Path) -> None:
        self._page, self._name = page, name
        self._folder = Path(os.environ.get("PIPEMAGIC_SCREENSHOTS") or folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._count = itertools.count(1)

    def take(self, what: str, element: Locator | None = None) -> None:
        """Take a picture of the page, or of one element of it."""
        path = self._folder / f"{self._name}-{next(self._count):02}-{what}.png"
        (element or self._page).screenshot(path=path)


class Notebook:
    """A notebook that is open in the browser."""

    def __init__(
        self, page: Page, address: str, folder: Path, cells: list[str], app: str = "lab/tree", name: str = "test"
    ) -> None:
        self.page, self.path = page, folder / "notebooks" / f"{name}.ipynb"
        write(self.path, cells)
        page.goto(f"{address}/{app}/{name}.ipynb" + ("?reset" if app.startswith("lab") else ""))
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
        self.done(number)

    def done(self, number: int) -> None:
        """Wait for the end of one cell."""
        prompt = self.cells.nth(number).locator(".jp-InputArea-prompt").first
        expect(prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=PATIENCE)
        self._idle()

    @property
    def panel(self) -> Locator:
        """The live panel, not its saved face."""
        return self.page.locator(".pipemagic-panel:not(.pipemagic-saved)").first

    def _idle(self) -> None:
        indicator = self.page.locator(".jp-Notebook-ExecutionIndicator").first
        expect(indicator).to_have_attribute("data-status", "idle", timeout=PATIENCE)

    def save(self) -> str:
        """Save the notebook; gives its text."""
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("Control+s")
        expect(self.page.locator(".jp-mod-dirty")).to_have_count(0, timeout=PATIENCE)
        return self.path.read_text("utf-8")
