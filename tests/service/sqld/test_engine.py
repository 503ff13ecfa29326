"""The management API in front of real nodes."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import apsw
import psutil
import pytest
from metrics_page import read_families, read_samples
from sqld_engine import SqldEngineProcess
from waiting import until

from pipemagic import cli
from pipemagic.errors import NotFound, ServerError, StatementError
from pipemagic.service.catalog.usage import NO_BLOCK, QuotaBlock
from pipemagic.service.responses import Refused
from pipemagic.service.service import Service
from pipemagic.service.sqld.admin import NodeDown, Stats
from pipemagic.service.sqld.engine import SqldEngine
from pipemagic.service.sqld.local_nodes import NodeProcess
from pipemagic.service.sqld.nodes import Node


def test_only_locations_with_a_node_are_listed(sqld_engine: SqldEngineProcess):
    assert list(sqld_engine.manage("GET", "/v1/locations")["locations"]) == ["ams", "nrt", "ord"]
    refused = sqld_engine.ask("POST", "/groups/default/locations/syd")
    assert (refused.status_code, "syd has no node" in refused.text) == (400, True)


def test_the_metrics_show_which_nodes_are_up(sqld_engine: SqldEngineProcess):
    token = {"authorization": f"Bearer {sqld_engine.token}"}
    page = sqld_engine.http.get("/metrics", headers=token).text
    seen = read_samples(page)
    assert [seen["pipemagic_node_up", ("location", code)] for code in ("ams", "nrt", "ord")] == [1, 1, 1]
    families = read_families(page)
    assert families["pipemagic_node_up"] == ("gauge", {"location"})
    assert {"pipemagic_build_info", "pipemagic_http_requests_total", "pipemagic_data_free_bytes"} < families.keys()
    assert "pipemagic_streams_open" not in families


def test_the_primary_location_of_a_group_is_that_of_the_primary_node(sqld_engine: SqldEngineProcess):
    refused = sqld_engine.ask("POST", "/groups", {"name": "far", "location": "nrt"})
    assert refused.status_code == 400
    assert "a group begins at ams" in refused.json()["error"]


def test_a_replica_returns_rows_written_at_its_primary(sqld_engine: SqldEngineProcess):
    sqld_engine.manage("POST", "/groups", {"name": "wide", "location": "ams"})
    sqld_engine.manage("POST", "/databases", {"name": "wide", "group": "wide"})
    with sqld_engine.open("wide") as db:
        db.execute("CREATE TABLE t (x)")
        db.execute("INSERT INTO t VALUES (1)")
    sqld_engine.manage("POST", "/groups/wide/locations/nrt")
    assert sqld_engine.states("wide") == {"ams": "ok", "nrt": "ok"}
    with sqld_engine.open("wide", "nrt") as replica, sqld_engine.open("wide") as db:
        assert until(lambda: _rows(replica)) == [(1,)]
        db.execute("INSERT INTO t VALUES (2)")
        assert until(lambda: _rows(replica) == [(1,), (2,)])
        with pytest.raises(ServerError, match="replica"):
            replica.execute("INSERT INTO t VALUES (3)")
    assert sqld_engine.manage("DELETE", "/groups/wide")["group"]["name"] == "wide"


def _rows(db) -> list[tuple[object, ...]]:
    """The rows; [] while the replica has not caught up for the first time."""
    try:
        return list(db.execute("SELECT x FROM t ORDER BY x").rows)
    except ServerError as error:
        if error.code != "REPLICA":
            raise
        return []


def test_a_deleted_database_is_removed_from_every_node(sqld_engine: SqldEngineProcess):
    sqld_engine.manage("POST", "/groups", {"name": "brief", "location": "ams"})
    sqld_engine.manage("POST", "/groups/brief/locations/nrt")
    sqld_engine.manage("POST", "/databases", {"name": "brief", "group": "brief"})
    token = sqld_engine.mint("brief")
    opened = {code: sqld_engine.open("brief", code, token) for code in ("ams", "nrt")}
    for db in opened.values():
        assert list(db.execute("SELECT 1").rows) == [(1,)]
    sqld_engine.manage("DELETE", "/groups/brief")
    assert not list((sqld_engine.folder / "nodes").glob("*/data/dbs/brief-local"))
    for db in opened.values():
        with pytest.raises(NotFound):
            db.execute("SELECT 1")
        db.close()


def test_a_namespace_that_the_service_did_not_create_is_not_touched(sqld_engine: SqldEngineProcess):
    with _Admin(sqld_engine) as admin:
        assert admin.ask("POST", "/v1/namespaces/foreign-local/create") == 200
        refused = sqld_engine.ask("POST", "/databases", {"name": "foreign", "group": "default"})
        assert (refused.status_code, refused.json()["code"]) == (422, "NAME_NOT_AVAILABLE")
        assert sqld_engine.ask("GET", "/databases/foreign").status_code == 404
        assert admin.ask("GET", "/v1/namespaces/foreign-local/config") == 200


def test_the_service_refuses_sql(sqld_engine: SqldEngineProcess):
    name = sqld_engine.create()
    answer = sqld_engine.http.post("/v2/pipeline", headers={"host": f"{name}-local.localhost"}, content=b"{}")
    assert answer.status_code == 421
    assert sqld_engine.address(name) in answer.json()["error"]
    assert sqld_engine.http.post("/v2/pipeline", content=b"{}").status_code == 404
    assert sqld_engine.http.get("/health").status_code == 200
    assert sqld_engine.http.get("/version").text.startswith("pipemagic ")


def test_a_quota_that_is_used_up_blocks_until_overages_are_on(sqld_engine: SqldEngineProcess):
    def blocked(sql: str) -> str:
        try:
            db.execute(sql)
        except StatementError as error:
            return f"{error.code}: {error.message}"
        return ""

    def written() -> int:
        return int(sqld_engine.manage("GET", f"/databases/{name}/usage")["database"]["usage"]["rows_written"])

    name = sqld_engine.create()
    try:
        with sqld_engine.open(name) as db:
            db.execute("CREATE TABLE t (x)")
            db.execute("INSERT INTO t VALUES (1)")
            # The counts of the nodes are read every 2 s for organizations with a quota, otherwise once a minute.
            sqld_engine.manage("PATCH", "/v1/quotas", {"rows_written": 1})
            said = until(lambda: blocked("INSERT INTO t VALUES (1)"))
            assert until(written)
            assert said.startswith("BLOCKED: ")
            assert "quota" in said
            assert "overages" in said
            assert db.execute("SELECT count(*) FROM t").rows[0][0] > 0
            late = sqld_engine.create()
            with sqld_engine.open(late) as other, pytest.raises(StatementError, match="quota"):
                other.execute("CREATE TABLE t (x)")
            sqld_engine.manage("PATCH", "", {"overages": True})
            until(lambda: not blocked("INSERT INTO t VALUES (1)"))
    finally:
        sqld_engine.manage("PATCH", "", {"overages": False})
        sqld_engine.manage("PATCH", "/v1/quotas", {"rows_written": 0})
        with sqld_engine.open(name) as db:
            until(lambda: not blocked("INSERT INTO t VALUES (1)"))


@pytest.mark.parametrize("source", ["--from-file", "--from-dump", "--from-db"])
def test_the_error_for_an_upload_shows_the_commands_to_use_instead(
    sqld_engine: SqldEngineProcess, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    """The commands of the hint are run, except `sqlite3 FILE .dump`."""
    monkeypatch.setenv("PIPEMAGIC_API_URL", sqld_engine.url)
    monkeypatch.setenv("PIPEMAGIC_API_TOKEN", sqld_engine.token)
    monkeypatch.chdir(tmp_path)
    text = "CREATE TABLE t (x);\nINSERT INTO t VALUES (7);\n"
    with closing(sqlite3.connect("old.sqlite")) as old:
        old.executescript(text)
    Path("old.sql").write_text(text)
    original = sqld_engine.create()
    with sqld_engine.open(original) as db:
        db.batch(["CREATE TABLE t (x)", "INSERT INTO t VALUES (7)"])
    name = f"from{source.replace('-', '')}"
    given = {"--from-file": str(tmp_path / "old.sqlite"), "--from-dump": str(tmp_path / "old.sql")}.get(
        source, original
    )
    assert cli.main(["db", "create", name, "--group", "default", source, given]) == 1
    hint = capsys.readouterr().err.splitlines()[-1].removeprefix("Hint: ").replace("old.sqlite .dump", "old.sql")
    assert sqld_engine.ask("GET", f"/databases/{name}").status_code == 404
    for command in hint.split(", then "):
        line = command.replace("sqlite3 ", "cat ").replace("pipemagic ", f"{sys.executable} -m pipemagic ")
        subprocess.run(["/bin/sh", "-c", line], check=True, stdin=subprocess.DEVNULL)
    with sqld_engine.open(name) as db:
        assert list(db.execute("SELECT x FROM t").rows) == [(7,)]


class _Admin:
    """A client of the admin API of the primary, beside the service."""

    def __init__(self, engine: SqldEngineProcess) -> None:
        port = json.loads((engine.folder / "nodes" / "ports.json").read_text())["ams"][1]
        key = psutil.Process(engine.pids()["ams"]).environ()["LIBSQL_ADMIN_AUTH_KEY"]
        self._headers = {"authorization": f"basic {key}", "content-type": "application/json"}
        self._connection = HTTPConnection("127.0.0.1", port, timeout=10)

    def ask(self, method: str, path: str) -> int:
        self._connection.request(method, path, b"{}", self._headers)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status

    def __enter__(self) -> _Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqldEngine]:
    """An engine with three nodes that are up; each test sets what they respond."""
    nodes = [Node(code, "http://127.0.0.1:9", "http://127.0.0.1:9") for code in ("ams", "nrt", "ord")]
    with closing(Service(tmp_path, partial(SqldEngine, nodes=nodes))) as service:
        service.catalog.create_group("local", "g", "ams")
        for code in ("nrt", "ord"):
            service.catalog.add_location("local", "g", code)
        for state in service.engine._nodes.values():
            monkeypatch.setattr(state, "down", None)
        yield service.engine


def test_a_replica_behind_its_primary_is_lagging(engine: SqldEngine, monkeypatch: pytest.MonkeyPatch):
    for code, index in (("ams", 7), ("nrt", 5), ("ord", 7)):
        monkeypatch.setattr(engine._nodes[code].admin, "stats", lambda _, index=index: Stats(replication_index=index))
    status = engine.status(engine._catalog.create_database("local", "d", "g"))
    assert [(replica.code, replica.state, replica.lag) for replica in status.values()] == [
        ("ams", "ok", 0.0), ("nrt", "lagging", None), ("ord", "ok", None),
    ]  # fmt: skip


def test_the_replication_of_a_running_node_cannot_be_paused(engine: SqldEngine):
    with pytest.raises(Refused, match="libSQL servers cannot pause the replication only"):
        engine.check_pause("nrt", replication_only=True)


def test_a_rotated_key_is_not_set_again(engine: SqldEngine, monkeypatch: pytest.MonkeyPatch):
    """A change of a quota's block may have read the database before its tokens were rotated."""
    sent = []
    for state in engine._nodes.values():
        monkeypatch.setattr(state.admin, "create", lambda _, settings: sent.append(settings["jwt_key"]))
        monkeypatch.setattr(state.admin, "configure", lambda _, settings: sent.append(settings["jwt_key"]))
    before = engine._catalog.create_database("local", "d", "g")
    engine.create(before)
    old = sent.pop()
    engine.revoke_access(engine._catalog.rotate_database("local", "d"))
    sent.clear()
    engine.configure(before)
    assert len(sent) == 3
    assert old not in sent


def test_a_database_that_cannot_be_created_does_not_stay(engine: SqldEngine, monkeypatch: pytest.MonkeyPatch):
    """Not even if the disk is too full to remove it at once, so that a client can repeat the creation."""

    def full(*_: object) -> None:
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(engine._namespaces, "set_created", full)
    for state in engine._nodes.values():
        monkeypatch.setattr(state.admin, "create", lambda *_: None)
        monkeypatch.setattr(state.admin, "configure", lambda *_: None)
        monkeypatch.setattr(engine, "_poll", lambda _: None)
    with pytest.raises(apsw.FullError):
        engine.create(engine._catalog.create_database("local", "d", "g"))
    assert engine._catalog.databases("local") == []
    again = engine._catalog.create_database("local", "d", "g")
    with monkeypatch.context() as patch:
        patch.setattr(engine._catalog, "delete_database", full)
        with pytest.raises(apsw.FullError):
            engine.create(again)
    assert [record.name for record in engine._catalog.databases("local")] == ["d"]
    engine._poll_all()
    assert engine._catalog.databases("local") == []


class _Blocks:
    """Sets what the quotas of an organization refuse, and records whether the primary refuses writes."""

    def __init__(self, engine: SqldEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.present, self.applied, self.down = NO_BLOCK, False, False
        self.read, self._engine = engine._metering.read, engine
        monkeypatch.setattr(engine._metering._meter, "organization_block", lambda _: self.present)
        for state in engine._nodes.values():
            monkeypatch.setattr(state.admin, "create", lambda *_: None)
            monkeypatch.setattr(state.admin, "configure", lambda *_: None)
            monkeypatch.setattr(state.admin, "stats", lambda _: Stats())
        monkeypatch.setattr(engine._primary.admin, "configure", self._configure)

    def _configure(self, _: str, settings: dict[str, Any]) -> None:
        if self.down:
            raise NodeDown("the node ams does not respond")
        self.applied = settings["block_writes"]

    def come_back(self) -> None:
        self.down = False
        self._engine._bring_up_to_date(self._engine._primary)


USED_UP = QuotaBlock(growth="the storage is used up")


def test_quotas_apply_again_after_an_outage_of_the_primary(engine: SqldEngine, monkeypatch: pytest.MonkeyPatch):
    """Sizes are 0 meanwhile, so a block of the storage is lifted."""
    blocks = _Blocks(engine, monkeypatch)
    engine.create(engine._catalog.create_database("local", "d", "g"))
    blocks.present = USED_UP
    blocks.read()
    assert blocks.applied
    blocks.present, blocks.down = NO_BLOCK, True
    blocks.read()
    blocks.come_back()
    blocks.present = USED_UP
    blocks.read()
    assert blocks.applied


def test_a_block_that_cannot_be_applied_is_tried_again_and_logged_once(
    engine: SqldEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    blocks = _Blocks(engine, monkeypatch)
    engine.create(engine._catalog.create_database("local", "d", "g"))
    blocks.present, blocks.down = USED_UP, True
    for _ in range(3):
        blocks.read()
    assert caplog.text.count("quotas do not apply") == 1
    blocks.come_back()
    blocks.read()
    assert blocks.applied


def test_a_wait_for_a_node_that_does_not_respond_ends_at_once(engine: SqldEngine, monkeypatch: pytest.MonkeyPatch):
    """Not after a timeout for each database."""
    asked = []

    def stats(label: str) -> Stats:
        asked.append(label)
        raise NodeDown("the node nrt does not respond")

    monkeypatch.setattr(engine._primary.admin, "stats", lambda _: Stats(replication_index=1))
    monkeypatch.setattr(engine._nodes["nrt"].admin, "stats", stats)
    for name in "abc":
        engine._catalog.create_database("local", name, "g")
    waiters = engine.wait_for_replicas(engine._catalog.group("local", "g"), "nrt", 30.0)
    assert all(waiter.wait(10) for waiter in waiters)
    assert not any(waiter.granted for waiter in waiters)
    assert len(asked) == 1


def test_the_log_has_no_line_for_each_check_of_a_node(sqld_engine: SqldEngineProcess):
    """The nodes are checked every second, and their namespaces at the start."""
    sqld_engine.create()
    assert "is up and up to date" in sqld_engine.log
    assert "HTTP Request" not in sqld_engine.log


def test_the_end_of_the_service_does_not_wait_for_a_node_that_hangs(
    engine: SqldEngine, monkeypatch: pytest.MonkeyPatch
):
    """The thread that applies quotas may be waiting for one."""
    released = threading.Event()
    monkeypatch.setattr(engine._primary.admin, "exists", lambda _: released.wait(30))
    with ThreadPoolExecutor(1) as pool:
        creation = pool.submit(engine._primary.run, lambda state: state.admin.exists("d-local"))
        engine.close()
        with pytest.raises(NodeDown, match="is stopping"):
            creation.result(10)
        released.set()


def test_a_change_that_did_not_reach_the_primary_is_applied_later(engine: SqldEngine, monkeypatch: pytest.MonkeyPatch):
    """The catalog has it already, so the error must not state that nothing was changed."""

    def hang(*_: object) -> None:
        raise NodeDown("the node ams does not respond")

    record = engine._catalog.create_database("local", "d", "g")
    monkeypatch.setattr(engine._primary.admin, "create", hang)
    with pytest.raises(Refused, match="applies when it responds again") as raised:
        engine.configure(record)
    assert (raised.value.status, raised.value.code) == (503, "NODE_DOWN")
    engine._primary.down = None
    with pytest.raises(Refused, match="nothing was changed"):
        engine.create(record)
    assert engine._catalog.databases("local") == []


def test_a_resumed_node_that_cannot_be_started_is_down_with_the_reason(tmp_path: Path):
    node = Node("ams", "http://127.0.0.1:9", "http://127.0.0.1:9")
    (tmp_path / "file").touch()
    process = NodeProcess(node, tmp_path / "file" / "ams", ("/bin/true",))
    with closing(Service(tmp_path / "data", partial(SqldEngine, nodes=[node], processes=[process]))) as service:
        service.engine._poll_all()
        with pytest.raises(NodeDown, match=r"cannot use .*file/ams: Not a directory"):
            service.engine._primary.check_up()


def _suspend(engine: SqldEngineProcess, name: str, *, on: bool) -> None:
    engine.manage("PATCH", f"/databases/{name}/configuration", {"block_reads": on, "block_writes": on})


def test_statements_on_a_suspended_database_fail_at_once_with_the_reason(sqld_engine: SqldEngineProcess):
    name = sqld_engine.create()
    with sqld_engine.open(name) as db:
        db.execute("CREATE TABLE t (x)")
        _suspend(sqld_engine, name, on=True)
        for sql in ("SELECT 1", "INSERT INTO t VALUES (1)"):
            with pytest.raises(StatementError, match=rf"{name} is suspended .*pipemagic db resume {name}") as caught:
                db.execute(sql)
            assert caught.value.code == "BLOCKED"
        _suspend(sqld_engine, name, on=False)
        db.execute("INSERT INTO t VALUES (1)")


def test_what_sqld_does_not_end_when_a_database_is_suspended(sqld_engine: SqldEngineProcess):
    """Its admin API has no way to. docs/operators/cluster.md says so; if this fails, change it there."""
    name, rows = sqld_engine.create(), 100_000
    recursive = f"n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {rows})"
    numbers = f"WITH RECURSIVE {recursive} SELECT x, '{'.' * 80}' FROM n"
    with sqld_engine.open(name) as db, sqld_engine.open(name) as reader, reader.cursor(numbers) as cursor:
        db.execute("CREATE TABLE t (x)")
        batches = iter(cursor)
        count = len(next(batches))
        with db.transaction() as transaction:
            transaction.execute("INSERT INTO t VALUES (1)")
            _suspend(sqld_engine, name, on=True)
            with pytest.raises(StatementError, match="is suspended"):
                transaction.execute("INSERT INTO t VALUES (2)")
        assert count + sum(map(len, batches)) == rows  # a running statement
        _suspend(sqld_engine, name, on=False)
        assert list(db.execute("SELECT x FROM t").rows) == [(1,)]  # an open transaction, which was committed
