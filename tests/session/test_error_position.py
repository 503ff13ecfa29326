"""The position of an error, from the messages of real engines."""

import pytest

from pipemagic.session.error_position import parse_message
from pipemagic.sql import caret

# Messages as sqld 0.24.32 and SQLite itself write them.
MESSAGES = [
    ("SELEC", "SQL string could not be parsed: syntax error around L1:6: `SELEC`", 'syntax error near "SELEC"', 0),
    ("SELECT 1,\n  2 FRO M t", "SQL string could not be parsed: syntax error around L2:10: `M`",
     'syntax error near "M"', 18),
    ("SELECT (1", "SQL string could not be parsed: unexpected end of input at (1, 10)", "unexpected end of input", 9),
    ("INSERT INTO t VALUES (1,)", 'SQL string could not be parsed: near RP, "None": syntax error at (1, 26)',
     'syntax error near ")"', 24),
    ("SELECT 1 WHERE é = = 2", 'SQL string could not be parsed: near EQ, "None": syntax error at (1, 22)',
     'syntax error near "="', 19),
    ("SELECT 'abc", "SQL string could not be parsed: non-terminated literal at (1, 8)", "non-terminated literal", 7),
    ("SELECT é, nme FROM t", "SQL input error: no such column: nme (at offset 11)", "no such column: nme", 10),
    ("SELECT * FROM nope", "SQLite error: no such table: nope", "no such table: nope", 14),
    ('SELECT * FROM "a b"', "SQLite error: no such table: a b", "no such table: a b", 14),
    ("SELECT 1 FROMM t, x", 'near "t": syntax error', 'near "t": syntax error', 15),
    ("SELECT a, a FROM t", "no such column: a", "no such column: a", None),  # twice there: which one?
    ("INSERT INTO t VALUES (1)", "SQLite error: UNIQUE constraint failed: t.a", "UNIQUE constraint failed: t.a", None),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "message", "text", "offset"), MESSAGES, ids=[sql for sql, *_ in MESSAGES])
def test_a_message_is_split_into_text_and_position(sql, message, text, offset):
    located = parse_message(message, sql)
    assert (located.message, located.offset) == (text, offset)


@pytest.mark.parametrize("message", ["", "at (9, 9)", "x at (9, 99)", "y around L7:70: `zz`", "z (at offset 999)"])
def test_a_position_outside_of_the_text_does_no_harm(message):
    offset = parse_message(message, "SELECT 1").offset
    assert caret("SELECT 1", offset or 0)
