"""Names of columns without the comments of their expressions, compared with those that SQLite gives."""

from __future__ import annotations

import apsw
import pytest

from pipemagic.sql import without_comments


def names(statement: str) -> list[str]:
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
    assert names(statement) == expected


def test_a_name_that_is_no_text_of_the_statement_stays():
    assert without_comments("n /* of a view */", "SELECT * FROM v") == "n /* of a view */"
