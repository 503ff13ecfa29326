"""From text to statements with arguments."""

import sqlite3

import pytest

from pipemagic.errors import ParameterError, SessionError
from pipemagic.hrana.messages import NamedArg, Stmt
from pipemagic.hrana.values import Integer, Text
from pipemagic.session.cell import parse_cell


def test_each_statement_gets_its_own_parameters():
    cell = parse_cell("SELECT :a, @b; SELECT $a; SELECT 1", {"a": 1, "b": "x", "unused": object()})
    assert list(cell.stmts) == [
        Stmt("SELECT :a, @b", named_args=[NamedArg(":a", Integer("1")), NamedArg("@b", Text("x"))]),
        Stmt("SELECT $a", named_args=[NamedArg("$a", Integer("1"))]),
        Stmt("SELECT 1"),
    ]


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing\n;;", "/* SELECT 1 */"])
def test_a_cell_without_sql_is_refused(text):
    with pytest.raises(SessionError, match="no SQL"):
        parse_cell(text)


@pytest.mark.parametrize("sql", ["SELECT ?", "SELECT ?1"])
def test_parameters_without_a_name_are_refused_with_a_hint(sql):
    with pytest.raises(ParameterError, match=r"line 2: the parameter .* has no name\nHint: write :name"):
        parse_cell(f"\n{sql}", {})


def test_the_error_of_a_name_without_a_value_has_its_line_and_similar_names():
    with pytest.raises(ParameterError, match=r"line 3: :citi has no value.*\nHint: did you mean :city\?"):
        parse_cell("SELECT 1;\n\nSELECT :citi", {"city": 1, 7: 2})
    with pytest.raises(ParameterError, match=r"assign it first: x = \.\.\., or add the key to --params"):
        parse_cell("SELECT :x", {})
    with pytest.raises(ParameterError, match=r"pass params=\{"):
        parse_cell("SELECT :x")


def test_a_value_that_sql_cannot_hold_is_refused_by_name():
    with pytest.raises(ParameterError, match=":rows"):
        parse_cell("SELECT :rows", {"rows": [1, 2]})


def test_colons_in_strings_and_comments_are_no_parameters():
    assert parse_cell("SELECT ':a' -- :b", {}).stmts == (Stmt("SELECT ':a'"),)


# -- queries with a limit


def limited(text, rows):
    return parse_cell(text).limited(rows - 1).sent(0)


@pytest.fixture(scope="module")
def numbers():
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE n (a INTEGER)")
    database.executemany("INSERT INTO n VALUES (?)", [(number,) for number in range(20)])
    yield database
    database.close()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM n",
        "SELECT a FROM n ORDER BY a DESC",
        "SELECT a, a, a AS A FROM n WHERE a > 1 ORDER BY 1",
        "SELECT a FROM n LIMIT 3",
        "SELECT a FROM n LIMIT 3 OFFSET 2",
        "SELECT a FROM n LIMIT 2, 3",
        "SELECT a FROM n LIMIT 2, 30 -- of them",
        "SELECT a FROM n LIMIT -1",
        "SELECT a FROM n LIMIT 30 -- many\n OFFSET 2",
        "SELECT a FROM n LIMIT 1 + (SELECT 10) OFFSET (SELECT 1)",
        "SELECT a FROM n LIMIT '4'",
        "SELECT a FROM n LIMIT 4.0",
        "SELECT a FROM n LIMIT 0",
        "SELECT a FROM n UNION ALL SELECT a + 100 FROM n ORDER BY a DESC",
        "SELECT a FROM n EXCEPT SELECT 3 ORDER BY 1 LIMIT 12",
        "WITH c AS (SELECT a FROM n LIMIT 9) SELECT * FROM c, c AS d",
        "WITH c AS (SELECT a FROM n LIMIT 9) SELECT * FROM c",
        "SELECT * FROM (SELECT a FROM n LIMIT 9)",
        "SELECT 'LIMIT 1', \"a\" FROM n /* LIMIT 1 */",
        "SELECT a FROM n -- LIMIT 1",
        "VALUES (1), (2), (3)",
        "SELECT 1 UNION ALL VALUES (2), (3)",
        "SELECT count(*) FROM n GROUP BY a % 7 HAVING a > 1",
        "SELECT a, sum(a) OVER (ORDER BY a ROWS 2 PRECEDING) FROM n WINDOW w AS (ORDER BY a)",
    ],
)
@pytest.mark.parametrize("rows", [0, 3, 100])
def test_a_limited_query_gives_the_first_rows_of_the_same(numbers, text, rows):
    whole, fewer = numbers.execute(text), numbers.execute(limited(text, rows))
    assert [column[0] for column in fewer.description] == [column[0] for column in whole.description]
    found = fewer.fetchall()
    assert found[:rows] == whole.fetchall()[:rows]
    if "VALUES" not in text and "'4'" not in text and "4.0" not in text:
        assert len(found) <= rows


def test_an_error_in_a_limit_stays_one(numbers):
    for limit in ("'x'", "NULL", "2.5"):
        with pytest.raises(sqlite3.Error, match="datatype mismatch"):
            numbers.execute(limited(f"SELECT a FROM n LIMIT {limit}", 5))
