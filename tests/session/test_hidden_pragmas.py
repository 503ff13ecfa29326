"""Tables and views named like SQLite's table-valued functions, which hide them, do not change what is read.

Promise against anyone: who writes to a database cannot make others read another schema, or another list.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

import pipemagic
from pipemagic.client.database import Database
from pipemagic.errors import LoadError, RulesError
from pipemagic.explore.listing import columns, tables
from pipemagic.explore.rule_checks import check_rules
from pipemagic.explore.schema_reader import read_relation, read_schema
from pipemagic.session import Connection, Session
from pipemagic.session.parameters import JSON_FROM

PRAGMAS = [
    "table_xinfo", "table_list", "table_info", "index_list", "index_info", "index_xinfo", "foreign_key_list",
    "foreign_key_check", "schema_version", "data_version",
]  # fmt: skip
SCHEMA = """
CREATE TABLE towns (code TEXT UNIQUE, name);
CREATE TABLE flights (id INTEGER PRIMARY KEY, day DATE, t REFERENCES towns (code)); CREATE INDEX days ON flights (day);
INSERT INTO towns VALUES ('AMS', 'Amsterdam');
INSERT INTO flights VALUES (1, '2024-05-01', 'AMS'), (2, '2024-05-02', NULL);
"""


@pytest.fixture
def on_sqld(sqld_database):
    with Database(sqld_database.url, sqld_database.token) as database:
        session = Session(environ={})
        session.adopt(Connection("main", database, "a test"))
        yield session


@pytest.fixture(params=["timed", "on_sqld"])
def hidden(request):
    """A session whose database has a table or a view for each function that the client reads."""
    session = request.getfixturevalue(request.param)
    for name in PRAGMAS:
        session.run(f"CREATE TABLE pragma_{name} (name, type, hidden, id)")
    session.run("CREATE VIEW json_each AS SELECT 'none' AS value")
    session.run(SCHEMA)
    return session


def test_the_schema(hidden):
    database = hidden.connection().database
    relation = read_relation(database, "flights")
    assert [column.name for column in relation.columns] == ["id", "day", "t"]
    assert [index.name for index in relation.indexes] == ["days"]
    assert [key.table for key in relation.foreign_keys] == ["towns"]
    assert {"flights", "towns", "pragma_table_list"} <= {found.name for found in read_schema(database).relations}
    assert "pragma_table_xinfo" in tables(database)["table"].tolist()
    assert columns(database, "towns")["column"].tolist() == ["code", "name"]
    hidden.run("PRAGMA foreign_keys = OFF; INSERT INTO flights VALUES (3, NULL, 'XXX')")
    with pytest.raises(RulesError, match="1 row fails"):
        check_rules(database, "flights", foreign_keys=True)


def test_no_query_of_the_package_can_read_such_a_table():
    folder = Path(pipemagic.__file__).parent
    unsafe = re.compile(r"(?:FROM|JOIN|AS \w+,)\s+(?:pragma_\w|json_each|json_tree)")
    texts = {path: path.read_text("utf-8") for path in folder.rglob("*.py")}
    assert [path for path, text in texts.items() if unsafe.search(text)] == []


def test_parameters(hidden):
    numbers = {"numbers": list(range(JSON_FROM + 1))}
    found = hidden.run("SELECT count(*) AS n FROM flights WHERE id IN :numbers", numbers)
    assert found["n"].tolist() == [2]
    day = pd.Timestamp("2024-05-02")
    assert hidden.run("SELECT id FROM flights WHERE day >= :day", {"day": day})["id"].tolist() == [2]


def test_transfers(hidden):
    database = hidden.connection().database
    towns = pd.DataFrame({"code": ["AMS", "NRT"], "name": ["A", "N"]})
    database.load(towns, "towns", if_exists="upsert", keys=["code"])
    assert database.execute("SELECT name FROM towns ORDER BY code").rows == [("A",), ("N",)]
    assert database.copy("flights", database, "again") == 2
    with pytest.raises(LoadError, match="ZZZ"):
        database.load(pd.DataFrame({"id": [4], "day": [None], "t": ["ZZZ"]}), "flights", if_exists="append")
