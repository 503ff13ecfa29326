"""Transactions in cells: the line below a cell, --atomic, %pipedb rollback, retry, status."""

from __future__ import annotations

import re
import time

import pytest
from ended_streams import end_at_server

from pipemagic.errors import StatementError, TransactionLost

OPEN = "Transaction open, {} so far: COMMIT keeps its changes, ROLLBACK undoes them."


@pytest.fixture(params=["embedded", "sqld"])
def server(request):
    """Each of the servers, which end transactions at other times."""
    return request.param


@pytest.fixture
def limits(server):
    """Patterns of the times that a transaction and an idle connection have left: sqld names no limits."""
    if server == "sqld":
        return r"about [345] of 5 s left", r"about (10|9) of 10 s left"
    return r"[345]\.\d of 5 s left", r"(10|9)\.\d of 10 s left"


def test_a_transaction_over_several_cells(db, limits):
    of_transaction, of_connection = limits
    db("%sql CREATE TABLE t (a INTEGER PRIMARY KEY)")
    assert db("%sql BEGIN IMMEDIATE").lines == [OPEN.format("no statements")]
    assert db("%sql INSERT INTO t VALUES (1)").lines[-1] == OPEN.format("1 statement")
    assert db("%sql INSERT INTO t VALUES (2)").lines[-1] == OPEN.format("2 statements")
    line = db("%pipedb status").lines[0]
    assert re.search(rf"idle time: {of_connection}; transaction open, 2 statements so far, {of_transaction}$", line)
    assert db("%sql COMMIT").lines == ["Done."]
    assert db("%sql SELECT 1").lines == []
    db("%sql BEGIN")
    db("%sql DELETE FROM t WHERE true")
    assert db("%pipedb rollback").lines == ["Rolled back 1 statement."]
    assert db("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [2]
    assert isinstance(db.fails("%sql COMMIT").error, StatementError)


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ((), "Ended the transaction. It contained no statements."),
        (("SELECT a FROM t",), "Ended the transaction. Its statement only read data."),
        (("SELECT a FROM t", "SELECT 1"), "Ended the transaction. Its 2 statements only read data."),
        (("SELECT a FROM t", "DELETE FROM t WHERE true"), "Rolled back 2 statements."),
        (("DELETE FROM t WHERE true", "SAVEPOINT s"), "Rolled back 1 statement."),
        (("SAVEPOINT s", "DROP TABLE t", "ROLLBACK TO s"), "Ended the transaction. It changed nothing."),
        (("INSERT OR FAIL INTO t VALUES (1), (2), (1)",), "Rolled back the transaction."),
        (("SELECT a FROM t", "INSERT OR FAIL INTO t VALUES (1), (2), (1)"), "Rolled back the transaction."),
        (("INSERT OR FAIL INTO t VALUES (1), (1)", "DELETE FROM t WHERE a = 1"), "Rolled back the transaction."),
        (("SELECT b FROM t",), "Ended the transaction. It contained no statements."),
    ],
)  # fmt: skip
def test_the_end_of_a_transaction_says_what_was_in_it(db, statements, said):
    db("%sql CREATE TABLE t (a INTEGER PRIMARY KEY)")
    db("%sql BEGIN")
    for statement in statements:
        (db.fails if " FAIL " in statement or "SELECT b" in statement else db)(f"%sql {statement}")
    assert db("%pipedb rollback").lines == [said]


@pytest.mark.parametrize("server", ["sqld"])  # the limit of the embedded service is higher
def test_the_end_of_a_transaction_with_results_that_are_too_large(db):
    db("%sql CREATE TABLE t (a)")
    db("%sql BEGIN")
    db.fails("%sql INSERT INTO t VALUES (zeroblob(12000000)) RETURNING a; SELECT 1")
    assert db("%pipedb rollback").lines == ["Rolled back the transaction."]


def test_a_rollback_by_a_trigger_can_be_retried(db):
    db("%sql CREATE TABLE t (a INTEGER PRIMARY KEY)")
    db(
        "%%sql\nCREATE TRIGGER no BEFORE INSERT ON t WHEN new.a < 0 "
        "BEGIN SELECT RAISE(ROLLBACK, 'negative: <b>no</b>'); END"
    )
    db("value = 7\n%sql BEGIN")
    db("%sql INSERT INTO t VALUES (:value)")
    failed = db.fails("value = 8\n%sql INSERT INTO t VALUES (-1)").out
    assert "negative: <b>no</b>" in failed
    assert "Undone:\n  BEGIN\n  INSERT INTO t VALUES (:value)" in failed
    assert isinstance(db.fails("%sql COMMIT").error, TransactionLost)
    assert db("%pipedb status").lines[0].endswith("transaction lost; continue with BEGIN, ROLLBACK or %pipedb retry")
    assert db("%pipedb retry").lines == [
        "Rerunning 1 statement with the original parameter values, all or nothing:",
        "  INSERT INTO t VALUES (:value)",
        "Committed; 1 row affected.",
        "Not included, and not run yet:",
        "  INSERT INTO t VALUES (-1)",
    ]
    assert db("%sql SELECT a FROM t").value["a"].tolist() == [7]
    assert "nothing to rerun on db" in db.fails("%pipedb retry").out
    db("%sql BEGIN")
    db.fails("%sql INSERT INTO t VALUES (-1)")
    assert db("%pipedb rollback").lines == ["Discarded the lost transaction."]


def minutes_later(connection, *, ended=True):
    """Let five minutes pass by the clock of the stream, which the server has ended meanwhile, or not."""
    if ended:
        end_at_server(connection)
    connection.stream._clock = lambda: time.monotonic() + 300


def connection_of(db):
    return db.ip.magics_manager.registry["PipeMagics"].session.connection("db")


TIMED_OUT = "; transaction timed out and was rolled back: "
WAYS_ON = f"{TIMED_OUT}%pipedb retry reruns its statements, %pipedb rollback discards it"


def test_status_minutes_after_the_last_cell_of_a_transaction(db):
    db("%sql CREATE TABLE t (a INTEGER PRIMARY KEY)")
    db("%sql BEGIN; INSERT INTO t VALUES (1)")
    minutes_later(connection_of(db))
    line = db("%pipedb status").lines[0]
    assert line.endswith(f"no server-side connection{WAYS_ON}")
    assert db("%pipedb rollback").lines == ["Discarded the lost transaction."]
    assert db("%pipedb status").lines[0].endswith("; no transaction")
    assert db("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [0]


def test_retry_minutes_after_the_last_cell_of_a_transaction(db):
    db("%sql CREATE TABLE t (a INTEGER PRIMARY KEY)")
    db("%sql BEGIN; INSERT INTO t VALUES (1)")
    failed = db.fails("%pipedb retry")
    assert "nothing to rerun on db: its transaction is still open\nHint: COMMIT keeps its changes" in failed.out
    minutes_later(connection_of(db))
    assert db("%pipedb retry").lines == [
        "Rerunning 1 statement with the original parameter values, all or nothing:",
        "  INSERT INTO t VALUES (1)",
        "Committed; 1 row affected.",
    ]
    assert db("%sql SELECT a FROM t").value["a"].tolist() == [1]


def test_an_atomic_cell_minutes_after_the_last_cell_of_a_transaction(db):
    db("%sql CREATE TABLE t (a INTEGER PRIMARY KEY)")
    db("%sql BEGIN; INSERT INTO t VALUES (1)")
    minutes_later(connection_of(db))
    db.fails("%sql --atomic INSERT INTO t VALUES (2)")
    assert db("%pipedb retry").lines[-2:] == ["Not included, and not run yet:", "  INSERT INTO t VALUES (2)"]
    assert db("%sql SELECT a FROM t").value["a"].tolist() == [1]


@pytest.mark.parametrize("end", ["COMMIT", "COMMIT; INSERT INTO t VALUES (2)"])
def test_a_commit_minutes_after_the_last_cell_refuses_no_other_cell(db, end):
    db("%sql CREATE TABLE t (a INTEGER PRIMARY KEY)")
    db("%sql BEGIN; INSERT INTO t VALUES (1)")
    minutes_later(connection_of(db))
    assert isinstance(db.fails(f"%sql {end}").error, TransactionLost)
    db("%sql INSERT INTO t VALUES (3)")
    assert db("%sql SELECT a FROM t").value["a"].tolist() == [3]


def test_a_rollback_minutes_after_the_last_cell_of_a_transaction(db):
    db("%sql CREATE TABLE t (a INTEGER PRIMARY KEY)")
    db("%sql BEGIN; INSERT INTO t VALUES (1)")
    minutes_later(connection_of(db))
    assert db("%pipedb rollback").lines == ["The server had already rolled back the transaction."]
    db("%sql BEGIN; INSERT INTO t VALUES (1)")
    minutes_later(connection_of(db))
    db("%sql ROLLBACK; INSERT INTO t VALUES (2)")
    assert db("%sql SELECT a FROM t").value["a"].tolist() == [2]


def test_a_transaction_that_the_server_keeps_for_minutes_is_committed(db, server):
    db("%sql CREATE TABLE t (a INTEGER PRIMARY KEY)")
    db("%sql BEGIN; INSERT INTO t VALUES (1)")
    minutes_later(connection_of(db), ended=False)
    over = "passed: the next cell shows whether it is still open" if server == "sqld" else "expired"
    assert db("%pipedb status").lines[0].endswith(f"; transaction open, 1 statement so far, its 5 s have {over}")
    assert db("%sql COMMIT").lines == ["Done."]
    assert db("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [1]


def test_status_does_not_offer_to_retry_a_transaction_without_writes(db):
    db("%sql BEGIN; SELECT 1")
    minutes_later(connection_of(db))
    assert db("%pipedb status").lines[0].endswith(f"{TIMED_OUT}%pipedb rollback discards it")


def test_status_names_the_connection_of_a_lost_transaction(db):
    db("%sql CREATE TABLE t (a INTEGER PRIMARY KEY)")
    db("%sql BEGIN; INSERT INTO t VALUES (1)")
    minutes_later(connection_of(db))
    db(f"%pipedb connect {connection_of(db).database.url} --as other --token-env DB_TOKEN")
    line = db("%pipedb status --on db").lines[0]
    assert line.endswith(": %pipedb retry --on db reruns its statements, %pipedb rollback --on db discards it")
    assert db("%pipedb rollback --on db").lines == ["Discarded the lost transaction."]


def test_commit_minutes_after_the_last_cell_of_a_transaction(db):
    db("%sql CREATE TABLE t (a INTEGER PRIMARY KEY)")
    db("%sql BEGIN; INSERT INTO t VALUES (1)")
    minutes_later(connection_of(db))
    db("%pipedb status")
    failed = db.fails("%sql COMMIT")
    assert isinstance(failed.error, TransactionLost)
    assert "Undone:\n  BEGIN\n  INSERT INTO t VALUES (1)" in failed.out
    assert "%pipedb retry reruns the undone statements, all or nothing" in failed.out


def test_status_shows_keep_alive(db):
    db("%pipedb connect db --keep-alive 10m")
    db("%sql SELECT 1")
    line = db("%pipedb status").lines[0]
    assert re.search(r"; no transaction; kept alive for another (10 min|9 min 59 s) if no cell runs$", line)
    assert (
        "--keep-alive: 'soon' is not a duration\nHint: write 90s, 10m or 1h"
        in db.fails("%pipedb connect db --keep-alive soon").out
    )


@pytest.mark.parametrize("server", ["embedded"])
def test_status_says_why_a_connection_with_temporary_tables_is_kept_alive(db):
    db("%sql CREATE TEMP TABLE basket (item)")
    line = db("%pipedb status").lines[0]
    kept = r"; kept alive for another (1 h|59 min 59 s) if no cell runs, because it has temporary tables$"
    assert re.search(kept, line)
    db("%pipedb connect db --keep-alive off")
    db("%sql SELECT * FROM basket")
    assert db("%pipedb status").lines[0].endswith("; no transaction")


@pytest.mark.parametrize("server", ["embedded"])
def test_a_profile_does_not_save_the_hour_of_temporary_tables(db):
    db("%sql CREATE TEMP TABLE basket (item)")
    db("%pipedb profiles --save kept")
    assert "keep-alive" not in str(session_of(db).profiles.get("kept")).replace("keep_alive=None", "")
    assert session_of(db).profiles.get("kept").kept_for is None


def session_of(db):
    return db.ip.magics_manager.registry["PipeMagics"].session


GONE = (
    "The connection was {} after the INSERT INTO t, so last_insert_rowid() is 0 again: "
    "run both in one cell, or add RETURNING a to the INSERT."
)


def test_a_retry_and_an_explained_cell_say_that_the_id_is_gone(db):
    db("%sql CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
    db("%%sql\nCREATE TRIGGER no BEFORE INSERT ON t WHEN new.b < 0 BEGIN SELECT RAISE(ROLLBACK, 'negative'); END")
    db("%sql INSERT INTO t (b) VALUES (1)")
    db("%sql BEGIN; INSERT INTO t (b) VALUES (last_insert_rowid())")
    db.fails("%sql INSERT INTO t (b) VALUES (-1)")
    connection_of(db).close()
    assert GONE.format("reopened") in db("%pipedb retry").lines
    assert db("%sql SELECT b FROM t").value["b"].tolist() == [1, 0]
    connection_of(db).close()
    line = GONE.format("closed")
    assert db("%sql --explain SELECT last_insert_rowid()").lines == [line]
    assert line in db("%sql --dry-run SELECT last_insert_rowid()").lines
    db("%config PipeMagic.quiet = True")
    assert db("%sql --explain SELECT last_insert_rowid()").lines == []


def test_the_session_says_it_with_a_file(db, tmp_path):
    file = tmp_path / "ids.sql"
    file.write_text("-- name: last\nSELECT last_insert_rowid() AS id;\nSELECT 'changes()'", "utf-8")
    db("%sql CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
    db("%sql INSERT INTO t (b) VALUES (1)")
    minutes_later(connection_of(db))
    lines = db(f"%sql --file {file}").lines
    assert lines[0] == GONE.format("reopened").replace("again:", "again in statement 1:")
    assert db.names["last"]["id"].tolist() == [0]
