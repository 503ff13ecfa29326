"""regexp_replace: the results of DuckDB, in bounded time."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing

import apsw
import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from service_calls import CLOSE, execute

from pipemagic.service.sqlite import functions

CALL = "SELECT regexp_replace(?, ?, ?, ?)"
items = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\s", r"\b", "^", "$", "x?", "a*", "b+?", "c{2}", r"\pL", "é"]
)
patterns = st.recursive(
    st.lists(items, max_size=3).map("".join),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("|".join), inner.map("({})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}", "*?"])).map("(?:{0[0]}){0[1]}".format),
        st.tuples(inner, inner).map("".join),
    ),
    max_leaves=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def duck():
    with duckdb.connect() as connection:

        def replace(*arguments):
            try:
                return connection.execute("SELECT regexp_replace(?, ?, ?, ?)", arguments).fetchone()[0]
            except duckdb.Error:
                return "error"

        yield replace


@given(
    st.text("abcxé1 -\n", max_size=8),
    patterns,
    st.sampled_from([r"<\0>", "", "-", r"\\", r"\1", r"\&", "\\"]),
    st.sampled_from(["", "g", "i", "gi", "s", "gis", "x"]),
)
@example("abxd", "x*", "-", "g")
@example("abab", "a**", "-", "g")
def test_the_results_are_those_of_duckdb(sql, duck, text, pattern, replacement, flags):
    try:
        result = sql(CALL, text, pattern, replacement, flags)
    except apsw.SQLError:
        result = "error"
    assert result == duck(text, pattern, replacement, flags)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("a-b-c", "-", "+"), "a+b-c"),
        (("a-b-c", "-", "+", "g"), "a+b+c"),
        (("abc", "(b)", r"[\1\\]"), r"a[b\]c"),
        (("2024-03-05", r"(\d{4})-(\d{2})-(\d{2})", r"\3.\2.\1"), "05.03.2024"),
        (("x" * 5000 + " y", r"\s+", "_", "g"), "x" * 5000 + "_y"),
        (("É", "é", "x", "i"), "x"),
        (("a\nb", "a.b", "x"), "a\nb"),
        (("a\nb", "a.b", "x", "s"), "x"),
        (("a\0b", r"\x00", "-"), "a-b"),
        ((12.5, r"\.", ","), "12,5"),
        ((1e100, "e", "E"), "1.0E+100"),
        (("b", "b|(c)", r"<\1>"), "<>"),
        (("", "", "x", "g"), "x"),
        (("ab", "", "-", "g"), "-a-b-"),
        ((None, "a", "b"), None),
        (("a", None, "b"), None),
        (("a", "a", None), None),
        (("a", "a", "b", None), None),
    ],
)
def test_results(sql, arguments, expected):
    marks = ", ".join("?" * len(arguments))
    assert sql(f"SELECT regexp_replace({marks})", *arguments) == expected


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("(", "missing )"), ("(?=a)", "invalid perl operator"), (r"(a)\1", "invalid escape sequence"),
     ("a{1001}", "invalid repetition size"), ("(?:a{1000}){1000}", "invalid repetition size"),
     (r"\pL{1000}", "pattern too large"), (r"(?:\pL{1,500}x)+", "pattern too large"),
     ("a" * 4097, "limited to 4,096 characters"), ("(a)" * 31, "limited to 30 groups: write (?:...)")],
)  # fmt: skip
def test_patterns_that_are_refused(sql, pattern, reason):
    with pytest.raises(apsw.SQLError, match=re.escape(reason)):
        sql(CALL, "aa", pattern, "", "")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [(("a", "a", r"\1", ""), r"has \1, which is not a group"), (("a", "a", "x\\", ""), "has \\, which is not a group"),
     (("a", "a", r"\n", ""), r"has \n, which is not a group"), (("b", "a", r"\2", ""), r"has \2, which is not a group"),
     (("a", "a", "", "m"), "not 'm'"), ((b"a", "a", "", ""), "not a BLOB")],
)  # fmt: skip
def test_other_errors(sql, arguments, reason):
    with pytest.raises(apsw.SQLError, match=re.escape(reason)):
        sql(CALL, *arguments)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*$", "(a|aa)+$", "(a*)*$", "(.*a){20}", ".*.*.*x", "(a?){50}a{50}", "(?:a+b?)*c"]
)
def test_patterns_on_which_other_engines_run_for_hours(sql, pattern):
    assert sql(CALL, "a" * 2499 + "b", pattern + "Z", "", "g") == "a" * 2499 + "b"


def test_the_product_of_the_sizes_is_limited(sql):
    """Without a limit, such a search takes minutes."""
    with pytest.raises(apsw.SQLError, match=r"^regexp_replace\(\) takes 996 bytes for the pattern 'a+', not 10,000:"):
        sql(CALL, "ab" * 5000, "a" * 1000, "", "g")


def test_a_stopped_statement_ends_between_two_searches():
    checks = []

    def stopped():
        checks.append(None)
        return len(checks) > 100

    with closing(apsw.Connection(":memory:")) as connection:
        functions.install(connection, stopped)
        with pytest.raises(apsw.InterruptError):
            connection.execute(CALL, ("ab" * 50_000, "a", "", "g")).get  # noqa: B018
    assert len(checks) == 101


def test_a_result_is_not_larger_than_a_value_may_be():
    """It is refused after the first pieces that are too large, not after all of them."""
    searches = []
    with closing(apsw.Connection(":memory:")) as connection:
        functions.install(connection, lambda: searches.append(None))
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, 10_000)
        with pytest.raises(apsw.TooBigError):
            connection.execute(CALL, ("a" * 1000, "a", "b" * 1000, "g")).get  # noqa: B018
    assert len(searches) < 20


def test_no_table_needs_it_to_be_read(db):
    db.run("CREATE TABLE t(d)")
    answer = db.post(execute("CREATE INDEX i ON t(regexp_replace(d, 'a', 'b'))"), CLOSE)
    assert "non-deterministic functions prohibited" in answer.error()["message"]


def test_the_engine_is_loaded_by_the_first_call():
    program = """
import sys, apsw
from pipemagic.service.sqlite import functions
connection = apsw.Connection(":memory:")
functions.install(connection)
assert "re2" not in sys.modules
connection.execute("SELECT regexp_replace('a', 'a', 'b')").get
assert "re2" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_without_the_engine_the_error_names_the_package(sql, monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(apsw.SQLError, match=r"pip install google-re2"):
        sql("SELECT regexp_replace('a', 'a pattern that is not compiled yet', 'b')")
