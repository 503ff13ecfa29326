"""Run JupyterLab, and drive its notebooks in chromium, from scripts in a separate process (see host.py).

Playwright's sync API keeps an event loop running, which would break every test of the same process that wants one.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import nbformat
from ipykernel.kernelspec import get_kernel_dict
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Response, expect, sync_playwright
from playwright.sync_api import TimeoutError as TookTooLong

from pipemagic import launcher

PATIENCE = 60_000  # ms, default timeout
BEGIN = 30_000  # ms until a cell shows that it was started, or a notebook that it was saved
INTERVAL = 50  # ms between checks of the state of a notebook

EXTENSION = Path(__file__).parents[2] / "labextension"

NOTIFICATIONS = "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
PAGE_CONFIG = "config/labconfig/page_config.json"
THEMES = "settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings"
COMPLETER = "settings/@jupyterlab/completer-extension/manager.jupyterlab-settings"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# The indicator says "idle" before there is a kernel.
IDLE = "document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle'"
OPENED = f"""() => document.querySelector(".jp-Notebook .jp-CodeCell") && {IDLE}
  && !["", "No Kernel"].includes((document.querySelector(".jp-Toolbar-kernelName")?.textContent ?? "").trim())"""
BEGUN = """([number, before]) => {
  const prompt = document.querySelectorAll(".jp-Notebook .jp-CodeCell")[number].querySelector(".jp-InputArea-prompt");
  return prompt.textContent !== before && /\\[(\\*|\\d+)\\]/.test(prompt.textContent);
}"""
DONE = f"""(number) => {IDLE} && /\\[\\d+\\]/.test(document.querySelectorAll(".jp-Notebook .jp-CodeCell")[number]
  .querySelector(".jp-InputArea-prompt").textContent)"""

expect.set_options(timeout=PATIENCE)  # the default of 5 s is too short for a busy machine

_shared = contextlib.ExitStack()
"""Resources shared by the scripts of a process until its end: one chromium, one JupyterLab."""

atexit.register(_shared.close)


@dataclass(frozen=True)
class Lab:
    """JupyterLab for one script, with its own folder for notebooks and its own kernel home."""

    address: str
    notebooks: Path
    kernel: str
    themes: Path
    page_config: Path

    def url(self, path: Path, app: str) -> str:
        """Return the address of a notebook in an application: ``lab/tree``, ``notebooks`` or ``voila/render``."""
        reset = "?reset" if app.startswith("lab") else ""
        return f"{self.address}/{app}/{self.notebooks.name}/{path.name}{reset}"

    def write(self, name: str, cells: list[str]) -> Path:
        """Write a notebook."""
        path = self.notebooks / f"{name}.ipynb"
        kernel = {
            "kernelspec": {"name": self.kernel, "display_name": "Python 3"}
        }  # without one, JupyterLab shows a dialog
        content = nbformat.v4.new_notebook(metadata=kernel, cells=list(map(nbformat.v4.new_code_cell, cells)))
        nbformat.write(content, path)
        return path

    def set_theme(self, name: str) -> None:
        """Set the theme of pages loaded from now on."""
        self.themes.write_text(json.dumps({"theme": name}), "utf-8")

    def disable(self, *extensions: str) -> None:
        """Disable lab extensions, and no others, in pages loaded from now on, as if they were not installed."""
        self.page_config.write_text(json.dumps({"disabledExtensions": dict.fromkeys(extensions, True)}), "utf-8")

    def end_kernels(self) -> None:
        """End the sessions and kernels, which end their own child processes."""
        with httpx.Client(base_url=self.address, timeout=PATIENCE / 1000) as server:
            for session in server.get("/api/sessions").raise_for_status().json():
                server.delete(f"/api/sessions/{session['id']}").raise_for_status()
            for kernel in server.get("/api/kernels").raise_for_status().json():  # those of Voila
                server.delete(f"/api/kernels/{kernel['id']}").raise_for_status()


@contextlib.contextmanager
def jupyterlab(folder: Path, *, dark: bool = False) -> Iterator[Lab]:
    """Yield the JupyterLab, which also serves Notebook 7 and Voila. The folder is the home of its kernel."""
    address, home = _server()
    with tempfile.TemporaryDirectory(dir=home / "notebooks", prefix="test-") as notebooks:
        name = Path(notebooks).name
        lab = Lab(address, Path(notebooks), name, home / THEMES, home / PAGE_CONFIG)
        lab.set_theme("JupyterLab Dark" if dark else "JupyterLab Light")
        kernel = home / "share/kernels" / name
        kernel.mkdir(parents=True)
        own = {
            "HOME": str(folder / "home"),
            "IPYTHONDIR": str(folder / "ipython"),
            "PIPEMAGIC_DATA": str(folder / "data"),
        }
        (kernel / "kernel.json").write_text(json.dumps({**get_kernel_dict(), "env": own}), "utf-8")
        with contextlib.ExitStack() as ends:
            ends.callback(launcher.stop, folder / "data")
            ends.callback(shutil.rmtree, kernel)
            ends.callback(lab.end_kernels)
            ends.callback(lab.disable)
            yield lab


@functools.cache
def _server() -> tuple[str, Path]:
    """Start JupyterLab; return its address and home."""
    home = Path(_shared.enter_context(tempfile.TemporaryDirectory(prefix="jupyterlab-")))
    root, notifications = home / "notebooks", home / NOTIFICATIONS
    root.mkdir()
    for path in (notifications, home / PAGE_CONFIG, home / COMPLETER):
        path.parent.mkdir(parents=True)
    notifications.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    # JupyterLab ignores completions that take longer than a second.
    (home / COMPLETER).write_text(json.dumps({"providerTimeout": PATIENCE}), "utf-8")
    shutil.copytree(EXTENSION, home / "share/labextensions/pipemagic-sql")
    port = free_port()
    command = ["jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}",
               "--ServerApp.port_retries=0", "--LabApp.expose_app_in_browser=True",
               "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True",
               f"--ServerApp.root_dir={root}"]  # fmt: skip
    _shared.enter_context(_running(command, home, root, f"http://127.0.0.1:{port}/api/status"))
    return f"http://127.0.0.1:{port}", home


@contextlib.contextmanager
def _running(command: list[str], folder: Path, root: Path, ready: str) -> Iterator[None]:
    """Run a server with a folder as its home; ``ready`` is a URL that responds once it has started."""
    own = {"HOME": "home", "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "share", "JUPYTER_RUNTIME_DIR": "run",
           "IPYTHONDIR": "ipython", "JUPYTERLAB_SETTINGS_DIR": "settings",
           "JUPYTERLAB_WORKSPACES_DIR": "workspaces"}  # fmt: skip
    environment = {**os.environ, **{name: str(folder / place) for name, place in own.items()}}
    environment["JUPYTER_PREFER_ENV_PATH"] = "0"  # else an installed copy of the lab extension hides that of the folder
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


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=30).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"{log.stem} did not start:\n{log.read_text('utf-8', 'replace')}")


@functools.cache
def _chromium(path: str) -> Browser:
    """Start chromium."""
    playwright = _shared.enter_context(sync_playwright())
    running = playwright.chromium.launch(executable_path=path, args=["--disable-gpu", "--disable-dev-shm-usage"])
    _shared.callback(running.close)
    return running


@contextlib.contextmanager
def browser(chromium: str, *, width: int = 1280, height: int = 1000, scale: float = 1) -> Iterator[Page]:
    """Yield a page with its own profile; ``scale`` is the number of pixels of a picture for each CSS pixel."""
    size = {"width": width, "height": height}
    with _chromium(chromium).new_context(viewport=size, device_scale_factor=scale) as profile:
        profile.set_default_timeout(PATIENCE)
        yield profile.new_page()


def copied_text(page: Page, start: str) -> str:
    """Wait until the clipboard has a text that begins with ``start``, and return it: a page copies after the click."""
    take = "(start) => navigator.clipboard.readText().then((text) => text.startsWith(start) && text)"
    return str(page.wait_for_function(take, arg=start, polling=INTERVAL).json_value())


REMOVED_BOX = "Could not add child view to box"
"""The error of ipywidgets for a box that is removed before the views of its children exist, as on a busy machine.

If one of its children has no view, there is another error: `Could not create a view for model`.
"""


class Watch:
    """Records errors of a page, in scripts and the console, and its requests to other hosts."""

    def __init__(self, page: Page) -> None:
        self.errors: list[str] = []
        self.foreign_requests: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._complain)
        page.on("request", lambda request: self._ask(request.url))
        page.on("websocket", lambda socket: self._ask(socket.url))

    def _complain(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} {message.location['url']}")

    def _ask(self, url: str) -> None:
        at = urlsplit(url)
        if at.scheme not in ("data", "blob", "about") and at.hostname not in ("127.0.0.1", "localhost"):
            self.foreign_requests.append(url)

    def check(self, *not_ours: str) -> None:
        """Assert that none were recorded, except errors that contain one of some texts."""
        ours = [error for error in self.errors if not any(text in error for text in (REMOVED_BOX, *not_ours))]
        assert not ours, ours
        assert not self.foreign_requests, self.foreign_requests


class Album:
    """Numbered screenshots in the folder PIPEMAGIC_SCREENSHOTS; without it, only of failures."""

    def __init__(self, page: Page, name: str, folder: Path) -> None:
        self._page, self._name = page, name
        wanted = os.environ.get("PIPEMAGIC_SCREENSHOTS")
        self._all = bool(wanted)
        self._folder = Path(wanted or folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._count = itertools.count(1)

    def take(self, what: str, element: Locator | None = None, *, failed: bool = False) -> None:
        """Take a screenshot of the page or an element, if enabled."""
        path = self._folder / f"{self._name}-{next(self._count):02}-{what}.png"
        if self._all or failed:
            (element or self._page).screenshot(path=path)


def _is_save(response: Response) -> bool:
    return response.request.method == "PUT" and "/api/contents/" in response.url and response.ok


class Notebook:
    """A notebook that is open in the browser."""

    def __init__(self, page: Page, lab: Lab, cells: list[str], app: str = "lab/tree", name: str = "test") -> None:
        self.page, self.path = page, lab.write(name, cells)
        page.goto(lab.url(self.path, app))
        self.cells = page.locator(".jp-Notebook .jp-CodeCell")
        self._wait_for(OPENED)

    def output(self, number: int) -> Locator:
        return self.cells.nth(number).locator(".jp-OutputArea-output")

    def run(self, number: int) -> None:
        """Run one cell by a click and a key, and wait for its end."""

        def start() -> None:
            self.cells.nth(number).locator(".cm-content").click()
            self.page.keyboard.press("Control+Enter")

        self.run_by(start, number)

    def run_by(self, start: Callable[[], None], number: int) -> None:
        """Run one cell by some input and wait for its end."""
        before = self.cells.nth(number).locator(".jp-InputArea-prompt").first.text_content()
        for _ in range(3):  # JupyterLab may lose a key or a click when it redraws the cell
            start()
            with contextlib.suppress(TookTooLong):
                self.page.wait_for_function(BEGUN, arg=[number, before], polling=INTERVAL, timeout=BEGIN)
                break
        self.done(number)

    def done(self, number: int) -> None:
        """Wait for the end of one cell."""
        self._wait_for(DONE, number)

    @property
    def panel(self) -> Locator:
        """The live panel, or the tabs of all panels."""
        return self.page.locator(".pipemagic-tabs, .pipemagic-panel").first

    def _wait_for(self, condition: str, number: int = 0) -> None:
        """Wait for a condition, with shorter intervals than `expect`, which checks once a second."""
        self.page.wait_for_function(condition, arg=number, polling=INTERVAL)

    def save(self) -> str:
        """Save the notebook and return its text."""
        for left in (2, 1, 0):  # JupyterLab may lose the key when the focused element disappears
            self.page.keyboard.press("Escape")
            try:
                with self.page.expect_response(_is_save, timeout=BEGIN):
                    self.page.keyboard.press("Control+s")
                break
            except TookTooLong:
                if not left:
                    raise
        expect(self.page.locator(".jp-mod-dirty")).to_have_count(0)
        return self.path.read_text("utf-8")
