"""Measure start times in new processes: loading, and from connecting to a DataFrame."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from benchmarks.lines import Line, below
from benchmarks.measure import Plan, interleave

SHELL = """
import json, time
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
begin = time.perf_counter()
shell.run_line_magic("load_ext", "pipemagic")
loaded = time.perf_counter()
"""

# Each runs in a new process with a new data folder, and prints seconds.
LOAD_EXT = SHELL + "print(json.dumps(loaded - begin))"
FIRST_FRAME = (
    SHELL
    + """
shell.run_line_magic("pipedb", "connect")
frame = shell.run_cell_magic("sql", "", "SELECT 1 AS one")
seen = time.perf_counter()
assert frame.to_dict("list") == {"one": [1]}
shell.run_line_magic("pipedb", "stop")
print("\\n" + json.dumps(seen - loaded))
"""
)


def measure(plan: Plan) -> list[Line]:
    """Time all of them; the files are in the system's cache, the service does not run yet."""
    values = interleave(
        plan.rounds,
        {
            "load_ext": lambda: run(LOAD_EXT),
            "first frame": lambda: run(FIRST_FRAME),
            "jupysql": lambda: _load_jupysql(plan),
        },
    )
    theirs = [value for value in values["jupysql"] if value is not None]
    return [
        Line("%load_ext pipemagic", "s", values["load_ext"], "%load_ext sql (JupySQL)", theirs, below(0.1)),
        Line("%pipedb connect, service started, to the first DataFrame", "s", values["first frame"], aim=below(1.0)),
    ]


def run(script: str) -> float:
    """Run a script in a new process; return the seconds that it prints last."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PIPEMAGIC_DATA": folder}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(json.loads(done.stdout.splitlines()[-1]))


def _load_jupysql(plan: Plan) -> float | None:
    took: list[float] = []
    with plan.peers.working(["jupysql"], lambda peer: took.append(peer.seconds("load_ext"))):
        return took[0] if took else None
