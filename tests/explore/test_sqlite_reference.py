"""The data files of SQLite's keywords and functions, and the quoting of names."""

from __future__ import annotations

from contextlib import closing

import apsw
import pytest

from pipemagic.explore import sqlite_reference
from pipemagic.explore.sqlite_reference import FUNCTIONS, KEYWORDS, quote_if_needed
from pipemagic.service.sqlite import functions


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_a_description(name):
    function = FUNCTIONS[name]
    assert function.signature.startswith(f"{name}(")
    assert function.description.startswith("Return ")
    assert function.description.endswith(".")
    assert function.kind in ("aggregate", "window", "function", "table function")


def test_functions_without_arguments():
    assert not FUNCTIONS["random"].takes_arguments
    assert FUNCTIONS["count"].takes_arguments


def test_the_functions_exist_in_the_embedded_service():
    with closing(apsw.Connection(":memory:")) as connection:
        functions.install(connection)
        rows = connection.execute("SELECT DISTINCT name FROM pragma_function_list").fetchall()
    table_functions = {"generate_series", "json_each", "json_tree"}
    assert FUNCTIONS.keys() <= {name for (name,) in rows} | table_functions


def test_the_keywords_are_those_of_sqlite():
    assert set(apsw.keywords) == KEYWORDS


def test_each_list_holds_keywords():
    listed = [sqlite_reference.PHRASES, sqlite_reference.STARTS, sqlite_reference.EXPRESSION,
              *sqlite_reference.NEXT.values(), *sqlite_reference.AFTER.values()]  # fmt: skip
    assert {word for phrases in listed for phrase in phrases for word in phrase.split()} <= KEYWORDS
    assert sqlite_reference.UNRESERVED <= KEYWORDS
    assert sqlite_reference.BEFORE_EXPRESSION <= KEYWORDS


@pytest.mark.parametrize("name", ["city", "größe", "key", "select", "a b", 'we"ird', "1a", "", "a\nb", "😀"])
def test_names_are_quoted_if_needed(name):
    plain = name in ("city", "größe", "key", "😀")
    database = apsw.Connection(":memory:")
    database.execute(f"CREATE TABLE t ({quote_if_needed(name)})")
    assert [row[1] for row in database.execute("PRAGMA table_info(t)")] == [name]
    assert (quote_if_needed(name) == name) == plain
