"""What a statement does, from its tokens: the verb behind its WITH, the table it changes, its outermost words."""

from __future__ import annotations

import pytest

from pipemagic.client.heads import head


@pytest.mark.parametrize(
    ("text", "verb", "table"),
    [
        ("INSERT INTO t VALUES (1)", "INSERT", "t"),
        ("INSERT OR REPLACE INTO main.t(a) VALUES (1)", "INSERT", "main.t"),
        ("REPLACE INTO [a b] SELECT * FROM u", "REPLACE", "[a b]"),
        ("UPDATE t SET a = 1", "UPDATE", "t"),
        ('UPDATE OR IGNORE temp . "t""t" AS x SET a = 1', "UPDATE", 'temp."t""t"'),
        ("DELETE FROM /* u */ t WHERE a", "DELETE", "t"),
        ("WITH a(x) AS (SELECT ')'), b AS NOT MATERIALIZED (SELECT 2) DELETE FROM t", "DELETE", "t"),
        ("WITH a AS (SELECT replace(x, 1, 2) FROM u) SELECT * FROM a", "SELECT", ""),
        ("EXPLAIN DELETE FROM t", "EXPLAIN", ""),
        ("CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM u; END", "CREATE", ""),
        ("DELETE", "DELETE", ""),
        ("", "", ""),
    ],
)
def test_the_verb_and_the_table_that_it_changes(text, verb, table):
    assert (head(text).verb, head(text).table) == (verb, table)


def test_outer_words_stand_in_no_parentheses_and_in_no_quotes():
    text = """UPDATE t SET a = (SELECT 1 WHERE 2), "limit" = 'ORDER', b = [GROUP] RETURNING a -- HAVING"""
    assert head(text).outer_words() - {""} == {"UPDATE", "T", "SET", "A", "B", "RETURNING"}
