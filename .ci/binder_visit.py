"""Start JupyterLab as Binder does and run the first notebook beside it, on one core: `binder_visit.py VENV HOME`."""

import os
import sys
import time
from contextlib import suppress
from urllib.request import urlopen

import psutil

PORT, BASE, PAGE = 8899, "/user/x/", "lab/tree/README.md"
LAB = ["binder/start", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={PORT}", "--ServerApp.port_retries=0"]
NOTEBOOK = "notebooks/1-queries.ipynb"
MEMORY = 1 << 30  # bytes


def memory() -> int:
    """Return the memory of all that this process started; shared pages count once."""
    total = 0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it ended meanwhile
            total += process.memory_full_info().pss
    return total


def first_page() -> str:
    """Return the address to which the new server redirects."""
    for _ in range(120):
        with suppress(OSError), urlopen(f"http://127.0.0.1:{PORT}{BASE}", timeout=60) as response:
            return str(response.url)
        time.sleep(0.5)
    sys.exit("the server did not start")


def main(venv: str, home: str) -> None:
    """Run the notebook, and print the peak of the memory."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.chdir(home)
    os.environ.clear()
    os.environ.update(PATH=f"{venv}/bin:/usr/bin:/bin", HOME=home, LANG="C.UTF-8")
    psutil.Popen([*LAB, f"--ServerApp.base_url={BASE}", "--IdentityProvider.token="])
    try:
        page, peak = first_page(), 0
        run = psutil.Popen(["jupyter", "execute", "--timeout=180", NOTEBOOK])
        while run.poll() is None and peak <= MEMORY:
            peak = max(peak, memory())
            time.sleep(0.2)
    finally:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                process.kill()
    print(f"memory: {peak >> 20} MB at the peak, of {MEMORY >> 20} MB; first page: {page}")
    sys.exit(run.poll() != 0 or peak > MEMORY or not page.endswith(BASE + PAGE))


if __name__ == "__main__":
    main(*sys.argv[1:])
