"""``python -m benchmarks``: measure, print a table, and with ``--json FILE`` write everything down."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import cells, frames, load, replication, requests, servers, starts
from benchmarks.measure import Line, machine, table

PARTS = ["starts", "cells", "frames", "requests", "load", "replication"]


def main() -> int:
    """Run the chosen parts; 1 if --check was given and an aim was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--short", action="store_true", help="fewer repeats, for a first look and for CI")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    parser.add_argument("--check", action="store_true", help="exit with 1 if an aim is missed")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    print(machine(), flush=True)
    lines = measure(options.parts or PARTS, short=options.short)
    print(table(lines))
    if options.json:
        result = {"machine": machine(), "time": datetime.now(UTC).isoformat(timespec="seconds")}
        options.json.write_text(json.dumps({**result, "lines": [line.as_json() for line in lines]}, indent=1) + "\n")
    return int(options.check and any(line.reached is False for line in lines))


def measure(parts: list[str], *, short: bool) -> list[Line]:
    """Run the parts; never fewer than five rounds, since the medians are compared."""
    rounds = 5 if short else 11
    lines = []
    if "starts" in parts:
        lines += starts.measure(rounds)
    if {"cells", "frames", "requests"} & set(parts):
        with servers.service() as service:
            if "cells" in parts:
                lines += cells.measure(service, rounds, 50 if short else 300)
            if "frames" in parts:
                lines += frames.measure(service, rounds)
            if "requests" in parts:
                with servers.sqld() as sqld:
                    lines += requests.measure(service, sqld, rounds, 800 if short else 4000)
    if "load" in parts:
        lines += load.measure(seconds=5 if short else 30)
    if "replication" in parts:
        lines += replication.measure(rounds, megabytes=50 if short else 1000)
    return lines


if __name__ == "__main__":
    sys.exit(main())
