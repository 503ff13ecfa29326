"""Properties of statements, from their text."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from pipemagic.sql import parse


@pytest.mark.parametrize(
    ("text", "verb", "rows"),
    [
        ("SELECT 1", "SELECT", True),
        ("VALUES (1)", "VALUES", True),
        ("EXPLAIN DELETE FROM t", "EXPLAIN", True),
        ("WITH a AS (SELECT 1), b(x) AS NOT MATERIALIZED (SELECT 2) SELECT * FROM a", "SELECT", True),
        ("with recursive replace as (values(1)) insert into t select * from replace", "INSERT", False),
        ("WITH a AS (SELECT 1) UPDATE t SET x = (SELECT 1) RETURNING x", "UPDATE", True),
        ("INSERT INTO t VALUES ('RETURNING')", "INSERT", False),
        ('INSERT INTO t("returning") VALUES (1)', "INSERT", False),
        ("DELETE FROM t /* returning */", "DELETE", False),
        ("REPLACE INTO t VALUES (1) RETURNING *", "REPLACE", True),
        ("CREATE TABLE t AS SELECT 1", "CREATE", False),
        ("PRAGMA user_version", "PRAGMA", None),
        ("BEGIN", "BEGIN", False),
    ],
)
def test_properties_of_statements(text, verb, rows):
    statement = parse(text)
    assert statement.verb == verb
    assert statement.returns_rows is rows
    assert statement.is_query is (verb in ("SELECT", "VALUES"))
    assert statement.only_reads is (verb in ("SELECT", "VALUES", "EXPLAIN"))


@pytest.mark.parametrize(
    ("text", "verb", "table"),
    [
        ("INSERT INTO t VALUES (1)", "INSERT", "t"),
        ("INSERT OR REPLACE INTO main.t(a) VALUES (1)", "INSERT", "main.t"),
        ("REPLACE INTO [a b] SELECT * FROM u", "REPLACE", "[a b]"),
        ("UPDATE t SET a = 1", "UPDATE", "t"),
        ('UPDATE OR IGNORE temp . "t""t" AS x SET a = 1', "UPDATE", 'temp."t""t"'),
        ("DELETE FROM /* u */ t WHERE a", "DELETE", "t"),
        ("WITH a(x) AS (SELECT ')'), b AS NOT MATERIALIZED (SELECT 2) DELETE FROM t", "DELETE", "t"),
        ("WITH a AS (SELECT replace(x, 1, 2) FROM u) SELECT * FROM a", "SELECT", ""),
        ("EXPLAIN DELETE FROM t", "EXPLAIN", ""),
        ("CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM u; END", "CREATE", ""),
        ("DELETE", "DELETE", ""),
        ("", "", ""),
    ],
)
def test_the_verb_and_the_table_that_it_changes(text, verb, table):
    assert (parse(text).verb, parse(text).changed_table) == (verb, table)


def test_outer_words_stand_in_no_parentheses_and_in_no_quotes():
    text = """UPDATE t SET a = (SELECT 1 WHERE 2), "limit" = 'ORDER', b = [GROUP] RETURNING a -- HAVING"""
    assert parse(text).outer_words - {""} == {"UPDATE", "T", "SET", "A", "B", "RETURNING"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BEGIN", {"begin_mode": "DEFERRED", "opens_transaction": True}),
        ("begin transaction", {"begin_mode": "DEFERRED", "opens_transaction": True}),
        ("BEGIN DEFERRED TRANSACTION", {"begin_mode": "DEFERRED", "opens_transaction": True}),
        ("BEGIN /* now */ IMMEDIATE", {"begin_mode": "IMMEDIATE", "opens_transaction": True}),
        ("BEGIN EXCLUSIVE TRANSACTION", {"begin_mode": "EXCLUSIVE", "opens_transaction": True}),
        ("COMMIT", {"commits": True}),
        ("END TRANSACTION", {"commits": True}),
        ("ROLLBACK", {"rolls_back": True}),
        ("ROLLBACK TRANSACTION", {"rolls_back": True}),
        ("ROLLBACK TO a", {"rollback_to": "a"}),
        ("ROLLBACK TO SAVEPOINT [A b]", {"rollback_to": "a b"}),
        ('ROLLBACK TRANSACTION x TO SAVEPOINT "A""b"', {"rollback_to": 'a"b'}),
        ("ROLLBACK TO", {"rollback_to": ""}),
        ("SAVEPOINT 'One'", {"savepoint": "one", "opens_transaction": True}),
        ("SAVEPOINT savepoint", {"savepoint": "savepoint", "opens_transaction": True}),
        ("RELEASE one", {"release": "one"}),
        ("RELEASE SAVEPOINT `ONE`", {"release": "one"}),
        ("RELEASE savepoint", {"release": "savepoint"}),
        ("SELECT 'BEGIN'", {}),
        ("WITH a AS (SELECT 1) SELECT 1", {}),
        ("", {}),
    ],
)
def test_transactions(text, expected):
    statement = parse(text)
    nothing = {
        "begin_mode": "", "opens_transaction": False, "commits": False, "rolls_back": False, "rollback_to": None,
        "savepoint": None, "release": None,
    }  # fmt: skip
    assert {name: getattr(statement, name) for name in nothing} == nothing | expected
    assert statement.controls_transaction is bool(expected)


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("PRAGMA foreign_keys = ON", "foreign_keys"),
        ('pragma main . "Foreign_Keys" (1)', "foreign_keys"),
        ("PRAGMA foreign_keys", ""),
        ("PRAGMA user_version = 3", ""),
        ("PRAGMA busy_timeout = 5000", ""),
        ("PRAGMA synchronous = NORMAL", ""),
        ("PRAGMA", ""),
        ("EXPLAIN PRAGMA foreign_keys = ON", ""),
        ("SELECT 1", ""),
    ],
)
def test_settings_of_the_connection(text, setting):
    assert parse(text).connection_setting == setting
    assert parse(text).is_ignored_in_transaction is (setting == "foreign_keys")


@pytest.mark.parametrize(
    ("value", "on"),
    [
        ("= ON", True), ("(yes)", True), ("=True", True), ("= 1", True), ("= 2", True), ("= +1", True),
        ("= 'on'", True), ('= "ON"', True), ("= 0x1", True), ("= 1.0", True), ("= OFF", False),
        ("(no)", False), ("= 0", False), ("= -1", False), ("= maybe", False), ("= full", False),
        ("= 0.5", False), ("= 256", False), ("", False),
    ],
)  # fmt: skip
def test_the_value_of_a_setting_is_read_as_sqlite_reads_it(value, on):
    text = f"PRAGMA main.foreign_keys {value}"
    assert parse(text).switches_on is on
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as plain:
        plain.execute(text)
        assert plain.execute("PRAGMA foreign_keys").fetchone() == (int(on),)


def test_changes_of_the_schema():
    assert parse("DROP TABLE t").changes_schema
    assert not parse("DELETE FROM t").changes_schema
    assert parse("CREATE TEMP TABLE t(a)").creates_temporary
    assert parse("create temporary view t AS SELECT 1").creates_temporary
    assert not parse("CREATE TABLE temp(a)").creates_temporary


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT * FROM a, (b JOIN main.c) LEFT JOIN `D e` WHERE x IN (SELECT f, g FROM h)", {"a", "b", "d e", "h"}),
        ("INSERT INTO t SELECT a, b FROM u GROUP BY v, w", {"t", "u"}),
        ("UPDATE t SET a = 1, b = 2 RETURNING c, d", {"t"}),
        ("SELECT 1))) FROM t", {"t"}),
    ],
)
def test_tables(text, tables):
    assert parse(text).tables == tables


def test_a_long_statement_does_not_keep_its_tokens():
    long = parse("SELECT " + "1, " * 5000 + "2 FROM t")
    assert long.tables == {"t"}
    assert long.tokens is not long.tokens
    short = parse("SELECT 1 FROM t")
    assert short.tokens is short.tokens
