"""Names of tables as people write them; names of result columns without comments."""

from __future__ import annotations

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.errors import UnsupportedError
from pipemagic.sql import quote, table_name, without_comments


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("sales", "sales"), ("main.sales", "sales"), ("MAIN . sales", "sales"), ('"main"."sales"', "sales"),
        ("main.my sales", "my sales"), ("my sales", "my sales"), ('"sales"', "sales"), ("[my sales]", "my sales"),
        ("`main`.[sales]", "sales"), ('"main.sales"', "main.sales"), ('main."main.sales"', "main.sales"),
        ('"we""ird"', 'we"ird'), ('we"ird', 'we"ird'), ('"open', '"open'), ("a.b", "a.b"), ("main.", "main."),
        (".main", ".main"), ("", ""), ("maintenance.x", "maintenance.x"),
    ],
)  # fmt: skip
def test_the_name_of_an_existing_table(text, name):
    assert table_name(text) == name


@pytest.mark.parametrize("text", ["public.sales", "flights.csv", '"public"."sales"'])
def test_a_new_table_has_no_point_without_quotes(text):
    with pytest.raises(UnsupportedError, match="does not exist"):
        table_name(text, new=True)


@pytest.mark.parametrize("text", ["temp.t", "TEMP.t", '"temp"."t"'])
@pytest.mark.parametrize("new", [True, False])
def test_temporary_tables_are_refused(text, new):
    with pytest.raises(UnsupportedError, match="is a temporary table, which only cells can see"):
        table_name(text, new=new)


@given(st.text(st.characters(exclude_characters="\0"), min_size=1))
def test_every_name_can_be_written_in_quotes(name):
    for new in (False, True):
        assert table_name(quote(name), new=new) == name
        assert table_name(f"main.{quote(name)}", new=new) == name


# -- names of result columns, compared with those that SQLite gives


def names_of(statement: str) -> list[str]:
    """Return the names that SQLite gives to the columns of a statement, without comments."""
    connection = apsw.Connection(":memory:")
    connection.execute('CREATE TABLE t (carrier, n, "a -- b"); INSERT INTO t VALUES (1, 2, 3)')
    cursor = connection.cursor()
    cursor.execute(statement)
    return [without_comments(column[0], statement) for column in cursor.get_description()]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT carrier, -- the code\n n+1 FROM t", ["carrier", "n+1"]),
        ("SELECT n + 1 -- the code\n, carrier -- b \n FROM t", ["n + 1", "carrier"]),
        ("SELECT /* a */ n + /* b */ 1 -- end\n FROM t", ["n + 1"]),
        ("SELECT count(-- all\n *), max( n /* x */ , 1 )FROM t", ["count(*)", "max( n, 1 )"]),
        ("SELECT n/**/+/**/1 FROM t", ["n + 1"]),
        (
            "SELECT CASE WHEN n > 1 -- many\n THEN 'a'\n ELSE 'b' END FROM t",
            ["CASE WHEN n > 1 THEN 'a'\n ELSE 'b' END"],
        ),
        ("SELECT * FROM (SELECT n+1 /* c */, 2 FROM t)", ["n+1", "2"]),
        ("WITH a AS (SELECT n+1 /* c */ FROM t) SELECT * FROM a", ["n+1"]),
        ("INSERT INTO t (n) VALUES (1) RETURNING n+1 /* v */, carrier", ["n+1", "carrier"]),
        ("SELECT 1+1 /* not closed", ["1+1"]),
        # no comments:
        ("SELECT 'a -- b', '/* c */' || n FROM t", ["'a -- b'", "'/* c */' || n"]),
        ('SELECT "a -- b", n AS "/* n */" FROM t', ["a -- b", "/* n */"]),
        ("SELECT * FROM t -- all", ["carrier", "n", "a -- b"]),
        ("SELECT n+1\n  , n  +  2 FROM t", ["n+1", "n  +  2"]),
        ('SELECT "n+1 -- c" FROM (SELECT n AS "n+1 -- c", \'n+1 -- c\' FROM t)', ["n+1 -- c"]),
    ],
)
def test_comments_are_not_part_of_names(statement, expected):
    assert names_of(statement) == expected


def test_a_name_that_is_no_text_of_the_statement_stays():
    assert without_comments("n /* of a view */", "SELECT * FROM v") == "n /* of a view */"
