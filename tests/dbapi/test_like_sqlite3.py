"""The same calls on `pipemagic.dbapi` and on the sqlite3 module have the same outcome."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipemagic import dbapi

MODES = [dbapi.LEGACY_TRANSACTION_CONTROL] + [True, False] * (sys.version_info >= (3, 12))

VALUES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=3), st.binary(max_size=3),
    st.integers(-(2**40), 2**40).map(lambda number: number / 8), st.booleans(),
)  # fmt: skip
ROW = st.tuples(VALUES)
KEYS = st.integers(1, 4)

ENDS = ("COMMIT", "ROLLBACK", "INSERT OR ROLLBACK INTO t(a) VALUES (1)")
"""After these sqlite3 has no transaction with ``autocommit=False``; here another one begins, as PEP 249 says."""

FETCHES = ("fetchone", "fetchall", "fetchmany", "next")

EXECUTE = st.sampled_from([
    "SELECT a, b FROM t ORDER BY a",
    "SELECT count(*) AS n, typeof(max(b)) FROM t",
    "  -- nothing",
    "",
    "UPDATE t SET b = 'new' WHERE a > 1",
    "DELETE FROM t WHERE a = 2",
    "INSERT INTO t(b) VALUES ('x') RETURNING a, b",
    "INSERT OR ROLLBACK INTO t(a) VALUES (1)",
    "INSERT INTO t(a, b) VALUES (1, 'again')",
    "REPLACE INTO t(a, b) VALUES (1, 'replaced')",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "RELEASE s",
    "ROLLBACK TO s",
    "CREATE TABLE IF NOT EXISTS u(x)",
    "INSERT INTO u VALUES (1)",
    "SELECT * FROM u",
    "SELECT nope FROM t",
    "SELEC 1",
    "SELECT 1; SELECT 2",
    "PRAGMA user_version",
    "EXPLAIN SELECT 1",
]).map(lambda text: ("execute", text))  # fmt: skip

CALLS = st.one_of(
    EXECUTE,
    EXECUTE,
    st.tuples(st.just("execute"), st.just("INSERT INTO t(a, b) VALUES (?, ?)"), st.tuples(KEYS, VALUES)),
    st.tuples(
        st.just("execute"), st.just("INSERT INTO t(b) VALUES (:b)"), st.fixed_dictionaries({"b": VALUES, "other": KEYS})
    ),
    st.tuples(st.just("execute"), st.just("SELECT ?, ?2, typeof(?1)"), st.lists(VALUES, max_size=3).map(tuple)),
    st.tuples(st.just("execute"), st.just("SELECT :a, $b"), st.dictionaries(st.sampled_from("abc"), VALUES)),
    st.tuples(st.just("executemany"), st.just("INSERT INTO t(b) VALUES (?)"), st.lists(ROW, min_size=1, max_size=3)),
    st.tuples(st.just("executemany"), st.just("SELECT ?"), st.just([(1,)])),
    st.tuples(st.just("executescript"), st.sampled_from(["INSERT INTO t(b) VALUES (1); SELECT 2;", "SELECT 1", ""])),
    st.sampled_from([
        ("commit",), ("rollback",), ("fetchone",), ("fetchall",), ("fetchmany", 2), ("fetchmany",), ("next",),
        ("isolation_level", None), ("isolation_level", ""), ("isolation_level", "IMMEDIATE"), ("new cursor",),
        ("autocommit",),
        ("with",), ("with error",),
    ]),
)  # fmt: skip


class Failed(Exception):
    """Raised in a ``with`` block."""


def call(state, module, name, *arguments):
    """Make a call on a connection and its cursor; return what is visible then."""
    connection, cursor = state
    value = None
    try:
        if name in ("commit", "rollback"):
            getattr(connection, name)()
        elif name == "isolation_level":
            connection.isolation_level = arguments[0]
        elif name == "autocommit":  # the same value again: True commits
            if hasattr(connection, "autocommit"):
                connection.autocommit = connection.autocommit
        elif name == "new cursor":
            state[1] = cursor = connection.cursor()
        elif module is sqlite3 and name in FETCHES and cursor.description is None:
            raise sqlite3.ProgrammingError  # required by PEP 249; sqlite3 returns no rows
        elif name == "next":
            value = next(cursor, "no row")
        elif name == "executescript":  # on a cursor of its own: the sqlite3 module leaves the rows of this one
            connection.executescript(*arguments)
        elif name == "with":
            with connection:
                cursor.execute("INSERT INTO t(b) VALUES ('with')")
        elif name == "with error":
            with suppress(Failed), connection:
                cursor.execute("INSERT INTO t(b) VALUES ('with')")
                raise Failed
        else:
            value = getattr(cursor, name)(*arguments)
            value = None if value is cursor else value
        error = None
    except module.Error as caught:
        code = getattr(caught, "sqlite_errorname", None)
        error = type(caught).__name__, code and "_".join(code.split("_")[:2])  # sqld sends no extended codes
    names = [column[0] for column in cursor.description or ()]
    inserts = name == "execute" and arguments[0].startswith(("INSERT", "REPLACE")) and error is None
    return (
        value,
        error,
        connection.in_transaction,
        names,
        cursor.lastrowid if inserts else None,
        cursor.rowcount
        if error is None and not names
        else None,  # sqlite3 counts rows of RETURNING as they are fetched
    )


@pytest.mark.parametrize("mode", MODES, ids=str)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(CALLS, min_size=1, max_size=12))
def test_the_same_outcome(connect, mode, calls):
    if mode is False:
        calls = [call for call in calls if call[-1] not in ENDS]
    ours = connect(autocommit=True)
    ours.executescript("DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS u; CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    ours.autocommit = mode
    options = {"autocommit": mode} if sys.version_info >= (3, 12) else {}
    theirs = sqlite3.connect(":memory:", isolation_level="", **options)
    try:
        theirs.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
        theirs.commit()
        states = [theirs, theirs.cursor()], [ours, ours.cursor()]
        for number, (name, *arguments) in enumerate(calls):
            expected, result = call(states[0], sqlite3, name, *arguments), call(states[1], dbapi, name, *arguments)
            assert result == expected, (number, name, arguments)
        ours.rollback()
        theirs.rollback()
        rows = "SELECT a, b, typeof(b) FROM t ORDER BY a"
        assert ours.execute(rows).fetchall() == theirs.execute(rows).fetchall()
    finally:
        ours.close()
        theirs.close()
