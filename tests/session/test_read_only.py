"""Read-only connections on two servers: what may write is refused before anything is sent, wherever it comes from."""

from __future__ import annotations

import pandas as pd
import pytest
from read_only_statements import READS

from pipemagic.errors import PipemagicError, ReadOnlyError
from pipemagic.hrana.messages import Describe, DescribeResponse
from pipemagic.session import Session
from pipemagic.session.cell import RunOptions, parse_cell


@pytest.fixture
def reading(session):
    """The session with a table n of the numbers 1 and 2, read-only from here on; its token may write."""
    session.run("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1), (2)")
    session.connection().close()
    session.connection().database.read_only = True
    return session


def numbers(session):
    return session.run("SELECT i FROM n ORDER BY i")["i"].tolist()


def test_cells_read_as_ever(reading):
    assert numbers(reading) == [1, 2]
    reading.run("BEGIN")
    assert reading.run("SELECT count(*) AS c FROM n WHERE i IN :i", {"i": [1, 5]})["c"].tolist() == [1]
    reading.run("COMMIT")
    assert reading.run("PRAGMA table_info(n)")["name"].tolist() == ["i"]


def test_no_cell_writes_and_the_error_has_the_position(reading):
    with pytest.raises(ReadOnlyError) as caught:
        reading.run("SELECT 1;\n\nWITH x AS (SELECT 1) DELETE FROM n WHERE i = 1")
    assert str(caught.value) == (
        "statement 2 of 2, line 3: DELETE writes, and main is connected read-only; nothing was sent\n"
        "Hint: a connection without --read-only may write"
    )
    assert caught.value.code == "READ_ONLY"
    for text in ("PRAGMA query_only = 0", "BEGIN; INSERT INTO n VALUES (3); COMMIT", "CREATE TEMP TABLE x (a)"):
        with pytest.raises(ReadOnlyError):
            reading.run(text)
    assert reading.connection().transaction.value == "none"
    assert numbers(reading) == [1, 2]


def test_no_transaction_blocks_writers(reading):
    with pytest.raises(ReadOnlyError) as caught:
        reading.run("BEGIN IMMEDIATE")
    assert str(caught.value) == (
        "line 1: BEGIN IMMEDIATE blocks other writers, and main is connected read-only; nothing was sent\n"
        "Hint: use BEGIN, which blocks no writers"
    )
    with pytest.raises(ReadOnlyError), reading.transaction("EXCLUSIVE"):
        pass
    connection = reading.connection()
    with pytest.raises(ReadOnlyError), connection.database.transaction("IMMEDIATE"):
        pass
    with reading.transaction():
        assert numbers(reading) == [1, 2]
    with connection.database.transaction() as inside:
        assert inside.execute("SELECT count(*) FROM n").rows == [(2,)]
    for text in ("SELECT count(*) AS c FROM n", "PRAGMA table_info(n)"):
        connection.run(parse_cell(text), RunOptions(atomic=True))
        assert len(connection.database.batch([text])) == 1


def test_no_other_request_of_the_session_writes(reading):
    connection = reading.connection()
    for write in (
        lambda database: database.execute("DELETE FROM n"),
        lambda database: database.batch(["SELECT 1", "DELETE FROM n"]),
        lambda database: database.load(pd.DataFrame({"i": [3]}), "n", "append"),
        lambda database: database.load(pd.DataFrame({"i": [3]}), "fresh"),
    ):
        with pytest.raises(ReadOnlyError, match="nothing was sent") as caught:
            connection.with_database(write)
        assert "left over" not in str(caught.value)
    with pytest.raises(ReadOnlyError), connection.database.transaction() as inside:
        inside.execute("DELETE FROM n")
    assert numbers(reading) == [1, 2]


def test_it_stays_read_only_when_the_stream_is_opened_again(reading):
    assert numbers(reading) == [1, 2]
    reading.connection().close()
    with pytest.raises(ReadOnlyError):
        reading.run("DELETE FROM n")
    assert numbers(reading) == [1, 2]


def test_the_servers_agree_that_what_is_let_through_reads(timed, sqld_database):
    """Statements that a server describes as writing are refused, except for transactions, which change nothing."""
    from pipemagic.client.database import Database

    timed.run("CREATE TABLE t (a)")
    with Database(sqld_database.url, sqld_database.token) as sqld:
        sqld.execute("CREATE TABLE t (a)")
        for database in (timed.connection().database, sqld):
            said = [_is_readonly(database, text) for text in READS if not text.startswith(("BEGIN", "EXPLAIN"))]
            assert False not in said
            assert said.count(True) > 5


def _is_readonly(database, text):
    with database.open_stream() as stream:
        response = getattr(stream.send([Describe(text)])[0], "response", None)
        return response.result.is_readonly if isinstance(response, DescribeResponse) else None


def test_a_database_of_an_organization_is_opened_with_a_token_that_cannot_write(local_service):
    with Session(environ={}) as session:
        session.connect().database.execute("CREATE TABLE n (i)")
        connection = session.connect("main", read_only=True)
        assert connection.greeting.splitlines()[0] == "Connected to main (embedded service, read-only)."
        assert session.connection() is connection is session.connect("main")  # no way round by connecting once more
        assert session.run("SELECT count(*) AS c FROM n")["c"].tolist() == [0]
        with pytest.raises(ReadOnlyError):
            session.run("INSERT INTO n VALUES (1)")
        connection.database.read_only = False  # the client out of the way, the server refuses
        with pytest.raises(PipemagicError, match="orbidden"):
            connection.database.execute("INSERT INTO n VALUES (1)")
        session.close()
        assert not session.connect("main").read_only
        session.run("INSERT INTO n VALUES (1)")
