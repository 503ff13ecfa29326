"""Parameters and names: what is sent for what is written. No server is asked here but SQLite itself."""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic import sql
from pipemagic.errors import ParameterError
from pipemagic.hrana.values import decode
from pipemagic.session.cell import parse_cell


@pytest.fixture
def db():
    with closing(sqlite3.connect(":memory:")) as db:
        yield db


def sent(text, values=None):
    """Return the text that is sent for one statement, and its arguments as Python values."""
    (stmt,) = parse_cell(text, values or {}).stmts
    return stmt.sql, {arg.name: decode(arg.value) for arg in stmt.named_args or []}


def plain(text):
    return [(token.kind, token.text) for token in sql.tokens(text) if token.kind not in ("space", "comment")]


@pytest.mark.parametrize(
    "ids",
    [
        [1, 2, 3], (1, 2, 3), range(1, 4), deque([1, 2, 3]), {1: "a", 2: "b", 3: "c"}.keys(),
        np.array([1, 2, 3]), pd.Series([1, 2, 3], index=[7, 8, 9]), pd.Index([1, 2, 3]), {1, 2, 3},
    ],
    ids=lambda ids: type(ids).__name__,
)  # fmt: skip
def test_a_list_after_in_is_bound_value_by_value(ids):
    one_each = {":ids_1": 1, ":ids_2": 2, ":ids_3": 3}
    assert sent("SELECT 1 IN :ids", {"ids": ids}) == ("SELECT 1 IN (:ids_1, :ids_2, :ids_3)", one_each)
    assert sent("SELECT 1 NOT IN ( :ids )", {"ids": ids}) == ("SELECT 1 NOT IN ( :ids_1, :ids_2, :ids_3 )", one_each)


def test_a_list_used_twice_is_bound_once_and_its_names_are_free():
    text, args = sent("SELECT :ids_1, 1 IN :ids, 2 in/**/:ids", {"ids": [5], "ids_1": "x"})
    assert text == "SELECT :ids_1, 1 IN (:ids__1), 2 in/**/(:ids__1)"
    assert args == {":ids_1": "x", ":ids__1": 5}


def test_an_empty_list_is_an_empty_in():
    assert sent("SELECT 1 IN :a, 1 NOT IN (:a)", {"a": []}) == ("SELECT 1 IN (), 1 NOT IN ()", {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT\n:ids",
            r"line 2: :ids contains 3 values \(list\)\nHint: use a list after IN: x IN :ids; .*json.dumps",
        ),
        ("SELECT max(:ids)", "line 1: :ids contains 3 values"),
        ("SELECT 1 IN (5, :ids)", "line 1: :ids contains 3 values"),
        ("SELECT 1 IN (:ids, 5)", "line 1: :ids contains 3 values"),
        (
            "SELECT 1 IN :one",
            r"line 1: :one is one value \(int\), and IN requires a list\nHint: write = :one, or IN \(:one\)",
        ),
        ("SELECT 1 IN :text", r"line 1: :text is one value \(str\), and IN requires a list"),
        ("SELECT 1 IN :deep", r"line 1: parameter :deep\[1\]: cannot convert a value of type list to SQL"),
        (
            "SELECT 1 IN :frame",
            r"line 1: :frame is one value \(DataFrame\), and IN requires a list\nHint: use a list, tuple",
        ),
        (
            "SELECT $1",
            r"line 1: \$1 has no value: .*\nHint: no variable can have that name: write a name such as :x, or",
        ),
        (
            "VALUES (1,\nElif.x+y@mail.example-1.org)",
            r"line 2: text with @ must be in quotes\nHint: write it as 'name@example\.org'$",
        ),
        ("SELECT elif@one", "line 1: text with @ must be in quotes\n"),
        ("SELECT 1 IN@one", "line 1: @one is one value"),
        ("SELECT 1+@none, elif @two", "line 1: @none has no value"),
        ("SELECT :map", "line 1: parameter :map: cannot convert a value of type dict to SQL"),
    ],
)
def test_a_list_in_another_place_is_an_error_that_names_it(text, message):
    values = {"ids": [1, 2, 3], "one": 1, "text": "abc", "deep": [1, [2]], "map": {}, "frame": pd.DataFrame()}
    with pytest.raises(ParameterError, match=message):
        parse_cell(text, values)


def test_a_long_list_goes_as_one_json_text_where_that_is_exact():
    ids = [2**63 - 1, -(2**63), None, "é\0'\"", *range(3000)]
    text, args = sent("SELECT 1 IN :ids", {"ids": ids})
    assert text == "SELECT 1 IN (SELECT +value FROM temp.json_each(:ids))"
    assert json.loads(args[":ids"]) == ids
    text, args = sent("SELECT 1 IN (:ids)", {"ids": [0.5] * 3000})
    assert len(args) == 3000


def test_more_values_than_sqlite_takes_are_refused_if_json_would_change_them():
    with pytest.raises(
        ParameterError, match=r"line 1: :x has 40000 values, and a statement can have 32766 parameters\nHint: load them"
    ):
        parse_cell("SELECT 1 IN :x", {"x": np.arange(40000.0)})
    assert len(sent("SELECT 1 IN :x", {"x": np.arange(32766.0)})[1]) == 32766
    with pytest.raises(ParameterError, match=r"parameter :x\[2000\]: the integer"):
        parse_cell("SELECT 1 IN :x", {"x": [*range(2000), 2**64]})


@pytest.mark.parametrize("form", ["short", "json"])
@pytest.mark.parametrize("column", ["INTEGER", "TEXT", "REAL", "NUMERIC", "BLOB", "TEXT COLLATE NOCASE"])
def test_both_ways_of_a_list_find_the_same_rows(db, form, column, monkeypatch):
    """Affinity and collation are those of the column, as with a list that is written out."""
    monkeypatch.setattr("pipemagic.session.parameters.JSON_FROM", 0 if form == "json" else 1000)
    db.execute(f"CREATE TABLE t (x {column})")
    db.executemany("INSERT INTO t VALUES (?)", [(1,), ("1",), (2.0,), ("2.0",), ("a",), ("A",), (None,), (10**16,)])
    for ids in ([1], ["1"], [2], ["2.0"], ["A"], [None], [1, None], [], [10**16, "a"], ["1", 1]):
        for word in ("IN", "NOT IN"):
            text, args = sent(f"SELECT rowid FROM t WHERE x {word} :ids", {"ids": ids})
            written = ", ".join("NULL" if id_ is None else repr(id_) for id_ in ids)
            expected = db.execute(f"SELECT rowid FROM t WHERE x {word} ({written})").fetchall()
            named = {name[1:]: value for name, value in args.items()}
            assert db.execute(text, named).fetchall() == expected, (word, ids)


@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(), st.binary(), st.none()), max_size=20))
def test_values_never_become_text(ids):
    text, args = sent("SELECT 'a:ids' IN :ids -- :ids", {"ids": ids})
    expected = [("word", "SELECT"), ("string", "'a:ids'"), ("word", "IN"), ("op", "(")]
    for number in range(1, len(ids) + 1):
        expected += [*([("op", ",")] if number > 1 else []), ("param", f":ids_{number}")]
    assert plain(text) == [*expected, ("op", ")")]
    assert list(args.values()) == ids
    with closing(sqlite3.connect(":memory:")) as db:
        found = db.execute(f"SELECT {', '.join(args) or 'NULL'}", {k[1:]: v for k, v in args.items()})
        assert list(found.fetchone()) == (ids or [None])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ':a', \"b:c\", `d:e`, [f:g]", "SELECT 1 -- :a\n, 2", "SELECT /* :a @b $c {d} */ 1",
        "SELECT json_extract(x, '$.a.b') FROM t", "SELECT x -> '$.a' ->> '{b}'", "SELECT '{\"a\": {\"b\": 1}}'",
        "SELECT '12:30:00', time('now', ':a')", "SELECT x'3a61', '{name}', \"{name}\", [{name}], `{name}`",
        "SELECT a$b FROM t", "SELECT substr(x, 1, 2)",
    ],
)  # fmt: skip
def test_text_that_looks_like_a_parameter_is_not_changed(text):
    assert sent(text) == (text, {})


def test_casts_of_other_databases_are_no_parameters_and_slices_are_left_alone():
    with pytest.raises(ParameterError, match=r"line 2: SQLite has no ::text\nHint: write CAST\(x AS TEXT\)"):
        parse_cell("SELECT 1,\n  x::text", {"text": 1})
    assert sent("SELECT a[1:2] FROM t") == ("SELECT a[1:2] FROM t", {})  # a name in brackets


# -- names


NAMES = ["t", "two words", 'we"ird', "back`tick", "[x]", "select", "é", "🚕", "a;b", "--", "'", "a\nb", "{x}", ":y"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_quoted_word(db, name):
    text, _ = sent("CREATE TABLE {table} ({columns})", {"table": name, "columns": [name, "other"]})
    db.execute(text)
    assert db.execute("SELECT name FROM sqlite_master").fetchall() == [(name,)]
    text, _ = sent("SELECT t.{c} FROM main.{table} AS t", {"table": name, "c": name})
    assert db.execute(text).description[0][0] == name


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_every_name_stays_one_token(name):
    text, args = sent("SELECT 1 AS { n }, 2", {"n": name})
    kinds = plain(text)
    assert [kind for kind, _ in kinds] == ["word", "number", "word", "quoted", "op", "number"]
    assert kinds[3][1] == "`" + name.replace("`", "``") + "`"
    assert args == {}


def test_a_misspelt_column_is_an_error_and_no_text(db):
    text, _ = sent("SELECT {c} FROM t", {"c": "nope"})
    db.execute("CREATE TABLE t (a)")
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        db.execute(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT\n{citi}", r"line 2: \{citi\} has no value: name 'citi' is not defined\nHint: did you mean \{city\}\?"),
        ("SELECT {number}", r"\{number\} must be a name, not int"),
        ("SELECT {empty}", r"\{empty\} is ''"),
        ("SELECT {nul}", r"\{nul\} is 'a\\x00b'"),
        ("SELECT {none}", r"\{none\} must be a name, not NoneType"),
        ("SELECT {half}", r"\{half\} is .* not valid Unicode"),
        ("SELECT {nothing}", r"\{nothing\} is an empty list"),
        ("SELECT {mixed}", r"\{mixed\} must contain names, not int"),
        ("SELECT t.{two}", r"\{two\} contains several names, and a dot requires one"),
        ("SELECT {two}.x", r"\{two\} contains several names"),
        ("SELECT * FROM t{city}", r"\{city\} must be separated by spaces"),
        ("SELECT * FROM {city}s", r"\{city\} must be separated by spaces"),
        ("SELECT * FROM {city}{city}", r"\{city\} must be separated by spaces"),
        ("SELECT {city.name}", "expected a name in braces\nHint: write {table}"),
        ("SELECT {}", "expected a name in braces"),
        ("SELECT {{ city }}", r"expected a name in braces \(templates require %%sql --jinja\)"),
        ("SELECT {% if x %}", r"expected a name in braces .templates require %%sql --jinja"),
        ("SELECT {city", "expected a name in braces"),
        ("SELECT {", "expected a name in braces"),
    ],
)
def test_a_brace_that_means_no_name_is_an_error(text, message):
    values = {
        "city": "Lom", "number": 5, "empty": "", "nul": "a\0b", "none": None, "half": "\ud83d", "nothing": [],
        "mixed": ["a", 1], "two": ["a", "b"],
    }  # fmt: skip
    with pytest.raises(ParameterError, match=message):
        parse_cell(text, values)
