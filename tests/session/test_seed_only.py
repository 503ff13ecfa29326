"""Cells on a server that knows the seed's two request types and nothing else: all works, some of it in more steps."""

from __future__ import annotations

import pandas as pd
import pytest
from scripted_server import Answer, as_json
from seed_server import SeedServer

from pipemagic.client.database import Database
from pipemagic.errors import SessionError, StatementError, TransactionLost, UnknownOutcome
from pipemagic.hrana.stream import Tx
from pipemagic.session import Connection, Session
from pipemagic.session.connection import RunOptions

ATOMIC = RunOptions(atomic=True)


@pytest.fixture(params=["silent", "error"])
def server(tmp_path, clock, request):
    """A server that keeps the 5 s of a transaction, in each of two manners."""
    server = SeedServer(tmp_path, clock, limit=request.param)
    yield server
    server.close()


@pytest.fixture
def numbers(server, clock):
    with Database(server.url, "token", clock=clock) as database:
        session = Session(environ={})
        session.adopt(Connection("main", database, "a test"))
        session.run("CREATE TABLE n (i INTEGER PRIMARY KEY, v); INSERT INTO n VALUES (1, 'one')")
        yield session


def ids(session):
    return session.run("SELECT i FROM n ORDER BY i")["i"].tolist()


def test_only_the_two_request_types_are_sent(numbers, server):
    numbers.run("SELECT :a AS a; BEGIN; INSERT INTO n VALUES (2, 'two'); COMMIT", {"a": 1})
    numbers.run_cell("INSERT INTO n VALUES (3, 'three'); SELECT 1", options=ATOMIC)
    numbers.connection().close()
    assert {kind for call in server.posts for kind in call.kinds} == {"execute", "close"}
    assert {call.path for call in server.posts} == {"/v2/pipeline"}


@pytest.mark.parametrize("value", [None, True, -(2**63), 2**53 + 1, 0.1, "té's", b"\x00\xff", "x" * 100_000])
def test_parameters_of_every_type(numbers, value):
    numbers.run("UPDATE n SET v = :v WHERE i = @i", {"v": value, "i": 1})
    got = numbers.connection().database.execute("SELECT v FROM n WHERE i = ?", [1]).rows[0][0]
    assert got == (int(value) if value is True else value)


def test_several_statements_stop_at_the_first_error(numbers):
    with pytest.raises(StatementError, match="Statement 1 was applied; statement 3 did not run") as caught:
        numbers.run("INSERT INTO n VALUES (2, 'two'); SELECT nope FROM n; DELETE FROM n WHERE true")
    assert caught.value.index == 1
    assert ids(numbers) == [1, 2]


def test_a_transaction_over_cells(numbers):
    assert numbers.connection().begin("IMMEDIATE").open_line.startswith("Transaction open, no statements so far")
    assert numbers.run_cell("INSERT INTO n VALUES (2, 'two')").open_line.startswith("Transaction open, 1 statement")
    assert numbers.connection().commit() == 1
    numbers.run("BEGIN; DELETE FROM n WHERE true")
    assert numbers.connection().rollback() == 1
    assert ids(numbers) == [1, 2]


def test_an_error_in_a_transaction_leaves_it_open(numbers):
    numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two')")
    with pytest.raises(StatementError, match="still open, 1 statement so far"):
        numbers.run("INSERT INTO n VALUES (1, 'again')")
    numbers.run("COMMIT")
    assert ids(numbers) == [1, 2]


ENDING = {
    "or rollback": "INSERT OR ROLLBACK INTO n VALUES (1, 'again')",
    "constraint": "INSERT INTO strict VALUES (1)",
    "trigger": "INSERT INTO guarded VALUES (-1)",
}


@pytest.mark.parametrize("end", ENDING)
def test_an_error_that_ends_the_transaction_is_found_out(numbers, end):
    numbers.run(
        "CREATE TABLE strict (i UNIQUE ON CONFLICT ROLLBACK); INSERT INTO strict VALUES (1); CREATE TABLE guarded (i);"
        "CREATE TRIGGER no BEFORE INSERT ON guarded BEGIN SELECT RAISE(ROLLBACK, 'no'); END"
    )
    numbers.run("BEGIN; INSERT INTO n VALUES (:i, 'two')", {"i": 2})
    with pytest.raises(StatementError, match=r"rolled back the whole transaction(.|\n)*Undone:\n  BEGIN\n  INSERT"):
        numbers.run(ENDING[end])
    assert numbers.connection().transaction is Tx.LOST
    numbers.connection().retry()
    assert ids(numbers) == [1, 2]


def test_savepoints(numbers):
    assert numbers.run_cell("SAVEPOINT a; INSERT INTO n VALUES (2, 'two')").open_line
    assert numbers.run_cell("SAVEPOINT b; INSERT INTO n VALUES (3, 'three'); ROLLBACK TO b; RELEASE b").open_line
    assert numbers.run_cell("RELEASE a").open_line == ""
    assert ids(numbers) == [1, 2]


def test_a_cell_that_fails_inside_its_own_transaction_is_rolled_back(numbers):
    with pytest.raises(StatementError, match="Statements 1-2 were rolled back"):
        numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two'); SELECT nope; COMMIT")
    assert ids(numbers) == [1]


def test_atomic_cells(numbers):
    numbers.run_cell("INSERT INTO n VALUES (2, :v); INSERT INTO n VALUES (3, :v)", {"v": "both"}, options=ATOMIC)
    with pytest.raises(StatementError, match="nothing was changed; statement 2 of 3 failed here, line 1:"):
        numbers.run_cell("INSERT INTO n VALUES (4, 4); INSERT INTO n VALUES (1, 1); SELECT 1", options=ATOMIC)
    assert ids(numbers) == [1, 2, 3]
    assert numbers.connection().transaction is Tx.NONE


def test_after_five_seconds_nothing_runs_outside_the_transaction(numbers, clock):
    numbers.run("BEGIN")
    numbers.run("INSERT INTO n VALUES (:i, 'two')", {"i": 2})
    clock.advance(6)
    with pytest.raises(TransactionLost, match="within 5 s and was open for longer\nUndone:\n  BEGIN\n  INSERT"):
        numbers.run("INSERT INTO n VALUES (3, 'alone'); COMMIT")
    with pytest.raises(TransactionLost, match="not run"):
        numbers.run("INSERT INTO n VALUES (3, 'alone')")
    numbers.connection().retry()
    assert ids(numbers) == [1, 2]


def test_after_ten_seconds_of_idle_time(numbers, clock):
    numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two')")
    clock.advance(11)
    with pytest.raises(TransactionLost, match="within 5 s"):
        numbers.run("COMMIT")
    numbers.run("ROLLBACK")
    assert ids(numbers) == [1]


def test_an_idle_connection_is_opened_again_with_its_settings(numbers, clock):
    numbers.run("PRAGMA foreign_keys = ON")
    clock.advance(11)
    result = numbers.run_cell("PRAGMA foreign_keys")
    assert result.frame.iloc[:, 0].tolist() == [1]
    assert result.notes == ("The connection was reopened (set again: PRAGMA foreign_keys = ON).",)


def test_a_lost_answer_is_never_sent_again(numbers, server):
    answer = server.script[0]
    server.script = [lambda call: (answer(call), Answer(vanish=True))[1], answer]
    with pytest.raises(UnknownOutcome):
        numbers.run("INSERT INTO n VALUES (2, 'two')")
    assert [call.sql for call in server.posts].count(["INSERT INTO n VALUES (2, 'two')"]) == 1
    with pytest.raises(SessionError, match="it is not known whether it was applied"):
        numbers.connection().to_retry()
    assert ids(numbers) == [1, 2]


def test_a_state_that_never_changes_proves_nothing(numbers):
    """This server always sends the index 1, which is no proof after an interrupt."""
    assert numbers.connection().database.replication.reliable_index is None


def test_an_error_without_a_code_and_a_hostile_text(numbers, server):
    answer = server.script[0]
    text = "<b>no</b> \x00 'é'"
    server.script = [
        as_json({"baton": "x", "base_url": None, "results": [{"type": "error", "error": {"message": text}}]}), answer
    ]  # fmt: skip
    with pytest.raises(StatementError) as caught:
        numbers.run("SELECT 1")
    assert text in caught.value.message
    assert caught.value.code == "SQL"


def test_frames_are_loaded_and_read(numbers):
    database = numbers.connection().database
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"], "c": [0.5, float("nan"), 2.0]})
    assert database.load(frame, "loaded") == 3
    assert numbers.run("SELECT count(*) AS n, sum(a) AS a FROM loaded").to_dict("list") == {"n": [3], "a": [6]}


def test_a_transaction_of_the_client(numbers):
    database = numbers.connection().database
    with database.transaction() as inside:
        inside.execute("INSERT INTO n VALUES (?, ?)", [2, "two"])
    with pytest.raises(StatementError), database.transaction() as inside:
        inside.batch(["INSERT INTO n VALUES (3, 'three')", "SELECT nope"])
    assert ids(numbers) == [1, 2]


def test_close_rolls_back(numbers):
    numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two')")
    assert numbers.connection().close()
    assert ids(numbers) == [1]
