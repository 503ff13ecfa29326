"""Suspend a database (``block_reads`` and ``block_writes``): what runs on it ends at once; others are untouched."""

from __future__ import annotations

import json
import threading
from contextlib import closing

import pytest
from account_calls import person
from asgi_calls import call
from replicated import Replicated
from service_calls import CLOSE, ENDLESS, GET_AUTOCOMMIT, Background, caller_of, entries_of, execute
from waiting import until

CONFIGURATION = "/v1/organizations/local/databases/{}/configuration"
LONG = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200000) SELECT x, 'row' FROM n"
SUSPENDED = (
    "Operation was blocked: the database flights is suspended until a member of its organization resumes it "
    "(pipemagic db resume flights)"
)
ENDED = f"{SUSPENDED}; this statement was not applied, and an open transaction is rolled back"
COUNT = "SELECT count(*) FROM t"


def suspend(service, name="flights", *, on=True):
    body = {"block_reads": on, "block_writes": on}
    person(service, "local").ok("PATCH", CONFIGURATION.format(name), body)


def streams_of(service, name="flights"):
    identifier = service.catalog.database("local", name).id
    return [stream for stream in list(service.engine.streams._streams.values()) if stream.owner.database == identifier]


def until_running(service, count=1):
    """Wait until statements run on flights."""
    until(lambda: sum(stream.running is not None for stream in streams_of(service)) == count)


@pytest.fixture
def other(service):
    """Another database of the same organization, with an open transaction."""
    caller = caller_of(service, "others")
    caller.run("CREATE TABLE t(a)")
    return caller


def test_a_running_statement_ends_with_the_reason(db, service, other):
    db.run("CREATE TABLE t(a)")
    theirs = other.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)"))
    running = Background(db.post, execute("INSERT INTO t VALUES (1)"), execute(ENDLESS), execute(COUNT))
    until_running(service)
    suspend(service)
    answer = running.result()
    assert (answer.status, answer.codes, answer.baton) == (200, ["ok", "BLOCKED", "BLOCKED"], None)
    assert answer.error(1) == {"message": ENDED, "code": "BLOCKED"}
    assert streams_of(service) == []
    assert other.post(execute("COMMIT"), baton=theirs.baton).codes == ["ok"]
    suspend(service, on=False)
    assert db.run(COUNT).rows() == [["1"]]  # what was committed before stays


def test_a_running_write_is_undone(db, service):
    db.run("CREATE TABLE t(a)")
    running = Background(db.run, f"INSERT INTO t {ENDLESS.replace('count(*)', 'x')}")
    until_running(service)
    suspend(service)
    assert running.result().codes == ["BLOCKED", "ok"]
    suspend(service, on=False)
    assert db.run(COUNT).rows() == [["0"]]


def test_requests_of_version_1_get_the_reason_too(db, service):
    headers = {**db.headers, "authorization": f"Bearer {db.token}"}
    body = json.dumps({"stmt": {"sql": ENDLESS}}).encode()
    running = Background(call, service, "POST", "/v1/execute", headers=headers, body=body)
    until_running(service)
    suspend(service)
    reply = running.result()
    assert (reply.status, json.loads(reply.read())["code"]) == (400, "BLOCKED")


def test_an_open_transaction_is_rolled_back_and_its_commit_says_so(db, service):
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    suspend(service)
    assert streams_of(service) == []
    answer = db.post(execute("COMMIT"), baton=baton)
    assert (answer.status, answer.body["code"]) == (403, "BLOCKED")
    assert answer.body["message"] == f"{SUSPENDED}; the stream has ended, and an open transaction is rolled back"
    suspend(service, on=False)
    assert db.run("INSERT INTO t VALUES (2)", COUNT).rows(1) == [["1"]]
    answer = db.post(execute("COMMIT"), baton=baton)
    assert (answer.status, answer.body) == (400, "Received an invalid baton")


def test_a_commit_in_the_pipeline_that_was_ended_says_so(db, service):
    db.run("CREATE TABLE t(a)")
    steps = ["BEGIN", "INSERT INTO t VALUES (1)", ENDLESS, "COMMIT"]
    running = Background(db.post, *map(execute, steps), GET_AUTOCOMMIT)
    until_running(service)
    suspend(service)
    assert running.result().codes == ["ok", "ok", "BLOCKED", "BLOCKED", "BLOCKED"]
    suspend(service, on=False)
    assert db.run(COUNT).rows() == [["0"]]


def test_a_commit_that_has_begun_is_not_interrupted(db, service):
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    (stream,) = streams_of(service)
    begun, go_on = threading.Event(), threading.Event()

    def commit() -> bool:
        begun.set()
        return not go_on.wait(30)

    stream.connection.raw.set_commit_hook(commit)
    committing = Background(db.post, execute("COMMIT"), execute("SELECT 1"), baton=baton)
    assert begun.wait(30)
    suspending = Background(suspend, service)
    until(lambda: stream.ended)
    go_on.set()
    suspending.result()
    answer = committing.result()
    assert (answer.codes, answer.baton) == (["ok", "BLOCKED"], None)
    suspend(service, on=False)
    assert db.run(COUNT).rows() == [["1"]]


def test_a_waiting_writer_is_refused(db, service):
    db.run("CREATE TABLE t(a)")
    db.post(execute("BEGIN IMMEDIATE"))
    database = service.engine.databases.get(service.catalog.database("local", "flights").id)
    waiting = Background(db.post, execute("INSERT INTO t VALUES (1)"), execute("INSERT INTO t VALUES (2)"))
    until(database.write_lock.waiters)
    suspend(service)
    answer = waiting.result()
    assert (answer.codes, answer.error()["message"]) == (["BLOCKED", "BLOCKED"], ENDED)
    suspend(service, on=False)
    assert db.run(COUNT).rows() == [["0"]]
    assert database.write_lock.holder_age() == 0


def read_head(response):
    """Return the baton and the iterator of the remaining chunks of a cursor."""
    assert response.status == 200
    chunks = iter(response.chunks)
    first = next(chunks)
    return json.loads(first.splitlines()[0])["baton"], first, chunks


def test_a_cursor_with_a_slow_reader_ends_its_step(db, service):
    db.run("CREATE TABLE t(a)")
    baton, first, chunks = read_head(db.cursor("BEGIN IMMEDIATE", LONG, "COMMIT"))
    suspend(service)
    (stream,) = streams_of(service)
    assert stream.connection.raw.txn_state("main") == 0  # although its reader has not read yet
    kinds = entries_of(first + b"".join(chunks)).kinds
    assert [kind for kind in kinds if kind not in ("row", "step_begin", "step_end")] == ["step_error BLOCKED"] * 2
    assert streams_of(service) == []
    answer = db.post(execute("SELECT 1"), baton=baton)
    assert (answer.status, answer.body["code"]) == (403, "BLOCKED")


def test_a_request_that_waits_for_a_cursor_is_refused(db, service):
    baton, _, chunks = read_head(db.cursor(LONG))
    waiting = Background(db.post, execute("COMMIT"), baton=baton)
    until(lambda: any(stream.done is not None and stream.done._ended._done_callbacks for stream in streams_of(service)))
    suspend(service)
    b"".join(chunks)
    answer = waiting.result()
    assert (answer.status, answer.body["code"]) == (403, "BLOCKED")


def test_the_rows_of_a_write_that_was_applied_are_sent(db, service):
    """Otherwise its outcome would be unknown."""
    db.run("CREATE TABLE t(a)")
    _, first, chunks = read_head(db.cursor(f"INSERT INTO t SELECT x FROM ({LONG}) RETURNING a", "SELECT 1"))
    suspend(service)
    answer = entries_of(first + b"".join(chunks))
    assert len(answer.rows()) == 200_000
    assert answer.kinds[-2:] == ["step_end", "step_error BLOCKED"]
    suspend(service, on=False)
    assert db.run(COUNT).rows() == [["200000"]]


def test_a_client_that_disconnects_after_the_suspension_leaves_nothing(db, service):
    _, _, chunks = read_head(db.cursor(LONG))
    suspend(service)
    chunks.close()
    assert streams_of(service) == []


def test_a_suspended_database_refuses_everything(db, service):
    db.run("CREATE TABLE t(a)")
    suspend(service)
    describe = {"type": "describe", "sql": "SELECT a FROM t"}
    sequence = {"type": "sequence", "sql": "SELECT 1; SELECT 2"}
    answer = db.post(execute("SELECT 1"), execute("PRAGMA page_count"), execute("BEGIN"), describe, sequence, CLOSE)
    assert answer.codes == [*["BLOCKED"] * 5, "ok"]
    assert {answer.error(index)["message"] for index in range(5)} == {SUSPENDED}
    assert db.run("COMMIT").error()["message"] == "SQLite error: cannot commit - no transaction is active"
    assert db.read("SELECT 1").kinds == ["step_error BLOCKED"]


@pytest.mark.parametrize("path", ["/dump", "/export/1"])
def test_an_export_ends(db, service, path):
    db.run("CREATE TABLE t(a)", f"INSERT INTO t SELECT randomblob(100) FROM ({LONG})")
    headers = {**db.headers, "authorization": f"Bearer {db.token}"}
    reply = call(service, "GET", path, headers=headers)
    sent = len(next(reply.chunks))
    suspend(service)
    sent += sum(map(len, reply.chunks))  # the connection is closed before the end
    reply = call(service, "GET", path, headers=headers)
    answer = json.loads(reply.read())
    assert (reply.status, answer["message"], answer["code"]) == (403, SUSPENDED, "BLOCKED")
    suspend(service, on=False)
    assert sent < len(call(service, "GET", path, headers=headers).read()) - 10_000_000


def test_a_request_that_was_admitted_before_is_refused(db, service, monkeypatch):
    """Its token was checked, and its body read, before the database was suspended."""
    choose = service.engine.placement.choose

    def suspend_first(record, request):
        suspend(service)
        return choose(record, request)

    with monkeypatch.context() as patch:
        patch.setattr(service.engine.placement, "choose", suspend_first)
        answer = db.post(execute("SELECT 1"))
    assert (answer.status, answer.body["code"], answer.body["message"]) == (403, "BLOCKED", SUSPENDED)
    assert streams_of(service) == []


def test_blocked_writes_alone_end_nothing(db, service):
    """They apply to the next statement: a transaction can be committed."""
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    person(service, "local").ok("PATCH", CONFIGURATION.format("flights"), {"block_writes": True})
    answer = db.post(execute("INSERT INTO t VALUES (2)"), execute("COMMIT"), baton=baton)
    assert answer.codes == ["BLOCKED", "ok"]
    assert db.run(COUNT).rows() == [["1"]]


def test_only_a_member_of_the_organization_may_suspend(service, db):
    eve = person(service, "eve")
    assert eve.status("PATCH", CONFIGURATION.format("flights"), {"block_reads": True}) == 404
    assert db.run("SELECT 1").codes == ["ok", "ok"]


def test_the_operator_may_suspend_databases_of_every_organization(service):
    ada, operator = person(service, "ada"), person(service, "local")
    ada.ok("POST", "/v1/organizations", {"name": "Acme"})
    ada.ok("POST", "/v1/organizations/acme/groups", {"name": "edge", "location": "ams"})
    ada.ok("POST", "/v1/organizations/acme/databases", {"name": "flights", "group": "edge"})
    path = "/v1/organizations/acme/databases"
    assert operator.ok("PATCH", f"{path}/flights/configuration", {"block_reads": True, "block_writes": True})
    assert [database["block_reads"] for database in operator.ok("GET", path)["databases"]] == [True]
    assert operator.ok("GET", f"{path}/flights")["database"]["block_writes"] is True
    assert operator.status("DELETE", f"{path}/flights") == 404  # nothing else
    assert operator.status("POST", f"{path}/flights/auth/tokens") == 404
    assert operator.status("PATCH", "/v1/organizations/nope/databases/x/configuration", {}) == 404


def test_streams_at_replicas_end_and_a_late_replica_serves_nothing(tmp_path):
    """The replica lacks the last commit when the database is suspended, and gets it meanwhile."""
    with closing(Replicated(tmp_path / "data")) as one:
        one.location("nrt")
        one.run("CREATE TABLE t(a)")
        one.follow()
        one.run("INSERT INTO t VALUES (1)")
        caller = one.at("nrt")
        _, _, chunks = read_head(caller.cursor(LONG))
        late = Background(caller.post, execute(COUNT, replication_index=str(one.database.index)))
        until(lambda: one.replica().waiters())
        suspend(one.service, "x")
        assert late.result().codes == ["BLOCKED"]
        assert b"BLOCKED" in b"".join(chunks)
        one.follow()
        assert one.replica().index == one.database.index
        assert caller.run(COUNT).codes == ["BLOCKED", "ok"]
        suspend(one.service, "x", on=False)
        assert caller.run(COUNT).rows() == [["1"]]
