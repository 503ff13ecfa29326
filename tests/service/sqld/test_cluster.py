"""Processes of local nodes: their start, their end, and signals. A script replaces sqld."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from waiting import until

from pipemagic.errors import ServiceError
from pipemagic.service.sqld.admin import Admin
from pipemagic.service.sqld.cluster import NodeProcess, start_cluster
from pipemagic.service.sqld.nodes import Node

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
NODE = Node("ams", "http://127.0.0.1:9", "http://127.0.0.1:9")


def script(folder: Path, text: str) -> Path:
    path = folder / "sqld"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A running node."""
    process = NodeProcess(NODE, tmp_path / "node", (str(script(tmp_path, "exec sleep 600")),))
    process.start()
    yield process
    process.set_stopped(True)


def test_a_node_that_ends_at_its_start_is_reported_at_once(tmp_path: Path):
    binary = script(tmp_path, "echo first line; echo 'Error: the port is in use' >&2; exit 3")
    with pytest.raises(ServiceError, match=r"(?s)ams ended with 3: first line.*Error: the port is in use") as raised:
        start_cluster(binary, tmp_path / "nodes", 1)
    assert (raised.value.code, "sqld.log" in raised.value.hint) == ("NODE_DOWN", True)


def test_the_reason_of_an_earlier_start_is_not_repeated(tmp_path: Path):
    start = partial(start_cluster, tmp_path / "sqld", tmp_path / "nodes", 1)
    script(tmp_path, "echo 'Error: the port is in use'; exit 3")
    with pytest.raises(ServiceError, match="ended with 3: Error: the port is in use"):
        start()
    script(tmp_path, "exit 4")
    with pytest.raises(ServiceError, match="ended with 4: it has logged nothing"):
        start()


def test_a_program_that_cannot_run_is_reported(tmp_path: Path):
    binary = tmp_path / "sqld"
    binary.write_bytes(b"\x7fELF, but not a program")
    binary.chmod(0o700)
    with pytest.raises(ServiceError, match="ams cannot be started") as raised:
        start_cluster(binary, tmp_path / "nodes", 1)
    assert "PIPEMAGIC_SQLD" in raised.value.hint


def test_a_node_whose_program_is_missing_is_tried_again(node: NodeProcess, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipemagic.service.sqld.cluster.RESTART_INTERVAL", 0.0)
    program = Path(node._arguments[0])
    program.rename(program.with_name("moved"))
    node.restart()
    assert not node.ensure_running()
    program.with_name("moved").rename(program)
    assert node.ensure_running()
    assert node._process.poll() is None


def test_a_node_that_ends_repeatedly_is_started_at_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    now = 0.0
    monkeypatch.setattr("pipemagic.service.sqld.cluster.time.monotonic", lambda: now)
    process = NodeProcess(NODE, tmp_path / "node", (str(script(tmp_path, "exit 1")),))
    process.start()
    starts = 1
    for seconds in range(20):
        now = float(seconds)
        process._process.wait()
        starts += process.ensure_running()
    process.set_stopped(True)
    assert starts == 10


def test_a_node_that_ended_after_a_while_is_started_at_once(node: NodeProcess, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(node, "_started", time.monotonic() - 10)
    ended = node._process.pid
    node._process.kill()
    node._process.wait()
    assert node.ensure_running()
    assert (psutil.pid_exists(ended), psutil.pid_exists(node._process.pid)) == (False, True)


def test_the_log_has_the_reason_of_a_nodes_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr("pipemagic.service.sqld.cluster.RESTART_INTERVAL", 0.0)
    process = NodeProcess(NODE, tmp_path / "node", (str(script(tmp_path, "echo 'Error: no such file'; exit 5")),))
    process.start()
    process._process.wait()
    for removed in (False, True):
        if removed:
            process._log.unlink()
        process.ensure_running()
        process._process.wait()
    process.set_stopped(True)
    ends = [record.getMessage() for record in caplog.records if "started again" in record.getMessage()]
    assert ends == [f"the node ams ended with 5 and is started again: {why}"
                    for why in ("Error: no such file", "it has logged nothing")]  # fmt: skip


def test_only_the_end_of_a_long_log_is_read(node: NodeProcess):
    with node._log.open("ab") as log:
        log.truncate(20_000_000)
        log.seek(0, os.SEEK_END)
        log.write("é".encode() * 3000 + b"\nError: the disk is full\n")
    tracemalloc.start()
    try:
        tail = node._log_tail()
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert tail.endswith("é\nError: the disk is full")
    assert "\ufffd" not in tail


def test_the_client_that_waits_for_a_node_is_closed(node: NodeProcess, monkeypatch: pytest.MonkeyPatch):
    admins: list[Admin] = []
    monkeypatch.setattr(Admin, "check", lambda admin: admins.append(admin))
    node.wait_until_ready()
    assert [admin._client.is_closed for admin in admins] == [True]


def test_a_stopped_node_stays_down_until_it_is_resumed(node: NodeProcess):
    node.set_stopped(True)
    assert not node.ensure_running()
    node.set_stopped(False)
    assert node.ensure_running()


def test_a_folder_with_a_running_node_is_refused(node: NodeProcess, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipemagic.service.sqld.cluster.LOCK_TIMEOUT", 0.1)
    for _ in range(2):
        with pytest.raises(ServiceError, match=rf"another sqld \(process {node._process.pid}\) runs") as raised:
            NodeProcess(NODE, node._folder, node._arguments).start()
        assert raised.value.code == "FOLDER_IN_USE"


def test_a_node_that_is_suspended_with_its_watcher_is_restarted(node: NodeProcess, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipemagic.service.sqld.cluster.RESTART_INTERVAL", 0.0)
    watcher = psutil.Process(node._watcher.pid)
    suspended = [psutil.Process(node._process.pid), watcher, *watcher.children()]
    for process in suspended:
        process.suspend()
    restart = threading.Thread(target=node.restart, daemon=True)
    restart.start()
    restart.join(10)
    try:
        assert not restart.is_alive()
        assert node.ensure_running()
        assert until(lambda: not [process for process in suspended if process.is_running()])
    finally:
        for process in suspended:
            with suppress(psutil.NoSuchProcess):
                process.resume()


@pytest.mark.skipif(not os.access(LAST_PID, os.W_OK), reason="the kernel does not let this user choose process ids")
def test_a_process_with_the_id_of_a_dead_node_is_not_killed(node: NodeProcess):
    """The watcher of the node is stopped while its process id is used again, as on a very busy machine."""
    dead = node._process.pid
    watchers = [psutil.Process(node._watcher.pid), *psutil.Process(node._watcher.pid).children()]
    for watcher in watchers:
        watcher.suspend()
    os.kill(dead, signal.SIGKILL)
    node._process.wait()
    other = process_with_id(dead)
    try:
        for watcher in watchers:
            watcher.resume()
        node.set_stopped(True)
        assert node._watcher.returncode == -signal.SIGKILL, "it has ended its group"
        time.sleep(0.1)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def process_with_id(wanted: int) -> subprocess.Popen[bytes]:
    """Start a process with an id that is free."""
    for _ in range(200):
        LAST_PID.write_text(str(wanted - 1))
        process = subprocess.Popen(["/bin/sleep", "600"])
        if process.pid == wanted:
            return process
        process.kill()
        process.wait()
    pytest.skip("another process takes the id each time")


def test_the_node_ends_with_the_service(tmp_path: Path):
    """The service is killed; a node that is stopped ends, too."""
    code = (
        "import sys, time; from pathlib import Path; from pipemagic.service.sqld.cluster import NodeProcess\n"
        "from pipemagic.service.sqld.nodes import Node\n"
        f"node = NodeProcess(Node('ams', 'http://h', 'http://h'), Path({str(tmp_path / 'node')!r}),"
        f" ({str(script(tmp_path, 'exec sleep 600'))!r},))\n"
        "node.start(); print(node._process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as service:
        node = psutil.Process(int(service.stdout.readline()))
        node.suspend()
        service.kill()
    until(lambda: not node.is_running() or node.status() == psutil.STATUS_ZOMBIE)
