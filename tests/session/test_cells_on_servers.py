"""Cells on real servers: splitting, stopping at the first error, the messages on the rest."""

from __future__ import annotations

import pytest
from seed_server import SeedServer
from version_2 import version_2

from pipemagic.client.database import Database
from pipemagic.errors import ParameterError, StatementError, UnsupportedError
from pipemagic.hrana.stream import Tx
from pipemagic.session import Connection, Session
from pipemagic.session.cell import RunOptions


@pytest.fixture(params=["sqld", "version 2", "seed"])
def session(request):
    """A session on a server with the whole protocol, on one without version 3, and on one with the seed alone."""
    if request.param == "seed":
        yield request.getfixturevalue("seed_session")
        return
    made = request.getfixturevalue("sqld_database")
    with version_2(made) if request.param == "version 2" else Database(made.url, made.token) as database:
        session = Session(environ={})
        session.adopt(Connection("main", database, "a test"))
        yield session


@pytest.fixture
def numbers(session):
    """The session with a table n of the numbers 1 and 2."""
    session.run("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1), (2)")
    schema = session.connection().schema
    schema.start()
    assert schema.ready.wait(30)  # the messages name rows by the keys of the tables
    return session


def values(session, sql, **params):
    return session.run(sql, params)[0:].iloc[:, 0].tolist()


def test_the_frame_is_that_of_the_last_statement_with_columns(numbers):
    result = numbers.run_cell(
        "SELECT 1 AS a; INSERT INTO n VALUES (3), (4); SELECT count(*) AS c FROM n; DELETE FROM n"
    )
    assert result.frame.to_dict("list") == {"c": [4]}
    assert [outcome.has_columns for outcome in result.outcomes] == [True, False, True, False]
    assert [outcome.affected_row_count for outcome in result.outcomes][1::2] == [2, 4]
    assert result.outcomes[0].frame().to_dict("list") == {"a": [1]}


def test_nothing_is_sent_if_a_parameter_has_no_value(numbers):
    with pytest.raises(ParameterError, match="line 2: :missing"):
        numbers.run("INSERT INTO n VALUES (3);\nSELECT :missing", {})
    assert values(numbers, "SELECT count(*) FROM n") == [2]


def test_an_error_names_the_statement_the_line_and_the_place(numbers):
    with pytest.raises(StatementError) as caught:
        numbers.run(
            "INSERT INTO n VALUES (3);\n-- é\nINSERT INTO n VALUES (4);\nINSERT INTO n\n  VALUES (1);\nDELETE FROM n"
        )
    error = caught.value
    assert error.index == 2
    assert error.message == (
        "UNIQUE constraint failed: n.i; another row has i = 1\n"
        "statement 3 of 4, line 4:\n"
        "  INSERT INTO n VALUES (1)\n"
        "Statements 1-2 were applied; statement 4 did not run."
    )
    assert error.hint == ""
    assert values(numbers, "SELECT i FROM n ORDER BY i") == [1, 2, 3, 4]


def test_a_syntax_error_in_statement_3_of_5_names_it(numbers):
    with pytest.raises(StatementError) as caught:
        numbers.run(
            "INSERT INTO n VALUES (3);\nINSERT INTO n VALUES (4);\n"
            "SELECT 'ü', i FROMM n WHERE;\nDELETE FROM n;\nSELECT 1"
        )
    lines = caught.value.message.split("\n")
    assert "syntax error" in lines[0]
    assert lines[1] == "statement 3 of 5, line 3:"
    assert lines[2] == "  SELECT 'ü', i FROMM n WHERE;"
    assert lines[3].strip() == "^"
    # Whether those before ran depends on the server: some look at the whole cell first. What is said is true.
    count = values(numbers, "SELECT count(*) FROM n")[0]
    said = {2: "No statement of the cell ran.", 4: "Statements 1-2 were applied; statements 4-5 did not run."}
    assert lines[4:] == [said[count]]


def test_the_caret_points_into_the_cell(numbers):
    with pytest.raises(StatementError, match=r"no such column: nope") as caught:
        numbers.run("SELECT 'é', nope FROM n")
    assert caught.value.message.split("\n")[1:] == ["  SELECT 'é', nope FROM n", "              ^"]
    assert caught.value.sql[12:] == "nope FROM n"
    assert caught.value.offset == 13  # in UTF-8 bytes


def test_a_transaction_of_the_cell_is_rolled_back_when_it_fails(numbers):
    with pytest.raises(StatementError) as caught:
        numbers.run("INSERT INTO n VALUES (3);\nBEGIN;\nINSERT INTO n VALUES (4);\nSELECT nope FROM n;\nCOMMIT")
    assert caught.value.message.endswith(
        "Statement 1 was applied; statements 2-3 were rolled back; statement 5 did not run."
    )
    assert "still open" not in str(caught.value)
    assert numbers.connection().transaction is Tx.NONE
    assert values(numbers, "SELECT max(i) FROM n") == [3]


def test_a_transaction_that_begins_after_the_end_of_an_earlier_one(numbers):
    numbers.run("BEGIN; INSERT INTO n VALUES (3)")
    with pytest.raises(StatementError, match="Statement 1 was applied; statements 2-3 were rolled back"):
        numbers.run("COMMIT; BEGIN; INSERT INTO n VALUES (4); SELECT nope FROM n")
    assert values(numbers, "SELECT i FROM n ORDER BY i") == [1, 2, 3]


def test_a_transaction_of_an_earlier_cell_stays_open_after_an_error(numbers):
    numbers.run("BEGIN")
    with pytest.raises(StatementError) as caught:
        numbers.run("INSERT INTO n VALUES (3); SELECT nope FROM n; SELECT 1")
    assert caught.value.message.endswith(
        "Statement 1 was part of the open transaction; statement 3 did not run.\n"
        "The transaction is still open, 1 statement so far: COMMIT keeps its changes, ROLLBACK undoes them."
    )
    assert caught.value.hint == "n has i"
    assert values(numbers, "SELECT count(*) FROM n") == [3]
    numbers.run("ROLLBACK")
    assert values(numbers, "SELECT count(*) FROM n") == [2]


def test_a_transaction_that_close_ends_is_not_reported_as_open(numbers):
    numbers.run("BEGIN")
    assert numbers.run_cell("DELETE FROM n", options=RunOptions(close=True)).open_line == ""
    numbers.run("BEGIN")
    with pytest.raises(StatementError) as caught:
        numbers.run_cell("DELETE FROM n; SELECT nope", options=RunOptions(close=True))
    assert "still open" not in str(caught.value)
    assert "part of the open transaction" not in str(caught.value)
    assert values(numbers, "SELECT count(*) FROM n") == [2]


def test_settings_are_made_again_on_a_new_stream(numbers):
    if numbers.connection().database.offers() == frozenset():
        numbers.run("PRAGMA foreign_keys = ON")  # the plain engine of that server has it off
        options = [1]
    else:
        numbers.run("PRAGMA foreign_keys = OFF")
        options = [0]
    numbers.connection().close()
    result = numbers.run_cell("PRAGMA foreign_keys")
    assert result.frame.iloc[:, 0].tolist() == options
    (note,) = result.notes
    assert note.startswith("The connection was reopened (set again: PRAGMA foreign_keys = O")
    assert numbers.run_cell("SELECT 1").notes == ()


def test_a_server_without_parameters_is_found_out_before_it_takes_them_for_null(tmp_path):
    server = SeedServer(tmp_path, with_args=False)
    try:
        with Database(server.url, "token") as database:
            session = Session(environ={})
            session.adopt(Connection("main", database, "a test"))
            assert session.run("SELECT 1 AS one").to_dict("list") == {"one": [1]}
            with pytest.raises(UnsupportedError, match="does not support parameters"):
                session.run("SELECT :a", {"a": 1})
    finally:
        server.close()


def test_a_limit_gives_the_first_rows_on_every_server(numbers):
    result = numbers.run_cell(
        "SELECT value AS v FROM json_each('[5, 6, 7]') ORDER BY 1 DESC; SELECT 1 AS one", options=RunOptions(limit=2)
    )
    first, last = result.outcomes
    assert (first.frame()["v"].tolist(), first.more) == ([7, 6], True)
    assert (last.frame()["one"].tolist(), last.more) == ([1], False)
