"""``python -m benchmarks``: measure, print a table, and with ``--json FILE`` write all samples."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.lines import Line, table
from benchmarks.measure import Plan, machine
from benchmarks.peers import Peers

PARTS = [
    "frames", "memory", "loading", "dbapi", "cells", "notes", "crowd", "lesson", "latency", "starts", "footprint",
]  # fmt: skip
"""The modules that measure; each has `measure(plan)`, which returns lines."""


def main(arguments: list[str] | None = None) -> int:
    """Run the selected parts; return 1 if a check was requested and failed."""
    options = _parse(arguments)
    print(machine(), flush=True)
    plan = Plan(short=options.short, peers=Peers(None if options.no_peers else options.peers))
    lines: list[Line] = []
    for part in options.parts or PARTS:
        found = importlib.import_module(f"benchmarks.{part}").measure(plan)
        print(f"\n{part}\n{table(found)}", flush=True)
        lines += found
    if options.json:
        result = {"machine": machine(), "time": datetime.now(UTC).isoformat(timespec="seconds")}
        options.json.write_text(json.dumps({**result, "lines": [line.as_json() for line in lines]}, indent=1) + "\n")
    missed = [line for line in lines if line.reached is False]
    far_off = [line for line in lines if line.far_off]
    print(f"\n{len(lines)} lines, {len(missed)} of them miss their aim, {len(far_off)} by half", flush=True)
    return int(bool(options.check and missed) or bool(options.check_half and far_off))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    add("--short", action="store_true", help="fewer rounds and rows, for a first look and for CI")
    add("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    add("--peers", type=Path, metavar="DIR", default=_cache(), help="where the other packages are kept (%(default)s)")
    add("--no-peers", action="store_true", help="do not install and measure other packages")
    add("--check", action="store_true", help="exit with 1 if an aim is missed")
    add("--check-half", action="store_true", help="exit with 1 if a ratio is not even half of its aim")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return options


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pipemagic-benchmarks"


if __name__ == "__main__":
    sys.exit(main())
