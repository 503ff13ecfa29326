"""UPDATE and DELETE without WHERE are known by their tokens, and nothing else is taken for them."""

import pytest

from pipemagic.errors import ConfirmError, ReadOnlyError
from pipemagic.session.cell import parse_cell
from pipemagic.session.guards import check_reads, check_where
from pipemagic.session.snippets import Snippet, Snippets
from pipemagic.sql import parse

SWEEPS = [
    ("DELETE FROM t", "t"),
    ("delete from main . \"two words\"", 'main."two words"'),
    ("UPDATE t SET a = 1", "t"),
    ("UPDATE OR REPLACE `t` SET a = 'WHERE'", "`t`"),
    ("UPDATE t SET a = 1 -- WHERE a = 2\n, b = 2", "t"),
    ("UPDATE t SET a = (SELECT max(b) FROM u WHERE c = 1)", "t"),
    ('UPDATE t SET "where" = 1', "t"),
    ("UPDATE t SET a = u.a FROM (SELECT * FROM u WHERE a > 1) AS u", "t"),
    ("UPDATE t SET (a, b) = (1, 2) RETURNING a", "t"),
    ("DELETE FROM t RETURNING (SELECT 1 WHERE 1)", "t"),
    ("DELETE FROM t ORDER BY a LIMIT 5", "t"),
    ("DELETE FROM [where]", "[where]"),
    ("WITH x AS (SELECT 1 WHERE 1) DELETE FROM t", "t"),
    ("WITH RECURSIVE x(n) AS MATERIALIZED (SELECT 1), y AS NOT MATERIALIZED (SELECT 2) UPDATE t SET a = 1", "t"),
    ("WITH replace AS (SELECT 1) DELETE FROM t", "t"),
    ("WITH x AS (SELECT 1)\n/* WHERE */ DELETE FROM t", "t"),
]  # fmt: skip

HARMLESS = [
    "DELETE FROM t WHERE true",
    "UPDATE t SET a = 1 WHERE a IN (SELECT 1)",
    "UPDATE t SET a = u.a FROM u where t.b = u.b RETURNING *",
    "WITH x AS (SELECT 1) DELETE FROM t WHERE a IN x",
    "WITH delete_me AS (SELECT 1) SELECT * FROM delete_me",
    "WITH x AS (SELECT 1), update_it(a) AS (SELECT 2) SELECT * FROM x",
    "EXPLAIN DELETE FROM t",
    "EXPLAIN QUERY PLAN UPDATE t SET a = 1",
    "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM u; UPDATE t SET a = 1; END",
    "INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET a = 1",
    "REPLACE INTO t VALUES (1)",
    "SELECT 'DELETE FROM t'",
    "DROP TABLE t",
    "WITH",
    "WITH x AS (",
    "WITH x AS (SELECT 1",
    "WITH RECURSIVE",
    "DELETE FROM t WHERE",
    "",
]


@pytest.mark.parametrize(("text", "table"), SWEEPS)
def test_a_statement_over_a_whole_table_is_known(text, table):
    assert (parse(text).changes_every_row, parse(text).changed_table) == (True, table)


@pytest.mark.parametrize("text", HARMLESS)
def test_any_other_is_not(text):
    assert not parse(text).changes_every_row


def test_the_error_names_statement_line_and_table_and_what_to_type():
    with pytest.raises(ConfirmError) as caught:
        check_where(parse_cell("SELECT 1;\n\nUPDATE {t} SET a = :a;", {"t": "we`ird", "a": 1}, source="x.sql"))
    assert str(caught.value) == (
        "statement 2 of 2, x.sql, line 3: this UPDATE has no WHERE and changes all rows of `we``ird`; "
        "nothing was sent\n"
        "Hint: add --confirm after %%sql or %sql to run it anyway, or add a WHERE"
    )
    assert caught.value.code == "CONFIRM"


def test_the_place_is_that_of_the_statement_also_behind_a_saved_select():
    snippets = Snippets()
    snippets.save(Snippet("late", "SELECT 1 AS a"))
    cell = parse_cell("\nSELECT 1;\nDELETE FROM t RETURNING (SELECT a FROM late)", using=["late"], snippets=snippets)
    with pytest.raises(ConfirmError, match=r"^statement 2 of 2, line 3: this DELETE"):
        check_where(cell)
    with pytest.raises(ReadOnlyError, match=r"^statement 2 of 2, line 3: DELETE writes"):
        check_reads(cell, "db")


def test_a_where_that_is_a_part_of_a_name_is_explained():
    with pytest.raises(ConfirmError, match='SQLite reads "WHERE\xa0a" as a name') as caught:
        check_where(parse_cell("DELETE FROM t WHERE\xa0a = 1"))
    assert caught.value.hint == "SQLite reads NO-BREAK SPACE (U+00A0) after WHERE as a letter: write a space"
    with pytest.raises(ConfirmError, match='SQLite reads "t\u200bWHERE" as a name'):
        check_where(parse_cell("DELETE FROM t\u200bWHERE a = 1"))
    with pytest.raises(ConfirmError, match="deletes all rows of größe"):
        check_where(parse_cell("DELETE FROM größe"))
