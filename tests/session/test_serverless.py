"""A server that holds no stream between cells unless it must, and answers 404 to a baton that it does not know."""

from __future__ import annotations

import pytest

from pipemagic.errors import StatementError, TransactionLost


@pytest.fixture
def numbers(serverless_session):
    serverless_session.run("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1)")
    return serverless_session


def batons(server):
    return [call.baton for call in server.posts]


def count(session):
    return int(session.run("SELECT count(*) FROM n").iloc[0, 0])


def test_each_cell_opens_a_stream_where_the_server_holds_none(numbers, serverless):
    for number in (2, 3):
        assert numbers.run_cell(f"INSERT INTO n VALUES ({number})").notes == ()
    assert count(numbers) == 3
    assert set(batons(serverless)) == {None}


def test_a_transaction_across_cells_keeps_its_stream(numbers, serverless):
    for cell in ["BEGIN", "INSERT INTO n VALUES (2)", "COMMIT", "SELECT 1"]:
        numbers.run(cell)
    assert count(numbers) == 2
    assert batons(serverless)[-5:] == [None, "baton-1", "baton-2", None, None]


def test_a_baton_that_expired_earlier_than_ours_opens_a_stream_without_a_word(numbers, serverless, clock):
    serverless.idle_limit, serverless.holds_all = 1.0, True
    numbers.run("SELECT 1")
    clock.advance(2)
    assert numbers.run_cell("INSERT INTO n VALUES (2)").notes == ()
    assert count(numbers) == 2
    assert batons(serverless)[-3:] == ["baton-1", None, "baton-2"]


def test_the_loss_of_temporary_tables_with_an_expired_baton_is_reported(numbers, serverless, clock):
    serverless.idle_limit = 1.0
    numbers.run("CREATE TEMP TABLE kept (a)")
    clock.advance(2)
    result = numbers.run_cell("INSERT INTO n VALUES (2)")
    assert result.notes == ("The connection was reopened (temporary tables are gone).",)


@pytest.mark.parametrize("happening", ["restart", "expiry"])
def test_a_transaction_whose_baton_is_not_known_any_more_is_lost(numbers, serverless, clock, happening):
    serverless.idle_limit = 1.0
    numbers.run("BEGIN")
    numbers.run("INSERT INTO n VALUES (2)")
    if happening == "restart":
        serverless.restart()
    else:
        clock.advance(2)
    with pytest.raises(TransactionLost, match="the server closed the connection") as caught:
        numbers.run("INSERT INTO n VALUES (3)")
    assert "INSERT INTO n VALUES (2)" in caught.value.message
    numbers.run("ROLLBACK")
    assert count(numbers) == 1


def test_settings_are_set_again_after_a_restart(numbers, serverless):
    numbers.run("CREATE TABLE child (i REFERENCES n); PRAGMA foreign_keys = OFF")
    serverless.restart()
    result = numbers.run_cell("INSERT INTO child VALUES (99)")
    assert result.notes == ("The connection was reopened (set again: PRAGMA foreign_keys = OFF).",)


def test_a_large_result_comes_by_cursor(numbers, serverless, service):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")
    stream = numbers.connection().stream
    with numbers.connection().database.cursor("SELECT i FROM n") as cursor:
        assert [row[0].value for rows in cursor for row in rows] == ["1"]  # on a stream of its own
    assert stream.transaction.state.value == "open"
    numbers.run("COMMIT")
    assert count(numbers) == 2


def test_the_state_of_a_keep_alive_without_a_stream(numbers):
    numbers.connection().keep_alive(60)
    numbers.run("SELECT 1")
    assert numbers.connection().keep_alive_thread.check() is False


def test_a_stream_that_ends_within_a_transaction_loses_it_also_where_a_statement_failed(numbers, serverless):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")
    serverless.ends_next = True
    with pytest.raises(TransactionLost, match=r"the server closed the connection .* no such table: nowhere") as caught:
        numbers.run("SELECT * FROM nowhere")
    assert "INSERT INTO n VALUES (2)" in caught.value.message
    with pytest.raises(TransactionLost):
        numbers.run("INSERT INTO n VALUES (3)")
    numbers.run("ROLLBACK")
    assert count(numbers) == 1


def test_the_error_of_a_statement_that_ends_its_transaction(numbers):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")
    with pytest.raises(StatementError, match="UNIQUE constraint failed"):
        numbers.run("INSERT OR ROLLBACK INTO n VALUES (1)")
    numbers.run("ROLLBACK")
    assert count(numbers) == 1
