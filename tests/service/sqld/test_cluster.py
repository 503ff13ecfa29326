"""Processes of local nodes: their start, their end, and signals. A script replaces sqld."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from waiting import until

from pipemagic.errors import ServiceError
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
