"""Messages that name tables, columns and values, on two servers."""

from __future__ import annotations

import pytest

from pipemagic.errors import StatementError

pytestmark = pytest.mark.parametrize("messages_session", ["in process", "sqld"], indirect=True, scope="module")

TABLES = """
CREATE TABLE airline (carrier TEXT, name TEXT);
CREATE TABLE flight (id INTEGER PRIMARY KEY, carrier TEXT, "tail number" TEXT);
CREATE TABLE "a b" (n);
CREATE TABLE plane (carrier TEXT, "tail number" TEXT);
CREATE TABLE descending (id INTEGER PRIMARY KEY DESC);
CREATE TABLE counted (n INTEGER PRIMARY KEY);
CREATE TRIGGER refuses AFTER INSERT ON counted BEGIN UPDATE flight SET id = 'x'; END;
INSERT INTO flight VALUES (1, 'AA', 'N1')
"""


@pytest.fixture(scope="module")
def tables(messages_session):
    messages_session.run(TABLES)
    return messages_session


def failure(session, text: str, **values: object) -> str:
    with pytest.raises(StatementError) as caught:
        session.run(text, values)
    first, _, rest = caught.value.message.partition("\n")
    assert "ambiguous" not in rest
    if caught.value.cell is not None and caught.value.cell.total > 1:
        assert caught.value.cell.fault == first
    return first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT carrier FROM airline a, flight f",
            "carrier is in both a and f; write a.carrier or f.carrier",
        ),
        (
            "SELECT a.name FROM airline AS a JOIN flight ON a.carrier = flight.carrier WHERE Carrier = 'AA'",
            "Carrier is in both a and flight; write a.Carrier or flight.Carrier",
        ),
        (
            "SELECT 1; SELECT carrier FROM airline a, flight f, plane",
            "carrier is in a, f and plane; write a.carrier, f.carrier or plane.carrier",
        ),
        (
            'SELECT "tail number" FROM flight AS "f 1" JOIN plane p USING (carrier)',
            '"tail number" is in both "f 1" and p; write "f 1"."tail number" or p."tail number"',
        ),
        (
            "SELECT x FROM (SELECT carrier AS x FROM airline, plane)",
            "carrier is in both airline and plane; write airline.carrier or plane.carrier",
        ),
        (
            "WITH late AS (SELECT carrier FROM flight) SELECT carrier FROM late, airline a",
            "carrier is in both late and a; write late.carrier or a.carrier",
        ),
        (
            "SELECT (SELECT count(*) FROM plane) FROM airline a, flight f ORDER BY carrier",
            "carrier is in both a and f; write a.carrier or f.carrier",
        ),
        (
            "UPDATE flight SET id = 2 FROM airline a, plane AS p WHERE name = 'x' AND carrier = 'AA'",
            "carrier is in flight, a and p; write flight.carrier, a.carrier or p.carrier",
        ),
        (
            "CREATE TABLE IF NOT EXISTS made(carrier); SELECT carrier FROM made m, flight f",
            "carrier is in both m and f; write m.carrier or f.carrier",
        ),
    ],
)
def test_an_ambiguous_column(tables, text, message):
    assert failure(tables, text) == message


def test_an_ambiguous_column_of_tables_that_have_one_name(tables):
    twice = "airline is in the query twice; give each an alias: airline AS a, airline AS b"
    assert failure(tables, "SELECT name FROM airline JOIN airline") == twice
    assert failure(tables, "SELECT Airline.name FROM airline, Airline") == twice
    assert failure(tables, "SELECT carrier FROM airline, flight JOIN airline") == twice
    assert failure(tables, 'SELECT n FROM "a b" JOIN "a b" JOIN "a b"') == (
        '"a b" is in the query 3 times; give each an alias: "a b" AS a, "a b" AS b, "a b" AS c'
    )
    assert failure(tables, "SELECT carrier FROM airline x, flight x") == "ambiguous column name: carrier"


KEY = "flight.id is an INTEGER PRIMARY KEY and "
HOLDS, ONLY = KEY + "cannot hold ", KEY + "holds only integers"


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        ("INSERT INTO flight VALUES ('x', 'AA', 'N1')", {}, HOLDS + "'x'"),
        ("INSERT INTO flight (carrier, id) VALUES ('AA', 1.5)", {}, HOLDS + "1.5"),
        (
            "INSERT INTO flight (carrier, id) VALUES ('(,', 7), ('B', ' 8 '), ('C', :id)", {"id": "it's"},
            f"row 3: {HOLDS}'it's'",
        ),
        ("REPLACE INTO flight (ID) VALUES (x'00ff')", {}, HOLDS + "x'00ff'"),
        ("UPDATE flight SET carrier = 'B', id = 'x' WHERE id = 1", {}, HOLDS + "'x'"),
        ("SELECT 1 LIMIT :n", {"n": "many"}, "LIMIT takes an integer, not 'many'"),
        ("SELECT 1 LIMIT 2 OFFSET 1.5", {}, "OFFSET takes an integer, not 1.5"),
        ("SELECT 1 LIMIT NULL", {}, "LIMIT takes an integer, not NULL"),
        ("SELECT 1 LIMIT 1 OFFSET :n", {"n": None}, "OFFSET takes an integer, not NULL"),
        ("INSERT INTO flight SELECT 'y', 'AA', 'N1'", {}, ONLY),
        ("INSERT INTO flight (id) SELECT name FROM (SELECT 'x' AS name) LIMIT 5", {}, ONLY),
        ("INSERT INTO flight (id) VALUES (7), ('x' || 'y')", {}, ONLY),
        ("INSERT INTO flight (id) WITH w(x) AS (VALUES ('x')) SELECT x FROM w", {}, ONLY),
        ("UPDATE flight SET id = upper(carrier) WHERE id = 1", {}, ONLY),
        ("UPDATE flight SET carrier = (SELECT 'B'), id = -1.5", {}, HOLDS + "-1.5"),
        ("INSERT INTO flight (id) SELECT 5 LIMIT 1 + 0.5", {}, "datatype mismatch"),
        ("INSERT INTO descending VALUES ('x'); INSERT INTO counted VALUES (2)", {}, "datatype mismatch"),
    ],
)  # fmt: skip
def test_a_value_that_is_not_an_integer(tables, text, values, message):
    assert failure(tables, text, **values) == message
    assert tables.run("SELECT count(*) AS n FROM flight")["n"].tolist() == [1]
