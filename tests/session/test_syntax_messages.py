"""The cause of a syntax error, on two servers with different messages."""

from __future__ import annotations

import pytest

from pipemagic.errors import StatementError

pytestmark = pytest.mark.parametrize("messages_session", ["in process", "sqld"], indirect=True, scope="module")

TABLES = """
CREATE TABLE a (carrier TEXT, x INTEGER, "order" TEXT, "group" TEXT, "table" TEXT, "index" TEXT, "from" TEXT,
    "to" TEXT, "limit" INTEGER, "select" TEXT);
CREATE TABLE "order" (x INTEGER);
INSERT INTO a (carrier, x) VALUES ('AA', 1)
"""


@pytest.fixture(scope="module")
def tables(messages_session):
    messages_session.run(TABLES)
    return messages_session


def failure(session, text: str) -> list[str]:
    with pytest.raises(StatementError) as caught:
        session.run(text)
    return caught.value.message.split("\n")


@pytest.mark.parametrize(
    ("text", "message", "shown"),
    [
        ("SELECT *\nFROM a WHERE carrier = 'AA LIMIT 5", "line 2: unterminated string literal", "'AA"),
        ("SELECT 'é😀',\n'", "line 2: unterminated string literal", "'"),
        ("SELECT 'it''s, x\nFROM a", "line 1: unterminated string literal", "'it"),
        ('SELECT x\nFROM a WHERE carrier = "AA LIMIT 5', "line 2: unterminated quoted name", '"AA'),
        ("SELECT x FROM a WHERE (x = 1 /* and\n", "line 1: unterminated comment", "/*"),
        ("SELECT x\nFROM a WHERE /* x = 1; SELECT 2", "line 2: unterminated comment", "/*"),
        ("SELECT x FROM a\nWHERE x IN (1, 2", "line 2: unclosed parenthesis", "(1, 2"),
        ("SELECT x FROM a\nWHERE x IN (1, 2 -- )\nORDER BY x", "line 2: unclosed parenthesis", "(1, 2"),
        ("SELECT (x + (1) FROM a", "line 1: unclosed parenthesis", "(x"),
        ("INSERT INTO a (carrier, x\nVALUES ('B', 2)", "line 1: unclosed parenthesis", "(carrier"),
        ("SELECT x) FROM a", "line 1: unmatched closing parenthesis", ") FROM"),
        ("SELECT\nCASE WHEN x THEN 2 FROM a", "line 2: CASE without END", "CASE"),
        ("SELECT (CASE WHEN x THEN 2) FROM a", "line 1: CASE without END", "CASE"),
    ],
)
def test_unterminated_tokens_are_named_with_their_line(tables, text, message, shown):
    lines = failure(tables, text)
    assert lines[0] == message
    drawn, caret = lines[1:3]
    assert drawn[caret.index("^") :].startswith(shown)


def test_the_line_stands_once(tables):
    lines = failure(tables, "SELECT 1;\n\nSELECT sum(x FROM a;\nSELECT 2")
    assert lines[:2] == ["line 3: unclosed parenthesis", "statement 2 of 3, line 3:"]
    assert failure(tables, "\nSELECT sum(x FROM a")[:2] == ["line 2: unclosed parenthesis", "  SELECT sum(x FROM a"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT (1 + FROM a",
        "SELECT x FROM a WHERE",
        "SELECT 1 +",
        "SELEC 'abc",
        "SELECT x y z FROM (SELECT 1",
        "SELECT EXTRACT(year FROM x) FROM a",
        "SELECT sum(x + * 2) FROM a",
    ],
)
def test_uncertain_causes_are_not_reported(tables, text):
    message = failure(tables, text)[0]
    assert "un" not in message.replace("unexpected", "")
    assert "END" not in message


RESERVED = [
    ("SELECT order FROM a", "order"),
    ("SELECT x, group\nFROM a", "group"),
    ("SELECT from, x FROM a", "from"),
    ("SELECT x, to FROM a", "to"),
    ("SELECT x AS table FROM a", "table"),
    ("SELECT x FROM a WHERE index = '3'", "index"),
    ("SELECT x FROM a WHERE x = 1 AND limit > 5", "limit"),
    ("SELECT x FROM a ORDER BY order DESC", "order"),
    ("SELECT count(*) FROM a GROUP BY group", "group"),
    ("SELECT max(order) FROM a", "order"),
    ("SELECT * FROM order", "order"),
    ("SELECT * FROM order o JOIN a ON o.x = a.x", "order"),
    ("UPDATE a SET order = 'x' WHERE x = 1", "order"),
    ("DELETE FROM order WHERE x = 1", "order"),
    ("INSERT INTO order VALUES (1)", "order"),
    ("INSERT INTO a (x, order) VALUES (1, 'b')", "order"),
    ("CREATE TABLE group (x)", "group"),
    ("CREATE TABLE t2 (x INTEGER, order TEXT)", "order"),
    ("ALTER TABLE a ADD COLUMN transaction TEXT", "transaction"),
    ("ALTER TABLE a RENAME COLUMN x TO values", "values"),
]


@pytest.mark.parametrize(("text", "word"), RESERVED)
def test_a_keyword_that_is_meant_as_a_name(tables, text, word):
    assert failure(tables, text)[0] == f'"{word}" is a reserved word; quote it: "{word}"'
    place = next(at for at in range(len(text)) if text.startswith(word, at) and not text[at - 1].isalnum())
    if f" {word} BY" in text:
        place = text.index(word, place + 1)
    tables.run(f'BEGIN; {text[:place]}"{word}"{text[place + len(word) :]}; ROLLBACK')  # the advice is right


@pytest.mark.parametrize(
    "text",
    [
        "SELECT x FROM a LIMIT 5 ORDER BY x",
        "SELECT x FROM a ORDER BY x WHERE x > 1",
        "SELECT FROM a",
        "SELECT x, FROM a",
        "SELECT * FROM WHERE x = 1",
        "SELECT * FROM JOIN a",
        "SELECT * FROM a JOIN ON a.x = 1",
        "SELECT x AS FROM a",
        "SELECT x FROM a WHERE AND x = 1",
        "SELECT x FROM a GROUP BY HAVING count(*) > 1",
        "SELECT x FROM a ORDER BY LIMIT 5",
        "SELECT * FROM a SELECT * FROM a",
        "SELECT x INTO b FROM a",
        "UPDATE SET x = 1",
        "DELETE FROM WHERE x = 1",
        "INSERT INTO VALUES (1)",
        "INSERT INTO a VALUES (1, DEFAULT)",
        "CREATE TABLE IF EXISTS b (x)",
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "CREATE TABLE b (x INTEGER, INDEX i (x))",
        "CREATE TABLE b (x INTEGER) ORDER BY x",
        "CREATE VIEW v AS FROM a",
        "SELECT CASE x FROM a",
        "SELECT x FROM FROM a",
        "SELECT x FROM a UNION ORDER BY x",
    ],
)
def test_a_clause_at_the_wrong_place_is_not_taken_for_a_name(tables, text):
    assert "reserved word" not in failure(tables, text)[0]
