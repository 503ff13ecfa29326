"""Saved SELECTs as tables of a WITH: what is sent, what is refused, where errors point. SQLite itself is asked."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from pipemagic.errors import SessionError, StatementError
from pipemagic.session import Session
from pipemagic.session.snippets import Snippet, Snippets
from pipemagic.sql import parse


@pytest.fixture
def saved():
    snippets = Snippets()
    snippets.save(Snippet("top", "SELECT i FROM n WHERE i > :least"))
    counting = "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c WHERE x < 3)"
    snippets.save(Snippet("late", f"{counting} SELECT x FROM c"))
    snippets.save(Snippet("both", "SELECT i FROM top -- one\nUNION\nSELECT x FROM late", ("top", "late")))
    snippets.save(Snippet("flights", "SELECT 1 AS f"))
    snippets.save(Snippet("of_flights", "SELECT * FROM flights"))
    return snippets


def sent(saved, text, *using, **values):
    from pipemagic.session.cell import parse_cell

    (stmt,) = parse_cell(text, {"least": 1, **values}, using=using, snippets=saved).stmts
    return stmt.sql


def rows(sql, **values):
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript("CREATE TABLE n (i); INSERT INTO n VALUES (1), (2), (7)")
        found = db.execute(sql, {"least": 1, **values}).fetchall()
        return found or db.execute("SELECT count(*), max(i) FROM n").fetchall()


@pytest.mark.parametrize(
    ("text", "using", "expected"),
    [
        ("SELECT * FROM top", ["top"], [(2,), (7,)]),
        ("SELECT * FROM TOP AS t, (SELECT 1)", ["top"], [(2, 1), (7, 1)]),
        ("SELECT * FROM \"top\" UNION SELECT x FROM [late]", ["top", "late"], [(1,), (2,), (3,), (7,)]),
        ("SELECT * FROM both", ["both"], [(1,), (2,), (3,), (7,)]),
        ("VALUES ((SELECT max(i) FROM top))", ["top"], [(7,)]),
        ("WITH a AS (SELECT i + 1 AS i FROM top) SELECT * FROM a", ["top"], [(3,), (8,)]),
        ("WITH RECURSIVE a(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM a, late USING (x)) SELECT * FROM a", ["late"],
         [(1,), (2,), (3,), (4,)]),
        ("INSERT INTO n SELECT i * 10 FROM top", ["top"], [(5, 70)]),
        ("WITH a AS (SELECT 1) DELETE FROM n WHERE i IN top", ["top"], [(1, 1)]),
        ("UPDATE n SET i = 0 WHERE i IN (SELECT i FROM top)", ["top"], [(3, 1)]),
        ("REPLACE INTO n SELECT 9 FROM top", ["top"], [(5, 9)]),
    ],
)  # fmt: skip
def test_a_statement_reads_from_what_was_saved(saved, text, using, expected):
    assert rows(sent(saved, text, *using)) == expected


def test_the_position_of_the_with(saved):
    top = '"top" AS (SELECT i FROM n WHERE i > :least)'
    for text, expected in {
        "EXPLAIN QUERY PLAN SELECT * FROM top": f"EXPLAIN QUERY PLAN WITH {top} SELECT * FROM top",
        "EXPLAIN SELECT 1 FROM top": f"EXPLAIN WITH {top} SELECT 1 FROM top",
        "CREATE TEMP TABLE x AS SELECT * FROM top": f"CREATE TEMP TABLE x AS WITH {top} SELECT * FROM top",
        "CREATE TABLE x AS WITH a AS (SELECT 1) SELECT * FROM top":
            f"CREATE TABLE x AS WITH {top}, a AS (SELECT 1) SELECT * FROM top",
        "with/**/recursive a AS (SELECT 1) SELECT * FROM top":
            f"with/**/recursive {top}, a AS (SELECT 1) SELECT * FROM top",
    }.items():  # fmt: skip
        assert sent(saved, text, "top") == expected


def test_only_the_statements_that_name_it_get_it(saved):
    from pipemagic.session.cell import parse_cell

    stmts = parse_cell(
        "SELECT 1; SELECT * FROM top; SELECT 'top' -- top", {"least": 1}, using=["top"], snippets=saved
    ).stmts
    assert [stmt.sql.startswith("WITH") for stmt in stmts] == [False, True, False]
    assert [bool(stmt.named_args) for stmt in stmts] == [False, True, False]


@pytest.mark.parametrize(
    ("text", "using", "message"),
    [
        ("SELECT 1", ["top"], "--with top: no statement of the cell reads from top"),
        ("PRAGMA table_info(top)", ["top"], "no statement of the cell reads from top"),
        ("SELECT * FROM tpo", ["tpo"], r"saved SELECT 'tpo' does not exist\nHint: did you mean top\?"),
        ("SELECT * FROM x", ["x"], "saved SELECT 'x' does not exist\nHint: %%sql --save NAME"),
        ("WITH top AS (SELECT 1) SELECT * FROM top", ["top"], "the WITH of the statement defines top"),
        (
            "WITH n AS (SELECT 1 AS i) SELECT * FROM n, top",
            ["top"],
            "the saved SELECT top reads a table n, which the WITH would replace",
        ),
        (
            "SELECT * FROM of_flights, flights",
            ["of_flights", "flights"],
            "the saved SELECT of_flights reads a table flights",
        ),
        ("WITH n AS (SELECT 1 AS i) SELECT * FROM n, both", ["both"], "the saved SELECT both reads a table n"),
    ],
)
def test_snippets_that_would_read_another_table_are_refused(saved, text, using, message):
    with pytest.raises(SessionError, match=message):
        sent(saved, text, *using)


@pytest.mark.parametrize(
    ("name", "text", "uses", "message"),
    [
        ("two words", "SELECT 1", (), "'two words' is not a valid name for a table"),
        ("x", "SELECT 1; SELECT 2", (), "--save x: the cell must consist of one SELECT"),
        ("x", "WITH a AS (SELECT 1) DELETE FROM n", (), "the cell must consist of one SELECT"),
        ("x", "EXPLAIN SELECT 1", (), "the cell must consist of one SELECT"),
        ("x", "-- nothing", (), "the cell must consist of one SELECT"),
        ("n", "SELECT i FROM N", (), "--save n: the SELECT reads a table of that name"),
        ("top", "SELECT * FROM both", ("both",), r"--save top: it would use itself \(top on both on top\)"),
        ("TOP", "SELECT * FROM top", ("top",), r"--save TOP: it would use itself \(TOP on top\)"),
        ("x", "SELECT * FROM y", ("y",), "saved SELECT 'y' does not exist"),
    ],
)  # fmt: skip
def test_invalid_snippets_are_refused(saved, name, text, uses, message):
    with pytest.raises(SessionError, match=message):
        saved.save(Snippet(name, text, uses))


def test_a_snippet_that_others_need_is_not_deleted(saved):
    with pytest.raises(SessionError, match="top is used by both\nHint: delete both first"):
        saved.delete("TOP")
    saved.delete("both")
    assert saved.delete("TOP").name == "top"
    assert [snippet.name for snippet in saved] == ["late", "flights", "of_flights"]


def test_saving_again_goes_through_to_what_uses_it(saved):
    saved.save(Snippet("top", "SELECT 100 AS i"))
    assert (100,) in rows(sent(saved, "SELECT * FROM both", "both"))


def test_names_of_the_same_word_do_not_count_as_reading():
    text = 'SELECT n.delay, late FROM flights AS late, (SELECT a FROM b), main.c JOIN "d e" ON late = x, [f]'
    assert parse(text).tables == {"flights", "b", "d e", "f"}


def test_an_error_inside_a_saved_select_is_shown_in_it(session: Session):
    session.run("CREATE TABLE n (i)")
    session.snippets.save(Snippet("top", "SELECT i,\n  nope\nFROM n"))
    with pytest.raises(StatementError) as caught:
        session.run_cell(session.read("SELECT 1;\nSELECT * FROM top WHERE i = :i", {"i": 1}, using=["top"]))
    assert "no such column: nope" in caught.value.message
    assert "statement 2 of 2, the saved SELECT top, line 2:\n    nope\n    ^" in caught.value.message
    text = "SELECT 1 FROM n;\nSELECT i FROM\n  (SELECT 5 AS nope) AS top, nada"
    with pytest.raises(StatementError) as caught:
        session.run_cell(session.read(text, using=["top"]))
    assert "statement 2 of 2, line 3:\n    (SELECT 5 AS nope) AS top, nada\n" in caught.value.message
