"""The number of functions that the kernel calls for one cell."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest
from magic_shell import make_database

import pipemagic

FUNCTIONS, MODULES = 111, 25
WARM = RUNS = 5
HOME = f"{Path(pipemagic.__file__).parent.as_posix()}/"


@pytest.fixture
def calls():
    """Functions of the package that are called in this thread, and in threads that begin from now on."""
    calls: Counter[tuple[str, str]] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        file = code.co_filename.replace("\\", "/")
        if event == "call" and file.startswith(HOME) and not code.co_name.startswith("<"):
            calls[file.removeprefix(HOME), code.co_qualname] += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    yield calls
    sys.setprofile(None)
    threading.setprofile(None)


def test_a_warm_cell_calls_few_functions_of_few_modules(calls, shell, service, request, monkeypatch):
    url, token = make_database(service, request.node.nodeid)
    monkeypatch.setenv("DB_TOKEN", token)
    shell(f"%pipedb connect {url} --token-env DB_TOKEN")
    counts = []
    for _ in range(WARM + RUNS):
        calls.clear()
        shell.ip.run_line_magic("sql", "SELECT 1 AS one")
        counts.append(calls.copy())
    fewest = min(counts[WARM:], key=len)  # it includes no function of another thread
    modules = {module for module, _ in fewest}
    summary = f"{len(fewest)} functions in {len(modules)} modules, {fewest.total()} calls"
    listing = "\n".join(f"{count:3} {module} {function}" for (module, function), count in sorted(fewest.items()))
    assert 0 < len(fewest) <= FUNCTIONS, f"{summary}\n{listing}"
    assert len(modules) <= MODULES, f"{summary}\n{listing}"
