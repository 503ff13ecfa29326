"""Cursors in process: streamed rows, errors, and slow readers."""

from __future__ import annotations

import json
import threading
import tracemalloc

from asgi_calls import Disconnect, call
from service_calls import CLOSE, GET_AUTOCOMMIT, caller_of, entries_of, execute

from pipemagic.service.database_api import cursors
from pipemagic.service.database_api.stream import READER_WAIT
from pipemagic.service.limits import Limits
from pipemagic.service.service import Service

MANY = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {}) SELECT n, 'row ' || n FROM c"
LONG = MANY.format(20_000)  # more than the pieces that are produced before the first one is sent


def ok(step):
    return {"type": "ok", "step": step}


def read_part(response):
    """Read the first piece and leave the rest."""
    chunks = iter(response.chunks)
    first = next(chunks)
    return json.loads(first.split(b"\n")[0])["baton"], chunks


def test_many_rows_take_no_memory(db):
    response = db.cursor(MANY.format(200_000))
    tracemalloc.start()
    try:
        lines = largest = size = 0
        for piece in response.chunks:
            lines += piece.count(b"\n")
            size += len(piece)
            largest = max(largest, len(piece))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert lines == 200_003
    assert largest < 4 * cursors.PIECE
    assert peak < 8 * 1024 * 1024 < size


def test_large_rows_are_sent_one_at_a_time(db):
    response = db.cursor("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 50) "
                         "SELECT hex(zeroblob(1000000)) FROM c")  # fmt: skip
    assert max(map(len, response.chunks)) < 5_000_000


def test_rows_of_a_write_do_not_hold_the_write_lock(db):
    """An autocommit write ends before its rows are sent, for any number of rows."""
    db.run("CREATE TABLE t(a)")
    response = db.cursor(f"INSERT INTO t SELECT n FROM ({LONG}) RETURNING a, hex(zeroblob(100))", "SELECT 'after'")
    baton, chunks = read_part(response)
    assert db.run("INSERT INTO t VALUES (0)").codes == ["ok", "ok"]
    rest = b"".join(chunks)
    assert rest.count(b'"row"') > 19_000
    assert [json.loads(line)["type"] for line in rest.splitlines()[-4:]] == [
        "step_end",
        "step_begin",
        "row",
        "step_end",
    ]
    assert json.loads(rest.splitlines()[-4])["affected_row_count"] == 20_000
    assert db.post(CLOSE, baton=baton).status == 200


def test_a_write_that_fails_at_its_end_sends_no_rows_but_those_of_the_steps_before_it(db):
    db.run("CREATE TABLE p(a PRIMARY KEY)", "CREATE TABLE t(a REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
    answer = db.read("SELECT 'before'", f"INSERT INTO t SELECT n FROM ({LONG}) RETURNING a")
    assert answer.kinds == ["step_begin", "row", "step_end", "step_error SQLITE_CONSTRAINT"]
    assert db.run("SELECT count(*) FROM t").rows() == [["0"]]


def test_a_slow_reader_does_not_hold_the_write_lock_beyond_the_time_limit(db, clock, service):
    db.run("CREATE TABLE t(a)")
    response = db.cursor("BEGIN IMMEDIATE", "INSERT INTO t VALUES (1)", LONG, "COMMIT")
    baton, chunks = read_part(response)
    clock.advance(4.9)
    service.engine.sweep()
    assert db.run("SELECT count(*) FROM t").rows() == [["0"]]
    clock.advance(0.1)
    service.engine.sweep()
    assert db.run("INSERT INTO t VALUES (2)", "SELECT count(*) FROM t").rows(1) == [["1"]]
    codes = [json.loads(line).get("error", {}).get("code") for line in b"".join(chunks).splitlines()]
    assert codes == ["TRANSACTION_TIMEOUT"] * 2
    assert db.post(GET_AUTOCOMMIT, execute("SELECT 1"), CLOSE, baton=baton).codes == ["ok"] * 3


def test_a_reader_that_does_not_read_for_too_long_loses_the_stream(db, clock, service):
    """Otherwise it would prevent checkpoints."""
    db.run("CREATE TABLE t(a)")
    baton, chunks = read_part(db.cursor(f"SELECT * FROM sqlite_schema, ({LONG})"))
    clock.advance(READER_WAIT - 0.1)
    service.engine.sweep()
    stream = next(iter(service.engine.streams._streams.values()))
    assert stream.connection.raw.txn_state("main") == 1
    clock.advance(0.1)
    service.engine.sweep()
    assert stream.connection.raw.txn_state("main") == 0
    last = json.loads(b"".join(chunks).splitlines()[-1])
    assert (last["type"], last["error"]["code"]) == ("error", "STREAM_ENDED")
    assert len(service.engine.streams) == 0
    assert db.post(execute("SELECT 1"), baton=baton).body == "Received an invalid baton"


def test_a_reader_that_keeps_reading_is_never_too_slow(db, clock, service):
    _, chunks = read_part(db.cursor(LONG))
    data = b""
    for piece in chunks:
        data += piece
        clock.advance(READER_WAIT - 0.1)
        service.engine.sweep()
    assert json.loads(data.splitlines()[-1])["type"] == "step_end"


def test_a_request_on_the_same_stream_waits_for_the_cursor(db):
    """One with the previous baton is refused; see the reference, section 11."""
    before = db.post(execute("SELECT 1")).baton
    baton, chunks = read_part(db.cursor(LONG, "CREATE TEMP TABLE mark(a)", baton=before))
    assert db.post(execute("SELECT 1"), baton=before).body == "Received a baton that has already been used"
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(db.post(execute("SELECT * FROM mark"), baton=baton)))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    for _ in chunks:
        pass
    waiting.join(10)
    assert answers[0].codes == ["ok"]


def test_a_request_that_waits_for_a_cursor_ends_with_it(db):
    baton, chunks = read_part(db.cursor(LONG))
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(db.post(execute("SELECT 1"), baton=baton)))
    waiting.start()
    chunks.close()
    waiting.join(10)
    assert answers[0].body == "Received an invalid baton"


def test_disconnecting_ends_stream_and_transaction(db, service):
    db.run("CREATE TABLE t(a)")
    connection = Disconnect()
    _, chunks = read_part(db.cursor("BEGIN", "INSERT INTO t VALUES (1)", LONG, connection=connection))
    connection.set()
    chunks.close()
    assert len(service.engine.streams) == 0
    assert db.run("INSERT INTO t VALUES (2)", "SELECT a FROM t").rows(1) == [["2"]]


def test_disconnecting_interrupts(db, service):
    connection = Disconnect()
    answers = []
    endless = f"SELECT sum(n) FROM ({MANY.format(10**10)})"
    call = threading.Thread(target=lambda: answers.append(db.cursor(endless, connection=connection)))
    call.start()
    while not any(stream.running for stream in list(service.engine.streams._streams.values())):
        call.join(0.01)
    connection.set()
    call.join(10)
    assert not call.is_alive()
    assert answers[0].status == 503


def test_deleting_the_database_ends_its_cursors_with_an_error(db, service, tmp_path):
    _, chunks = read_part(db.cursor(LONG))
    token = (tmp_path / "data" / "platform-token").read_text().strip()
    headers = {**db.headers, "authorization": f"Bearer {token}"}
    deleted = call(service, "DELETE", "/v1/organizations/local/databases/flights", headers=headers)
    assert deleted.status == 200
    last = json.loads(b"".join(chunks).splitlines()[-1])
    assert (last["type"], last["error"]["code"]) == ("error", "STREAM_ENDED")


def test_a_read_only_token_that_is_refused_later_gets_an_entry(db, make_caller):
    db.run("CREATE TABLE t(a)")
    reader = make_caller(read_only=True)
    answer = reader.read(LONG, {"stmt": {"sql": "DELETE FROM t"}, "condition": ok(0)})
    assert answer.kinds[-2:] == ["step_end", "error FORBIDDEN"]
    assert reader.post(execute("SELECT 1"), baton=answer.baton).status == 400


def test_a_cursor_that_waits_for_the_write_lock_between_its_pieces(db):
    db.run("CREATE TABLE t(a)")
    holder = db.post(execute("BEGIN IMMEDIATE")).baton
    baton, chunks = read_part(db.cursor(LONG, "INSERT INTO t VALUES (1)"))
    rest = []
    reader = threading.Thread(target=lambda: rest.extend(chunks))
    reader.start()
    reader.join(0.1)
    assert reader.is_alive()
    db.post(execute("COMMIT"), CLOSE, baton=holder)
    reader.join(10)
    assert json.loads(b"".join(rest).splitlines()[-1])["affected_row_count"] == 1
    assert db.post(CLOSE, baton=baton).status == 200


def test_a_bug_is_an_entry_too(db, monkeypatch, caplog):
    _, chunks = read_part(db.cursor(LONG, "SELECT 'after'"))
    monkeypatch.setattr(cursors, "StepEnd", None)
    last = json.loads(b"".join(chunks).splitlines()[-1])
    assert (last["type"], last["error"]["code"]) == ("error", "INTERNAL")
    assert "a cursor failed" in caplog.text


def test_only_the_running_time_of_a_statement_counts(tmp_path, clock):
    """A reader's pauses do not count."""
    service = Service(tmp_path / "other", clock=clock, limits=Limits(statement_time=3.0))
    service.catalog.create_group("local", "default", "ams")
    _, chunks = read_part(caller_of(service, "flights").cursor(LONG))
    data = b""
    for piece in chunks:
        clock.advance(10)
        service.engine.sweep()
        data += piece
    assert json.loads(data.splitlines()[-1])["type"] == "step_end"
    service.close()


def test_a_cursor_waits_for_the_replication_index_of_its_client(db, monkeypatch):
    """As in a batch; after the timeout there is an error, and the stream is kept."""
    waited = []

    def wait_for(self, wanted):
        waited.append(wanted)
        if wanted == "99":
            raise cursors.Rejected("the replica did not reach 99", "REPLICA_BEHIND")
        return iter(())

    monkeypatch.setattr(cursors.Runner, "wait_for", wait_for)
    body = {"batch": {"steps": [{"stmt": {"sql": "SELECT 1"}}], "replication_index": "99"}}
    headers = {**db.headers, "authorization": f"Bearer {db.token}"}
    response = call(db.service, "POST", "/v3/cursor", headers=headers, body=json.dumps(body).encode())
    answer = entries_of(response.read())
    assert (waited, answer.kinds) == (["99"], ["error REPLICA_BEHIND"])
    assert db.post(execute("SELECT 1"), CLOSE, baton=answer.baton).codes == ["ok", "ok"]
