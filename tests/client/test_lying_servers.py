"""Servers whose answers would become SQL that nobody wrote: nothing of it runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from plain_values import python, wire
from seed_server import SeedServer

from pipemagic import errors
from pipemagic.client.database import Database

TABLE = "SELECT type, name, sql FROM sqlite_master WHERE lower(name)"
INDEXES = "SELECT name, sql FROM sqlite_master"
COLUMNS = "dflt_value, pk, hidden"
OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master"

INFINITE = {"type": "float", "value": None}

AS_INDEX = [
    "CREATE TRIGGER i AFTER INSERT ON t BEGIN DELETE FROM y; END",
    'CREATE TRIGGER "i" AFTER INSERT ON "t" BEGIN DELETE FROM y; END',
    "CREATE INDEX i ON y(a)",
    "CREATE INDEX j ON t(a)",
    "CREATE INDEX i ON t(a); DROP TABLE y",
    "CREATE INDEX i ON t(abs(a)); DROP TABLE y; --)",
    "CREATE INDEX IF NOT EXISTS i ON t(a)",
    "CREATE INDEX main.i ON t(a)",
    "CREATE INDEX temp.i ON t(a)",
    "CREATE TABLE i AS SELECT * FROM y ON t",
    "CREATE TEMP VIEW i AS SELECT * FROM y JOIN t ON t",
    "CREATE VIEW i AS SELECT * FROM y",
    "DROP INDEX i ON t",
    "DROP TABLE y",
    'CREATE INDEX i ON t("a)',
    "CREATE INDEX i ON t(a /* )",
    "CREATE INDEX i ON t(a))",
    "CREATE INDEX i ON t(a) WHERE ?",
    "CREATE INDEX i ON t\0(a)",
    "CREATE INDEX i ON t",
    "CREATE UNIQUE i ON t(a)",
    "",
    5,
    b"CREATE INDEX i ON t(a)",
]

AS_TABLE = [
    "CREATE TABLE t AS SELECT * FROM y",
    "CREATE TABLE t(a) AS SELECT * FROM y",
    "CREATE TABLE t(a, b); DROP TABLE y",
    "CREATE TABLE t(a, b CHECK (b)); DROP TABLE y; --)",
    "CREATE TEMP TABLE t(a, b)",
    "CREATE TABLE IF NOT EXISTS t(a, b)",
    "CREATE TABLE main.t(a, b)",
    "CREATE TABLE y(a, b)",
    "CREATE TABLE t",
    "CREATE TABLE t(a, b",
    "CREATE TABLE t(a, b))",
    'CREATE TABLE t(a, b "INT)',
    "CREATE TRIGGER t AFTER INSERT ON y BEGIN DELETE FROM y; END",
    "DROP TABLE y",
    "",
    None,
    5,
]


Row = tuple[Any, ...]


class LyingServer(SeedServer):
    """Answers like the seed, with false rows and types of columns.

    A lie is for the queries that contain its text, and replaces each row. ``decltypes`` are the declared types of
    columns by name. A dict in a row is sent as it is.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lies: dict[str, Callable[[Row], Row]] = {}
        self.decltypes: dict[str, str] = {}

    def _run(self, connection: sqlite3.Connection, request: dict[str, Any]) -> dict[str, Any]:
        entry = super()._run(connection, request)
        if entry["type"] == "ok" and "stmt" in request:
            result = entry["response"]["result"]
            for query, lie in self.lies.items():
                if query in request["stmt"]["sql"]:
                    result["rows"] = [list(map(_wire, lie(tuple(map(python, row))))) for row in result["rows"]]
            for col in result["cols"]:
                col["decltype"] = self.decltypes.get(col["name"])
        return entry

    @property
    def changes(self) -> list[str]:
        """The statements that it received, without queries."""
        sent = [text for call in self.posts for text in call.sql]
        return [text for text in sent if not text.lstrip().startswith(("SELECT", "EXPLAIN"))]


def _wire(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else wire(value)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[LyingServer, LyingServer]]:
    """A source, which has a table t with an index i, and a target, which has a table y."""
    folders = tmp_path / "source", tmp_path / "target"
    for folder in folders:
        folder.mkdir()
    source, target = map(LyingServer, folders)
    yield source, target
    source.close()
    target.close()


@pytest.fixture
def pair(servers: tuple[LyingServer, LyingServer]) -> Iterator[tuple[Database, Database]]:
    with Database(servers[0].url, "secret") as source, Database(servers[1].url, "secret") as target:
        source.batch(["CREATE TABLE t(a, b)", "CREATE INDEX i ON t(a)", "INSERT INTO t VALUES (1, 2)"])
        target.batch(["CREATE TABLE y(a)", "INSERT INTO y VALUES (7)"])
        servers[1].calls.clear()
        yield source, target


def schema(database: Database) -> list[str]:
    return [name for (name,) in database.execute("SELECT name FROM sqlite_master ORDER BY name").rows]


def check_refused(pair: tuple[Database, Database], servers: tuple[LyingServer, LyingServer], message: str = "") -> None:
    """Check that a copy is refused with a hint, before the target is changed."""
    with pytest.raises(errors.LoadError, match="nothing was changed") as caught:
        pair[0].copy("t", pair[1])
    assert caught.value.hint
    assert message in caught.value.message
    assert servers[1].changes == []
    assert schema(pair[1]) == ["y"]


@pytest.mark.parametrize("text", AS_INDEX)
def test_only_an_index_is_copied_as_an_index(servers, pair, text) -> None:
    servers[0].lies[INDEXES] = lambda row: (row[0], text)
    check_refused(pair, servers, "index i" if isinstance(text, str) else "")


@pytest.mark.parametrize("text", AS_TABLE)
def test_only_a_table_is_copied_as_a_table(servers, pair, text) -> None:
    servers[0].lies[TABLE] = lambda row: (*row[:2], text)
    check_refused(pair, servers, "the definition of table t" if isinstance(text, str) else "")


def test_a_long_definition_is_not_shown_as_a_whole(servers, pair) -> None:
    servers[0].lies[INDEXES] = lambda row: (row[0], f"DROP TABLE y -- \x1b[31m{'x' * 10_000}")
    check_refused(pair, servers, "DROP TABLE y")
    with pytest.raises(errors.LoadError) as caught:
        pair[0].copy("t", pair[1])
    assert len(caught.value.message) < 300
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize(
    ("query", "lie"),
    [
        (TABLE, lambda row: ("table", "y", "CREATE TABLE y(a, b)")),
        (TABLE, lambda row: ("table", 5, row[2])),
        (TABLE, lambda row: (None, *row[1:])),
        (TABLE, lambda row: row[:2]),
        (COLUMNS, lambda row: (5, *row[1:])),
        (COLUMNS, lambda row: ("", *row[1:])),
        (COLUMNS, lambda row: ("a\0", *row[1:])),
        (COLUMNS, lambda row: (row[0], 5, *row[2:])),
        (COLUMNS, lambda row: row[:3]),
        (INDEXES, lambda row: (5, row[1])),
        (INDEXES, lambda row: ("", 'CREATE INDEX "" ON t(a)')),
        (INDEXES, lambda row: (*row, 1)),
        ("json_group_array(json_array(type", lambda row: (1, 2)),
    ],
)
def test_answers_of_other_types_are_refused(servers, pair, query, lie) -> None:
    servers[0].lies[query] = lie
    check_refused(pair, servers)


@pytest.mark.parametrize(
    "text",
    ["INT); DROP TABLE y; --", "INT) AS SELECT * FROM y --", "INT DEFAULT (7)", "INT\n, c", "INT /*", 'a"b', "x'"],
)
def test_the_type_of_a_column_of_a_view_is_only_a_type(servers, pair, text) -> None:
    source, target = pair
    source.execute("CREATE VIEW v AS SELECT a, b FROM t")
    servers[0].decltypes["a"] = text
    source.copy("v", target)
    assert schema(target) == ["v", "y"]
    assert target.execute("SELECT name, type, dflt_value FROM pragma_table_xinfo('v')").rows == [
        ("a", text, None), ("b", "", None)]  # fmt: skip
    assert target.execute("SELECT * FROM v").rows == [(1, 2)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("v", "CREATE VIEW v AS SELECT a FROM t; DROP TABLE y"),
        ("v", "CREATE TABLE v AS SELECT a FROM t"),
        ("v", "CREATE TEMP VIEW v AS SELECT a FROM t"),
        ("v", "CREATE VIEW y AS SELECT a FROM t"),
        ("g", "CREATE TRIGGER g AFTER INSERT ON y BEGIN DELETE FROM t; END"),
        ("g", "CREATE TRIGGER h AFTER INSERT ON t BEGIN DELETE FROM y; END"),
        ("g", "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END; DROP TABLE y; SELECT 1; END"),
        ("g", "CREATE TRIGGER g AFTER INSERT ON t; DROP TABLE y; END"),
        ("g", "CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END"),
        ("g", "CREATE VIEW g AS SELECT a FROM t"),
        ("i", "DROP TABLE y"),
        ("i", 5),
    ],
)
def test_what_is_created_again_is_what_the_table_had(servers, pair, name, text) -> None:
    target = pair[1]
    target.batch([
        "CREATE TABLE t(a, b)", "CREATE INDEX i ON t(a)", "CREATE VIEW v AS SELECT a FROM t",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
    ])  # fmt: skip
    servers[1].calls.clear()
    servers[1].lies[OBJECTS] = lambda row: (*row[:3], text) if row[1] == name else row
    with pytest.raises(errors.LoadError, match="nothing was changed") as caught:
        target.load(pd.DataFrame({"a": [1], "b": [2]}), "t", "replace")
    assert caught.value.hint
    assert servers[1].changes == []
    assert schema(target) == ["g", "i", "t", "v", "y"]


def test_a_replaced_table_keeps_only_the_definition_of_a_table(servers, pair) -> None:
    target = pair[1]
    servers[1].lies[TABLE] = lambda row: (*row[:2], "CREATE TABLE y AS SELECT 1 AS a")
    with pytest.raises(errors.LoadError, match="nothing was changed"):
        target.load(pd.DataFrame({"a": [1]}), "y", if_exists="replace")
    assert servers[1].changes == []
    assert target.execute("SELECT * FROM y").rows == [(7,)]


def test_a_collation_is_a_name(servers, pair) -> None:
    target = pair[1]
    target.execute("CREATE UNIQUE INDEX k ON y(a)")
    servers[1].lies["x.coll"] = lambda row: (*row[:2], "BINARY) UNION SELECT a FROM y; --")
    servers[1].calls.clear()
    with pytest.raises(errors.PipemagicError, match="no such collation sequence"):
        target.load(pd.DataFrame({"a": [1]}), "y", if_exists="upsert", keys=["a"])
    assert target.execute("SELECT * FROM y").rows == [(7,)]


def test_a_source_that_sends_other_columns(servers, pair, monkeypatch) -> None:
    source, target = pair
    monkeypatch.setattr("pipemagic.client.bulk.copy._query", lambda *_: "SELECT a FROM t")
    with pytest.raises(errors.LoadError, match="nothing was changed"):
        source.copy("t", target)
    assert schema(target) == ["y"]


def test_signs_of_too_few_columns(servers, pair) -> None:
    source, target = pair
    source.execute("UPDATE t SET a = 9e999, b = 9e999")
    servers[0].lies["typeof("] = lambda row: (INFINITE, INFINITE, "+")
    with pytest.raises(errors.LoadError, match="nothing was changed"):
        source.copy("t", target)
    assert schema(target) == ["y"]
