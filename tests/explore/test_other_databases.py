"""Statements of other databases: the SQL of the hint returns the rows that DuckDB returns for the statement."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from pipemagic.client.database import Database
from pipemagic.explore.hints import expressions, select_clauses
from pipemagic.explore.hints.words import Place, Span, Words
from pipemagic.explore.schema import Relation
from pipemagic.explore.sqlite_reference import FUNCTIONS, KEYWORDS
from pipemagic.sql import significant, unquote

CASES = Path(__file__).parent.parent / "notebook/sql_cases/dialects.toml"
COLUMNS = [("id", "INTEGER"), ("carrier", "TEXT"), ("distance", "INTEGER"), ("day", "DATE")]
TABLES = {"flights": Relation.of("flights", COLUMNS)}
CREATE = """
CREATE TABLE flights (id INTEGER, carrier TEXT, distance INTEGER, day DATE);
INSERT INTO flights VALUES (1, 'AA', 2475, '2013-01-01'), (2, 'UA', 1400, '2013-01-02'),
    (3, 'AA', 1576, '2013-01-31'), (4, 'B6', 100, '2013-02-28'), (5, 'UA', 1400, '2013-03-01')
"""


@pytest.fixture
def flights(database: Database) -> Database:
    for statement in CREATE.split(";"):
        database.execute(statement)
    return database


@pytest.fixture(scope="module")
def duck():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as database:
        database.execute(CREATE)
        yield database


def place_of(text: str, word: str) -> Place:
    words = Words(text)
    return Place(words, words.at(text.index(word)), text, TABLES)


def hint_at(place: Place) -> str:
    return select_clauses.of_clause(place) or expressions.of_expression(place)


QUERIES = [
    ("SELECT DISTINCT ON (carrier) carrier, id FROM flights ORDER BY carrier, distance DESC, id", "ON"),
    ("SELECT DISTINCT ON (carrier) carrier, id FROM flights WHERE id > 1 ORDER BY carrier, id LIMIT 2", "ON"),
    ("SELECT id, distance FROM flights QUALIFY row_number() OVER (PARTITION BY carrier ORDER BY id) = 1", "row_number"),
    ("SELECT id, rank() OVER (ORDER BY distance) AS r FROM flights WHERE id > 1 QUALIFY r <= 2 ORDER BY id", "QUALIFY"),
    ("SELECT carrier, count(*) FROM flights GROUP BY carrier WITH ROLLUP", "WITH"),
    ("SELECT carrier, sum(distance) FROM flights WHERE id > 1 GROUP BY ROLLUP (carrier)", "ROLLUP"),
    ("SELECT * FROM (SELECT carrier, distance FROM flights) PIVOT (sum(distance) FOR carrier IN ('AA', 'UA'))", "(sum"),
    ("SELECT * FROM flights PIVOT (sum(distance) FOR carrier IN ('AA', 'UA'))", "(sum"),
]


@pytest.mark.parametrize(("query", "word"), QUERIES)
def test_a_query_of_the_hint_returns_the_rows_of_duckdb(flights, duck, query, word):
    expected = query.replace("carrier WITH ROLLUP", "ROLLUP (carrier)")
    place = place_of(query, word)
    hint = hint_at(place)
    if word == "ROLLUP":
        hint = select_clauses.of_cube("ROLLUP", query, query.index("ROLLUP"))
    rows = flights.execute(hint.removeprefix("write ")).rows
    known = [tuple(str(value) for value in row) for row in duck.execute(expected).fetchall()]
    assert sorted(tuple(str(value) for value in row) for row in rows) == sorted(known)
    if "ORDER BY carrier" in query:
        assert rows == duck.execute(query).fetchall()


PARTS = [  # a statement, the word of the error, and the part that the hint replaces
    ("SELECT carrier, sum(distance) FROM flights GROUP BY ALL", "ALL", "GROUP BY ALL"),
    ("SELECT carrier, distance AS d, count(*) AS n FROM flights GROUP BY ALL", "ALL", "GROUP BY ALL"),
    ("SELECT carrier, id FROM flights ORDER BY ALL", "ALL", "ORDER BY ALL"),
    ("SELECT * EXCLUDE (carrier, day) FROM flights", "EXCLUDE", "* EXCLUDE (carrier, day)"),
    ("SELECT * REPLACE (upper(carrier) AS carrier) FROM (SELECT id, carrier FROM flights) AS q", "REPLACE",
     "* REPLACE (upper(carrier) AS carrier)"),
    ("SELECT id FROM flights WHERE distance > ALL (SELECT distance FROM flights WHERE id > 1)", "ALL",
     "> ALL (SELECT distance FROM flights WHERE id > 1)"),
    ("SELECT id FROM flights WHERE distance <= ANY (SELECT distance FROM flights WHERE id > 2)", "SELECT distance",
     "<= ANY (SELECT distance FROM flights WHERE id > 2)"),
    ("SELECT id FROM flights WHERE carrier = ANY (SELECT 'AA')", "SELECT 'AA'", "= ANY (SELECT 'AA')"),
    ("SELECT id FROM flights WHERE carrier <> ALL (SELECT 'AA')", "ALL", "<> ALL (SELECT 'AA')"),
    ("SELECT id FROM flights WHERE carrier ILIKE 'a%'", "ILIKE", "carrier ILIKE 'a%'"),
    ("SELECT id FROM flights WHERE carrier NOT ILIKE 'a%'", "ILIKE", "carrier NOT ILIKE 'a%'"),
    ("SELECT id FROM flights WHERE carrier SIMILAR TO 'AA'", "SIMILAR", "carrier SIMILAR TO 'AA'"),
    ("SELECT extract(quarter FROM day) FROM flights", "FROM day", "extract(quarter FROM day)"),
    ("SELECT CAST(day + INTERVAL '1 month' AS DATE) FROM flights", "INTERVAL",
     "CAST(day + INTERVAL '1 month' AS DATE)"),
    ("SELECT CAST(day - INTERVAL 3 DAY AS DATE) FROM flights", "3", "CAST(day - INTERVAL 3 DAY AS DATE)"),
    ("SELECT substring(carrier FROM 2 FOR 1) FROM flights", "FROM 2", "substring(carrier FROM 2 FOR 1)"),
    ("SELECT trim(BOTH 'A' FROM carrier) FROM flights", "'A'", "trim(BOTH 'A' FROM carrier)"),
    ("SELECT id FROM flights ORDER BY id OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY", "1",
     "OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "word", "part"), PARTS)
def test_a_part_of_the_hint_returns_the_rows_of_duckdb(flights, duck, text, word, part):
    hint = hint_at(place_of(text, word))
    sql = hint.removeprefix("write ").removesuffix(", which ignores NULLs").removesuffix(" at the end")
    sql = re.sub(r"\ASQLite has no [^:]*: list the columns: ", "", sql)
    of_duckdb = text.replace("OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY", "LIMIT 2 OFFSET 1")
    expected = [tuple(str(value) for value in row) for row in duck.execute(of_duckdb).fetchall()]
    rows = [tuple(str(value) for value in row) for row in flights.execute(text.replace(part, sql)).rows]
    assert sorted(rows) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELECT top FROM flights", "FROM"), ("SELECT carrier sample FROM flights x y", "y"),
        ("SELECT max(distance FROM flights", "FROM"), ("SELECT id FROM flights WHERE FROM t", "FROM t"),
        ("SELECT carrier, FROM flights", "FROM"), ("SELEC 1", "SELEC"), ("SELECT id id2 id3 FROM flights", "id3"),
        ("SELECT * FROM flights GROUP carrier", "carrier"), ("UPDATE flights SET SET id = 1", "SET id"),
        ("INSERT INTO flights VALUES (1 2)", "2"), ("SELECT set FROM flights", "set"),
    ],
)  # fmt: skip
def test_no_hint_for_other_syntax_errors(text, word):
    assert hint_at(place_of(text, word)) == ""


ALIASES = {"flights_flight_day", "rowid", "place", "size", "deviation", "series", "value"}
"""Names that a hint gives to its own columns, or makes of those of the tables."""
TYPES = {"integer", "real", "text", "numeric", "date", "datetime"}


PROSE = re.compile(
    r",? (?:which|after|at the end|in UTC|without|in front|so that|and ANALYZE|first|in a Python)\b|: WHERE|; | = 5"
)
"""The words behind the SQL of a hint."""


def test_a_hint_names_only_what_the_statement_or_the_tables_name():
    cases = tomllib.loads(CASES.read_text("utf-8"))["case"]
    tables = "flights airlines days id carrier flight dep_delay distance seats day departed price name parent"
    known = {*tables.split(), *ALIASES, *TYPES, *FUNCTIONS, *map(str.lower, KEYWORDS)}
    count = 0
    for case in cases:
        text = case.get("error") or "\n".join(case.get("contains", []))
        for hint in re.findall(r"^Hint: write (.*)$", text, re.MULTILINE):
            words = {unquote(token.text).lower() for token in significant(case["cell"])}
            sql = PROSE.split(hint)[0]
            names = {unquote(token.text).lower() for token in significant(sql) if token.kind in ("word", "quoted")}
            count += 1
            assert names <= known | words | {"instead", "of", "false", "excluded"}, hint
    assert count > 80


def test_selects_are_read_in_their_parentheses():
    words = Words("SELECT a FROM t WHERE b IN (SELECT c FROM u WHERE d = 1) UNION SELECT e FROM v")
    inner, outer = words.select_around(words.at(40)), words.select_around(1)
    assert inner is not None
    assert outer is not None
    assert inner.clause("FROM") == " FROM u"
    assert outer.clause("FROM", "WHERE") == " FROM t WHERE b IN (SELECT c FROM u WHERE d = 1)"
    assert [words.text(item) for item in outer.items()] == ["a"]
    assert outer.is_compound
    assert words.text(Span(0, 2)) == "SELECT a"
