"""Replicas in one process: content, responses, states and removal."""

from __future__ import annotations

from functools import partial

import apsw
import pytest
from asgi_calls import call
from replicated import Replicated
from service_calls import CLOSE, execute

from pipemagic.service import endpoint
from pipemagic.service.database_api import statements
from pipemagic.service.embedded import EmbeddedEngine


@pytest.fixture
def one(tmp_path):
    one = Replicated(tmp_path / "data")
    yield one
    one.close()


@pytest.fixture
def pair(one):
    """With a replica at nrt that is up to date."""
    one.run("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", "INSERT INTO t(a) VALUES ('first')")
    one.location("nrt")
    one.follow()
    return one


def count(caller, **fields):
    answer = caller.post(execute("SELECT count(*) FROM t", **fields), CLOSE)
    return answer.codes[0] if answer.codes[0] != "ok" else int(answer.rows()[0][0])


def index_of(answer):
    return answer.response(0)["result"]["replication_index"]


# -- following


def test_a_new_location_has_a_copy_and_follows(pair):
    assert count(pair.at("nrt")) == 1
    pair.run("INSERT INTO t(a) VALUES ('second')")
    assert count(pair.at("nrt")) == 1
    pair.follow()
    assert count(pair.at("nrt")) == 2
    pair.check("nrt")


def test_a_commit_copies_its_pages_and_not_the_database(one):
    one.run("CREATE TABLE t(id INTEGER PRIMARY KEY, a)",
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000)"
            " INSERT INTO t SELECT i, randomblob(1000) FROM n")  # fmt: skip
    one.location("nrt")
    one.follow()
    before = one.replica_set.shipped
    one.run("UPDATE t SET a = 'small' WHERE id = 10000")
    one.follow()
    shipped = one.replica_set.shipped - before
    assert (one.files / "primary.sqlite").stat().st_size > 20_000_000
    assert 0 < shipped < 100_000
    one.check("nrt")


def test_a_log_of_an_earlier_version_is_removed(pair):
    pair.service.close()
    for path in (pair.files_of_closed.with_name("changes.log"), pair.files_of_closed.parent / "replicas/syd.sqlite"):
        path.write_bytes(b"of version 0.1.0")
    pair.open()
    pair.check("nrt")
    assert sorted(path.name for path in pair.files.rglob("*.*")) == [
        "nrt.sqlite", "primary.sqlite", "primary.sqlite-shm", "primary.sqlite-wal"]  # fmt: skip


def test_replicas_are_not_copied_after_a_regular_restart(pair):
    before = (pair.files / "replicas" / "nrt.sqlite").stat().st_ino
    pair.location("nrt", "/pause")
    pair.run("INSERT INTO t(a) VALUES ('second')")
    pair.restart()
    pair.run("INSERT INTO t(a) VALUES ('third')")
    pair.location("nrt", "/resume")
    pair.check("nrt")
    assert count(pair.at("nrt")) == 3
    assert (pair.files / "replicas" / "nrt.sqlite").stat().st_ino == before
    assert pair.replica_set.shipped == 0  # check() has restarted the service


def test_a_commit_without_writes_does_not_make_a_replica_lag(pair):
    for sql in ("DELETE FROM t", "PRAGMA user_version = 5", "DELETE FROM t", "PRAGMA user_version = 5"):
        index = index_of(pair.run(sql))
        pair.follow()
        assert count(pair.at("nrt"), replication_index=index) == 0
    pair.check("nrt")


# -- the instance of a request


def test_a_stream_begins_at_the_nearest_location_and_gets_its_address(tmp_path):
    one = Replicated(tmp_path / "data", engine=partial(EmbeddedEngine, here="nrt"))
    one.run("CREATE TABLE t(a)")
    assert one.at().run("SELECT 1").body["base_url"] is None  # the only location
    one.location("nrt")
    one.follow()
    assert one.at().run("SELECT 1").body["base_url"] == "http://nrt-x-local.localhost:8080"
    assert one.at("nrt").run("SELECT 1").body["base_url"] is None
    own = one.at()
    own.headers = {"host": "127.0.0.1:8080"}
    assert own.run("SELECT 1").body["base_url"] is None
    one.run("INSERT INTO t VALUES (1)")
    assert count(one.at()) == 0  # the replica, which has not caught up yet
    one.location("nrt", "/pause")
    assert count(one.at()) == 1
    assert one.at().run("SELECT 1").body["base_url"] == "http://ams-x-local.localhost:8080"
    one.close()


def test_a_stream_that_writes_stays_with_the_primary(pair):
    stream = pair.at("nrt").post(execute("SELECT count(*) FROM t"))
    assert stream.rows() == [["1"]]
    wrote = pair.at("nrt").post(
        execute("INSERT INTO t(a) VALUES ('mine') RETURNING id"),
        execute("SELECT count(*), changes(), last_insert_rowid(), total_changes() FROM t"),
        baton=stream.baton,
    )
    assert wrote.rows(1) == [["2", "1", "2", "1"]]
    assert int(index_of(wrote)) == pair.database.index
    later = pair.at("nrt").post(execute("SELECT count(*) FROM t"), CLOSE, baton=wrote.baton)
    assert later.rows() == [["2"]]
    assert count(pair.at("nrt")) == 1  # another stream, at the replica


@pytest.mark.parametrize("first", ["BEGIN", "SAVEPOINT s", "PRAGMA foreign_keys = OFF", "CREATE TEMP TABLE u(a)"])
def test_statements_that_need_the_primary_move_the_stream(pair, first):
    pair.run("INSERT INTO t(a) VALUES ('new')")
    answer = pair.at("nrt").post(execute("SELECT count(*) FROM t"), execute(first), execute("SELECT count(*) FROM t"))
    assert [answer.rows(0), answer.rows(2)] == [[["1"]], [["2"]]]


def test_a_request_waits_for_the_index_that_it_carries(pair):
    index = index_of(pair.run("INSERT INTO t(a) VALUES (2)"))
    pair.follow()
    assert count(pair.at("nrt"), replication_index=index) == 2
    ahead = str(int(index) + 1)
    assert count(pair.at("ams"), replication_index=ahead) == 2  # a primary has all commits


def test_the_wait_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(statements, "REPLICA_WAIT", 0.0)
    one = Replicated(tmp_path / "data")
    one.run("CREATE TABLE t(a)")
    one.location("nrt")
    one.follow()
    index = index_of(one.run("INSERT INTO t VALUES (1)"))
    answer = one.at("nrt").post(execute("SELECT count(*) FROM t", replication_index=index), execute("SELECT 1"), CLOSE)
    assert answer.codes == ["REPLICA_BEHIND", "ok", "ok"]
    assert f"is at replication_index {int(index) - 1} and did not reach {index}" in answer.error()["message"]
    batch = {"type": "batch", "batch": {"steps": [{"stmt": {"sql": "SELECT 1"}}], "replication_index": index}}
    assert one.at("nrt").post(batch, {"type": "describe", "sql": "SELECT 1", "replication_index": int(index)},
                              CLOSE).codes == ["REPLICA_BEHIND", "REPLICA_BEHIND", "ok"]  # fmt: skip
    one.follow()
    assert count(one.at("nrt"), replication_index=index) == 1
    one.close()


@pytest.mark.parametrize("index", ["-1", "soon", "9" * 30])
def test_an_index_that_is_not_a_number_is_refused(pair, index):
    answer = pair.at("nrt").post(execute("SELECT 1", replication_index=index), CLOSE)
    assert answer.status == 400


def test_replicas_cannot_be_written_by_any_statement(pair):
    before = pages_of(pair)
    stream = pair.at("nrt").post(execute("SELECT 1"))
    for sql in ("PRAGMA user_version = 3", "REINDEX", "ANALYZE"):
        pair.at("nrt").post(execute(sql), CLOSE)
    pair.at("nrt").post(execute("DELETE FROM t"), CLOSE, baton=stream.baton)
    assert pages_of(pair) == before
    pair.check("nrt")


def pages_of(pair):
    return (pair.files / "replicas" / "nrt.sqlite").read_bytes()


# -- names


def test_instance_names_never_collide_with_names_of_databases(one):
    catalog = one.service.catalog
    catalog.create_database("local", "nrt-x", "g")
    one.location("nrt")
    record = one.record
    assert record.instances["nrt"] != "nrt-x-local.localhost"
    assert record.instances["nrt"].startswith("nrt-")
    assert catalog.database_by_host("nrt-x-local.localhost").name == "nrt-x"
    assert catalog.database_by_host(record.instances["nrt"]).name == "x"
    hosts = [host for name in ("x", "nrt-x") for host in catalog.database("local", name).instances.values()]
    assert len(set(hosts)) == len(hosts) == 4
    with pytest.raises(Exception, match=r"host name ams-x-local\.localhost is taken"):
        catalog.create_database("local", "ams-x", "g")


def test_a_long_name_has_an_instance_name_that_is_a_label(one):
    catalog = one.service.catalog
    catalog.create_group("local", "far", "aws-ap-northeast-1")
    record = catalog.create_database("local", "d" * 57, "far")
    label = record.instances["aws-ap-northeast-1"].partition(".")[0]
    assert len(label) <= 63
    assert catalog.database_by_host(f"{label}.localhost") == record


# -- pausing, removing


def test_a_paused_primary_refuses_writes_at_once_and_replicas_respond(pair):
    stream = pair.at("ams").post(execute("BEGIN IMMEDIATE"))
    group = pair.location("ams", "/pause")
    assert group["status"] == {"locations": [{"name": "ams", "status": "paused"}, {"name": "nrt", "status": "ok"}]}
    assert pair.at("ams").post(execute("COMMIT"), baton=stream.baton).status == 400  # the stream was closed
    assert count(pair.at()) == 1
    answer = pair.at().post(execute("INSERT INTO t(a) VALUES (2)"), execute("SELECT count(*) FROM t"), CLOSE)
    assert answer.codes == ["PRIMARY_PAUSED", "ok", "ok"]
    assert "pipemagic group locations resume" in answer.error()["message"]
    down = pair.at("ams").post(execute("SELECT 1"), CLOSE)
    assert (down.status, down.body["code"]) == (503, "LOCATION_PAUSED")
    pair.location("nrt", "/pause")
    assert pair.at().post(execute("SELECT 1"), CLOSE).status == 503
    pair.location("ams", "/resume")
    pair.run("INSERT INTO t(a) VALUES (2)")


def test_health_and_status_report_paused_locations(pair):
    def health(host):
        return call(pair.service, "GET", "/health", headers={"host": host}).status

    record = pair.record
    hosts = [record.hostname, record.instances["ams"], record.instances["nrt"]]
    assert [health(host) for host in hosts] == [200, 200, 200]
    pair.location("nrt", "/pause")
    assert [health(host) for host in hosts] == [200, 200, 503]
    _, answer = pair.manage("GET", "/databases/x/instances")
    assert [(instance["name"], instance["type"], instance["status"]) for instance in answer["instances"]] == [
        ("ams", "primary", "ok"), ("nrt", "replica", "paused")]  # fmt: skip
    pair.location("nrt", "/resume")
    pair.location("ams", "/pause")
    assert [health(host) for host in hosts] == [200, 503, 200]


def test_a_location_without_replication_answers_with_older_data(pair):
    status, answer = pair.manage("POST", "/groups/g/locations/ams/pause", replication_only="true")
    assert status == 400
    assert answer["error"] == "ams is the primary location of the group, so it has no replication to pause"
    group = pair.location("nrt", "/pause", replication_only="true")
    assert group["status"] == {"locations": [{"name": "ams", "status": "ok"}, {"name": "nrt", "status": "lagging"}]}
    pair.run("INSERT INTO t(a) VALUES (2)")
    pair.follow()
    assert (count(pair.at("nrt")), count(pair.at("ams"))) == (1, 2)
    assert pair.manage("GET", "/groups/g/locations/nrt/wait")[0] == 503
    pair.location("nrt", "/pause")
    assert pair.at("nrt").post(execute("SELECT 1"), CLOSE).status == 503
    pair.location("nrt", "/resume")
    pair.follow()
    assert count(pair.at("nrt")) == 2
    pair.check("nrt")


def test_a_replication_that_is_paused_stays_so_after_a_restart(pair):
    pair.location("nrt", "/pause", replication_only="true")
    pair.restart()
    pair.database  # noqa: B018  opened
    pair.follow()
    pair.run("INSERT INTO t(a) VALUES (2)")
    pair.follow()
    assert (count(pair.at("nrt")), count(pair.at("ams"))) == (1, 2)
    pair.location("nrt", "/resume")
    pair.follow()
    assert count(pair.at("nrt")) == 2


def test_a_replica_far_behind_is_unhealthy_and_its_primary_is_not(pair):
    reader = apsw.Connection(str(pair.files / "replicas" / "nrt.sqlite"), flags=apsw.SQLITE_OPEN_READONLY)
    cursor = reader.execute("SELECT 1 FROM t UNION ALL SELECT 2")
    next(cursor)  # a long read
    pair.run("INSERT INTO t(a) VALUES (2)")
    pair.service.engine.replicator.run_due()
    pair.clock.advance(11)
    status = pair.service.engine.status(pair.record)
    assert (status["nrt"].state, status["nrt"].lag) == ("lagging", 11.0)
    assert not pair.service.engine.placement.healthy(pair.record, "nrt")
    assert pair.service.engine.placement.healthy(pair.record, "ams")
    assert pair.service.engine.placement.healthy(pair.record, None)
    reader.close()
    while pair.service.engine.status(pair.record)["nrt"].state != "ok":
        pair.service.engine.replicator.run_due()
    assert count(pair.at("nrt")) == 2


def test_a_location_that_is_removed_leaves_no_files(pair):
    stream = pair.at("nrt").post(execute("SELECT 1"))
    group = pair.location("nrt", method="DELETE")
    assert group["locations"] == ["ams"]
    assert sorted(path.name for path in pair.files.rglob("*") if path.is_file()) == [
        "primary.sqlite", *(["primary.sqlite-shm", "primary.sqlite-wal"] if has_wal(pair) else [])]  # fmt: skip
    assert pair.at().post(execute("SELECT 1"), baton=stream.baton).status == 400
    with pytest.raises(KeyError):
        pair.at("nrt")
    status, answer = pair.manage("DELETE", "/groups/g/locations/ams")
    assert (status, answer["error"]) == (400, "ams is the primary location of the group and cannot be removed")
    pair.location("nrt")
    pair.check("nrt")


def has_wal(pair):
    return (pair.files / "primary.sqlite-wal").exists()


def test_a_crash_in_the_middle_of_a_removal_is_cleaned_up(pair):
    leftover = pair.files / "replicas" / "syd.sqlite"
    leftover.write_bytes(b"of a location that was removed just before a crash")
    draft = pair.files / "replicas" / "syd.sqlite.new"
    draft.write_bytes(b"of a copy that was under way")
    pair.restart()
    pair.check("nrt")
    assert not leftover.exists()
    assert not draft.exists()


def test_waiting_for_a_location(pair):
    assert pair.manage("GET", "/groups/g/locations/nrt/wait") == (200, {})
    assert pair.manage("GET", "/groups/g/locations/syd/wait")[0] == 400
    pair.location("nrt", "/pause")
    status, answer = pair.manage("GET", "/groups/g/locations/nrt/wait")  # immediately: the clock does not move
    assert (status, answer["code"]) == (503, "LOCATION_PAUSED")


# -- simulated distance


@pytest.fixture
def delays(monkeypatch):
    """The delays of responses, in seconds, instead of waiting for them."""
    noted = []

    async def note(seconds, _cancel):
        noted.append(seconds)

    monkeypatch.setattr(endpoint, "_delay", note)
    return noted


def test_distance_delays_responses_if_simulated(tmp_path, delays):
    one = Replicated(tmp_path / "data", engine=partial(EmbeddedEngine, here="syd", simulate_latency=True))
    one.run("CREATE TABLE t(a)")
    caller = one.at()
    delays.clear()
    caller.run("SELECT 1")
    one.location("nrt")
    one.follow()
    caller.run("SELECT 1")
    caller.run("INSERT INTO t VALUES (1)")
    far, near, writing = delays
    assert 0.2 < far < 0.3  # Sydney - Amsterdam and back
    assert 0.1 < near < 0.15  # Sydney - Tokyo and back
    assert writing > far
    one.close()


def test_the_distance_can_be_measured_without_a_token(tmp_path, delays):
    one = Replicated(tmp_path / "data", engine=partial(EmbeddedEngine, here="syd", simulate_latency=True))
    one.location("nrt")
    one.follow()
    found = {}
    for code, host in {"": one.record.hostname, **one.record.instances}.items():
        delays.clear()
        assert call(one.service, "GET", "/health", headers={"host": host}).status == 200
        found[code] = sum(delays)
    assert found[""] == 0
    assert 0.1 < found["nrt"] < 0.15
    assert 0.2 < found["ams"] < 0.3
    one.close()


def test_a_replica_that_is_detached_while_a_connection_is_taken_is_not_ready(pair, monkeypatch):
    replica = pair.replica()
    pool = replica.pool
    take = pool.take

    def detach_and_take():
        replica.detach()  # as by the thread that is about to copy it again
        return take()

    monkeypatch.setattr(pool, "take", detach_and_take)
    answer = pair.at("nrt").post(execute("SELECT 1"))
    assert (answer.status, answer.body["code"]) == (503, "REPLICA_NOT_READY")
