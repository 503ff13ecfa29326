"""Corrections of statements with a syntax error; `notebook/sql_cases/syntax.toml` has the hints of cells."""

from __future__ import annotations

import random

import pytest

from pipemagic.explore.hints import corrections
from pipemagic.explore.hints.broken_statement import Grammar
from pipemagic.explore.hints.corrections import correction
from pipemagic.explore.sqlite_reference import KEYWORDS
from pipemagic.sql import Token, significant

RIGHT = [
    "SELECT carrier, count(*) AS flights FROM flights WHERE day >= '2013-01-01' AND seats > 100 GROUP BY carrier "
    "HAVING count(*) > 3 ORDER BY flights DESC LIMIT 5 OFFSET 10",
    "SELECT f.id, a.name FROM flights AS f LEFT JOIN airlines AS a ON f.carrier = a.carrier WHERE a.name IS NOT NULL",
    "WITH late AS (SELECT id, dep_delay FROM flights WHERE dep_delay BETWEEN 10 AND 60) SELECT avg(id) FROM late",
    "SELECT id, CASE WHEN seats > 160 THEN 'big' ELSE 'small' END AS size FROM flights UNION ALL SELECT 1, 'none'",
    "SELECT day, sum(id) OVER (PARTITION BY carrier ORDER BY day ROWS 2 PRECEDING) FROM flights",
    "INSERT INTO airlines (carrier, name) VALUES ('DL', 'Delta'), ('WN', 'Southwest') ON CONFLICT (carrier) DO NOTHING",
    "UPDATE flights SET seats = seats + 1, price = round(price, 1) WHERE carrier IN ('AA', 'UA') RETURNING id",
    "DELETE FROM flights WHERE NOT EXISTS (SELECT 1 FROM airlines WHERE airlines.carrier = flights.carrier)",
    "CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, seats INTEGER CHECK (seats > 0) DEFAULT 1)",
    "CREATE TRIGGER late AFTER INSERT ON flights WHEN new.dep_delay > 60 BEGIN UPDATE days SET year = 1; END",
]


def replaced(text: str, token: Token, word: str) -> str:
    return f"{text[: token.start]}{word}{text[token.end :]}"


def misspellings(word: str) -> set[str]:
    swapped = {f"{word[:at]}{word[at + 1]}{word[at]}{word[at + 2 :]}" for at in range(len(word) - 1)}
    shorter = {word[:at] + word[at + 1 :] for at in range(len(word))}
    longer = {word[:at] + word[at] + word[at:] for at in range(len(word))}
    return {other for other in swapped | shorter | longer if other.upper() not in KEYWORDS and len(other) > 2}


@pytest.mark.parametrize("text", RIGHT)
def test_a_misspelt_keyword_is_named(text):
    grammar, named, silent = Grammar(), 0, []
    for token in significant(text):
        for word in misspellings(token.word) if token.word in KEYWORDS and len(token.word) > 3 else ():
            wrong = replaced(text, token, word)
            if grammar.reads(wrong):  # as an alias, or as the type of a column
                continue
            hint = correction(wrong)
            assert hint in ("", f"did you mean {token.word}?"), wrong
            named += hint != ""
            silent += [] if hint else [wrong]
    assert named > 10 * len(silent), silent


@pytest.mark.parametrize("text", RIGHT)
@pytest.mark.parametrize("extra", [",", "'", "AND", "FROM", "(", "#", ";", "=", "‘", "\u00a0", "2", "name"])
def test_only_a_text_with_an_error_has_a_hint(text, extra):
    grammar, chosen = Grammar(), random.Random(text + extra)
    for token in chosen.sample(significant(text), 12):
        damaged = f"{text[: token.start]}{extra} {text[token.start :]}"
        assert not (grammar.reads(damaged) and correction(damaged)), damaged


@pytest.mark.parametrize("text", RIGHT)
def test_a_comma_that_is_too_many_is_named(text):
    """Behind an operator, an expression may be missing as well."""
    grammar = Grammar()
    for token in significant(text):
        damaged = f"{text[: token.start]}, {text[token.start :]}"
        if not grammar.reads(damaged):
            hint = correction(damaged)
            assert hint == "" or hint.startswith(("remove the comma", "remove one of", "an expression is missing")), (
                damaged
            )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT seats, carrier || name FROM flights WHERE a == 1 AND (b | c) & d",
        "SELECT DISTINCT(a), b FROM t; SELECT 2",
        "SELECT nope(1) FROM missing WHERE :x IN (1, 2)",
        "INSERT INTO missing (a) VALUES (:a)",
        "CREATE TRIGGER r AFTER INSERT ON missing BEGIN DELETE FROM missing; END",
        "ATTACH 'x.db' AS x",
        "PRAGMA foreign_keys = 0",
        "EXPLAIN QUERY PLAN SELECT 1",
        "BEGIN IMMEDIATE",
        "",
        "-- nothing",
    ],
)
def test_right_statements(text):
    assert Grammar().reads(text)
    assert correction(text) == ""


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ("SELCT 1", 0),
        ("SELECT 'é😀', é 1 2", len("SELECT 'é😀', é ")),
        ("SELECT 1; SELECT 2 FORM t", len("SELECT 1; SELECT 2 FORM ")),
        ("CREATE TRIGGER r AFTER INSERT ON t BEGIN SELCT 1; END", len("CREATE TRIGGER r AFTER INSERT ON t BEGIN ")),
        ("SELECT 1 +  ", len("SELECT 1 +  ")),
        ("ATTACH 'x.db' AS x y", len("ATTACH 'x.db' AS x ")),
    ],
)  # fmt: skip
def test_the_place_where_sqlite_stops(text, stop):
    assert Grammar().stop(text) == stop


def test_nothing_is_run_or_opened(tmp_path):
    file = tmp_path / "new.db"
    assert Grammar().reads(f"ATTACH '{file}' AS other")
    assert Grammar().reads(f"VACUUM INTO '{file}'")
    assert not file.exists()


def test_texts_that_are_not_read(monkeypatch):
    assert correction("SELCT '\0'") == ""
    assert correction("SELCT 1")
    monkeypatch.setattr(corrections, "LONGEST", 6)
    assert correction("SELCT 1") == ""


# Words and operators of other databases: `explore/test_functions.py` has what to write.
FOREIGN = [
    "SELECT TOP 5 * FROM flights",
    "SELECT * EXCLUDE (id) FROM flights",
    "SELECT * FROM flights QUALIFY id = 1",
    "SELECT id FROM flights FETCH FIRST 5 ROWS ONLY",
    "SELECT id FROM flights GROUP BY ALL",
    "SELECT id::int FROM flights",
    "SELECT INTERVAL '1' DAY",
    "SELECT * FROM flights, LATERAL (SELECT 1)",
    "SELECT id FROM flights WHERE carrier ~ 'A'",
    "SELECT id FROM flights WHERE carrier ILIKE 'a'",
    "SELECT id FROM flights LIMIT 10%",
    "SELECT id ** 2, seats // 2 FROM flights",
    "SELECT id ^ 2 FROM flights",
    "SELECT id FROM flights WHERE carrier = %(carrier)s",
    "SELECT DISTINCT ON (carrier) id FROM flights",
    "EXPLAIN ANALYZE SELECT 1",
    "VACUUM ANALYZE flights",
    "CREATE TABLE city (id INT) ENGINE=InnoDB",
    "CREATE TABLE city LIKE flights",
    "CREATE OR REPLACE VIEW city AS SELECT 1",
    "DELETE FROM flights ORDER BY id LIMIT 5",
    "UPDATE flights JOIN airlines ON flights.carrier = airlines.carrier SET seats = 1",
    "SHOW TABLES",
    "USE flights",
    "GO",
]


@pytest.mark.parametrize("text", FOREIGN)
def test_words_of_other_databases_are_not_misspelt(text):
    assert correction(text) == ""


def test_each_of_many_apostrophes():
    rows = ", ".join(f"({number}, 'it's {number}')" for number in range(300))
    assert correction(f"INSERT INTO days (year, month) VALUES {rows}") == (
        "write 'it''s 0', with the apostrophe doubled"
    )
