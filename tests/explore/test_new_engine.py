"""The new engine of the hosted service (``--tursodb``) gives the same profiles, plots, comparisons and pages as SQLite.

The engine is the package pyturso; `turso_server` has the protocol. The server with SQLite does not tell the declared
types of results either.
"""

from __future__ import annotations

import random
import sys

import pandas as pd
import pytest
from seed_server import SeedServer

if sys.platform == "win32":
    pytest.skip("pyturso has no wheel for Windows", allow_module_level=True)

from turso_server import TursoServer

from pipemagic.client.database import Database
from pipemagic.errors import LoadError, RulesError, UnknownName
from pipemagic.explore.diff import diff
from pipemagic.explore.listing import columns, ddl, tables
from pipemagic.explore.page_query import OPERATORS, Filter, PageQuery, count_sql, read_page, statement
from pipemagic.explore.plots import bar, box, histogram, line, scatter
from pipemagic.explore.profile import profile
from pipemagic.explore.rule_checks import check_rules
from pipemagic.explore.schema_reader import read_relation, read_schema

SCHEMA = """
CREATE TABLE place (id INTEGER PRIMARY KEY, name TEXT NOT NULL COLLATE NOCASE, kind TEXT, size REAL, opened DATE, x);
CREATE INDEX place_size ON place (size DESC);
CREATE UNIQUE INDEX place_name ON place (name, id) WHERE kind IS NOT NULL;
CREATE TABLE visit (a INTEGER, b INTEGER, place INTEGER REFERENCES place (id) ON DELETE CASCADE, at DATETIME, note,
    price NUMERIC, PRIMARY KEY (a, b));
CREATE VIEW big AS SELECT name, size FROM place WHERE size > 0
"""


def values(seed: int) -> list[str]:
    """Return the statements that fill the tables."""
    chance = random.Random(seed)
    texts = [
        "Rome",
        "rome",
        "ROME",
        "Ålesund",
        "ålesund",
        "",
        " ",
        "a'b",
        "3",
        "1e3",
        "x_%\\\\",
        "ü" * 300,
        "line\nbreak",
    ]
    reals = [0.0, 1.5, -2.25, 0.1, 0.2, 0.30000000000000004, 1e300, -1e300, 1e-5, 12345.678, 3.0, None]
    days = ["2020-02-29", "2021-12-31", "1999-01-01", "2020-02-29", "0001-01-01", None]
    anything = ["1", "1.0", "'1'", "x'31'", "NULL", "2", "2.5", "'abc'", "x'4142'", "9223372036854775807", "-1", "''"]

    def text(value: object) -> str:
        return "NULL" if value is None else f"'{str(value).replace(chr(39), chr(39) * 2)}'"

    def number(value: object) -> str:
        return "NULL" if value is None else repr(value)

    places = [
        f"({at}, {text(chance.choice(texts))}, {text(chance.choice(['a', 'b', 'c', None]))}, "
        f"{number(chance.choice(reals))}, {text(chance.choice(days))}, {chance.choice(anything)})"
        for at in range(1, 121)
    ]
    visits = [
        f"({at % 7}, {at}, {chance.choice(['NULL', *map(str, range(1, 130))])}, "
        f"'2020-0{chance.randint(1, 9)}-1{chance.randint(0, 9)} 0{chance.randint(0, 9)}:00:00', "
        f"{chance.choice(anything)}, {chance.choice(['1.5', '2', 'NULL', '0.1', '1e2', chr(39) + 'n/a' + chr(39)])})"
        for at in range(1, 151)
    ]
    return [
        f"INSERT INTO place VALUES {', '.join(places)}",
        f"INSERT INTO visit (a, b, place, at, note, price) VALUES {', '.join(visits)}",
    ]


@pytest.fixture
def server(tmp_path):
    server = TursoServer(tmp_path)
    yield server
    server.close()


@pytest.fixture
def engine(server):
    with Database(server.url, "a-token") as database:
        yield database


@pytest.fixture
def sqlite(tmp_path):
    server = SeedServer(tmp_path)
    with Database(server.url, "a-token") as database:
        yield database
    server.close()


@pytest.fixture(params=range(2))
def both(request, engine, sqlite):
    """A database of the new engine and one of SQLite, with the same tables."""
    for database in (engine, sqlite):
        database.batch([*filter(str.strip, SCHEMA.split(";")), *values(request.param)])
    return engine, sqlite


def same(both, read):
    """Check that a function returns the same for both databases, and return it."""
    new, old = (read(database) for database in both)
    assert repr(new) == repr(old)
    return new


def summary(plot):
    """Return a function that returns the data of a plot."""

    def read(database):
        drawn = plot(database)
        return drawn.frame.to_dict("list"), drawn.notes, drawn.groups, drawn.label

    return read


def test_the_schema_is_read(both):
    relations = same(
        both,
        lambda database: [
            (relation.name, relation.kind, relation.columns, relation.indexes, relation.foreign_keys)
            for relation in read_schema(database).relations
        ],
    )
    assert [name for name, *_ in relations] == ["big", "place", "visit"]
    assert [column.references for column in relations[2][4]] == [("id",)]
    same(both, lambda database: [columns(database, name).to_dict("list") for name in ("place", "visit", "big")])
    same(both, lambda database: tables(database, rows=True).to_dict("list"))
    assert "CREATE VIEW big" in str(ddl(both[0]))
    for database in both:
        with pytest.raises(UnknownName, match="did you mean place"):
            read_relation(database, "plac")


def test_profiles(both, server):
    for name in ("place", "visit", "big"):
        new, old = (profile(database, name) for database in both)
        assert new.columns == old.columns
        assert str(new).splitlines()[:-1] == str(old).splitlines()
        assert new.inconsistent is None
        assert str(new).endswith(
            "The server lacks pragma_data_version, so changes during these queries would not be noticed."
        )
    new, old = (profile(database, "place", ["size"], where="size > :low", params={"low": 0}) for database in both)
    assert (new.columns, new.inconsistent) == (old.columns, False)  # one query is consistent
    assert len(server.failures) == 1  # what it lacks is found once


def test_plots(both):
    for plot in (
        lambda database: histogram(database, "place", "id"),
        lambda database: histogram(database, "place", "opened", group="kind"),
        lambda database: histogram(database, "visit", "price"),
        lambda database: box(database, "visit", "price"),
        lambda database: box(database, "place", "id", group="kind"),
        lambda database: bar(database, "place", "kind", "id", agg="median"),
        lambda database: bar(database, "place", "kind", "size", agg="max", group="opened"),
        lambda database: bar(database, "place", "x", bars=4),
        lambda database: line(database, "place", "opened"),
        lambda database: line(database, "visit", "at", "price", agg="median"),
        lambda database: line(database, "visit", "b", "price", group="a"),
        lambda database: scatter(database, "visit", "b", "price"),
        lambda database: scatter(database, "place", "opened", "id", group="kind"),
    ):
        same(both, summary(plot))


@pytest.mark.parametrize("key", [None, ["id"], ["x", "id"]])
def test_comparisons(both, key):
    for other in (
        "SELECT * FROM place WHERE id <> 7",
        "SELECT id, upper(name) AS name, kind, size, opened, x FROM place",
        "SELECT id, name, kind, size + 1 AS size, opened, CAST(x AS TEXT) AS x FROM place WHERE id > 3",
    ):
        new, old = (diff(database, "place", other, key=key) for database in both)
        for name in ("same_rows", "only_a_count", "only_b_count", "changed_count", "changed_columns", "retyped"):
            assert getattr(new, name) == getattr(old, name), name
        if key:  # without a key, the first rows are any
            assert (new.rows_a, new.rows_b, new.changes) == (old.rows_a, old.rows_b, old.changes)
        assert new.inconsistent is None


def test_rules(both, server):
    def read(database):
        with pytest.raises(RulesError) as caught:
            check_rules(
                database, "visit", not_null=["place", "note"], unique=["place", ("a", "b")],
                ranges={"price": (1, 50), "at": ("2020-03-01", "2020-08-01")}, foreign_keys=True,
                references={"place": ("place", "id")}, rows=["price < 2"], limit=1000,
            )  # fmt: skip
        rows = [sorted(map(repr, failure.frame.itertuples(index=False))) for failure in caught.value.failures]
        return str(caught.value), rows

    same(both, read)
    assert "place is in place (id): " in read(both[0])[0]
    lacking = [message for _, message in server.failures if "pragma_foreign_key_check" in message]
    assert len(lacking) == 1  # it is found once
    same(both, lambda database: str(check_rules(database, "place", foreign_keys=True, unique=["id"])))


def test_pages(both):
    for sort in (None, "name", "size", "x", "opened"):
        for descending in (False, True):
            query = PageQuery("place", sort=sort, descending=descending, size=100)
            same(both, lambda database, query=query: read_page(database, query, read_relation(database, "place")).rows)
    cases = [("name", "rome"), ("name", "x_%"), ("size", "1.5"), ("opened", "2020-02-29"), ("x", "'1'"), ("id", "9")]
    for operator in OPERATORS:
        for column, value in cases:
            if (column, operator) == ("x", "contains") or "with" in operator:
                continue  # LIKE reads blobs as text there
            condition = Filter(column, operator, "" if "null" in operator else value)
            query = PageQuery("place", (condition,), sort="id", size=100)

            def count(database, query=query):
                relation = read_relation(database, "place")
                sql, args = statement(database, relation, lambda sent, write: count_sql(query, sent, write))
                return database.execute(sql, args).rows

            same(both, count)


FRAME = pd.DataFrame({
    "id": [1, 2, 3, 4], "name": ["a", "é", None, "x" * 500], "size": [0.1, 1 / 3, -1e300, None],
    "at": pd.to_datetime(["2020-01-01 00:00", "2021-05-05 10:30", None, "1999-12-31 23:59"]),
    "big": [2**62, -1, 0, 7], "flag": [True, False, True, False], "raw": [b"\x00\xff", None, b"", b"abc"],
})  # fmt: skip


def test_loads_and_copies(engine, sqlite):
    for database in (engine, sqlite):
        assert database.load(FRAME, "t", keys=["id"], if_exists="upsert") == 4
        database.load(FRAME.assign(name="b"), "t", "upsert", keys=["id"])
        database.load(FRAME.assign(id=FRAME["id"] + 10), "t", "append")
        database.load(FRAME, "other")
        database.load(FRAME[:2], "other", "replace")
    for table, rows in {"t": 8, "other": 2}.items():
        assert (
            len(same((engine, sqlite), lambda database, table=table: database.execute(f"SELECT * FROM {table}").rows))
            == rows
        )
    assert engine.copy("t", sqlite, "copied") == sqlite.copy("t", engine, "copied") == 8
    same((engine, sqlite), lambda database: database.execute("SELECT * FROM copied").rows)


def test_a_load_into_a_table_that_changed_or_skips_rows_is_undone(engine):
    engine.batch([
        "CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)",
        "CREATE TRIGGER skips BEFORE INSERT ON t WHEN new.id = 3 BEGIN SELECT raise(IGNORE); END",
    ])  # fmt: skip
    with pytest.raises(LoadError, match="skips some of the rows; nothing was changed"):
        engine.load(pd.DataFrame({"id": [2, 3]}), "t", "append")
    assert engine.execute("SELECT * FROM t").rows == [(1,)]
