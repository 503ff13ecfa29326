"""A line or cell that is only {query} runs the SQL in the variable query."""

from __future__ import annotations

import pytest

from pipemagic.errors import ConfirmError, ParameterError, StatementError, UsageError


@pytest.mark.parametrize(
    "cell",
    [
        "%sql {query}",
        "%sql  { query } ;",
        "%%sql\n{query}",
        "%%sql\n-- the SELECT of today\n{query}  /* one row */\n",
        "%sql --atomic --limit 5 {query}",
        "%%sql --quiet\n\n{query};\n",
    ],
)
def test_a_cell_that_is_only_a_name_in_braces_runs_its_text(db, cell):
    db("query, n = 'SELECT :n AS a', 7")
    assert db(cell).value["a"].tolist() == [7]


def test_results_of_a_query_in_a_variable_are_stored_explained_and_saved(db):
    db("query, n, t = 'SELECT 1 AS a; SELECT :n AS b', 7, 'numbers'")
    db("%sql kept << {query}")
    assert db.names["kept"]["b"].tolist() == [7]
    db("%sql --out first,second {query}")
    assert (db.names["first"]["a"].tolist(), db.names["second"]["b"].tolist()) == ([1], [7])
    db("query = 'SELECT :n AS c'")
    db("%sql --save base {query}")
    db("query = 'SELECT 0'")  # the saved text stays
    assert db("%sql --with base SELECT c + 1 AS d FROM base").value["d"].tolist() == [8]
    assert ":n INTEGER" in db("query = 'SELECT :n AS c'\n%sql --dry-run {query}").out
    assert "scan" in str(db("query = 'SELECT * FROM sqlite_schema'\n%sql --explain {query}").value).lower()
    db("query = 'SELECT {{ n }} AS {{ t | name }}'")
    assert db("%sql --jinja {query}").value["numbers"].tolist() == [7]


def test_the_variable_is_one_of_the_values_or_of_the_function(db):
    db("query, own = 'SELECT :n AS a', {'n': 1}")
    assert db("%sql --params own {query}").value["a"].tolist() == [1]
    assert db("own['query'] = 'SELECT 2 AS a'\n%sql --params own {query}").value["a"].tolist() == [2]
    db("def run(text):\n    value = %sql --params own {text}\n    return value")
    assert db("run('SELECT 3 AS a, :n AS b')").value.values.tolist() == [[3, 1]]


def test_elsewhere_it_is_a_quoted_name(db):
    db("table = 'SELECT 1'\n%sql CREATE TABLE {table} (a)")
    assert db("%sql SELECT * FROM {table}").value.columns.tolist() == ["a"]
    with pytest.raises(StatementError, match="syntax error"):
        raise db.fails("%sql {table}; SELECT 1").error


@pytest.mark.parametrize(
    ("assigned", "cell", "message", "hint"),
    [
        (
            "query = 3",
            "%sql {query}",
            "line 1: {query} must be SQL in a str, not int",
            "a line that is only {query} runs the SQL text in that variable",
        ),
        (
            "import pathlib; query = pathlib.PurePosixPath('q.sql')",
            "%sql {query}",
            "line 1: {query} must be SQL in a str, not PurePosixPath",
            "to run a file: %sql --file q.sql",
        ),
        (
            "query = '-- later\\n;'",
            "%sql {query}",
            "line 1: {query} contains no SQL",
            "assign a statement: query = 'SELECT ...'",
        ),
        (
            "query = 'flights'",
            "%sql {query}",
            "line 1: {query} contains a name, not SQL: flights",
            "write SELECT * FROM {query}",
        ),
        (
            "query = '\"my flights\"'",
            "%sql {query}",
            'line 1: {query} contains a name, not SQL: "my flights"',
            "write SELECT * FROM {query}",
        ),
        (
            "query = 'SELECT 1'",
            "%sql {qurey}",
            "line 1: {qurey} has no value: name 'qurey' is not defined",
            "did you mean {query}?",
        ),
        (
            "query = 'SELECT 1'",
            "%sql $query",
            "line 1: $query is a value, not SQL",
            "to run the SQL in the variable query, write {query}",
        ),
        (
            "query = 'SELECT 1'",
            "%%sql\n-- today\n:query",
            "line 3: :query is a value, not SQL",
            "to run the SQL in the variable query, write {query}",
        ),
        (
            "query = 'SELECT 1,\\n:no'",
            "%sql {query}",
            "query, line 2: :no has no value: name 'no' is not defined",
            "assign it first: no = ..., or add the key to --params",
        ),
    ],
)
def test_a_variable_without_sql_is_an_error(db, assigned, cell, message, hint):
    db(assigned)
    error = db.fails(cell).error
    assert isinstance(error, ParameterError)
    assert (error.message, error.hint) == (message, hint)


def test_errors_name_the_variable_and_its_line(db):
    db("query = 'SELECT 1;\\n\\nSELECT nope FROM sqlite_schema'")
    error = db.fails("%%sql\n\n{query}").error
    assert error.message.splitlines()[1:3] == [
        "statement 2 of 2, query, line 3:", "  SELECT nope FROM sqlite_schema"
    ]  # fmt: skip
    db("%sql CREATE TABLE t (x)\nquery = 'DELETE FROM t'")
    with pytest.raises(ConfirmError, match=r"^query, line 1: this DELETE has no WHERE"):
        raise db.fails("%sql {query}").error
    db("%sql --confirm {query}")


def test_an_address_in_a_variable_is_not_shown(db):
    db("query = 'libsql://user:secret@host/x'")
    failed = db.fails("%sql {query}")
    assert isinstance(failed.error, UsageError)
    assert "secret" not in failed.out + failed.err


def test_a_name_in_the_text_names_a_result(db):
    db("query = '-- name: late\\nSELECT 5 AS a'\n%sql {query}")
    assert db.names["late"]["a"].tolist() == [5]
    db("query = 'SELECT 6 AS a; SELECT 7 AS a'")
    cell = db("%%sql\n-- name: first\n{query}  -- { is in a comment")
    assert db.names["first"]["a"].tolist() == [6]
    assert cell.value["a"].tolist() == [7]
    db("query = 'COMMIT'")  # one word that is a statement
    with pytest.raises(StatementError):
        raise db.fails("%sql {query}").error


def test_a_file_with_a_name_in_braces_is_no_variable(db, tmp_path):
    (tmp_path / "q.sql").write_text("{query}")
    db("query = 'SELECT 1'")
    with pytest.raises(StatementError, match="syntax error"):
        raise db.fails(f"%sql --file {tmp_path / 'q.sql'}").error
