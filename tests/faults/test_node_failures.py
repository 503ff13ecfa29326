"""Cells go on, and lose nothing, while the nodes of the sqld engine are killed and come back."""

from __future__ import annotations

import threading
import time

import pytest
from promises import Promise
from sqld_engine import SqldEngineProcess
from waiting import until

pytestmark = pytest.mark.promise(Promise.DURABILITY)

MOST = 90.0  # seconds


@pytest.fixture
def engine(sqld_binary, tmp_path):
    engine = SqldEngineProcess(sqld_binary, tmp_path / "engine")
    engine.manage("POST", "/groups/default/locations/nrt")
    yield engine
    engine.close()


class Kills(threading.Thread):
    """Kills one node after the other, each when cells have succeeded at both since the last one came back."""

    def __init__(self, engine, codes, progress):
        super().__init__(daemon=True)
        self.engine, self.codes, self.progress = engine, codes, progress
        self.failure = None

    def run(self):
        try:
            for code in self.codes:
                self.wait_for_cells()
                self.engine.kill_node(code)
                self.engine.restart_node(code)
            self.wait_for_cells()
        except BaseException as error:  # noqa: BLE001 - the test tells
            self.failure = error

    def wait_for_cells(self):
        seen, end = [count() for count in self.progress], time.monotonic() + MOST / 3
        while any(count() < before + 10 for count, before in zip(self.progress, seen, strict=True)):
            if time.monotonic() > end:
                raise TimeoutError("no cells succeed")
            time.sleep(0.02)


def test_cells_lose_no_acknowledged_write_when_nodes_die(shell, engine, monkeypatch):
    """`%%sql` writes at the primary, reads at the primary and at a replica; both nodes die twice meanwhile."""
    name = engine.create()
    monkeypatch.setenv("DB_TOKEN", engine.mint(name))
    shell(f"%pipedb connect {engine.address(name)} --as main --token-env DB_TOKEN --timeout 5")
    shell(f"%pipedb connect {engine.address(name, 'nrt')} --as nearby --token-env DB_TOKEN --timeout 5")
    shell("%%sql --on main\nCREATE TABLE t(id INTEGER PRIMARY KEY)")
    acknowledged, at_main, nearby, failures = [], [], [], []
    kills = Kills(
        engine, ("nrt", "ams", "ams", "nrt"), [lambda: len(acknowledged), lambda: len(at_main), lambda: len(nearby)]
    )
    kills.start()
    number, end = 0, time.monotonic() + MOST
    while kills.is_alive():
        assert time.monotonic() < end
        number += 1
        written = shell.run(f"%%sql --on main\nINSERT INTO t VALUES ({number})")
        if written.error is None:
            acknowledged.append(number)
        else:
            failures.append(written)
        for where, seen in (("main", at_main), ("nearby", nearby)):
            read = shell.run(f"%%sql --on {where}\nSELECT count(*) AS n FROM t")
            if read.error is not None:
                failures.append(read)
                continue
            count = int(read.value["n"].iloc[0])
            assert count >= (len(acknowledged) if where == "main" else max(seen, default=0))
            seen.append(count)
    kills.join()
    assert kills.failure is None
    there = set(shell("%%sql --on main\nSELECT id FROM t").value["id"])
    assert set(acknowledged) <= there
    assert failures, "nothing was felt of four dead nodes"
    codes = [(failure.out + failure.err).partition(":")[0] for failure in failures]
    assert set(codes) <= {"CONNECT", "UNKNOWN_OUTCOME", "SERVER", "REPLICA"}
    # A row too many is one whose answer was lost, and the cell said so.
    assert len(there - set(acknowledged)) <= len(codes) - codes.count("CONNECT")
    until(lambda: set(shell("%%sql --on nearby\nSELECT id FROM t").value["id"]) == there, seconds=MOST)
