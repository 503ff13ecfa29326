"""No acknowledged write is lost when nodes and the service are killed or hang while sessions read and write."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from long_waits import long_waits, selected
from sqld_engine import SqldEngineProcess, nodes_of
from waiting import until

import pipemagic
from pipemagic.errors import ConnectError, PipemagicError, ServerError

PROMPT = 15.0
"""Seconds for a response of a service beside a node that hangs: a call that waited for that would take 20."""


@pytest.fixture(scope="module")
def engine(sqld_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqldEngineProcess]:
    """A service and three nodes that tests may stop; the group is at all three."""
    made = SqldEngineProcess(sqld_binary, tmp_path_factory.mktemp("sqld-failures"))
    for code in ("nrt", "ord"):
        made.manage("POST", f"/groups/default/locations/{code}")
    yield made
    made.close()
    assert nodes_of(made.folder) == []


def suspend(pid: int) -> None:
    """Suspend a process, and wait until each of its threads has stopped: until then, it may still respond."""
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    until(lambda: {stat.read_text().rpartition(")")[2].split()[0] for stat in threads.glob("*/stat")} == {"T"})


def hang_the_primary(binary: Path, folder: Path) -> None:
    """Suspend the only node of a service: requests that need it fail soon, until it continues."""
    engine = SqldEngineProcess(binary, folder, count=1)
    try:
        name = engine.create()
        pid = engine.pids()["ams"]
        suspend(pid)
        engine.http.timeout = PROMPT
        for method, path, body in (
            ("DELETE", f"/databases/{name}", None), ("POST", f"/databases/{name}/auth/rotate", None),
            ("POST", "/databases", {"name": "other", "group": "default"}),
            ("PATCH", f"/databases/{name}/configuration", {"block_writes": True}),
        ):  # fmt: skip
            refused = engine.ask(method, path, body)
            assert (refused.status_code, refused.json().get("code")) == (503, "NODE_DOWN"), (method, path, refused.text)
        for path in ("/databases", "/groups/default", f"/databases/{name}/instances", f"/databases/{name}/usage"):
            assert engine.ask("GET", path).status_code == 200, path
        assert engine.states()["ams"] == "down"
        os.kill(pid, signal.SIGCONT)
        until(lambda: engine.states()["ams"] == "ok")
        assert [database["Name"] for database in engine.manage("GET", "/databases")["databases"]].count("other") == 0
        # A check of the node takes one second at most: on a busy machine it may fail once more.
        until(lambda: engine.ask("DELETE", f"/databases/{name}").status_code == 200, "the database cannot be deleted")
    finally:
        engine.close()


@pytest.fixture(scope="module", autouse=True)
def hung(
    request: pytest.FixtureRequest, sqld_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], None]]:
    """Test a service whose node hangs, which takes some 10 s, beside the other tests."""
    folder = tmp_path_factory.mktemp("sqld-hung")
    with long_waits() as waits:
        if selected(request, test_without_its_primary_nothing_is_changed):
            waits.begin(hang_the_primary, sqld_binary, folder)
        yield lambda: waits.outcome(hang_the_primary, sqld_binary, folder)


def ids(engine: SqldEngineProcess, name: str, code: str) -> set[int]:
    """The ids of the table at a location; empty while its node does not respond."""
    try:
        with engine.open(name, code) as db:
            return {row[0] for row in db.execute("SELECT id FROM t").rows}
    except (ConnectError, ServerError):
        return set()


def statuses(engine: SqldEngineProcess, name: str) -> dict[str, str]:
    """Return the states of the instances of a database by location."""
    instances = engine.manage("GET", f"/databases/{name}/instances")["instances"]
    return {instance["name"]: instance["status"] for instance in instances}


def test_the_nodes_end_when_the_service_is_killed_and_keep_their_data(engine: SqldEngineProcess):
    name = engine.create()
    with engine.open(name) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        db.execute("INSERT INTO t VALUES (1)")
    token, address = engine.mint(name), engine.address(name)
    engine.kill()
    until(lambda: nodes_of(engine.folder) == [], "nodes outlive their service")
    engine.start()
    assert engine.address(name) == address
    with pipemagic.connect(address, token) as db:
        assert list(db.execute("SELECT id FROM t").rows) == [(1,)]


def test_a_node_that_ends_is_reported_and_started_with_the_next_start_of_the_service(engine: SqldEngineProcess):
    name = engine.create()
    for code in ("nrt", "ams"):
        engine.kill_node(code)
    assert statuses(engine, name) == {"ams": "down", "nrt": "down", "ord": "ok"}
    refused = engine.ask("POST", f"/databases/{name}/auth/rotate")
    assert (refused.status_code, refused.json()["code"]) == (503, "NODE_DOWN")
    assert "the node ams ended with -9; restart the service to start it" in refused.json()["error"]
    assert engine.log.count("the node nrt ended with -9") == 1
    assert engine.http.get("/health").status_code == 503
    assert set(engine.pids()) == {"ord"}
    engine.close()
    engine.start()
    assert set(engine.states().values()) == {"ok"}
    assert engine.http.get("/health").status_code == 200


def test_a_single_node_that_ended_is_started_by_pause_and_resume(engine: SqldEngineProcess):
    until(lambda: set(engine.states().values()) == {"ok"})
    others = {code: pid for code, pid in engine.pids().items() if code != "nrt"}
    engine.kill_node("nrt")
    engine.restart_node("nrt")
    assert engine.pids().items() >= others.items()


def test_variables_of_sqld_do_not_reach_the_nodes(engine: SqldEngineProcess):
    """With SQLD_PRIMARY_GRPC_URL the primary would be a replica; with RUST_LOG it would log statements."""
    engine.kill()
    until(lambda: nodes_of(engine.folder) == [])
    engine.start(SQLD_PRIMARY_GRPC_URL="http://127.0.0.1:9", RUST_LOG="trace")
    with engine.open(engine.create()) as db:
        db.execute("CREATE TABLE quiet (id)")
    assert " TRACE " not in engine.log
    assert "quiet" not in engine.log
    engine.kill()
    until(lambda: nodes_of(engine.folder) == [])
    engine.start()


def test_changes_that_a_crash_interrupted_are_finished(engine: SqldEngineProcess):
    """Between the steps of creating and deleting, as recorded in the catalog."""
    import apsw

    kept, dropped = engine.create(), engine.create()
    engine.kill()
    until(lambda: nodes_of(engine.folder) == [])
    catalog = apsw.Connection(str(engine.folder / "catalog.sqlite"))
    catalog.pragma("foreign_keys", True)
    # Created in the catalog, not yet at the primary; deleted from the catalog, not yet at the nodes.
    catalog.execute(
        "INSERT INTO databases (id, organization, group_id, name, created)"
        " SELECT 'cut-short', organization, group_id, 'cut-short', created FROM databases WHERE name = ?", (kept,),
    )  # fmt: skip
    columns = [row[1] for row in catalog.execute("PRAGMA table_info(hosts)")]
    catalog.execute(f"INSERT INTO hosts ({columns[0]}, {columns[1]}) VALUES ('cut-short-local', 'cut-short')")
    catalog.execute("DELETE FROM databases WHERE name = ?", (dropped,))
    catalog.close()
    engine.start()
    with engine.open("cut-short") as db:
        db.execute("CREATE TABLE t (id)")
    assert (engine.folder / "nodes/ams/data/dbs" / f"{kept}-local").exists()
    until(lambda: not list(engine.folder.glob(f"nodes/*/data/dbs/{dropped}-local")))
    engine.manage("DELETE", "/databases/cut-short")


def test_a_namespace_that_was_lost_is_not_replaced_by_an_empty_one(engine: SqldEngineProcess):
    import shutil

    name = engine.create()
    engine.kill()
    until(lambda: nodes_of(engine.folder) == [])
    nodes = engine.folder / "nodes"
    shutil.move(nodes / "ams", nodes / "ams.away")
    engine.start()
    try:
        assert f"lost the namespace {name}-local" in engine.log
        with pytest.raises(PipemagicError), pipemagic.connect(engine.address(name), engine.mint(name)) as db:
            db.execute("SELECT 1")
    finally:
        engine.kill()
        until(lambda: nodes_of(engine.folder) == [])
        shutil.rmtree(nodes / "ams")
        shutil.move(nodes / "ams.away", nodes / "ams")
        engine.start()
    with engine.open(name) as db:
        assert list(db.execute("SELECT 1").rows) == [(1,)]


def test_a_location_is_paused_and_resumed(engine: SqldEngineProcess):
    until(lambda: set(engine.states().values()) == {"ok"})  # the previous test may have restarted the nodes
    name = engine.create()
    with engine.open(name) as db:
        db.execute("CREATE TABLE t (id)")
        engine.manage("POST", "/groups/default/locations/nrt/pause")
        assert engine.states()["nrt"] == "paused"
        with pytest.raises(ConnectError), engine.open(name, "nrt") as replica:
            replica.execute("SELECT 1")
        db.execute("INSERT INTO t VALUES (1)")
        wanted = {"ams": "ok", "nrt": "paused", "ord": "ok"}
        until(lambda: statuses(engine, name) == wanted)  # ord needs some time to follow
        engine.manage("POST", "/groups/default/locations/nrt/resume")
    until(lambda: engine.states()["nrt"] == "ok")
    assert engine.ask("GET", "/groups/default/locations/nrt/wait").status_code == 200
    assert ids(engine, name, "nrt") == {1}


def test_a_removed_location_keeps_no_data(engine: SqldEngineProcess):
    name = engine.create()
    assert (engine.folder / f"nodes/ord/data/dbs/{name}-local").exists()
    engine.manage("DELETE", "/groups/default/locations/ord")
    until(lambda: not (engine.folder / f"nodes/ord/data/dbs/{name}-local").exists())
    engine.manage("POST", "/groups/default/locations/ord")
    with engine.open(name, "ord") as replica:
        assert list(replica.execute("SELECT 1").rows) == [(1,)]


def test_a_replica_that_hangs_delays_no_other_database(engine: SqldEngineProcess):
    """Databases of its group wait until it is known to be down; meanwhile all others are managed as before."""
    until(lambda: set(engine.states().values()) == {"ok"})
    engine.manage("POST", "/groups", {"name": "near", "location": "ams"})
    pid = engine.pids()["ord"]
    suspend(pid)
    engine.http.timeout = PROMPT
    try:
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(engine.ask, "POST", "/databases", {"name": "at-all", "group": "default"})
            for path, body in (("", {"name": "beside", "group": "near"}), ("/beside/auth/rotate", None)):
                answer = engine.ask("POST", f"/databases{path}", body)
                assert answer.status_code == 200, answer.text
            assert waiting.result().status_code == 200
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: set(engine.states().values()) == {"ok"})
    assert (engine.folder / "nodes/ord/data/dbs/at-all-local").exists()
    engine.manage("DELETE", "/groups/near")


def test_without_its_primary_nothing_is_changed(hung: Callable[[], None]):
    hung()
