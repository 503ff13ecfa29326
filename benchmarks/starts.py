"""How long it takes until something can be seen: `%load_ext`, and from `connect` to the first DataFrame."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from benchmarks.measure import Line

# Each runs in a process and a data folder of its own.
SCRIPT = """
import json, sys, time
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
begin = time.perf_counter()
shell.run_line_magic("load_ext", "pipemagic")
loaded = time.perf_counter()
shell.run_line_magic("pipedb", "connect")
frame = shell.run_cell_magic("sql", "", "SELECT 1 AS one")
seen = time.perf_counter()
assert frame.to_dict("list") == {"one": [1]}
shell.run_line_magic("pipedb", "stop")
print("\\n" + json.dumps({"load_ext": loaded - begin, "first_frame": seen - loaded}))
"""


def measure(rounds: int) -> list[Line]:
    """Time both in fresh processes; the files are in the system's cache, the service does not run yet."""
    values: dict[str, list[float]] = {"load_ext": [], "first_frame": []}
    for number in range(rounds + 1):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(
                [sys.executable, "-c", SCRIPT],
                env={**os.environ, "PIPEMAGIC_DATA": folder}, capture_output=True, text=True, check=False,
            )  # fmt: skip
        if run.returncode:
            raise RuntimeError(run.stderr)
        times = json.loads(run.stdout.splitlines()[-1])
        if number:
            for name, seconds in times.items():
                values[name].append(seconds)
    return [
        Line("%load_ext pipemagic", "s", values["load_ext"], aim=0.1),
        Line("%pipedb connect, service started, to the first DataFrame", "s", values["first_frame"], aim=1.5),
    ]
