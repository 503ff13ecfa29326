"""``--explain`` and ``--dry-run``: query plans and descriptions of statements, without running them."""

from __future__ import annotations

import pytest

TABLES = (
    "%%sql\nCREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT, people INTEGER, capital BOOLEAN);\n"
    "CREATE INDEX by_name ON city (name);\n"
    "CREATE TABLE street (id INTEGER PRIMARY KEY, city INTEGER REFERENCES city (id), name TEXT);\n"
    "CREATE VIEW large AS SELECT name, people FROM city WHERE people > 1000000;\n"
    "CREATE TRIGGER first_street AFTER INSERT ON city BEGIN INSERT INTO street (city) VALUES (new.id); END"
)


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_a_plan_is_a_tree_and_marks_full_scans(db):
    db(TABLES)
    db("n = 5")
    cell = db("%%sql --explain\nSELECT people FROM city WHERE name = 'Porto';\nSELECT (SELECT max(people) FROM city) "
              "FROM street WHERE id < :n ORDER BY name;\nINSERT INTO city (name) VALUES ('x')")  # fmt: skip
    assert str(cell.value).splitlines() == [
        "1  SELECT people FROM city WHERE name = 'Porto'",
        "   └─ SEARCH city USING INDEX by_name (name=?)",
        "2  SELECT (SELECT max(people) FROM city) FROM street WHERE id < :n ORDER BY name",
        "   ├─ SEARCH street USING INTEGER PRIMARY KEY (rowid<?)",
        "   ├─ SCALAR SUBQUERY 1",
        "   │  └─ SEARCH city",
        "   └─ USE TEMP B-TREE FOR ORDER BY",
        "3  INSERT INTO city (name) VALUES ('x')",
        "   └─ SCAN street  ← full scan",
    ]
    assert "SEARCH city USING INDEX" in cell.out
    assert db("%sql SELECT count(*) AS n FROM city").value["n"].tolist() == [0]


def test_the_plan_of_one_statement_has_no_heading(db):
    db(TABLES)
    assert str(db("%sql --explain SELECT * FROM large").value) == "└─ SCAN city  ← full scan"
    assert str(db("%sql --explain SELECT count(*) FROM city").value).endswith("← full index scan")


NO_TABLES = [
    "SELECT 1",
    "VALUES (1), (2)",
    "SELECT * FROM json_each('[1]')",
    'WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 5) SELECT * FROM r AS "z z"',
    'WITH RECURSIVE "r"(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 5) SELECT * FROM r z, r',
]


def test_only_scans_of_tables_are_marked(db):
    for query in NO_TABLES:
        db("%%sql -o plan --explain\n" + query)
        assert db.names["plan"].full_scans == []
        assert "full scan" not in str(db.names["plan"])


def test_a_statement_without_a_plan_has_a_reason(db):
    cell = db(
        "%%sql --explain\nPRAGMA foreign_keys = OFF;\nBEGIN;\nCREATE TABLE t (a);\nSELECT * FROM t;\nEXPLAIN SELECT 1"
    )
    assert str(cell.value).splitlines()[1::2] == [
        "   not sent: some PRAGMAs take effect when they are prepared",
        "   no query plan",
        "   no query plan",
        "   no such table: t; it may depend on statement 3, which did not run",
        "   an EXPLAIN is not explained",
    ]
    assert db("%sql PRAGMA foreign_keys").value.iloc[0, 0] == 1
    assert "no such table" not in db("%sql CREATE TABLE t (a)").out


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_a_dry_run_lists_parameters_columns_and_effect(db):
    db(TABLES)
    db("name, n, data, none = 'Porto', 5, b'x', None")
    cell = db(
        '%%sql --dry-run\nSELECT name, people * 2 AS "twice <b>", capital FROM city'
        " WHERE name = :name AND people > $n;\n"
        "INSERT INTO city (name, people) VALUES (:name, :none) RETURNING id;\nDELETE FROM city;\nSELECT * FROM large;\n"
        "CREATE TABLE t (a);\nSELECT a FROM t;\nBEGIN;\nSELECT :data, 1.5"
    )
    assert str(cell.value).splitlines() == [
        '1  SELECT name, people * 2 AS "twice <b>", capital FROM city WHERE name = :name AND people > $n',
        "   parameters  :name TEXT, $n INTEGER",
        "   columns     name TEXT, twice <b>, capital BOOLEAN",
        "   effect      read-only",
        "2  INSERT INTO city (name, people) VALUES (:name, :none) RETURNING id",
        "   parameters  :name TEXT, :none NULL",
        "   columns     id INTEGER",
        "   effect      writes to city",
        "3  DELETE FROM city",
        "   effect      writes to city",
        "4  SELECT * FROM large",
        "   columns     name TEXT, people INTEGER",
        "   effect      read-only",
        "5  CREATE TABLE t (a)",
        "   effect      changes the schema",
        "6  SELECT a FROM t",
        "   problem     no such table: t; it may depend on statement 5, which did not run",
        "7  BEGIN",
        "   effect      begins or ends a transaction",
        "8  SELECT :data, 1.5",
        "   parameters  :data BLOB",
        "   columns     :data, 1.5",
        "   effect      read-only",
        "Nothing was run.",
    ]
    assert "twice &lt;b&gt;" in cell.value._repr_html_()
    assert db("%sql SELECT count(*) AS n FROM city").value["n"].tolist() == [0]


EFFECTS = {
    "DROP TABLE street": "changes the schema",
    "ALTER TABLE city ADD x": "changes the schema",
    "CREATE TEMP TABLE x (a)": "changes the schema",
    "WITH o AS (SELECT 1) UPDATE main.city SET people = 0": "writes to main.city",
    "REPLACE INTO city (id) VALUES (1)": "writes to city",
    "VACUUM": "writes",
    "REINDEX": "writes",
    "SAVEPOINT a": "begins or ends a transaction",
}


def test_the_effect_of_each_kind_of_statement(db):
    db(TABLES)
    described = db("%%sql --dry-run\n" + ";\n".join(EFFECTS)).value.statements
    assert {statement.text: statement.effect or statement.problem for statement in described} == EFFECTS
    assert db("%sql SELECT count(*) AS n FROM street").value["n"].tolist() == [0]


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_errors_of_all_statements_are_reported(db):
    db(TABLES)
    lines = str(db("%%sql --dry-run\nSELECT 1;\nSELECT nme FROM city;\nSELEC 3").value).splitlines()
    at = lines.index("   problem     no such column: nme")
    assert lines[at + 1] == "   hint        did you mean name?"
    assert any("syntax error" in line for line in lines[lines.index("3  SELEC 3") :])
    for ask in ("--dry-run", "--explain"):  # a position in the text that is sent would be wrong
        assert "L1:" not in str(db(f"%%sql {ask}\nSELEC 3;\nSELECT 1").value)


def test_tables_of_an_open_transaction_are_described(db):
    db("%%sql\nBEGIN;\nCREATE TABLE mine (a INTEGER)")
    assert "SCAN mine" in str(db("%sql --explain SELECT * FROM mine").value)
    assert "columns     a INTEGER" in str(db("%sql --dry-run SELECT * FROM mine").value)
    assert db("%sql COMMIT").lines == ["Done."]
