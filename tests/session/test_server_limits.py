"""Servers whose limits are not those that the client estimates: they decide, and the client learns it from responses.

The service runs in process, and the test moves the clock of both. Each pause is longer than the server's limit and
shorter than the client's estimate, or the other way round.
"""

from __future__ import annotations

import pytest
from limited_service import limited, names_limits
from scripted_server import as_json, as_text
from seed_server import SeedServer

from pipemagic.client.database import Database
from pipemagic.client.transaction import Reason
from pipemagic.errors import PipemagicError, SessionError, TransactionLost, UnknownOutcome
from pipemagic.hrana.messages import Describe
from pipemagic.hrana.stream import Tx
from pipemagic.service.limits import Limits
from pipemagic.session import Connection, Session

__all__ = ["limited", "names_limits"]

LONG, SHORT = 12, 4  # seconds of pauses
COUNT = 500
ROWS = f"""WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {COUNT})
    SELECT n, printf('%0100d', n) AS t FROM c"""


patient = pytest.mark.parametrize("limits", [Limits(idle=60, transaction=60, response=20_000)], ids=[""])
impatient = pytest.mark.parametrize("limits", [Limits(idle=3, transaction=60, response=20_000)], ids=[""])
hasty = pytest.mark.parametrize("limits", [Limits(idle=60, transaction=3)], ids=[""])
named = pytest.mark.parametrize("names_limits", [True], ids=["named"])

# -- a server that waits longer than the client thinks


@impatient
@named
@pytest.mark.parametrize(("cell", "idle"), [("PRAGMA foreign_keys = OFF", None), ("BEGIN", 0.0)])
def test_a_connection_is_gone_once_the_named_time_is_over_and_an_open_transaction_is_not(limited, cell, idle):
    limited.run(cell)
    assert limited.connection.remaining_time.idle == 3
    limited.pause(SHORT)
    assert limited.connection.remaining_time.idle == idle


@patient
@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        ("BEGIN", "COMMIT", [1, 2, 3]),
        ("BEGIN IMMEDIATE", "ROLLBACK", [1]),
        ("SAVEPOINT a", "RELEASE a", [1, 2, 3]),
        ("BEGIN; SAVEPOINT a", "ROLLBACK TO a; COMMIT", [1]),
    ],
)
def test_a_transaction_survives_a_pause(limited, begin, end, expected):
    limited.run(f"{begin}; INSERT INTO n VALUES (2)")
    stream = limited.connection.stream
    limited.pause(LONG)
    assert limited.connection.transaction is Tx.OPEN
    assert limited.connection.check_server() == ""
    limited.pause(LONG)
    result = limited.run("INSERT INTO n VALUES (3); SELECT count(*) AS n FROM n")
    assert (result.notes, result.frame["n"].tolist()) == ((), [3])
    limited.pause(LONG)
    assert limited.run(end).notes == ()
    assert (limited.connection.stream, stream.reopened, limited.numbers) == (stream, 0, expected)
    assert limited.open_transactions == 0


@patient
def test_the_lock_is_not_held_by_a_transaction_that_the_client_believes_dead(limited):
    limited.run("BEGIN IMMEDIATE; INSERT INTO n VALUES (2)")
    limited.pause(LONG)
    limited.run("ROLLBACK")
    assert limited.open_transactions == 0
    limited.run("INSERT INTO n VALUES (3)")  # it would wait for the lock
    with limited.database() as other:
        other.execute("INSERT INTO n VALUES (4)")
    assert limited.numbers == [1, 3, 4]


@patient
def test_a_failed_statement_after_a_pause_leaves_the_transaction_open(limited):
    limited.run("BEGIN; INSERT INTO n VALUES (2)")
    limited.pause(LONG)
    with pytest.raises(PipemagicError, match="UNIQUE"):
        limited.run("INSERT INTO n VALUES (2)")
    assert limited.connection.transaction is Tx.OPEN
    with pytest.raises(SessionError, match="nothing to rerun"):
        limited.connection.retry()
    limited.run("COMMIT")
    assert limited.numbers == [1, 2]


@patient
def test_an_atomic_cell_after_a_pause_does_not_end_the_transaction(limited):
    limited.run("BEGIN; INSERT INTO n VALUES (2)")
    limited.pause(LONG)
    with pytest.raises(SessionError, match="transaction is open"):
        limited.run("INSERT INTO n VALUES (3)", atomic=True)
    limited.run("COMMIT")
    assert limited.numbers == [1, 2]


@patient
def test_temporary_tables_and_settings_survive_a_pause(limited):
    limited.run("PRAGMA foreign_keys = OFF; CREATE TEMP TABLE basket (item); INSERT INTO basket VALUES (7)")
    limited.connection.keep_alive(None)  # no thread renews the idle time
    limited.pause(LONG)
    result = limited.run("SELECT item, (SELECT foreign_keys FROM pragma_foreign_keys) AS keys FROM basket")
    assert (result.notes, result.frame.values.tolist()) == ((), [[7, 0]])
    limited.run("DROP TABLE basket")
    limited.pause(LONG)
    assert limited.run("PRAGMA foreign_keys").frame.iloc[0, 0] == 0
    assert limited.connection.stream.reopened == 0


@patient
def test_with_nothing_open_a_cell_after_a_pause_runs_once(limited):
    limited.pause(LONG)
    assert limited.run("INSERT INTO n VALUES (2)").notes == ()
    limited.pause(LONG)
    limited.run("INSERT INTO n VALUES (3); INSERT INTO n VALUES (4)", atomic=True)
    assert limited.numbers == [1, 2, 3, 4]


@patient
@pytest.mark.parametrize("names_limits", [False, True])
def test_only_an_old_baton_with_nothing_open_is_dropped_unasked(limited, names_limits):
    limited.run("SELECT 1")
    stream = limited.connection.stream
    limited.pause(LONG)
    limited.run("SELECT 1")
    assert stream.reopened == (not names_limits)  # the server named 60 s, or the client estimates 10 s
    limited.transport.requests.clear()
    limited.pause(LONG)
    limited.run("BEGIN")
    limited.pause(61)
    with pytest.raises(TransactionLost, match="idle"):
        limited.run("INSERT INTO n VALUES (2)")
    bodies = b"\n".join(limited.transport.requests)  # a clock is a guess, also when it is certain
    assert bodies.count(b"get_autocommit") >= 2
    assert (b"VALUES (2)" in bodies) is names_limits  # other servers are asked first whether it is still open
    limited.run("ROLLBACK")
    limited.pause(61)
    limited.run("INSERT INTO n VALUES (3)")
    assert sent(limited, "VALUES (3)") == 1
    assert limited.numbers == [1, 3]


@patient
def test_a_large_result_after_a_pause_sees_the_open_transaction(limited):
    limited.run("BEGIN; INSERT INTO n VALUES (2)")
    limited.pause(LONG)
    frame = limited.run(f"SELECT * FROM ({ROWS}), n").frame
    assert (len(frame), set(frame["i"])) == (2 * COUNT, {1, 2})
    limited.pause(LONG)
    limited.run("COMMIT")
    assert limited.numbers == [1, 2]


# -- a server that waits for a shorter time than the client thinks


@impatient
@pytest.mark.parametrize("cell", ["INSERT INTO n VALUES (3)", "COMMIT", "SELECT 1; COMMIT", ROWS])
def test_a_transaction_is_lost_with_its_idle_stream(limited, cell):
    limited.run("BEGIN; INSERT INTO n VALUES (2)")
    limited.pause(SHORT)
    assert limited.connection.transaction is Tx.OPEN  # nothing but a response makes it lost
    with pytest.raises(TransactionLost) as caught:
        limited.run(cell)
    first, *lines = caught.value.message.split("\n")
    assert "idle" in first
    assert lines == ["Undone:", "  BEGIN", "  INSERT INTO n VALUES (2)"]
    assert "%pipedb retry" in caught.value.hint
    loss = limited.connection.loss
    assert (loss.reason, loss.certain, loss.texts) == (Reason.IDLE_LIMIT, True, ["BEGIN", "INSERT INTO n VALUES (2)"])
    assert limited.numbers == [1]
    limited.connection.retry()
    assert limited.numbers == [1, 2]


@impatient
def test_until_its_loss_is_acknowledged_nothing_else_runs(limited):
    limited.run("BEGIN; INSERT INTO n VALUES (2)")
    limited.pause(SHORT)
    for expected in ("idle", "not run", "not run"):
        with pytest.raises(TransactionLost, match=expected):
            limited.run("INSERT INTO n VALUES (3)")
    assert limited.connection.transaction is Tx.LOST
    limited.run("ROLLBACK; INSERT INTO n VALUES (4)")
    assert limited.numbers == [1, 4]


@impatient
@pytest.mark.parametrize("open_before", ["SAVEPOINT a; SAVEPOINT b", "BEGIN; SAVEPOINT b"])
def test_savepoints_are_rerun_as_they_were(limited, open_before):
    limited.run(f"{open_before}; INSERT INTO n VALUES (2)")
    limited.run("ROLLBACK TO b; INSERT INTO n VALUES (3)")
    limited.pause(SHORT)
    with pytest.raises(TransactionLost, match="idle"):
        limited.run("RELEASE b")
    limited.connection.retry()
    assert limited.numbers == [1, 3]


@impatient
def test_an_atomic_cell_reports_the_loss_and_does_not_run(limited):
    limited.run("BEGIN; INSERT INTO n VALUES (2)")
    limited.pause(SHORT)
    with pytest.raises(TransactionLost, match="idle"):
        limited.run("INSERT INTO n VALUES (3)", atomic=True)
    with pytest.raises(TransactionLost, match="not run"):
        limited.run("INSERT INTO n VALUES (3)", atomic=True)
    limited.run("ROLLBACK")
    limited.run("INSERT INTO n VALUES (4)", atomic=True)
    assert limited.numbers == [1, 4]


@impatient
def test_with_nothing_open_a_refused_baton_is_no_news(limited):
    for number in (2, 3):
        limited.pause(SHORT)
        assert limited.run(f"INSERT INTO n VALUES ({number})").notes == ()
    limited.pause(SHORT)
    limited.run("INSERT INTO n VALUES (4)", atomic=True)
    limited.pause(SHORT)
    assert len(limited.run(ROWS).frame) == COUNT
    assert limited.numbers == [1, 2, 3, 4]


@impatient
def test_settings_are_made_again_and_temporary_tables_are_named(limited):
    limited.run("PRAGMA foreign_keys = OFF; CREATE TEMP TABLE basket (item)")
    limited.connection.keep_alive(None)
    limited.pause(SHORT)
    result = limited.run("INSERT INTO n VALUES (2)")
    (note,) = result.notes
    assert "PRAGMA foreign_keys = OFF" in note
    assert "basket" in note
    assert limited.run("PRAGMA foreign_keys").frame.iloc[0, 0] == 0
    assert limited.numbers == [1, 2]


@impatient
@named
def test_keep_alive_renews_in_time_once_the_server_has_named_its_limit(limited, monkeypatch):
    monkeypatch.setattr("pipemagic.session.keep_alive.KeepAlive.restart", lambda _: None)  # the test is the thread
    limited.connection.keep_alive(60)
    keeping = limited.connection.keep_alive_thread
    keeping._clock, keeping._since = limited.clock, limited.clock()
    limited.run("SELECT 1")
    stream = limited.connection.stream
    for _ in range(4):
        limited.pause(2)
        assert keeping.check()
        assert stream.idle_for() == 0
    assert limited.run("SELECT 2 AS a").frame["a"].tolist() == [2]
    assert stream.reopened == 0


@hasty
@pytest.mark.parametrize("cell", ["INSERT INTO n VALUES (3)", "COMMIT"])
def test_a_shorter_time_for_transactions_is_its_reason(limited, cell):
    limited.run("BEGIN; INSERT INTO n VALUES (2)")
    limited.pause(SHORT)
    assert limited.connection.transaction is Tx.OPEN
    with pytest.raises(TransactionLost, match="Undone:\n  BEGIN\n  INSERT INTO n VALUES"):
        limited.run(cell)
    assert limited.connection.loss.reason is Reason.TRANSACTION_LIMIT
    limited.connection.retry()
    assert limited.numbers == [1, 2]


HASTY = Limits(idle=60, transaction=3, response=20_000)


@pytest.mark.parametrize("limits", [HASTY], ids=[""])
@pytest.mark.parametrize("late", ["describe", "cursor"])
def test_a_transaction_that_ends_while_a_large_result_is_fetched(limited, late):
    def pass_time(body):
        if (b"describe" in body) if late == "describe" else b'"batch"' in body:
            limited.transport.before = lambda _: None
            limited.pause(SHORT)

    limited.run("BEGIN; INSERT INTO n VALUES (2)")
    limited.transport.before = pass_time
    with pytest.raises(TransactionLost, match="Undone:\n  BEGIN\n  INSERT INTO n VALUES"):
        limited.run(ROWS)
    assert limited.transport.before(b"") is None
    assert (limited.connection.transaction, limited.connection.loss.reason) == (Tx.LOST, Reason.TRANSACTION_LIMIT)
    with pytest.raises(TransactionLost, match="not run"):
        limited.run("INSERT INTO n VALUES (3); COMMIT")
    limited.run("ROLLBACK; INSERT INTO n VALUES (4)")
    assert limited.numbers == [1, 4]


@pytest.mark.parametrize("limits", [HASTY], ids=[""])
@pytest.mark.parametrize("requests", [[], [Describe("SELECT 1")]], ids=["nothing", "describe"])
def test_a_request_without_a_statement_that_finds_no_transaction_reports_its_loss(limited, requests):
    limited.run("BEGIN; INSERT INTO n VALUES (2)")
    limited.pause(SHORT)
    with pytest.raises(TransactionLost):
        limited.connection.stream.send(requests)
    assert (limited.connection.transaction, limited.connection.loss.reason) == (Tx.LOST, Reason.TRANSACTION_LIMIT)
    with pytest.raises(TransactionLost, match="not run"):
        limited.run("INSERT INTO n VALUES (3); COMMIT")
    limited.connection.retry()
    limited.run("BEGIN; INSERT INTO n VALUES (4)")
    limited.run("COMMIT")
    assert limited.numbers == [1, 2, 4]


@pytest.mark.parametrize("limits", [Limits(idle=60, transaction=LONG - 1)], ids=[""])
def test_a_loss_that_the_client_asks_for_is_reported_once(limited):
    limited.run("BEGIN; INSERT INTO n VALUES (2)")
    limited.pause(LONG)
    with pytest.raises(TransactionLost, match="Undone:\n  BEGIN\n  INSERT INTO n VALUES"):
        limited.run("COMMIT")
    assert limited.connection.loss.reason is Reason.TRANSACTION_LIMIT
    limited.run("ROLLBACK")
    limited.run("BEGIN; INSERT INTO n VALUES (3); COMMIT")
    assert limited.numbers == [1, 3]


@pytest.mark.slow
def test_sqld_with_a_shorter_time_for_transactions(sqld):
    """Its idle limit is a constant (10 s); the time of a transaction is a setting of the database."""
    made = sqld.database(txn_timeout_s=1)
    with Database(made.url, made.token) as database, Database(made.url, made.token) as other:
        session = Session(environ={})
        session.adopt(Connection("main", database, "a test"))
        session.run("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1)")
        session.run("BEGIN; INSERT INTO n VALUES (2)")
        other.execute("INSERT INTO n VALUES (3)")  # after 1 s it takes the lock
        assert session.connection().transaction is Tx.OPEN
        with pytest.raises(TransactionLost, match="Undone:\n  BEGIN\n  INSERT INTO n VALUES"):
            session.run("COMMIT")
        assert session.connection().loss.reason is Reason.TRANSACTION_LIMIT
        session.connection().retry()
        assert rows(session) == [1, 2, 3]


# -- a server with the seed alone


@pytest.fixture
def seed(request, tmp_path, clock):
    server = SeedServer(tmp_path, clock, idle=request.param)
    with Database(server.url, "token", clock=clock) as database:
        session = Session(environ={})
        session.adopt(Connection("main", database, "a test"))
        session.run("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1)")
        yield session
    server.close()


def rows(session):
    return session.run("SELECT i FROM n ORDER BY i")["i"].tolist()


@pytest.mark.parametrize("seed", [60], indirect=True)
def test_a_transaction_survives_a_pause_without_the_rest_of_the_protocol(seed, clock):
    seed.run("BEGIN; INSERT INTO n VALUES (2)")
    clock.advance(LONG)
    seed.run("INSERT INTO n VALUES (3)")
    clock.advance(LONG)
    seed.run("COMMIT")
    assert rows(seed) == [1, 2, 3]


@pytest.mark.parametrize("seed", [3], indirect=True)
def test_a_transaction_is_lost_without_the_rest_of_the_protocol(seed, clock):
    seed.run("BEGIN; INSERT INTO n VALUES (2)")
    clock.advance(SHORT)
    with pytest.raises(TransactionLost, match="Undone:\n  BEGIN\n  INSERT INTO n VALUES"):
        seed.run("INSERT INTO n VALUES (3); COMMIT")
    assert seed.connection().loss.reason is Reason.SERVER_CLOSED  # it names no reason
    seed.connection().retry()
    clock.advance(SHORT)
    seed.run("INSERT INTO n VALUES (4)")
    assert rows(seed) == [1, 2, 4]


# -- refusals of other servers

REFUSALS = {
    "410 STREAM_EXPIRED": (as_json({"message": "idle for too long", "code": "STREAM_EXPIRED"}, 410), Reason.IDLE_LIMIT),
    "410 STREAM_LOST": (as_json({"message": "the stream is lost", "code": "STREAM_LOST"}, 410), Reason.SERVER_CLOSED),
    "404 STREAM_NOT_FOUND": (as_json({"message": "unknown", "code": "STREAM_NOT_FOUND"}, 404), Reason.SERVER_CLOSED),
    "404": (as_text("not found", 404), Reason.SERVER_CLOSED),
    "400 STREAM_EXPIRED": (as_json({"message": "expired", "code": "STREAM_EXPIRED"}, 400), Reason.IDLE_LIMIT),
    "400": (as_text("Received an invalid baton"), Reason.SERVER_CLOSED),
}
refusals = pytest.mark.parametrize(("refusal", "reason"), REFUSALS.values(), ids=REFUSALS)


@pytest.fixture
def refusing(limited, refusal):
    """A session on a server that refuses batons of idle streams in its own way."""
    limited.transport.refusal = refusal
    return limited


def sent(limited, text):
    """Return how many requests contained a text, and forget them."""
    bodies, limited.transport.requests[:] = list(limited.transport.requests), []
    return sum(text.encode() in body for body in bodies)


@impatient
@refusals
def test_a_refused_baton_loses_an_open_transaction(refusing, reason):
    refusing.run("BEGIN; INSERT INTO n VALUES (2)")
    refusing.pause(SHORT)
    with pytest.raises(TransactionLost, match="Undone:\n  BEGIN\n  INSERT INTO n VALUES"):
        refusing.run("INSERT INTO n VALUES (3)")
    assert sent(refusing, "VALUES (3)") == 1
    loss = refusing.connection.loss
    assert (refusing.connection.transaction, loss.reason, loss.certain) == (Tx.LOST, reason, True)
    with pytest.raises(TransactionLost, match="not run"):
        refusing.run("INSERT INTO n VALUES (3)")
    assert sent(refusing, "VALUES (3)") == 0
    refusing.connection.retry()
    assert refusing.numbers == [1, 2]


@impatient
@refusals
def test_with_nothing_open_a_refused_cell_runs_once(refusing, reason):
    refusing.pause(SHORT)
    assert refusing.run("INSERT INTO n VALUES (2)").notes == ()
    assert sent(refusing, "VALUES (2)") == 2  # the first one was refused
    refusing.pause(SHORT)
    assert refusing.run("INSERT INTO n VALUES (3)", atomic=True).notes == ()
    assert sent(refusing, "VALUES (3)") == 2
    refusing.pause(SHORT)
    assert len(refusing.run(ROWS).frame) == COUNT
    assert (refusing.connection.transaction, refusing.connection.loss) == (Tx.NONE, None)
    assert refusing.numbers == [1, 2, 3]


@impatient
@pytest.mark.parametrize("refusal", [REFUSALS["410 STREAM_EXPIRED"][0], REFUSALS["404"][0]], ids=["410", "404"])
@pytest.mark.parametrize("applied", [False, True])
def test_an_unanswered_commit_stays_unknown_whatever_is_refused_next(refusing, applied):
    refusing.run("BEGIN; INSERT INTO n VALUES (2)")
    if applied:
        refusing.transport.lost_response = "COMMIT"
    else:
        refusing.transport.lost_request = "COMMIT"
    with pytest.raises(UnknownOutcome) as caught:
        refusing.run("COMMIT")
    assert "Undone" not in caught.value.message
    loss = refusing.connection.loss
    assert (refusing.connection.transaction, loss.reason, loss.certain) == (Tx.NONE, Reason.UNKNOWN_OUTCOME, False)
    with pytest.raises(SessionError, match="not rerun, because it is not known whether it was committed"):
        refusing.connection.retry()
    assert sent(refusing, "COMMIT") == 1
    refusing.pause(SHORT)
    refusing.run("INSERT INTO n VALUES (3)")
    assert sent(refusing, "VALUES (3)") == 1
    assert refusing.numbers == ([1, 2, 3] if applied else [1, 3])
