"""--explain and --dry-run: what a cell would do, while nothing of it runs."""

from __future__ import annotations

from IPython.core.error import UsageError

TABLES = (
    "%%sql\nCREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT, people INTEGER, capital BOOLEAN);\n"
    "CREATE INDEX by_name ON city (name);\n"
    "CREATE TABLE street (id INTEGER PRIMARY KEY, city INTEGER REFERENCES city (id), name TEXT);\n"
    "CREATE VIEW large AS SELECT name, people FROM city WHERE people > 1000000;\n"
    "CREATE TRIGGER first_street AFTER INSERT ON city BEGIN INSERT INTO street (city) VALUES (new.id); END"
)


def test_a_plan_is_a_tree_that_marks_full_scans(db):
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


def test_of_one_statement_only_the_tree_is_shown(db):
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


def test_what_is_no_table_is_not_marked(db):
    for query in NO_TABLES:
        db("%%sql -o plan --explain\n" + query)
        assert db.names["plan"].full_scans == []
        assert "full scan" not in str(db.names["plan"])


def test_the_picture_is_escaped_and_the_text_holds_no_control_characters(db):
    db('%sql CREATE TABLE "<script>x</script>" (a)')
    plan = db('%sql --explain SELECT \'\x1b[2J\', * FROM "<script>x</script>" AS "a\x1bb & <b>"').value
    picture = plan._repr_svg_()
    assert picture.startswith("<svg")
    assert "<script>" not in picture
    assert "&lt;b&gt;" in picture
    assert "\x1b" not in picture + str(plan)


def test_what_has_no_plan_says_why(db):
    cell = db(
        "%%sql --explain\nPRAGMA foreign_keys = OFF;\nBEGIN;\nCREATE TABLE t (a);\nSELECT * FROM t;\nEXPLAIN SELECT 1"
    )
    assert str(cell.value).splitlines()[1::2] == [
        "   a PRAGMA is not asked about: some take effect when they are only looked at",
        "   nothing to plan",
        "   nothing to plan",
        "   no such table: t; it may need what statement 3 would make, which was not run",
        "   it explains another statement itself",
    ]
    assert db("%sql PRAGMA foreign_keys").value.iloc[0, 0] == 1
    assert "no such table" not in db("%sql CREATE TABLE t (a)").out


def test_a_dry_run_says_what_each_statement_would_do(db):
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
        "   reads       city",
        "   does        only reads",
        "2  INSERT INTO city (name, people) VALUES (:name, :none) RETURNING id",
        "   parameters  :name TEXT, :none NULL",
        "   columns     id INTEGER",
        "   writes      city, street",
        "   does        writes",
        "3  DELETE FROM city",
        "   reads       street",
        "   writes      city",
        "   does        writes",
        "4  SELECT * FROM large",
        "   columns     name TEXT, people INTEGER",
        "   reads       city",
        "   does        only reads",
        "5  CREATE TABLE t (a)",
        "   does        changes the schema",
        "6  SELECT a FROM t",
        "   problem     no such table: t; it may need what statement 5 would make, which was not run",
        "7  BEGIN",
        "   does        begins or ends a transaction",
        "8  SELECT :data, 1.5",
        "   parameters  :data BLOB",
        "   columns     :data, 1.5",
        "   does        only reads",
        "Nothing was run.",
    ]
    assert "twice &lt;b&gt;" in cell.value._repr_html_()
    assert db("%sql SELECT count(*) AS n FROM city").value["n"].tolist() == [0]


def test_what_is_dropped_and_emptied_is_named(db):
    db(TABLES)
    cell = db("%%sql --dry-run\nDROP TABLE street;\nALTER TABLE city ADD x;\nCREATE INDEX i ON street (name)")
    dropped, altered, index = cell.value.statements
    assert (dropped.writes, dropped.does) == (("street",), "changes the schema")
    assert altered.does == "changes the schema"
    cell = db("%%sql --dry-run\nVACUUM;\nREINDEX;\nALTER TABLE city RENAME TO town;\nCREATE TEMP TABLE x (a)")
    told = [(one.reads, one.writes, one.does) for one in cell.value.statements]
    assert told[0] == ((), ("the whole database",), "writes")
    assert told[1] == ((), ("city",), "writes")
    assert told[2:] == [((), (), "changes the schema")] * 2
    assert (index.reads, index.does) == (("street",), "changes the schema")


def test_a_wrong_statement_is_found_wherever_it_stands(db):
    db(TABLES)
    lines = str(db("%%sql --dry-run\nSELECT 1;\nSELECT nme FROM city;\nSELEC 3").value).splitlines()
    assert "   problem     no such column: nme" in lines
    assert any("syntax error" in line for line in lines[lines.index("3  SELEC 3") :])
    for ask in ("--dry-run", "--explain"):  # a place in what is sent around the statement would mislead
        assert "L1:" not in str(db(f"%%sql {ask}\nSELEC 3;\nSELECT 1").value)


def test_an_open_transaction_is_seen_and_stays_open(db):
    db("%%sql\nBEGIN;\nCREATE TABLE mine (a INTEGER)")
    assert "SCAN mine" in str(db("%sql --explain SELECT * FROM mine").value)
    assert "columns     a INTEGER" in str(db("%sql --dry-run SELECT * FROM mine").value)
    assert db("%sql COMMIT").lines == ["Done."]


OPTIONS_OF_A_RUN = [
    ("--explain --dry-run", "one of them at a time"),
    ("--explain --to-csv x.csv --time", "--explain runs nothing; --to-csv, --time would have no effect"),
    ("--dry-run -o a,b", "--dry-run gives one value"),
]


def test_options_of_a_run_are_refused(db):
    for options, message in OPTIONS_OF_A_RUN:
        failed = db.fails(f"%%sql {options}\nSELECT 1")
        assert isinstance(failed.error, UsageError)
        assert message in failed.err
