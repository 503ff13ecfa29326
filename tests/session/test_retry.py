"""A transaction that was rolled back, and running it again."""

from __future__ import annotations

import pytest

from pipemagic.errors import InterruptedRequest, SessionError, StatementError, TransactionLost, UnknownOutcome
from pipemagic.hrana.stream import Tx


@pytest.fixture
def numbers(timed):
    timed.run("CREATE TABLE n (i INTEGER PRIMARY KEY, v); INSERT INTO n VALUES (1, 'one')")
    return timed


def rows(session):
    return [tuple(row) for row in session.run("SELECT i, v FROM n ORDER BY i").itertuples(index=False)]


def lose(session, clock):
    clock.advance(6)
    with pytest.raises(TransactionLost) as caught:
        session.run("COMMIT")
    return caught.value


def test_the_undone_statements_are_rerun_with_their_earlier_values(numbers, clock):
    values = {"i": 2, "v": "té's"}
    numbers.run("BEGIN")
    numbers.run("INSERT INTO n VALUES (:i, :v)", values)
    values["v"] = "of now"
    numbers.run("UPDATE n SET v = v || :v WHERE i = 1", {"v": b"\x00"})
    error = lose(numbers, clock)
    assert "%pipedb retry reruns the undone statements" in error.hint
    connection = numbers.connection()
    assert [statement.text for statement in connection.to_retry().statements] == [
        "INSERT INTO n VALUES (:i, :v)",
        "UPDATE n SET v = v || :v WHERE i = 1",
    ]
    assert [outcome.affected_row_count for outcome in connection.retry().outcomes] == [1, 1]
    assert rows(numbers) == [(1, "one\0"), (2, "té's")]
    with pytest.raises(SessionError, match="nothing to rerun"):
        connection.retry()


def test_a_retry_that_fails_changes_nothing_and_can_be_repeated(numbers, make_database, clock):
    numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two'); INSERT INTO n VALUES (3, 'three')")
    lose(numbers, clock)
    other = make_database()
    other.execute("INSERT INTO n VALUES (3, 'of another')")
    with pytest.raises(StatementError, match="nothing was changed; statement 2 of 2 failed here"):
        numbers.connection().retry()
    other.execute("DELETE FROM n WHERE i = 3")
    numbers.connection().retry()
    assert [i for i, _ in rows(numbers)] == [1, 2, 3]


@pytest.mark.parametrize("ends", ["ROLLBACK", "BEGIN; ROLLBACK"])
def test_after_going_on_there_is_nothing_to_retry(numbers, clock, ends):
    numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two')")
    lose(numbers, clock)
    numbers.run(ends)
    with pytest.raises(SessionError, match="nothing to rerun on main"):
        numbers.connection().to_retry()


def test_savepoints_run_again_as_they_were(numbers, clock):
    numbers.run("SAVEPOINT a; INSERT INTO n VALUES (2, 'two'); SAVEPOINT b; INSERT INTO n VALUES (3, 'three')")
    numbers.run("ROLLBACK TO b; INSERT INTO n VALUES (4, 'four')")
    clock.advance(6)
    with pytest.raises(TransactionLost):
        numbers.run("RELEASE a")
    numbers.connection().retry()
    assert [i for i, _ in rows(numbers)] == [1, 2, 4]
    assert numbers.connection().transaction is Tx.NONE


def test_a_transaction_without_statements_is_nothing_to_retry(numbers, clock):
    numbers.run("BEGIN")
    lose(numbers, clock)
    with pytest.raises(SessionError, match="contains no statement"):
        numbers.connection().retry()


@pytest.mark.parametrize("cell", ["BEGIN IMMEDIATE", "BEGIN; SELECT * FROM n", "SAVEPOINT a"])
def test_a_retry_is_offered_only_if_there_is_something_to_rerun(numbers, clock, cell):
    numbers.run(cell)
    assert "retry" not in lose(numbers, clock).hint
    with pytest.raises(SessionError, match="no statement that changes data"):
        numbers.connection().to_retry()


def interrupt(request):
    raise KeyboardInterrupt


def test_an_unknown_commit_is_never_run_again(numbers, lose_answer):
    numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two')")
    lose_answer(numbers, "INSERT INTO n VALUES (3, 'three'); COMMIT")
    with pytest.raises(SessionError, match="not rerun, because it is not known whether it was committed"):
        numbers.connection().retry()
    assert [i for i, _ in rows(numbers)] == [1, 2, 3]


def test_an_unknown_write_outside_a_transaction_is_never_run_again(numbers, lose_answer):
    lose_answer(numbers, "INSERT INTO n VALUES (3, 'three')", UnknownOutcome)
    with pytest.raises(SessionError, match="not rerun, because it is not known whether it was applied"):
        numbers.connection().retry()


def test_a_commit_before_another_begin_is_in_doubt(numbers, lose_answer):
    numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two')")
    error = lose_answer(numbers, "COMMIT; BEGIN; INSERT INTO n VALUES (3, 'three')")
    assert "Undone" not in error.message  # the first one was committed
    with pytest.raises(SessionError, match="not rerun"):
        numbers.connection().retry()
    numbers.run("ROLLBACK")
    assert [i for i, _ in rows(numbers)] == [1, 2]  # what the second one did is not seen, and will never be


def test_without_a_commit_in_it_a_lost_answer_is_a_certain_rollback(numbers, service, clock, transport, monkeypatch):
    numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two')")
    with monkeypatch.context() as patch:
        patch.setattr(transport, "handle_request", interrupt)
        with pytest.raises(InterruptedRequest, match="Undone:\n  BEGIN\n  INSERT INTO n VALUES"):
            numbers.run("INSERT INTO n VALUES (3, 'three')")
    clock.advance(11)
    service.engine.sweep()  # as the hang-up does it where there is a socket
    numbers.connection().retry()
    assert [i for i, _ in rows(numbers)] == [1, 2]


def test_a_transaction_that_its_own_statement_rolled_back_lists_what_is_undone(numbers):
    numbers.run("BEGIN; INSERT INTO n VALUES (2, 'two')")
    with pytest.raises(StatementError) as caught:
        numbers.run("INSERT INTO n VALUES (3, 'three'); INSERT OR ROLLBACK INTO n VALUES (1, 'again')")
    assert caught.value.message.endswith(
        "The database rolled back the whole transaction, including the statements of earlier cells.\n"
        "Undone:\n  BEGIN\n  INSERT INTO n VALUES (2, 'two')\n  INSERT INTO n VALUES (3, 'three')"
    )
    assert "%pipedb retry" in caught.value.hint
    with pytest.raises(TransactionLost, match="not run"):
        numbers.run("INSERT INTO n VALUES (4, 'alone'); COMMIT")
    numbers.connection().retry()
    assert [i for i, _ in rows(numbers)] == [1, 2, 3]
