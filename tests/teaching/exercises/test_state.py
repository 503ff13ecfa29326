"""Feedback on the state of a database in words, and the labels of states."""

from __future__ import annotations

import pytest
from authored import answer, make
from msgspec.structs import replace

from pipemagic.teaching.exercises.state import probes_of

STORMS = "CREATE TABLE storms (day TEXT PRIMARY KEY, wind REAL NOT NULL)"
KEYS = "CREATE TABLE n (a TEXT REFERENCES islands(name), b INTEGER REFERENCES penguins)"
PARTS = "CREATE TABLE b (a INTEGER, c INTEGER DEFAULT 3, d AS (a * 2), PRIMARY KEY (a, c))"
INDEX = "CREATE INDEX i ON penguins (island, mass DESC)"
VIEW = "CREATE VIEW big AS SELECT * FROM penguins WHERE mass > 4000"
UPDATE = "UPDATE penguins SET mass = 1 WHERE id = 1"


@pytest.mark.parametrize(
    ("reference", "text", "lines"),
    [
        (STORMS, "CREATE TABLE storms (day TEXT, wind REAL)",
         ["storms: day must be the PRIMARY KEY", "storms: wind must be NOT NULL"]),
        (STORMS, "CREATE TABLE storms (wind REAL NOT NULL PRIMARY KEY, day TEXT UNIQUE)",
         ["storms: day must be the PRIMARY KEY"]),
        (STORMS, "CREATE TABLE storms (day TEXT PRIMARY KEY, wind TEXT NOT NULL)",
         ["storms: wind must be REAL, not TEXT"]),
        (STORMS, "CREATE TABLE storms (date TEXT PRIMARY KEY, wind REAL NOT NULL, kind TEXT)",
         ["storms: column day is missing", "storms: column date is unexpected", "storms: column kind is unexpected"]),
        (STORMS, "CREATE TABLE storm (day TEXT)", ["table storms is missing"]),
        (STORMS, "SELECT 1", ["the answer changes nothing: it only reads", "table storms is missing"]),
        (STORMS, "CREATE VIEW storms AS SELECT 'x' AS day, 1 AS wind WHERE false",
         ["storms must be a table, not a view"]),
        (PARTS, "CREATE TABLE b (a INTEGER PRIMARY KEY, c INTEGER DEFAULT 4, d INTEGER)",
         ["b: a and c must be the PRIMARY KEY", "b: c must have DEFAULT 3", "b: d must have no type",
          "b: d must be a generated column"]),
        (PARTS, PARTS.replace("(a, c)", "(c, a)"), ["b: the index on (c, a) must be on (a, c)"]),
        ("CREATE TABLE b (a INTEGER)", "CREATE TABLE b (a INTEGER DEFAULT 7)", ["b: a must have no DEFAULT"]),
        ("CREATE UNIQUE INDEX i ON islands (name)", "CREATE INDEX i ON islands (name)",
         ["islands: name must be UNIQUE"]),
        ("CREATE TABLE n (a TEXT, b TEXT)", "CREATE TABLE n (a TEXT, b TEXT UNIQUE)", ["n: b must not be UNIQUE"]),
        (INDEX, "CREATE INDEX i ON penguins (mass)",
         ["penguins: index on (island, mass DESC) is missing", "penguins: index on mass is unexpected"]),
        (INDEX, "CREATE INDEX i ON penguins (mass, island)",
         ["penguins: the index on (mass, island) must be on (island, mass DESC)"]),
        (INDEX, f"{INDEX} WHERE mass > 1",
         ["penguins: the index on (island, mass DESC) must have no WHERE clause"]),
        (KEYS, "CREATE TABLE n (a TEXT REFERENCES islands(area), b INTEGER)",
         ["n: b must reference penguins", "n: a must reference islands(name), not islands(area)"]),
        ("DROP TABLE islands", "DROP TABLE penguins",
         ["the table penguins must not be dropped", "the table islands must be dropped"]),
        (UPDATE, f"{UPDATE}; DROP TABLE islands", ["the table islands must not be dropped"]),
        (UPDATE, "DELETE FROM penguins WHERE id = 1", ["penguins: 1 missing row"]),
        (VIEW, "CREATE TABLE big AS SELECT * FROM penguins WHERE mass > 4000", ["big must be a view, not a table"]),
        (VIEW, "DROP TABLE islands", ["the table islands must not be dropped", "view big is missing"]),
        (VIEW, f"{VIEW} AND id < 5", ["big: 1 missing row"]),
    ],
)  # fmt: skip
def test_a_wrong_state_in_words(session, tmp_path, reference, text, lines):
    exercise = make(session, tmp_path, reference)
    assert answer(session, exercise, reference).passed
    wrong = answer(session, exercise, text)
    assert list(wrong.messages) == lines
    assert not wrong.passed
    assert "column_name" not in str(wrong.difference)


ROWS = "-- state: SELECT day, wind FROM storms\n"
COLUMNS = "-- state: SELECT name, type, pk FROM pragma_table_info('storms')\n"
INDEXES = "-- state: SELECT name FROM pragma_index_list('storms')\n"


@pytest.mark.parametrize(
    ("header", "reference", "line"),
    [
        (ROWS + COLUMNS + INDEXES, STORMS, "table storms is missing"),
        (COLUMNS.replace("state: ", "state: columns: "), STORMS, "table storms is missing"),
        (ROWS, STORMS, "storms is missing"),  # a view would be as good
        (ROWS + COLUMNS, "CREATE VIEW storms AS SELECT 'x' AS day, 1 AS wind", "storms is missing"),
        (ROWS + "-- feedback: pass or fail\n", STORMS, "storms is missing"),
        (ROWS.replace("storms", "storms JOIN islands"), STORMS, "storms is missing"),
    ],
)
def test_a_table_of_several_states_is_missing_once(session, tmp_path, header, reference, line):
    exercise = make(session, tmp_path, f"{header}{reference}")
    assert list(answer(session, exercise, "CREATE TABLE storm (day TEXT)").messages) == [line]


def test_the_rows_that_differ_have_their_label(session, tmp_path):
    exercise = make(session, tmp_path, "UPDATE penguins SET mass = 1")
    wrong = answer(session, exercise, "UPDATE penguins SET mass = 2")
    assert wrong.messages[0] == "penguins: 6 of 6 rows differ"
    assert wrong.heading == "penguins: the first 5 of 6 rows that differ:"
    labelled = make(
        session, tmp_path, f"-- state: mass of Ada: SELECT mass FROM penguins WHERE id = 1\n{UPDATE}", "ada"
    )
    wrong = answer(session, labelled, "UPDATE penguins SET mass = 2")
    assert wrong.messages == (
        "mass of Ada: 1 of 1 row differs", "mass of Ada: column mass: expected number 1.0, got number 2.0",
    )  # fmt: skip
    assert wrong.heading == "mass of Ada: the row that differs:"


def test_a_pragma_is_read_in_words(session, tmp_path):
    query = "SELECT name, upper(type) AS type, pk, pk > 0 OR \"notnull\" AS not_null FROM pragma_table_info('storms')"
    exercise = make(session, tmp_path, f"-- state: SELECT day FROM storms\n-- state: {query}\n{STORMS}")
    assert answer(session, exercise, "CREATE TABLE storms (day TEXT PRIMARY KEY NOT NULL, wind REAL NOT NULL)").passed
    wrong = answer(session, exercise, "CREATE TABLE storms (day TEXT, wind REAL)")
    assert wrong.messages == ("storms: day must be the PRIMARY KEY", "storms: wind must be NOT NULL")
    assert wrong.difference is None
    missing = answer(session, exercise, "CREATE TABLE storm (day TEXT)")
    assert missing.messages[0] == "table storms is missing"


@pytest.mark.parametrize(
    ("states", "labels"),
    [
        (["SELECT * FROM rebooking"], ["rows of rebooking"]),
        (["seats left: SELECT free FROM rebooking WHERE flight = ':  SELECT'"], ["seats left"]),
        (["SELECT ': SELECT' AS a FROM t"], ["rows of t"]),
        (["WITH x AS (SELECT 1) SELECT a FROM t JOIN u USING (a)"], ["rows of t and u"]),
        (["SELECT count(*) AS n, sum(a) AS total FROM t"], ["n and total of t"]),
        (["SELECT a, count(*) AS n FROM t GROUP BY a"], ["rows of t"]),
        (["SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = 2"],
         ["SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = 2"]),
        (["SELECT name FROM pragma_table_info('storms')"], ["storms"]),
        (["SELECT name FROM pragma_index_list(\"storms\")"], ["indexes of storms"]),
        (["SELECT 1"], ["state"]),
    ],
)  # fmt: skip
def test_labels_of_states(states, labels):
    probes = probes_of(states)
    assert [probe.label for probe in probes] == labels
    assert all(probe.sql and state.endswith(probe.sql) for probe, state in zip(probes, states, strict=True))


@pytest.mark.parametrize(
    ("reference", "text", "lines"),
    [
        ("SELECT species, mass FROM penguins WHERE id < 4", "SELECT species, mass FROM penguins WHERE id < 6",
         ["5 rows instead of 3"]),
        ("SELECT species, mass AS m FROM penguins", "SELECT species, mass AS kg FROM penguins",
         ["column kg instead of m"]),
        ("SELECT species, mass FROM penguins", "SELECT species, 1, 2 FROM penguins LIMIT 1",
         ["column mass is missing", "column 1 is unexpected", "column 2 is unexpected", "1 row instead of 6"]),
        ("SELECT id, mass FROM penguins ORDER BY mass", "SELECT mass, id FROM penguins ORDER BY id",
         ["the rows are right, but their order is wrong"]),
        ("SELECT id, mass FROM penguins ORDER BY mass", "SELECT id, 1 AS mass FROM penguins ORDER BY id",
         ["the columns and the number of rows are right, the values are not"]),
        ("-- columns: in order\nSELECT id, mass FROM penguins", "SELECT mass, id FROM penguins",
         ["the order of the columns differs from id, mass"]),
        ("-- names: ignored\nSELECT id, mass FROM penguins", "SELECT id AS a FROM penguins", ["1 column instead of 2"]),
        ("SELECT count(*) AS n FROM penguins", "SELECT 7 AS N",
         ["the columns and the number of rows are right, the values are not"]),
        ("-- state: ids: SELECT id FROM penguins\nDELETE FROM penguins WHERE id = 1", "DELETE FROM penguins",
         ["ids: 0 rows instead of 5"]),
        (STORMS, "CREATE TABLE storm (day TEXT)", ["storms is missing"]),
        (STORMS, "CREATE TABLE storms (day TEXT PRIMARY KEY, wind REAL)", ["storms: the columns are not correct"]),
        ("DROP TABLE islands", "DELETE FROM islands", ["the tables, views and triggers are not correct"]),
    ],
)  # fmt: skip
def test_pass_or_fail_has_columns_rows_and_order_but_no_values(session, tmp_path, reference, text, lines):
    exercise = make(session, tmp_path, f"-- feedback: pass or fail\n{reference}")
    assert answer(session, exercise, reference.rpartition("\n")[2]).passed
    wrong = answer(session, exercise, text)
    assert (list(wrong.messages), wrong.difference) == (lines, None)


def test_a_file_without_the_number_of_rows(session, tmp_path):
    made = make(session, tmp_path, "-- feedback: pass or fail\nSELECT id FROM penguins ORDER BY id")
    old = replace(made, probes=(replace(made.probes[0], rows=-1, unordered=""),))
    wrong = answer(session, old, "SELECT id FROM penguins WHERE id = 1")
    assert wrong.messages == ("the result is not correct",)
