"""The state of a transaction is that of the server, whatever ended it, and not derived from the cell's first word."""

from __future__ import annotations

import pytest

from pipemagic.errors import StatementError, TransactionLost
from pipemagic.hrana.stream import Tx
from pipemagic.session.transactions import listing, open_line


@pytest.fixture
def numbers(session):
    session.run("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1)")
    session.run(
        "CREATE TABLE strict (i UNIQUE ON CONFLICT ROLLBACK); INSERT INTO strict VALUES (1); CREATE TABLE guarded (i);"
        "CREATE TRIGGER no BEFORE INSERT ON guarded BEGIN SELECT RAISE(ROLLBACK, 'no: <b>'); END;"
        "CREATE TRIGGER soft BEFORE DELETE ON n BEGIN SELECT RAISE(ABORT, 'kept'); END"
    )
    return session


def ids(session):
    return session.run("SELECT i FROM n ORDER BY i")["i"].tolist()


ENDS = [
    "INSERT OR ROLLBACK INTO n VALUES (1)",
    "INSERT INTO strict VALUES (1)",
    "INSERT INTO guarded VALUES (1)",
]


@pytest.mark.parametrize("statement", ENDS)
def test_a_statement_that_rolls_back_in_a_later_cell(numbers, statement):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")
    with pytest.raises(StatementError) as caught:
        numbers.run(f"INSERT INTO n VALUES (3); {statement}; INSERT INTO n VALUES (4)")
    assert caught.value.message.endswith(
        "statement 3 did not run.\nUndone:\n  BEGIN\n  INSERT INTO n VALUES (2)\n  INSERT INTO n VALUES (3)"
    )
    with pytest.raises(TransactionLost, match="not run"):
        numbers.run("INSERT INTO n VALUES (5); COMMIT")
    numbers.run("ROLLBACK")
    assert ids(numbers) == [1]


@pytest.mark.parametrize("statement", ENDS[:1])
def test_a_statement_that_rolls_back_in_the_cell_that_began(numbers, statement):
    with pytest.raises(StatementError, match="Statements 1-2 were rolled back; statement 4 did not run"):
        numbers.run(f"BEGIN; INSERT INTO n VALUES (2); {statement}; COMMIT")
    assert numbers.connection().transaction is Tx.NONE
    assert ids(numbers) == [1]


def test_a_statement_that_only_aborts_leaves_it_open(numbers):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")
    with pytest.raises(StatementError, match="kept"):
        numbers.run("DELETE FROM n WHERE i = 1")
    assert numbers.connection().transaction is Tx.OPEN
    numbers.run("COMMIT")
    assert ids(numbers) == [1, 2]


def test_a_rollback_outside_a_transaction_is_an_error_like_others(numbers):
    with pytest.raises(StatementError) as caught:
        numbers.run("INSERT OR ROLLBACK INTO n VALUES (1)")
    assert "Undone" not in caught.value.message
    assert numbers.connection().transaction is Tx.NONE


def test_savepoints_open_and_close_it(numbers):
    assert numbers.run_cell('SAVEPOINT "a b"').open_line == open_line(0)
    assert numbers.run_cell("SAVEPOINT inner; INSERT INTO n VALUES (2); ROLLBACK TO inner").open_line == open_line(0)
    assert numbers.run_cell("INSERT INTO n VALUES (3)").open_line == open_line(1)
    assert numbers.run_cell('RELEASE "A B"').open_line == ""
    assert ids(numbers) == [1, 3]


def test_one_that_ends_inside_a_script(numbers):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")
    assert numbers.run_cell("INSERT INTO n VALUES (3); COMMIT; INSERT INTO n VALUES (4)").open_line == ""
    assert numbers.run_cell("BEGIN; INSERT INTO n VALUES (5); ROLLBACK; BEGIN").open_line == open_line(0)
    numbers.run("ROLLBACK")
    assert ids(numbers) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "cell", ["EXPLAIN COMMIT", "SELECT 'COMMIT'", "-- COMMIT\nSELECT 1", "/* ROLLBACK; */ SELECT 1"]
)
def test_words_alone_end_nothing(numbers, cell):
    numbers.run("BEGIN")
    assert numbers.run_cell(cell).open_line == open_line(1)


def test_a_session_transaction(numbers):
    with numbers.transaction() as connection:
        numbers.run("INSERT INTO n VALUES (2)")
        assert connection.statements_open == 1
    assert ids(numbers) == [1, 2]
    with pytest.raises(StatementError, match="UNIQUE"), numbers.transaction(on="main"):
        numbers.run("INSERT INTO n VALUES (3); INSERT INTO n VALUES (1)")
    assert numbers.connection().transaction is Tx.NONE
    with pytest.raises(StatementError, match="UNIQUE"), numbers.transaction("DEFERRED"):
        numbers.run("INSERT INTO n VALUES (3); INSERT OR ROLLBACK INTO n VALUES (1)")
    assert ids(numbers) == [1, 2]


def test_a_lost_session_transaction_is_raised_and_acknowledged(timed, clock):
    timed.run("CREATE TABLE n (i)")
    late = numbers_too_late(timed, clock)
    with pytest.raises(TransactionLost, match=r"within 5 s(.|\n)*Undone:\n  BEGIN IMMEDIATE\n  INSERT INTO n VALUES"):
        late()
    assert timed.run("SELECT count(*) AS c FROM n")["c"].tolist() == [0]


def numbers_too_late(session, clock):
    def late():
        with session.transaction():
            session.run("INSERT INTO n VALUES (1)")
            clock.advance(6)

    return late


def test_a_long_list_of_statements_is_cut():
    assert listing(["BEGIN", "x " * 60]) == f"  BEGIN\n  {'x ' * 35}x…"
    assert listing(["s"] * 6).count("\n") == 5
    assert listing(["s"] * 7).endswith("\n  and 2 more")
