"""`executemany`: rows that one statement inserts together have the outcome of rows that are inserted one by one."""

from __future__ import annotations

import datetime
import sqlite3
from itertools import count

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipemagic import dbapi
from pipemagic.client.bulk import batches
from pipemagic.dbapi import links, many
from pipemagic.sql import parse

LEGACY = dbapi.LEGACY_TRANSACTION_CONTROL
ROW = "(?, ?, ?)"
# No column is TEXT: versions of SQLite write doubles differently.
TABLE = "CREATE TABLE t(a INTEGER PRIMARY KEY, b, c INTEGER)"
TRIGGER = "CREATE TRIGGER r BEFORE INSERT ON t WHEN NEW.b = 5 BEGIN SELECT RAISE({}); END"

SCHEMAS = [
    [TABLE],
    ["CREATE TABLE t(a INTEGER PRIMARY KEY ON CONFLICT FAIL, b, c INTEGER)"],
    ["CREATE TABLE t(a INTEGER PRIMARY KEY ON CONFLICT ROLLBACK, b, c INTEGER)"],
    ["CREATE TABLE t(a INTEGER PRIMARY KEY ON CONFLICT REPLACE, b UNIQUE, c REAL)"],
    ["CREATE TABLE t(a, b NOT NULL ON CONFLICT FAIL, c BLOB)"],
    ["CREATE TABLE t(a INTEGER, b UNIQUE, c NUMERIC, d AS (typeof(c)) STORED)"],
    [TABLE, TRIGGER.format("FAIL, 'five'")],
    [TABLE, TRIGGER.format("ROLLBACK, 'five'")],
    [TABLE, TRIGGER.format("ABORT, 'five'")],
    [TABLE, TRIGGER.format("IGNORE")],
    [TABLE, "CREATE TRIGGER r AFTER INSERT ON t BEGIN UPDATE t SET c = (SELECT count(*) FROM t) WHERE a = NEW.a; END"],
]

INSERTS = [
    f"INSERT INTO t(a, b, c) VALUES {ROW}",
    f"insert or ignore into main.t (c, a, b) values {ROW}",
    f"INSERT OR FAIL INTO t(a, b, c) VALUES {ROW}",
    f"INSERT OR ROLLBACK INTO t(a, b, c) VALUES {ROW}",
    f'REPLACE INTO "t"(a, b, c) VALUES{ROW}',
    f"INSERT INTO t(a, b, c) -- the row\n VALUES /* of */ {ROW} -- is here",
    f"INSERT INTO t(a, b, c) VALUES {ROW} ON CONFLICT DO UPDATE SET b = excluded.c, c = t.b",
    f"INSERT INTO t(a, b, c) VALUES {ROW} ON CONFLICT DO NOTHING",
    "INSERT INTO t(c, a, b) VALUES (:c, @a, $b)",
    f"INSERT INTO nope VALUES {ROW}",
]

VALUES = st.one_of(
    st.none(), st.just(5), st.integers(-(2**63), 2**63 - 1), st.text(max_size=4), st.binary(max_size=4),
    st.sampled_from(["", "\0", "a\0b", "zoë", "東京", "12", "-0.0", b"", 0.1, -0.0, 1e300, 5e-324]),
    st.floats(allow_nan=True, allow_infinity=False), st.booleans(),
)  # fmt: skip
KEYS = st.one_of(st.none(), st.integers(1, 6))
KEPT_BEFORE_NULL = [(1, 1, 1), (2, 2, 2), (3, None, 3), (4, 4, 4)]


@pytest.fixture
def together(monkeypatch):
    """The numbers of rows that were inserted together; a few rows are enough."""
    monkeypatch.setattr(many, "FEWEST", 2)
    counts = []
    run = links.StreamLink.run

    def counted(link, cell, **options):
        if "times" in options:
            counts.append(options["times"])
        return run(link, cell, **options)

    monkeypatch.setattr(links.StreamLink, "run", counted)
    return counts


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    schema=st.sampled_from(SCHEMAS),
    insert=st.sampled_from(INSERTS),
    rows=st.lists(st.tuples(KEYS, VALUES, VALUES), min_size=2, max_size=8),
    mode=st.sampled_from([LEGACY, True]),
    is_open=st.booleans(),
)
@example(schema=SCHEMAS[4], insert=INSERTS[0], rows=KEPT_BEFORE_NULL, mode=LEGACY, is_open=True)
@example(schema=SCHEMAS[4], insert=INSERTS[0], rows=KEPT_BEFORE_NULL, mode=LEGACY, is_open=False)
@example(schema=SCHEMAS[2], insert=INSERTS[0], rows=[(1, 2, 3), (3, 3, 3), (3, 4, 5)], mode=LEGACY, is_open=True)
@example(schema=SCHEMAS[0], insert=INSERTS[-1], rows=[(1, 2, 3), (2, 3, 4)], mode=LEGACY, is_open=False)
def test_rows_are_those_of_sqlite3(connect, together, schema, insert, rows, mode, is_open):
    parameters = [{"a": a, "b": b, "c": c} for a, b, c in rows] if ":" in insert else rows
    ours = connect(autocommit=True)
    ours.executescript(";".join(["DROP TABLE IF EXISTS t", *schema[:1]]))
    ours.executescript(" ".join(schema[1:]))
    ours.autocommit = mode
    together.clear()
    theirs = sqlite3.connect(":memory:", isolation_level="")
    try:
        for statement in schema:
            theirs.execute(statement)
        outcomes = []
        for module, connection in ((sqlite3, theirs), (dbapi, ours)):
            if is_open and mode is not True:
                connection.execute("INSERT INTO t(a, b) VALUES (3, 'before')")
            try:
                outcomes.append(connection.executemany(insert, parameters).rowcount)
            except module.Error as error:
                outcomes.append(type(error).__name__)
                if mode is True:
                    connection.rollback()  # all or none, where each would commit by itself
            if mode is not True:
                outcomes[-1] = outcomes[-1], connection.in_transaction
        assert outcomes[1] == outcomes[0]
        assert together == [len(rows)]
        query = "SELECT *, typeof(a), typeof(b), typeof(c) FROM t ORDER BY rowid"
        assert list(map(repr, ours.execute(query))) == list(map(repr, theirs.execute(query)))
    finally:
        ours.close()
        theirs.close()


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (?, ?1)",
        "INSERT INTO t VALUES (?2, ?1)",
        "INSERT INTO t VALUES (:a, :a)",
        "INSERT INTO t VALUES (?, 1)",
        "INSERT INTO t VALUES (?, ? + 1)",
        "INSERT INTO t VALUES (?, (SELECT max(a) FROM t))",
        "INSERT INTO t VALUES (?, ?), (3, 4)",
        "INSERT INTO t VALUES (?, ?), (?, ?)",
        "INSERT INTO t SELECT * FROM (VALUES (?, ?)) LIMIT 1",
        "INSERT INTO t SELECT 1, 2 UNION VALUES (?, ?)",
        "INSERT INTO t(a) VALUES (:a) ON CONFLICT DO UPDATE SET b = :a",
        "INSERT INTO t(a) VALUES (?) ON CONFLICT DO UPDATE SET b = ?",
        "WITH x AS (SELECT 1) INSERT INTO t VALUES (?, ?)",
        "INSERT INTO t DEFAULT VALUES",
        "INSERT INTO t VALUES",
        "INSERT INTO t VALUES (",
        "INSERT INTO t VALUES ()",
        "INSERT INTO t VALUES (?,)",
        "INSERT INTO t VALUES (? ?)",
        "UPDATE t SET a = ?",
        "SELECT ?",
    ],
)
def test_other_statements_run_for_each_row(sql):
    assert many.row_insert(parse(sql)) is None


def test_parts_of_an_insert():
    sql = "INSERT INTO t(a, b) -- x\nVALUES (:a, :b) ON CONFLICT DO NOTHING"
    assert many.row_insert(parse(sql)) == ("INSERT INTO t(a, b) -- x\n", (":a", ":b"), "ON CONFLICT DO NOTHING")


@pytest.mark.parametrize("records", [True, False])
def test_many_rows_of_a_generator_are_all_stored_or_none(connect, monkeypatch, records):
    if not records:
        monkeypatch.setattr(batches, "takes_records", lambda database: False)
    connection = connect(autocommit=True)
    connection.execute(TABLE)
    rows = [(number, f"zoë {number}", number / 7 + 0.1) for number in range(1, 12_001)]
    assert connection.executemany("INSERT INTO t VALUES (?, ?, ?)", iter(rows)).rowcount == len(rows)
    assert connection.execute("SELECT a, b, c FROM t").fetchall() == rows
    with pytest.raises(dbapi.IntegrityError, match=r"UNIQUE constraint failed: t\.a"):
        connection.executemany("INSERT INTO t(a) VALUES (?)", ((number,) for number in range(24_000, 0, -1)))
    with pytest.raises(dbapi.ProgrammingError, match="the statement has 1 parameter, not 2"):
        connection.executemany("INSERT INTO t(a) VALUES (?)", ((n,) if n < 39_000 else (n, n) for n in count(24_000)))
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (len(rows),)
    assert not connection.in_transaction


def test_values_that_are_not_those_of_sqlite(connect, together):
    connection = connect()
    connection.execute("CREATE TABLE t(a, b)")
    day = datetime.date(2026, 5, 17)
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(day, True), (day, float("nan")), (day, None)])
    assert connection.execute("SELECT DISTINCT a FROM t").fetchall() == [("2026-05-17",)]
    assert connection.execute("SELECT b FROM t").fetchall() == [(1,), (None,), (None,)]
    assert together == [3]
    for value in (2**63, "\ud800", object(), datetime.timedelta(1)):
        with pytest.raises(dbapi.ProgrammingError, match="parameter number 2"):
            connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, 1), (2, value)])
    with pytest.raises(dbapi.ProgrammingError, match="parameter 'b' has no value"):
        connection.executemany("INSERT INTO t VALUES (:a, :b)", [{"a": 1, "b": 2}, {"a": 1}])
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (3,)


def test_large_values_are_sent_in_several_requests(connect, together):
    connection = connect(autocommit=True)
    connection.execute("CREATE TABLE t(a, b)")
    rows = [(number, bytes([number]) * 1_000_000) for number in range(5)]
    connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    assert connection.execute("SELECT a, length(b), substr(b, 1, 1) FROM t").fetchall() == [
        (number, 1_000_000, bytes([number])) for number in range(5)
    ]
    assert len(together) > 1
    assert sum(together) == 5
    connection.executemany("UPDATE t SET b = ? WHERE a = ?", [(value, number) for number, value in rows])
    assert connection.execute("SELECT sum(length(b)) FROM t").fetchone() == (5_000_000,)


def test_a_cell_keeps_its_transaction_when_rows_fail(session, monkeypatch):
    monkeypatch.setattr(many, "FEWEST", 2)
    trigger = TRIGGER.format("FAIL, 'five'")
    session.run_cell(f"{TABLE};\n{trigger};\nBEGIN;\nINSERT INTO t(b) VALUES ('of the cell')")
    connection = dbapi.Connection(links.NotebookLink(session.connection()), autocommit=True)
    assert connection.executemany("INSERT INTO t(b) VALUES (?)", [(1,), (2,), (3,)]).rowcount == 3
    with pytest.raises(dbapi.IntegrityError, match="five"):
        connection.executemany("INSERT INTO t(b) VALUES (?)", [(4,), (5,), (6,)])
    session.run_cell("INSERT INTO t(b) VALUES ('also');\nCOMMIT")
    rows = [("of the cell",), (1,), (2,), (3,), ("also",)]
    assert connection.execute("SELECT b FROM t").fetchall() == rows
