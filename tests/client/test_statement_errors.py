"""The message and position of an error, from the messages of real engines."""

import pytest

from pipemagic.client.statement_errors import parse_message, statement_error
from pipemagic.hrana.messages import Error
from pipemagic.session.messages import locate
from pipemagic.sql import caret, character_offset

# Messages as sqld 0.24.32 and SQLite itself write them.
MESSAGES = [
    ("SELEC", "SQL string could not be parsed: syntax error around L1:6: `SELEC`", 'syntax error near "SELEC"', 0),
    ("SELECT 1,\n  2 FRO M t", "SQL string could not be parsed: syntax error around L2:10: `M`",
     'syntax error near "M"', 18),
    ("SELECT 'é', é", "SQL string could not be parsed: syntax error around L1:16: `é`", 'syntax error near "é"', 12),
    ("SELECT (1", "SQL string could not be parsed: unexpected end of input at (1, 10)", "unexpected end of input", 9),
    ("INSERT INTO t VALUES (1,)", 'SQL string could not be parsed: near RP, "None": syntax error at (1, 26)',
     'syntax error near ")"', 24),
    ("SELECT 1 WHERE é = = 2", 'SQL string could not be parsed: near EQ, "None": syntax error at (1, 22)',
     'syntax error near "="', 19),
    ("SELECT 'abc", "SQL string could not be parsed: non-terminated literal at (1, 8)", "non-terminated literal", 7),
    ("SELECT é, nme FROM t", "SQL input error: no such column: nme (at offset 11)", "no such column: nme", 10),
    ("SELECT * FROM nope", "SQLite error: no such table: nope", "no such table: nope", None),
    ("INSERT INTO t VALUES (1)", "SQLite error: UNIQUE constraint failed: t.a", "UNIQUE constraint failed: t.a", None),
]  # fmt: skip

NAMES = [
    ("SELECT * FROM nope", "no such table: nope", 14),
    ('SELECT * FROM "a b"', "no such table: a b", 14),
    ("SELECT 1 FROMM t, x", 'near "t": syntax error', 15),
    ("SELECT a, a FROM t", "no such column: a", None),  # twice there: which one?
]


@pytest.mark.parametrize(("sql", "message", "text", "offset"), MESSAGES, ids=[sql for sql, *_ in MESSAGES])
def test_a_message_is_split_into_text_and_position(sql, message, text, offset):
    found, place = parse_message(message, sql)
    assert (found, None if place is None else character_offset(sql, place)) == (text, offset)


@pytest.mark.parametrize(("sql", "message", "offset"), NAMES, ids=[sql for sql, *_ in NAMES])
def test_a_name_that_stands_there_once_is_where_the_error_is(sql, message, offset):
    assert locate(statement_error(Error(f"SQLite error: {message}"), sql), sql) == (message, offset, False)


@pytest.mark.parametrize("sql", ["SELECT 1", ""])
@pytest.mark.parametrize(
    "message",
    ["", "at (9, 9)", "x at (9, 99)", "y around L7:70: `zz`", "z (at offset 999)", 'near RP, "None": bad at (3, 4)'],
)
def test_a_position_outside_of_the_text_does_no_harm(message, sql):
    _, offset = parse_message(message, sql)
    assert caret(sql, character_offset(sql, offset or 0))
