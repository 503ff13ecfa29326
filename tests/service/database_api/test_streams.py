"""The lifecycle of streams and transactions of the service, with a clock that the tests set."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import apsw
import pytest
from asgi_calls import Disconnect
from service_calls import CLOSE, GET_AUTOCOMMIT, Caller, caller_of, execute, new_service

from pipemagic.service import embedded
from pipemagic.service.auth.tokens import Owner
from pipemagic.service.limits import Limits
from pipemagic.service.responses import Refused
from pipemagic.service.service import Service
from pipemagic.service.sqlite import database

EXPIRED = "The stream has expired due to inactivity"
USED = "Received a baton that has already been used"
INVALID = "Received an invalid baton"


def test_every_response_has_a_new_baton_and_only_the_newest_is_valid(db):
    first = db.post(execute("SELECT 1"))
    second = db.post(execute("SELECT 2"), baton=first.baton)
    assert first.baton
    assert second.baton not in (None, first.baton)
    again = db.post(execute("SELECT 3"), baton=first.baton)
    assert (again.status, again.body, again.content_type) == (400, USED, "text/plain")
    assert db.post(execute("SELECT 3"), baton=second.baton).rows() == [["3"]]


def test_batons_share_no_guessable_part_and_are_authenticated(db):
    batons = [db.post().baton for _ in range(20)]
    assert len(set(batons)) == 20
    assert len({baton[:16] for baton in batons}) == 20
    assert all(len(baton) == 64 for baton in batons)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda baton: "",
        lambda baton: "x",
        lambda baton: "é" * 64,
        lambda baton: baton + "=",
        lambda baton: baton + "\n",
        lambda baton: baton[:-1] + ("A" if baton[-1] != "A" else "B"),
        lambda baton: ("A" if baton[0] != "A" else "B") + baton[1:],
        lambda baton: baton * 2,
    ],
)
def test_a_changed_baton_is_invalid_and_the_stream_is_kept(db, spoil):
    baton = db.post(execute("SELECT 1")).baton
    answer = db.post(execute("SELECT 1"), baton=spoil(baton))
    assert (answer.status, answer.body) == (400, INVALID)
    assert db.post(execute("SELECT 1"), baton=baton).rows() == [["1"]]


def test_a_baton_is_bound_to_its_database_and_the_subject_of_its_token(make_caller):
    db = make_caller("flights", subject="ada")
    baton = db.post(execute("SELECT 1")).baton
    for stranger in (make_caller("flights", subject="bob"), make_caller("other", subject="ada")):
        assert stranger.post(execute("SELECT 1"), baton=baton).body == INVALID
    renewed = make_caller("flights", subject="ada")
    assert renewed.post(execute("SELECT 1"), baton=baton).rows() == [["1"]]


@pytest.mark.parametrize("request_", [execute("COMMIT"), execute("ROLLBACK"), execute("SELECT 1"), CLOSE])
def test_a_baton_is_bound_to_the_rights_of_its_token(make_caller, request_):
    """Otherwise a read-only token could commit or roll back the writes of a full one."""
    db, reader = make_caller(), make_caller(read_only=True)
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute("BEGIN"), execute("INSERT INTO t VALUES (1)")).baton
    refused = reader.post(request_, baton=baton)
    assert (refused.status, refused.body) == (400, INVALID)
    assert reader.cursor("COMMIT", baton=baton).status == 400
    assert reader.run("SELECT count(*) FROM t").rows() == [["0"]]
    assert db.post(execute("COMMIT"), CLOSE, baton=baton).codes == ["ok", "ok"]
    assert reader.run("SELECT count(*) FROM t").rows() == [["1"]]


def test_a_full_token_does_not_use_the_baton_of_a_read_only_one(make_caller):
    db, reader = make_caller(), make_caller(read_only=True)
    baton = reader.post(execute("BEGIN")).baton
    refused = db.post(execute("SELECT 1"), baton=baton)
    assert (refused.status, refused.body) == (400, INVALID)
    assert reader.post(execute("COMMIT"), CLOSE, baton=baton).codes == ["ok", "ok"]


def test_a_refused_write_ends_the_stream_of_a_read_only_token(make_caller):
    db, reader = make_caller(), make_caller(read_only=True)
    db.run("CREATE TABLE t(a)")
    baton = reader.post(execute("BEGIN")).baton
    refused = reader.post(execute("INSERT INTO t VALUES (2)"), baton=baton)
    assert refused.status == 403
    assert "read-only" in refused.body["error"]
    assert reader.post(execute("SELECT 1"), baton=baton).body == INVALID


def test_idle_time_is_ten_seconds_and_every_request_renews_it(db, clock):
    baton = db.post(execute("SELECT 1")).baton
    for _ in range(3):
        clock.advance(9.99)
        baton = db.post(baton=baton).baton
    clock.advance(10.0)
    for _ in range(2):
        answer = db.post(CLOSE, baton=baton)
        assert answer.status == 400
        assert (answer.body["message"], answer.body["code"]) == (EXPIRED, "STREAM_EXPIRED")


def test_an_expired_stream_frees_its_lock_without_a_request_and_is_forgotten_later(db, clock, service):
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    clock.advance(10.0)
    service.engine.sweep()
    assert len(service.engine.streams) == 0
    assert db.run("INSERT INTO t VALUES (2)", "SELECT a FROM t").rows(1) == [["2"]]
    assert db.post(baton=baton).body["code"] == "STREAM_EXPIRED"
    clock.advance(301)
    service.engine.sweep()
    assert db.post(baton=baton).body == INVALID


def test_a_restart_makes_every_baton_invalid(db, service, tmp_path, clock):
    baton = db.post(execute("SELECT 1")).baton
    service.close()
    restarted = Service(tmp_path / "data", clock=clock)
    db.service = restarted
    assert db.post(execute("SELECT 1"), baton=baton).body == INVALID
    restarted.close()


def test_after_a_close_later_requests_of_the_pipeline_get_an_error_each(db):
    answer = db.post(execute("SELECT 1"), CLOSE, execute("SELECT 2"), GET_AUTOCOMMIT, CLOSE)
    assert answer.status == 200
    assert answer.codes == ["ok", "ok", "STREAM_CLOSED", "STREAM_CLOSED", "ok"]
    assert answer.baton is None


def test_a_close_rolls_back(db):
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute("BEGIN"), execute("INSERT INTO t VALUES (1)")).baton
    db.post(CLOSE, baton=baton)
    assert db.run("SELECT * FROM t").rows() == []
    assert db.post(baton=baton).body == INVALID


@pytest.mark.parametrize("opening", ["BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT one"])
def test_every_transaction_has_five_seconds(db, clock, opening):
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute(opening), execute("INSERT INTO t VALUES (1)")).baton
    clock.advance(4.99)
    baton = db.post(execute("INSERT INTO t VALUES (2)"), baton=baton).baton
    clock.advance(0.01)
    late = db.post(
        GET_AUTOCOMMIT,
        execute("INSERT INTO t VALUES (3)"),
        execute("BEGIN"),
        {"type": "sequence", "sql": "INSERT INTO t VALUES (4)"},
        execute("COMMIT"),
        execute("ROLLBACK"),
        {"type": "describe", "sql": "SELECT 1"},
        {"type": "store_sql", "sql_id": 1, "sql": "SELECT 1"},
        GET_AUTOCOMMIT,
        baton=baton,
    )
    timeout = "TRANSACTION_TIMEOUT"
    assert late.codes == ["ok", timeout, timeout, timeout, timeout, timeout, "ok", "ok", "ok"]
    assert late.error(1)["message"] == "Transaction timed out"
    assert late.response(8)["is_autocommit"] is True
    after = db.post(execute("SELECT count(*) FROM t"), execute("INSERT INTO t VALUES (5)"), baton=late.baton)
    assert after.codes == ["ok", "ok"]
    assert after.rows() == [["0"]]


def test_a_batch_after_the_time_limit_has_the_timeout_in_every_step(db, clock):
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute("BEGIN"), execute("INSERT INTO t VALUES (1)")).baton
    clock.advance(5)
    steps = [
        {"stmt": {"sql": "INSERT INTO t VALUES (2)"}},
        {"stmt": {"sql": "COMMIT"}, "condition": {"type": "ok", "step": 0}},
        {"stmt": {"sql": "ROLLBACK"}, "condition": {"type": "not", "cond": {"type": "ok", "step": 1}}},
    ]
    answer = db.post({"type": "batch", "batch": {"steps": steps}}, baton=baton)
    result = answer.response()["result"]
    assert result["step_results"] == [None, None, None]
    assert [error["code"] for error in result["step_errors"]] == ["TRANSACTION_TIMEOUT"] * 3
    assert db.run("SELECT count(*) FROM t").rows() == [["0"]]


def test_describe_and_get_autocommit_do_not_report_a_timeout(db, clock, service):
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute("BEGIN"), execute("INSERT INTO t VALUES (1)")).baton
    clock.advance(5)
    service.engine.sweep()  # rolled back without a request
    assert db.run("INSERT INTO t VALUES (9)").codes == ["ok", "ok"]
    answer = db.post(GET_AUTOCOMMIT, {"type": "describe", "sql": "SELECT 1"}, baton=baton)
    assert answer.codes == ["ok", "ok"]
    answer = db.post(execute("COMMIT"), baton=answer.baton)
    assert answer.codes == ["TRANSACTION_TIMEOUT"]
    assert db.post(execute("SELECT 1"), baton=answer.baton).codes == ["ok"]


def test_a_nested_savepoint_does_not_renew_the_time_limit_and_a_new_transaction_does(db, clock):
    baton = db.post(execute("BEGIN"), execute("CREATE TABLE t(a)")).baton
    clock.advance(4)
    baton = db.post(execute("SAVEPOINT inner"), execute("RELEASE inner"), execute("COMMIT"), baton=baton).baton
    baton = db.post(execute("BEGIN"), baton=baton).baton
    clock.advance(4)
    answer = db.post(execute("INSERT INTO t VALUES (1)"), execute("COMMIT"), baton=baton)
    assert answer.codes == ["ok", "ok"]


def test_a_stale_snapshot_is_reported_at_once_and_requires_a_rollback(db):
    db.run("CREATE TABLE t(a)")
    stale = db.post(execute("BEGIN"), execute("SELECT count(*) FROM t"))
    db.run("INSERT INTO t VALUES (1)")
    answer = db.post(execute("INSERT INTO t VALUES (2)"), GET_AUTOCOMMIT, baton=stale.baton)
    assert answer.codes == ["SQLITE_BUSY", "ok"]
    assert "database is locked" in answer.error()["message"]
    assert answer.response(1)["is_autocommit"] is False
    answer = db.post(execute("ROLLBACK"), execute("INSERT INTO t VALUES (2)"), baton=answer.baton)
    assert answer.codes == ["ok", "ok"]


def test_a_new_stream_sees_no_trace_of_an_earlier_one(db):
    db.post(
        execute("CREATE TABLE t(a)"),
        execute("INSERT INTO t VALUES (1)"),
        execute("CREATE TEMP TABLE secret(a)"),
        execute("PRAGMA foreign_keys = OFF"),
        execute("PRAGMA case_sensitive_like = ON"),
        {"type": "store_sql", "sql_id": 1, "sql": "SELECT 1"},
        CLOSE,
    )
    answer = db.post(
        execute("SELECT last_insert_rowid(), changes(), total_changes()"),
        execute("PRAGMA foreign_keys"),
        execute("SELECT 'a' LIKE 'A'"),
        execute("SELECT * FROM secret"),
        {"type": "execute", "stmt": {"sql_id": 1}},
        CLOSE,
    )
    assert answer.rows(0) == [["0", "0", "0"]]
    assert answer.rows(1) == [["1"]]
    assert answer.rows(2) == [["1"]]
    assert answer.error(3)["message"].endswith("no such table: secret")
    assert answer.codes[4] == "SQL_STORE_NOT_FOUND"


def test_the_connection_of_a_stream_without_writes_is_reused(db, service):
    db.run("CREATE TABLE t(a)")
    database = service.engine.databases.open(service.catalog.database("local", "flights"))
    first = database.take()
    first.release(first)
    assert database.take() is first
    first.release(first)


def test_columns_of_an_empty_result_follow_a_change_of_the_schema_on_another_stream(db):
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute("SELECT * FROM t")).baton
    db.run("ALTER TABLE t ADD COLUMN b TEXT")
    answer = db.post(execute("SELECT * FROM t"), baton=baton)
    cols = answer.response()["result"]["cols"]
    assert cols == [{"name": "a", "decltype": None}, {"name": "b", "decltype": "TEXT"}]


def test_columns_of_rows_follow_a_change_of_the_schema_on_another_stream(db):
    db.run("CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
    baton = db.post(execute("SELECT * FROM t")).baton
    db.run("ALTER TABLE t ADD COLUMN b TEXT")
    result = db.post(execute("SELECT * FROM t"), baton=baton).response()["result"]
    assert result["cols"] == [{"name": "a", "decltype": None}, {"name": "b", "decltype": "TEXT"}]
    assert result["rows"] == [[{"type": "integer", "value": "1"}, {"type": "null"}]]


def test_the_replication_index_counts_commits_and_never_goes_backwards(db, service, tmp_path, clock):
    def index() -> int:
        value = db.run("SELECT 1").response()["result"]["replication_index"]
        assert isinstance(value, str)
        return int(value)

    start = index()
    db.run("CREATE TABLE t(a)", "INSERT INTO t VALUES (1)", "SELECT * FROM t")
    assert index() == start + 2
    inside = db.post(execute("BEGIN"), execute("INSERT INTO t VALUES (2)"))
    assert inside.response(1)["result"]["replication_index"] == str(start + 2)
    db.post(execute("COMMIT"), CLOSE, baton=inside.baton)
    assert index() == start + 3

    service.close()
    db.service = Service(tmp_path / "data", clock=clock)
    assert index() == start + 3  # a clean stop keeps it
    db.run("INSERT INTO t VALUES (3)")
    seen, left_alone = index(), db.service
    db.service = Service(tmp_path / "data", clock=clock)  # as after a crash: nothing was recorded at the end
    assert index() >= seen
    db.run("INSERT INTO t VALUES (4)")
    assert index() > seen
    db.service.close()
    left_alone.close()


def test_a_deleted_database_ends_its_streams_and_its_files(db, service):
    baton = db.post(execute("BEGIN"), execute("CREATE TABLE t(a)")).baton
    record = service.catalog.database("local", "flights")
    folder = service.engine._files / record.id
    assert folder.exists()
    service.catalog.delete_database("local", "flights")
    service.engine.delete(record)
    assert not folder.exists()
    assert len(service.engine.streams) == 0
    assert db.post(execute("SELECT 1"), baton=baton).status in (401, 404)


def test_a_deleted_database_is_not_created_again_by_a_running_request(service):
    record = service.catalog.create_database("local", "passing", "default")
    service.catalog.delete_database("local", "passing")
    service.engine.delete(record)
    with pytest.raises(Refused) as caught:
        service.engine.databases.open(record)  # its token was checked just before the deletion
    assert caught.value.status == 404
    assert not (service.engine._files / record.id).exists()


@contextmanager
def limited(folder, **limits):
    with new_service(folder, limits=Limits(**limits)) as service:
        yield service


def opened(caller, most):
    """Open streams up to a number; return their batons, and the refusal, if any."""
    batons = []
    for _ in range(most):
        answer = caller.post(execute("SELECT 1"))
        if answer.status != 200:
            return batons, answer
        batons.append(answer.baton)
    return batons, None


def test_too_many_open_streams_are_refused_with_429(tmp_path):
    whole = dict.fromkeys(
        ("streams_of_token", "streams_of_database", "streams_of_account", "streams_of_organization"), 1
    )
    with limited(tmp_path, streams=2, **whole) as service:
        db = caller_of(service, "flights")
        batons, refused = opened(db, 3)
        assert (len(batons), refused.status) == (2, 429)
        assert "Too many open streams: the service has 2 open" in refused.body["error"]
        db.post(CLOSE, baton=batons[0])
        assert db.run("SELECT 1").status == 200


def test_one_token_cannot_take_the_streams_of_others(tmp_path):
    with limited(tmp_path, streams=32) as service:
        greedy, other = caller_of(service, "flights", subject="eve"), caller_of(service, "flights")
        batons, refused = opened(greedy, 40)
        assert (len(batons), refused.status, refused.body["code"]) == (8, 429, "TOO_MANY_REQUESTS")
        assert refused.body["error"] == (
            "Too many open streams: this token has 8 open, which is the limit of one token; "
            "close those that are not needed, idle ones end after 10 s"
        )
        assert (
            opened(caller_of(service, "flights", subject="eve"), 1)[1].status == 429
        )  # a renewed token is the same one
        assert opened(other, 4)[1] is None
        greedy.post(CLOSE, baton=batons[0])
        assert greedy.run("SELECT 1").status == 200


def test_one_account_cannot_take_all_streams_with_many_tokens_and_databases(tmp_path):
    with limited(tmp_path, streams=32) as service:
        for number in range(8):
            last = opened(caller_of(service, f"db{number}", read_only=number % 2 == 0, subject="eve"), 4)[1]
        assert "this account has 12 open" in last.body["error"]
        assert len(service.engine.streams) == 12
        assert opened(caller_of(service, "db0"), 4)[1] is None


def test_one_database_and_one_organization_cannot_take_all_streams(tmp_path):
    with limited(tmp_path, streams=32) as service:
        for number in range(8):
            last = opened(caller_of(service, "flights", subject=f"student{number}"), 4)[1]
        assert "this database has 12 open" in last.body["error"]
        for number in range(8):
            last = opened(caller_of(service, f"db{number}", subject=f"student{number}"), 4)[1]
        assert "this organization has 16 open" in last.body["error"]
        assert len(service.engine.streams) == 16
        account = service.catalog.accounts.create("ada")
        service.catalog.organizations.create(account, "acme")
        service.catalog.create_group("acme", "default", "ams")
        record = service.catalog.create_database("acme", "weather", "default")
        token = service.tokens.issue_database(record, read_only=False, expires_in=None, subject="ada")
        assert opened(Caller(service, token), 4)[1] is None


def test_a_class_and_a_benchmark_fit_into_the_shares(service):
    """500 streams of one token; 200 students with five each, in one account's databases."""
    streams, database = (
        service.engine.streams,
        service.engine.databases.open(service.catalog.create_database("local", "d", "default")),
    )
    for _ in range(500):
        streams.open(database, Owner("local", "d", "ada", "rw"))
    for number in range(1000):
        streams.open(database, Owner("school", f"student{number % 200}", "teacher", "rw"))
        streams.open(database, Owner("shared", "one", f"student{number % 200}", "rw"))
    assert len(streams) == 2500


def test_every_end_of_a_stream_frees_its_share(tmp_path):
    long = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 500000) SELECT n FROM c"
    with limited(tmp_path, streams=8) as service:
        db, streams = caller_of(service, "flights"), service.engine.streams
        ends = [
            lambda baton: db.post(CLOSE, baton=baton),
            lambda _baton: streams.end_all(),
            lambda baton: (service.engine._clock.advance(10), db.post(execute("SELECT 1"), baton=baton)),
            lambda _baton: (service.engine._clock.advance(10), service.engine.sweep()),
            lambda baton: db.cursor(long, baton=baton).chunks.close(),
        ]
        for end in ends:
            batons, refused = opened(db, 3)
            assert (len(batons), refused.status) == (2, 429)
            end(batons[0])
            assert len(opened(db, 1)[0]) == 1
            streams.end_all()
            assert (len(streams), dict(streams._used)) == (0, {})


@pytest.mark.parametrize("mode", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_begin_inside_a_transaction_takes_no_lock(db, mode):
    baton = db.post(execute("BEGIN"), execute(f"BEGIN {mode}")).baton
    assert db.run("CREATE TABLE t(a)").codes == ["ok", "ok"]
    answer = db.post(
        execute(f"BEGIN {mode}"), execute("INSERT INTO t VALUES (1)"), execute(f"BEGIN {mode}"), baton=baton
    )
    assert answer.codes == ["SQLITE_ERROR", "ok", "SQLITE_ERROR"]
    assert answer.error()["message"] == "SQLite error: cannot start a transaction within a transaction"


def test_get_autocommit_reflects_the_time_limit_at_once(db, clock):
    baton = db.post(execute("BEGIN")).baton
    clock.advance(5)
    answer = db.post(GET_AUTOCOMMIT, execute("COMMIT"), baton=baton)
    assert answer.response()["is_autocommit"] is True
    assert answer.codes == ["ok", "TRANSACTION_TIMEOUT"]


def test_an_error_after_the_time_limit_is_a_timeout_even_if_sqlite_rolled_back(db, clock, service):
    db.run("CREATE TABLE t(a UNIQUE)", "INSERT INTO t VALUES (1)")
    baton = db.post(execute("BEGIN IMMEDIATE")).baton
    stream = next(iter(service.engine.streams._streams.values()))
    stream.connection.raw.create_scalar_function("late", lambda: clock.advance(5))
    answer = db.post(
        execute("INSERT OR ROLLBACK INTO t SELECT coalesce(late(), 1)"),
        execute("INSERT INTO t VALUES (2)"),
        baton=baton,
    )
    assert answer.codes == ["TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT"]
    assert db.run("SELECT count(*) FROM t").rows() == [["1"]]


def test_an_interrupt_at_a_time_limit_does_not_affect_later_statements(db, clock, service):
    baton = db.post(execute("BEGIN")).baton
    stream = next(iter(service.engine.streams._streams.values()))
    db.post(execute("COMMIT"), baton=baton)
    assert stream.begin(interruptible=True, now=clock())
    stream.enforce(clock() + 50, service.limits)
    assert not stream.connection.stopped
    stream.end()


def test_a_stream_that_is_ended_while_its_response_is_finished_is_removed(db, service, monkeypatch):
    db.run("CREATE TABLE t(a)")
    finish = service.engine.streams.finish

    def end_and_finish(stream):
        service.engine.streams.end_all()  # as by another thread: it still finds the stream in use
        return finish(stream)

    with monkeypatch.context() as patch:
        patch.setattr(service.engine.streams, "finish", end_and_finish)
        answer = db.post(execute("BEGIN IMMEDIATE"))
    assert (answer.codes, answer.baton) == (["ok"], None)
    assert len(service.engine.streams) == 0
    assert db.run("INSERT INTO t VALUES (1)").codes == ["ok", "ok"]


@pytest.mark.parametrize("error", [apsw.IOError("disk I/O error"), RuntimeError("a bug")])
def test_a_stream_that_cannot_be_rolled_back_does_not_affect_the_time_limits_of_others(
    db, clock, service, monkeypatch, error
):
    db.run("CREATE TABLE t(a)")
    db.post(execute("BEGIN"))
    other = db.post(execute("BEGIN IMMEDIATE"))
    broken, sound = service.engine.streams._streams.values()

    def fail() -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(broken.connection, "rollback", fail)
        clock.advance(5)
        service.engine.sweep()
    assert len(service.engine.streams) == 1
    assert sound.write_waiter is None
    assert db.run("INSERT INTO t VALUES (1)").codes == ["ok", "ok"]
    assert db.post(execute("COMMIT"), baton=other.baton).codes == ["TRANSACTION_TIMEOUT"]


def test_the_sweeper_continues_after_any_error(db, service, monkeypatch):
    sweeps, again = [], threading.Event()

    def sweep() -> None:
        sweeps.append(1)
        if len(sweeps) == 1:
            raise RuntimeError("a bug")
        again.set()

    monkeypatch.setattr(embedded, "SWEEP_EVERY", 0.01)
    monkeypatch.setattr(service.engine.streams, "sweep", sweep)
    service.start()
    assert again.wait(10)


def test_without_file_handles_for_a_connection_the_response_is_429(db, service, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise apsw.CantOpenError("unable to open database file")

    with monkeypatch.context() as patch:
        patch.setattr(database, "Connection", fail)
        assert db.run("SELECT 1").status == 429
    assert db.run("SELECT 1").status == 200
    assert len(service.engine.streams) == 0


def test_a_commit_is_acknowledged_though_the_work_after_it_fails(db, service, monkeypatch):
    def fail(_identifier: str, _index: int) -> None:
        raise apsw.FullError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(service.catalog, "reserve_index", fail)
        assert db.run("CREATE TABLE t(a)").codes == ["ok", "ok"]
    assert db.run("INSERT INTO t VALUES (1)", "SELECT a FROM t").rows(1) == [["1"]]


@pytest.mark.parametrize(("begin", "end"), [("BEGIN", "COMMIT"), ("BEGIN", "END"), ("SAVEPOINT s", "RELEASE s")])
@pytest.mark.parametrize("event", ["window", "hang-up"])
def test_a_commit_that_has_begun_is_never_interrupted(db, clock, service, begin, end, event):
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute(begin), execute("INSERT INTO t VALUES (1)")).baton
    (stream,) = service.engine.streams._streams.values()
    connection, hooked = Disconnect(), []

    def in_the_middle() -> bool:
        hooked.append(True)
        if event == "window":
            clock.advance(6)
            service.engine.sweep()
        else:
            connection.set()
        return False  # continue the commit

    stream.connection.raw.set_commit_hook(in_the_middle)
    answer = db.post(execute(end), baton=baton, connection=connection)
    assert hooked
    if event == "window":
        assert answer.codes == ["ok"]
    assert db.run("SELECT a FROM t").rows() == [["1"]]


@pytest.mark.parametrize(("sql", "stopped"), [("COMMIT", False), ("SELECT * FROM t", True), ("DELETE FROM t", True)])
def test_a_sweep_stops_statements_past_the_time_limit_but_no_commit(db, clock, service, sql, stopped, monkeypatch):
    db.run("CREATE TABLE t(a)")
    baton = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    (stream,) = service.engine.streams._streams.values()
    run, seen = stream.connection.run, []

    def run_late(*arguments, **options):
        clock.advance(6)
        service.engine.sweep()
        seen.append(stream.connection.stopped)
        return run(*arguments, **options)

    monkeypatch.setattr(stream.connection, "run", run_late)
    answer = db.post(execute(sql), baton=baton)
    assert seen == [stopped]
    assert answer.codes == ["TRANSACTION_TIMEOUT" if stopped else "ok"]
