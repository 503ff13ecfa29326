"""The number of functions that the kernel calls for one cell."""

from __future__ import annotations

import json
import subprocess
import sys

import profiled_cell

FUNCTIONS, MODULES = 110, 25


def test_a_warm_cell_calls_few_functions_of_few_modules(tmp_path):
    run = subprocess.run(
        [sys.executable, profiled_cell.__file__],
        capture_output=True, text=True, timeout=300, check=True, cwd=tmp_path,
    )  # fmt: skip
    counts = json.loads(run.stdout.splitlines()[-1])
    modules = {module for module, _, _ in counts}
    summary = f"{len(counts)} functions in {len(modules)} modules, {sum(calls for *_, calls in counts)} calls"
    print(f"\none warm %sql SELECT 1: {summary}")
    assert counts, "nothing was counted"
    listing = "\n".join(f"{calls:3} {module} {function}" for module, function, calls in counts)
    assert len(counts) <= FUNCTIONS, f"{summary}\n{listing}"
    assert len(modules) <= MODULES, f"{summary}\n{listing}"
