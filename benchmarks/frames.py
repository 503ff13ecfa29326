"""A million cells from the service to a DataFrame beside `curl` of the same body."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pipemagic
from benchmarks.measure import Line, interleave, seconds
from benchmarks.servers import Target
from pipemagic.hrana import messages

ROWS = 200_000
QUERY = "SELECT id, price, name, day, amount FROM wide"
FILL = f"""
CREATE TABLE wide(id INTEGER PRIMARY KEY, price REAL, name TEXT, day TEXT, amount INTEGER);
INSERT INTO wide
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT {ROWS})
SELECT i, i * 0.37, 'customer ' || (i % 1000), date('2020-01-01', (i % 2000) || ' days'), nullif(i % 977, 0) FROM n
"""


def measure(target: Target, rounds: int, name: str = "the service") -> list[Line]:
    """Compare the time of a query to its DataFrame with that of `curl` alone."""
    curl = shutil.which("curl")
    with pipemagic.connect(target.url, target.token) as database, tempfile.TemporaryDirectory() as folder:
        database.batch(list(FILL.split(";")))
        candidates = {"frame": lambda: seconds(lambda: database.query(QUERY))}
        if curl is None:
            print("without curl: there is none", file=sys.stderr)
        else:
            body = Path(folder) / "body.json"
            request = [messages.Execute(messages.Stmt(QUERY)), messages.Close()]
            body.write_bytes(messages.pipeline(request))
            command = [curl, "--silent", "--fail", "--output", str(Path(folder) / "answer.json")]
            command += ["--data-binary", f"@{body}", f"{target.loopback}/v2/pipeline"]
            for header, value in target.headers.items():
                command += ["--header", f"{header}: {value}"]
            candidates["curl"] = lambda: seconds(lambda: subprocess.run(command, check=True))
        values = interleave(rounds, candidates)
    return [
        Line(
            f"{ROWS * 5:,} cells from {name} to a DataFrame", "s", values["frame"],
            "curl of the same body", values.get("curl"), aim=2.5 if curl else None,
        )
    ]  # fmt: skip
