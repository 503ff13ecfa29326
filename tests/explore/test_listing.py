"""Lists of tables and columns, and CREATE statements."""

from __future__ import annotations

import pytest

from pipemagic.errors import UnknownName
from pipemagic.explore.listing import columns, ddl, tables
from pipemagic.explore.schema_reader import read_schema

HOSTILE = """sel'ect "<script>alert(1)</script> 😀 é"""
QUOTED = '"' + HOSTILE.replace('"', '""') + '"'


@pytest.fixture
def filled(database):
    for sql in (
        "CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT 'x', area REAL)",
        "CREATE TABLE visit (city REFERENCES city (id), twice AS (city * 2), day REFERENCES city)",
        f"CREATE TABLE {QUOTED} ({QUOTED})",
        f'CREATE INDEX {QUOTED[:-1]}2" ON {QUOTED} ({QUOTED})',
        "INSERT INTO city (name) VALUES ('a'), ('b')",
        "CREATE VIEW [big city] AS SELECT id, area FROM city",
        "CREATE TRIGGER t AFTER INSERT ON city BEGIN SELECT 1; END",
    ):
        database.execute(sql)
    return database


def test_the_list_of_tables(filled):
    assert tables(filled).to_dict("split")["data"] == [
        ["big city", "view"], ["city", "table"], [HOSTILE, "table"], ["visit", "table"],
    ]  # fmt: skip
    assert tables(filled, rows=True)["rows"].tolist() == [2, 2, 0, 0]


def test_a_broken_view_is_listed_and_has_no_count(filled):
    filled.execute("CREATE VIEW gone AS SELECT * FROM nowhere")
    assert tables(filled, rows=True).set_index("table")["rows"].to_dict()["city"] == 2
    assert tables(filled, rows=True).set_index("table")["rows"].isna().to_dict()["gone"]
    with pytest.raises(UnknownName, match="cannot read the columns of gone: no such table"):
        columns(filled, "gone")


def test_the_list_of_columns(filled):
    frame = columns(filled, "CITY")
    assert frame.assign(default=frame["default"].fillna("none")).to_dict("list") == {
        "column": ["id", "name", "area"], "type": ["INTEGER", "TEXT", "REAL"], "nullable": [False, False, True],
        "default": ["none", "'x'", "none"], "primary key": [True, False, False],
    }  # fmt: skip
    frame = columns(filled, "visit")
    assert frame["generated"].tolist() == ["", "virtual", ""]
    assert frame["references"].tolist() == ["city.id", "", "city"]
    assert columns(filled, HOSTILE)["column"].tolist() == [HOSTILE]
    assert columns(filled, "big city")["type"].tolist() == ["INTEGER", "REAL"]


def test_the_ddl_of_a_table(filled):
    assert str(ddl(filled, "city")) == (
        "CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT 'x', area REAL);\n"
        "CREATE TRIGGER t AFTER INSERT ON city BEGIN SELECT 1; END;"
    )
    with pytest.raises(UnknownName, match="did you mean visit"):
        ddl(filled, "visits")


def test_the_ddl_of_everything_creates_the_same_schema(filled, request):
    other = request.getfixturevalue("embedded_too")
    text = str(ddl(filled))
    assert repr(ddl(filled)) == text
    from pipemagic import sql

    for statement in sql.split(text):
        other.execute(statement.text)
    assert str(ddl(other)) == text
    assert read_schema(other).relations == read_schema(filled).relations


def test_a_comment_at_the_end_of_a_definition_does_not_contain_the_next_one(database):
    database.execute("CREATE TABLE s (a INT) STRICT -- end")
    database.execute("CREATE INDEX i ON s (a) /* end */")
    database.execute("CREATE VIEW v AS SELECT 1 -- end")
    from pipemagic import sql

    made = [statement.text for statement in sql.split(str(ddl(database)))]
    assert made == ["CREATE TABLE s (a INT) STRICT", "CREATE INDEX i ON s (a)", "CREATE VIEW v AS SELECT 1"]


def test_the_ddl_of_an_empty_database(embedded):
    assert repr(ddl(embedded)) == "-- there are no tables and views"
    assert str(ddl(embedded)) == ""
