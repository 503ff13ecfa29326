"""Test an emulated Binder build: start its server as Binder does, and visit the course.

Usage: python binder_visit.py VENV HOME. One core is used, 1 GB of memory, and no network but the loopback interface.
The base address with a prefix shows links that lack it, and the token shows requests that lack it.

The steps of the visit:

- the page of the course opens, and its link opens the first notebook;
- the cells up to the first DataFrame are run in three new kernels, and timed;
- the kernel is restarted: its service ends, and all cells run again;
- the page is loaded again: results, kernel and connection are still there.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from binder_container import MEMORY, Container, Core, entry, killed, memory_group
from playwright.sync_api import Page, expect, sync_playwright

COURSE = "notebooks/README.md"
NOTEBOOK = "notebooks/1-first-queries.ipynb"
LONGEST = 3.0  # s from the first cell to the first DataFrame
PREFIX, TOKEN = "/user/someone-repo-x1y2/", "a-token-of-the-hub"
PATIENCE = 180_000  # ms; a Binder has one core at most
REFUSED = "http://127.0.0.1:9"  # a proxy that does not exist
PICTURES = {"mybinder.org"}  # hosts of pictures that the page of the course names; their texts are shown instead


def has_network() -> bool:
    """Return whether this process has more interfaces than loopback."""
    return {name for _, name in socket.if_nameindex()} != {"lo"}


def environment(venv: Path, home: Path) -> dict[str, str]:
    """Return the variables of a container: the environment, a home; and proxies that refuse if there is a network."""
    variables = {"PATH": f"{venv}/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", "SHELL": "/bin/bash"}
    if has_network():
        variables |= dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), REFUSED)
        variables["no_proxy"] = "127.0.0.1,localhost,.localhost"
    return variables


@contextmanager
def server(venv: Path, home: Path, group: Path | None) -> Iterator[tuple[str, Container]]:
    """Start the server as Binder starts it; yield its address and its processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(home / "binder" / "start"), "jupyter", "lab", "--no-browser", "--allow-root"]
    command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command += [f"--ServerApp.base_url={PREFIX}", f"--IdentityProvider.token={TOKEN}"]
    log = home.parent / "server.log"
    started = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=home,
            env=environment(venv, home),
            preexec_fn=entry(group),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    address = f"http://127.0.0.1:{port}{PREFIX}"
    container = Container(process)
    try:
        wait_for(f"{address}api/status?token={TOKEN}", process, log)
        print(f"server: responds after {time.monotonic() - started:.1f} s")
        yield address, container
    finally:
        container.end()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server responds; raise SystemExit with its log otherwise."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    limit = time.monotonic() + 60
    while time.monotonic() < limit and process.poll() is None:
        try:
            direct.open(url, timeout=2).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"the server did not start:\n{log.read_text('utf-8', 'replace')}")


@contextmanager
def browser_page() -> Iterator[tuple[Page, set[str]]]:
    """Open a page in chromium; yield it, and the hosts that it requests something of."""
    chromium = shutil.which("chromium") or sys.exit("there is no chromium")
    # The proxy that an environment may name is not for a server on this machine.
    proxy = f"--proxy-server={REFUSED}" if has_network() else "--no-proxy-server"
    hosts: set[str] = set()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--disable-gpu", "--disable-dev-shm-usage", proxy]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname or ""))
        yield page, hosts
        browser.close()


def choose(page: Page, *names: str) -> None:
    """Choose an item of the menus of JupyterLab."""
    for name in names:
        page.get_by_role("menuitem", name=name, exact=True).click()


def open_course(page: Page, address: str) -> None:
    """Open the server without a path: JupyterLab shows the page of the course, as a page and not as text."""
    started = time.monotonic()
    page.goto(f"{address}?token={TOKEN}")
    page.wait_for_url(f"{address}lab/tree/{COURSE}*", timeout=PATIENCE)
    page.locator(".jp-MarkdownViewer h1").wait_for(timeout=PATIENCE)
    print(f"page of the course: displayed after {time.monotonic() - started:.1f} s")


def follow_link(page: Page, address: str) -> None:
    """Click the link to the notebook, and wait for its kernel."""
    started = time.monotonic()
    name = NOTEBOOK.rpartition("/")[2]
    page.locator(f'.jp-MarkdownViewer a[href*="{name}"]:not([href*="mybinder.org"])').first.click()
    page.wait_for_url(f"{address}lab/tree/{NOTEBOOK}*", timeout=PATIENCE)
    wait_for_kernel(page)
    print(f"notebook: its kernel is ready {time.monotonic() - started:.1f} s after a click on the link")


def wait_for_kernel(page: Page) -> None:
    """Wait until the kernel is idle; before there is one, the indicator also shows idle."""
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=PATIENCE)
    expect(page.locator(".jp-Toolbar-kernelName").first).not_to_have_text("No Kernel", timeout=PATIENCE)
    expect(page.locator(".jp-Notebook-ExecutionIndicator").first).to_have_attribute(
        "data-status", "idle", timeout=PATIENCE
    )


def restart(page: Page, container: Container, item: str) -> None:
    """Restart the kernel with this item of the menu; its process and its service must end."""
    kernels, services = container.processes("ipykernel_launcher"), container.processes("pipemagic/service")
    assert len(kernels) == len(services) == 1
    choose(page, "Kernel", item)
    page.locator(".jp-Dialog button.jp-mod-accept").click()
    _, alive = psutil.wait_procs(kernels + services, 30)
    if alive:
        raise SystemExit(f"still running after a restart of the kernel: {[one.cmdline() for one in alive]}")


def time_first_frame(page: Page, container: Container, core: Core, cells: list[dict]) -> float:
    """Run the cells up to the first that displays a DataFrame; return the seconds until it is displayed.

    Time in which other programs used the core does not count: a container has its core for itself.
    """
    count = next(number for number, cell in enumerate(cells, 1) if 'class=\\"dataframe\\"' in json.dumps(cell))
    frames = page.locator(".jp-Notebook table.dataframe")
    expect(frames).to_have_count(0)
    select_first_cell(page)
    started, others, used = time.monotonic(), core.used_by_others(), container.cpu()
    for _ in range(count):
        page.keyboard.press("Shift+Enter")
    frames.first.wait_for(timeout=PATIENCE)
    seconds, others, used = time.monotonic() - started, core.used_by_others() - others, container.cpu() - used
    print(
        f"first DataFrame: {seconds - others:.2f} s after the first cell, {used:.2f} s of them in the container;",
        f"{others:.2f} s in which other programs used the core are not counted",
    )
    return seconds - others


def select_first_cell(page: Page) -> None:
    """Select the first cell, in command mode."""
    page.locator(".jp-Notebook .jp-Cell").first.click(position={"x": 5, "y": 5})
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Home")


def time_first_frames(page: Page, container: Container, core: Core, cells: list[dict]) -> None:
    """Time the first cells in three kernels; the best counts."""
    choose(page, "Edit", "Clear Outputs of All Cells")
    times = [time_first_frame(page, container, core, cells)]
    for _ in range(2):
        restart(page, container, "Restart Kernel and Clear Outputs of All Cells…")
        wait_for_kernel(page)
        times.append(time_first_frame(page, container, core, cells))
    if min(times) > LONGEST:
        raise SystemExit(f"the first DataFrame takes more than {LONGEST:.0f} s")


def run_all(page: Page, container: Container, path: Path) -> None:
    """Restart the kernel and run all cells; compare the number of failed cells with that of the tags."""
    started = time.monotonic()
    restart(page, container, "Restart Kernel and Run All Cells…")
    cells = wait_for_end(page, path)
    failed = [output for cell in cells for output in cell["outputs"] if output["output_type"] == "error"]
    expected = sum("raises-exception" in cell["metadata"].get("tags", []) for cell in cells)
    if len(failed) != expected:
        raise SystemExit(f"{len(failed)} cells failed, {expected} should:\n{json.dumps(failed, indent=1)}")
    print(f"Run All after a restart of the kernel: {len(cells)} cells in {time.monotonic() - started:.0f} s")


def code_cells(path: Path) -> list[dict]:
    """Return the code cells of a notebook file."""
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def wait_for_end(page: Page, path: Path) -> list[dict]:
    """Wait until the kernel is idle after the last cell and the notebook is saved; return its code cells.

    JupyterLab draws only the cells in view, so the file tells what all of them did. JupyterLab saves it by itself.
    """
    count = len(code_cells(path))
    last = page.locator(".jp-Notebook .jp-CodeCell .jp-InputArea-prompt").last
    expect(last).to_have_text(re.compile(rf"\[{count}\]"), timeout=PATIENCE)
    expect(page.locator(".jp-InputArea-prompt", has_text="[*]:")).to_have_count(0, timeout=PATIENCE)
    wait_for_kernel(page)
    expect(page.locator(".jp-mod-dirty")).to_have_count(0, timeout=PATIENCE)
    return code_cells(path)


def reload(page: Page, container: Container) -> None:
    """Load the page again: the results are displayed, the kernel is the same, and the connection can be used."""
    kernels = container.processes("ipykernel_launcher")
    frames = page.locator(".jp-Notebook table.dataframe")  # also those that are not in view
    before = frames.all_text_contents()
    page.reload()
    wait_for_kernel(page)
    expect(frames).to_have_count(len(before), timeout=PATIENCE)
    assert before
    assert frames.all_text_contents() == before
    run_new_cell(page, "%sql SELECT 6 * 7 AS answer")
    expect(frames.filter(has_text="42").last).to_be_visible(timeout=PATIENCE)
    assert container.processes("ipykernel_launcher") == kernels
    print(f"page loaded again: {len(before)} DataFrames are displayed, kernel and connection are in use")


def run_new_cell(page: Page, source: str) -> None:
    """Insert a cell below the first one, and run it."""
    select_first_cell(page)
    page.keyboard.press("b")
    page.keyboard.press("Enter")
    page.keyboard.type(source)
    page.keyboard.press("Control+Enter")


def visit(page: Page, address: str, container: Container, core: Core, home: Path) -> None:
    """Do the steps of the visit."""
    cells = json.loads((home / NOTEBOOK).read_text("utf-8"))["cells"]
    open_course(page, address)
    follow_link(page, address)
    time_first_frames(page, container, core, cells)
    run_all(page, container, home / NOTEBOOK)
    reload(page, container)


def report_memory(container: Container, group: Path | None) -> None:
    """Print the peak of the memory, and raise SystemExit if it was more than the limit."""
    limit = "limit set by a control group" if group else "no control group: measured only"
    print(f"memory: {container.peak >> 20} MB at the peak (PSS), of {MEMORY >> 20} MB; {limit}")
    if container.peak > MEMORY or (group and killed(group)):
        raise SystemExit("the memory of a Binder is not enough")


def main(venv: Path, home: Path) -> None:
    """Visit the course, and print what it took."""
    core = Core()
    print("network:", "proxies that refuse" if has_network() else "a namespace that has only the loopback interface")
    with memory_group() as group, server(venv, home, group) as (address, container):
        with container.measured(), browser_page() as (page, hosts):
            visit(page, address, container, core, home)
        report_memory(container, group)
    others = hosts - {"127.0.0.1", ""}
    print("other hosts that the page names:", ", ".join(sorted(others)) or "none")
    if others - PICTURES:
        raise SystemExit("the page needs other hosts")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
