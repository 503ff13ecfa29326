"""Calls in haste: what is short is answered where it arrived, what is not goes on in a thread, applied once."""

from __future__ import annotations

import json
import threading

import apsw
import pytest
from service_calls import CLOSE, GET_AUTOCOMMIT, Answer, execute
from waiting import Stopwatch, until

from pipemagic.service.embedded import connections, statements
from pipemagic.service.embedded.interface import BRIEF_ANSWER, BRIEF_BODY, looks_brief
from pipemagic.service.haste import BRIEF, ELSEWHERE, LONGEST, Haste, Known, Pace
from pipemagic.service.http import Cancel, Request
from pipemagic.service.turns import Turn

pytestmark = pytest.mark.usefixtures("waits")

LONG = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3000000) SELECT count(*) FROM c"
MANY = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 30000) SELECT x FROM c"
FILL = "INSERT INTO t WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {}) SELECT 0 FROM c"
AMPLE = 30.0  # seconds of haste that nothing here uses up


class Hasty:
    """Makes calls in haste and notes where they wait."""

    def __init__(self, db):
        self.db, self.service = db, db.service

    def begin(self, *requests, baton=None, seconds=AMPLE, haste=None):
        body = json.dumps({"baton": baton, "requests": requests}).encode()
        headers = {**self.db.headers, "authorization": f"Bearer {self.db.token}"}
        self.cancel = Cancel(haste or Haste(seconds))
        self.steps = self.service.steps(Request("POST", "/v3/pipeline", headers=headers, body=body), self.cancel)
        return self.go_on()

    def go_on(self):
        """Give the next Turn, or the answer."""
        try:
            return next(self.steps)
        except StopIteration as end:
            response = end.value
            if response.sent is not None:
                response.sent()
            return Answer(response.status, json.loads(b"".join(response.chunks)), response.content_type)

    @property
    def database(self):
        (database,) = self.service.databases.in_use()
        return database

    def run(self, *statements, **options):
        """Run statements that are known to be short."""
        for one in statements:
            self.database.known.note(one, short=True)
        return self.run_unknown(*statements, **options)

    def run_unknown(self, *statements, close=True, **options):
        return self.begin(*(execute(one) for one in statements), *([CLOSE] if close else []), **options)


@pytest.fixture
def hasty(db):
    db.run("CREATE TABLE t(v INTEGER)", "INSERT INTO t VALUES (0), (0), (0)")
    batons = [db.post(execute("SELECT 1")).baton for _ in range(2)]
    for baton in batons:
        db.post(CLOSE, baton=baton)  # so two connections are kept
    return Hasty(db)


def index_of(db):
    return int(db.run("SELECT 1").response()["result"]["replication_index"])


def test_a_short_query_is_answered_where_it_arrived(hasty):
    assert hasty.run("SELECT count(*) FROM t").rows() == [["3"]]


def test_a_short_write_is_applied_where_it_arrived(hasty, db):
    before = index_of(db)
    answer = hasty.run("UPDATE t SET v = v + 1", "SELECT sum(v) FROM t")
    assert answer.response(0)["result"]["affected_row_count"] == 3
    assert answer.rows(1) == [["3"]]
    assert index_of(db) == before + 1


def test_a_long_query_goes_on_elsewhere_and_is_counted_once(hasty, db):
    record = db.service.catalog.database("local", "flights")
    tally = db.service.meter._tallies[record.id]
    before = tally.rows_read
    watch = Stopwatch()
    assert hasty.run(LONG, seconds=BRIEF) is ELSEWHERE
    assert watch.stop() < 0.5  # it takes about that long; a moment of it was used
    assert hasty.go_on().rows() == [["3000000"]]
    assert tally.rows_read == before + 1


def test_a_query_of_many_rows_goes_on_elsewhere_and_has_each_once(hasty):
    assert hasty.run(MANY, seconds=BRIEF) is ELSEWHERE
    answer = hasty.go_on()
    assert [row[0] for row in answer.rows()] == [str(number) for number in range(1, 30001)]
    assert answer.response()["result"]["rows_read"] == 30000


@pytest.mark.parametrize("returning", ["", " RETURNING v"])
def test_a_long_write_is_applied_once(hasty, db, returning):
    db.run(FILL.format(60_000))
    before = index_of(db)
    assert hasty.run(f"UPDATE t SET v = v + 1{returning}", seconds=BRIEF) is ELSEWHERE
    assert hasty.database.writers._holder is None  # nobody waits for what waits for a thread
    answer = hasty.go_on()
    assert answer.response()["result"]["affected_row_count"] == 60_003
    assert db.run("SELECT min(v), max(v), count(*) FROM t").rows() == [["1", "1", "60003"]]
    assert index_of(db) == before + 1


def test_a_long_insert_with_rows_is_applied_once(hasty, db):
    assert hasty.run(FILL.format(50_000) + " RETURNING v", seconds=BRIEF) is ELSEWHERE
    assert len(hasty.go_on().rows()) == 50_000
    assert db.run("SELECT count(*) FROM t").rows() == [["50003"]]


def test_what_comes_after_the_haste_is_over_is_done_elsewhere(hasty):
    """The limit is for the call, not for each of its statements."""
    assert hasty.run("INSERT INTO t VALUES (7)", *["SELECT count(*) FROM t"] * 3000, seconds=BRIEF) is ELSEWHERE
    answer = hasty.go_on()
    assert answer.rows(3000) == [["4"]]
    assert set(answer.codes) == {"ok"}


@pytest.mark.parametrize("statement", ["BEGIN", "CREATE TABLE u(x)", "PRAGMA user_version", "VACUUM", "SAVEPOINT a"])
def test_what_may_take_long_is_begun_elsewhere(hasty, statement):
    for _ in range(2):
        assert hasty.run_unknown(statement) is ELSEWHERE
        assert hasty.go_on().codes[1] == "ok"


def test_a_statement_is_run_in_haste_once_it_was_short(hasty):
    for statement in ("SELECT count(*) FROM t", "UPDATE t SET v = v + 1"):
        assert hasty.run_unknown(statement) is ELSEWHERE
        assert hasty.go_on().codes == ["ok", "ok"]
        assert hasty.run_unknown(statement).codes == ["ok", "ok"]


def test_a_statement_that_got_long_is_run_elsewhere_until_it_is_short_again(hasty, db):
    query = "SELECT sum(a.v * b.v) FROM t AS a, t AS b"
    hasty.run_unknown(query)
    hasty.go_on()
    db.run(FILL.format(1000))
    assert hasty.run_unknown(query, seconds=BRIEF) is ELSEWHERE
    hasty.go_on()
    assert query not in hasty.database.known
    assert hasty.run_unknown(query) is ELSEWHERE
    hasty.go_on()
    db.run("DELETE FROM t")
    hasty.run_unknown(query)
    hasty.go_on()
    assert hasty.run_unknown(query).codes == ["ok", "ok"]


def test_in_a_transaction_queries_are_in_haste_and_writes_are_not(hasty, db):
    baton = db.post(execute("BEGIN")).baton
    read = hasty.run("SELECT sum(v) FROM t", baton=baton, close=False)
    assert read.rows() == [["0"]]
    assert hasty.run("UPDATE t SET v = 1", baton=read.baton, close=False) is ELSEWHERE
    written = hasty.go_on()
    assert hasty.run("COMMIT", baton=written.baton) is ELSEWHERE
    assert hasty.go_on().codes == ["ok", "ok"]
    assert db.run("SELECT sum(v) FROM t").rows() == [["3"]]


def test_a_long_query_leaves_its_transaction_as_it_was(hasty, db):
    baton = db.post(execute("BEGIN"), execute("UPDATE t SET v = 5")).baton
    assert hasty.run(LONG, "SELECT sum(v) FROM t", baton=baton, close=False, seconds=BRIEF) is ELSEWHERE
    answer = hasty.go_on()
    assert answer.rows(1) == [["15"]]
    assert db.post(execute("COMMIT"), CLOSE, baton=answer.baton).codes == ["ok", "ok"]
    assert db.run("SELECT sum(v) FROM t").rows() == [["15"]]


def until_the_window_ends(db, clock):
    """Let a transaction's window end while its request waits for a thread: others can write at once."""
    clock.advance(5)
    db.service.sweep()
    assert db.service.streams.census().transactions == 0
    assert db.run("INSERT INTO t VALUES (7)").codes == ["ok", "ok"]


@pytest.mark.parametrize("seconds", [AMPLE, 0.0])
@pytest.mark.parametrize("request_", [
    execute("COMMIT"),
    execute("INSERT INTO t VALUES (2)"),
    execute("SELECT v FROM t"),
    execute(f"INSERT INTO t VALUES (2) /* {'x' * LONGEST} */"),
    {"type": "sequence", "sql": "COMMIT; INSERT INTO t VALUES (2)"},
], ids=["commit", "write", "read", "long text", "sequence"])  # fmt: skip
def test_a_transaction_is_over_in_time_while_its_request_waits_for_a_thread(hasty, db, clock, request_, seconds):
    """Its token's other statements may keep it waiting for long, and nobody could write meanwhile."""
    baton = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    last = execute("SELECT 'last'")
    assert hasty.begin(request_, last, GET_AUTOCOMMIT, baton=baton, seconds=seconds) is ELSEWHERE
    until_the_window_ends(db, clock)
    answer = hasty.go_on()
    assert answer.codes == ["TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT", "ok"]
    assert answer.response(2)["is_autocommit"] is True
    assert db.post(last, CLOSE, baton=answer.baton).codes == ["ok", "ok"]
    assert db.run("SELECT v FROM t WHERE v > 0").rows() == [["7"]]


def test_a_transaction_is_over_in_time_while_a_batch_waits_for_a_thread(hasty, db, clock):
    baton = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    steps = [{"stmt": {"sql": text}} for text in ("INSERT INTO t VALUES (2)", "COMMIT")]
    assert hasty.begin({"type": "batch", "batch": {"steps": steps}}, CLOSE, baton=baton) is ELSEWHERE
    until_the_window_ends(db, clock)
    errors = hasty.go_on().response()["result"]["step_errors"]
    assert [error["code"] for error in errors] == ["TRANSACTION_TIMEOUT"] * 2
    assert db.run("SELECT v FROM t WHERE v > 0").rows() == [["7"]]


def test_a_transaction_is_over_in_time_while_a_long_query_of_it_waits_for_a_thread(hasty, db, clock):
    baton = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    assert hasty.run(LONG, "COMMIT", baton=baton, seconds=BRIEF) is ELSEWHERE
    until_the_window_ends(db, clock)
    assert hasty.go_on().codes == ["TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT", "ok"]
    assert db.run("SELECT v FROM t WHERE v > 0").rows() == [["7"]]


def test_a_transaction_is_over_in_time_while_a_large_answer_waits_for_a_thread(hasty, db, clock):
    baton = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    query = f"SELECT printf('%{BRIEF_ANSWER // 4}d', 1) FROM (VALUES (1), (2), (3), (4))"
    assert hasty.run(query, baton=baton, close=False) is ELSEWHERE
    until_the_window_ends(db, clock)
    answer = hasty.go_on()
    assert answer.codes == ["ok"]
    assert db.post(execute("COMMIT"), CLOSE, baton=answer.baton).codes == ["TRANSACTION_TIMEOUT", "ok"]


def test_a_transaction_goes_on_if_its_request_gets_its_thread_in_time(hasty, db, clock):
    baton = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    assert hasty.run_unknown("COMMIT", baton=baton) is ELSEWHERE
    clock.advance(4.9)
    db.service.sweep()
    assert hasty.go_on().codes == ["ok", "ok"]
    assert db.run("SELECT v FROM t WHERE v > 0").rows() == [["1"]]


def test_a_stream_that_is_ended_while_its_request_waits_for_a_thread_lets_others_write(hasty, db):
    baton = db.post(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)")).baton
    assert hasty.run_unknown("COMMIT", baton=baton) is ELSEWHERE
    db.service.streams.end_all()
    assert hasty.database.writers._holder is None
    assert db.run("INSERT INTO t VALUES (7)").codes == ["ok", "ok"]
    assert hasty.go_on().status == 503
    assert len(db.service.streams) == 0
    assert db.run("SELECT v FROM t WHERE v > 0").rows() == [["7"]]


def test_a_write_waits_for_its_turn(hasty, db):
    baton = db.post(execute("BEGIN IMMEDIATE")).baton
    turn = hasty.run("UPDATE t SET v = 9")
    assert isinstance(turn, Turn)
    assert turn is not ELSEWHERE
    assert not turn.granted
    db.post(execute("ROLLBACK"), CLOSE, baton=baton)
    assert turn.granted
    assert hasty.go_on().codes == ["ok", "ok"]
    assert db.run("SELECT sum(v) FROM t").rows() == [["27"]]


def test_a_transaction_that_waits_for_its_turn_is_over_in_time(hasty, db, clock):
    """Also if no thread goes on with its request for a while."""
    baton = db.post(execute("BEGIN"), execute("SELECT v FROM t")).baton
    clock.advance(1)
    db.post(execute("BEGIN IMMEDIATE"))
    assert hasty.run_unknown("INSERT INTO t VALUES (1)", "COMMIT", baton=baton) is ELSEWHERE
    turn = hasty.go_on()
    assert isinstance(turn, Turn)
    clock.advance(4)
    db.service.streams.sweep()
    assert turn.block(0)
    assert db.service.streams.census().transactions == 1
    assert hasty.database.writers.waiting == 0
    assert hasty.go_on().codes == ["TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT", "ok"]


def test_a_client_that_leaves_meanwhile_has_its_write_neither_applied_nor_in_the_way(hasty, db):
    db.run(FILL.format(60_000))
    assert hasty.run("UPDATE t SET v = 1", seconds=BRIEF) is ELSEWHERE
    hasty.cancel.set()
    assert hasty.go_on().status == 503
    assert len(hasty.service.streams) == 0
    assert db.run("SELECT max(v) FROM t").rows() == [["0"]]
    assert db.run("UPDATE t SET v = 2 WHERE rowid = 1").codes == ["ok", "ok"]


def test_a_database_that_is_not_open_is_opened_elsewhere(make_caller):
    hasty = Hasty(make_caller("fresh"))
    assert hasty.run_unknown("SELECT 1") is ELSEWHERE
    assert hasty.go_on().rows() == [["1"]]
    assert hasty.run("SELECT 1").rows() == [["1"]]


class StopsAt(Haste):
    """Is over when that is asked for the nth time."""

    def __init__(self, number):
        super().__init__(AMPLE)
        self.left = number

    @property
    def over(self):
        self.left -= 1
        return self.on and self.left < 0


@pytest.mark.parametrize("statement", [
    "INSERT INTO t VALUES (1), (2)",
    "INSERT INTO t VALUES (1), (2) RETURNING v",
    "INSERT OR FAIL INTO t SELECT v FROM t",
    "UPDATE t SET v = v + 1",
    "UPDATE t SET v = v + 1 RETURNING v, rowid",
    "DELETE FROM t WHERE v = 0",
    "REPLACE INTO u SELECT rowid, v FROM t",
    "INSERT INTO fts SELECT 'text ' || v FROM t",
])  # fmt: skip
def test_however_a_write_is_stopped_it_is_applied_once(hasty, db, monkeypatch, statement):
    """SQLite asks whether to go on even after a commit; what is run again then would be there twice."""
    monkeypatch.setattr(connections, "PROGRESS_IN_HASTE", 1)
    db.run(
        "CREATE TABLE u(id INTEGER PRIMARY KEY, v)", "CREATE VIRTUAL TABLE fts USING fts5(x)", "CREATE TABLE log(v)",
        "CREATE TRIGGER after INSERT ON t BEGIN INSERT INTO log VALUES (new.v); END",
    )  # fmt: skip
    tables = ("SELECT v FROM t ORDER BY rowid", "SELECT * FROM u", "SELECT * FROM fts", "SELECT count(*) FROM log")
    clean = ("DELETE FROM t", "DELETE FROM u", "DELETE FROM fts", "DELETE FROM log", "INSERT INTO t VALUES (0), (0)")

    def outcome(answer):
        result = answer.response()["result"]
        left = db.run(*tables)
        return result["affected_row_count"], result["rows"], [left.rows(number) for number in range(len(tables))]

    db.run(*clean)
    expected = outcome(db.run(statement))
    stopped, whole = 0, False
    for number in range(1000):
        db.run(*clean)
        before = index_of(db)
        answer = hasty.run(statement, haste=StopsAt(number))
        if answer is ELSEWHERE:
            stopped += 1
            answer = hasty.go_on()
        else:
            whole = True
        assert outcome(answer) == expected
        assert index_of(db) == before + 1
        if whole and number > stopped + 5:
            break
    assert whole
    assert stopped > 3


def test_values_and_patterns_that_keep_sqlite_busy_are_for_threads(hasty, db):
    """One step of a statement cannot be stopped, so each has to be short."""
    for query in (
        "SELECT length(hex(zeroblob(30000)))", "SELECT 'aaaaaaaaaaaaaaaa' LIKE '%a%a%a%a%b'",
        "SELECT 'aaa' GLOB '*a*b'", "SELECT length(printf('%50000d', 1))",
    ):  # fmt: skip
        expected = db.run(query).rows()
        assert hasty.run(query) is ELSEWHERE
        assert hasty.go_on().rows() == expected
    write = f"INSERT INTO t SELECT 'aaaa' LIKE '%a%a' OR 'a' REGEXP '{'a' * 100}' FROM t"
    assert hasty.run(write) is ELSEWHERE
    assert hasty.go_on().response()["result"]["affected_row_count"] == 3
    assert db.run("SELECT count(*) FROM t").rows() == [["6"]]
    assert db.run("SELECT 'abc' LIKE '%b%', length(hex(zeroblob(100000)))").rows() == [["1", "200000"]]  # as before


@pytest.mark.parametrize("made", ["fts4(x)", "fts5(x)", "fts5(x, detail=full)"])
def test_full_text_search_keeps_what_is_written_in_haste(hasty, db, made, monkeypatch):
    """It stores large blocks of its own, and does not look whether SQLite took them."""
    db.run(f"CREATE VIRTUAL TABLE f USING {made}")
    if made.startswith("fts5(x, "):
        db.run("INSERT INTO f(f, rank) VALUES('pgsz', 60000)")
    insert = "INSERT INTO f VALUES (?)"
    hasty.database.known.note(insert, short=True)
    monkeypatch.setattr(hasty.database.writes, "note", lambda _seconds: None)  # however slow this machine is
    monkeypatch.setattr(statements, "UNSTOPPED", 1000.0)
    in_haste = 0
    for number in range(64):
        text = {"type": "text", "value": "word " * 2500 + str(number)}
        answer = hasty.begin(execute(insert, text), CLOSE)
        if answer is ELSEWHERE:
            answer = hasty.go_on()
            hasty.database.known.note(insert, short=True)
        else:
            in_haste += 1
        assert answer.codes == ["ok", "ok"]
    assert in_haste > 16
    db.run("INSERT INTO f(f) VALUES('optimize')")
    assert db.run("INSERT INTO f(f) VALUES('integrity-check')").codes == ["ok", "ok"]
    answer = hasty.run("SELECT count(*) FROM f WHERE f MATCH 'word'")
    if answer is ELSEWHERE:
        answer = hasty.go_on()
    assert answer.rows() == [["64"]]


def test_a_statement_that_was_long_without_being_stopped_is_known_to_be_long(hasty, monkeypatch):
    monkeypatch.setattr(statements, "UNSTOPPED", 0.0)
    assert hasty.run("SELECT count(*) FROM t").rows() == [["3"]]
    assert "SELECT count(*) FROM t" not in hasty.database.known


def test_a_table_is_cleared_elsewhere_however_short_it_was_before(hasty):
    for statement in ("DELETE FROM t", "DELETE FROM t RETURNING v"):
        assert hasty.run(statement) is ELSEWHERE
        assert hasty.go_on().codes == ["ok", "ok"]
    assert hasty.run("DELETE FROM t WHERE v = 1").codes == ["ok", "ok"]


def test_a_value_that_the_schema_holds_is_no_lack_of_memory(hasty, db):
    long = "x" * 40_000
    db.run(f"ALTER TABLE t ADD COLUMN y DEFAULT '{long}'")
    query = "SELECT length(y) FROM t"
    assert hasty.run(query) is ELSEWHERE
    assert hasty.go_on().rows() == [["40000"]] * 3


def test_a_program_that_locks_the_file_is_waited_for_elsewhere(hasty, db):
    other = apsw.Connection(str(hasty.database.path))
    other.execute("BEGIN IMMEDIATE")
    watch = Stopwatch()
    assert hasty.run("UPDATE t SET v = 4") is ELSEWHERE
    assert watch.stop() < 0.5
    other.execute("ROLLBACK")
    other.close()
    assert hasty.go_on().codes == ["ok", "ok"]
    assert db.run("SELECT sum(v) FROM t").rows() == [["12"]]


@pytest.mark.parametrize("request_", [
    {"type": "describe", "sql": "SELECT * FROM t"},
    {"type": "sequence", "sql": "SELECT 1; SELECT 2"},
    {"type": "execute", "stmt": {"sql": "SELECT 1" + " " * 1000}},
    {"type": "execute", "stmt": {"sql_id": 1}},
])  # fmt: skip
def test_other_requests_and_long_texts_are_for_threads(hasty, request_):
    stored = {"type": "store_sql", "sql_id": 1, "sql": "SELECT 1 -- " + "x" * 2000}
    assert hasty.begin(stored, request_, CLOSE) is ELSEWHERE
    assert hasty.go_on().codes == ["ok", "ok", "ok"]


def test_a_large_answer_is_packed_elsewhere(hasty, db):
    query = "SELECT printf('%30000d', v) FROM t"
    expected = db.run(query).rows()
    assert hasty.run(query) is ELSEWHERE
    assert hasty.go_on().rows() == expected


def test_with_replicas_a_write_is_for_threads(hasty, db):
    service = db.service
    service.catalog.add_location("local", "default", "fra")
    service.placement.sync(service.catalog.group("local", "default"))
    assert hasty.run("SELECT count(*) FROM t").rows() == [["3"]]
    assert hasty.run("UPDATE t SET v = 1") is ELSEWHERE
    assert hasty.go_on().codes == ["ok", "ok"]


def test_nothing_is_begun_in_haste_while_the_catalog_is_busy(service):
    assert service.looks_brief("/v2/pipeline", 10)
    held, leave = threading.Event(), threading.Event()

    def hold():
        with service.catalog._store.lock:
            held.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    assert not service.looks_brief("/v2/pipeline", 10)
    leave.set()
    thread.join()
    assert service.looks_brief("/v2/pipeline", 10)


def test_what_is_known_is_bounded():
    known = Known()
    for number in range(2000):
        known.note(f"SELECT {number}", short=True)
    assert len(known._texts) == 500
    assert "SELECT 1999" in known
    known.note("SELECT 1999", short=False)
    assert "SELECT 1999" not in known
    known.note("x" * 1001, short=True)
    assert "x" * 1001 not in known


def test_a_stream_at_a_replica_is_served_elsewhere(hasty, db):
    """Its rows may have to wait for what the replica is writing."""
    service = db.service
    service.placement.start()
    service.catalog.add_location("local", "default", "fra")
    service.placement.sync(service.catalog.group("local", "default"))
    service.placement.here = "fra"
    replica = service.databases.in_use()[0].replicas["fra"]
    until(lambda: replica.ready)
    assert hasty.run("SELECT count(*) FROM t") is ELSEWHERE
    assert hasty.go_on().rows() == [["3"]]


@pytest.mark.parametrize("mistake", [
    "SELECT * FROM missing", "SELECT abs(-9223372036854775808)",
    "INSERT INTO t VALUES (1, 2)", "UPDATE t SET v = abs(1, 2)",
    "INSERT INTO t SELECT abs(-9223372036854775808) FROM t",
])  # fmt: skip
def test_errors_are_those_of_a_call_that_takes_its_time(hasty, db, mistake):
    answer = hasty.run(mistake)
    if mistake.startswith("SELECT"):  # at leisure it tells whether it is one of the haste
        assert answer is ELSEWHERE
        answer = hasty.go_on()
    assert answer.body["results"] == db.run(mistake).body["results"]
    assert answer.codes[0] != "ok"
    assert db.run("SELECT count(*) FROM t").rows() == [["3"]]


def test_after_long_queries_none_is_begun_in_haste_for_a_while(hasty, db):
    database = hasty.database
    for _ in range(20):
        assert hasty.run(LONG, seconds=BRIEF) is ELSEWHERE
        hasty.steps.close()
        if not database.reads.brief:
            break
    else:
        pytest.fail("twenty long queries did not bar the next one")
    assert hasty.run("SELECT 1") is ELSEWHERE
    assert hasty.go_on().rows() == [["1"]]
    assert hasty.run("UPDATE t SET v = 1").codes == ["ok", "ok"]  # writes have a pace of their own


def test_the_pace_bars_what_is_slow_again_and_again_or_very_slow_once(clock):
    pace = Pace(clock)
    for _ in range(100):
        for seconds in (0.0005, 0.003, 0.02, 0.003):  # long by chance, when other programs have the processor
            pace.note(seconds)
    assert pace.brief
    pace.note(0.2)
    assert not pace.brief
    clock.advance(19.9)
    assert not pace.brief
    clock.advance(0.2)
    assert pace.brief
    for _ in range(4):
        assert pace.brief
        pace.note(0.0015)
    assert not pace.brief
    clock.advance(1.01)
    assert pace.brief


def test_what_looks_brief():
    assert looks_brief("/v2/pipeline", 100)
    assert looks_brief("/v3/pipeline", BRIEF_BODY)
    assert not looks_brief("/v3/pipeline", BRIEF_BODY + 1)
    assert not looks_brief("/v3/cursor", 100)
    assert not looks_brief("/v1/organizations", 0)
