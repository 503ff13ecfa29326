"""%%sql and %sql in a shell, on both servers: returned and stored values, output, errors."""

from __future__ import annotations

import pandas as pd
import pytest

from pipemagic.errors import SessionError, StatementError, UsageError


def test_a_cell_returns_a_frame(db):
    cell = db("%%sql\nSELECT 1 AS a, 'x' AS b")
    assert isinstance(cell.value, pd.DataFrame)
    assert cell.value.to_dict("list") == {"a": [1], "b": ["x"]}
    assert cell.lines == []


def test_a_line_returns_a_frame(db):
    db("frame = %sql SELECT 1 AS a")
    assert db.names["frame"].to_dict("list") == {"a": [1]}


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_integers_of_64_bits_are_exact_beside_nulls(db):
    db("big, small = 2**53 + 1, -2**63")
    frame = db("%%sql\nSELECT :big AS i UNION ALL SELECT NULL UNION ALL SELECT $small").value
    assert str(frame["i"].dtype) == "Int64"
    assert frame["i"].tolist() == [2**53 + 1, pd.NA, -(2**63)]
    assert "9007199254740993" in repr(frame)


def test_rows_affected_are_one_quiet_line(db):
    assert db("%sql CREATE TABLE t (a)").lines == ["Done."]
    assert db("%sql INSERT INTO t VALUES (1)").lines == ["1 row affected."]
    assert db("%sql INSERT INTO t VALUES (2), (3)").lines == ["2 rows affected."]
    db("%%sql\nUPDATE t SET a = 0 WHERE true;\nDELETE FROM t WHERE true")
    assert db("%sql DELETE FROM t WHERE true").lines == ["0 rows affected."]
    assert db("%sql DELETE FROM t WHERE true").value is None


@pytest.mark.parametrize(
    ("cell", "stored"),
    [
        ("%%sql -o out\nSELECT 1 AS a", [1]),
        ("%%sql --out out\nSELECT 1 AS a", [1]),
        ("%sql -o out SELECT 2 AS a", [2]),
        ("%sql out << SELECT 3 AS a", [3]),
        ("%%sql out <<\nSELECT 4 AS a", [4]),
        ("%%sql\nout << SELECT 5 AS a", [5]),
        ("%sql out<<SELECT 6 AS a", [6]),
    ],
)
def test_a_frame_is_stored_in_a_variable_and_not_returned(db, cell, stored):
    done = db(cell)
    assert done.value is None
    assert db.names["out"]["a"].tolist() == stored


def test_a_variable_is_none_if_no_statement_returns_columns(db):
    db("out = 1")
    cell = db("%%sql -o out\nCREATE TABLE t (a)")
    assert cell.lines == ["Done.", "out is None: no statement returned columns."]
    assert db.names["out"] is None


def test_parameters_in_a_function_are_its_variables(db):
    db("def ask(inner):\n    return get_ipython().run_line_magic('sql', 'SELECT :inner AS a')\nframe = ask(42)")
    assert db.names["frame"]["a"].tolist() == [42]


def test_braces_and_dollars_are_not_expanded(db):
    db("x = 1")
    assert db("%sql SELECT '{x}' AS a, $x AS b").value.values.tolist() == [["{x}", 1]]


def test_an_error_is_a_few_lines_with_the_line_of_the_cell(db):
    cell = db.fails("%%sql\nSELECT 1;\n\nSELECT nope;\nSELECT 3")
    assert isinstance(cell.error, StatementError)
    assert cell.out == (
        f"{cell.error.code}: no such column: nope\n"
        "statement 2 of 3, line 4:\n"
        "  SELECT nope;\n"
        "         ^\n"
        "Statement 3 did not run.\n"
    )
    assert cell.err == ""


def test_the_line_of_the_magic_may_contain_sql(db):
    assert db("%%sql SELECT 1 AS a,\n2 AS b").value.to_dict("list") == {"a": [1], "b": [2]}
    assert "line 1:" in db.fails("%%sql SELEC 1;\nSELECT 2").out
    assert db("%%sql -- a comment\nSELECT 1 AS a").value["a"].tolist() == [1]


def test_close_and_on(db):
    db("%%sql --close\nSELECT 1")
    assert db("%pipedb status").lines[0].endswith("current): no server-side connection; no transaction")
    db("%sql BEGIN")
    assert db("%sql --close SELECT 1").lines == ["The open transaction was rolled back."]
    assert isinstance(db.fails("%sql --on nowhere SELECT 1").error, SessionError)
    assert db("%sql --on db SELECT 1 AS a").value["a"].tolist() == [1]


def test_a_comment_may_follow_the_magic(db):
    assert db("%%sql --\nSELECT 1 AS a").value["a"].tolist() == [1]
    assert db("%%sql --quiet -- all of them\nSELECT 1 AS a").value["a"].tolist() == [1]


def test_a_column_of_mixed_types_is_reported_once(db):
    cell = db("%sql SELECT 1 AS a UNION ALL SELECT 'x'")
    assert cell.lines == [
        "Column a has INTEGER and TEXT values, so its dtype is object. Use CAST(a AS ...) to get one type."
    ]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%sql --quit\nSELECT 1", "unknown option --quit\n"),
        ("%sql", "no SQL to run"),
        ("%%sql main\nSELECT 1", "main is not SQL\n"),
        ("%%sql sqlite://\nSELECT 1", "%%sql does not accept an address"),
        ("%%sql -o 1x\nSELECT 1", "'1x' is not a valid variable name"),
        ("%sql -o a b << SELECT 1", "--out a and b << both name a variable"),
    ],
)
def test_wrong_syntax_is_a_usage_error(db, cell, message):
    done = db.fails(cell)
    assert isinstance(done.error, UsageError)
    assert f"USAGE: {message}" in done.out


def test_without_a_connection_the_error_shows_how_to_connect(shell):
    cell = shell.fails("%%sql\nSELECT 1")
    assert cell.out == (
        "SESSION: no database is connected\n"
        "Hint: %pipedb connect starts a database on this machine, %pipedb connect ADDRESS connects to another\n"
    )


@pytest.mark.parametrize(
    ("cell", "comment"),
    [
        ("%%sql -o x # the total\nSELECT 1", "# the total"),
        ("%%sql # the total\nSELECT 1", "# the total"),
        ("%%sql #| label: total\nSELECT 1", "#| label: total"),
        ("%sql # the total", "# the total"),
        ("%sql --quiet # SELECT 1", "# SELECT 1"),
        ("%pipedb status  # where am I?", "# where am I?"),
        ("%pipedb status # don't know", "# don't know"),
        ("%pipedb tables # now", "# now"),
    ],
)
def test_a_magic_line_takes_no_comments(db, cell, comment):
    assert f"comments are not allowed on a magic line\nHint: remove {comment}" in db.fails(cell).out
