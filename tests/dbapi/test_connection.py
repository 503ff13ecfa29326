"""Connections and cursors of `pipemagic.dbapi` where they do not compare with the sqlite3 module."""

from __future__ import annotations

import datetime
import gc
import math
import sqlite3
import threading
from contextlib import closing

import numpy as np
import pandas as pd
import polars
import pytest
from ended_streams import end_at_server, end_own_stream
from waiting import until

from pipemagic import dbapi, errors
from pipemagic.client import stream as client_stream
from pipemagic.errors import TransactionLost
from pipemagic.hrana.stream import Phase, Tx


@pytest.fixture
def connection(connect):
    connection = connect(autocommit=True)
    connection.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b VARCHAR(10), c, d DATE)")
    return connection


MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT i, 'row ' || i AS t FROM n"


def test_the_module_has_the_names_of_pep_249():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 1, "named")
    for name in ("Warning", "Error", "InterfaceError", "DatabaseError", "DataError", "OperationalError",
                 "IntegrityError", "InternalError", "ProgrammingError", "NotSupportedError"):  # fmt: skip
        assert getattr(dbapi.Connection, name) is getattr(dbapi, name)
        theirs = [base.__name__ for base in getattr(sqlite3, name).__mro__]
        assert [base.__name__ for base in getattr(dbapi, name).__mro__] == theirs


def test_description_has_the_declared_types(connection):
    cursor = connection.execute("SELECT a, b, c, d, a + 1 AS e, b AS a FROM t")
    assert [column[:2] for column in cursor.description] == [
        ("a", "INTEGER"), ("b", "VARCHAR(10)"), ("c", None), ("d", "DATE"), ("e", None), ("a", "VARCHAR(10)"),
    ]  # fmt: skip
    assert all(column[2:] == (None,) * 5 for column in cursor.description)
    kinds = {column[0]: column[1] for column in cursor.description[:4]}
    assert kinds["a"] == dbapi.NUMBER
    assert kinds["b"] == dbapi.STRING
    assert kinds["d"] == dbapi.DATETIME
    assert kinds["b"] != dbapi.BINARY


def test_declared_types_do_not_change_values_in_polars(connection):
    """It converts values to a type that is a text; this one is only equal to a text."""
    connection.execute("CREATE TABLE kinds (flag BOOLEAN, exact NUMERIC, price DECIMAL(10, 2), day DATE)")
    values = (5, 2**53 + 1, 1.005, "2024-02-29")
    connection.execute("INSERT INTO kinds VALUES (?, ?, ?, ?)", values)
    assert polars.read_database("SELECT * FROM kinds", connection).rows() == [values]
    declared = connection.execute("SELECT price FROM kinds").description[0][1]
    assert (str(declared), repr(declared)) == ("DECIMAL(10, 2)", "'DECIMAL(10, 2)'")
    assert {declared: 1}["DECIMAL(10, 2)"] == 1
    assert not isinstance(declared, str)


def test_values_of_python(connection):
    values = [2**63 - 1, "é\0😀", b"\0\xff", datetime.date(2024, 2, 29), None, True, 0.1]
    (row,) = connection.execute(f"SELECT {', '.join('?' * len(values))}", values)
    assert row == (2**63 - 1, "é\0😀", b"\0\xff", "2024-02-29", None, 1, 0.1)
    with pytest.raises(dbapi.ProgrammingError, match="64"):
        connection.execute("SELECT ?", [2**63])


def test_infinite_values_are_written_into_the_statement(connection):
    """JSON has none. The other parameters keep their places. They are read as text, since sqld sends null for them."""

    def read(values, parameters):
        columns = ", ".join(f"CAST({value} AS TEXT)" for value in values.split())
        return connection.execute(f"SELECT {columns}", parameters).fetchone()

    infinity = math.inf
    numbered = ("a", -infinity, np.float32(infinity), 2, 3)
    assert read("? 1-? ?2 ?1 ?4 ? '?'", numbered) == ("a", "Inf", "-Inf", "a", "2", "3", "?")
    assert read(":a $b :a @c", {"a": infinity, "b": 1, "c": "c", "d": 0}) == ("Inf", "1", "Inf", "c")
    connection.execute("CREATE TABLE infinite(a, b)")
    connection.executemany("INSERT INTO infinite VALUES (?, ?)", [(infinity, "x"), (1.5, "y"), (-infinity, None)])
    rows = connection.execute("SELECT typeof(a), CAST(a AS TEXT), b FROM infinite").fetchall()
    assert rows == [("real", "Inf", "x"), ("real", "1.5", "y"), ("real", "-Inf", None)]
    with pytest.raises(dbapi.ProgrammingError, match="parameter number 2"):
        connection.execute("SELECT ?, ?", [infinity, 2**63])


@pytest.mark.parametrize(
    ("sql", "parameters", "message"),
    [
        ("SELECT ?, ?", [1], "2 parameters, not 1"),
        ("SELECT ?", [1, 2], "1 parameter, not 2"),
        ("SELECT ?3", [1], "3 parameters, not 1"),
        ("SELECT :a, ?", [1, 2], "parameter :a has a name"),
        ("SELECT :a, :b", {"a": 1}, "'b' has no value"),
        ("SELECT ?", {"a": 1}, "without a name"),
        ("SELECT ?", "a", "a sequence or a mapping, not str"),
        ("SELECT ?", {1}, "not set"),
        ("SELECT ?", [object()], "object"),
        ("SELECT 1; SELECT 2", [], "one statement at a time"),
    ],
)
def test_parameters_that_do_not_match_send_nothing(connection, sql, parameters, message):
    with pytest.raises(dbapi.ProgrammingError, match=message):
        connection.execute(sql, parameters)


def test_errors_have_the_code_of_sqlite(connection, request):
    connection.execute("INSERT INTO t(a) VALUES (1)")
    with pytest.raises(dbapi.IntegrityError, match=r"UNIQUE constraint failed: t\.a") as caught:
        connection.execute("INSERT INTO t(a) VALUES (1)")
    error = caught.value
    assert isinstance(error.__cause__, errors.StatementError)
    assert error.code == error.__cause__.code
    name = "SQLITE_CONSTRAINT" if "sqld" in request.node.name else "SQLITE_CONSTRAINT_PRIMARYKEY"
    assert error.sqlite_errorname == name
    assert error.sqlite_errorcode == getattr(sqlite3, name)
    with pytest.raises(dbapi.OperationalError, match="no such table") as caught:
        connection.execute("SELECT * FROM nope")
    assert (caught.value.sqlite_errorname, caught.value.sqlite_errorcode) == ("SQLITE_ERROR", 1)


@pytest.mark.parametrize(
    ("code", "extended", "kind", "name"),
    [
        ("SQLITE_CONSTRAINT", "SQLITE_CONSTRAINT_CHECK", dbapi.IntegrityError, "SQLITE_CONSTRAINT_CHECK"),
        ("SQLITE_BUSY", "", dbapi.OperationalError, "SQLITE_BUSY"),
        ("SQLITE_UNKNOWN", "", dbapi.OperationalError, "SQLITE_ERROR"),
        ("SQL_INPUT_ERROR", "", dbapi.OperationalError, "SQLITE_ERROR"),
        ("SQL_MANY_STATEMENTS", "", dbapi.ProgrammingError, None),
        ("RESPONSE_TOO_LARGE", "", dbapi.DataError, None),
        ("STATEMENT_TIMEOUT", "", dbapi.OperationalError, None),
    ],
)
def test_the_result_code_is_none_if_sqlite_did_not_report_the_error(code, extended, kind, name):
    with pytest.raises(kind) as caught, dbapi.converting():
        raise errors.StatementError("it failed", code=code, extended_code=extended)
    assert type(caught.value) is kind
    assert caught.value.code == code
    assert caught.value.sqlite_errorname == name
    assert caught.value.sqlite_errorcode == (getattr(sqlite3, name) if name else None)


def test_each_exception_of_pipemagic_becomes_one_of_pep_249():
    for name in errors.__all__:
        kind = getattr(errors, name)
        options = {"status": 500} if issubclass(kind, errors.ServerError) else {}
        with pytest.raises((dbapi.Error, KeyboardInterrupt)) as caught, dbapi.converting():
            raise kind("it failed", hint="try again", **options)
        if kind is errors.InterruptedRequest:
            assert isinstance(caught.value, KeyboardInterrupt)
        else:
            assert str(caught.value) == "it failed\nHint: try again"
            assert (caught.value.code, caught.value.hint) == (kind.code, "try again")
        assert isinstance(caught.value.__cause__, kind)


def test_a_server_that_does_not_respond_and_a_wrong_token(address):
    url, _ = address
    with pytest.raises(dbapi.OperationalError, match="connect"):
        dbapi.connect("http://127.0.0.1:9", "token")
    with closing(dbapi.connect(url, "wrong")) as wrong, pytest.raises(dbapi.OperationalError) as caught:
        wrong.execute("SELECT 1")
    assert caught.value.code == "AUTH"


def test_a_read_only_connection(address, connection):
    with dbapi.connect(*address, read_only=True) as reader:
        assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)
        with pytest.raises(dbapi.OperationalError, match=r"read-only.*\nHint: .* without read_only may") as caught:
            reader.execute("DELETE FROM t")
        assert caught.value.sqlite_errorname == "SQLITE_READONLY"
    reader.close()


def test_closed_cursors_and_connections(connection):
    cursor = connection.execute("SELECT 1")
    cursor.close()
    for call in (cursor.fetchone, cursor.fetchall, cursor.fetch_df, lambda: cursor.execute("SELECT 1")):
        with pytest.raises(dbapi.ProgrammingError, match="cursor is closed"):
            call()
    other = connection.cursor()
    connection.close()
    connection.close()
    for call in (connection.cursor, connection.commit, connection.rollback, other.fetchone):
        with pytest.raises(dbapi.ProgrammingError, match="connection is closed"):
            call()


def test_rows_as_frames_and_arrow(connection):
    connection.executemany("INSERT INTO t(b, c) VALUES (?, ?)", [("x", 1), ("y", None), ("z", 3)])
    cursor = connection.execute("SELECT a, b, c FROM t ORDER BY a")
    assert cursor.fetchone() == (1, "x", 1)
    expected = pd.DataFrame({"a": [2, 3], "b": ["y", "z"], "c": pd.array([None, 3], "Int64")})
    pd.testing.assert_frame_equal(cursor.fetch_df(), expected)
    assert cursor.fetchall() == []
    assert cursor.fetch_df().empty
    for stream in (False, True):
        cursor = connection.cursor(stream=stream).execute("SELECT a, b, c FROM t ORDER BY a")
        assert cursor.fetchmany(2) == [(1, "x", 1), (2, "y", None)]
        assert cursor.fetch_arrow_table().to_pylist() == [{"a": 3, "b": "z", "c": 3}]
    with pytest.raises(dbapi.ProgrammingError, match="no results to fetch"):
        connection.execute("DELETE FROM t").fetch_df()


# -- rows that are received while they are fetched


def test_other_statements_run_while_rows_are_received(connection):
    cursor = connection.cursor(stream=True).execute(MANY.format(100_000))
    assert cursor.fetchmany(3) == [(1, "row 1"), (2, "row 2"), (3, "row 3")]
    connection.execute("INSERT INTO t(a) VALUES (5)")
    assert cursor.fetchone() == (4, "row 4")
    assert connection.execute("SELECT a FROM t").fetchall() == [(5,)]
    rest = cursor.fetchall()
    assert len(rest) == 100_000 - 4
    assert rest[-1] == (100_000, "row 100000")


def test_a_cursor_that_is_closed_early_leaves_the_transaction_open(connection):
    connection.begin()
    connection.execute("INSERT INTO t(a) VALUES (1)")
    cursor = connection.cursor(stream=True).execute(MANY.format(100_000))
    assert cursor.fetchone() == (1, "row 1")
    cursor.close()
    connection.commit()
    assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_an_error_after_some_rows_is_raised_when_they_are_fetched(connection):
    failing = f"SELECT CASE WHEN i < 50000 THEN i ELSE abs(-9223372036854775808) END FROM ({MANY.format(60_000)})"
    cursor = connection.cursor(stream=True).execute(failing)
    assert cursor.fetchone() == (1,)
    with pytest.raises(dbapi.OperationalError, match="overflow"):
        cursor.fetchall()
    cursor = connection.cursor(stream=True).execute(failing)
    assert cursor.fetchone() == (1,)
    assert connection.execute("SELECT 1").fetchall() == [(1,)]  # the rows of the other cursor are received first
    with pytest.raises(dbapi.OperationalError, match="overflow"):
        cursor.fetchall()


def test_an_interrupt_is_a_keyboard_interrupt_and_the_connection_continues(connection, interrupt_once):
    connection.execute("INSERT INTO t(a) VALUES (1)")
    stream, endless = connection._runner._link._stream, f"SELECT count(*) FROM ({MANY.format(10**9)})"

    def interrupt():
        until(lambda: stream.phase is Phase.IN_USE)
        interrupt_once()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        connection.execute(endless)
    thread.join()
    assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]


@pytest.mark.parametrize("statement", ["DELETE FROM t", None])
@pytest.mark.parametrize("in_transaction", [False, True])
def test_an_interrupt_while_rows_arrive(connection, interrupt_once, in_transaction, statement):
    """It also ends a statement that waits for the rows; fetching again does not look like the end of the rows."""
    connection.execute("INSERT INTO t(a) VALUES (1)")
    if in_transaction:
        connection.begin()
        connection.execute("INSERT INTO t(a) VALUES (2)")
    runner, waiting = connection._runner, threading.Event()
    cursor = connection.cursor(stream=True).execute(MANY.format(10**9))

    def interrupt():
        if statement is None:
            waiting.wait()
        else:
            until(lambda: runner._receiving is None)
        interrupt_once()

    thread = threading.Thread(target=interrupt)
    thread.start()

    def fetch():
        for _ in cursor:
            waiting.set()

    with pytest.raises(KeyboardInterrupt):
        fetch() if statement is None else connection.execute(statement)
    thread.join()
    if statement is not None:
        for _ in range(2):
            with pytest.raises(dbapi.OperationalError, match="interrupt"):
                cursor.fetchall()
        if in_transaction:
            with pytest.raises(dbapi.OperationalError, match="lost"):
                connection.execute("SELECT 1")
    connection.rollback()
    cursor.close()
    assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]


@pytest.mark.parametrize("end", ["close", "drop", "rollback"])
def test_rows_that_nobody_can_fetch_are_not_received(connection, end):
    if end == "rollback":
        connection.begin()
        connection.execute("INSERT INTO t(a) VALUES (1)")
    cursor = connection.cursor(stream=True).execute(MANY.format(10**9))
    assert cursor.fetchone() == (1, "row 1")
    if end == "close":
        connection.close()
        with pytest.raises(dbapi.ProgrammingError, match="connection is closed"):
            cursor.fetchone()
    elif end == "rollback":
        connection.rollback()
        assert not connection.in_transaction
        with pytest.raises(dbapi.OperationalError, match="rollback"):
            cursor.fetchall()
        assert connection.execute("SELECT a FROM t").fetchall() == []
    else:
        del cursor
        assert connection.execute("SELECT 7").fetchall() == [(7,)]


def test_a_cursor_that_is_closed_early_keeps_temporary_tables(connection, request):
    if "sqld" in request.node.name:
        pytest.skip("sqld has no temporary tables")
    connection.execute("CREATE TEMP TABLE scratch(a)")
    cursor = connection.cursor(stream=True).execute(MANY.format(100_000))
    assert cursor.fetchone() == (1, "row 1")
    cursor.close()
    assert connection.execute("SELECT * FROM scratch").fetchall() == []


def test_a_large_result_begins_a_transaction(connect, connection):
    """The batch with BEGIN is refused because of its size, and BEGIN has run."""
    other = connect(autocommit=False)
    rows = other.execute(f"SELECT i, printf('%.1000c', 'x') FROM ({MANY.format(40_000)})").fetchall()
    assert len(rows) == 40_000
    other.execute("INSERT INTO t(a) VALUES (1)")
    other.rollback()
    assert connection.execute("SELECT a FROM t").fetchall() == []


def test_a_script_runs_up_to_the_first_error(connection):
    script = "INSERT INTO t(a) VALUES (1); INSERT INTO t(a) VALUES (1); INSERT INTO t(a) VALUES (2)"
    with pytest.raises(dbapi.IntegrityError):
        connection.executescript(script)
    assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]
    with pytest.raises(dbapi.IntegrityError):
        connection.executescript(f"BEGIN; {script}; COMMIT")
    connection.executescript("ROLLBACK")
    assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]


# -- transactions


def test_a_transaction_that_was_lost_says_what_was_lost(connect, connection):
    other = connect(autocommit=False)
    other.execute("INSERT INTO t(a) VALUES (1)")
    other.executemany("INSERT INTO t(a) VALUES (?)", [(2,), (3,)])
    other.executemany("INSERT INTO t(a) VALUES (:a)", ({"a": number} for number in range(4, 10_304)))  # two requests
    end_own_stream(other)
    with pytest.raises(dbapi.OperationalError) as caught:
        other.execute("INSERT INTO t(a) VALUES (0)")
    assert isinstance(caught.value.__cause__, TransactionLost)
    assert "INSERT INTO t(a) VALUES (1)" in str(caught.value)
    assert "(2 times) INSERT INTO t(a) VALUES (?)" in str(caught.value)
    assert "(10,300 times) INSERT INTO t(a) VALUES (:a)" in str(caught.value)
    assert "SAVEPOINT" not in str(caught.value)
    assert "rollback()" in caught.value.hint
    for call in (other.commit, lambda: other.execute("INSERT INTO t(a) VALUES (5)")):  # no part of it is applied alone
        with pytest.raises(dbapi.OperationalError, match="lost"):
            call()
    other.rollback()
    other.execute("INSERT INTO t(a) VALUES (6)")
    other.commit()
    assert connection.execute("SELECT a FROM t").fetchall() == [(6,)]


def test_a_script_after_the_rollback_of_a_lost_transaction_runs(connect, connection):
    other = connect(autocommit=True)
    other.execute("BEGIN")
    end_own_stream(other)
    with pytest.raises(dbapi.OperationalError, match="rolled"):
        other.execute("INSERT INTO t(a) VALUES (1)")
    other.executescript("ROLLBACK; INSERT INTO t(a) VALUES (2)")
    assert connection.execute("SELECT a FROM t").fetchall() == [(2,)]


@pytest.mark.parametrize("number", [1, 2])
def test_a_transaction_that_ends_behind_its_last_statement_is_lost(connect, monkeypatch, connection, number):
    """The statement has no error, only the state of the connection shows the loss; commit() would do nothing."""
    other = connect(autocommit=False)
    for key in range(1, number):
        other.execute("INSERT INTO t(a) VALUES (?)", [key])
    read = client_stream.read_response

    def ended(body):
        return read(bytes(body).replace(b'"is_autocommit":false', b'"is_autocommit":true'))

    with monkeypatch.context() as patch:
        patch.setattr(client_stream, "read_response", ended)
        with pytest.raises(dbapi.OperationalError, match="Undone:\n  INSERT INTO t"):
            other.execute("INSERT INTO t(a) VALUES (?)", [number])
    with pytest.raises(dbapi.OperationalError, match="lost"):
        other.commit()
    other.rollback()
    assert not other._runner._link.in_transaction


def test_rollback_of_a_transaction_that_the_server_has_ended(connect, connection):
    other = connect(autocommit=False)
    other.execute("INSERT INTO t(a) VALUES (1)")
    end_own_stream(other)
    other.rollback()
    other.execute("INSERT INTO t(a) VALUES (2)")
    other.commit()
    assert connection.execute("SELECT a FROM t").fetchall() == [(2,)]


def test_executemany_with_a_deferred_constraint_leaves_no_transaction(connection, monkeypatch):
    monkeypatch.setattr("pipemagic.dbapi.many.MOST", 2)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("CREATE TABLE u(a REFERENCES t DEFERRABLE INITIALLY DEFERRED)")
    with pytest.raises(dbapi.IntegrityError, match="FOREIGN KEY"):
        connection.executemany("INSERT INTO u VALUES (?)", [(1,), (2,), (3,)])
    assert not connection.in_transaction
    assert connection.execute("SELECT * FROM u").fetchall() == []


def test_commit_ends_only_the_transaction_of_begin(connection):
    connection.begin()
    connection.execute("INSERT INTO t(a) VALUES (1)")
    connection.execute("COMMIT")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t(a) VALUES (2)")
    connection.rollback()
    assert connection.in_transaction
    connection.execute("COMMIT")
    assert connection.execute("SELECT a FROM t").fetchall() == [(1,), (2,)]


def test_settings_are_set_again_and_lost_temporary_tables_are_reported(connection, request):
    connection.execute("PRAGMA foreign_keys = OFF")
    end_own_stream(connection)
    assert connection.execute("PRAGMA foreign_keys").fetchall() == [(0,)]  # without a warning, which would be an error
    if "sqld" not in request.node.name:  # which has no temporary tables
        connection.execute("CREATE TEMP TABLE scratch(a)")
        end_own_stream(connection)
        with pytest.warns(UserWarning, match="scratch"):
            assert connection.execute("PRAGMA foreign_keys").fetchall() == [(0,)]


def test_executemany_is_all_or_none_where_each_statement_commits(connection, monkeypatch):
    def rows():
        yield from ((number,) for number in range(1, 30))
        yield (7,)

    for size in (10_000, 8):
        monkeypatch.setattr("pipemagic.dbapi.many.MOST", size)
        with pytest.raises(dbapi.IntegrityError):
            connection.executemany("INSERT INTO t(a) VALUES (?)", rows())
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
        assert not connection.in_transaction
    cursor = connection.executemany("INSERT INTO t(a) VALUES (:a)", ({"a": number} for number in range(20)))
    assert cursor.rowcount == 20
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (20,)


def test_begin_is_for_the_next_statement_that_may_write(connect, connection):
    connection.begin()
    connection.execute("SELECT 1")
    connection.execute("PRAGMA table_info(t)")
    assert not connection.in_transaction
    connection.execute("INSERT INTO t(a) VALUES (1)")
    assert connection.in_transaction
    connection.rollback()
    connection.begin()
    connection.execute("SAVEPOINT s")  # in the transaction: alone, its RELEASE would commit
    connection.execute("INSERT INTO t(a) VALUES (1)")
    connection.execute("RELEASE s")
    assert connection.in_transaction
    connection.rollback()
    connection.begin()
    connection.execute("CREATE TABLE u(x)")
    connection.commit()
    assert not connection.in_transaction
    other = connect()
    assert other.execute("SELECT count(*) FROM t").fetchone() == (0,)
    assert other.execute("SELECT count(*) FROM u").fetchone() == (0,)
    connection.begin()
    connection.executescript("SELECT 1; INSERT INTO t(a) VALUES (1); INSERT INTO u VALUES (1)")
    assert connection.in_transaction
    connection.rollback()
    connection.isolation_level = None
    connection.begin()
    connection.execute("INSERT INTO t(a) VALUES (2)")
    connection.rollback()
    assert other.execute("SELECT a FROM t").fetchall() == [(2,)]


def test_wrong_modes(connect):
    with pytest.raises(ValueError, match="autocommit must be"):
        connect(autocommit=5)
    with pytest.raises(ValueError, match="isolation_level string must be"):
        connect(isolation_level="SERIALIZABLE")


# -- the notebook's connection


@pytest.fixture
def cells(session):
    """A session with a table; it runs cells."""
    session.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    return session


def inside(session, **options):
    """Return a DB-API connection on the connection of a session."""
    return dbapi.Connection(dbapi.links.NotebookLink(session.connection()), **{"autocommit": True, **options})


def numbers(session):
    return session.run("SELECT a FROM t ORDER BY a")["a"].tolist()


@pytest.mark.parametrize("end", ["commit", "rollback", "close"])
def test_a_transaction_of_cells_stays_open(cells, end):
    db = inside(cells)
    cells.run("BEGIN; INSERT INTO t(a) VALUES (1)")
    assert db.execute("SELECT a FROM t").fetchall() == [(1,)]
    db.execute("INSERT INTO t(a) VALUES (2)")
    assert db.in_transaction
    getattr(db, end)()
    assert cells.connection().statements_open == 3
    cells.run("COMMIT")
    assert numbers(cells) == [1, 2]


@pytest.mark.parametrize("mode", [False, dbapi.LEGACY_TRANSACTION_CONTROL, "begin"])
def test_a_unit_of_work_in_a_transaction_of_cells(cells, mode):
    db = inside(cells, autocommit=True if mode == "begin" else mode)
    cells.run("BEGIN; INSERT INTO t(a) VALUES (1)")
    for end, number in (("rollback", 2), ("commit", 3), ("close", 4)):
        if mode == "begin":
            db.begin()
        db.execute("INSERT INTO t(a) VALUES (?)", [number])
        getattr(db, end)()
    assert numbers(cells) == [1, 3]
    cells.run("ROLLBACK")
    assert numbers(cells) == []


def test_a_unit_of_work_outside_commits_by_itself(cells):
    db = inside(cells, autocommit=False)
    db.execute("INSERT INTO t(a) VALUES (1)")
    db.rollback()
    db.execute("INSERT INTO t(a) VALUES (2)")
    db.commit()
    assert cells.run_cell("SELECT 1").open_line == ""
    assert numbers(cells) == [2]


def test_a_cell_that_ends_the_transaction_ends_the_unit(cells):
    db = inside(cells, autocommit=False)
    cells.run("BEGIN")
    db.execute("INSERT INTO t(a) VALUES (1)")
    cells.run("ROLLBACK; BEGIN; INSERT INTO t(a) VALUES (5)")
    with pytest.raises(dbapi.OperationalError, match="ended the transaction"):
        db.commit()
    cells.run("COMMIT")
    assert numbers(cells) == [5]


@pytest.mark.parametrize("mode", [False, dbapi.LEGACY_TRANSACTION_CONTROL])
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "ROLLBACK; BEGIN", "lost"])
def test_no_statement_runs_outside_of_a_unit_that_a_cell_ended(cells, mode, end):
    db = inside(cells, autocommit=mode)
    cells.run("BEGIN")
    db.execute("INSERT INTO t(a) VALUES (1)")
    if end == "lost":
        end_at_server(cells.connection())
        with pytest.raises(errors.TransactionLost):
            cells.run("SELECT 1")
        cells.run("ROLLBACK; SELECT 1")
    else:
        cells.run(end)
    for _ in range(2):
        with pytest.raises(dbapi.OperationalError, match="ended the transaction"):
            db.execute("INSERT INTO t(a) VALUES (2)")
        with pytest.raises(dbapi.OperationalError, match="ended the transaction"):
            db.commit()
    db.rollback()
    db.execute("INSERT INTO t(a) VALUES (3)")
    db.commit()
    if end == "ROLLBACK; BEGIN":
        cells.run("COMMIT")
    assert numbers(cells) == ([1, 3] if end == "COMMIT" else [3])


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_after_the_end_by_a_cell_statements_do_not_commit_by_themselves(cells, end):
    """They would not be undone by rollback()."""
    db = inside(cells)
    db.begin()
    db.execute("INSERT INTO t(a) VALUES (1)")
    cells.run(end)
    for call in (lambda: db.execute("INSERT INTO t(a) VALUES (2)"), lambda: db.execute("SELECT 1"), db.commit):
        with pytest.raises(dbapi.OperationalError, match="has ended the transaction\nHint: call rollback"):
            call()
    db.rollback()
    db.execute("INSERT INTO t(a) VALUES (3)")
    db.commit()
    assert numbers(cells) == ([1, 3] if end == "COMMIT" else [3])


def test_a_statement_can_end_the_unit_of_work(cells):
    db = inside(cells, autocommit=dbapi.LEGACY_TRANSACTION_CONTROL)
    db.execute("INSERT INTO t(a) VALUES (1)")
    db.execute("COMMIT")
    db.execute("INSERT INTO t(a) VALUES (2)")
    db.rollback()
    assert numbers(cells) == [1]


def test_a_unit_of_work_that_ends_behind_its_last_statement_is_reported(cells, monkeypatch):
    db = inside(cells, autocommit=False)
    db.execute("INSERT INTO t(a) VALUES (1)")
    read = client_stream.read_response

    def ended(body):
        return read(bytes(body).replace(b'"is_autocommit":false', b'"is_autocommit":true'))

    with monkeypatch.context() as patch:
        patch.setattr(client_stream, "read_response", ended)
        db.execute("INSERT INTO t(a) VALUES (2)")
    with pytest.raises(dbapi.OperationalError, match="ended the transaction"):
        db.commit()


def test_rollback_acknowledges_no_loss_of_a_cell(cells):
    """The lost transaction is a later one than that of the unit of work."""
    db = inside(cells, autocommit=False)
    db.execute("INSERT INTO t(a) VALUES (1)")
    cells.run("COMMIT; BEGIN; INSERT INTO t(a) VALUES (2)")
    end_at_server(cells.connection())
    with pytest.raises(errors.TransactionLost):
        cells.run("INSERT INTO t(a) VALUES (3)")
    db.rollback()
    with pytest.raises(errors.TransactionLost, match="not run"):
        cells.run("INSERT INTO t(a) VALUES (4)")


def test_two_units_of_work_exclude_each_other(cells):
    """The savepoint of the second would end with that of the first, in silence."""
    first, second = inside(cells, autocommit=False), inside(cells, autocommit=False)
    first.execute("INSERT INTO t(a) VALUES (1)")
    for _ in range(2):
        with pytest.raises(dbapi.OperationalError, match="another DB-API connection has uncommitted changes in main"):
            second.execute("INSERT INTO t(a) VALUES (2)")
    assert inside(cells).execute("SELECT a FROM t").fetchall() == [(1,)]
    first.rollback()
    second.execute("INSERT INTO t(a) VALUES (3)")
    cells.run("COMMIT; BEGIN")
    with pytest.raises(dbapi.OperationalError, match="ended the transaction"):
        second.commit()
    first.execute("INSERT INTO t(a) VALUES (4)")
    first.commit()
    cells.run("ROLLBACK")
    assert numbers(cells) == [3]


@pytest.mark.parametrize("begin", ["SELECT 1", "BEGIN"])
def test_an_error_says_that_the_transaction_of_a_cell_is_open_not_that_of_the_library(cells, begin):
    cells.run(begin)
    db = inside(cells, autocommit=False)
    with pytest.raises(dbapi.OperationalError, match="no such table") as caught:
        db.execute("INSERT INTO nope VALUES (1)")
    assert ("COMMIT keeps its changes" in str(caught.value)) == (begin == "BEGIN")
    db.rollback()
    cells.run("ROLLBACK" if begin == "BEGIN" else begin)


@pytest.mark.parametrize("begin", ["SELECT 1", "BEGIN"])
def test_a_unit_of_work_without_its_connection_does_not_keep_the_next_from_its_commit(cells, begin):
    """The sqlite3 module rolls back what a connection has not committed when it is garbage collected."""
    cells.run(begin)
    first = inside(cells, autocommit=False)
    first.execute("INSERT INTO t(a) VALUES (1)")
    del first
    gc.collect()
    second = inside(cells, autocommit=False)
    second.execute("INSERT INTO t(a) VALUES (2)")
    second.commit()
    assert (cells.connection().transaction is Tx.OPEN) == (begin == "BEGIN")
    assert numbers(cells) == [2]


def test_of_threads_that_begin_a_unit_of_work_one_does(cells):
    """None of them commits what another one has written, nor reports an error for rows that were kept."""
    links = [inside(cells, autocommit=False) for _ in range(8)]
    start, kept, errors = threading.Barrier(len(links)), [], []

    def write(number, db):
        start.wait()
        try:
            db.execute("INSERT INTO t(a) VALUES (?)", [number])
            db.commit()
            kept.append(number)
        except dbapi.Error as error:
            errors.append(str(error))
            db.rollback()

    threads = [threading.Thread(target=write, args=pair) for pair in enumerate(links)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers(cells) == sorted(kept)
    assert kept
    assert all("another DB-API connection has uncommitted changes" in error for error in errors)


def test_a_unit_of_work_that_a_cell_ended_is_no_part_of_the_next(cells):
    first, second = inside(cells, autocommit=False), inside(cells, autocommit=False)
    first.execute("INSERT INTO t(a) VALUES (1)")
    cells.run("ROLLBACK")
    second.execute("INSERT INTO t(a) VALUES (2)")
    with pytest.raises(dbapi.OperationalError, match="has ended the transaction"):
        first.execute("INSERT INTO t(a) VALUES (3)")
    first.rollback()
    second.commit()
    assert numbers(cells) == [2]


def test_a_commit_that_fails_can_be_rolled_back(cells):
    cells.run("CREATE TABLE u(a REFERENCES t DEFERRABLE INITIALLY DEFERRED)")
    db = inside(cells, autocommit=False)
    db.execute("INSERT INTO u VALUES (7)")
    with pytest.raises(dbapi.IntegrityError, match="FOREIGN KEY"):
        db.commit()
    assert db.execute("SELECT a FROM u").fetchall() == [(7,)]
    db.rollback()
    assert cells.run_cell("SELECT a FROM u").open_line == ""
    assert cells.run("SELECT a FROM u")["a"].tolist() == []


def test_executemany_in_a_transaction_of_cells_is_all_or_none(cells):
    db = inside(cells)
    cells.run("BEGIN; INSERT INTO t(a) VALUES (1)")
    with pytest.raises(dbapi.IntegrityError):
        db.executemany("INSERT INTO t(a) VALUES (?)", [(2,), (1,)])
    db.executemany("INSERT INTO t(a) VALUES (?)", [(3,), (4,)])
    cells.run("COMMIT")
    assert numbers(cells) == [1, 3, 4]


def test_the_loss_of_a_transaction_of_cells_is_for_a_cell_to_acknowledge(cells):
    db = inside(cells, autocommit=False)
    cells.run("BEGIN; INSERT INTO t(a) VALUES (1)")
    db.execute("INSERT INTO t(a) VALUES (2)")
    end_at_server(cells.connection())
    with pytest.raises(dbapi.OperationalError, match="INSERT INTO t"):
        db.execute("INSERT INTO t(a) VALUES (3)")
    db.rollback()
    with pytest.raises(dbapi.OperationalError, match="not run"):
        db.execute("INSERT INTO t(a) VALUES (4)")
    cells.run("ROLLBACK")
    db.rollback()
    db.execute("INSERT INTO t(a) VALUES (5)")
    db.commit()
    assert numbers(cells) == [5]


def test_a_call_waits_while_a_cell_runs(cells):
    db, order, started = inside(cells), [], threading.Event()

    def call():
        started.set()
        db.execute("INSERT INTO t(a) VALUES (1)")
        order.append("call")

    thread = threading.Thread(target=call)
    with cells.connection().between_cells() as free:  # as a cell does
        assert free
        thread.start()
        started.wait()
        order.append("cell")
    thread.join()
    assert order == ["cell", "call"]
    assert numbers(cells) == [1]


def test_what_a_cell_would_report_is_a_warning(cells, request):
    db = inside(cells)
    with pytest.warns(UserWarning, match="Foreign keys are not checked"):
        db.execute("PRAGMA foreign_keys = OFF")
    with pytest.warns(UserWarning, match="mixed"):
        db.execute("SELECT 1 AS mixed UNION ALL SELECT 'x'").fetch_df()


def test_the_loss_of_a_unit_of_work_reads_as_on_a_connection_of_its_own(cells):
    db = inside(cells, autocommit=False)
    db.execute("INSERT INTO t(a) VALUES (1)")
    end_at_server(cells.connection())
    with pytest.raises(dbapi.OperationalError) as caught:
        db.execute("INSERT INTO t(a) VALUES (2)")
    message, _, hint = str(caught.value).partition("\nHint: ")
    assert message.partition("\n")[2].startswith("Undone")
    assert "INSERT INTO t(a) VALUES (1)" in message
    assert "SAVEPOINT" not in message
    assert hint == "call rollback(), then run the whole transaction again"
    db.rollback()
    db.execute("INSERT INTO t(a) VALUES (3)")
    db.commit()
    assert numbers(cells) == [3]


def test_no_cell_runs_between_a_savepoint_and_its_first_statement(cells, monkeypatch):
    db, connection, free = inside(cells, autocommit=False), cells.connection(), []
    run = dbapi.links.NotebookLink._run

    def try_a_cell():
        with connection.between_cells() as is_free:
            free.append(is_free)

    def run_and_try(link, *arguments):
        results = run(link, *arguments)
        thread = threading.Thread(target=try_a_cell)
        thread.start()
        thread.join()
        return results

    monkeypatch.setattr(dbapi.links.NotebookLink, "_run", run_and_try)
    db.execute("INSERT INTO t(a) VALUES (1)")
    assert free == [False, False]
    db.commit()
    try_a_cell()
    assert free == [False, False, False, True]
